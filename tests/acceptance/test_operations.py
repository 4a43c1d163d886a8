"""What an operator sees of a process under a mixed load: its log and its metrics, and never what users wrote."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from memlane.domain.grant import Access, Grant
from memlane.domain.lane import LaneMode
from memlane.usecases.ports import Embedder
from support.embedding_server import EmbeddingServer, Fault
from support.service import ApiProcess, Deployment, api_process, free_port, headers_of

CONTENT = "xylophone-content"
WANTED = "xylophone-wanted"
QUERY = "xylophone-query"
USER = "xylophone-user"
THREAD = "xylophone-thread"
FIELD = "xylophone-field"
PATH = "xylophone-path"
HEADER = "xylophone-header"
RAW = "xylophone-raw"
MARKERS = (CONTENT, WANTED, QUERY, USER, THREAD, FIELD, PATH, HEADER, RAW)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is left to look at after the load."""

    log: str
    metrics: str
    routes: list[tuple[str, str]]
    keys: list[str]

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.splitlines()]

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == "request"]

    def value(self, metric: str, **labels: str) -> float:
        """A metric's value, summed over the labels that are not named."""
        total = 0.0
        for name, found, value in re.findall(r"^(\w+)(?:\{(.*)\})? (\S+)$", self.metrics, re.MULTILINE):
            have = dict(re.findall(r'(\w+)="([^"]*)"', found))
            if name == metric and labels.items() <= have.items():
                total += float(value)
        return total


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def seen(whole_deployment: Deployment, embedder: Embedder) -> AsyncIterator[Seen]:
    await embedder.probe()
    metrics_port = free_port()
    async with EmbeddingServer("tei") as provider:
        environment = whole_deployment.environment(
            MEMORY_EMBEDDINGS_URL=provider.url,
            MEMORY_EMBEDDING_MODEL=provider.model,
            MEMLANE_METRICS_PORT=str(metrics_port),
            MEMLANE_HOST="127.0.0.1",
            MEMLANE_LOG_LEVEL="DEBUG",
            MEMLANE_DRAIN_SECONDS="0",
        )
        async with api_process(environment) as api, httpx.AsyncClient(base_url=api.url, timeout=20) as client:
            keys = await _load(client, whole_deployment, provider)
            await _garbage(api)
            document = (await client.get("/api/openapi.json")).json()
            metrics = (await client.get(f"http://127.0.0.1:{metrics_port}/metrics")).text
            assert await asyncio.to_thread(api.terminate) == 0
            routes = [(verb.upper(), path) for path, verbs in document["paths"].items() for verb in verbs]
            yield Seen(api.log, metrics, routes, keys)


async def _load(client: httpx.AsyncClient, deployment: Deployment, provider: EmbeddingServer) -> list[str]:
    """Call every route, well and badly, with markers wherever a caller may put text. Gives the keys."""
    key = await deployment.key()
    me = headers_of(key, USER) | {
        "X-Memlane-Run": HEADER,
        "X-Memlane-Source": f"thread:{HEADER}",
        "X-Memlane-Triggered-By": HEADER,
        "X-Request-Id": "request-1",
    }
    draft = {"content": f"The {CONTENT} is blue.", "kind": "topical", "sourceThreadIds": [THREAD]}

    async def send(method: str, path: str, status: int, headers: dict[str, Any] | None = None, **more: Any) -> Any:
        answer = await client.request(method, path, headers=me if headers is None else headers, **more)
        assert answer.status_code == status, (method, path, answer.text)
        return answer.json() if answer.content else None

    first = await send("POST", "/api/memories", 201, json=draft, headers=me | {"Idempotency-Key": HEADER})
    await send("POST", "/api/memories", 201, json=draft)
    await send("POST", "/api/memories/batch", 200, json={"memories": [draft, draft]})
    path = f"/api/memories/{first['id']}"
    newer = {**draft, "content": f"The {CONTENT} is green."}
    second = await send("PATCH", path, 200, json=newer)
    await send("GET", path, 200)
    await send("GET", f"{path}/provenance", 200)
    await send("DELETE", f"/api/memories/{second['id']}", 204)
    await send("POST", f"/api/memories/{second['id']}/restore", 200)
    await send("GET", "/api/memories?includeInvalidated=true&limit=5", 200)
    await send("POST", "/api/memories/recall", 200, json={"query": f"which colour has the {WANTED}"})
    await send("POST", "/api/memories/subscribe", 200, json={})
    await send("DELETE", "/api/memories/subscribe", 204)
    await send("GET", "/api/entitlements/runtime", 200)
    for name in ("live", "accepting", "health", "ready"):
        await send("GET", f"/api/{name}", 200)

    # Everything that a caller can get wrong.
    await send("GET", f"/api/memories?{QUERY}=1&cursor={QUERY}", 400)
    await send("POST", f"/api/memories?note={QUERY}", 400, json=draft)
    await send("POST", "/api/memories", 400, json={**draft, FIELD: FIELD})
    await send("POST", "/api/memories", 400, json={**draft, "kind": CONTENT})
    await send("POST", "/api/memories", 400, content=f'{{"content": "{CONTENT}'.encode())
    await send("POST", "/api/memories", 413, content=CONTENT.encode() * 60_000)
    await send("GET", f"/api/memories/{PATH}", 404)
    await send("GET", f"/api/{PATH}?{QUERY}", 404)
    await send("PUT", f"/api/memories?{QUERY}", 405)
    await send("POST", "/api/memories", 409, json=newer, headers=me | {"Idempotency-Key": HEADER})
    await send("PATCH", f"/api/memories/{second['id']}", 409, json={**draft, "kind": "episodic"})
    await send("GET", "/api/memories", 400, headers=me | {"X-Cpki-Memory-Grant": HEADER})
    await send("GET", "/api/memories", 400, headers={"Authorization": f"Bearer {key}"})
    await send("GET", "/api/memories", 401, headers={"Authorization": f"Bearer {key}{HEADER.replace('-', '')}"})
    await send("GET", "/api/memories", 401, headers={"Authorization": f"Basic {HEADER}"})
    reader = headers_of(await deployment.key(grant=Grant(Access.READ, Access.READ)), USER)
    await send("POST", "/api/memories", 403, json=draft, headers=reader)
    quiet = headers_of(await deployment.key(lane="quiet", mode=LaneMode.READ_ONLY), USER)
    await send("POST", "/api/memories", 403, json=draft, headers=quiet)
    stranger = headers_of(await deployment.key("elsewhere", organization="globex"), USER)
    await send("GET", "/api/memories", 404, headers=stranger)

    # Everything that can fail around it.
    provider.fault = Fault.RUBBISH
    await send("POST", "/api/memories", 503, json={**draft, "content": f"The {CONTENT} is red."})
    await send("POST", "/api/memories/recall", 200, json={"query": f"a red {WANTED}"})
    provider.fault = Fault.NONE
    return [key]


async def _garbage(api: ApiProcess) -> None:
    """Bytes that are no HTTP, and a client that leaves in the middle of its body."""
    host, port = api.url.removeprefix("http://").split(":")
    for sent in (
        f"{RAW} {RAW}\r\n\r\n".encode(),
        f"POST /api/memories?{RAW} HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n{{{RAW}".encode(),
    ):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(sent)
        await writer.drain()
        await asyncio.sleep(0.2)
        writer.close()
        del reader


@pytest.mark.parametrize("marker", MARKERS)
def test_what_callers_wrote_is_in_no_log_line_and_no_metric(seen: Seen, marker: str) -> None:
    assert marker not in seen.log
    assert marker not in seen.metrics
    assert marker.replace("-", "") not in seen.log


def test_no_key_secret_is_in_the_log_or_the_metrics(seen: Seen) -> None:
    for key in seen.keys:
        assert key.rpartition("_")[2] not in seen.log + seen.metrics


def test_every_line_of_the_log_is_a_json_object_with_an_event_a_level_and_a_time(seen: Seen) -> None:
    for line in seen.lines:
        assert line.keys() >= {"event", "level", "timestamp"}, line


def test_each_request_has_a_line_that_tells_its_id_route_status_time_and_key(seen: Seen) -> None:
    assert len(seen.requests) > 30
    for line in seen.requests:
        assert line.keys() >= {"request_id", "route", "method", "status", "ms", "key_id"}, line
        assert isinstance(line["ms"], float)
    mine = [line for line in seen.requests if line["request_id"] == "request-1"]
    assert mine
    short = seen.keys[0].split("_")[1]
    assert {line["key_id"] for line in mine} <= {short, None}
    assert any(line["key_id"] == short for line in mine)


def test_a_route_is_logged_as_its_template_and_an_unknown_one_as_unknown(seen: Seen) -> None:
    templates = {path for _, path in seen.routes}
    assert {line["route"] for line in seen.requests} <= templates | {"unknown", "/api/openapi.json", "/api/docs"}
    assert any(line["route"] == "unknown" and line["status"] == 404 for line in seen.requests)


def test_every_route_is_counted_and_timed(seen: Seen) -> None:
    for method, path in seen.routes:
        assert seen.value("memlane_http_requests_total", route=path, method=method) >= 1, (method, path)
        assert seen.value("memlane_http_request_seconds_count", route=path, method=method) >= 1, (method, path)
    logged = sum(1 for line in seen.requests if line["route"] == "/api/memories")
    assert seen.value("memlane_http_requests_total", route="/api/memories") == logged


@pytest.mark.parametrize(
    ("code", "least"),
    [
        ("MEMORY_VALIDATION_ERROR", 6),
        ("UNAUTHENTICATED", 2),
        ("MEMORY_GRANT_DENIED", 1),
        ("LANE_READ_ONLY", 1),
        ("MEMORY_NOT_ENTITLED", 1),
        ("MEMORY_NOT_FOUND", 1),
        ("NOT_FOUND", 1),
        ("METHOD_NOT_ALLOWED", 1),
        ("MEMORY_KIND_MISMATCH", 1),
        ("IDEMPOTENCY_CONFLICT", 1),
        ("PAYLOAD_TOO_LARGE", 1),
        ("EMBEDDER_UNAVAILABLE", 1),
    ],
)
def test_every_denial_is_counted_by_its_code(seen: Seen, code: str, least: int) -> None:
    assert seen.value("memlane_denials_total", code=code) >= least


@pytest.mark.parametrize(
    ("operation", "count"), [("created", 1), ("absorbed", 3), ("superseded", 1), ("retired", 1), ("restored", 1)]
)
def test_every_write_is_counted_by_what_it_did(seen: Seen, operation: str, count: int) -> None:
    assert seen.value("memlane_writes_total", operation=operation) == count


def test_embedder_calls_are_timed_by_outcome_and_their_texts_counted(seen: Seen) -> None:
    assert seen.value("memlane_embedder_seconds_count", outcome="ok") >= 5
    assert seen.value("memlane_embedder_seconds_count") > seen.value("memlane_embedder_seconds_count", outcome="ok")
    assert seen.value("memlane_embedder_texts_total") >= 5


def test_the_pool_is_measured(seen: Seen) -> None:
    assert seen.value("memlane_db_pool_connections") >= 1
    assert "memlane_db_pool_in_use" in seen.metrics


def test_background_tasks_are_up(seen: Seen) -> None:
    assert seen.value("memlane_task_up", task="recall_marks") == 1
    assert seen.value("memlane_task_restarts_total") == 0
