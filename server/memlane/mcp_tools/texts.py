"""What a model reads of an answer. Some clients hand on nothing but this text, so it carries ids and codes."""

from collections.abc import Mapping, Sequence
from typing import Any

from memlane.domain.errors import MemlaneError, RateLimited, Unavailable, ValidationFailed


def saved_text(body: Mapping[str, Any]) -> str:
    """What became of a save; ``body`` is a `models.WrittenMemory`."""
    about = _about(body)
    if body["absorbed"]:
        lines = [f"Already known: the live memory {body['id']} ({about}) says so and now has this wording."]
    else:
        lines = [f"Saved as memory {body['id']} ({about})."]
    lines.append(f"Content: {body['content']}")
    similar = body.get("similar") or []
    if similar:
        lines.append("Close live memories; forget those that this one makes out of date:")
        lines += [f"- {near['id']} (similarity {near['score']:.2f})" for near in similar]
    return "\n".join(lines)


def recalled_text(body: Mapping[str, Any]) -> str:
    """What was found; ``body`` is a `models.RecallBody`."""
    memories: Sequence[Mapping[str, Any]] = body["memories"]
    lines = ["No memory matches."] if not memories else [f"{len(memories)} memories, best first:"]
    for place, memory in enumerate(memories, start=1):
        written = memory["updatedAt"][:10]
        lines.append(f"{place}. id {memory['id']} ({_about(memory)}, score {memory['score']:.2f}, written {written})")
        lines.append(f"   {memory['content']}")
    if body.get("degraded"):
        lines.append("The embedder does not answer: this was found by words alone, so more may exist.")
    return "\n".join(lines)


def forgotten_text(memory_id: str) -> str:
    """A memory is retired."""
    return f"Forgotten: memory {memory_id} is retired and no longer recalled."


def failed_text(fault: MemlaneError, request_id: str) -> str:
    """A failure: that it is one, its code, what is wrong, and whether to try again."""
    lines = [f"ERROR {fault.code}: {fault.message}"]
    if isinstance(fault, ValidationFailed):
        lines += [f"- {one.path or 'arguments'}: {one.message}" for one in fault.details]
    if isinstance(fault, Unavailable | RateLimited):
        lines.append(f"Try again in {fault.retry_after_seconds} s.")
    lines.append(f"Nothing was done. Request {request_id}.")
    return "\n".join(lines)


def _about(body: Mapping[str, Any]) -> str:
    return f"{body['scope']}, {body['kind']}"
