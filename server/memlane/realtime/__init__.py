"""The live stream: a Phoenix gateway that loses nothing.

    endpoint  one upgrade, then the pump of one socket        -> sessions, client
    client    one socket: its protocol state and subscriptions -> wire, hub
    hub       first deliveries in order of seq, catching up, what fences send again
    feed      a channel that has subscribers here, and the frames of its events
    fanout    hints between processes: within one, or over Redis
    sessions  may this token's socket open, and may it go on
    wire      the socket's own bytes: one encoded frame serves every subscriber

Concurrency: everything runs in one event loop. What is not `async` never waits, so a broadcast is atomic.
Life cycle: `app` builds the parts and starts their loops under the supervisor; `hub.close_all` ends every socket.

Invariants:
1. A subscription's ``position`` is the seq up to which its socket was handed every change; it never goes up
   without the frames being handed over, and it goes down only when frames were dropped.
2. A feed's ``last`` is the seq up to which every live subscription was served.
3. First deliveries grow in seq. What is sent again carries the row's present state.
4. Whatever a hint may lose, the sweep finds within 2 s.

Imports: use cases' ports and the domain; never storage, auth or rest.
"""
