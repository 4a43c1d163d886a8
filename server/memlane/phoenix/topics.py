"""Which topics exist: ``user_meta:memories:<code>`` and ``project_meta:memories:<code>``.

Whether a client may join one of them is not decided here.
"""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

TopicScope: TypeAlias = Literal["user", "project"]

CODE_MAX = 128
"""Longest join code, in characters; a code that we make has 64."""

_TOPIC = re.compile(rf"(user|project)_meta:memories:([A-Za-z0-9_-]{{1,{CODE_MAX}}})")


@dataclass(frozen=True, slots=True)
class MemoryTopic:
    """A parsed topic: whose memories it streams, and the join code that names the channel."""

    scope: TopicScope
    code: str


def parse_topic(topic: str) -> MemoryTopic | None:
    """The scope and join code of a topic, or None when no such topic can exist."""
    match = _TOPIC.fullmatch(topic)
    return MemoryTopic(cast("TopicScope", match[1]), match[2]) if match else None


def format_topic(scope: TopicScope, code: str) -> str:
    """The topic of a channel: the inverse of `parse_topic`."""
    return f"{scope}_meta:memories:{code}"
