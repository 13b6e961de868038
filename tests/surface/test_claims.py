"""Each sentence of the README that says every, never, no or only stands in docs/claims.md beside tests that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.places import ROOT

CLAIMS = re.compile(r"\b(every|never|no|only)\b", re.IGNORECASE).search
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_END = re.compile(r"(?<=[.!?:;])\s+(?=[\"'`*(\[A-Z])")


def sentences(page: str) -> Iterator[str]:
    """The sentences of a page, and the lines of its blocks of code, each on one line."""
    for block in re.split(r"\n\s*\n", page):
        lines = block.splitlines()
        if all(line.startswith("    ") for line in lines):
            yield from _items(lines)
        elif lines and not lines[0].startswith("#"):
            for item in _list_items(lines):
                yield from _END.split(" ".join(item.split()))


def _items(lines: list[str]) -> Iterator[str]:
    """Lines of code; one that is indented further belongs to the line before."""
    item = ""
    for line in lines:
        if item and not line.startswith("     "):
            yield from _END.split(" ".join(item.split()))
            item = ""
        item = f"{item} {line}"
    yield from _END.split(" ".join(item.split()))


def _list_items(lines: list[str]) -> Iterator[str]:
    item: list[str] = []
    for line in lines:
        if line.startswith("- ") and item:
            yield " ".join(item)
            item = []
        item.append(line)
    yield " ".join(item)


def claims(page: str) -> list[str]:
    """The sentences that claim something; a link stands for its words."""
    return [_LINK.sub(r"\1", sentence) for sentence in sentences(page) if CLAIMS(sentence)]


def rows(page: str) -> dict[str, list[str]]:
    """Sentence to names of tests, of the tables of the page of claims."""
    found = {}
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == 2 and cells[0] != "sentence":
            found[cells[0]] = re.findall(r"`([^`]+)`", cells[1])
    return found


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Names of the test functions in a file that pytest collects; none when it collects none of it."""
    if not path.is_file() or not path.name.startswith("test_") or path.suffix != ".py":
        return frozenset()
    body = ast.parse(path.read_text()).body
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(item.name for item in body if isinstance(item, kinds) and item.name.startswith("test_"))


def faults(readme: str, page: str) -> list[str]:
    """What is wrong between the README and the page of claims, in words."""
    told, table = claims(readme), rows(page)
    found = [f"no test is named for: {sentence}" for sentence in told if not table.get(sentence)]
    found += [f"not in the README any more: {sentence}" for sentence in table if sentence not in told]
    for names in table.values():
        for name in names:
            file, _, function = name.partition("::")
            if function not in functions_of(ROOT / file):
                found.append(f"no such test: {name}")
    return found


def test_every_claim_of_the_readme_has_a_test_that_exists() -> None:
    readme, page = (ROOT / "README.md").read_text(), (ROOT / "docs" / "claims.md").read_text()
    assert len(claims(readme)) >= 10
    assert faults(readme, page) == []


HERE = "tests/surface/test_claims.py::test_a_claim_that_is_not_shown_is_noticed"


@pytest.mark.parametrize(
    ("readme", "page", "fault"),
    [
        ("It never\nlies.", f"| It never lies. | `{HERE}` |", ""),
        ("It is good. Nobody lies, nothing is lost.", "", ""),
        ("It is good.  It never lies.", "", "no test is named for: It never lies."),
        ("- one\n- *No* other\n  comes", "", "no test is named for: - *No* other comes"),
        ("    run it    # every byte", "", "no test is named for: run it # every byte"),
        ("It never lies.", "| It never lies. | of course |", "no test is named for: It never lies."),
        ("It lies.", f"| It never lies. | `{HERE}` |", "not in the README any more: It never lies."),
        ("It never lies.", f"| It never lies. | `{HERE}_not` |", f"no such test: {HERE}_not"),
        (
            "It never lies.",
            "| It never lies. | `tests/prove/run.py::main` |",
            "no such test: tests/prove/run.py::main",
        ),
    ],
)
def test_a_claim_that_is_not_shown_is_noticed(readme: str, page: str, fault: str) -> None:
    assert faults(readme, page) == ([fault] if fault else [])
