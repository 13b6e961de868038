"""Every forgery of state that somebody without a key can make (``tests/chain/twins/forged_state.py``): refused, and
named."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from tests.chain.twins.forged_state import forgeries, judge, make_story, on_a_copy, seed_of
from tests.prove.progress import follow

QUICK = 100


def prove_forged(console: Console, seed: str, quick: bool) -> bool:
    """A row for each kind of forgery. A failed proof says which ones a node took, or an auditor did not name."""
    with tempfile.TemporaryDirectory(prefix="weftos-forged-") as place:
        data = Path(place) / "data"
        data.mkdir()
        keys = make_story(data)
        untouched = judge(data, keys)
        every = sorted(forgeries(data), key=seed_of)[: QUICK if quick else None]
        tried, refused, named = Counter[str](), Counter[str](), Counter[str]()
        for forgery in follow(console, "forgeries", len(every), every):
            verdict = on_a_copy(data, Path(place) / "copy", forgery, keys)
            tried[forgery.kind] += 1
            refused[forgery.kind] += bool(verdict.refused)
            named[forgery.kind] += bool(verdict.named)
            if not verdict.refused or not verdict.named:
                console.print(f"{forgery.kind}, {forgery.name}: {verdict}", markup=False, highlight=False)
    table = Table("forged", "tried", "refused at boot", "named by verify", box=box.SIMPLE_HEAD)
    for kind in sorted(tried):
        table.add_row(kind, *(str(counted[kind]) for counted in (tried, refused, named)))
    table.add_row("all", *(str(counted.total()) for counted in (tried, refused, named)))
    console.print(table)
    sound = (untouched.refused, untouched.named) == ("", "")
    return sound and tried.total() == refused.total() == named.total() > 0
