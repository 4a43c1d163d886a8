import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlane.phoenix.topics import MemoryTopic, format_topic, parse_topic


def test_both_kinds_of_topic_are_parsed() -> None:
    assert parse_topic("user_meta:memories:c1") == MemoryTopic("user", "c1")
    assert parse_topic("project_meta:memories:a-b_C9") == MemoryTopic("project", "a-b_C9")


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "phoenix",
        "user_meta:memories:",
        "user_meta:memories:c1\n",
        " user_meta:memories:c1",
        "user_meta:memories:c1:c2",
        "user_meta:memories:é",
        "user_meta:memories:\u0661",
        "user_meta:threads:c1",
        "team_meta:memories:c1",
        "user_meta:memories:" + "c" * 129,
    ],
)
def test_any_other_topic_cannot_exist(topic: str) -> None:
    assert parse_topic(topic) is None


@given(st.sampled_from(["user", "project"]), st.from_regex(r"[A-Za-z0-9_-]{1,128}", fullmatch=True))
def test_formatting_a_topic_is_the_inverse_of_parsing(scope: str, code: str) -> None:
    topic = MemoryTopic(scope, code)  # type: ignore[arg-type]
    assert parse_topic(format_topic(topic.scope, topic.code)) == topic
