import json
from typing import Any

import pytest

from memlane.phoenix.close_codes import CloseCode
from memlane.phoenix.effects import ChannelLeft, Close, Effect, JoinRequested, Send
from memlane.phoenix.protocol import MAX_TOPICS, Connection

TOPIC = "user_meta:memories:c1"
PROJECT = "project_meta:memories:p1"


def text(join_ref: str | None, ref: str | None, topic: str, event: str, payload: Any = None) -> str:
    return json.dumps([join_ref, ref, topic, event, {} if payload is None else payload])


def reply(join_ref: str | None, ref: str | None, topic: str, status: str, response: Any) -> list[Any]:
    return [join_ref, ref, topic, "phx_reply", {"status": status, "response": response}]


def sent(effects: list[Effect]) -> list[Any]:
    return [json.loads(effect.text) for effect in effects if isinstance(effect, Send)]


def joining(topic: str = TOPIC, join_ref: str | None = "5") -> Connection:
    connection = Connection(0.0)
    connection.receive_text(text(join_ref, join_ref, topic, "phx_join"), 0.0)
    return connection


def joined(topic: str = TOPIC, join_ref: str | None = "5") -> Connection:
    connection = joining(topic, join_ref)
    connection.join_accepted(topic, join_ref)
    return connection


# The contract's example and table, row by row.


def test_a_join_is_put_to_the_caller_and_answered_when_the_caller_accepts() -> None:
    connection = Connection(0.0)
    payload = {"last": {"epoch": "e", "seq": 3}}
    assert connection.receive_text(text("5", "6", TOPIC, "phx_join", payload), 0.0) == [
        JoinRequested(TOPIC, "5", "6", payload)
    ]
    assert not connection.is_joined(TOPIC, "5")
    assert sent(connection.join_accepted(TOPIC, "5", {"recovered": True})) == [
        reply("5", "6", TOPIC, "ok", {"recovered": True})
    ]
    assert connection.is_joined(TOPIC, "5")


def test_a_heartbeat_is_answered_ok_with_a_null_join_ref() -> None:
    effects = Connection(0.0).receive_text('[null,"6","phoenix","heartbeat",{}]', 0.0)
    assert effects == [Send('[null,"6","phoenix","phx_reply",{"status":"ok","response":{}}]')]


def test_a_join_refused_for_good_gets_an_error_reply_with_the_reason() -> None:
    connection = joining()
    assert sent(connection.join_refused(TOPIC, "5", "grant is none")) == [
        reply("5", "5", TOPIC, "error", {"reason": "grant is none"})
    ]
    assert connection.topics == frozenset()


def test_an_unknown_topic_is_unmatched_and_the_caller_is_not_asked() -> None:
    connection = Connection(0.0)
    effects = connection.receive_text(text("1", "2", "room:lobby", "phx_join"), 0.0)
    assert sent(effects) == [reply(None, "2", "room:lobby", "error", {"reason": "unmatched topic"})]
    assert len(effects) == 1


def test_an_event_on_a_topic_that_is_not_joined_is_unmatched() -> None:
    effects = Connection(0.0).receive_text(text("1", "2", TOPIC, "shout"), 0.0)
    assert sent(effects) == [reply(None, "2", TOPIC, "error", {"reason": "unmatched topic"})]


def test_the_new_join_wins_and_the_close_of_the_old_one_carries_the_old_join_ref() -> None:
    connection = joined()
    effects = connection.receive_text(text("7", "7", TOPIC, "phx_join"), 0.0)
    assert effects == [
        ChannelLeft(TOPIC, "5"),
        Send('["5","5","user_meta:memories:c1","phx_close",{}]'),
        JoinRequested(TOPIC, "7", "7", {}),
    ]
    assert not connection.is_joined(TOPIC, "5")
    assert sent(connection.join_accepted(TOPIC, "7")) == [reply("7", "7", TOPIC, "ok", {})]


def test_a_leave_is_answered_ok_and_then_closed_with_that_join_ref() -> None:
    connection = joined()
    effects = connection.receive_text(text("5", "8", TOPIC, "phx_leave"), 0.0)
    assert sent(effects) == [reply("5", "8", TOPIC, "ok", {}), ["5", "5", TOPIC, "phx_close", {}]]
    assert effects[2:] == [ChannelLeft(TOPIC, "5")]
    assert connection.topics == frozenset()


def test_leaving_what_was_not_joined_is_ok() -> None:
    effects = Connection(0.0).receive_text(text("5", "8", TOPIC, "phx_leave"), 0.0)
    assert sent(effects) == [reply("5", "8", TOPIC, "ok", {})]
    assert len(effects) == 1


@pytest.mark.parametrize("event", ["phx_leave", "shout"])
def test_a_stale_join_ref_is_ignored(event: str) -> None:
    connection = joined(join_ref="7")
    assert connection.receive_text(text("5", "8", TOPIC, event), 0.0) == []
    assert connection.is_joined(TOPIC, "7")


def test_the_hundred_and_first_topic_is_one_too_many() -> None:
    connection = Connection(0.0)
    for number in range(MAX_TOPICS):
        connection.receive_text(text("1", "1", f"user_meta:memories:{number}", "phx_join"), 0.0)
    effects = connection.receive_text(text("2", "3", PROJECT, "phx_join"), 0.0)
    assert sent(effects) == [reply("2", "3", PROJECT, "error", {"reason": "too many channels joined"})]
    assert len(effects) == 1
    assert len(connection.topics) == MAX_TOPICS


@pytest.mark.parametrize(
    ("frame", "code"),
    [("{}", CloseCode.PROTOCOL_ERROR), ("x" * 65_537, CloseCode.MESSAGE_TOO_BIG)],
)
def test_a_frame_that_cannot_be_taken_closes_the_socket(frame: str, code: CloseCode) -> None:
    connection = joined()
    (effect,) = connection.receive_text(frame, 0.0)
    assert isinstance(effect, Close)
    assert effect.code is code
    assert connection.closed


def test_a_binary_frame_closes_the_socket_with_1003() -> None:
    assert joined().receive_binary() == [Close(CloseCode.UNSUPPORTED_DATA, "binary frame")]


def test_sixty_seconds_of_silence_close_the_socket_with_1001() -> None:
    connection = Connection(100.0)
    connection.receive_text(text(None, "1", "phoenix", "heartbeat"), 130.0)
    assert connection.idle_at == 190.0
    assert connection.check_idle(189.9) == []
    (effect,) = connection.check_idle(190.0)
    assert isinstance(effect, Close)
    assert effect.code is CloseCode.GOING_AWAY


def test_the_server_may_close_at_any_time() -> None:
    connection = joined()
    assert connection.close(CloseCode.SERVICE_RESTART, "restart") == [Close(CloseCode.SERVICE_RESTART, "restart")]
    assert connection.topics == frozenset()


# Beyond the table.


def test_replacing_a_topic_is_allowed_when_all_hundred_are_taken() -> None:
    connection = Connection(0.0)
    for number in range(MAX_TOPICS):
        connection.receive_text(text("1", "1", f"user_meta:memories:{number}", "phx_join"), 0.0)
    effects = connection.receive_text(text("2", "2", "user_meta:memories:7", "phx_join"), 0.0)
    assert JoinRequested("user_meta:memories:7", "2", "2", {}) in effects
    assert len(connection.topics) == MAX_TOPICS


def test_topics_are_independent_of_each_other() -> None:
    connection = joined()
    connection.receive_text(text("9", "9", PROJECT, "phx_join"), 0.0)
    connection.join_accepted(PROJECT, "9")
    connection.receive_text(text("5", "10", TOPIC, "phx_leave"), 0.0)
    assert connection.topics == frozenset({PROJECT})
    assert connection.is_joined(PROJECT, "9")


def test_a_late_acceptance_of_a_replaced_join_is_dropped() -> None:
    connection = joining()
    connection.receive_text(text("7", "7", TOPIC, "phx_join"), 0.0)
    assert connection.join_accepted(TOPIC, "5") == []
    assert connection.join_refused(TOPIC, "5", "no") == []
    assert connection.topics == frozenset({TOPIC})


def test_a_late_acceptance_of_a_join_that_was_left_is_dropped() -> None:
    connection = joining()
    effects = connection.receive_text(text("5", "6", TOPIC, "phx_leave"), 0.0)
    assert sent(effects) == [reply("5", "6", TOPIC, "ok", {}), ["5", "5", TOPIC, "phx_close", {}]]
    assert effects[2:] == [ChannelLeft(TOPIC, "5")]
    assert connection.join_accepted(TOPIC, "5") == []
    assert not connection.is_joined(TOPIC, "5")


def test_a_join_is_answered_once() -> None:
    connection = joined()
    assert connection.join_accepted(TOPIC, "5") == []
    assert connection.join_refused(TOPIC, "5", "no") == []
    assert connection.is_joined(TOPIC, "5")


@pytest.mark.parametrize("join_ref", [None, "", "7"])
def test_a_close_that_would_silence_the_new_join_is_not_sent(join_ref: str | None) -> None:
    # A client takes a null or empty join_ref for its current one.
    connection = joined(join_ref=join_ref)
    effects = connection.receive_text(text("7", "8", TOPIC, "phx_join"), 0.0)
    assert effects == [ChannelLeft(TOPIC, join_ref), JoinRequested(TOPIC, "7", "8", {})]


@pytest.mark.parametrize("join_ref", ["5", None])
def test_a_joined_topic_takes_no_client_events(join_ref: str | None) -> None:
    effects = joined().receive_text(text(join_ref, "9", TOPIC, "memory_metadata"), 0.0)
    assert sent(effects) == [reply(join_ref, "9", TOPIC, "error", {"reason": "unknown event"})]


def test_an_event_during_joining_is_refused_at_once_and_the_join_goes_on() -> None:
    connection = joining()
    effects = connection.receive_text(text("5", "6", TOPIC, "shout"), 0.0)
    assert sent(effects) == [reply("5", "6", TOPIC, "error", {"reason": "unknown event"})]
    assert sent(connection.join_accepted(TOPIC, "5")) == [reply("5", "5", TOPIC, "ok", {})]


def test_a_leave_without_a_join_ref_leaves_the_current_join() -> None:
    effects = joined().receive_text(text(None, "9", TOPIC, "phx_leave"), 0.0)
    assert sent(effects) == [reply(None, "9", TOPIC, "ok", {}), ["5", "5", TOPIC, "phx_close", {}]]
    assert effects[2:] == [ChannelLeft(TOPIC, "5")]


def test_another_event_on_the_topic_phoenix_is_unmatched() -> None:
    effects = Connection(0.0).receive_text(text(None, "1", "phoenix", "shout"), 0.0)
    assert sent(effects) == [reply(None, "1", "phoenix", "error", {"reason": "unmatched topic"})]


@pytest.mark.parametrize("payload", ['"x"', "[]", "1", "false"])
def test_a_join_with_a_payload_that_is_no_object_is_refused_and_the_old_join_stays(payload: str) -> None:
    connection = joined()
    effects = connection.receive_text(f'["7","7","{TOPIC}","phx_join",{payload}]', 0.0)
    assert sent(effects) == [reply("7", "7", TOPIC, "error", {"reason": "join payload must be an object"})]
    assert connection.is_joined(TOPIC, "5")


def test_a_join_with_a_null_payload_has_no_parameters() -> None:
    effects = Connection(0.0).receive_text(f'["7","7","{TOPIC}","phx_join",null]', 0.0)
    assert effects == [JoinRequested(TOPIC, "7", "7", {})]


def test_an_answer_that_is_not_json_closes_the_socket_with_1011() -> None:
    (effect,) = joining().join_accepted(TOPIC, "5", {"bad": object()})
    assert isinstance(effect, Close)
    assert effect.code is CloseCode.INTERNAL_ERROR


def test_after_a_close_nothing_comes_out() -> None:
    connection = joining()
    connection.receive_binary()
    assert connection.receive_text(text(None, "1", "phoenix", "heartbeat"), 0.0) == []
    assert connection.receive_text("{}", 0.0) == []
    assert connection.receive_binary() == []
    assert connection.join_accepted(TOPIC, "5") == []
    assert connection.join_refused(TOPIC, "5", "no") == []
    assert connection.check_idle(1e9) == []
    assert connection.close(CloseCode.SERVICE_RESTART, "restart") == []
    assert connection.topics == frozenset()


def test_a_clock_that_runs_backwards_does_not_close_early() -> None:
    connection = Connection(100.0)
    connection.receive_text(text(None, "1", "phoenix", "heartbeat"), 10.0)
    assert connection.idle_at == 160.0
