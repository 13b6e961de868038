"""Tests by their names, as they stand in the files: for the pages that say which test holds a behaviour."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent


@cache
def tests_of(file: str) -> tuple[str, ...]:
    """The names of the tests of a file, also of those that it has from elsewhere. ``file``: where in the checkout."""
    found: list[str] = []
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node.name)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tests."):
            names = [each.name for each in node.names]
            found += tests_of(f"{node.module.replace('.', '/')}.py") if names == ["*"] else names
    return tuple(name for name in found if name.startswith("test_"))


def named(file: str, begins: str) -> list[str]:
    """``file::name`` of each of its tests that begins so. KeyError when none does."""
    found = [f"{file}::{name}" for name in tests_of(file) if name.startswith(begins)]
    if not found:
        raise KeyError(f"{file}::{begins}")
    return found


def linked(tests: Iterable[str]) -> str:
    """Tests by file, as a page in ``docs`` has them."""
    by_file: dict[str, list[str]] = {}
    for each in dict.fromkeys(tests):
        file, _, name = each.partition("::")
        by_file.setdefault(file, []).append(f"`{name}`")
    return "; ".join(
        f"[{file.removeprefix('tests/')}](../{file}): {', '.join(names)}" for file, names in by_file.items()
    )
