"""The convergence oracle: after any faults and any delays, what every published client shows is what is true."""

import asyncio
import os
import time
from random import Random
from secrets import randbelow
from typing import Any

from oracle.driver import OWN, PHOENIX, Wanted
from oracle.faults import Faults
from oracle.fleet import Fleet, running_fleet

USERS = int(os.environ.get("ORACLE_USERS", "10"))
SEED = int(os.environ.get("ORACLE_SEED", "0")) or randbelow(10**9) + 1
ROUNDS = int(os.environ.get("ORACLE_ROUNDS", "1"))
PACE_MS = max(1500, 130 * USERS)
"""Mean wait between the steps of one user: 7 to 8 steps a second in all, as two cores carry with all that they host."""
QUIET_SECONDS = 22.0
"""An answer may be under way for 15 s; the last resend comes right after."""
PROBE_SECONDS = 10.0
CONNECT_SECONDS = 60.0
PROJECT = "oracle"

Report = dict[str, Any]


async def test_every_client_shows_what_the_database_holds_after_faults() -> None:
    """Random writes, supersedes, deletes, restores and refreshes while everything behind the client breaks."""
    random = Random(SEED)  # noqa: S311 - no secret, and the same each time
    began = time.monotonic()

    def say(what: str) -> None:
        _print(f"[{time.monotonic() - began:6.1f} s] {what}")

    say(f"seed {SEED}, {USERS} users: ORACLE_SEED={SEED} ORACLE_USERS={USERS} make oracle")
    async with running_fleet() as fleet:
        key = await fleet.deployment.key(PROJECT)
        wanted = _clients(USERS)
        users = sorted({one.user for one in wanted})
        await fleet.driver.bff("main", fleet.api_urls, key, seed=SEED, slow=True)
        say(f"{len(wanted)} clients load")
        await fleet.driver.open("main", fleet.balancer.url, wanted)
        await _all_connected(fleet)
        await fleet.driver.start("main", SEED, PACE_MS)
        for _ in range(ROUNDS):
            faults = Faults(fleet, random, key, users, say)
            async for _name in faults.run():
                pass
        say("the faults are over; answers under way arrive")
        counts = await fleet.driver.stop()
        silent = time.monotonic()
        say("quiet")
        await asyncio.sleep(QUIET_SECONDS)
        reports = await fleet.driver.reports()
        wrong = await _differences(fleet, reports)
        say(f"{time.monotonic() - silent:.1f} s after the last answer: {len(wrong)} clients differ")
        for name, difference in wrong.items():
            say(await _explained(fleet, name, difference))
        deaf = await _deaf(fleet, key, users)
        failed = await _failed(fleet)
        _print_summary(reports, counts, wrong)
        complaints = fleet.complaints()
        for line in complaints:
            say(line)
        assert not wrong, f"ORACLE_SEED={SEED}: {len(wrong)} clients differ from the database: {wrong}"
        assert not [line for one in reports for line in one["violations"]], _violations(reports)
        again = [one["name"] for one in reports if one.get("replays")]
        assert not again, f"ORACLE_SEED={SEED}: these were told what lay before their position: {again}"
        assert not deaf, f"ORACLE_SEED={SEED}: these no longer hear: {deaf}"
        assert not failed, f"ORACLE_SEED={SEED}: {failed}"
        assert not complaints, f"ORACLE_SEED={SEED}: the processes logged errors: {complaints[:5]}"
        say("every client shows what the database holds")


def _clients(users: int) -> list[Wanted]:
    """Half on each phoenix; every third user has a second client, on the other one, and every second our own."""
    clients = []
    for number in range(users):
        user, own = f"user-{number}", PHOENIX[number % 2]
        clients.append(Wanted(f"{user}/a", user, own))
        if number % 3 == 0:
            clients.append(Wanted(f"{user}/b", user, PHOENIX[(number + 1) % 2]))
        if number % 2 == 0:
            clients.append(Wanted(f"{user}/{OWN}", user, OWN))
    return clients


async def _all_connected(fleet: Fleet) -> None:
    end = time.monotonic() + CONNECT_SECONDS
    while late := [one["name"] for one in await fleet.driver.reports() if one["realtimeStatus"] != "connected"]:
        assert time.monotonic() < end, f"{late[0]} does not connect: {await fleet.driver.journal(late[0])}"
        await asyncio.sleep(0.2)


async def _differences(fleet: Fleet, reports: list[Report]) -> dict[str, dict[str, list[str]]]:
    """By client: what it lacks, shows though it is not live, and shows with another text."""
    live = await fleet.live_rows(PROJECT)
    wrong = {}
    for one in reports:
        true = {**live.get("", {}), **live.get(one["user"], {})}
        shown = one["rows"]
        difference = {
            "lacks": sorted(true.keys() - shown.keys()),
            "not live": sorted(shown.keys() - true.keys()),
            "other text": sorted(row for row in true.keys() & shown.keys() if true[row] != shown[row]),
        }
        if any(difference.values()):
            wrong[one["name"]] = {kind: rows for kind, rows in difference.items() if rows}
    return wrong


async def _deaf(fleet: Fleet, key: str, users: list[str]) -> dict[str, list[str]]:
    """Clients that do not hear of a change made now, by what they do not hear of."""
    everybody = await fleet.save(key, users[0], f"A last word to everybody, {SEED}.", scope="project")
    own = {user: await fleet.save(key, user, f"A last word to {user}, {SEED}.") for user in users}
    end = time.monotonic() + PROBE_SECONDS
    while True:
        deaf: dict[str, list[str]] = {}
        for one in await fleet.driver.reports():
            for what, row in (("user", own[one["user"]]), ("project", everybody)):
                if row not in one["rows"]:
                    deaf.setdefault(one["name"], []).append(what)
        if not deaf or time.monotonic() > end:
            return deaf
        await asyncio.sleep(0.2)


async def _failed(fleet: Fleet) -> list[str]:
    """Clients that cannot go on, each with its reason."""
    await asyncio.gather(*(fleet.driver.act(one["name"], "refresh") for one in await fleet.driver.reports()))
    reports = await fleet.driver.reports()
    failed = [
        f"{one['name']}: {one['realtimeStatus']}, available {one['available']}, error {one['error']}"
        for one in reports
        if one["realtimeStatus"] != "connected" or not one["available"] or one["error"] or one["inFlightMutationCount"]
    ]
    failed += [
        f"{one['name']} was unavailable at {moment['at']} ms"
        for one in reports
        for moment in one["statuses"]
        if moment["status"] == "unavailable" and not moment["excused"]
    ]
    return failed + [f"{name}: {rest}" for name, rest in (await _differences(fleet, reports)).items()]


async def _explained(fleet: Fleet, name: str, difference: dict[str, list[str]]) -> str:
    """The journal of a client as far as it has to do with the rows that differ."""
    rows = {row for rows in difference.values() for row in rows}
    lines = [f"{name} differs: {difference}"]
    for entry in await fleet.driver.journal(name):
        if entry["what"] in {"event", "api", "answer"}:
            ids = entry.pop("ids", None)
            about = {entry.get("id"), entry.get("retiredId")} & rows
            if ids is not None:
                entry["shows"] = sorted(rows & set(ids))
            elif not about:
                continue
        lines.append(f"    {entry}")
    for row in sorted(rows):
        found = await fleet.deployment.fetch(
            "select m.seq, m.scope, m.retired_at, m.updated_at, now() from memories m where id = $1::uuid", row
        )
        lines.append(f"    database: {row} {[tuple(map(str, one)) for one in found]}")
    return "\n".join(lines)


def _violations(reports: list[Report]) -> str:
    lines = [f"{one['name']}: {line}" for one in reports for line in one["violations"]]
    return f"ORACLE_SEED={SEED}: {len(lines)} frames out of order:\n" + "\n".join(lines[:20])


def _print_summary(reports: list[Report], counts: dict[str, int], wrong: dict[str, Any]) -> None:
    _print(f"\n{'client':<14}{'phoenix':<9}{'rows':>6}{'frames':>8}{'upgrades':>10}{'loads':>7}  {'status':<12}equal")
    for one in reports:
        _print(
            f"{one['name']:<14}{one['phoenix']:<9}{one['count']:>6}{one['frames']:>8}{len(one['upgrades']):>10}"
            f"{one['loads']:>7}  {one['realtimeStatus']:<12}{'no' if one['name'] in wrong else 'yes'}"
        )
    _print("  ".join(f"{what}: {number}" for what, number in sorted(counts.items())))


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the progress of `make oracle`
