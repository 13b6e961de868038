"""Writes docs/turn-conformance.md: which tests hold what an agent's turn does. ``python -m tools.turn_conformance``"""

from __future__ import annotations

from itertools import chain

from tools.named_tests import ROOT, linked, named
from tools.turn_behaviours import PARTS, Behaviour

TARGET = ROOT / "docs" / "turn-conformance.md"

_INTRODUCTION = """\
# What a turn does, and what holds it

Made by `python -m tools.turn_conformance` of the table in `tools/turn_behaviours.py`; do not edit by hand. `make test`
fails when a test that stands here is not there any more, or when the page is another than the table says.

{rows} behaviours, held by {tests} tests; {lacking} of them {are} not there, or otherwise than one would expect, and say
so.
"""


def held_by(behaviour: Behaviour) -> list[str]:
    """``file::name`` of each of its tests. KeyError when one that is named is not there."""
    told = (each.partition("::") for each in behaviour.tests)
    return list(chain.from_iterable(named(f"tests/{file}.py", begins) for file, _, begins in told))


def render() -> str:
    """The whole page."""
    every = [each for rows in PARTS.values() for each in rows]
    lacking = sum(bool(each.lacks) for each in every)
    count = len({test for each in every for test in held_by(each)})
    are = "is" if lacking == 1 else "are"
    parts = [_INTRODUCTION.format(rows=len(every), tests=count, lacking=lacking, are=are)]
    for part, rows in PARTS.items():
        parts += [f"## {part}", ""]
        parts += ["| behaviour | held by | what is not there, or otherwise |", "| --- | --- | --- |"]
        parts += [f"| {each.says} | {linked(held_by(each))} | {each.lacks} |" for each in rows]
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    TARGET.write_text(render())
