"""The credential of an upgrade as a subprotocol, as the npm client `phoenix` sends its ``authToken``.

A browser can set no header on an upgrade, and it logs the URL of one that failed. The value of
``Sec-WebSocket-Protocol`` stands in no log: ``phoenix, base64url.bearer.phx.<token in base64>``.
"""

from base64 import b64decode
from collections.abc import Iterable

PHOENIX = "phoenix"
"""What is answered when it is offered: a browser ends a socket on which none of its offers was taken."""
_BEARER = "base64url.bearer.phx."


def bearer_tokens(subprotocols: Iterable[str]) -> list[str]:
    """The tokens that are offered as subprotocols; one that cannot be read is an empty text, which opens nothing."""
    return [_decoded(offered.removeprefix(_BEARER)) for offered in subprotocols if offered.startswith(_BEARER)]


def _decoded(text: str) -> str:
    standard = text.replace("-", "+").replace("_", "/")
    try:
        return b64decode(standard + "=" * (-len(text) % 4), validate=True).decode("ascii")
    except ValueError:
        return ""
