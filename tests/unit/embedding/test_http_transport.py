import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from memlane.domain.errors import EmbedderUnavailable
from memlane.embedding.breaker import CircuitBreaker
from memlane.embedding.http_transport import Transport, UnusableAnswer
from memlane.embedding.outcomes import EmbedFailed

URL = httpx.URL("http://tei/embed")


def transport(
    handler: Callable[[httpx.Request], httpx.Response], *, max_connections: int = 8, max_waiting: int = 256
) -> Transport:
    return Transport(
        URL,
        max_connections=max_connections,
        max_waiting=max_waiting,
        transport=httpx.MockTransport(handler),
        random_unit=lambda: 1.0,
    )


async def ask(http: Transport, seconds: float = 3.0) -> object:
    return await http.post(URL, {}, deadline=asyncio.get_running_loop().time() + seconds, max_bytes=100)


@pytest.mark.parametrize("status", [408, 424, 429, 500, 503])
async def test_a_fault_that_may_pass_is_tried_three_times(status: int) -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(status)

    with pytest.raises(EmbedderUnavailable, match=str(status)):
        await ask(transport(handler))
    assert len(seen) == 3


@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError])
async def test_a_connection_fault_is_tried_again(error: type[httpx.TransportError]) -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if len(seen) == 1:
            message = "no"
            raise error(message)
        return httpx.Response(200, json=[1])

    assert await ask(transport(handler)) == [1]


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404, 413, 422])
async def test_a_final_answer_is_not_tried_again_and_does_not_open_the_breaker(status: int) -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(status, headers={"location": "http://elsewhere/"})

    http = transport(handler)
    for _ in range(10):
        with pytest.raises(EmbedderUnavailable, match=str(status)):
            await ask(http)
    assert len(seen) == 10
    assert {request.url.host for request in seen} == {"tei"}


async def test_retry_after_is_honoured_when_it_fits_the_time() -> None:
    started = asyncio.get_running_loop().time()
    answers = iter([httpx.Response(429, headers={"retry-after": "1"}), httpx.Response(200, json=[1])])
    assert await ask(transport(lambda _: next(answers))) == [1]
    assert asyncio.get_running_loop().time() - started >= 1.0


@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_a_retry_after_beyond_the_time_fails_at_once_and_is_passed_on(form: str) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    retry_after = "30" if form == "seconds" else date
    started = asyncio.get_running_loop().time()
    http = transport(lambda _: httpx.Response(429, headers={"retry-after": retry_after}))
    with pytest.raises(EmbedderUnavailable) as raised:
        await ask(http)
    assert asyncio.get_running_loop().time() - started < 0.5
    assert 1 <= raised.value.retry_after_seconds <= 30


@pytest.mark.parametrize("retry_after", ["soon", "-5", "9" * 5000, "", "1e9"])
async def test_a_retry_after_without_sense_is_ignored(retry_after: str) -> None:
    answers = iter([httpx.Response(503, headers={"retry-after": retry_after}), httpx.Response(200, json=[1])])
    assert await ask(transport(lambda _: next(answers))) == [1]


async def test_an_answer_over_the_limit_is_not_read_to_its_end() -> None:
    produced = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal produced
        for _ in range(1_000):
            produced += 1
            yield b"0" * 60

    with pytest.raises(UnusableAnswer, match="100 bytes"):
        await ask(transport(lambda _: httpx.Response(200, content=body())))
    assert produced < 10


async def test_beyond_the_bound_of_waiting_requests_a_call_is_busy() -> None:
    release = asyncio.Event()

    async def handler(_: httpx.Request) -> httpx.Response:
        await release.wait()
        return httpx.Response(200, json=[1])

    http = Transport(URL, max_connections=1, max_waiting=2, transport=httpx.MockTransport(handler))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(http)) for _ in range(3)]
        await asyncio.sleep(0.01)
        with pytest.raises(EmbedFailed, match="already wait") as raised:
            await ask(http)
        assert raised.value.outcome == "busy"
        release.set()
    assert [task.result() for task in tasks] == [[1]] * 3


async def test_a_trial_whose_caller_goes_away_does_not_keep_the_breaker_open() -> None:
    release = asyncio.Event()

    async def handler(_: httpx.Request) -> httpx.Response:
        await release.wait()
        return httpx.Response(200, json=[1])

    breaker = CircuitBreaker(threshold=1, open_seconds=0.01)
    breaker.record_failure(asyncio.get_running_loop().time())
    await asyncio.sleep(0.02)
    http = Transport(URL, breaker=breaker, transport=httpx.MockTransport(handler))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(ask(http), 0.05)
    release.set()
    assert await ask(http) == [1]
