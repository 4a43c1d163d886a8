"""The benchmark counts and compares as it says. No test here, nor anywhere, asserts a time."""

import asyncio
import io
import json
import subprocess
import sys
from typing import Any

import pytest
from rich.console import Console

from memlane.bench.corpus import SENTENCES_MAX, question, sentence
from memlane.bench.report import as_json, as_table, compare, percentile
from memlane.bench.rounds import Round, closed_loop
from memlane.bench.service import KeepAlive, content_length


@pytest.fixture(scope="module")
def quick_run() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "memlane", "bench", "--quick", "--json"], capture_output=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_run_compares_every_act_at_one_and_at_sixteen_clients(quick_run: dict[str, Any]) -> None:
    assert [(one["action"], one["clients"]) for one in quick_run["results"]] == [
        *(("list", 1), ("list", 16)),
        *(("recall", 1), ("recall", 16)),
        *(("save", 1), ("save", 16)),
    ]


def test_a_run_tells_both_sides_figures_and_whether_the_aim_is_met(quick_run: dict[str, Any]) -> None:
    for one in quick_run["results"]:
        for side in (one["floor"], one["service"]):
            assert 0 < side["p50_ms"] <= side["p95_ms"]
            assert side["per_second"] > 0
        met = one["added_ms"] <= 1.5 if one["clients"] == 1 else one["share"] >= 0.6
        assert one["met"] is met


def test_a_run_tells_what_it_was_made_on(quick_run: dict[str, Any]) -> None:
    assert quick_run["seed"] == {"memories": 200, "users": 10}
    assert quick_run["machine"]["processors"] >= 1
    assert set(quick_run) == {"version", "machine", "seed", "rounds", "requests_of_a_round", "results"}


def test_sentences_are_distinct_and_of_a_sentences_length() -> None:
    made = {sentence(number) for number in range(50_000)}
    assert len(made) == 50_000
    assert all(len(text) < 256 for text in made)


def test_the_step_visits_every_sentence_once() -> None:
    assert len({number * 500_009 % SENTENCES_MAX for number in range(SENTENCES_MAX)}) == SENTENCES_MAX


def test_questions_are_the_same_in_every_run_and_vary() -> None:
    assert question(7) == question(7)
    assert len({question(number) for number in range(1000)}) > 900


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.5, 5), (0.95, 10), (0.1, 1), (0.01, 1), (1.0, 10)],
)
def test_a_percentile_is_the_nearest_rank(share: float, expected: float) -> None:
    assert percentile([10, 3, 5, 1, 2, 4, 9, 8, 7, 6], share) == expected


def test_the_added_time_is_the_median_over_pairs_of_rounds() -> None:
    pairs = [(_round(10), _round(11)), (_round(50), _round(53)), (_round(10), _round(12))]
    compared = compare("list", 1, pairs)
    assert compared.added_ms == pytest.approx(2)
    assert compared.floor.p50_ms == pytest.approx(10)
    assert not compared.met


def test_the_share_of_the_rate_is_the_median_over_pairs_of_rounds() -> None:
    pairs = [(_round(10), _round(20)), (_round(40), _round(50)), (_round(10), _round(16))]
    compared = compare("save", 16, pairs)
    assert compared.share == pytest.approx(0.625)
    assert compared.met


def test_the_table_fits_a_terminal_and_says_which_aim_is_missed() -> None:
    compared = [compare("list", 1, [(_round(10), _round(12))]), compare("list", 16, [(_round(10), _round(12))])]
    printed = io.StringIO()
    Console(width=80, file=printed).print(as_table(compared))
    lines = printed.getvalue().splitlines()
    assert any("+2.00" in line and "missed" in line for line in lines)
    assert any("83%" in line and "met" in line for line in lines)


def test_json_is_rounded_to_microseconds() -> None:
    told = as_json([compare("list", 1, [(_round(1 / 3), _round(2 / 3))])], {"version": "1"})
    assert told["version"] == "1"
    assert told["results"][0]["floor"]["p50_ms"] == 0.333


async def test_a_closed_loop_sends_each_request_once_and_never_more_at_once_than_clients() -> None:
    seen: list[int] = []
    under_way = most = 0

    async def send(number: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        seen.append(number)
        under_way -= 1

    done = await closed_loop(range(20), [send, send, send])
    assert sorted(seen) == list(range(20))
    assert most == 3
    assert len(done.latencies) == 20


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\nx: y", 12),
        (b"HTTP/1.1 200 OK\r\nContent-Length:7", 7),
        (b"HTTP/1.1 204 No Content\r\nx-content-length: 5", 0),
    ],
)
def test_the_content_length_is_read_in_any_case(head: bytes, expected: int) -> None:
    assert content_length(head) == expected


async def test_an_answer_may_come_in_pieces() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await reader.readuntil(b"\r\n\r\n")
            for piece in (b"HTTP/1.1 201 Created\r\ncont", b"ent-length: 4\r\n\r\nab", b"cd"):
                writer.write(piece)
                await asyncio.sleep(0.005)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        _, client = await asyncio.get_running_loop().create_connection(KeepAlive, host, port)
        assert await client.ask(b"GET / HTTP/1.1\r\n\r\n") == 201
        assert await client.ask(b"GET / HTTP/1.1\r\n\r\n") == 201
        with pytest.raises(ConnectionResetError):
            await client.ask(b"GET / HTTP/1.1\r\n\r\n")
        client.close()


def _round(milliseconds: float) -> Round:
    return Round([milliseconds / 1000] * 4, 4 * milliseconds / 1000)
