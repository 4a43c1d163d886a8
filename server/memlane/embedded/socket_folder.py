"""The private folder of the server's Unix socket.

The folder is the only lock on the door: inside it Postgres trusts every connection, so the folder has mode
0700 and belongs to the user that the server runs as (root, when it starts the server, walks through
regardless). It lies in the data folder. When the path of the socket would be too long for the kernel, or
holds a character that a connection string cannot, it lies under the temporary folder, at a name made from the
data folder.
"""

import os
import re
import stat
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

from memlane.embedded.faults import DataFolderUnusable

PORT = 5432
"""Not a TCP port: only part of the socket's file name."""
SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107
"""Longest path of a socket: `sun_path` (unix(7)) holds 104 bytes on macOS, 108 on Linux, with a final NUL."""

_PLAIN = re.compile(r"[A-Za-z0-9_./~+@-]+")


def fits(folder: Path) -> bool:
    """Tell whether a socket in this folder can be named to the kernel and in a connection string."""
    path = str(folder / f".s.PGSQL.{PORT}")
    return len(os.fsencode(path)) <= SOCKET_PATH_BYTES and _PLAIN.fullmatch(path) is not None


def choose(data_dir: Path) -> Path:
    """Name the folder for a data folder (absolute, resolved); the same one each time."""
    inside = data_dir / "run"
    if fits(inside):
        return inside
    name = f"memlane-{os.geteuid()}-{sha256(os.fsencode(data_dir)).hexdigest()[:16]}"
    for parent in (Path(tempfile.gettempdir()).resolve(), Path("/tmp").resolve()):  # noqa: S108 - see `prepare`
        if fits(parent / name):
            return parent / name
    raise DataFolderUnusable(f"No folder is short enough for a socket. Set TMPDIR to a short path; tried {name}.")


def prepare(folder: Path, owner: int, group: int, owner_before: int) -> None:
    """Make the folder, or check that nobody else made it, and hand it to the server's user.

    A folder that is there may belong to us, to the server's user, or to its user before this start.

    The folder is opened without following a link and checked by its descriptor, so that a link or folder that
    somebody put at this name in a shared temporary folder is refused and never changed.

    Raises:
        DataFolderUnusable: The name is taken by something that is not a folder of ours.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError as fault:
        raise DataFolderUnusable(f"Cannot make the socket folder {folder}: {fault.strerror}.") from fault
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as fault:
        raise _taken(folder) from fault
    try:
        found = os.fstat(descriptor)
        if found.st_uid not in {os.geteuid(), owner, owner_before}:
            raise _taken(folder)
        if (found.st_uid, found.st_gid) != (owner, group) and os.geteuid() == 0:
            os.fchown(descriptor, owner, group)
        if stat.S_IMODE(found.st_mode) != 0o700:  # noqa: PLR2004 - the mode this module is about
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def _taken(folder: Path) -> DataFolderUnusable:
    return DataFolderUnusable(
        f"{folder} is the place of the server's socket and belongs to somebody else. "
        f"Remove it (rm -r {folder}), or set TMPDIR to a folder of your own."
    )
