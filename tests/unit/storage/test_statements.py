"""The statements' files."""

import re
from importlib.resources import files

from memlane.storage.statements import statement, statements

QUERIES = {
    file.name: file.read_text(encoding="utf-8")
    for file in files("memlane.storage").joinpath("queries").iterdir()
    if file.name.endswith(".sql")
}


def test_every_name_in_the_files_is_a_statement_and_none_is_taken_twice() -> None:
    names = [name for text in QUERIES.values() for name in re.findall(r"^-- name: (\w+)$", text, re.MULTILINE)]
    assert sorted(names) == sorted(statements())
    assert len(set(names)) == len(names)


def test_a_statement_has_no_semicolon_of_its_own_and_is_not_empty() -> None:
    for name, sql in statements().items():
        assert sql, name
        assert not sql.endswith(";"), name


def test_every_parameter_of_a_statement_is_described_above_it() -> None:
    for name, sql in statements().items():
        described = re.findall(r"\$(\d+)", "\n".join(re.findall(r"^--.*$", sql, re.MULTILINE)))
        ranges = re.findall(r"\$(\d+)\.\.\$(\d+)", sql)
        spanned = {number for low, high in ranges for number in range(int(low), int(high) + 1)}
        used = {int(number) for number in re.findall(r"\$(\d+)", re.sub(r"^--.*$", "", sql, flags=re.MULTILINE))}
        assert used <= {int(number) for number in described} | spanned, name


def test_user_text_is_always_a_parameter() -> None:
    for name, sql in statements().items():
        assert "{" not in sql.replace("'{}'", ""), f"{name} is a format string"
    assert "$1" in statement("find_key")
