"""May this token's socket open, and may it go on.

A passing fault of the database or the entitlement is waited out; what is denied is denied for good. Open
sessions are checked again every 2 s, so that a revoked key, a lane set to off, a withdrawn entitlement, a log-out
or the end of a session silences a socket within 5 s.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence

from memlane.domain.decisions import Decision, Denied
from memlane.domain.entitlement import Entitlement, decide_entitlement
from memlane.domain.errors import Unavailable
from memlane.domain.stream import JoinClaims, SessionState, decide_session
from memlane.observability import metrics
from memlane.phoenix.close_codes import CloseCode
from memlane.realtime.client import Client
from memlane.usecases.ports import Clock, EntitlementSource, StreamStore

CHECK_SECONDS = 2.0
"""How often open sessions are checked; with the time limits of one check this stays within the promised 5 s."""
CHECK_PAGE = 500
RETRY_SECONDS = 0.25
SOCKETS_PER_TOKEN = 4
"""Most sockets of one token in one process (realtime.md, Tokens)."""


class Sessions:
    """The open sockets of this process by session."""

    def __init__(
        self,
        streams: StreamStore,
        entitlements: EntitlementSource,
        clock: Clock,
        *,
        session_hours: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._streams = streams
        self._entitlements = entitlements
        self._clock = clock
        self._session_hours = session_hours
        self._monotonic = monotonic
        self._clients: set[Client] = set()
        self._sockets: Counter[str] = Counter()

    @property
    def clients(self) -> Sequence[Client]:
        """The open sockets."""
        return tuple(self._clients)

    def take_place(self, claims: JoinClaims) -> bool:
        """Count a socket of this token; False when there are 4 already."""
        if self._sockets[claims.session_id] >= SOCKETS_PER_TOKEN:
            return False
        self._sockets[claims.session_id] += 1
        return True

    def give_place(self, claims: JoinClaims) -> None:
        """A socket of this token is gone."""
        self._sockets[claims.session_id] -= 1
        if self._sockets[claims.session_id] <= 0:
            del self._sockets[claims.session_id]

    def opened(self, client: Client) -> None:
        """A socket is open."""
        self._clients.add(client)
        metrics.STREAM_SOCKETS.set(len(self._clients))

    def gone(self, client: Client) -> None:
        """A socket is gone."""
        self._clients.discard(client)
        metrics.STREAM_SOCKETS.set(len(self._clients))

    async def admit(self, claims: JoinClaims, *, until: float) -> Decision:
        """Decide whether a socket may open; a passing fault is waited out.

        Args:
            claims: Of a token whose signature is good.
            until: When to stop waiting, in monotonic seconds.

        Raises:
            Unavailable: It could not be told in time.
        """
        while True:
            try:
                state = (await self._streams.session_states([claims]))[0]
                decision = await self._decide(claims, state)
                if not isinstance(decision, Denied) and state.first_used_at is None:
                    await self._streams.begin_session(claims)
            except Unavailable:
                if self._monotonic() + RETRY_SECONDS > until:
                    raise
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return decision

    async def _decide(
        self, claims: JoinClaims, state: SessionState, known: dict[str, Entitlement] | None = None
    ) -> Decision:
        now = self._clock.now()
        decision = decide_session(claims, state, session_hours=self._session_hours, now=now)
        if isinstance(decision, Denied):
            return decision
        if state.organization is None or state.organization_id is None:
            return Denied("not_entitled")
        # One check of many sockets asks once for each organization.
        known = {} if known is None else known
        entitlement = known.get(state.organization_id)
        if entitlement is None:
            entitlement = await self._entitlements.resolve(state.organization_id, state.organization)
            known[state.organization_id] = entitlement
        entitled = decide_entitlement(entitlement, organization=state.organization, now=now)
        return Denied("not_entitled") if isinstance(entitled, Denied) else entitled

    async def run_checks(self) -> None:
        """Check every open session anew, for ever."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            clients = list(self._clients)
            for start in range(0, len(clients), CHECK_PAGE):
                try:
                    await self._check(clients[start : start + CHECK_PAGE])
                except Unavailable:
                    # Without the database no event is read or written either; the next round decides.
                    break

    async def _check(self, clients: Sequence[Client]) -> None:
        states = await self._streams.session_states([client.claims for client in clients])
        known: dict[str, Entitlement] = {}
        for client, state in zip(clients, states, strict=True):
            decision = await self._decide(client.claims, state, known)
            if isinstance(decision, Denied):
                metrics.STREAM_ENDED.labels(decision.code).inc()
                client.close(CloseCode.SERVICE_RESTART, "this session has ended")

    async def run_idle_checks(self) -> None:
        """Close sockets that have said nothing for 60 s, for ever."""
        while True:
            await asyncio.sleep(1.0)
            now = self._monotonic()
            for client in list(self._clients):
                client.carry_out(client.connection.check_idle(now), now)
