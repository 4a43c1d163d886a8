"""Every route, for every kind of caller. Nothing leaks, and another's id looks like no id."""

import asyncio
import itertools
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from integration.rest.house import GRANTS, NO_SUCH_ID, Shop, error_of, new_slug, outward
from integration.rest.routes import BY_ID, GUARDED, KEYED, MATRIX, ROUTES, WITH_BODY, body_for
from memlane.domain.grant import Access, Grant
from memlane.domain.lane import LaneMode
from support.service import Service, headers_of

Route = tuple[str, str]
Headers = Mapping[str, Any]
# (owner, stranger): no rule of the user id may make one look like the other.
USER_PAIRS = {
    "u1 and u10": ("u1", "u10"),
    "u10 and u1": ("u10", "u1"),
    "upper and lower case": ("Ada", "ada"),
    "reserved characters": ("a&b=c:/%", "a&b=c:/"),
    "percent is not decoded": ("a%20b", "a b"),
    "a pattern is no pattern": ("u1", "u%"),
    "256 characters": ("x" * 256, "x" * 255),
    "emoji": ("🦊", "🦊🦊"),
    "256 emoji": ("🦊" * 256, "🦊" * 255),
    "composed and decomposed": ("caf\u00e9", "cafe\u0301"),
    "right to left": ("משתמש", "משתמשת"),
    "quotes": ("o'brien", "o''brien"),
    "a project's own name": ("project", "user"),
}


async def call(
    shop: Shop, route: Route, headers: Headers, memory_id: str = NO_SUCH_ID, scope: str = "user"
) -> httpx.Response:
    method, path = route
    body = body_for(route, scope)
    return await shop.client.request(method, path.replace("{id}", memory_id), headers=headers, json=body)


async def answers(shop: Shop, routes: list[Route], headers: Headers) -> dict[Route, tuple[int, str]]:
    return {route: error_of(await call(shop, route, headers)) for route in routes}


def every(routes: list[Route], status: int, code: str) -> dict[Route, tuple[int, str]]:
    return dict.fromkeys(routes, (status, code))


def test_every_route_has_an_entry_in_this_matrix() -> None:
    assert set(MATRIX) == set(ROUTES)


@pytest.mark.parametrize("route", MATRIX, ids=" ".join)
async def test_a_full_caller_gets_through(shop: Shop, me: dict[str, Any], route: Route) -> None:
    saved = await shop.save(me, "The warehouse closes at six.")
    answer = await call(shop, route, me, saved["id"])
    assert answer.status_code == MATRIX[route].status, answer.text


async def test_the_health_routes_need_no_credential(shop: Shop) -> None:
    found = {route: (await call(shop, route, {})).status_code for route in MATRIX if route not in KEYED}
    assert found == dict.fromkeys(found, 200)


# --- Keys


@pytest.mark.parametrize(
    "mangle",
    [
        pytest.param(lambda key: {}, id="no key"),  # noqa: ARG005
        pytest.param(lambda key: {"Authorization": ""}, id="an empty header"),  # noqa: ARG005
        pytest.param(lambda key: {"Authorization": "Bearer"}, id="no token"),  # noqa: ARG005
        pytest.param(lambda key: {"Authorization": key}, id="no scheme"),
        pytest.param(lambda key: {"Authorization": f"Basic {key}"}, id="another scheme"),
        pytest.param(lambda key: {"Authorization": f"Bearer {key}, Bearer {key}"}, id="two in one header"),
        pytest.param(lambda key: {"Authorization": f"Bearer {key[:-1]}"}, id="a shorter secret"),
        pytest.param(lambda key: {"Authorization": f"Bearer {key[:-1]}-"}, id="another alphabet"),
        pytest.param(
            lambda key: {"Authorization": f"Bearer {key[:-1]}{'a' if key[-1] != 'a' else 'b'}"}, id="another secret"
        ),
        pytest.param(lambda key: {"Authorization": f"Bearer {key}{'A' * 400}"}, id="a long secret"),
        pytest.param(
            lambda key: {"Authorization": f"Bearer {key.partition('_')[0]}_{'A' * 12}_{'A' * 43}"}, id="an unknown key"
        ),
        pytest.param(lambda key: {"Authorization": "Bearer null"}, id="null"),  # noqa: ARG005
    ],
)
async def test_without_a_sound_key_every_route_answers_401(shop: Shop, me: dict[str, Any], mangle: Any) -> None:
    key = me["Authorization"].removeprefix("Bearer ")
    headers = {**mangle(key), "X-Cpki-User-Id": "u1"}
    assert await answers(shop, KEYED, headers) == every(KEYED, 401, "UNAUTHENTICATED")


async def test_two_authorization_headers_are_no_key(shop: Shop, me: dict[str, Any]) -> None:
    headers = [("Authorization", me["Authorization"])] * 2
    answer = await shop.client.get("/api/memories", headers=[*headers, ("X-Cpki-User-Id", "u1")])
    assert error_of(answer) == (401, "UNAUTHENTICATED")


async def test_a_revoked_key_opens_no_route(shop: Shop, me: dict[str, Any]) -> None:
    short = me["Authorization"].split("_")[1]
    await shop.deployment.execute("update runtime_keys set revoked_at = now() where short = $1", short)
    assert await answers(shop, KEYED, me) == every(KEYED, 401, "UNAUTHENTICATED")


async def test_an_expired_key_opens_no_route(shop: Shop) -> None:
    expired = await shop.headers(expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert await answers(shop, KEYED, expired) == every(KEYED, 401, "UNAUTHENTICATED")


async def test_a_key_under_another_projects_name_opens_no_route(shop: Shop, me: dict[str, Any]) -> None:
    other = Shop(shop.service)
    await other.key()
    forged = {**me, "Authorization": me["Authorization"].replace(f"cpk-{shop.slug}_", f"cpk-{other.slug}_")}
    assert forged != me
    assert await answers(shop, KEYED, forged) == every(KEYED, 401, "UNAUTHENTICATED")


async def test_unknown_wrong_revoked_and_expired_keys_look_the_same(shop: Shop, me: dict[str, Any]) -> None:
    revoked = await shop.headers()
    await shop.deployment.execute(
        "update runtime_keys set revoked_at = now() where short = $1", revoked["Authorization"].split("_")[1]
    )
    tries = [
        {},
        {"Authorization": "Bearer nonsense"},
        {"Authorization": me["Authorization"] + "x"},
        revoked,
        await shop.headers(expires_at=datetime.now(UTC) - timedelta(days=1)),
    ]
    seen = [outward(await shop.client.get("/api/memories", headers=headers)) for headers in tries]
    assert all(one == seen[0] for one in seen)
    assert seen[0][2]["www-authenticate"] == "Bearer"


async def test_a_key_in_use_is_dead_within_5_s_of_its_revocation_or_expiry(shop: Shop, me: dict[str, Any]) -> None:
    expiring = await shop.headers(expires_at=datetime.now(UTC) + timedelta(seconds=2))
    for headers in (me, expiring):
        assert (await shop.client.get("/api/memories", headers=headers)).status_code == 200
    short = me["Authorization"].split("_")[1]
    await shop.deployment.execute("update runtime_keys set revoked_at = now() where short = $1", short)
    await asyncio.sleep(4.5)
    found = [(await shop.client.get("/api/memories", headers=headers)).status_code for headers in (me, expiring)]
    assert found == [401, 401]


# --- User ids


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param([], id="none"),
        pytest.param([b""], id="empty"),
        pytest.param(["\u3000\u00a0".encode()], id="spaces of other scripts"),
        pytest.param([b"x" * 257], id="257 characters"),
        pytest.param(["🦊".encode() * 257], id="257 emoji"),
        pytest.param([b"u1", b"u1"], id="two"),
    ],
)
async def test_without_a_sound_user_id_every_memory_route_answers_400(
    shop: Shop, me: dict[str, Any], sent: list[bytes]
) -> None:
    headers = [("Authorization", me["Authorization"]), *(("X-Cpki-User-Id", value) for value in sent)]
    for method, path in GUARDED:
        answer = await shop.client.request(method, path.replace("{id}", NO_SUCH_ID), headers=headers)  # type: ignore[arg-type]
        assert error_of(answer) == (400, "MEMORY_VALIDATION_ERROR"), (method, path)
        assert [fault["path"] for fault in answer.json()["error"]["details"]] == ["X-Cpki-User-Id"]


@pytest.mark.parametrize(
    ("sent", "same"),
    [
        pytest.param(b"caf\xe9", "café".encode(), id="Latin-1 bytes name the user that UTF-8 names"),
        pytest.param("\u3000ada\u00a0".encode(), b"ada", id="outer white space is cut"),
    ],
)
async def test_two_spellings_of_one_user_id(shop: Shop, me: dict[str, Any], sent: bytes, same: bytes) -> None:
    await shop.save({**me, "X-Cpki-User-Id": sent}, "Likes tea.")
    assert await shop.listed({**me, "X-Cpki-User-Id": same}) == ["Likes tea."]


async def test_bytes_that_are_not_utf8_are_latin1_as_a_whole(shop: Shop, me: dict[str, Any]) -> None:
    await shop.save({**me, "X-Cpki-User-Id": b"\xc3\xa9\xff"}, "Likes tea.")
    assert await shop.listed({**me, "X-Cpki-User-Id": "Ã©ÿ".encode()}) == ["Likes tea."]


# --- Nothing leaks


async def assert_nothing_leaks(shop: Shop, owner: Headers, stranger: Headers) -> None:
    """Whatever a stranger calls tells nothing of the owner's memory, and changes nothing of it."""
    secret = await shop.save(owner, "The vault's code word is heliotrope.", sourceThreadIds=["thread-9"])
    before = (await shop.read(owner, secret["id"])).json()

    assert await shop.page(stranger, "?includeInvalidated=true") == {
        "memories": [],
        "positions": (await shop.page(stranger))["positions"],
    }
    assert await shop.recalled(stranger, "The vault's code word is heliotrope.") == []
    owners = {(place["epoch"], place["seq"]) for place in (await shop.page(owner))["positions"].values()}
    strangers = {(place["epoch"], place["seq"]) for place in (await shop.page(stranger))["positions"].values()}
    assert not owners & {place for place in strangers if place[1]}

    for route in BY_ID:
        other = await call(shop, route, stranger, secret["id"])
        none = await call(shop, route, stranger, NO_SUCH_ID)
        assert outward(other) == outward(none), route
        assert error_of(none) == (404, "MEMORY_NOT_FOUND"), route

    again = await shop.save(stranger, "The vault's code word is heliotrope.")
    assert (again["absorbed"], again["similar"]) == (False, [])
    assert (await shop.read(owner, secret["id"])).json() == before


@pytest.mark.parametrize(("owner", "stranger"), USER_PAIRS.values(), ids=USER_PAIRS)
async def test_another_users_memory_looks_like_none(shop: Shop, me: dict[str, Any], owner: str, stranger: str) -> None:
    as_owner, as_stranger = ({**me, "X-Cpki-User-Id": user.encode()} for user in (owner, stranger))
    await assert_nothing_leaks(shop, as_owner, as_stranger)


async def test_another_projects_memory_looks_like_none(shop: Shop, me: dict[str, Any]) -> None:
    other = Shop(shop.service)
    await assert_nothing_leaks(shop, me, await other.headers())


async def test_another_projects_shared_memory_looks_like_none(shop: Shop, me: dict[str, Any]) -> None:
    secret = await shop.save(me, "The vault's code word is heliotrope.", scope="project")
    stranger = await Shop(shop.service).headers()
    assert await shop.listed(stranger, "?includeInvalidated=true") == []
    assert await shop.recalled(stranger, "vault code word") == []
    for route in BY_ID:
        seen = [outward(await call(shop, route, stranger, one, "project")) for one in (secret["id"], NO_SUCH_ID)]
        assert seen[0] == seen[1], route


async def test_another_organizations_memory_looks_like_none(managed_house: Service) -> None:
    ours, theirs = Shop(managed_house), Shop(managed_house)
    owner = await ours.headers(organization="acme")
    stranger = await theirs.headers(organization="globex")
    await assert_nothing_leaks(ours, owner, stranger)


async def test_shared_memories_are_visible_to_every_user_of_the_project(shop: Shop, me: dict[str, Any]) -> None:
    await shop.save(me, "Our staging server is called heron.", scope="project")
    colleague = {**me, "X-Cpki-User-Id": "u2"}
    assert await shop.listed(colleague) == ["Our staging server is called heron."]
    assert await shop.recalled(colleague, "staging server") == ["Our staging server is called heron."]


async def test_what_is_no_id_at_all_looks_like_no_id(shop: Shop, me: dict[str, Any]) -> None:
    for route in BY_ID:
        none = outward(await call(shop, route, me, NO_SUCH_ID))
        for text in ("7", "x" * 300, "%00", "'%20or%201=1", NO_SUCH_ID + "0", "%F0%9F%A6%8A", "{id}"):
            assert outward(await call(shop, route, me, text)) == none, (route, text)


async def test_an_id_may_be_written_in_capitals(shop: Shop, me: dict[str, Any]) -> None:
    saved = await shop.save(me, "Likes tea.")
    assert (await shop.read(me, saved["id"].upper())).json()["id"] == saved["id"]


# --- Grants


def allowed(route: Route, access: str) -> bool:
    needs = MATRIX[route].needs
    return access == "read-write" or (access == "read" and needs == "read")


def expected(route: Route, grant: Mapping[str, str], scope: str) -> int:
    """What a route answers to a grant, for a row or a body of this scope."""
    access, widest = grant[scope], max(grant.values(), key=GRANTS.index)
    if not allowed(route, widest):
        return 403
    if allowed(route, access) or not ("{id}" in route[1] or MATRIX[route].names_scope):
        return MATRIX[route].status
    if route == ("PATCH", "/api/memories/{id}") or "{id}" not in route[1] or access == "read":
        return 403
    return 404  # a row that the grant does not even read looks like no row


async def assert_opens(shop: Shop, full: Headers, limited: Headers, grant: Mapping[str, str]) -> None:
    """Every route, for a row or a body of each scope, answers as the grant says."""
    found, wanted = {}, {}
    for scope in ("user", "project"):
        drafts = [{"content": f"Shelf {number} is empty.", "kind": "topical", "scope": scope} for number in range(3)]
        batch = await shop.post(full, {"memories": drafts}, "/api/memories/batch")
        spare, *spoilt = (row["id"] for row in batch.json()["outcomes"])
        for route in GUARDED:
            target = spare if MATRIX[route].spares_target else spoilt.pop()
            found[scope, *route] = (await call(shop, route, limited, target, scope)).status_code
            wanted[scope, *route] = expected(route, grant, scope)
    assert found == wanted


@pytest.mark.parametrize(("user", "project"), list(itertools.product(GRANTS, GRANTS)))
async def test_each_grant_of_the_header_opens_what_it_names(
    shop: Shop, me: dict[str, Any], user: str, project: str
) -> None:
    grant = {"user": user, "project": project}
    await assert_opens(shop, me, {**me, "X-Cpki-Memory-Grant": json.dumps(grant)}, grant)


@pytest.mark.parametrize(("user", "project"), [("none", "read"), ("read", "read-write"), ("read-write", "none")])
async def test_each_grant_of_the_key_opens_what_it_names(
    shop: Shop, me: dict[str, Any], user: str, project: str
) -> None:
    limited = await shop.headers(grant=Grant(Access(user), Access(project)))
    await assert_opens(shop, me, limited, {"user": user, "project": project})


async def test_a_refused_grant_is_told_by_its_code(shop: Shop, me: dict[str, Any]) -> None:
    nothing = {**me, "X-Cpki-Memory-Grant": "{}"}
    assert await answers(shop, GUARDED, nothing) == every(GUARDED, 403, "MEMORY_GRANT_DENIED")


async def test_the_header_never_widens_the_key(shop: Shop) -> None:
    key = await shop.deployment.key(shop.slug, grant=Grant(Access.READ, Access.NONE))
    widened = headers_of(key, grant={"user": "read-write", "project": "read-write"})
    found = {route: error_of(await call(shop, route, widened)) for route in GUARDED if MATRIX[route].needs == "write"}
    assert found == dict.fromkeys(found, (403, "MEMORY_GRANT_DENIED"))
    assert set((await shop.page(widened))["positions"]) == {"user"}


async def test_a_missing_side_of_the_header_is_none(shop: Shop, me: dict[str, Any]) -> None:
    assert set((await shop.page({**me, "X-Cpki-Memory-Grant": '{"project":"read"}'}))["positions"]) == {"project"}


@pytest.mark.parametrize(
    "sent",
    [
        "", "read", "null", "[]", '"read-write"', '{"user":"write"}', '{"user":true}', '{"user":null}',
        '{"user":["read"]}', '{"team":"read"}', '{"user":"read","user":"none"}', '{"user":"read"',
        "{'user':'read'}", "[" * 200, '{"user":' + " " * 300 + '"read"}', '{"user":"READ"}', '{"user":NaN}',
    ],
)  # fmt: skip
async def test_a_malformed_grant_is_400_and_not_a_denial(shop: Shop, me: dict[str, Any], sent: str) -> None:
    found = await answers(shop, GUARDED, {**me, "X-Cpki-Memory-Grant": sent})
    assert found == every(GUARDED, 400, "MEMORY_VALIDATION_ERROR")


async def test_two_grant_headers_are_malformed(shop: Shop, me: dict[str, Any]) -> None:
    grants = [("X-Cpki-Memory-Grant", '{"user":"read"}'), ("X-Cpki-Memory-Grant", '{"user":"read"}')]
    answer = await shop.client.get("/api/memories", headers=[*me.items(), *grants])
    assert error_of(answer) == (400, "MEMORY_VALIDATION_ERROR")


# --- Lanes


@pytest.mark.parametrize(
    ("mode", "reads", "writes"),
    [
        (LaneMode.READ_WRITE, None, None),
        (LaneMode.READ_ONLY, None, (403, "LANE_READ_ONLY")),
        (LaneMode.OFF, (403, "LANE_OFF"), (403, "LANE_OFF")),
    ],
)
async def test_each_lane_mode_opens_what_it_names(
    shop: Shop, me: dict[str, Any], mode: LaneMode, reads: tuple[int, str] | None, writes: tuple[int, str] | None
) -> None:
    inside = await shop.headers(lane="nightly", mode=mode)
    for number, route in enumerate(GUARDED):
        saved = await shop.save(me, f"Shelf {number} is empty.")
        answer = await call(shop, route, inside, saved["id"])
        refusal = writes if MATRIX[route].needs == "write" else reads
        assert (answer.status_code == MATRIX[route].status) if refusal is None else (error_of(answer) == refusal), route


async def test_a_lane_that_is_off_still_tells_the_entitlement(shop: Shop) -> None:
    inside = await shop.headers(lane="nightly", mode=LaneMode.OFF)
    assert (await shop.client.get("/api/entitlements/runtime", headers=inside)).json()["status"] == "ready"


# --- Entitlement


async def test_an_organization_without_entitlement_gets_404_on_every_memory_route(shop: Shop) -> None:
    strangers = headers_of(await shop.deployment.key(new_slug(), organization="globex"))
    assert await answers(shop, GUARDED, strangers) == every(GUARDED, 404, "MEMORY_NOT_ENTITLED")


async def test_an_organization_without_a_plan_gets_404_on_every_memory_route(managed_house: Service) -> None:
    shop = Shop(managed_house)
    planless = await shop.headers(organization="initech")
    assert await answers(shop, GUARDED, planless) == every(GUARDED, 404, "MEMORY_NOT_ENTITLED")


# --- The order of the checks


@pytest.mark.parametrize("route", GUARDED, ids=" ".join)
async def test_the_checks_run_in_the_order_of_the_contract(shop: Shop, route: Route) -> None:
    """A request that is wrong in every way, mended one fault at a time."""
    writes, has_body, by_id = MATRIX[route].needs == "write", MATRIX[route].body is not None, "{id}" in route[1]
    method, path = route
    path = path.replace("{id}", NO_SUCH_ID)
    off = await shop.key(lane="off-lane", mode=LaneMode.OFF)
    open_ = await shop.key()
    stranger = await shop.deployment.key(new_slug(), organization="globex")
    seen = []

    async def attempt(key: str, user: str, grant: str, query: str, body: Any) -> None:
        headers = {"Authorization": f"Bearer {key}", "X-Cpki-User-Id": user, "X-Cpki-Memory-Grant": grant}
        answer = await shop.client.request(method, path + query, headers=headers, json=body)
        seen.append(error_of(answer) if answer.is_error else (answer.status_code, ""))

    bad_body: Any = {"nonsense": 1} if has_body else None
    sound = body_for(route, "user")
    enough = '{"user":"read-write"}'
    await attempt("nonsense", "", "{", "?bad=1", bad_body)
    await attempt(stranger, "", "{", "?bad=1", bad_body)
    await attempt(off, "", "{", "?bad=1", bad_body)
    await attempt(off, "u1", "{", "?bad=1", bad_body)
    await attempt(off, "u1", "{}", "?bad=1", bad_body)
    await attempt(open_, "u1", '{"user":"read"}' if writes else "{}", "?bad=1", bad_body)
    await attempt(open_, "u1", enough, "?bad=1", sound)
    await attempt(open_, "u1", enough, "", sound)
    last = (404, "MEMORY_NOT_FOUND") if by_id else (MATRIX[route].status, "")
    assert seen == [
        (401, "UNAUTHENTICATED"),
        (404, "MEMORY_NOT_ENTITLED"),
        (400, "MEMORY_VALIDATION_ERROR"),
        (400, "MEMORY_VALIDATION_ERROR"),
        (403, "LANE_OFF"),
        (403, "MEMORY_GRANT_DENIED"),
        (400, "MEMORY_VALIDATION_ERROR"),
        last,
    ]


@pytest.mark.parametrize("route", WITH_BODY, ids=" ".join)
async def test_a_bad_body_comes_before_a_missing_row(shop: Shop, me: dict[str, Any], route: Route) -> None:
    method, path = route
    answer = await shop.client.request(method, path.replace("{id}", NO_SUCH_ID), headers=me, json={"nonsense": 1})
    assert error_of(answer) == (400, "MEMORY_VALIDATION_ERROR")
