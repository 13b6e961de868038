"""At length: whatever commit takes, a replay and the snapshot's reader take (``tests/kernel/twins/committed.py``)."""

from __future__ import annotations

import traceback
from functools import partial

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from rich.console import Console

from chain.entry.draft import Draft, StateChange
from tests.kernel.twins.committed import UNITS, check_run
from tests.prove.progress import follow
from tests.prove.walks import forked_pool

PARTS, RUNS, QUICK_RUNS = 34, 100, 3  # of some thirty units each
_LONG = st.lists(UNITS, min_size=20, max_size=40)


def _part(part: int, seed_text: str, runs: int) -> tuple[int, int, str]:
    """``runs`` runs, other ones in each part: how many units, how many of them were taken, and what was wrong."""
    units = taken = 0

    @seed(int(seed_text, 16) * PARTS + part)
    @settings(deadline=None, max_examples=runs, database=None, suppress_health_check=list(HealthCheck))
    @given(_LONG)
    def walk(run: list[list[Draft | StateChange]]) -> None:
        nonlocal units, taken
        taken += check_run(run)
        units += len(run)

    try:
        walk()
    except Exception:
        return units, taken, traceback.format_exc()  # with the run itself, as hypothesis notes it
    return units, taken, ""


def prove_commit_replay(console: Console, seed_text: str, quick: bool) -> bool:
    """Some ninety thousand units of records, good and bad, in any order."""
    part = partial(_part, seed_text=seed_text, runs=QUICK_RUNS if quick else RUNS)
    units = taken = 0
    with forked_pool() as pool:
        walked = pool.imap_unordered(part, range(PARTS))
        for made, kept, wrong in follow(console, "records, parts of the walk", PARTS, walked):
            if wrong:
                console.print(wrong, style="red", highlight=False, markup=False)
                return False
            units, taken = units + made, taken + kept
    console.print(f"{units:,} units, {taken:,} taken, each run read back and snapshotted", highlight=False)
    return taken > 0
