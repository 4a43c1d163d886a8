"""A PgBouncer of a test's own, in transaction mode before a test server, which may be killed and started again."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from memlane.embedded import socket_folder
from memlane.embedded.postgres import EmbeddedPostgres
from support.service import free_port

START_SECONDS = 10.0
POOL_SIZE = 4
"""Sessions that it opens to one database; a service's own pool is larger, so that its transactions share them."""

# No start-up parameter is ignored, and no session is reset: as installed, but for what docs/install.md says to set.
_SETTINGS = """\
[databases]
* = host={server} port={server_port} user=memlane

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {pool_size}
server_login_retry = 1
"""


class PgBouncer:
    """One pooler; it runs as whoever may enter the server's folder, for it refuses to run as root."""

    def __init__(self, folder: Path, server: EmbeddedPostgres) -> None:
        self.port = free_port()
        self._user: dict[str, Any] = {}
        self._log = folder / "pgbouncer.log"
        self._settings = folder / "pgbouncer.ini"
        self._settings.write_text(
            _SETTINGS.format(
                server=server.socket_folder, server_port=socket_folder.PORT, port=self.port, pool_size=POOL_SIZE
            )
        )
        if os.geteuid() == 0:
            owner = server.socket_folder.stat()
            self._user = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
            for path in (folder, self._settings):
                os.chown(path, owner.st_uid, owner.st_gid)
        self._process: subprocess.Popen[bytes] | None = None

    def dsn(self, direct: str) -> str:
        """The connection string of the same database through the pooler."""
        name = direct.partition("@/")[2].partition("?")[0]
        return f"postgresql://memlane@127.0.0.1:{self.port}/{name}"

    async def start(self) -> None:
        """Start, and return when it listens."""
        # Debian keeps it where only root looks.
        program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            raise RuntimeError("pgbouncer is missing: sudo apt-get install pgbouncer")
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [program, self._settings], stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._user
            )
        async with asyncio.timeout(START_SECONDS):
            while not await self._listens():
                if self._process.poll() is not None:
                    raise RuntimeError(f"pgbouncer ended: {self._log.read_text()}")
                await asyncio.sleep(0.02)

    async def kill(self) -> None:
        """SIGKILL: every connection through it ends."""
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.wait, 10)
            self._process = None

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True


@asynccontextmanager
async def pgbouncer(server: EmbeddedPostgres) -> AsyncIterator[PgBouncer]:
    """Lend a running pooler before a running server."""
    folder = Path(tempfile.mkdtemp(prefix="memlane-pgbouncer-"))
    pooler = PgBouncer(folder, server)
    try:
        await pooler.start()
        yield pooler
    finally:
        await pooler.kill()
        shutil.rmtree(folder)
