"""Every text that any command takes is plain: none of them is forgotten."""

from collections.abc import Iterator

import click
import pytest

from memlane.cli.main import cli
from memlane.cli.plain_text import PlainText


def commands(command: click.Command, name: str = "memlane") -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for word, below in command.commands.items():
            yield from commands(below, f"{name} {word}")


def texts() -> list[tuple[str, click.Parameter]]:
    return [
        (name, parameter)
        for name, command in commands(cli)
        for parameter in command.params
        if isinstance(parameter.type, click.types.StringParamType)
    ]


def test_no_command_takes_a_text_that_is_not_plain() -> None:
    assert len(texts()) > 20
    assert [(name, one.name) for name, one in texts() if not isinstance(one.type, PlainText)] == []


@pytest.mark.parametrize("text", ["\0", "a\x1b[0m", "a\nb", "\x7f", "\x85", "\udcff"])
def test_what_cannot_be_stored_or_would_move_a_terminal_is_refused_and_not_quoted(text: str) -> None:
    with pytest.raises(click.BadParameter) as raised:
        PlainText().convert(text, None, None)
    assert text not in raised.value.message


@pytest.mark.parametrize("text", ["", "shop", "grüße 🙂", "👩\u200d👩\u200d👧", "\u3000", "مرحبا"])
def test_every_other_text_passes_unchanged(text: str) -> None:
    assert PlainText().convert(text, None, None) == text
