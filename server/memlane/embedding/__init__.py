"""Embedders: texts to unit vectors, behind the port `memlane.usecases.ports.Embedder`.

`local.LocalEmbedder` runs all-MiniLM-L6-v2 in this process; `openai_compatible.OpenAICompatibleEmbedder` asks
a text-embeddings-inference or OpenAI-compatible service. One suite, ``tests/contract/test_embedders.py``,
holds for both.

Concurrency: every method may be called from many tasks of one event loop at once. The local embedder
computes in one thread and gathers concurrent callers' texts into one run; the HTTP one keeps up to 8 requests
in flight.

Life cycle: construct, `probe` (as often as one likes, also while the service is down), embed, `aclose` once
at the end. Construction does no network I/O; of the local one it blocks for about 0.3 s. After `aclose`
every call fails. Neither has a background task: the local one's thread works only while there is work, and
if it dies, whoever waits is failed and the next call starts it again.

Bounds, and what happens at them (the outcome that `on_call` is told):
    one call              3 s, waiting and retries included                            ``timeout``
    local queue           512 texts waiting                                            ``busy``
    local run             32 texts, 1,024 padded tokens; the rest is the next run's
    a text                256 tokens locally, else the model's window; the rest is cut
    requests waiting      256                                                          ``busy``
    attempts              3 a request, on 408, 424, 429, 5xx and connection faults     ``error``
    failures in a row     5, then 2 s without a request, then one trial at a time      ``breaker_open``
    refused batch         halved down to single texts, a text four times               ``refused``
    answer                64 KiB and 32 bytes a number; more is not read               ``error``

Invariants: a returned vector is finite, of the space's dimension and of length 1, whatever the text. Vectors
of one text are equal whichever texts it was batched with, up to the provider's rounding. No error, log line
or representation carries a text, an answer or a key. Every failure of an embed call is an
`EmbedderUnavailable`; only `probe` and constructors raise `Misconfigured`.

Imports: `usecases.ports`, `domain`, and libraries; nothing of `storage`, `auth` or the doors.
"""
