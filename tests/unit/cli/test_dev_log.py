"""The log of `memlane dev`: kept over starts, and bounded."""

import stat
from pathlib import Path

from memlane.cli.dev_log import KeptLog


def test_a_second_start_goes_on_where_the_first_one_ended(tmp_path: Path) -> None:
    path = tmp_path / "memlane.log"
    for line in ("first\n", "second\n"):
        with KeptLog(path) as log:
            log.write(line)
    assert path.read_text() == "first\nsecond\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_files_hold_the_newest_lines_whole_and_never_more(tmp_path: Path) -> None:
    path = tmp_path / "memlane.log"
    with KeptLog(path, limit=100) as log:
        for number in range(1000):
            # As the logs write: the line and its end may come apart.
            log.write(f"line {number:04}")
            log.write("\n")
            log.flush()
    old, new = (tmp_path / "memlane.log.1").read_text(), path.read_text()
    lines = (old + new).splitlines()
    assert lines == [f"line {number:04}" for number in range(1000 - len(lines), 1000)]
    assert len(old) == 100
    assert len(new) <= 100
    assert sorted(one.name for one in tmp_path.iterdir()) == ["memlane.log", "memlane.log.1"]
