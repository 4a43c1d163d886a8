"""What the URL and the key of a model's service must be: pure, and one rule for embedder, judge and reranker.

A reason is a phrase that follows the setting's name. It never quotes a value: a URL may carry a password.
"""

import re
from typing import Final

import httpx

from memlane.domain.errors import Misconfigured

_MAX_PORT: Final = 65_535
_KEY: Final = re.compile(r"[\x21-\x7e]+")


def read_endpoint(text: str) -> httpx.URL:
    """Read a service's base URL.

    Raises:
        Misconfigured: It is not an http or https one, names no host or no port that there is, or carries a password.
    """
    try:
        url = httpx.URL(text.strip())
    except (httpx.InvalidURL, UnicodeError):
        # Not chained: the error quotes the URL.
        raise Misconfigured("is not a URL") from None
    # httpx escapes what no host name can hold.
    if url.scheme not in {"http", "https"} or not url.host or "%" in url.host:
        raise Misconfigured("must start with http:// or https:// and name a host")
    if url.port is not None and not 1 <= url.port <= _MAX_PORT:
        raise Misconfigured(f"must have a port from 1 to {_MAX_PORT}")
    if url.userinfo:
        raise Misconfigured("carries credentials; give them as the API key instead")
    return url


def check_api_key(key: str) -> None:
    """Whether a header can carry the key. Checked early, because the HTTP library would quote one that it cannot send.

    Raises:
        Misconfigured: It cannot.
    """
    if _KEY.fullmatch(key) is None:
        raise Misconfigured("has characters that a header cannot carry")
