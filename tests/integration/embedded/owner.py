"""A process that owns an embedded Postgres, saves notes, says so, and waits for its end.

Arguments: the data folder, the major version, and the number of notes. Prints one line of JSON.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import asyncpg

from memlane.embedded.binaries import PostgresVersion
from memlane.embedded.faults import EmbeddedPostgresFailed
from memlane.embedded.postgres import EmbeddedPostgres


async def own(data_dir: Path, version: PostgresVersion, notes: int) -> None:
    server = EmbeddedPostgres(data_dir, version)
    try:
        await server.start()
    except EmbeddedPostgresFailed as fault:
        say({"error": str(fault), "code": fault.code})
        return
    connection = await asyncpg.connect(server.dsn())
    await connection.execute("create table if not exists notes (n int)")
    for n in range(notes):
        await connection.execute("insert into notes values ($1)", n)
    leash = server._leash
    say(
        {
            "uid": os.geteuid(),
            "leash": leash.pid if leash else None,
            "postmaster": server.pid,
            "identity": server.identity,
            "dsn": server.dsn(),
        }
    )
    try:
        await asyncio.Event().wait()
    finally:
        await connection.close()
        await server.stop()


def say(words: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    # A shell ignores SIGINT for what it runs in the background, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asyncio.run(own(Path(sys.argv[1]), 16 if sys.argv[2] == "16" else 18, int(sys.argv[3])))
