"""What every text on the command line must be: readable, and storable by the database."""

import unicodedata
from collections.abc import Callable

import click

_REFUSED = {"Cc", "Cs"}
"""Unicode categories: control characters, and surrogates (bytes that are not UTF-8 come as these)."""


class PlainText(click.types.StringParamType):
    """Text without control characters and in UTF-8."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, or a refusal that names the option and never quotes the value."""
        text = str(super().convert(value, param, ctx))
        found = {unicodedata.category(character) for character in text} & _REFUSED
        if "Cs" in found:
            self.fail("is not UTF-8", param, ctx)
        if found:
            self.fail("has a control character, which no text here may have", param, ctx)
        return text


def guard_texts(command: click.Command) -> None:
    """Make every plain text of a command, and of all that are below it, a `PlainText`. Paths keep their bytes."""
    for parameter in command.params:
        if type(parameter.type) is click.types.StringParamType:
            parameter.type = PlainText()
    if isinstance(command, click.Group):
        for below in command.commands.values():
            guard_texts(below)


def label_of_at_most(limit: int) -> Callable[[click.Context, click.Parameter, str], str]:
    """The callback of a text that is shown in a table.

    Args:
        limit: Most characters.
    """

    def check(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
        if len(value) > limit:
            raise click.BadParameter(f"has at most {limit} characters")
        return value

    return check
