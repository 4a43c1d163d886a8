"""A cluster on disk: made whole or not at all, owned by one user, and configured anew at each start."""

import os
import shutil
import subprocess
from pathlib import Path

from memlane.embedded.binaries import Binaries
from memlane.embedded.faults import DataFolderUnusable, EmbeddedPostgresFailed, OtherMajorVersion
from memlane.embedded.identity import Identity
from memlane.embedded.socket_folder import PORT

SUPERUSER = "memlane"
"""The only role. Who may enter the socket folder is this role."""

_INITDB_SECONDS = 120.0
_BUILTIN_LOCALES_SINCE = 17
"""First major version with the builtin locale provider, which needs nothing of the operating system."""

_SETTINGS = """\
# Written by memlane at each start: changes made here are lost.
# To change a setting for good, use ALTER SYSTEM.
listen_addresses = ''
port = {port}
unix_socket_directories = '{socket_folder}'
unix_socket_permissions = 0700
max_connections = 100

shared_buffers = '128MB'
jit = off
# Parallel plans and index builds need shared memory beyond the 64 MB that a container has by default.
max_parallel_workers_per_gather = 0
max_parallel_maintenance_workers = 0

fsync = {durable}
full_page_writes = {durable}

# No user's text may reach the log. An error's message can quote a value, and its detail a row or a whole
# statement: only messages about the server itself are logged (log ranks above error), without details.
log_destination = 'stderr'
logging_collector = off
log_min_messages = log
log_error_verbosity = terse
log_statement = 'none'
log_min_error_statement = panic
log_min_duration_statement = -1
log_min_duration_sample = -1
log_transaction_sample_rate = 0
log_parameter_max_length = 0
log_parameter_max_length_on_error = 0
log_duration = off
log_lock_waits = off
log_checkpoints = off
log_connections = off
log_disconnections = off
log_autovacuum_min_duration = -1
log_temp_files = -1
log_line_prefix = '%m [%p] '

timezone = 'UTC'
log_timezone = 'UTC'
datestyle = 'iso, ymd'
lc_messages = 'C'
"""

_ACCESS = """\
# Written by memlane at each start. The socket lies in a folder of mode 0700: who can reach it is the owner.
# There is no line for TCP, and the server listens on none.
local all all trust
"""


def check_version(cluster: Path, binaries: Binaries) -> None:
    """Make sure that these binaries can open this cluster, when there is one.

    Raises:
        OtherMajorVersion: It was made by another major version.
        DataFolderUnusable: It is no cluster.
    """
    if not cluster.exists():
        return
    try:
        made_by = (cluster / "PG_VERSION").read_text(encoding="ascii").strip()
    except OSError as fault:
        raise DataFolderUnusable(
            f"{cluster} is not a readable Postgres folder ({fault.strerror}). "
            "Move it away, or choose another --data-dir."
        ) from fault
    if made_by != str(binaries.version):
        raise OtherMajorVersion(
            f"{cluster} was made by Postgres {made_by}, and this is Postgres {binaries.version}. Nothing was "
            f"changed. To keep the data, start it once with Postgres {made_by}, run memlane export, and "
            "import into a new --data-dir; to begin anew, choose another --data-dir."
        )


def create(cluster: Path, binaries: Binaries, creator: Identity, *, durable: bool) -> None:
    """Make a cluster. It appears under its name only when it is complete, so a kill leaves none behind.

    Raises:
        EmbeddedPostgresFailed: initdb failed; its words are in the message.
    """
    partial = cluster.with_name(f"{cluster.name}.partial")
    words = [
        *(binaries.initdb, f"--pgdata={partial}", f"--username={SUPERUSER}"),
        *("--auth=trust", "--encoding=UTF8", "--no-instructions"),
        *(() if durable else ("--no-sync",)),
    ]
    for locale in _locales(binaries):
        _discard(partial)
        partial.mkdir(mode=0o700)
        if os.geteuid() == 0:
            os.chown(partial, creator.owner, creator.group)
        try:
            code, printed = creator.run([*words, *locale], _INITDB_SECONDS)
        except (OSError, subprocess.SubprocessError) as fault:
            raise EmbeddedPostgresFailed(f"initdb could not run: {fault}") from fault
        if code == 0:
            partial.rename(cluster)
            if durable:
                _sync(cluster.parent)
            return
    _discard(partial)
    raise EmbeddedPostgresFailed(f"initdb could not make {cluster}: {printed.strip()[-1000:]}")


def own(cluster: Path, identity: Identity) -> int:
    """Hand a stopped cluster to the user that will serve it, and give the id of its owner before.

    Only root can, and only root needs to.
    """
    found = cluster.lstat()
    if os.geteuid() or (found.st_uid, found.st_gid) == (identity.owner, identity.group):
        return found.st_uid
    # The top folder comes last: when this is cut short, the next start does it again.
    for folder, folders, files in os.walk(cluster, topdown=False):
        for name in (*folders, *files):
            os.chown(Path(folder, name), identity.owner, identity.group, follow_symlinks=False)
    os.chown(cluster, identity.owner, identity.group)
    return found.st_uid


def configure(cluster: Path, socket_folder: Path, identity: Identity, *, durable: bool) -> None:
    """Write the settings and the access rules of the next start."""
    settings = _SETTINGS.format(port=PORT, socket_folder=socket_folder, durable="on" if durable else "off")
    for name, text in (("postgresql.conf", settings), ("pg_hba.conf", _ACCESS)):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(cluster / name, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            if os.geteuid() == 0:
                os.fchown(file.fileno(), identity.owner, identity.group)


def _locales(binaries: Binaries) -> tuple[tuple[str, ...], ...]:
    # Letters of every script have case and class, and order is by code point on every machine.
    if binaries.version >= _BUILTIN_LOCALES_SINCE:
        return (("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),)
    return ("--locale=C.UTF-8",), ("--locale=C",)  # the first is missing on macOS


def _discard(partial: Path) -> None:
    if partial.exists():
        shutil.rmtree(partial)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
