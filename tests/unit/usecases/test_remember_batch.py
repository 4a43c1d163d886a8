"""The loop over the writes of a batch, with a clock and steps that a test sets."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memlane.domain.errors import EmbedderUnavailable, MemlaneError, QuotaExceeded, StorageUnavailable
from memlane.domain.memory import Draft, Scope
from memlane.screening.secrets import DetectSecrets
from memlane.usecases import remember_batch as module
from memlane.usecases.batch_time import BATCH_SECONDS, STILL_SECONDS, BatchTime
from memlane.usecases.judging import BATCH_JUDGE_SECONDS, Patience
from memlane.usecases.ports import EmbeddedText, Services
from memlane.usecases.remember_batch import WRITE_SECONDS, remember_batch
from memlane.usecases.wording import EMBED_MAX
from unit.usecases.test_access import Access, Grant, caller

SERVICES = cast("Services", SimpleNamespace(secrets=DetectSecrets()))
FULL = caller(Grant(Access.READ_WRITE, Access.READ_WRITE))


def some(count: int, scope: Scope = "user") -> list[Draft]:
    return [Draft(f"Drawer {number} holds {scope} paper.", "topical", scope) for number in range(count)]


@dataclass
class Steps:
    """What embedding and saving come to, and how long they take by the clock ``now``."""

    now: float = 100.0
    embed_seconds: float = 0.0
    save_seconds: float = 0.0
    judge_seconds: float = 0.0
    embed_faults: dict[int, MemlaneError] = field(default_factory=dict)
    save_faults: dict[str, MemlaneError] = field(default_factory=dict)
    down: dict[Scope, MemlaneError] = field(default_factory=dict)
    embedded: list[int] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    patience: list[float] = field(default_factory=list)

    async def embed(self, _: Any, __: Any, drafts: Sequence[Draft], *, screened: bool) -> list[EmbeddedText]:
        assert screened
        self.now += self.embed_seconds
        self.embedded.append(len(drafts))
        if fault := self.embed_faults.get(len(self.embedded)):
            raise fault
        return [EmbeddedText(draft.content, 1, [1.0]) for draft in drafts]

    async def save(self, _: Any, __: Any, draft: Draft, embedded: EmbeddedText, ___: Any, *, patience: Patience) -> str:
        assert embedded.content == draft.content
        self.tried.append(draft.content)
        self.patience.append(patience.seconds)
        patience.seconds -= self.judge_seconds
        self.now += self.save_seconds + self.judge_seconds
        if fault := self.save_faults.get(draft.content) or self.down.get(draft.scope):
            raise fault
        return draft.content

    def run(self, drafts: Sequence[Draft], began: float | None = None) -> list[Any]:
        return list(asyncio.run(remember_batch(SERVICES, FULL, drafts, began=began, monotonic=lambda: self.now)))


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    found = Steps()
    monkeypatch.setattr(module, "embed_drafts", found.embed)
    monkeypatch.setattr(module, "save_embedded", found.save)
    return found


def contents(drafts: Sequence[Draft]) -> list[str]:
    return [draft.content for draft in drafts]


def test_every_draft_has_its_outcome_in_order(steps: Steps) -> None:
    drafts = [one for pair in zip(some(20), some(20, "project"), strict=True) for one in pair]
    assert steps.run(drafts) == contents(drafts)
    assert steps.embedded == [EMBED_MAX, EMBED_MAX, 8]


def test_a_healthy_batch_may_take_long_and_none_is_begun_after_the_time_limit(steps: Steps) -> None:
    steps.save_seconds = 0.5
    began = steps.now
    outcomes = steps.run(some(40))
    saved = int(BATCH_SECONDS / 0.5) + 1
    assert outcomes[:saved] == contents(some(saved))
    assert all(isinstance(outcome, StorageUnavailable) for outcome in outcomes[saved:])
    assert steps.now - began == BATCH_SECONDS + 0.5


def test_the_time_limit_counts_from_the_request(steps: Steps) -> None:
    steps.save_seconds = 0.5
    outcomes = steps.run(some(40), began=steps.now - 4.0)
    assert len(steps.tried) == int((BATCH_SECONDS - 4.0) / 0.5) + 1
    assert len(outcomes) == 40


def test_after_a_write_whose_channel_is_down_the_others_of_it_are_not_tried(steps: Steps) -> None:
    fault = StorageUnavailable()
    steps.save_faults = {some(3)[2].content: fault}
    assert steps.run(some(100)) == [*contents(some(2)), *[fault] * 98]
    assert len(steps.tried) == 3
    assert steps.embedded == [EMBED_MAX], "nor embedded"


@pytest.mark.parametrize("first", ["user", "project"])
def test_the_other_channel_of_a_batch_is_still_written(steps: Steps, first: Scope) -> None:
    fault = StorageUnavailable()
    steps.down = {"user": fault}
    steps.save_seconds = 0.1
    mine, shared = some(20), some(20, "project")
    outcomes = steps.run(mine + shared if first == "user" else shared + mine)
    expected = [fault] * 20, contents(shared)
    assert outcomes == [*expected[0], *expected[1]] if first == "user" else [*expected[1], *expected[0]]
    assert len(steps.tried) == 21


def test_after_a_failure_nothing_prolongs_the_batch(steps: Steps) -> None:
    steps.down = {"user": StorageUnavailable()}
    steps.save_seconds = 0.5
    began = steps.now
    outcomes = steps.run([*some(1), *some(99, "project")])
    assert len(outcomes) == 100
    assert steps.now - began == STILL_SECONDS
    assert len(steps.tried) == STILL_SECONDS / 0.5


def test_after_an_embedder_that_does_not_answer_nothing_more_is_tried(steps: Steps) -> None:
    fault = EmbedderUnavailable()
    steps.embed_faults = {2: fault}
    drafts = some(50) + some(50, "project")
    assert steps.run(drafts) == [*contents(drafts[:EMBED_MAX]), *[fault] * (100 - EMBED_MAX)]
    assert len(steps.embedded) == 2


def test_a_refusal_stops_no_other(steps: Steps) -> None:
    fault = QuotaExceeded(5)
    steps.save_faults = {some(2)[1].content: fault}
    assert steps.run(some(4)) == [some(1)[0].content, fault, *contents(some(4)[2:])]


@pytest.mark.parametrize("count", [1, 3, 100])
def test_when_nothing_could_be_written_the_whole_call_is_unavailable(steps: Steps, count: int) -> None:
    steps.down = {"user": StorageUnavailable("gone")}
    with pytest.raises(StorageUnavailable, match="gone"):
        steps.run(some(count))
    assert len(steps.tried) == 1


def test_a_slow_embedder_and_a_slow_write_share_the_time_of_one_write(steps: Steps) -> None:
    steps.embed_seconds, steps.save_seconds = 2.9, 1.7
    outcomes = steps.run(some(3))
    assert outcomes[0] == some(1)[0].content
    assert steps.patience[0] == pytest.approx(STILL_SECONDS - 2.9 - WRITE_SECONDS)


def test_judges_leave_the_write_its_time_and_are_waited_for_no_longer_than_a_batch_may(steps: Steps) -> None:
    steps.judge_seconds = 1.5
    steps.run(some(4))
    assert steps.patience == [STILL_SECONDS - WRITE_SECONDS, BATCH_JUDGE_SECONDS - 1.5, 1.0, -0.5]


@pytest.mark.usefixtures("steps")
async def test_a_step_that_never_ends_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memlane.usecases.batch_time.STILL_SECONDS", 0.05)

    async def never(*_: Any, **__: Any) -> None:
        await asyncio.sleep(30)

    monkeypatch.setattr(module, "save_embedded", never)
    began = asyncio.get_running_loop().time()
    with pytest.raises(StorageUnavailable, match="took too long"):
        await remember_batch(SERVICES, FULL, some(100))
    assert asyncio.get_running_loop().time() - began < 1.0


async def test_no_step_is_begun_without_time() -> None:
    now = [0.0]
    limit = BatchTime(0.0, lambda: now[0])
    now[0] = STILL_SECONDS

    async def step() -> None:
        raise AssertionError("begun")

    with pytest.raises(StorageUnavailable):
        await limit.run(step)
    limit.stop_moving()
    limit.moved()
    assert limit.left() == 0.0
