"""The log of `memlane dev`: what earlier starts wrote stays, within two files of a bounded size."""

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO, cast

LOG_BYTES = 10_000_000
"""About as long as one file grows; then it becomes `<name>.1`, in place of the one before."""


class KeptLog:
    """A stream for lines of text; each is written at once. For one thread at a time, as the logs' own lock sees to.

    Args:
        path: The file; its owner's alone.
        limit: Bytes after which the next line begins a new file.
    """

    def __init__(self, path: Path, limit: int = LOG_BYTES) -> None:
        self._path = path
        self._limit = limit
        self._ends_a_line = True
        self._open()

    def as_stream(self) -> TextIO:
        """What the logs need of a stream is `write` and `flush`."""
        stream: Any = self
        return cast("TextIO", stream)

    def write(self, text: str) -> int:
        """Write a text."""
        if self._size >= self._limit and self._ends_a_line:
            self._file.close()
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            self._open()
        self._file.write(text)
        self._size += len(text)
        self._ends_a_line = text.endswith("\n")
        return len(text)

    def flush(self) -> None:
        """Nothing waits that is a whole line."""
        self._file.flush()

    def __enter__(self) -> Self:
        """The stream."""
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _fault: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Close it."""
        self._file.close()

    def _open(self) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "a", buffering=1, encoding="utf-8")
        self._size = os.fstat(descriptor).st_size
