"""The absorb key: what decides identity beside the words."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Literal

import pytest

from memlane.domain.canonical import absorb_key

Scope = Literal["user", "project"]
NOON = datetime(2026, 3, 3, 12, tzinfo=UTC)
NEXT_DAY = NOON + timedelta(days=1)


def key(content: str, *, scope: Scope = "user", user_id: str = "u1", now: datetime = NOON) -> bytes | None:
    return absorb_key(content, scope=scope, user_id=user_id, now=now)


def test_a_key_has_32_bytes_and_is_the_same_every_time() -> None:
    first = key("The user likes tea.")
    assert first is not None
    assert len(first) == 32
    assert first == key("User likes tea", now=NEXT_DAY)


@pytest.mark.parametrize("content", ["", "...", "!?", " \n"])
def test_an_empty_form_matches_nothing(content: str) -> None:
    assert key(content) is None


def test_another_statement_has_another_key() -> None:
    assert key("The user likes tea.") != key("The user likes coffee.")


@pytest.mark.parametrize("content", ["\ud800 tea", "a" * 8192, "\U0001f600" * 8192, "tea\x00milk"])
def test_any_text_has_a_key(content: str) -> None:
    assert key(content, scope="project") is not None


@pytest.mark.parametrize(
    "content",
    [
        "The flight is today.", "The flight was yesterday.", "The flight is TOMORROW", "The user is busy now",
        "Sees the dentist tonight", "Off this week", "Off next month", "Moved last year", "Moved two years ago",
        "Currently in Rome", "Will be back in 3 days", "Will be back in two weeks", "Will be back in a month",
        "The flight to Oslo leaves on Thursday.", "Recently changed jobs", "It is still open",
        "Today's task: tests",
        "Heute ist frei", "Der Termin ist morgen", "Hoy descansa", "Vuela mañana", "Il part demain",
        "C'est aujourd'hui", "C'était hier", "Oggi riposa", "Partito ieri", "Hoje descansa", "Saiu ontem",
        "Сегодня выходной", "Вчера был дождь", "今日は休み", "昨日着いた", "今天休息", "昨天到了", "오늘은 쉰다",
        "어제 도착했다",
        "اليوم عطلة", "היום חופש", "आज छुट्टी है", "วันนี้หยุด", "Bugün tatil", "Dziś wolne", "Vandaag vrij",
    ],
)  # fmt: skip
def test_a_word_that_counts_from_today_never_matches_on_another_day(content: str) -> None:
    assert key(content) == key(content, now=NOON + timedelta(hours=11))
    assert key(content) != key(content, now=NEXT_DAY)


@pytest.mark.parametrize(
    "content",
    [
        "The user likes tea.", "The standup is every Monday.", "The office is closed on Mondays.",
        "The project uses Next.js.", "The release is on 3 March 2026.", "The code review ends within 3 days.",
        "Le chat dort.", "猫が好き", "The report is nowhere.", "The user likes Hoyle.",
    ],
)  # fmt: skip
def test_other_texts_match_on_any_day(content: str) -> None:
    assert key(content) == key(content, now=NOON + timedelta(days=400))


def test_the_day_is_the_one_in_utc() -> None:
    late = datetime(2026, 3, 3, 23, 30, tzinfo=timezone(timedelta(hours=-8)))
    assert key("The flight is today.", now=late) == key("The flight is today.", now=NEXT_DAY)


def test_a_moment_without_a_timezone_is_refused() -> None:
    with pytest.raises(ValueError, match="timezone-aware"):
        key("The flight is today.", now=datetime(2026, 3, 3))  # noqa: DTZ001 - on purpose


@pytest.mark.parametrize(
    "content",
    [
        "I live in Madrid.", "Call me Bo.", "My desk is by the window.", "That one is mine.",
        "We meet at noon.",
        "Our office is in Rome.", "They told us to wait.", "I'm vegan.", "The user likes tea.",
        "Your manager is Priya.", "He likes tea.", "Her sister is a nurse.", "It rains a lot here.",
        "Likes tea.", "Lives in Lyon.", "ALLERGIC TO PEANUTS", "Moved to Berlin.", "Learning the cello.",
        "Fan of the Beatles and the Who.", "Is the owner of the shop.", "Prefers that the office is quiet.",
        "Vivo en Madrid.", "Trabajo con la casa", "Ich wohne in Köln.", "J'habite à Lyon.", "Wohne in Köln",
        "東京に住んでいる", "住在北京", "서울에 산다", "Живу в Москве", "أعيش في القاهرة", "Abito a Roma",
        "Moro em Lisboa",
        "Ik werk in Gent", "Mieszkam w Krakowie", "İzmir'de yaşıyorum", "tea", "👍",
    ],
)  # fmt: skip
def test_a_text_that_may_be_about_its_writer_never_matches_another_users_in_a_project(content: str) -> None:
    assert key(content, scope="project", user_id="u1") != key(content, scope="project", user_id="u10")
    assert key(content, scope="project", user_id="u1") == key(content, scope="project", user_id="u1")


@pytest.mark.parametrize(
    "content",
    [
        "The project uses Python 3.12.", "Deploys are frozen on Fridays.", "The team deploys every Friday.",
        "Production database is Postgres 16 on the big host.", "All services use TLS.",
        "Every pull request needs a review.", "The API key rotates every 90 days.", "Use tabs in the Makefile.",
        "In the billing service, retries are capped at 5.", "Standup is at 9:30.",
        "The café on the corner is closed on Mondays.",
    ],
)  # fmt: skip
def test_an_impersonal_english_text_matches_between_users_of_a_project(content: str) -> None:
    assert key(content, scope="project", user_id="u1") == key(content, scope="project", user_id="u2")


def test_parts_of_a_key_never_run_together() -> None:
    assert key("I live in a", scope="project", user_id="b") != key("I live in", scope="project", user_id="ab")
