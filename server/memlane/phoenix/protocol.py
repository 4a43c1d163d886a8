"""The state of one Phoenix connection: every transition stands in this file.

A topic's life::

    (none) --phx_join--> joining --join_accepted--> joined
    joining --join_refused--> (none)
    joining | joined --phx_leave--> (none)          ok reply, phx_close, ChannelLeft
    joining | joined --phx_join again--> joining    ChannelLeft and phx_close of the old join, then as new

Client events other than join, leave and heartbeat are refused with a reply, on a joining topic at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memlane.phoenix.close_codes import CloseCode
from memlane.phoenix.effects import ChannelLeft, Close, Effect, JoinRequested, Send
from memlane.phoenix.frames import Fault, Frame, Ref, Status, decode, encode_close, encode_reply
from memlane.phoenix.topics import parse_topic

MAX_TOPICS = 100
"""Topics that one connection may have joined or be joining (realtime.md)."""
IDLE_SECONDS = 60.0
"""Silence after which a connection is closed (realtime.md). The stock client's heartbeat: 30 s."""

UNMATCHED_TOPIC = "unmatched topic"
TOO_MANY_CHANNELS = "too many channels joined"
UNKNOWN_EVENT = "unknown event"
BAD_JOIN_PAYLOAD = "join payload must be an object"

_NOTHING: Mapping[str, Any] = {}


@dataclass(slots=True)
class _Channel:
    """The current join of one topic."""

    join_ref: Ref
    ref: Ref
    joined: bool = False


class Connection:
    """One client's connection, from the upgrade to the close.

    ``receive_*`` take what came from the client; ``join_accepted``, ``join_refused``, ``check_idle`` and
    ``close`` take what the caller decided. Each returns the effects to carry out, in order, and none
    raises. Once a `Close` was returned, every call returns an empty list.

    Args:
        now: The present moment, in seconds of a monotonic clock.
    """

    __slots__ = ("_channels", "_closed", "_heard_at")

    def __init__(self, now: float) -> None:
        self._channels: dict[str, _Channel] = {}
        self._heard_at = now
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether a `Close` was returned."""
        return self._closed

    @property
    def topics(self) -> frozenset[str]:
        """The topics that are joined or joining, at most 100."""
        return frozenset(self._channels)

    @property
    def idle_at(self) -> float:
        """The moment from which `check_idle` closes, unless the client says something before."""
        return self._heard_at + IDLE_SECONDS

    def is_joined(self, topic: str, join_ref: Ref) -> bool:
        """Whether this very join was accepted and is still current."""
        channel = self._channels.get(topic)
        return channel is not None and channel.joined and channel.join_ref == join_ref

    def receive_text(self, text: str | bytes, now: float) -> list[Effect]:
        """Take a text frame.

        Args:
            text: The frame, whole.
            now: When it came.
        """
        if self._closed:
            return []
        self._heard_at = max(self._heard_at, now)
        frame = decode(text)
        if isinstance(frame, Fault):
            return self.close(frame.code, frame.reason)
        if frame.topic == "phoenix" and frame.event == "heartbeat":
            return self._reply(None, frame.ref, frame.topic, "ok", _NOTHING)
        if frame.event == "phx_join":
            return self._receive_join(frame)
        return self._receive_event(frame)

    def receive_binary(self) -> list[Effect]:
        """Take note of a binary frame: it ends the connection with 1003."""
        return self.close(CloseCode.UNSUPPORTED_DATA, "binary frame")

    def check_idle(self, now: float) -> list[Effect]:
        """Close with 1001 if nothing came from the client for 60 s."""
        if now < self.idle_at:
            return []
        return self.close(CloseCode.GOING_AWAY, "nothing received for 60 s")

    def close(self, code: CloseCode, reason: str) -> list[Effect]:
        """End the connection, for a fault or because the server wants it so.

        Args:
            code: What to close with.
            reason: At most 123 bytes of UTF-8 (RFC 6455, section 5.5); it goes to the client.
        """
        if self._closed:
            return []
        self._closed = True
        self._channels.clear()
        return [Close(code, reason)]

    def join_accepted(self, topic: str, join_ref: Ref, response: Mapping[str, Any] = _NOTHING) -> list[Effect]:
        """Answer a `JoinRequested` with ok. Dropped when that join was left, replaced or answered.

        Args:
            topic: The topic of the request.
            join_ref: The join_ref of the request.
            response: What the client gets in the reply; JSON.
        """
        channel = self._channels.get(topic)
        if channel is None or channel.joined or channel.join_ref != join_ref:
            return []
        channel.joined = True
        return self._reply(join_ref, channel.ref, topic, "ok", response)

    def join_refused(self, topic: str, join_ref: Ref, reason: str) -> list[Effect]:
        """Refuse a `JoinRequested` for good. Dropped when that join was left, replaced or answered.

        Args:
            topic: The topic of the request.
            join_ref: The join_ref of the request.
            reason: What the client is told. ``unmatched topic`` is answered with a null join_ref.
        """
        channel = self._channels.get(topic)
        if channel is None or channel.joined or channel.join_ref != join_ref:
            return []
        del self._channels[topic]
        answered = None if reason == UNMATCHED_TOPIC else join_ref
        return self._reply(answered, channel.ref, topic, "error", {"reason": reason})

    def _receive_join(self, frame: Frame) -> list[Effect]:
        if parse_topic(frame.topic) is None:
            return self._refuse(None, frame, UNMATCHED_TOPIC)
        payload = _NOTHING if frame.payload is None else frame.payload
        if not isinstance(payload, dict):
            return self._refuse(frame.join_ref, frame, BAD_JOIN_PAYLOAD)
        old = self._channels.get(frame.topic)
        if old is None and len(self._channels) >= MAX_TOPICS:
            return self._refuse(frame.join_ref, frame, TOO_MANY_CHANNELS)
        effects: list[Effect] = []
        if old is not None:
            effects.append(ChannelLeft(frame.topic, old.join_ref))
            # A null or empty join_ref, or the new join's own, would close the new join in the client.
            if old.join_ref and old.join_ref != frame.join_ref:
                effects.append(Send(encode_close(old.join_ref, frame.topic)))
        self._channels[frame.topic] = _Channel(frame.join_ref, frame.ref)
        effects.append(JoinRequested(frame.topic, frame.join_ref, frame.ref, payload))
        return effects

    def _receive_event(self, frame: Frame) -> list[Effect]:
        leaving = frame.event == "phx_leave"
        channel = self._channels.get(frame.topic)
        if channel is None:
            if leaving:
                return self._reply(frame.join_ref, frame.ref, frame.topic, "ok", _NOTHING)
            return self._refuse(None, frame, UNMATCHED_TOPIC)
        # Only a join must name its join_ref; elsewhere null means the current one, as in Phoenix.
        if frame.join_ref is not None and frame.join_ref != channel.join_ref:
            return []
        if not leaving:
            return self._refuse(frame.join_ref, frame, UNKNOWN_EVENT)
        del self._channels[frame.topic]
        return [
            *self._reply(frame.join_ref, frame.ref, frame.topic, "ok", _NOTHING),
            Send(encode_close(channel.join_ref, frame.topic)),
            ChannelLeft(frame.topic, channel.join_ref),
        ]

    def _refuse(self, join_ref: Ref, frame: Frame, reason: str) -> list[Effect]:
        return self._reply(join_ref, frame.ref, frame.topic, "error", {"reason": reason})

    def _reply(self, join_ref: Ref, ref: Ref, topic: str, status: Status, response: Mapping[str, Any]) -> list[Effect]:
        try:
            return [Send(encode_reply(join_ref, ref, topic, status, response))]
        except TypeError:
            return self.close(CloseCode.INTERNAL_ERROR, "the answer could not be encoded")
