"""Recall@5 of the memory on the set of ``recall_set.py``: hybrid, vectors alone, BM25 alone, by form of query.

The real archive process is asked, over documents that a real ledger holds. ``FLOORS`` is what hybrid must reach.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.prove.recall_set import DOCUMENTS, FORMS, QUERIES, make_set
from tests.weftos.twins.memory_node import MemoryNode, memory_node

MODES = {"hybrid": "hybrid", "vector": "vector only", "bm25": "BM25 only"}
AT = 5
ALL = "all"
FLOORS = {"keyword": 0.97, "near-duplicate": 0.75, "misspelt": 0.80, ALL: 0.87}

Shares = dict[tuple[str, str], float]


async def measure(node: MemoryNode) -> Shares:
    """The share of queries whose note is among the first five, by mode and form."""
    notes, queries = make_set()
    ids = await node.write_all([(note.text, "/user/a", "own") for note in notes])
    assert (await node.settled())["vectors"] == DOCUMENTS
    hits: Counter[tuple[str, str]] = Counter()
    asked: Counter[str] = Counter()
    for query in queries:
        asked.update((query.form, ALL))
        for mode in MODES:
            if ids[query.note] in await node.found(query.text, k=AT, mode=mode, owner="/user/a"):
                hits.update(((mode, query.form), (mode, ALL)))
    return {(mode, form): hits[mode, form] / asked[form] for mode in MODES for form in (*FORMS, ALL)}


def measured(data: Path) -> Shares:
    """:func:`measure` on a new node in ``data``."""

    async def whole() -> Shares:
        async with memory_node(data) as node:
            return await measure(node)

    return asyncio.run(whole())


def faults(shares: Shares) -> list[str]:
    """What is below its floor, and where hybrid is not the best of the three over all queries."""
    below = [
        f"hybrid finds {shares['hybrid', form]:.1%} of the {form} queries, must be {floor:.0%}"
        for form, floor in FLOORS.items()
        if shares["hybrid", form] < floor
    ]
    better = [mode for mode in MODES if shares[mode, ALL] > shares["hybrid", ALL]]
    return below + [f"{MODES[mode]} finds more than hybrid over all queries" for mode in better]


def prove_recall(console: Console) -> bool:
    """Measure and print; whether every floor is reached."""
    with tempfile.TemporaryDirectory(prefix="weftos-recall-") as directory:
        shares = measured(Path(directory))
    title = f"recall@{AT}: {QUERIES} queries over {DOCUMENTS} documents, the lexical embedder (no semantics)"
    table = Table("queries", *MODES.values(), "floor of hybrid", title=title)
    for form in (*FORMS, ALL):
        table.add_row(form, *(f"{shares[mode, form]:.1%}" for mode in MODES), f"{FLOORS[form]:.0%}")
    console.print(table)
    for fault in faults(shares):
        console.print(fault, style="red", highlight=False)
    return not faults(shares)
