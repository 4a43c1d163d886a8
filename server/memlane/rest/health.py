"""Is the process up, does it take work, do its dependencies answer; and the entitlement that a runtime asks for."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from memlane.domain.entitlement import UNRESOLVED, Entitlement, EntitlementFault, runtime_entitlement_body
from memlane.domain.errors import MemlaneError, Unavailable
from memlane.rest.credentials import key_of
from memlane.rest.handlers import json_response
from memlane.rest.parsing import refuse_query
from memlane.usecases.authenticate import Gate
from memlane.usecases.ports import Clock

CHECK_SECONDS = 3.0
"""Longest wait for one dependency."""
ENTITLEMENT_SECONDS = 1.2
"""Longest wait for an entitlement: the published runtime gives up after 1.5 s (rest.md)."""

Check = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Acceptance:
    """Whether the process takes new work: from the end of start-up until draining begins.

    While it drains it still serves what a load balancer sends; ``closing`` is the end of that.
    """

    accepting: bool = field(default=False)
    closing: bool = field(default=False)


@dataclass(frozen=True, slots=True)
class HealthHandlers:
    """`/api/live`, `/api/accepting`, `/api/health` and `/api/ready`; every role serves them."""

    acceptance: Acceptance
    database: Check
    checks: Mapping[str, Check]

    async def live(self, request: Request) -> Response:
        """200 while the process runs; touches nothing."""
        refuse_query(request)
        return json_response({"status": "ok"})

    async def accepting(self, request: Request) -> Response:
        """What a load balancer asks: a shared outage does not turn it red."""
        refuse_query(request)
        if self.acceptance.accepting:
            return json_response({"status": "ok"})
        return json_response({"status": "unavailable"}, 503)

    async def health(self, request: Request) -> Response:
        """200 only when the database answers."""
        refuse_query(request)
        state = await _state_of(self.database)
        return json_response({"status": _word(state == "ok")}, 200 if state == "ok" else 503)

    async def ready(self, request: Request) -> Response:
        """200 when every dependency of this role answers, with a line for each."""
        refuse_query(request)
        states = await asyncio.gather(*(_state_of(check) for check in self.checks.values()))
        fine = all(state == "ok" for state in states)
        body = {"status": _word(fine), "checks": dict(zip(self.checks, states, strict=True))}
        return json_response(body, 200 if fine else 503)


@dataclass(frozen=True, slots=True)
class EntitlementHandlers:
    """`/api/entitlements/runtime`."""

    gate: Gate
    clock: Clock
    license_fault: EntitlementFault | None = None

    async def runtime_entitlement(self, request: Request) -> Response:
        """The published union, for the key's organization; the bearer key is all that it needs."""
        organization = ""
        outcome: Entitlement | EntitlementFault
        try:
            async with asyncio.timeout(ENTITLEMENT_SECONDS):
                key = await key_of(request, self.gate)
                refuse_query(request)
                organization = key.organization
                outcome = self.license_fault or await self.gate.entitlement(key)
        except (Unavailable, TimeoutError):
            # A status of its own would be read as any other fault: the published runtime reads only a 200.
            outcome = UNRESOLVED
        return json_response(
            runtime_entitlement_body(
                outcome,
                organization=organization,
                now=self.clock.now(),
                request_id=request.state.request_id,
            )
        )


def _word(fine: bool) -> str:
    return "ok" if fine else "unavailable"


async def _state_of(check: Check) -> str:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await check()
    except MemlaneError as fault:
        return fault.message
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:g} s"
    return "ok"
