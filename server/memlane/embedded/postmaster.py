"""A server that an earlier run left behind: is it really one, and how it is made to stop.

`postmaster.pid` is never deleted here, whatever it says. Postgres compares the shared memory it names with
what is still attached, and so refuses to start beside worker processes that outlived their postmaster;
deleting the file would switch that guard off.
"""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from memlane.embedded.faults import EmbeddedPostgresFailed

FAST_SECONDS = 10.0
"""Longest wait for a fast shutdown, which writes a last checkpoint (at most the 128 MB of shared buffers).

Postgres 16 and 18 never end when the request meets the first moments of a recovery after a worker's crash."""
IMMEDIATE_SECONDS = 5.0
"""Longest wait for an immediate shutdown, and again for the kill after it. The next start recovers."""
_POLL_SECONDS = 0.02
_HAS_PROC = Path("/proc/self/cmdline").exists()

_PID_LINE, _STATUS_LINE = 0, 7


@dataclass(frozen=True, slots=True)
class PidFile:
    """What `postmaster.pid` says.

    Attributes:
        pid: Process id of the postmaster that wrote it, alive or not.
        ready: It accepts connections.
        inode: Of the file: each postmaster makes a new one.
        changed: Of the file, in nanoseconds.
    """

    pid: int
    ready: bool
    inode: int
    changed: int


def read_pid_file(cluster: Path) -> PidFile | None:
    """Read `postmaster.pid`; None when there is none, or when it is half written."""
    path = cluster / "postmaster.pid"
    try:
        status = path.stat()
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        pid = abs(int(lines[_PID_LINE]))
    except (OSError, ValueError, IndexError):
        return None
    ready = len(lines) > _STATUS_LINE and lines[_STATUS_LINE].strip() == "ready"
    return PidFile(pid, ready, status.st_ino, status.st_mtime_ns)


def is_postmaster(pid: int, cluster: Path) -> bool:
    """Tell whether this process is a live Postgres on this cluster, and not a stranger with a reused id."""
    try:
        words = _command_line(pid)
    except (OSError, subprocess.SubprocessError):
        return False
    if not words or not os.path.basename(words[0]).startswith(b"postgres"):  # noqa: PTH119 - bytes, not a path
        return False
    try:
        # A postmaster works in its data folder. This also holds for a folder that was moved since.
        return os.path.samestat(Path(f"/proc/{pid}/cwd").stat(), cluster.stat())
    except OSError:
        # Not Linux, or not ours to look at (in a container root may lack CAP_SYS_PTRACE).
        return os.fsencode(cluster) in words


def leftover(cluster: Path) -> int | None:
    """Give the process id of a postmaster that runs on this cluster, if one does."""
    found = read_pid_file(cluster)
    return found.pid if found is not None and is_postmaster(found.pid, cluster) else None


def stop(pid: int, cluster: Path, *, fast: bool = True) -> None:
    """Stop a postmaster: fast, then immediate, then by a kill; each wait has a bound.

    Nothing acknowledged is lost by any of them.

    Args:
        pid: Its process id.
        cluster: Its folder.
        fast: False when it was asked for a fast shutdown already, in vain.

    Raises:
        EmbeddedPostgresFailed: It belongs to another user, or survives all three.
    """
    steps = [(signal.SIGQUIT, IMMEDIATE_SECONDS), (signal.SIGKILL, IMMEDIATE_SECONDS)]
    for number, seconds in [(signal.SIGINT, FAST_SECONDS), *steps] if fast else steps:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        except PermissionError as fault:
            raise EmbeddedPostgresFailed(
                f"Postgres (process {pid}) still runs on {cluster} and belongs to another user. "
                f"Stop it: sudo kill -INT {pid}"
            ) from fault
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not is_postmaster(pid, cluster):
                return
            time.sleep(_POLL_SECONDS)
    raise EmbeddedPostgresFailed(f"Postgres (process {pid}) on {cluster} does not stop. Try: kill -9 {pid}")


def _command_line(pid: int) -> list[bytes]:
    if _HAS_PROC:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")  # empty for a zombie
    shown = subprocess.run(  # noqa: S603 - fixed words and a number
        ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)],
        capture_output=True,
        timeout=5,
        check=False,
    )
    head, _, folder = shown.stdout.strip().partition(b" -D ")
    return [head, folder] if folder else []
