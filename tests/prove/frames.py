"""A hundred thousand frames from a hostile cell, as many from a hostile peer: no traceback, no hang, bounded memory."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from tests.prove.fuzz_cell import fuzz_cells
from tests.prove.fuzz_peer import fuzz_peer
from tests.prove.fuzz_watch import MEMORY_MIB, Fuzzed
from tests.prove.progress import Steps

FRAMES, QUICK_FRAMES = 100_000, 5_000
_SHOWN_FAULTS = 5
Fuzz = Callable[[Path, int, str, Callable[[int], None]], Coroutine[Any, Any, Fuzzed]]
KINDS: dict[str, Fuzz] = {"a cell": fuzz_cells, "a peer": fuzz_peer}


def prove_frames(console: Console, seed: str, quick: bool) -> bool:
    """Both kinds, each in a node of its own. Whether all held."""
    frames = QUICK_FRAMES if quick else FRAMES
    table = Table(
        "frames from", "frames", "links", "tracebacks", "grown", "longest stall", box=box.SIMPLE_HEAD
    )
    held = True
    for name, fuzz in KINDS.items():
        with tempfile.TemporaryDirectory(prefix="wf") as place, Steps(console, name, frames) as steps:
            done = asyncio.run(fuzz(Path(place), frames, seed, steps.reach))
        held &= done.held
        grown = f"{done.grown_mib:.0f} of {MEMORY_MIB} MiB"
        stall = f"{done.longest_ms:.0f} ms"
        table.add_row(name, f"{done.frames:,}", f"{done.links:,}", str(len(done.faults)), grown, stall)
        for fault in list(dict.fromkeys(done.faults))[:_SHOWN_FAULTS]:
            console.print(fault, style="red", markup=False, highlight=False)
    console.print(table)
    return held
