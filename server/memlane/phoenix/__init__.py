"""The server side of Phoenix channels, protocol version 2, as a pure state machine.

Contract:
    Text frames and the caller's decisions go in; frames to send and effects to carry out come back, in
    order. Nothing here does I/O, waits, logs or reads a clock: the time is handed in as ``now``, in
    seconds of any monotonic clock. Nothing raises into the pump: each fault of the other side is one
    ``Close`` with a code of `close_codes`. After a ``Close`` nothing more comes out, whatever goes in.

Concurrency:
    One `Connection` belongs to one socket and to one task at a time. It holds no lock and shares nothing.

Bounds:
    At most 100 topics for each connection, those still joining included; a frame has at most 64 KiB, a
    ref 255 characters, a topic's code 128. How many frames a second are taken is the endpoint's matter.

Invariants:
    - A reply carries the ``ref`` of the frame that it answers, unchanged.
    - ``phx_close`` never carries the ``join_ref`` of a current join, unless it answers ``phx_leave``, and
      ``phx_error`` is never sent: the stock client would go deaf and show "connected" for ever. Whoever
      wants a client to come back closes the socket.
    - Close code 1000 is never used: phoenix 1.8.4 would never reconnect.

Modules: `frames` (text to frame and back), `topics` (which topics exist), `close_codes`, `effects` (what
comes out), `protocol` (the state machine). May import the standard library's pure parts and orjson.
"""
