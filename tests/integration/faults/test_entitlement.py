"""Who is not entitled is denied on every memory route, and a change holds within 5 s in every process."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import httpx
import pytest
import pytest_asyncio

from integration.faults.house import PATIENCE, Pair, Tenant, assert_unavailable, save, statement, timed
from integration.rest.house import Borrowed
from memlane.auth.licenses import generate_keypair, mint_license
from memlane.config import Settings
from memlane.domain.lane import LaneMode
from memlane.usecases.ports import Embedder
from support.service import Deployment, MovableClock, Service, running_service

NO_ID = "01890000-0000-7000-8000-000000000000"
DRAFT = {"content": statement(1), "kind": "topical"}
BODIES: Mapping[tuple[str, str], Any] = {
    ("POST", "/api/memories"): DRAFT,
    ("POST", "/api/memories/batch"): {"memories": [DRAFT]},
    ("POST", "/api/memories/recall"): {"query": "lockers"},
    ("PATCH", "/api/memories/{id}"): DRAFT,
}


@pytest_asyncio.fixture(loop_scope="session")
async def serve(lone_deployment: Deployment, embedder: Embedder) -> Callable[..., Any]:
    """Serves the deployment under other settings."""

    @asynccontextmanager
    async def serving(clock: MovableClock | None = None, **changes: Any) -> AsyncIterator[Service]:
        settings: Settings = lone_deployment.settings(**changes)
        borrowed: Any = Borrowed(embedder)
        async with running_service(lone_deployment, settings, embedder=borrowed, clock=clock) as (service, _):
            yield service

    return serving


@pytest_asyncio.fixture(loop_scope="session")
async def tenant(lone_deployment: Deployment) -> Tenant:
    return await Tenant.new(lone_deployment)


async def memory_routes(client: httpx.AsyncClient) -> list[tuple[str, str]]:
    """Every memory route, as the OpenAPI document lists them."""
    document = (await client.get("/api/openapi.json")).json()
    return [
        (method.upper(), path)
        for path, operations in document["paths"].items()
        if path.startswith("/api/memories")
        for method in operations
        if method in {"get", "post", "patch", "put", "delete"}
    ]


async def answers_of_every_memory_route(client: httpx.AsyncClient, tenant: Tenant) -> dict[str, tuple[int, str]]:
    """Status and code of each memory route."""
    routes = await memory_routes(client)
    assert len(routes) >= 11
    answers = await asyncio.gather(
        *(
            client.request(method, path.format(id=NO_ID), headers=tenant.headers(), json=BODIES.get((method, path)))
            for method, path in routes
        )
    )
    return {
        f"{method} {path}": (answer.status_code, answer.json()["error"]["code"] if answer.status_code >= 400 else "")
        for (method, path), answer in zip(routes, answers, strict=True)
    }


async def assert_denied_everywhere(client: httpx.AsyncClient, tenant: Tenant) -> None:
    answers = await answers_of_every_memory_route(client, tenant)
    assert set(answers.values()) == {(404, "MEMORY_NOT_ENTITLED")}, answers


def _license(deployment: Deployment, **changes: Any) -> str:
    return deployment.license(**changes)


def _tampered(deployment: Deployment) -> str:
    head, body, signature = deployment.license().split(".")
    return ".".join((head, body, signature[:-4] + ("AAAA" if signature[-4:] != "AAAA" else "BBBB")))


def _by_another_signer(deployment: Deployment, key_id: str) -> str:
    now = datetime.now(UTC)
    return mint_license(
        generate_keypair().private_pem,
        key_id=key_id,
        organization=deployment.organization,
        plan="enterprise",
        features={"memory": True},
        limits={},
        not_before=now,
        expires_at=now + timedelta(days=1),
        now=now,
    )


BAD_LICENSES: dict[str, Callable[[Deployment], str]] = {
    "expired": lambda it: _license(it, starts_in=timedelta(days=-9), ends_in=timedelta(seconds=-1)),
    "not yet valid": lambda it: _license(it, starts_in=timedelta(hours=1)),
    "of another organization": lambda it: _license(it, organization="globex"),
    "without the feature": lambda it: _license(it, features={}),
    "with the feature off": lambda it: _license(it, features={"memory": False}),
    "with another feature": lambda it: _license(it, features={"memories": True}),
    "with a signature that was edited": _tampered,
    "signed by a stranger under our key id": lambda it: _by_another_signer(it, "test"),
    "signed by an unknown key": lambda it: _by_another_signer(it, "other"),
    "no license at all": lambda _: "not-a-license",
}


@pytest.mark.parametrize("fault", BAD_LICENSES)
async def test_a_license_that_does_not_hold_denies_every_memory_route(
    serve: Callable[..., Any], lone_deployment: Deployment, tenant: Tenant, fault: str
) -> None:
    async with serve(license=BAD_LICENSES[fault](lone_deployment)) as service:
        await assert_denied_everywhere(service.client, tenant)
        answer = await service.client.get("/api/entitlements/runtime", headers=tenant.headers())
        assert answer.status_code == 200
        body = answer.json()
        entitlement = body.get("entitlement", {})
        assert body["status"] != "ready" or not (
            entitlement["active"] is True and entitlement["features"].get("memory") is True
        )
        # What is not about memories goes on: an operator can look.
        assert (await service.client.get("/api/ready")).status_code == 200


async def test_the_key_is_checked_before_the_entitlement(serve: Callable[..., Any]) -> None:
    async with serve(license="not-a-license") as service:
        answer = await service.client.get("/api/memories", headers={"Authorization": "Bearer cpk-a_b_c"})
        assert answer.status_code == 401


async def test_the_entitlement_is_checked_before_the_user_and_the_body(
    serve: Callable[..., Any], tenant: Tenant
) -> None:
    async with serve(license="not-a-license") as service:
        bare = {"Authorization": f"Bearer {tenant.key}"}
        for answer in (
            await service.client.get("/api/memories", headers=bare),
            await service.client.post("/api/memories", headers=tenant.headers(), content=b"{"),
        ):
            assert answer.json()["error"]["code"] == "MEMORY_NOT_ENTITLED"


async def test_a_license_that_expires_while_the_process_runs_denies_within_5_s(
    serve: Callable[..., Any], lone_deployment: Deployment, tenant: Tenant
) -> None:
    ends = time.time() + 3
    async with serve(license=lone_deployment.license(ends_in=timedelta(seconds=3))) as service:
        assert (await save(service.client, tenant.headers(), statement(1))).status_code == 201
        await _denied_by(ends + PATIENCE, lambda: save(service.client, tenant.headers(), statement(1)), 404)
        await assert_denied_everywhere(service.client, tenant)


async def test_a_license_that_begins_while_the_process_runs_allows_from_then_on(
    serve: Callable[..., Any], lone_deployment: Deployment, tenant: Tenant
) -> None:
    clock = MovableClock()
    async with serve(clock, license=lone_deployment.license(starts_in=timedelta(hours=1))) as service:
        await assert_denied_everywhere(service.client, tenant)
        clock.offset = timedelta(hours=1, seconds=1)
        assert (await save(service.client, tenant.headers(), statement(1))).status_code == 201
        clock.offset = timedelta(days=31)
        await assert_denied_everywhere(service.client, tenant)


async def test_an_organization_whose_database_row_carries_another_slug_than_the_license_is_denied(
    serve: Callable[..., Any], lone_deployment: Deployment
) -> None:
    stranger = await Tenant.new(lone_deployment, organization="globex")
    async with serve() as service:
        await assert_denied_everywhere(service.client, stranger)
        answer = (await service.client.get("/api/entitlements/runtime", headers=stranger.headers())).json()
        assert answer["status"] == "misconfigured"


class TestManaged:
    """The plan's features merged with an enterprise override, from the database."""

    @pytest_asyncio.fixture(loop_scope="session")
    async def service(self, serve: Callable[..., Any], tenant: Tenant) -> AsyncIterator[Service]:
        del tenant  # its organization must be there
        async with serve(deployment_mode="managed", license=None, license_keys=None) as service:
            yield service

    async def test_an_organization_without_a_plan_is_denied(self, service: Service, tenant: Tenant) -> None:
        await assert_denied_everywhere(service.client, tenant)

    @pytest.mark.parametrize(
        "features",
        ["{}", '{"memory": false}', '{"memory": "true"}', '{"memory": 1}', '{"memory": null}', "[]", '"memory"', "7"],
    )
    async def test_a_plan_whose_feature_is_not_exactly_true_is_denied(
        self, service: Service, tenant: Tenant, features: str
    ) -> None:
        await _plan(service.deployment, features)
        await assert_denied_everywhere(service.client, tenant)

    async def test_a_plan_that_does_not_exist_is_denied(self, service: Service, tenant: Tenant) -> None:
        await service.deployment.execute("update organizations set plan_code = 'gone'")
        await assert_denied_everywhere(service.client, tenant)

    async def test_a_plan_with_the_feature_allows_and_names_itself(self, service: Service, tenant: Tenant) -> None:
        await _plan(service.deployment, '{"memory": true}')
        assert (await save(service.client, tenant.headers(), statement(1))).status_code == 201
        answer = (await service.client.get("/api/entitlements/runtime", headers=tenant.headers())).json()
        assert answer == {
            "status": "ready",
            "entitlement": {
                "active": True,
                "source": "managedOrgSubscription",
                "features": {"memory": True},
                "limits": {},
                "planCode": "team",
                "entitlementSource": "plan",
            },
        }

    async def test_an_override_allows_without_a_plan_and_its_withdrawal_denies_within_5_s(
        self, service: Service, tenant: Tenant
    ) -> None:
        await _override(service.deployment, '{"memory": true}')
        assert (await save(service.client, tenant.headers(), statement(1))).status_code == 201
        await service.deployment.execute("delete from entitlement_overrides")
        await _denied_by(time.time() + PATIENCE, lambda: save(service.client, tenant.headers(), statement(1)), 404)
        await assert_denied_everywhere(service.client, tenant)

    async def test_an_override_wins_over_the_plan_both_ways(self, service: Service, tenant: Tenant) -> None:
        await _plan(service.deployment, '{"memory": true}')
        await _override(service.deployment, '{"memory": false}')
        await assert_denied_everywhere(service.client, tenant)

    @pytest.mark.parametrize("how", ["active = false", "expires_at = now() - interval '1 second'"])
    async def test_an_override_that_is_off_or_over_does_not_count(
        self, service: Service, tenant: Tenant, how: str
    ) -> None:
        await _override(service.deployment, '{"memory": true}')
        await service.deployment.execute(f"update entitlement_overrides set {how}")  # noqa: S608 - ours, see above
        await assert_denied_everywhere(service.client, tenant)

    async def test_a_plan_that_is_taken_away_denies_within_5_s(self, service: Service, tenant: Tenant) -> None:
        await _plan(service.deployment, '{"memory": true}')
        assert (await save(service.client, tenant.headers(), statement(1))).status_code == 201
        await service.deployment.execute("update plans set features = '{}'")
        await _denied_by(time.time() + PATIENCE, lambda: save(service.client, tenant.headers(), statement(1)), 404)

    async def test_an_entitlement_that_cannot_be_read_is_503_and_never_allowed(
        self, service: Service, tenant: Tenant
    ) -> None:
        await _plan(service.deployment, '{"memory": true}')
        connection = await asyncpg.connect(service.deployment.dsn, timeout=5)
        try:
            async with connection.transaction():
                await connection.execute("lock table plans in access exclusive mode")
                for got in await asyncio.gather(
                    timed(save(service.client, tenant.headers(), statement(1))),
                    timed(service.client.get("/api/memories", headers=tenant.headers())),
                ):
                    assert_unavailable(got, "ENTITLEMENT_UNRESOLVED")
                got = await timed(service.client.get("/api/entitlements/runtime", headers=tenant.headers()))
                assert got.seconds < 1.5, "the published runtime waits no longer"
                assert got.answer.json()["status"] == "unavailable"
                assert got.answer.json()["error"]["retryable"] is True
        finally:
            await connection.close()
        assert (await save(service.client, tenant.headers(), statement(1))).status_code == 201

    async def test_an_allowed_entitlement_is_not_served_stale_when_it_can_no_longer_be_read(
        self, service: Service, tenant: Tenant
    ) -> None:
        await _plan(service.deployment, '{"memory": true}')
        assert (await save(service.client, tenant.headers(), statement(1))).status_code == 201
        connection = await asyncpg.connect(service.deployment.dsn, timeout=5)
        try:
            async with connection.transaction():
                await connection.execute("lock table plans in access exclusive mode")
                await _denied_by(
                    time.time() + PATIENCE + 1.5,  # the last look-up waits for the lock
                    lambda: service.client.get("/api/memories", headers=tenant.headers()),
                    503,
                )
        finally:
            await connection.close()


REVOKE = "update runtime_keys set revoked_at = now() where short = $1"
EXPIRE = "update runtime_keys set expires_at = now() where short = $1"
LANE_MODE = "update lanes set mode = '{}' where id = (select lane_id from runtime_keys where short = $1)"


async def test_what_an_operator_changes_of_a_key_or_a_lane_holds_within_5_s_in_both_processes(pair: Pair) -> None:
    async def holds(change: str, writes: bool, status: int, code: str) -> None:
        tenant = await Tenant.new(pair.deployment, lane="tools", mode=LaneMode.READ_WRITE)
        me = tenant.headers()

        async def ask(client: httpx.AsyncClient) -> httpx.Response:
            return await (save(client, me, statement(1)) if writes else client.get("/api/memories", headers=me))

        for client in pair.clients:
            assert (await ask(client)).status_code < 300, "both have the key in their caches"
        await pair.deployment.execute(change, tenant.key.split("_")[1])
        end = time.time() + PATIENCE
        await asyncio.gather(*(_denied_by(end, lambda c=client: ask(c), status) for client in pair.clients))
        for client in pair.clients:
            assert (await ask(client)).json()["error"]["code"] == code
            read = await client.get("/api/memories", headers=me)
            assert (read.status_code == 200) == (code == "LANE_READ_ONLY")

    await asyncio.gather(
        holds(REVOKE, False, 401, "UNAUTHENTICATED"),
        holds(EXPIRE, True, 401, "UNAUTHENTICATED"),
        holds(LANE_MODE.format("read-only"), True, 403, "LANE_READ_ONLY"),
        holds(LANE_MODE.format("off"), False, 403, "LANE_OFF"),
    )


async def test_a_new_key_works_at_once_in_both_processes(pair: Pair) -> None:
    tenant = await pair.tenant()
    for client in pair.clients:
        assert (await client.get("/api/memories", headers=tenant.headers())).status_code == 200


async def _denied_by(end: float, ask: Callable[[], Awaitable[httpx.Response]], status: int) -> None:
    while (answer := await ask()).status_code < 400:
        assert time.time() < end, "still allowed"
        await asyncio.sleep(0.1)
    assert answer.status_code == status, answer.text


async def _plan(deployment: Deployment, features: str) -> None:
    json.loads(features)
    await deployment.execute("insert into plans (code, features) values ('team', $1::jsonb)", features)
    await deployment.execute("update organizations set plan_code = 'team'")


async def _override(deployment: Deployment, features: str) -> None:
    await deployment.execute(
        "insert into entitlement_overrides (organization_id, features) select id, $1::jsonb from organizations",
        features,
    )
