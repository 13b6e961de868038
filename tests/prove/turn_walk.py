"""The turn walk: one message whose turn does everything, killed or refused by the disk at each call that writes.

The real kernel over a real ledger, with twins for cells, workers and gateway (:mod:`tests.kernel.twins.errand`), in a
process of its own. It is killed with SIGKILL before its n-th writing call, or in the middle of it when it is a write;
booted again, and often killed again; or the disk fails for a while from there on. In the end the world outside and the
ledger must agree: each effect once, the message answered once, each record once.

    python -m tests.prove.turn_walk [--quick]
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from chain.errors import LedgerUnavailable
from tests.kernel.twins.disks import StumblingDisk
from tests.kernel.twins.errand import Outside, errand, faults
from tests.prove.walks import Looked, run_alone, say_found, walk_calls

LEAST = 100  # so many calls write in each run
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


def _look(seed: str, at: int) -> Looked:
    """Killed before the call and within it, and refused there."""
    dice = random.Random(f"{seed} {at}")
    done = [look_killed(at, midway, dice.randrange(AGAIN)) for midway in (False, True)]
    done.append(look_failing(at, dice.random() < 0.5, dice.choice((1, 2, 5, 12)), dice.choice(CODES)))
    return Looked(len(done), [fault for found, _ in done for fault in found], any(came for _, came in done))


def prove_turns(console: Console, seed: str, quick: bool) -> bool:
    """The walk, whole or every twelfth call of it; prints what it found."""
    started = time.monotonic()
    runs, found = walk_calls(console, "turn walk, writing calls", _look, seed, quick)
    console.print(f"  turn walk: {runs} runs, each stumbling at another call, {time.monotonic() - started:.0f} s",
                  highlight=False)  # fmt: skip
    return say_found(console, found, "each effect, answer, child and document is there once")


if __name__ == "__main__":
    sys.exit(run_alone(prove_turns, __doc__, "each twelfth call"))
