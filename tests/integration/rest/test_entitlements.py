"""GET /api/entitlements/runtime: the published union. Its clients parse it strictly."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from integration.rest.house import Borrowed, Shop, error_of, new_slug
from memlane.auth.licenses import generate_keypair
from memlane.usecases.ports import Embedder
from support.service import MovableClock, Service, headers_of, running_service


@asynccontextmanager
async def served(house: Service, embedder: Embedder, **settings: Any) -> AsyncIterator[Shop]:
    """A project of `acme` on a service with other settings."""
    changed = house.deployment.settings(**settings)
    async with running_service(house.deployment, changed, embedder=Borrowed(embedder)) as (service, _):
        yield Shop(service)


async def union(shop: Shop, me: dict[str, Any]) -> Any:
    answer = await shop.client.get("/api/entitlements/runtime", headers={"Authorization": me["Authorization"]})
    assert answer.status_code == 200
    return answer.json()


async def memory_status(shop: Shop, me: dict[str, Any]) -> Any:
    answer = await shop.client.get("/api/memories", headers=me)
    return error_of(answer) if answer.is_error else answer.status_code


async def test_a_good_license_is_ready_with_exactly_the_published_fields(shop: Shop, me: dict[str, Any]) -> None:
    assert await union(shop, me) == {
        "status": "ready",
        "entitlement": {
            "active": True,
            "source": "selfHostedDeploymentLicense",
            "features": {"memory": True},
            "limits": {},
            "planCode": "enterprise",
            "entitlementSource": "license",
        },
    }


async def test_a_plan_is_ready_as_a_managed_subscription(managed_house: Service) -> None:
    shop = Shop(managed_house)
    found = await union(shop, await shop.headers())
    assert found == {
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


async def test_an_organization_without_a_plan_is_ready_and_inactive(managed_house: Service) -> None:
    shop = Shop(managed_house)
    me = await shop.headers(organization="hooli")
    found = await union(shop, me)
    assert (found["status"], found["entitlement"]["active"]) == ("ready", False)
    assert await memory_status(shop, me) == (404, "MEMORY_NOT_ENTITLED")


async def test_an_override_switches_memory_on_and_off(managed_house: Service) -> None:
    shop = Shop(managed_house)
    for organization, plan, feature in (("soylent", None, "true"), ("tyrell", "team", "false")):
        project = await shop.deployment.project(new_slug(), organization)
        await shop.deployment.execute("update organizations set plan_code = $1 where slug = $2", plan, organization)
        await shop.deployment.execute(
            "insert into entitlement_overrides (organization_id, features) "
            "select id, jsonb_build_object('memory', $2::text::jsonb) from organizations where slug = $1",
            organization,
            feature,
        )
        me = headers_of(await shop.deployment.key(project.slug, organization=organization))
        found = (await union(shop, me))["entitlement"]
        assert (found["active"], found["features"]) == (True, {"memory": feature == "true"})
        assert found["entitlementSource"] == "enterpriseOverride"
        assert await memory_status(shop, me) == (200 if feature == "true" else (404, "MEMORY_NOT_ENTITLED"))


@pytest.mark.parametrize(
    "stored", ['"true"', "1", "null", "{}", "[true]", '"yes"'],
)  # fmt: skip
async def test_a_feature_that_is_not_exactly_true_is_off(managed_house: Service, stored: str) -> None:
    shop = Shop(managed_house)
    organization = f"org-{new_slug()}"
    await shop.deployment.execute(
        "insert into plans (code, features) values ($1, jsonb_build_object('memory', $2::text::jsonb))",
        organization,
        stored,
    )
    me = await shop.headers(organization=organization)
    await shop.deployment.execute("update organizations set plan_code = slug where slug = $1", organization)
    assert await memory_status(shop, me) == (404, "MEMORY_NOT_ENTITLED")
    assert (await union(shop, me))["entitlement"]["features"] == {}


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param({"license": "not-a-license"}, id="no license at all"),
        pytest.param({"license_keys": f"test:{generate_keypair().public}"}, id="a signature of another key"),
        pytest.param({"license_keys": f"other:{generate_keypair().public}"}, id="an unknown key id"),
    ],
)
async def test_a_rejected_license_is_misconfigured_and_denies(
    house: Service, embedder: Embedder, broken: dict[str, str]
) -> None:
    async with served(house, embedder, **broken) as shop:
        me = await shop.headers()
        found = await union(shop, me)
        assert found.keys() == {"status", "error"}
        assert (found["status"], found["error"]["code"]) == ("misconfigured", "MEMORY_NOT_ENTITLED")
        assert found["error"].keys() == {"code", "message", "retryable", "requestId"}
        assert found["error"]["retryable"] is False
        assert await memory_status(shop, me) == (404, "MEMORY_NOT_ENTITLED")


async def test_a_license_of_another_organization_is_misconfigured_and_denies(
    house: Service, embedder: Embedder
) -> None:
    async with served(house, embedder, license=house.deployment.license(organization="globex")) as shop:
        me = await shop.headers()
        assert (await union(shop, me))["status"] == "misconfigured"
        assert await memory_status(shop, me) == (404, "MEMORY_NOT_ENTITLED")


@pytest.mark.parametrize(
    "dates",
    [
        pytest.param({"starts_in": timedelta(days=-9), "ends_in": timedelta(seconds=-1)}, id="expired"),
        pytest.param({"starts_in": timedelta(days=1)}, id="not yet begun"),
    ],
)
async def test_a_license_outside_its_dates_is_ready_inactive_and_denies(
    house: Service, embedder: Embedder, dates: dict[str, timedelta]
) -> None:
    async with served(house, embedder, license=house.deployment.license(**dates)) as shop:
        me = await shop.headers()
        found = await union(shop, me)
        assert (found["status"], found["entitlement"]["active"]) == ("ready", False)
        assert await memory_status(shop, me) == (404, "MEMORY_NOT_ENTITLED")


@pytest.mark.parametrize("features", [{}, {"memory": False}, {"memories": True}], ids=str)
async def test_a_license_without_the_feature_is_active_and_denies(
    house: Service, embedder: Embedder, features: dict[str, bool]
) -> None:
    async with served(house, embedder, license=house.deployment.license(features=features)) as shop:
        me = await shop.headers()
        found = await union(shop, me)
        assert (found["entitlement"]["active"], found["entitlement"]["features"]) == (True, features)
        assert await memory_status(shop, me) == (404, "MEMORY_NOT_ENTITLED")


async def test_a_license_that_expires_while_the_process_runs_denies_at_once(house: Service, embedder: Embedder) -> None:
    clock = MovableClock()
    settings = house.deployment.settings()
    async with running_service(house.deployment, settings, embedder=Borrowed(embedder), clock=clock) as (service, _):
        shop = Shop(service)
        me = await shop.headers()
        assert await memory_status(shop, me) == 200
        clock.offset = timedelta(days=31)
        assert await memory_status(shop, me) == (404, "MEMORY_NOT_ENTITLED")
        assert (await union(shop, me))["entitlement"]["active"] is False


async def test_a_withdrawn_plan_denies_within_5_s(managed_house: Service) -> None:
    shop = Shop(managed_house)
    me = await shop.headers(organization="umbrella")
    await shop.deployment.execute("update organizations set plan_code = 'team' where slug = 'umbrella'")
    assert await memory_status(shop, me) == 200
    await shop.deployment.execute("update organizations set plan_code = null where slug = 'umbrella'")
    await asyncio.sleep(4.5)
    assert await memory_status(shop, me) == (404, "MEMORY_NOT_ENTITLED")


async def test_the_union_needs_no_user_id_and_hears_no_grant(shop: Shop, me: dict[str, Any]) -> None:
    headers = {"Authorization": me["Authorization"], "X-Cpki-Memory-Grant": "nonsense"}
    answer = await shop.client.get("/api/entitlements/runtime", headers=headers)
    assert answer.json()["status"] == "ready"
