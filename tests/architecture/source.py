"""The server's source, parsed."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import memlane

PACKAGE = Path(memlane.__file__).parent
ROOT = PACKAGE.parent.parent


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the server by its path below the package."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def nodes() -> Iterator[tuple[str, ast.AST]]:
    """Every node of every module."""
    for name, tree in modules().items():
        for node in ast.walk(tree):
            yield name, node


def called(node: ast.AST) -> str | None:
    """The last name of what a call calls: `loop.create_task(...)` calls `create_task`."""
    if not isinstance(node, ast.Call):
        return None
    target = node.func
    return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", None)
