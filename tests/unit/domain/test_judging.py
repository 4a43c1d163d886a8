"""What a judge may be asked at all."""

import pytest

from memlane.domain.judging import may_be_judged


def test_two_timeless_statements_with_the_same_figures_may_be_judged() -> None:
    assert may_be_judged("Plays the cello.", "Is a cellist.", "user")
    assert may_be_judged("Married Jun in 2019.", "Jun and the user wed in 2019.", "user")
    assert may_be_judged("The lease is for two years.", "The lease runs 2 years.", "user")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Logs are kept for 30 days.", "Logs stay for 90 days."),
        ("The flight is today.", "The plane leaves today."),
        ("The flat is 12B.", "The flat is number 13."),
        ("The wifi password is tulip.", "The password of the wifi is tulip."),
        ("Run `make test`.", "Execute `make test`."),
        ("Plays the cello.", "Plays the cello. " * 60),
    ],
)
def test_other_figures_days_secrets_code_and_long_texts_are_never_judged(one: str, other: str) -> None:
    assert not may_be_judged(one, other, "user")
    assert not may_be_judged(other, one, "user")


def test_in_a_project_only_impersonal_statements_are_judged() -> None:
    assert may_be_judged("The team ships every Friday.", "The releases are on every Friday.", "project")
    assert may_be_judged("The office is in Oslo.", "The office has its seat in Oslo.", "project")
    assert not may_be_judged("I live in Oslo.", "My home is Oslo.", "project")
    assert may_be_judged("I live in Oslo.", "My home is Oslo.", "user")
