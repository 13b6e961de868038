"""A hundred thousand frames from a hostile cell, as many from a hostile peer: no traceback, no hang, bounded memory."""

from __future__ import annotations

import asyncio
import tempfile
import traceback
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from tests.prove.fuzz_cell import fuzz_cells
from tests.prove.fuzz_peer import fuzz_peer
from tests.prove.fuzz_watch import MEMORY_MIB, Fuzzed
from tests.prove.progress import Steps
from tests.prove.walks import forked

FRAMES, QUICK_FRAMES = 100_000, 5_000
_SHOWN_FAULTS = 5
Fuzz = Callable[[Path, int, str, Callable[[int], None]], Coroutine[Any, Any, Fuzzed]]
KINDS: dict[str, Fuzz] = {"a cell": fuzz_cells, "a peer": fuzz_peer}


def _in_processes(console: Console, frames: int, seed: str) -> dict[str, Fuzzed]:
    """How each kind went, in a process for each. One that broke off has said why, and is not among them."""
    told = {forked(_fuzz, name, frames, seed): name for name in KINDS}
    heard = dict.fromkeys(KINDS, 0)
    done: dict[str, Fuzzed] = {}
    with Steps(console, "frames", frames * len(KINDS)) as steps:
        while told:
            for pipe in wait(list(told)):
                assert isinstance(pipe, Connection)
                try:
                    word: int | str | Fuzzed = pipe.recv()
                except EOFError:
                    del told[pipe]
                    continue
                if isinstance(word, Fuzzed):
                    done[told[pipe]] = word
                elif isinstance(word, str):
                    console.print(f"{told[pipe]}: {word}", style="red", markup=False, highlight=False)
                else:
                    heard[told[pipe]] = word
                    steps.reach(sum(heard.values()))
    return dict(sorted(done.items()))


def _fuzz(pipe: Connection, name: str, frames: int, seed: str) -> None:
    """Tells how many frames have been heard, now and then, and at the end how it went."""
    with tempfile.TemporaryDirectory(prefix="wf") as place:
        try:
            pipe.send(asyncio.run(KINDS[name](Path(place), frames, seed, pipe.send)))
        except Exception:
            pipe.send(traceback.format_exc())


def prove_frames(console: Console, seed: str, quick: bool) -> bool:
    """Both kinds, each in a node of its own. Whether all held."""
    frames = QUICK_FRAMES if quick else FRAMES
    table = Table(
        "frames from", "frames", "links", "tracebacks", "grown", "longest stall", box=box.SIMPLE_HEAD
    )
    every = _in_processes(console, frames, seed)
    held = len(every) == len(KINDS)
    for name, done in every.items():
        held &= done.held
        grown = f"{done.grown_mib:.0f} of {MEMORY_MIB} MiB"
        stall = f"{done.longest_ms:.0f} ms"
        table.add_row(name, f"{done.frames:,}", f"{done.links:,}", str(len(done.faults)), grown, stall)
        for fault in list(dict.fromkeys(done.faults))[:_SHOWN_FAULTS]:
            console.print(fault, style="red", markup=False, highlight=False)
    console.print(table)
    return held
