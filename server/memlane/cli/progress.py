"""The bar of the commands that take long."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def progress(console: Console | None = None, *, transient: bool = True) -> Progress:
    """A bar with its count and the time that is left.

    Args:
        console: Where it is drawn; on standard error by default.
        transient: Whether it leaves nothing behind.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console or Console(stderr=True), transient=transient)
