"""One HTTP exchange with an embedding provider: time limits, retries, the breaker, bounded answers.

What is said in an error names the provider's origin and what happened, never a text, a header or an answer.
"""

import asyncio
import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import orjson

from memlane.embedding.breaker import CircuitBreaker
from memlane.embedding.endpoints import check_api_key
from memlane.embedding.outcomes import EmbedFailed
from memlane.observability.tracing import outgoing_headers

MAX_ATTEMPTS = 3
_BACKOFF_BASE = 0.1
_BACKOFF_CAP = 1.0
_CONNECT_SECONDS = 1.0
# An attempt ends a little before the call's own limit, so that its end is counted as the provider's failure.
_MARGIN_SECONDS = 0.02
_RETRIED_STATUSES = frozenset({408, 424, 429})  # 424: TEI's "inference failed"
_REFUSALS = frozenset({400, 413, 422})
_SERVER_ERROR = 500
_REDIRECT = 300
_CLIENT_ERROR = 400
_MAX_RETRY_AFTER = 3600


class InputRefused(EmbedFailed):
    """The provider does not take this input: too many texts, or too long a text."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message, outcome="refused")
        self.status = status


class NotOffered(EmbedFailed):
    """The provider answered that it has no such route for us (a redirect, or 4xx)."""


class UnusableAnswer(EmbedFailed):
    """The provider answered something that is not JSON, or too much of it."""


class _Retry(Exception):
    """This attempt failed in a way that may pass: a signal between two methods, never seen outside."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after


class Transport:
    """Asks one provider for JSON.

    Concurrency: for the tasks of one event loop. At most `max_connections` exchanges at a time; at most
    `max_waiting` wait for their turn, and one more fails at once with outcome ``busy``.

    Args:
        url: Any URL of the provider, as `read_endpoint` takes it; its origin names the provider in errors.
        api_key: Sent as a bearer token, if given. Never logged nor quoted.
        provider: What it is, for errors.
        max_connections: Exchanges at a time.
        max_waiting: Exchanges waiting for their turn.
        breaker: Counts every exchange; one that was answered, even by a refusal, is a success.
        transport: What carries the requests; None for the network.
        random_unit: Gives numbers from 0 to 1 for the jitter of retries.

    Raises:
        Misconfigured: The key is not a token.
    """

    def __init__(
        self,
        url: httpx.URL,
        *,
        api_key: str | None = None,
        provider: str = "embedder",
        max_connections: int = 8,
        max_waiting: int = 256,
        breaker: CircuitBreaker | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        random_unit: Callable[[], float] = random.random,
    ) -> None:
        self.origin = f"{url.scheme}://{url.netloc.decode('ascii')}"
        self._provider = provider
        self._breaker = breaker or CircuitBreaker()
        self._random_unit = random_unit
        self._turns = asyncio.Semaphore(max_connections)
        self._max_waiting = max_waiting
        self._waiting = 0
        self._closed = False
        self._client = httpx.AsyncClient(
            headers=_headers(api_key),
            follow_redirects=False,
            # The environment's proxies and ~/.netrc are not read: settings come from one place.
            trust_env=False,
            limits=httpx.Limits(max_connections=max_connections, max_keepalive_connections=max_connections),
            transport=transport,
        )

    async def get(self, url: httpx.URL, *, deadline: float, max_bytes: int) -> Any:
        """GET JSON; as `post`."""
        return await self._ask("GET", url, None, deadline, max_bytes)

    async def post(self, url: httpx.URL, body: object, *, deadline: float, max_bytes: int) -> Any:
        """POST `body` as JSON, and give the answer's JSON.

        Args:
            url: Where to.
            body: What orjson can write.
            deadline: The event loop's time by which all is over, retries included.
            max_bytes: The longest answer that is read.

        Raises:
            InputRefused: 400, 413 or 422.
            NotOffered: A redirect, or another 4xx.
            UnusableAnswer: No JSON, or more than `max_bytes`.
            EmbedFailed: No answer in time, or the breaker is open.
        """
        return await self._ask("POST", url, orjson.dumps(body), deadline, max_bytes)

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        self._closed = True
        await self._client.aclose()

    async def _ask(self, method: str, url: httpx.URL, content: bytes | None, deadline: float, max_bytes: int) -> Any:
        if self._waiting >= self._max_waiting:
            message = f"{self._max_waiting} requests already wait for {self.origin}; try again."
            raise EmbedFailed(message, outcome="busy")
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        try:
            return await self._ask_with_retries(method, url, content, deadline, max_bytes)
        finally:
            self._turns.release()

    async def _ask_with_retries(
        self, method: str, url: httpx.URL, content: bytes | None, deadline: float, max_bytes: int
    ) -> Any:
        attempt = 1
        while True:
            try:
                answer = await self._guarded(method, url, content, deadline, max_bytes)
                break
            except _Retry as failure:
                pause = self._pause(attempt, failure.retry_after)
                if attempt == MAX_ATTEMPTS or asyncio.get_running_loop().time() + pause >= deadline:
                    after = max(1, min(_MAX_RETRY_AFTER, round(failure.retry_after or 1)))
                    message = f"The {self._provider} at {self.origin} {failure.reason}; try again."
                    raise EmbedFailed(message, retry_after_seconds=after) from None
            await asyncio.sleep(pause)
            attempt += 1
        try:
            return orjson.loads(answer)
        except orjson.JSONDecodeError:
            # Not chained: the decoder's error quotes the answer.
            message = f"The {self._provider} at {self.origin} answered something that is not JSON."
            raise UnusableAnswer(message) from None

    def _pause(self, attempt: int, retry_after: float | None) -> float:
        """Full jitter: anything from nothing to a cap that doubles, but not before `Retry-After`."""
        cap: float = min(_BACKOFF_CAP, _BACKOFF_BASE * 2.0**attempt)
        return max(self._random_unit() * cap, retry_after or 0.0)

    async def _guarded(
        self, method: str, url: httpx.URL, content: bytes | None, deadline: float, max_bytes: int
    ) -> bytes:
        """One attempt, if the breaker admits it; its outcome goes to the breaker."""
        loop = asyncio.get_running_loop()
        if self._closed:
            raise EmbedFailed("The embedder is closed; try again.")
        if not self._breaker.admit(loop.time()):
            wait = self._breaker.seconds_until_trial(loop.time())
            message = f"The {self._provider} at {self.origin} kept failing and is not asked for a moment; try again."
            raise EmbedFailed(message, outcome="breaker_open", retry_after_seconds=max(1, round(wait)))
        settled = False
        try:
            async with asyncio.timeout_at(deadline - _MARGIN_SECONDS):
                answer = await self._attempt(method, url, content, max_bytes)
            self._breaker.record_success()
            settled = True
        except (InputRefused, NotOffered):
            self._breaker.record_success()
            settled = True
            raise
        except (EmbedFailed, _Retry, TimeoutError):
            self._breaker.record_failure(loop.time())
            settled = True
            raise
        finally:
            if not settled:
                self._breaker.abandon()
        return answer

    async def _attempt(self, method: str, url: httpx.URL, content: bytes | None, max_bytes: int) -> bytes:
        try:
            # The deadline around it bounds everything else.
            timeout = httpx.Timeout(None, connect=_CONNECT_SECONDS)
            headers = outgoing_headers()
            async with self._client.stream(method, url, content=content, headers=headers, timeout=timeout) as response:
                self._check_status(response)
                return await self._read(response, max_bytes)
        except (EmbedFailed, _Retry):
            raise
        except httpx.TransportError as error:
            # Asking twice for an embedding does no harm. Not chained: httpx's error holds the request.
            raise _Retry(f"could not be reached ({type(error).__name__})") from None
        except Exception as error:  # noqa: BLE001 - a name that no resolver takes, a broken certificate store, ...
            message = f"The {self._provider} at {self.origin} failed ({type(error).__name__})."
            raise EmbedFailed(message) from None

    def _check_status(self, response: httpx.Response) -> None:
        status = response.status_code
        if status in _RETRIED_STATUSES or status >= _SERVER_ERROR:
            raise _Retry(f"answered {status}", _retry_after(response.headers.get("retry-after")))
        if status in _REFUSALS:
            raise InputRefused(f"The {self._provider} at {self.origin} does not take this input ({status}).", status)
        if status >= _CLIENT_ERROR:
            hint = "check its URL, model and API key"
            raise NotOffered(f"The {self._provider} at {self.origin} answered {status}; {hint}.")
        if status >= _REDIRECT:
            hint = "redirects are not followed, so give the final URL"
            raise NotOffered(f"The {self._provider} at {self.origin} answered with a redirect ({status}); {hint}.")

    async def _read(self, response: httpx.Response, max_bytes: int) -> bytes:
        # Compression was not asked for; taken all the same, a small answer could unfold without bound.
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            message = f"The {self._provider} at {self.origin} compressed its answer without being asked to."
            raise UnusableAnswer(message)
        answer = bytearray()
        async for chunk in response.aiter_bytes():
            answer += chunk
            if len(answer) > max_bytes:
                message = f"The {self._provider} at {self.origin} answered more than {max_bytes} bytes."
                raise UnusableAnswer(message)
        return bytes(answer)


def _headers(api_key: str | None) -> dict[str, str]:
    headers = {
        "user-agent": "memlane",
        "accept": "application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
    }
    if api_key:
        check_api_key(api_key)
        headers["authorization"] = f"Bearer {api_key}"
    return headers


def _retry_after(value: str | None) -> float | None:
    """Seconds from a `Retry-After` header, as a number or as a date; None when it makes no sense."""
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", value.strip()):
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
