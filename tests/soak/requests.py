"""Requests as a caller behind a balancer sends them: to the next process when one is gone, under the same key."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

from support.service import headers_of

LIMIT_SECONDS = 15.0
"""What the published runtime waits for an answer."""
TRY_SECONDS = 6.0
PAUSE_SECONDS = 0.1
_AGAIN = frozenset({429, 502, 503, 504})


class Unanswered(Exception):
    """There was no answer within the limit."""


@dataclass
class Requests:
    """Sends requests and remembers how long they took.

    Attributes:
        key: Runtime key.
        apis: Where the processes are now.
        seconds: Of each request, from its first try to its answer.
        retries: Tries after a first one.
        unanswered: Requests that were given up.
    """

    key: str
    apis: Callable[[], list[str]]
    client: httpx.AsyncClient
    seconds: list[float] = field(default_factory=list)
    retries: int = 0
    unanswered: int = 0
    _turn: int = 0

    async def send(self, method: str, path: str, user: str, body: dict[str, Any] | None) -> Any:
        """Send until there is an answer.

        Raises:
            Unanswered: There is none within `LIMIT_SECONDS`, or it is a refusal.
        """
        headers = headers_of(self.key, user)
        if method in {"POST", "PATCH"} and path != "/api/memories/subscribe":
            headers["Idempotency-Key"] = uuid4().hex
        began = time.monotonic()
        self.retries -= 1
        said = "no try"
        while (left := began + LIMIT_SECONDS - time.monotonic()) > 0:
            self.retries += 1
            urls = self.apis()
            self._turn += 1
            url = urls[self._turn % len(urls)]
            try:
                answer = await self.client.request(
                    method, url + path, headers=headers, json=body, timeout=min(TRY_SECONDS, left)
                )
            except httpx.TransportError as fault:
                said = type(fault).__name__
            else:
                said = f"{answer.status_code} {answer.text[:200]}"
                if answer.is_success:
                    self.seconds.append(time.monotonic() - began)
                    return answer.json() if answer.content else None
                if answer.status_code not in _AGAIN:
                    break
            await asyncio.sleep(PAUSE_SECONDS)
        self.unanswered += 1
        raise Unanswered(f"{method} {path}: {said}")
