"""The speed of the service beside its floor: what `memlane bench` runs.

The *floor* is what no service on these parts can beat: the statements of `storage/queries` over a bare asyncpg
pool, and the same embedding call. The *service* is a `memlane api` process, asked over HTTP. Both work on one
database, on the same requests, in turns, so that what else the machine does falls on both alike.

The rooms: `corpus` invents the texts, `deployment` makes the database and starts the service, `rounds` times a
closed loop of clients, `floor` and `service` are its two sides, `workers` gives each side a process of its own,
`report` makes the numbers into a table. What is measured and how is told in docs/benchmarks.md.
"""
