"""Traces as a collector gets them from a real process: whole, joined to the caller's, and without anything private."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.embedding_server import EmbeddingServer, Fault
from support.service import Deployment, api_process, free_port, headers_of

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CONTENT = "xylophone-content"


@dataclass
class Collector:
    """What arrived."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)

    def spans(self) -> list[dict[str, Any]]:
        found = []
        for body in self.bodies:
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            for resource in request.resource_spans:
                service = {one.key: one.value.string_value for one in resource.resource.attributes}["service.name"]
                found += [_read(span, service) for scope in resource.scope_spans for span in scope.spans]
        return found


def _read(span: Any, service: str) -> dict[str, Any]:
    attributes = {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}
    ids = {"trace": span.trace_id.hex(), "id": span.span_id.hex(), "parent": span.parent_span_id.hex()}
    return {"name": span.name, "service": service, "attributes": attributes, "events": len(span.events), **ids}


@asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    gathered = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            gathered.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    gathered.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield gathered
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()


async def test_a_request_is_a_trace_that_goes_on_into_the_embedder_and_holds_nothing_private(
    deployment: Deployment,
) -> None:
    async with collector() as gathered, EmbeddingServer("tei") as provider:
        environment = deployment.environment(
            MEMORY_EMBEDDINGS_URL=provider.url,
            MEMORY_EMBEDDING_MODEL=provider.model,
            MEMLANE_DRAIN_SECONDS="0",
            OTEL_EXPORTER_OTLP_ENDPOINT=gathered.url,
        )
        key = await deployment.key()
        async with api_process(environment) as api, httpx.AsyncClient(base_url=api.url, timeout=20) as client:
            provider.calls.clear()
            headers = headers_of(key, "ada") | {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-Id": "r-1"}
            draft = {"content": f"The {CONTENT} is blue.", "kind": "topical"}
            assert (await client.post("/api/memories", headers=headers, json=draft)).status_code == 201
            provider.fault = Fault.RUBBISH
            assert (await client.post("/api/memories", headers=headers, json=draft)).status_code == 503
            assert await asyncio.to_thread(api.terminate) == 0
            log = api.log
    mine = [span for span in gathered.spans() if span["trace"] == TRACE]
    doors = [span for span in mine if span["name"] == "POST /api/memories"]
    assert [span["parent"] for span in doors] == [PARENT, PARENT]
    assert [span["attributes"]["http.response.status_code"] for span in doors] == [201, 503]
    first = doors[0]
    assert first["attributes"]["http.route"] == "/api/memories"
    assert first["attributes"]["memlane.request.id"] == "r-1"
    assert first["attributes"]["memlane.key.id"] == key.split("_")[1]
    children = {span["name"] for span in mine if span["parent"] == first["id"]}
    assert {"database read", "database write", "embed"} <= children
    assert any(span["name"] == "embed" and span["attributes"].get("error.type") for span in mine)
    assert {call.headers["traceparent"][3:35] for call in provider.calls} == {TRACE}
    assert {span["service"] for span in gathered.spans()} == {"memlane-api"}
    assert sum(span["events"] for span in gathered.spans()) == 0
    for private in (CONTENT, "ada", key.rpartition("_")[2], "join-secret"):
        assert all(private.encode() not in body for body in gathered.bodies)
    assert "error" not in {line.split('"level":"')[1].split('"')[0] for line in log.splitlines() if '"level":"' in line}


async def test_without_an_endpoint_nothing_is_traced_and_nothing_is_handed_on(deployment: Deployment) -> None:
    async with EmbeddingServer("tei") as provider:
        environment = deployment.environment(MEMORY_EMBEDDINGS_URL=provider.url, MEMORY_EMBEDDING_MODEL=provider.model)
        key = await deployment.key()
        async with api_process(environment) as api, httpx.AsyncClient(base_url=api.url, timeout=20) as client:
            headers = headers_of(key) | {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            saved = await client.post("/api/memories", headers=headers, json={"content": "A.", "kind": "topical"})
            assert saved.status_code == 201
        assert all("traceparent" not in call.headers for call in provider.calls)


async def test_a_collector_that_is_gone_disturbs_no_request_and_hardly_the_end(deployment: Deployment) -> None:
    environment = deployment.environment(
        MEMLANE_DRAIN_SECONDS="0", OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{free_port()}"
    )
    key = await deployment.key()
    async with api_process(environment) as api, httpx.AsyncClient(base_url=api.url, timeout=20) as client:
        for number in range(5):
            draft = {"content": f"Number {number}.", "kind": "topical"}
            assert (await client.post("/api/memories", headers=headers_of(key), json=draft)).status_code == 201
        began = time.monotonic()
        assert await asyncio.to_thread(api.terminate) == 0
        assert time.monotonic() - began < 8
