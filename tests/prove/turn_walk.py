"""The turn walk: one message whose turn does everything, killed or refused by the disk at each call that writes.

The real kernel over a real ledger, with twins for cells, workers and gateway (:mod:`tests.kernel.errand`), in a process
of its own. It is killed with SIGKILL before its n-th writing call, or in the middle of it when it is a write; booted
again, and often killed again; or the disk fails for a while from there on. In the end the world outside and the ledger
must agree: each effect once, the message answered once, each record once.

    python -m tests.prove.turn_walk [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import errno
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from rich.console import Console

from chain.errors import LedgerUnavailable
from tests.kernel.disks import StumblingDisk
from tests.kernel.errand import Outside, errand, faults
from tests.prove.progress import Steps

PARALLEL = 2
QUICK_STEP = 12
BATCH = 4
LIMIT = 2_000
LEAST = 100  # so many calls write in each run
SHOWN = 20
AGAIN = 60  # calls within which a second kill comes
CODES = (errno.ENOSPC, errno.EIO)
Stumble = Callable[[int, Callable[[], None]], None]


def killing(at: int, midway: bool) -> Stumble:
    """Killed at call ``at``."""

    def stumble(number: int, half: Callable[[], None]) -> None:
        if number == at:
            if midway:
                half()
            os.kill(os.getpid(), signal.SIGKILL)

    return stumble


def failing(at: int, midway: bool, calls: int, code: int) -> Stumble:
    """``calls`` calls fail from ``at`` on; effects outside are none of the disk's."""

    def stumble(number: int, half: Callable[[], None]) -> None:
        if at <= number < at + calls:
            if midway:
                half()
            raise OSError(code, os.strerror(code))

    return stumble


def boot(outside: Outside, stumble: Stumble, *, effects: bool) -> tuple[str, int]:
    """One boot in a process of its own: how it ended (killed, done, or what failed), and its calls that write."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        said, disk = "", StumblingDisk(stumble)
        try:
            asyncio.run(errand(Outside(outside.root, disk.step if effects else lambda kind: None), disk))
            said = f"done {disk.calls}"
        except (OSError, LedgerUnavailable):
            frames = {frame.name for frame in traceback.extract_tb(sys.exc_info()[2])}
            refused = frames & {
                "open",
                "_finish",
            }  # the ledger cannot be opened, or closed in full, and says so
            said = f"refused {disk.calls}" if refused else f"failed 0 {traceback.format_exc()}"
        except BaseException:
            said = f"failed 0 {traceback.format_exc()}"
        finally:
            os.write(theirs, said.encode()[-60_000:])
            os._exit(0)
    os.close(theirs)
    with open(ours, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "killed", 0
    how, calls, *why = said.split(" ", 2)
    return (" ".join([how, *why]), int(calls))


def look_killed(at: int, midway: bool, again: int) -> tuple[list[str], bool]:
    """Killed at ``at``, in the next boot at ``again``, then left alone: what is wrong, and whether the first came."""
    with tempfile.TemporaryDirectory(prefix="wt-", dir="/tmp") as directory:
        outside = Outside(Path(directory))
        hows = [boot(outside, killing(n, midway), effects=True)[0] for n in (at, again, -1)]
        where = f"killed {'within' if midway else 'before'} {at} and {again}"
        found = [f"{where}: {how}" for how in hows if how not in ("killed", "done")]
        return found or [f"{where}: {fault}" for fault in faults(outside)], hows[0] == "killed"


def look_failing(at: int, midway: bool, calls: int, code: int) -> tuple[list[str], bool]:
    """``calls`` calls fail from ``at`` on. A node that cannot boot has said so, and boots when there is room."""
    with tempfile.TemporaryDirectory(prefix="wt-", dir="/tmp") as directory:
        outside = Outside(Path(directory))
        how, made = boot(outside, failing(at, midway, calls, code), effects=False)
        where = f"{calls} calls from {at} fail ({errno.errorcode[code]}{', half done' if midway else ''})"
        if how == "refused":
            how, _ = boot(outside, killing(-1, False), effects=False)
        found = [f"{where}: {how}"] if how != "done" else [f"{where}: {fault}" for fault in faults(outside)]
        return found, made > at


def _calls(job: tuple[str, range]) -> tuple[int, list[str], bool]:
    """The writing calls of a range: how many runs, what was found, and whether the work ended before them."""
    seed, ats = job
    runs, found, ended = 0, [], False
    for at in ats:
        dice = random.Random(f"{seed} {at}")
        done = [look_killed(at, midway, dice.randrange(AGAIN)) for midway in (False, True)]
        done.append(look_failing(at, dice.random() < 0.5, dice.choice((1, 2, 5, 12)), dice.choice(CODES)))
        runs += len(done)
        found += [fault for faults_, _ in done for fault in faults_]
        ended = ended or not any(reached for _, reached in done)
    return runs, found, ended


def _walk(console: Console, seed: str, first: int, step: int) -> Iterator[tuple[int, list[str], bool]]:
    with (
        Steps(console, "turn walk, writing calls", None) as bar,
        multiprocessing.get_context("fork").Pool(PARALLEL) as pool,
    ):
        for at in count(first, BATCH * PARALLEL * step):
            starts = [at + n * BATCH * step for n in range(PARALLEL)]
            done = pool.map(_calls, [(seed, range(a, a + BATCH * step, step)) for a in starts], chunksize=1)
            yield from done
            bar.reach((at - first) // step + BATCH * PARALLEL)
            if at > LIMIT or all(ended for _, _, ended in done):
                return


def prove_turns(console: Console, seed: str, quick: bool) -> bool:
    """The walk, whole or every twelfth call of it; prints what it found."""
    started = time.monotonic()
    step = QUICK_STEP if quick else 1
    done = list(_walk(console, seed, random.Random(seed).randrange(step), step))
    runs, found = sum(part[0] for part in done), [fault for part in done for fault in part[1]]
    console.print(f"  turn walk: {runs} runs, each stumbling at another call, {time.monotonic() - started:.0f} s",
                  highlight=False)  # fmt: skip
    for fault in found[:SHOWN]:
        console.print(f"       {fault}", style="red", highlight=False, markup=False)
    console.print(f"{'FAIL' if found else ' ok '} each effect, answer, child and document is there once",
                  style="red" if found else "green", highlight=False)  # fmt: skip
    return not found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help=f"each {QUICK_STEP}th call")
    parser.add_argument("--seed", default="weftos")
    options = parser.parse_args()
    return 0 if prove_turns(Console(), options.seed, options.quick) else 1


if __name__ == "__main__":
    sys.exit(main())
