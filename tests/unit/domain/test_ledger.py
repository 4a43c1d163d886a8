"""The ledger's chain finds whatever was changed, left out or cut."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlane.domain.ledger import (
    CHAIN_START,
    ChainCheck,
    ChainedRow,
    ChainHead,
    LedgerRow,
    chain_sha256,
    wording_sha256,
)

FIRST = LedgerRow(
    project_id="p", channel_id="c", seq=1, memory_id="m", operation="created", absorbed_by=None, lane_id="l",
    lane_name="default", key_id=None, run="unknown", source_type="unknown", source_id="unknown",
    source_trust="internal", triggered_by="unknown", request_id="r", written_at=datetime(2026, 1, 1, tzinfo=UTC),
    before_sha256=None, after_sha256=bytes(range(32)),
)  # fmt: skip


def chain(length: int) -> list[ChainedRow]:
    rows, previous = [], CHAIN_START
    for seq in range(1, length + 1):
        row = replace(FIRST, seq=seq)
        previous = chain_sha256(previous, row)
        rows.append(ChainedRow(row, previous))
    return rows


def head_of(rows: list[ChainedRow]) -> ChainHead:
    return ChainHead(rows[-1].row.seq, len(rows), rows[-1].chain_sha256)


def fault_of(rows: list[ChainedRow], head: ChainHead, known: dict[int, bytes] | None = None) -> Any:
    check = ChainCheck(known)
    return check.take(rows[:2]) or check.take(rows[2:]) or check.end(head)


def test_a_chain_that_nobody_touched_holds() -> None:
    rows = chain(5)
    assert fault_of(rows, head_of(rows)) is None
    assert fault_of([], ChainHead(0, 0, None)) is None


@pytest.mark.parametrize("name", [field.name for field in fields(LedgerRow)])
def test_a_change_of_any_field_is_found(name: str) -> None:
    rows = chain(5)
    value: Any = getattr(FIRST, name)
    changed: Any = {
        int: 9,
        str: "other",
        type(None): "other",
        bytes: bytes(31) + b"\1",
        datetime: FIRST.written_at + timedelta(microseconds=1),
    }[type(value)]
    forged = [*rows]
    forged[2] = ChainedRow(replace(rows[2].row, **{name: changed}), rows[2].chain_sha256)
    assert fault_of(forged, head_of(rows)) is not None


def test_a_row_that_is_missing_swapped_or_unchained_is_found() -> None:
    rows = chain(5)
    head = head_of(rows)
    assert fault_of(rows[1:], head).seq == 2
    assert fault_of([*rows[:2], *rows[3:]], head).reason == "a row is missing"
    assert fault_of([rows[0], rows[2], rows[1], *rows[3:]], head) is not None
    assert fault_of([*rows[:3], ChainedRow(rows[3].row, None), rows[4]], head).seq == 4


def test_a_cut_tail_is_found_by_the_head_and_without_it_by_an_exported_one() -> None:
    rows = chain(5)
    head = head_of(rows)
    assert fault_of(rows[:4], head) is not None
    forged_head = head_of(rows[:4])
    assert fault_of(rows[:4], forged_head) is None, "who can write both can cut both"
    assert head.sha256 is not None
    fault = fault_of(rows[:4], forged_head, {5: head.sha256})
    assert (fault.seq, fault.reason) == (5, "the ledger ends before a row whose hash was exported")
    assert fault_of(rows, head, {5: head.sha256}) is None


def test_a_ledger_that_was_written_anew_is_found_by_an_exported_head() -> None:
    rows = chain(3)
    sha256 = rows[-1].chain_sha256
    assert sha256 is not None
    anew, previous = [], CHAIN_START
    for one in rows:
        row = replace(one.row, lane_name="innocent")
        previous = chain_sha256(previous, row)
        anew.append(ChainedRow(row, previous))
    assert fault_of(anew, head_of(anew)) is None
    assert fault_of(anew, head_of(anew), {3: sha256}).seq == 3


def test_rows_from_before_the_chain_are_counted_and_pass() -> None:
    old = ChainedRow(replace(FIRST, seq=1), None)
    row = replace(FIRST, seq=2)
    new = ChainedRow(row, chain_sha256(CHAIN_START, row))
    check = ChainCheck()
    assert check.take([old, new]) is None
    assert (check.unchained, check.rows) == (1, 1)


@given(st.lists(st.sampled_from(["a", "ab", "b", "", "1:a"]), min_size=2, max_size=2))
def test_no_text_can_move_from_one_field_to_the_next(texts: list[str]) -> None:
    one = replace(FIRST, run=texts[0], source_type=texts[1])
    other = replace(FIRST, run=texts[0] + texts[1], source_type="")
    assert (one == other) == (chain_sha256(CHAIN_START, one) == chain_sha256(CHAIN_START, other))


def test_the_time_zone_of_a_reader_changes_nothing() -> None:
    there = replace(FIRST, written_at=FIRST.written_at.astimezone(timezone(timedelta(hours=9))))
    assert chain_sha256(CHAIN_START, there) == chain_sha256(CHAIN_START, FIRST)


def test_the_same_wording_has_another_hash_under_another_salt() -> None:
    assert wording_sha256(b"a" * 16, "Likes tea.") != wording_sha256(b"b" * 16, "Likes tea.")
    assert wording_sha256(b"a" * 16, None) is None
