"""What the long walks have in common: a process for each of two cores, the way over a work's calls that write, what is
said at the end, and the command line of a walk as a program of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.pool import Pool

from rich.console import Console

from tests.prove.progress import Steps

PARALLEL = 2
SHOWN = 8
QUICK_STEP = 12
BATCH = 4  # calls handed to a process at once
LIMIT = 5_000
_FORK = multiprocessing.get_context("fork")


def forked_pool() -> Pool:
    """Processes that have what this one has made so far."""
    return _FORK.Pool(PARALLEL)


def forked(target: Callable[..., None], *arguments: object) -> Connection:
    """Call ``target`` in a process of its own, with a pipe before ``arguments``; the end of it that hears what is sent
    there, and at the process's end, whatever that is, the end of it all.
    """
    ours, theirs = _FORK.Pipe(duplex=False)
    _FORK.Process(target=target, args=(theirs, *arguments), daemon=True).start()
    theirs.close()
    return ours


@dataclass(frozen=True, slots=True)
class Looked:
    """``runs`` of a work, what is wrong with what they left, and whether any of them ``came`` as far as it should."""

    runs: int
    found: list[str]
    came: bool


Look = Callable[[str, int], Looked]
"""What comes of the call that writes whose number is given, for a seed."""


def walk_calls(console: Console, what: str, look: Look, seed: str, quick: bool) -> tuple[int, list[str]]:
    """Look at each call that writes, or at every twelfth, until the work ends before it: runs, and what was found."""
    step = QUICK_STEP if quick else 1
    stretch = BATCH * step
    first = at = random.Random(seed).randrange(step)
    runs, found = 0, []
    with Steps(console, what, None) as bar, forked_pool() as pool:
        while True:
            starts = [at + n * stretch for n in range(PARALLEL)]
            stretches = [range(start, start + stretch, step) for start in starts]
            done = pool.map(partial(_stretch, look, seed), stretches, chunksize=1)
            runs += sum(looked.runs for looked in done)
            found += [fault for looked in done for fault in looked.found]
            at += PARALLEL * stretch
            bar.reach((at - first) // step)
            if at > LIMIT or not any(looked.came for looked in done):
                return runs, found


def _stretch(look: Look, seed: str, ats: range) -> Looked:
    """Of a stretch of calls; it came when the work came to the last of them."""
    done = [look(seed, at) for at in ats]
    found = [fault for looked in done for fault in looked.found]
    return Looked(sum(looked.runs for looked in done), found, all(looked.came for looked in done))


def say_found(console: Console, found: Sequence[str], holds: str) -> bool:
    """Print some of what was found, and whether ``holds`` does."""
    for fault in found[:SHOWN]:
        console.print(f"       {fault[:300]}", style="red", highlight=False, markup=False)
    console.print(
        f"{'FAIL' if found else ' ok '} {holds}", style="red" if found else "green", highlight=False
    )
    return not found


def run_alone(prove: Callable[[Console, str, bool], bool], about: str | None, quick: str) -> int:
    """A walk as a program; ``quick`` says what its short form is. The exit status."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--seed", default="weftos", help="repeat the random choices of a run")
    options = parser.parse_args()
    return 0 if prove(Console(), options.seed, options.quick) else 1
