"""Which texts of a write are looked through, as what, and what a refusal says of them."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memlane.domain.caller import Caller, Provenance
from memlane.domain.errors import SecretDetected
from memlane.domain.memory import Draft
from memlane.usecases.ports import Services
from memlane.usecases.screening import refuse_secret_provenance, refuse_secrets, refuse_secrets_of_body
from unit.usecases.test_access import Access, Grant, caller

FULL = caller(Grant(Access.READ_WRITE, Access.READ_WRITE))
UNSCREENED = replace(FULL, key=replace(FULL.key, screens_secrets=False))
SECRET = "a secret"


class CountingScanner:
    """Takes `a secret` for one, also across lines, and notes what it looks through."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.ids: list[str] = []

    def find(self, text: str, *, is_id: bool = False) -> str | None:
        (self.ids if is_id else self.texts).append(text)
        return "Password" if SECRET in text.replace("\n", " ") else None


def house() -> tuple[Services, CountingScanner]:
    scanner = CountingScanner()
    return cast("Services", SimpleNamespace(secrets=scanner)), scanner


def from_origin(*sent: tuple[str, str], of: Caller = FULL) -> Caller:
    return replace(of, provenance=Provenance(run="r", sent=sent))


def path_of(caught: pytest.ExceptionInfo[SecretDetected]) -> str:
    (fault,) = caught.value.details
    assert SECRET not in caught.value.message + fault.message
    assert caught.value.message.startswith(f"{fault.path} holds a credential (Password)")
    return fault.path


def draft(content: str = "Likes tea.", *threads: str) -> Draft:
    return Draft(content, "topical", "user", threads)


def test_a_secret_is_named_by_its_place() -> None:
    services, _ = house()
    for drafts, batch, path in (
        ([draft(SECRET)], False, "content"),
        ([draft("Likes tea.", "t1", "t1", "t2", SECRET)], False, "sourceThreadIds.3"),
        ([draft(), draft(), draft("Likes tea.", SECRET)], True, "memories.2.sourceThreadIds.0"),
        ([draft("Likes tea.", SECRET), draft(SECRET)], True, "memories.0.sourceThreadIds.0"),
    ):
        with pytest.raises(SecretDetected) as caught:
            refuse_secrets(services, FULL, drafts, batch=batch)
        assert path_of(caught) == path


def test_threads_are_looked_through_as_ids_all_at_once_and_only_where_there_are_some() -> None:
    services, scanner = house()
    refuse_secrets(services, FULL, [draft(), draft("Likes rye.", "t1", "t2")])
    assert scanner.texts == ["Likes tea.", "Likes rye."]
    assert scanner.ids == ["t1\nt2"]


def test_what_only_comes_of_two_ids_side_by_side_is_no_secret() -> None:
    services, scanner = house()
    refuse_secrets(services, FULL, [draft("Likes tea.", *SECRET.split())])
    assert scanner.ids == ["a\nsecret", "a", "secret"]


def test_an_origin_is_named_by_what_it_was_sent_in() -> None:
    services, scanner = house()
    asker = from_origin(("X-Memlane-Run", "run-1"), ("memlane/source", f"thread:{SECRET}"))
    with pytest.raises(SecretDetected) as caught:
        refuse_secret_provenance(services, asker)
    assert path_of(caught) == "memlane/source"
    assert scanner.texts == [], "it is an id"


def test_an_origin_that_was_not_sent_is_not_looked_through() -> None:
    services, scanner = house()
    refuse_secret_provenance(services, FULL)
    assert (scanner.texts, scanner.ids) == ([], [])


def test_nothing_is_looked_through_where_the_operator_switched_it_off() -> None:
    services, scanner = house()
    asker = from_origin(("X-Memlane-Run", SECRET), of=UNSCREENED)
    refuse_secret_provenance(services, asker)
    refuse_secrets(services, asker, [draft(SECRET, SECRET)])
    refuse_secrets_of_body(services, asker, {"content": SECRET, "sourceThreadIds": [SECRET]})
    assert (scanner.texts, scanner.ids) == ([], [])


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"content": SECRET}, "content"),
        ({"content": 1, "sourceThreadIds": [1, None, SECRET]}, "sourceThreadIds.2"),
        ({"memories": [1, {"content": SECRET}]}, "memories.1.content"),
        ({"memories": [{}, {"sourceThreadIds": ["t1", SECRET]}]}, "memories.1.sourceThreadIds.1"),
    ],
)
def test_a_body_that_is_not_valid_is_looked_through_too(body: Any, path: str) -> None:
    services, _ = house()
    with pytest.raises(SecretDetected) as caught:
        refuse_secrets_of_body(services, FULL, body)
    assert path_of(caught) == path


@pytest.mark.parametrize("body", [None, 5, {}, {"memories": 5, "sourceThreadIds": "t"}, {"memories": [5, "a", None]}])
def test_a_body_without_texts_holds_no_secret(body: Any) -> None:
    refuse_secrets_of_body(house()[0], FULL, body)


def test_with_a_body_that_is_not_valid_the_origin_is_looked_through() -> None:
    with pytest.raises(SecretDetected) as caught:
        refuse_secrets_of_body(house()[0], from_origin(("X-Memlane-Run", SECRET)), {})
    assert path_of(caught) == "X-Memlane-Run"


def test_of_what_is_too_long_only_as_much_is_looked_through_as_could_be_stored() -> None:
    services, scanner = house()
    refuse_secrets_of_body(services, FULL, {"content": "x" * 500_000, "sourceThreadIds": ["y" * 500_000]})
    assert [len(text) for text in scanner.texts] == [8192]
    assert [len(text) for text in scanner.ids] == [256]
