"""The Postgres that `memlane dev` brings along: one server, for one data folder, owned by one process.

Life cycle: `start` takes the data folder's lock, takes over what an earlier run left behind, makes the
cluster when there is none, and returns when the database answers. `stop` shuts the server down and gives the
lock back. Both can be called again; each wait inside has a bound.

Invariants:

- Never two servers on one cluster. The lock (flock) is the process's and vanishes with it, also after
  SIGKILL; a server that outlived its process is stopped before a new one starts.
- The server ends with its process. It runs under a small shell, the leash, which holds the read end of a
  pipe; when our end closes, for whatever reason, the leash asks the server for a fast shutdown. (A
  parent-death signal would be bound to the *thread* that forked, which is a short-lived one here.)
- No TCP port. The only way in is a Unix socket in a folder of mode 0700.
- What was acknowledged is on disk (`fsync` on), unless `durable=False` was asked for.

The data folder holds: `postgres/` the cluster, `run/` the socket, `postgres.log` and `postgres.log.1` the
logs of this and the previous start, `lock`.

Concurrency: methods of one object may be called from one event loop at a time.
"""

import asyncio
import fcntl
import os
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self
from urllib.parse import quote, urlencode

import asyncpg

from memlane.embedded import cluster as clusters
from memlane.embedded import identity, postmaster, socket_folder
from memlane.embedded.binaries import PostgresVersion, locate
from memlane.embedded.faults import DataFolderInUse, DataFolderUnusable, EmbeddedPostgresFailed

DEFAULT_VERSION: PostgresVersion = 18
"""The newest that the wheel bundles, and the one whose locale provider needs nothing of the system."""
START_SECONDS = 60.0
"""Longest wait for a server to accept connections, recovery from its write-ahead log included."""
_CONNECT_SECONDS = 5.0
_POLL_SECONDS = 0.01
_SHARED_MEMORY_IN_USE = "pre-existing shared memory block"

# The signal is sent until it is heard: a server that has only just been forked still ignores it.
_LEASH = """
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
{ read -r _ <&3; while kill -INT "$server"; do sleep 0.1; done; } 2>/dev/null &
watcher=$!
wait "$server"
code=$?
kill "$watcher" 2>/dev/null
exit "$code"
"""


class EmbeddedPostgres:
    """A Postgres server on a data folder, driven through the programs of the wheel.

    Args:
        data_dir: The folder. Made with mode 0700 when missing (0710 when root has to let the server in).
        version: Major version. A folder that another one made is refused, not converted.
        durable: False switches `fsync` off, for tests: killed processes still lose nothing, a power cut may.
        database: The database that `start` makes when it is missing.
        start_seconds: Longest wait for the server to accept connections.
    """

    def __init__(
        self,
        data_dir: Path,
        version: PostgresVersion = DEFAULT_VERSION,
        *,
        durable: bool = True,
        database: str = "memlane",
        start_seconds: float = START_SECONDS,
    ) -> None:
        self.data_dir = data_dir.expanduser().resolve()
        self.version = version
        self.durable = durable
        self.database = database
        self.cluster = self.data_dir / "postgres"
        self.log_path = self.data_dir / "postgres.log"
        self.socket_folder = socket_folder.choose(self.data_dir)
        self.identity: str | None = None
        self._start_seconds = start_seconds
        self._lock: IO[str] | None = None
        self._leash: subprocess.Popen[bytes] | None = None
        self._one_at_a_time = threading.Lock()
        self._abandoned = threading.Event()

    async def start(self) -> None:
        """Start the server, or take it over, and return when `database` accepts connections.

        Raises:
            DataFolderInUse: Another process works on the folder.
            DataFolderUnusable: The folder or the socket's folder is not ours.
            OtherMajorVersion: Another major version made the folder.
            NoIdentity: We are root, and no other identity can reach the files.
            EmbeddedPostgresFailed: The server did not come up; the message ends with its log.
        """
        self._abandoned.clear()
        try:
            await asyncio.to_thread(self._start)
            await self.ensure_database(self.database)
        except asyncio.CancelledError:
            # The thread sees this, undoes what it did, and ends soon; only then may the loop go.
            self._abandoned.set()
            await asyncio.to_thread(self._stop)
            raise
        except BaseException:
            await asyncio.to_thread(self._stop)
            raise

    async def stop(self) -> None:
        """Stop the server: fast, then immediate, then by a kill (10 s, 5 s, 5 s). Harmless when stopped."""
        await asyncio.to_thread(self._stop)

    async def __aenter__(self) -> Self:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _fault: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Stop."""
        await self.stop()

    def dsn(self, database: str | None = None) -> str:
        """Give the connection string of a database on this server, for asyncpg and for psql alike."""
        door = {"host": str(self.socket_folder), "port": socket_folder.PORT}
        where = urlencode(door, quote_via=quote, safe="/")
        return f"postgresql://{clusters.SUPERUSER}@/{quote(database or self.database, safe='')}?{where}"

    @property
    def running(self) -> bool:
        """The server runs, as far as its parent process knows."""
        return self._leash is not None and self._leash.poll() is None

    @property
    def pid(self) -> int | None:
        """Process id of the postmaster, while it runs."""
        return postmaster.leftover(self.cluster)

    async def died(self) -> None:
        """Return when the server is gone, by a crash or a stop. `start` may then be called again."""
        while self.running:  # noqa: ASYNC110 - another process ends; a waiting thread could not be cancelled
            await asyncio.sleep(0.2)

    async def ensure_database(self, name: str) -> None:
        """Make a database of this name, in UTF-8, when there is none."""
        connection = await asyncpg.connect(self.dsn("postgres"), timeout=_CONNECT_SECONDS, command_timeout=30)
        try:
            if await connection.fetchval("select true from pg_database where datname = $1", name) is None:
                quoted = '"' + name.replace('"', '""') + '"'
                await connection.execute(f"create database {quoted}")
        finally:
            await connection.close(timeout=_CONNECT_SECONDS)

    def _start(self) -> None:
        with self._one_at_a_time:
            if self.running or self._abandoned.is_set():
                return
            self._discard_leash()
            self._open_data_dir()
            self._take_lock()
            try:
                self._take_over()
            except BaseException:
                self._release()
                raise

    def _stop(self) -> None:
        with self._one_at_a_time:
            self._release()

    def _open_data_dir(self) -> None:
        try:
            if not self.data_dir.exists():
                self.data_dir.mkdir(mode=0o700, parents=True)
            found = self.data_dir.stat()
            if os.geteuid() and found.st_uid != os.geteuid():
                raise PermissionError(0, "it belongs to another user")
            # A folder that was there before us and holds other things keeps its mode: what is ours in it is
            # private by itself. One that is ours, or empty, is closed.
            ours = (self.data_dir / "lock").exists() or not any(self.data_dir.iterdir())
            if ours and found.st_mode & 0o067:
                self.data_dir.chmod(0o700)
        except OSError as fault:
            raise DataFolderUnusable(
                f"Cannot use {self.data_dir} as data folder: {fault.strerror}. Choose another --data-dir."
            ) from fault

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        path = self.data_dir / "lock"
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            lock = os.fdopen(os.open(path, flags, 0o600), "r+", encoding="ascii", errors="replace")
        except OSError as fault:
            raise DataFolderUnusable(f"Cannot open {path}: {fault.strerror}.") from fault
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            holder = lock.read(20).strip() or "unknown"
            lock.close()
            raise DataFolderInUse(
                f"Another memlane (process {holder}) works on {self.data_dir}. "
                f"Stop it (Ctrl-C there, or kill {holder}), or choose another folder: --data-dir <folder>"
            ) from fault
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._give(lock.fileno())
        self._lock = lock

    def _take_over(self) -> None:
        # The lock is ours, so that a server that still runs here has lost its process.
        left = postmaster.leftover(self.cluster)
        if left is not None:
            postmaster.stop(left, self.cluster)
        binaries = locate(self.version)
        clusters.check_version(self.cluster, binaries)
        who = identity.choose(binaries, self.data_dir, self.cluster)
        self.identity = who.serve.name
        if not self.cluster.exists():
            clusters.create(self.cluster, binaries, who.create, durable=self.durable)
        before = clusters.own(self.cluster, who.serve)
        socket_folder.prepare(self.socket_folder, who.serve.owner, who.serve.group, before)
        clusters.configure(self.cluster, self.socket_folder, who.serve, durable=self.durable)
        self._launch(binaries.postgres, who.serve)

    def _launch(self, program: str, who: identity.Identity) -> None:
        end = time.monotonic() + self._start_seconds
        while not self._came_up(program, who, end):
            # Workers of a killed postmaster end by themselves as soon as they look up from their work.
            if _SHARED_MEMORY_IN_USE not in self._log_tail():
                raise self._failed("did not start")
            time.sleep(0.25)

    def _came_up(self, program: str, who: identity.Identity, end: float) -> bool:
        before = postmaster.read_pid_file(self.cluster)
        # The old file's process id may by now be a stranger's. Postgres skips its test for a live process on
        # this id only, and still compares the shared memory that the file names.
        stale = {"PG_GRANDPARENT_PID": str(before.pid)} if before else {}
        with self._new_log() as log:
            self._leash = who.spawn(
                ["/bin/sh", "-c", _LEASH, "memlane-leash", program, "-D", str(self.cluster)],
                stdin=subprocess.PIPE,
                output=log.fileno(),
                environment=stale,
            )
        while self._leash.poll() is None:
            found = postmaster.read_pid_file(self.cluster)
            fresh = found is not None and (
                before is None or (found.inode, found.changed) != (before.inode, before.changed)
            )
            if fresh and found is not None and found.ready:
                return True
            if self._abandoned.is_set() or time.monotonic() > end:
                raise self._failed(f"is not ready after {self._start_seconds:.0f} s")
            time.sleep(_POLL_SECONDS)
        self._discard_leash()
        if time.monotonic() > end:
            raise self._failed("did not start")
        return False

    def _release(self) -> None:
        self._discard_leash()
        left = postmaster.leftover(self.cluster) if self._lock is not None else None
        if left is not None:
            postmaster.stop(left, self.cluster)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _discard_leash(self) -> None:
        if self._leash is None:
            return
        leash, self._leash = self._leash, None
        if leash.stdin is not None:
            leash.stdin.close()
        try:
            leash.wait(postmaster.FAST_SECONDS)
        except subprocess.TimeoutExpired:
            left = postmaster.leftover(self.cluster)
            if left is not None:
                postmaster.stop(left, self.cluster, fast=False)
            leash.kill()
            leash.wait()

    def _new_log(self) -> IO[bytes]:
        # Two files bound the log: only the server's own messages are in it, a few lines for each start.
        with suppress(FileNotFoundError):
            self.log_path.replace(self.log_path.with_name("postgres.log.1"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        log = os.fdopen(os.open(self.log_path, flags, 0o600), "wb")
        self._give(log.fileno())
        return log

    def _give(self, descriptor: int) -> None:
        # What root makes in a folder of somebody else stays usable to them.
        if os.geteuid() == 0:
            found = self.data_dir.stat()
            os.fchown(descriptor, found.st_uid, found.st_gid)

    def _failed(self, what: str) -> EmbeddedPostgresFailed:
        return EmbeddedPostgresFailed(f"Postgres {what}. {self.log_path} says:\n{self._log_tail()}")

    def _log_tail(self) -> str:
        try:
            return self.log_path.read_text(encoding="utf-8", errors="replace")[-2000:].strip()
        except OSError:
            return ""
