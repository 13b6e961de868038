"""The object graph is built once: nothing is given to an object after it was made, but for what is said here. A class
that is large has its reason.
"""

from __future__ import annotations

import re
from functools import cache

from tests.places import ROOT
from tools.house import Source, large_classes, late_names, sources, wires

NOT_WIRES = {
    "kernel.cell.link.frames error.__cause__": "an exception without its frames: they hold a peer's bytes",
    "kernel.cell.link.frames error.__context__": "the same",
    "kernel.cells.engines.placer os.environ": "what Ray reads from the environment of its own process",
    "kernel.helper.offspring OFFSPRING.adopts": "what the operating system was told of this process",
    "kernel.model.persistent copy._shards": "a copy, made by its own class",
    "kernel.model.persistent copy._size": "the same",
    "weftos.cli.terminal.arguments info.typer_instance": "a copy of the group of commands that is asked for",
}
IN_ONE_BREATH = {
    "kernel.worker.pool process": "a helper and the row it is kept in",
}


@cache
def read() -> list[Source]:
    return sources(None, ROOT)


def without_lines(found: list[str]) -> set[str]:
    """``module:line name`` without the line."""
    pairs = (place.split(" ", 1) for place in found)
    return {f"{place.partition(':')[0]} {name}" for place, name in pairs}


def test_nothing_is_assigned_to_an_object_from_outside() -> None:
    assert without_lines(wires(read())) == set(NOT_WIRES)


def test_no_lambda_reads_a_name_that_is_bound_later() -> None:
    assert without_lines(late_names(read())) == set(IN_ONE_BREATH)


def test_a_large_class_has_its_reason_and_no_other_class_has_one() -> None:
    page = (ROOT / "docs" / "house.md").read_text()
    assert set(re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)) == large_classes(read())
