"""The rules of the house that no linter knows."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from architecture.source import PACKAGE, ROOT, called, modules, nodes
from memlane.domain import errors
from memlane.domain.errors import MemlaneError, Misconfigured, StorageUnavailable, TokenRejected
from memlane.rest.errors import STATUS_OF, error_response
from memlane.storage.statements import statements

LONGEST_MODULE = 400


def test_imports_point_down_and_the_core_does_no_io() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    found = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


def test_background_tasks_are_begun_only_under_supervision() -> None:
    """A task group waits for its tasks; every other task belongs to `observability.supervisor`."""
    groups = {
        (name, item.optional_vars.id)
        for name, node in nodes()
        if isinstance(node, ast.AsyncWith)
        for item in node.items
        if called(item.context_expr) == "TaskGroup" and isinstance(item.optional_vars, ast.Name)
    }
    bare = [
        f"{name}:{node.lineno}"
        for name, node in nodes()
        if isinstance(node, ast.Call)
        and called(node) in {"create_task", "ensure_future", "run_coroutine_threadsafe"}
        and not name.startswith("observability/")
        and (name, getattr(getattr(node.func, "value", None), "id", None)) not in groups
    ]
    assert bare == []


def statement_names_in_code() -> dict[str, str]:
    """Every string of the code that stands where a statement's name does, with its place."""
    takers = {"statement", "_change", "_rows_of_every_channel"}
    return {
        node.args[0].value: f"{name}:{node.lineno}"
        for name, node in nodes()
        if isinstance(node, ast.Call)
        and called(node) in takers
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


def test_every_statement_that_the_code_names_exists() -> None:
    assert {name: place for name, place in statement_names_in_code().items() if name not in statements()} == {}


def test_every_statement_is_used() -> None:
    words = {node.value for _, node in nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert sorted(set(statements()) - words) == []


def test_every_statement_says_what_its_parameters_are() -> None:
    """`$3` in the text stands in a comment above it."""
    undescribed = {}
    for name, text in statements().items():
        comments = " ".join(line for line in text.splitlines() if line.startswith("--"))
        body = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--"))
        told = {int(number) for number in re.findall(r"\$(\d+)", comments)}
        for first, last in re.findall(r"\$(\d+)\.\.\$(\d+)", comments):
            told |= set(range(int(first), int(last) + 1))
        missing = {int(number) for number in re.findall(r"\$(\d+)", body)} - told
        if missing:
            undescribed[name] = sorted(missing)
    assert undescribed == {}


def test_sql_stands_only_in_query_files_and_migrations() -> None:
    """But for what has no rows: sessions, locks and the migrations' own table."""
    allowed = ("storage/migrate.py", "storage/pool.py", "embedded/", "bench/", "cli/doctor.py")
    spoken = re.compile(r"^\s*(select \S+ from|insert into|update \w+ set|delete from|with \w+ as)\b", re.IGNORECASE)
    found = [
        f"{name}:{node.lineno}"
        for name, node in nodes()
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and spoken.match(node.value)
        if not name.startswith(allowed)
    ]
    assert found == []


_CHANGES_THE_LEDGER = re.compile(
    r"""\b(?:update|delete\s+from|truncate(?:\s+table)?|merge\s+into)\s+(?:only\s+)?      # what is done
        (?:[\w$"]+\s*,\s*)*                                                            # truncate takes several
        (?:"?\w+"?\s*\.\s*)?"?(?:write_ledger\b|\0)                                    # in any schema
      | \binsert\s+into\s+(?:"?\w+"?\s*\.\s*)?"?write_ledger\b[^;]*?\bdo\s+update\b""",
    re.IGNORECASE | re.VERBOSE,
)


def changes_the_ledger(sql: str) -> bool:
    """Whether a text holds a statement that does more to `write_ledger` than add rows.

    A NUL stands for what is put in at run time: it may be any table's name.
    """
    without_comments = re.sub(r"--[^\n]*|/\*.*?\*/", " ", sql, flags=re.DOTALL)
    return _CHANGES_THE_LEDGER.search(without_comments) is not None


def texts_in_code() -> list[tuple[str, str]]:
    """Every string of the code with its place, a formatted one whole, with NUL for what is put in."""
    found = []
    for name, node in nodes():
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)
            found.append((f"{name}:{node.lineno}", "".join(map(str, parts))))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append((f"{name}:{node.lineno}", node.value))
    return found


def test_the_ledger_is_append_only() -> None:
    files = {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in PACKAGE.rglob("*.sql")}
    assert any("insert into write_ledger" in text for text in files.values()), "the files were found"
    places = [*files.items(), *texts_in_code()]
    assert [place for place, text in places if changes_the_ledger(text)] == []


@pytest.mark.parametrize(
    "sql",
    [
        "update write_ledger set run = ''",
        "with old as (delete\n from write_ledger where id = 1 returning *) select 1",
        'DELETE FROM ONLY public."write_ledger"',
        "truncate write_ledger",
        "truncate table memories, write_ledger cascade",
        "insert into write_ledger (id) values (1) on conflict (id) do update set run = ''",
        "merge into write_ledger l using x on true when matched then delete",
        "delete from \0 where project_id = $1",
        "update -- why\n write_ledger set run = ''",
    ],
)
def test_a_change_of_the_ledger_is_recognised(sql: str) -> None:
    assert changes_the_ledger(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "insert into write_ledger (id) values (1); insert into channels values (1) on conflict do update set seq = 1",
        "select 1 from write_ledger for update",
        "update channels set ledger_rows = (select count(*) from write_ledger)",
        "-- Nobody may delete from write_ledger.\nselect 1",
        "vacuum (analyze, truncate false) \0",
    ],
)
def test_what_reads_the_ledger_or_adds_to_it_is_no_change(sql: str) -> None:
    assert not changes_the_ledger(sql)


def test_every_use_case_that_writes_admits_the_write_first() -> None:
    """Lane, grant and origin are then checked whichever door it comes through."""
    calls: dict[str, set[str | None]] = {}
    for name, node in nodes():
        calls.setdefault(name, set()).add(called(node))
    writing = {name for name, names in calls.items() if names & {"in_channel", "write_once"}}
    writing -= {"usecases/idempotency.py"}  # what others share
    assert writing == {
        f"usecases/{name}.py" for name in ("forget", "import_memories", "remember", "restore", "supersede")
    }
    assert {name for name in writing if "admit_write" not in calls[name]} == set()


def every_error() -> set[type[MemlaneError]]:
    found: set[type[MemlaneError]] = set()
    todo: list[type[MemlaneError]] = [MemlaneError]
    while todo:
        kind = todo.pop()
        found.add(kind)
        todo += kind.__subclasses__()
    return {kind for kind in found if kind.__module__.startswith("memlane.")}


def test_every_error_that_a_caller_can_meet_has_a_status() -> None:
    """A class without one heads a family, ends the process, is answered by the stream, or is of `dev` or `bench`."""
    heads = {kind for kind in every_error() if kind.__subclasses__() and "code" not in vars(kind)}
    elsewhere = {kind for kind in every_error() if issubclass(kind, (Misconfigured, TokenRejected))}
    own = ("memlane.embedded.", "memlane.bench.")
    elsewhere |= {kind for kind in every_error() if kind.__module__.startswith(own)}
    met = every_error() - heads - elsewhere - {MemlaneError}
    without = {kind for kind in met if not set(kind.__mro__) & set(STATUS_OF)}
    assert without == set()


def test_a_subclass_of_an_error_answers_as_its_parent() -> None:
    class DiskFull(StorageUnavailable):
        """The database's disk is full."""

    assert error_response(DiskFull(), "r").status_code == 503


def test_the_tree_of_errors_in_the_docstring_is_whole() -> None:
    tree = errors.__doc__ or ""
    for kind in every_error():
        if kind.__module__ == errors.__name__:
            assert kind.__name__ in tree
            if "code" in vars(kind) and kind is not MemlaneError:
                assert kind.code in tree


def test_every_code_is_of_one_class() -> None:
    own = [kind for kind in every_error() if "code" in vars(kind)]
    assert len({kind.code for kind in own}) == len(own)


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    long = {
        name: length
        for name in modules()
        if (length := len((PACKAGE / name).read_text(encoding="utf-8").splitlines())) > LONGEST_MODULE
    }
    assert long == {}
