"""The console of `memlane dev`: its page, and a backend for it that keeps the runtime key off the browser.

For loopback alone. A page of another site must not reach it, whatever name it gives this machine: the Host must
be ours (DNS rebinding), an Origin that is sent must be ours, and each call needs a header of its own, which no page
of another site may send without asking first.
"""

import mimetypes
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from memlane.rest.bodies import encode
from memlane.rest.door import Operation, PathDoor

BFF_PATH = "/console/api"
USER_HEADER = "x-console-user"
_DROPPED = ("authorization", "x-cpki-user-id", "x-cpki-memory-grant", USER_HEADER)
_MISSING = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Memlane console</title>
<body style="font:16px/1.6 system-ui;max-width:38rem;margin:4rem auto;padding:0 1.5rem">
<h1>The console is not built</h1>
<p>The API is up: <a href="/api/docs">its reference</a>. The console needs Node 20 or later:</p>
<pre>sudo apt-get install nodejs npm
make console</pre><p>Then start <code>make dev</code> again.</p></body></html>"""


@dataclass(frozen=True, slots=True)
class Console:
    """What the console works with.

    Attributes:
        runtime_key: Sent on behalf of the page; never to the page.
        port: The only port that a Host or an Origin may name.
        folder: The built page; when it is not there, a page says how to build it.
    """

    runtime_key: str = field(repr=False)
    port: int
    folder: Path

    def is_ours(self, headers: Headers) -> bool:
        """Whether Host, and Origin where it is sent, name this machine's loopback."""
        hosts = {f"{name}:{self.port}" for name in ("127.0.0.1", "localhost")}
        origin = headers.get("origin")
        return headers.get("host") in hosts and (origin is None or origin in {f"http://{host}" for host in hosts})


def console_routes(console: Console, api: list[BaseRoute]) -> list[BaseRoute]:
    """The page and its backend.

    Args:
        console: See there.
        api: The routes that the backend forwards to.
    """
    files = _files(console.folder)
    routes: list[BaseRoute] = [Mount(BFF_PATH, _Backend(console, Router(api)))]
    for path, (body, media_type) in files.items():
        page = _File(console, body, media_type)
        routes.append(Route(path, PathDoor(path, {"GET": Operation(page.read)})))
    return routes


def _files(folder: Path) -> dict[str, tuple[bytes, str]]:
    """The built files by path, read once; the page itself at `/`."""
    if not (folder / "index.html").is_file():
        return {"/": (_MISSING.encode(), "text/html")}
    found = {}
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            path = "/" if file.name == "index.html" else f"/{file.relative_to(folder).as_posix()}"
            found[path] = (file.read_bytes(), mimetypes.guess_type(file.name)[0] or "application/octet-stream")
    return found


@dataclass(frozen=True, slots=True)
class _File:
    console: Console
    body: bytes
    media_type: str

    async def read(self, request: Request) -> Response:
        """GET of the file."""
        if not self.console.is_ours(request.headers):
            return _refused()
        headers = {
            "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
            f"connect-src 'self' ws://127.0.0.1:{self.console.port} ws://localhost:{self.console.port}; "
            "base-uri 'self'; form-action 'none'; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",
        }
        return Response(self.body, media_type=self.media_type, headers=headers)


@dataclass(frozen=True, slots=True)
class _Backend:
    console: Console
    api: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        user = headers.get(USER_HEADER)
        if scope["type"] != "http" or not self.console.is_ours(headers) or user is None:
            await _refused()(scope, receive, send)
            return
        forwarded = MutableHeaders(
            raw=[(name, value) for name, value in scope["headers"] if name.decode("latin-1") not in _DROPPED]
        )
        forwarded["authorization"] = f"Bearer {self.console.runtime_key}"
        raw = [*forwarded.raw, (b"x-cpki-user-id", unquote(user).encode())]
        path = "/api" + scope["path"].removeprefix(scope.get("root_path", "")).removeprefix(BFF_PATH)
        inner = {**scope, "path": path, "raw_path": path.encode(), "root_path": "", "headers": raw}
        await self.api(inner, receive, send)


def _refused() -> Response:
    error = {"error": {"code": "FORBIDDEN", "message": "The console answers only its own page on this machine."}}
    return Response(encode(error), status_code=403, media_type="application/json")
