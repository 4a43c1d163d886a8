"""The console's page and its backend: for its own page on this machine alone."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio

from integration.rest.house import Borrowed
from memlane.embedded.postgres import EmbeddedPostgres
from memlane.rest.console import Console
from memlane.storage.migrate import migrate
from memlane.usecases.ports import Embedder
from support.postgres import drop_database, fresh_database, template_database
from support.service import Deployment, headers_of, running_service

USER = {"X-Console-User": "ada"}


@dataclass(frozen=True, slots=True)
class Page:
    """A served console, its key, and a client that speaks as its page does."""

    client: httpx.AsyncClient
    key: str


async def _migrate(dsn: str) -> None:
    await migrate(dsn)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def page(
    postgres: EmbeddedPostgres, embedder: Embedder, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Page]:
    folder = tmp_path_factory.mktemp("console")
    (folder / "index.html").write_text("<title>Memlane console</title>")
    (folder / "assets").mkdir()
    (folder / "assets" / "index.js").write_text("// the page's own code")
    dsn = await fresh_database(postgres, await template_database(postgres, "migrated", _migrate))
    deployment = Deployment(dsn)
    key = await deployment.key()
    served = running_service(
        deployment, embedder=Borrowed(embedder), console=lambda port: Console(key, port, Path(folder))
    )
    async with served as (service, _):
        yield Page(service.client, key)
    await drop_database(postgres, dsn)


async def test_the_page_and_its_files_are_served_with_a_policy(page: Page) -> None:
    for path, media_type in (("/", "text/html"), ("/assets/index.js", "javascript")):
        answer = await page.client.get(path)
        assert answer.status_code == 200
        assert media_type in answer.headers["content-type"]
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert page.key not in answer.text


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_the_page_is_only_read(page: Page, method: str) -> None:
    answer = await page.client.request(method, "/")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_what_the_page_saves_is_that_users(page: Page) -> None:
    user = "grace@example.com/ü 🌱"
    saved = await page.client.post(
        "/console/api/memories",
        headers={"X-Console-User": quote(user, safe="")},
        json={"content": "Prefers tea.", "kind": "topical"},
    )
    assert saved.status_code == 201
    listed = await page.client.get("/api/memories", headers=headers_of(page.key, user))
    assert [memory["id"] for memory in listed.json()["memories"]] == [saved.json()["id"]]
    other = await page.client.get("/console/api/memories", headers=USER)
    assert other.json()["memories"] == []


@pytest.mark.parametrize("path", ["/", "/console/api/memories"])
@pytest.mark.parametrize(
    "foreign",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:4201"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
    ],
)
async def test_another_sites_page_is_refused(page: Page, path: str, foreign: dict[str, str]) -> None:
    answer = await page.client.get(path, headers={**USER, **foreign})
    assert answer.status_code == 403
    assert page.key not in answer.text


async def test_a_call_without_the_consoles_own_header_is_refused(page: Page) -> None:
    answer = await page.client.post("/console/api/memories", json={"content": "Likes tea.", "kind": "topical"})
    assert answer.status_code == 403


async def test_credentials_that_the_page_sends_are_dropped(page: Page) -> None:
    smuggled = {**headers_of("cpk-shop_aaaaaaaaaaaa_" + "b" * 43, "mallory"), **USER}
    answer = await page.client.get("/console/api/memories", headers=smuggled)
    assert answer.status_code == 200


async def test_a_service_without_a_console_has_no_such_path(
    page: Page, service_without_console: httpx.AsyncClient
) -> None:
    assert page.key
    for path in ("/", "/console/api/memories"):
        assert (await service_without_console.get(path, headers=USER)).status_code == 404


@pytest_asyncio.fixture(loop_scope="session")
async def service_without_console(postgres: EmbeddedPostgres, embedder: Embedder) -> AsyncIterator[httpx.AsyncClient]:
    dsn = await fresh_database(postgres, await template_database(postgres, "migrated", _migrate))
    async with running_service(Deployment(dsn), embedder=Borrowed(embedder)) as (service, _):
        yield service.client
    await drop_database(postgres, dsn)
