"""The file of `memlane export`: of which project it is, whether it is whole, and where a broken-off one goes on.

Between two marks stands one line for each memory, by ascending id. The first mark names the project, the last says how
many memories there are; a file without the last broke off. Nothing is written into a file that is not, from its first
byte on, an export of this very project that broke off.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import click
import orjson

from memlane.storage.tenants import Project

FORMAT = 1
_MARK = b'{"memlane"'
_MEMORY = b'{"id":"'
_HINT = "choose another file for --out, or add --replace to write this one anew"


def first_mark(project: Project) -> bytes:
    """The first line of a project's export."""
    names = {"project": project.slug, "projectId": str(project.id)}
    return orjson.dumps({"memlane": "export", "format": FORMAT, **names}, option=orjson.OPT_APPEND_NEWLINE)


def last_mark(memories: int) -> bytes:
    """The last line of a whole export."""
    return orjson.dumps({"memlane": "end", "memories": memories}, option=orjson.OPT_APPEND_NEWLINE)


def is_mark(line: bytes) -> bool:
    """Whether a line is a mark and no memory."""
    return line.lstrip().startswith(_MARK)


class Marks:
    """Follows the marks of a file that is read line by line. A file of before there were marks has none."""

    def __init__(self) -> None:
        self._first: dict[str, Any] | None = None
        self._last: dict[str, Any] | None = None
        self._lines = 0
        self._memories = 0

    def take(self, line: bytes) -> bool:
        """Take the next line; whether it is a mark.

        Raises:
            ValueError: It stands where it cannot stand, or is of a newer version.
        """
        self._lines += 1
        if self._last is not None:
            raise ValueError("stands after the end of the export")
        if not is_mark(line):
            self._memories += 1
            return False
        mark = _mark_of(line)
        if mark is None:
            raise ValueError("is half of a mark of an export")
        if mark["memlane"] == "end":
            self._last = mark
        elif self._lines > 1:
            raise ValueError("is the first line of another export")
        elif mark["format"] != FORMAT:
            raise ValueError("is of an export by a newer version of memlane: install that one")
        else:
            self._first = mark
        return True

    def lack(self) -> str | None:
        """What is missing once all lines were taken; None when the file is whole, or has no marks to tell by."""
        if self._first is not None and self._last is None:
            return "the export broke off: its last line is missing"
        if self._first is None and self._last is not None:
            return "the first line of the export is missing"
        if self._last is not None and self._last["memories"] != self._memories:
            return f"the export had {self._last['memories']} memories, and the file has {self._memories}"
        return None


class ExportFile:
    """An export that is being written.

    Attributes:
        after: The id of the last memory that stands; None when none does.
        written: How many memories stand.
    """

    def __init__(self, path: Path, descriptor: int, project: Project) -> None:
        self._path = path
        self._descriptor = descriptor
        first = first_mark(project)
        self.after, self.written, end = _resume_point(path, descriptor, first, project)
        # Memories are personal: the file is its owner's alone, also one that somebody else made.
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, end)
        os.lseek(descriptor, end, os.SEEK_SET)
        self._write(first[end:] if end < len(first) else b"")

    def add(self, lines: Sequence[bytes], last_id: str) -> None:
        """Write a page of memories, of which ``last_id`` is the last one's."""
        self._write(b"".join(lines))
        self.after = last_id
        self.written += len(lines)

    def finish(self) -> None:
        """Write the last mark: the export is whole."""
        self._write(last_mark(self.written))
        with _told(self._path):
            os.fsync(self._descriptor)

    def _write(self, data: bytes) -> None:
        with _told(self._path):
            left = memoryview(data)
            while left:
                left = left[os.write(self._descriptor, left) :]


@contextmanager
def export_file(path: Path, project: Project, *, replace: bool) -> Iterator[ExportFile]:
    """Open the file of a project's export: a new one, or one that broke off.

    Args:
        path: Where.
        project: Of which project.
        replace: Write a new file whatever is there, and put it in the old one's place once it is whole.

    Raises:
        click.ClickException: It is no file, cannot be written, or holds anything else than a broken-off export.
    """
    with _told(path):
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            raise click.ClickException(f"{path} is no regular file, so an export into it could not be continued")
        target = Path(os.path.realpath(path)) if replace else path
        part = target.with_name(f"{target.name}.part") if replace else target
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if replace else 0), 0o600)
    try:
        with _told(path):
            opened = ExportFile(part, descriptor, project)
        yield opened
        with _told(path):
            part.replace(target)
    except BaseException:
        if replace:
            with suppress(OSError):
                part.unlink()
        raise
    finally:
        os.close(descriptor)


def _resume_point(path: Path, descriptor: int, first: bytes, project: Project) -> tuple[str | None, int, int]:
    """The id after which to go on, how many memories stand, and where their lines end."""
    after, written = None, 0
    with os.fdopen(os.dup(descriptor), "rb") as file:
        start = file.readline()
        if first.startswith(start):
            end = len(start)
        else:
            raise click.ClickException(f"{path} {_what_else(start, project)}: {_HINT}")
        for number, line in enumerate(file, start=2):
            if not line.endswith(b"\n"):
                # Half of a line of ours, and of nobody else's.
                if not any(line.startswith(word) or word.startswith(line) for word in (_MEMORY, _MARK)):
                    raise click.ClickException(f"line {number} of {path} is not of an export: {_HINT}")
                break
            mark = _mark_of(line)
            if mark is not None:
                raise click.ClickException(
                    f"{path} is a whole export of the project {project.slug} already, with {written} memories: {_HINT}"
                )
            found = _id_of(line)
            if found is None:
                raise click.ClickException(f"line {number} of {path} is not of an export: {_HINT}")
            after = found
            written += 1
            end += len(line)
    return after, written, end


def _what_else(start: bytes, project: Project) -> str:
    mark = _mark_of(start)
    if mark is None or mark["memlane"] != "export":
        return "does not begin like an export"
    if mark["format"] != FORMAT:
        return "is an export by another version of memlane"
    if mark["project"] == project.slug:
        return f"is an export of another project named {project.slug}, of another database"
    return "is an export of another project"


def _mark_of(line: bytes) -> dict[str, Any] | None:
    try:
        mark = orjson.loads(line) if is_mark(line) else None
    except orjson.JSONDecodeError:
        return None
    if not isinstance(mark, dict):
        return None
    if mark["memlane"] == "end" and type(mark.get("memories")) is int:
        return mark
    named = all(isinstance(mark.get(name), str) for name in ("project", "projectId"))
    return mark if mark["memlane"] == "export" and named and type(mark.get("format")) is int else None


def _id_of(line: bytes) -> str | None:
    try:
        return str(UUID(orjson.loads(line)["id"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise click.ClickException(f"{path} cannot be written ({fault.strerror})") from fault
