"""The short form of `make soak`: the same fleet, disturbances and reckoning, with less load."""

from soak.run import Plan, soak

PLAN = Plan(sockets=150, per_second=20, seconds=20, pause=1.0, durable=False)


async def test_nothing_acknowledged_is_lost_and_every_page_is_right_while_each_process_is_killed_and_upgraded() -> None:
    found = await soak(PLAN)
    assert found.broken() == []
    assert len(found.disturbed) >= 10
    assert found.exit_codes == {0}
    assert sum(found.written.values()) == PLAN.per_second * PLAN.seconds
    assert set(found.written) == {"saved", "superseded", "retired"}
    assert found.converged_after is not None
    assert found.reconnects >= PLAN.sockets // 2
    assert found.errors == []
