"""Whether a token may join a topic, and from where on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from memlane.domain.decisions import Denied
from memlane.domain.events import SEQ_MAX
from memlane.domain.grant import decide_grant
from memlane.domain.memory import Position
from memlane.domain.stream import CURSOR_SECONDS, ChannelKey, JoinClaims
from memlane.phoenix.protocol import UNMATCHED_TOPIC
from memlane.phoenix.topics import parse_topic
from memlane.usecases.ports import StreamStore


@dataclass(frozen=True, slots=True)
class Refused:
    """The join is refused for good; ``other_epoch`` means that the whole token is void."""

    reason: str
    other_epoch: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    """The join stands.

    Attributes:
        key: The channel.
        epoch: Its epoch.
        head: Its seq.
        position: The seq after which everything is sent.
        fenced: Whether late answers may overwrite newer rows in this client.
        response: For the reply; empty for the stock client.
    """

    key: ChannelKey
    epoch: str
    head: int
    position: int
    fenced: bool
    response: Mapping[str, Any] = field(default_factory=dict)


async def resolve_join(
    streams: StreamStore, claims: JoinClaims, topic: str, payload: Mapping[str, Any]
) -> Accepted | Refused:
    """Decide on a join: a token opens its own user's topics, as far as its grant reads them.

    Raises:
        StorageUnavailable: It cannot be told now; try again.
    """
    named = parse_topic(topic)
    if named is None or isinstance(decide_grant(claims.grant, named.scope, needs_write=False), Denied):
        return Refused(UNMATCHED_TOPIC)
    owner = claims.user if named.scope == "user" else ""
    since = claims.issued_at - timedelta(seconds=CURSOR_SECONDS)
    found = await streams.find_channel(claims.project, named.scope, owner, named.code, since)
    if found is None:
        return Refused(UNMATCHED_TOPIC)
    head, by_time = found
    own = named.code == claims.join_code
    if own and head.position.epoch != claims.epoch:
        return Refused("session ended", other_epoch=True)
    cursor = min(claims.cursor, head.position.seq) if own else by_time
    key = ChannelKey(claims.project, head.id)
    return _from_position(key, head.position, cursor, payload)


def _from_position(key: ChannelKey, head: Position, cursor: int, payload: Mapping[str, Any]) -> Accepted:
    fenced = payload.get("fence") is not False
    if "last" not in payload:
        return Accepted(key, head.epoch, head.seq, cursor, fenced)
    last = _position_of(payload["last"])
    recovered = last is not None and last.epoch == head.epoch and last.seq <= head.seq
    position = last.seq if recovered and last is not None else head.seq
    response = {"epoch": head.epoch, "seq": position, "recovered": recovered}
    return Accepted(key, head.epoch, head.seq, position, fenced, response)


def _position_of(value: object) -> Position | None:
    """A position that a client sent; None for null (it has none yet) and for rubbish."""
    if not isinstance(value, dict):
        return None
    epoch, seq = value.get("epoch"), value.get("seq")
    if not isinstance(epoch, str) or type(seq) is not int or not 0 <= seq <= SEQ_MAX:
        return None
    return Position(epoch, seq)
