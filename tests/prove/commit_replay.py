"""At length: whatever commit takes, a replay and the snapshot's reader take (``tests/kernel/committed.py``)."""

from __future__ import annotations

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from rich.console import Console

from chain.draft import Draft, StateChange
from tests.kernel.committed import UNITS, check_run
from tests.prove.progress import Steps

RUNS, QUICK_RUNS = 3_400, 100
_LONG = st.lists(UNITS, min_size=20, max_size=40)


def prove_commit_replay(console: Console, seed_text: str, quick: bool) -> bool:
    """A hundred thousand units of records, good and bad, in any order."""
    units = taken = 0

    @seed(int(seed_text, 16))
    @settings(
        deadline=None,
        max_examples=QUICK_RUNS if quick else RUNS,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(_LONG)
    def walk(run: list[list[Draft | StateChange]]) -> None:
        nonlocal units, taken
        taken += check_run(run)
        units += len(run)
        steps.reach(units)

    try:
        with Steps(console, "units of records", None) as steps:
            walk()
    except Exception:
        console.print_exception()
        return False
    console.print(f"{units:,} units, {taken:,} taken, each run read back and snapshotted", highlight=False)
    return taken > 0
