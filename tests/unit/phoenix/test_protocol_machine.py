"""Random life of a connection, checked step by step against what the client and the caller can know."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from memlane.phoenix.close_codes import CloseCode
from memlane.phoenix.effects import ChannelLeft, Close, Effect, JoinRequested, Send
from memlane.phoenix.frames import Frame, decode
from memlane.phoenix.protocol import MAX_TOPICS, Connection

KNOWN = [f"user_meta:memories:c{number}" for number in range(3)] + ["project_meta:memories:p"]
known = st.sampled_from(KNOWN)
topics = known | st.sampled_from(["phoenix", "room:lobby", ""]) | st.text(max_size=30)
refs = st.none() | st.sampled_from(["", "1", "2", "3"]) | st.text(max_size=5)
events = st.sampled_from(
    ["phx_join", "phx_leave", "phx_close", "phx_error", "phx_reply", "heartbeat", "memory_metadata", "shout"]
) | st.text(max_size=10)
payloads = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


class ConnectionMachine(RuleBasedStateMachine):
    """``current`` is what the caller has been told: the join of each topic, and whether it accepted it."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.connection = Connection(self.now)
        self.current: dict[str, tuple[str | None, bool]] = {}
        self.closed = False

    def take(self, effects: list[Effect], asked: Frame | None = None) -> list[Any]:
        if self.closed:
            assert effects == []
        replaced: dict[str, str | None] = {}
        frames = []
        for index, effect in enumerate(effects):
            if isinstance(effect, ChannelLeft):
                join_ref, _ = self.current.pop(effect.topic)
                assert join_ref == effect.join_ref
                replaced[effect.topic] = join_ref
            elif isinstance(effect, JoinRequested):
                assert asked is not None
                assert (effect.topic, effect.join_ref, effect.ref) == (asked.topic, asked.join_ref, asked.ref)
                assert effect.topic not in self.current
                self.current[effect.topic] = (effect.join_ref, False)
            elif isinstance(effect, Close):
                assert effect is effects[-1]
                assert index == 0
                assert effect.code != 1000
                assert len(effect.reason.encode()) <= 123
                self.closed = True
                self.current.clear()
            else:
                frames.append(self.check_frame(effect, asked, replaced))
        return frames

    def check_frame(self, effect: Send, asked: Frame | None, replaced: dict[str, str | None]) -> list[Any]:
        frame = json.loads(effect.text)
        assert isinstance(decode(effect.text), Frame)
        join_ref, ref, topic, event, payload = frame
        assert event in {"phx_reply", "phx_close"}
        if event == "phx_close":
            assert asked is not None
            assert topic == asked.topic
            assert ref == join_ref
            if asked.event != "phx_leave":
                assert join_ref == replaced[topic]
                assert join_ref
                assert join_ref != asked.join_ref
        elif asked is not None:
            assert ref == asked.ref
            assert topic == asked.topic
            assert join_ref in {None, asked.join_ref}
            assert payload["status"] in {"ok", "error"}
        return list(frame)

    @rule(join_ref=refs, ref=refs, topic=topics, event=events, payload=payloads)
    def client_sends_a_frame(self, join_ref: str | None, ref: str | None, topic: str, event: str, payload: Any) -> None:
        text = json.dumps([join_ref, ref, topic, event, payload])
        asked = decode(text)
        effects = self.connection.receive_text(text, self.now)
        if not isinstance(asked, Frame):
            assert self.closed or [type(effect) for effect in effects] == [Close]
            self.take(effects)
            return
        self.take(effects, asked)
        assert self.connection.closed is self.closed

    @rule(topic=known, join_ref=st.sampled_from(["1", "2", "3"]), ref=refs)
    def client_joins(self, topic: str, join_ref: str, ref: str | None) -> None:
        self.client_sends_a_frame(join_ref, ref, topic, "phx_join", {})
        assert self.closed or self.current[topic] == (join_ref, False)

    @rule(topic=known, ref=refs)
    def client_leaves_what_it_joined(self, topic: str, ref: str | None) -> None:
        join_ref, _ = self.current.get(topic, ("9", False))
        self.client_sends_a_frame(join_ref, ref, topic, "phx_leave", {})
        assert topic not in self.current

    @rule(topic=known, join_ref=refs, accepted=st.booleans())
    def caller_answers_some_join(self, topic: str, join_ref: str | None, *, accepted: bool) -> None:
        self.answer(topic, join_ref, accepted=accepted)

    @rule(topic=known, accepted=st.booleans())
    def caller_answers_the_current_join(self, topic: str, *, accepted: bool) -> None:
        self.answer(topic, self.current.get(topic, ("1", False))[0], accepted=accepted)

    def answer(self, topic: str, join_ref: str | None, *, accepted: bool) -> None:
        awaited = self.current.get(topic) == (join_ref, False)
        if accepted:
            frames = self.take(self.connection.join_accepted(topic, join_ref, {}))
        else:
            frames = self.take(self.connection.join_refused(topic, join_ref, "no"))
        assert len(frames) == (1 if awaited else 0)
        if awaited:
            assert frames[0][0] == join_ref
            assert frames[0][4]["status"] == ("ok" if accepted else "error")
            if accepted:
                self.current[topic] = (join_ref, True)
            else:
                del self.current[topic]

    @rule(seconds=st.floats(0, 25))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        idle = self.now >= self.connection.idle_at
        effects = self.connection.check_idle(self.now)
        assert bool(effects) == (idle and not self.closed)
        self.take(effects)

    @rule(blob=st.binary(max_size=20))
    def client_sends_rubbish(self, blob: bytes) -> None:
        self.take(self.connection.receive_text(blob, self.now))
        assert self.closed

    @rule()
    def client_sends_a_binary_frame(self) -> None:
        self.take(self.connection.receive_binary())
        assert self.closed

    @rule()
    def server_closes(self) -> None:
        self.take(self.connection.close(CloseCode.SERVICE_RESTART, "restart"))
        assert self.closed

    @invariant()
    def both_sides_agree_on_what_is_joined(self) -> None:
        assert self.connection.closed is self.closed
        assert self.connection.topics == set(self.current)
        assert len(self.current) <= MAX_TOPICS
        for topic, (join_ref, accepted) in self.current.items():
            assert self.connection.is_joined(topic, join_ref) is accepted


TestConnection = ConnectionMachine.TestCase
TestConnection.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


@given(st.lists(st.binary(max_size=200) | st.text(max_size=200), max_size=5))
def test_no_sequence_of_random_frames_raises(frames: list[str | bytes]) -> None:
    connection = Connection(0.0)
    for frame in frames:
        for effect in connection.receive_text(frame, 0.0):
            assert isinstance(effect, Send | Close)


@given(st.integers(0, 300))
def test_the_state_is_bounded_however_many_topics_are_joined(count: int) -> None:
    connection = Connection(0.0)
    for number in range(count):
        connection.receive_text(json.dumps(["1", "1", f"user_meta:memories:{number}", "phx_join", {}]), 0.0)
    assert len(connection.topics) == min(count, MAX_TOPICS)
