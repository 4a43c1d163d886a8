"""As whom Postgres runs. It refuses user id 0, so that root has to lend it another identity.

For an ordinary user there is nothing to choose. For root the first of these that can reach both the binaries
and the data folder is taken; each is tried by a small child process, not guessed from modes:

1. `setuid`: a user id that nobody else uses (or the owner of the data folder, when that is not root).
   It can do least, but cannot pass a folder of mode 0700 such as /root.
2. `search`: the same user id, which keeps one capability, CAP_DAC_READ_SEARCH, to pass such folders.
3. `namespace`: root's own files, seen from a user namespace in which root has another number. Needs no
   capability, and files stay root's.
4. `override`: the same as 2 with CAP_DAC_OVERRIDE, which containers have by default while they lack 2 and
   forbid 3.

initdb also wants a *name* for its user id, which the id of 1 has not. It therefore runs as `nobody`, in a
folder that only our group can enter, and the finished cluster is handed over.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from memlane.embedded.binaries import CHILD_ENVIRONMENT, Binaries
from memlane.embedded.faults import NoIdentity

_FIRST_UID = 59432
"""Outside what Debian, Fedora and systemd hand out by themselves (uid 1000 to 59999 goes up from below), and
under 65536, which is all that a rootless container has."""
_PROBE_SECONDS = 10.0

# pg_config stands for all the programs: like them, and unlike --version, it has to find itself.
_PROBE = """
[ "$(id -u)" -ne 0 ] && cd -- "$1" && : > probe && read -r _ < "$2" && "$3" --version && exec "$4" --bindir
"""


@dataclass(frozen=True, slots=True)
class Identity:
    """How a child of ours is started so that Postgres accepts it.

    Attributes:
        name: For messages and tests.
        owner: User id that owns the child's files, as the file system has it.
        group: Group id of these files.
        prefix: Words before the command.
        drops: The child is started under `owner` and `group` by the operating system.
    """

    name: str
    owner: int
    group: int
    prefix: tuple[str, ...] = ()
    drops: bool = False

    def spawn(
        self, command: list[str], *, stdin: int, output: int, environment: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own, so that a terminal's Ctrl-C reaches only us."""
        return subprocess.Popen(  # noqa: S603 - our own words and paths
            [*self.prefix, *command],
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={**CHILD_ENVIRONMENT, **(environment or {})},
            start_new_session=True,
            umask=0o077,
            user=self.owner if self.drops else None,
            group=self.group if self.drops else None,
            extra_groups=() if self.drops else None,
        )

    def run(self, command: list[str], seconds: float) -> tuple[int, str]:
        """Run a command to its end; give its exit code and all it printed.

        Raises:
            subprocess.TimeoutExpired: It was killed after this many seconds.
            OSError: It could not be started.
        """
        with self.spawn(command, stdin=subprocess.DEVNULL, output=subprocess.PIPE) as child:
            try:
                printed, _ = child.communicate(timeout=seconds)
            except BaseException:
                child.kill()
                raise
            return child.returncode, printed.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Identities:
    """Who serves, and who makes the cluster."""

    serve: Identity
    create: Identity


def choose(binaries: Binaries, data_dir: Path, cluster: Path) -> Identities:
    """Pick the identities for a data folder (absolute, existing) and its cluster, which may not exist yet.

    Raises:
        NoIdentity: None works; the message says what to type.
    """
    names = _user() if os.geteuid() else _root(data_dir, cluster)
    fresh = not cluster.exists()
    for pair in names:
        if _works(pair.serve, binaries, data_dir) and (
            not fresh or pair.create == pair.serve or _works(pair.create, binaries, data_dir)
        ):
            return pair
    raise NoIdentity(_advice(binaries, data_dir))


def _user() -> Iterator[Identities]:
    me = Identity("user", os.geteuid(), os.getegid())
    if _is_named(me.owner):
        yield Identities(me, me)
    else:
        yield Identities(me, _in_namespace(me))


def _root(data_dir: Path, cluster: Path) -> Iterator[Identities]:
    uid, gid = _tenant(data_dir, cluster)
    creator = uid if _is_named(uid) else _a_named_uid()
    _let_pass(data_dir, gid)

    yield Identities(
        Identity("setuid", uid, gid, drops=True),
        Identity("setuid", creator, gid, drops=True),
    )
    for name, capability in (("search", "dac_read_search"), ("override", "dac_override")):
        if name == "override":
            inside = _in_namespace(Identity("root", 0, 0))
            yield Identities(inside, inside)
        yield Identities(
            Identity(name, uid, gid, _with_capability(uid, gid, capability)),
            Identity(name, creator, gid, _with_capability(creator, gid, capability)),
        )


def _with_capability(uid: int, gid: int, capability: str) -> tuple[str, ...]:
    only = f"-all,+{capability}"
    return (
        "setpriv",
        f"--reuid={uid}",
        f"--regid={gid}",
        "--clear-groups",
        "--no-new-privs",
        # Without this bit access(2), by which Postgres looks for its own program, ignores the capability.
        "--securebits=+no_setuid_fixup",
        f"--inh-caps={only}",
        f"--ambient-caps={only}",
        f"--bounding-set={only}",
        "--",
    )


def _in_namespace(outside: Identity) -> Identity:
    seen = _a_named_uid()
    return Identity(
        "namespace",
        outside.owner,
        outside.group,
        ("unshare", "--user", f"--map-user={seen}", f"--map-group={seen}", "--"),
    )


def _tenant(data_dir: Path, cluster: Path) -> tuple[int, int]:
    # Whoever owns the data keeps it, so that a run as root does not lock its owner out.
    with suppress(FileNotFoundError):
        found = cluster.lstat()
        if found.st_uid:
            return found.st_uid, found.st_gid
    found = data_dir.stat()
    if found.st_uid:
        with suppress(KeyError):
            return found.st_uid, pwd.getpwuid(found.st_uid).pw_gid
        return found.st_uid, found.st_gid
    uid = _FIRST_UID
    while _is_named(uid):
        uid -= 1
    return uid, uid


def _let_pass(data_dir: Path, gid: int) -> None:
    # Root's private folder (0700) becomes 0710 for a group that has no members but the server.
    found = data_dir.stat()
    if found.st_uid == 0 and not found.st_mode & 0o011:
        with suppress(OSError):
            os.chown(data_dir, -1, gid)
            data_dir.chmod(0o710)


def _is_named(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _a_named_uid() -> int:
    with suppress(KeyError):
        return pwd.getpwnam("nobody").pw_uid
    return next((entry.pw_uid for entry in pwd.getpwall() if entry.pw_uid), _FIRST_UID)


def _works(identity: Identity, binaries: Binaries, data_dir: Path) -> bool:
    place = Path(tempfile.mkdtemp(prefix=".probe-", dir=data_dir))
    try:
        if os.geteuid() == 0:
            os.chown(place, identity.owner, identity.group)
        words = ["/bin/sh", "-c", _PROBE, "probe", str(place)]
        words += [binaries.catalog, binaries.postgres, binaries.pg_config]
        code, _ = identity.run(words, _PROBE_SECONDS)
    except (OSError, subprocess.SubprocessError):
        return False
    else:
        return code == 0
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _advice(binaries: Binaries, data_dir: Path) -> str:
    uid, gid = os.geteuid(), os.getegid()
    if uid:
        return (
            f"User id {uid} has no name on this machine, or cannot run {binaries.postgres}; initdb wants "
            f"both. Give it a name, as root: echo 'memlane:x:{uid}:{gid}::/tmp:/bin/false' >> /etc/passwd"
        )
    return (
        f"Postgres refuses to run as root, and no other identity can reach both {data_dir} and "
        f"{binaries.root}. Do one of these: start memlane as an ordinary user; choose a data folder that "
        "other users can enter, such as --data-dir /var/lib/memlane, with memlane installed outside /root; "
        "or, in a container, allow it one capability: docker run --cap-add DAC_READ_SEARCH"
    )
