"""What the REST tests share: one served deployment for each Postgres version, and a project for each test."""

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import httpx

from memlane.usecases.ports import Embedder
from support.service import Deployment, Service, headers_of

_numbers = itertools.count(1)
NO_SUCH_ID = "01890000-0000-7000-8000-000000000000"
GRANTS = ("none", "read", "read-write")


def new_slug() -> str:
    """A project that no other test uses."""
    return f"p{os.getpid()}-{next(_numbers)}"


class Borrowed:
    """An embedder that a service uses and does not close."""

    def __init__(self, owner: Embedder) -> None:
        self._owner = owner

    def __getattr__(self, name: str) -> object:
        return getattr(self._owner, name)

    async def aclose(self) -> None:
        """Leave it open for the next service."""


@dataclass(frozen=True, slots=True)
class Shop:
    """One project of a served deployment."""

    service: Service
    slug: str = field(default_factory=new_slug)

    @property
    def client(self) -> httpx.AsyncClient:
        return self.service.client

    @property
    def deployment(self) -> Deployment:
        return self.service.deployment

    async def key(self, **options: Any) -> str:
        """A new key of this project; full grant, default lane."""
        return await self.deployment.key(self.slug, **options)

    async def headers(self, user: str = "u1", **options: Any) -> dict[str, Any]:
        """The runtime tuple with a new key, without a grant header."""
        return headers_of(await self.key(**options), user)

    async def save(self, headers: Mapping[str, Any], content: str, kind: str = "topical", **more: Any) -> Any:
        return await self.service.save(headers, content, kind, **more)

    async def page(self, headers: Mapping[str, Any], query: str = "") -> Any:
        return await self.service.list(headers, query)

    async def listed(self, headers: Mapping[str, Any], query: str = "") -> list[str]:
        """The contents that a list shows, in its order."""
        return [row["content"] for row in (await self.page(headers, query))["memories"]]

    async def recall(self, headers: Mapping[str, Any], query: str, **more: Any) -> Any:
        return await self.service.recall(headers, query, **more)

    async def recalled(self, headers: Mapping[str, Any], query: str, **more: Any) -> list[str]:
        """The contents that a recall finds, best first."""
        return [row["content"] for row in (await self.recall(headers, query, **more))["memories"]]

    async def post(self, headers: Mapping[str, Any], body: Any, path: str = "/api/memories") -> httpx.Response:
        return await self.client.post(path, headers=headers, json=body)

    async def supersede(self, headers: Mapping[str, Any], memory_id: str, content: str, **more: Any) -> httpx.Response:
        body = {"content": content, "kind": "topical", **more}
        return await self.client.patch(f"/api/memories/{memory_id}", headers=headers, json=body)

    async def retire(self, headers: Mapping[str, Any], memory_id: str) -> httpx.Response:
        return await self.client.delete(f"/api/memories/{memory_id}", headers=headers)

    async def restore(self, headers: Mapping[str, Any], memory_id: str) -> httpx.Response:
        return await self.client.post(f"/api/memories/{memory_id}/restore", headers=headers)

    async def read(self, headers: Mapping[str, Any], memory_id: str) -> httpx.Response:
        return await self.client.get(f"/api/memories/{memory_id}", headers=headers)

    async def rows(self, sql: str, *values: object) -> Sequence[asyncpg.Record]:
        """Rows of the database; ``$1`` is this project's id."""
        project = await self.deployment.fetch("select id from projects where slug = $1", self.slug)
        return await self.deployment.fetch(sql, project[0]["id"], *values)


def error_of(answer: httpx.Response) -> tuple[int, str]:
    """The status and code of an error."""
    return answer.status_code, answer.json()["error"]["code"]


def faults_of(answer: httpx.Response) -> dict[str, str]:
    """The bad fields of a 400, by path."""
    assert error_of(answer) == (400, "MEMORY_VALIDATION_ERROR"), answer.text
    return {one["path"]: one["message"] for one in answer.json()["error"]["details"]}


def outward(answer: httpx.Response) -> tuple[int, Any, dict[str, str]]:
    """All that a caller sees of an answer, but for what differs between any two requests."""
    body = answer.json() if answer.content else None
    if isinstance(body, dict) and "error" in body:
        body["error"].pop("requestId")
    headers = {name: value for name, value in answer.headers.items() if name not in {"date", "x-request-id"}}
    # A request id that the caller chose may be of any length; ours are not.
    return answer.status_code, body, headers
