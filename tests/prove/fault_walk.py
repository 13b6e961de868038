"""The walk of faults: what may fail does, one after the other, in a life that does everything; and a real node works
while it is given no descriptors and no threads.

The life (:mod:`tests.prove.fault_life`) is lived once to see where the disk is asked for anything, a thread is wanted
or a task of the upkeep waits. Then once and again for each of these places: the operation fails, alone, with some looks
behind it, or with the nineteen operations that follow; no thread can be had; the task is cancelled there, and clearing
up finds no thread or no descriptor. So it goes from an empty directory, from what a clean stop left, and from what some
kills left. The real node is that of :mod:`tests.prove.squeeze`.

    python -m tests.prove.fault_walk [--quick] [--seed SEED]
"""

from __future__ import annotations

import errno
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tests.kernel.twins.errand import Outside
from tests.prove.fault_life import Told, begin, boot, faults
from tests.prove.fault_points import KILL, WITHOUT_DESCRIPTOR, Fault, Place
from tests.prove.progress import follow
from tests.prove.squeeze import squeeze
from tests.prove.walks import QUICK_STEP, forked_pool, run_alone, say_found

AWHILE = 20
MOST_TIMES = 5  # of those at one place
KILLED_AT = ("rename key_change.adopt_keys", "remove recovery.remove_segments < upkeep._drop_before",
             "sync erasure._rewrite < erasure.erase_bodies < publisher.alone")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Start:
    """What a life goes on from: the directory ``root``, and how often each place is met from there."""

    name: str
    root: Path
    counts: Counter[Place]


@dataclass(frozen=True, slots=True)
class Looked:
    """What became of one fault."""

    fault: Fault
    came: bool
    refused: bool
    found: list[str]


def look(start: Start, fault: Fault) -> Looked:
    """Live from ``start`` on with ``fault``, and then without."""
    with tempfile.TemporaryDirectory(prefix="wf-", dir="/tmp") as directory:
        root = Path(directory) / "life"
        shutil.copytree(start.root, root)
        outside = Outside(root)
        first = boot(outside, fault)
        found = [] if first.how in ("done", "refused") else [first.why]
        if not found:
            again = boot(outside)
            found = [f"the next boot: {again.why}"] if again.how != "done" else list(faults(outside))
        where = f"{start.name}: {fault}"
        return Looked(fault, first.came, first.how == "refused", [f"{where}: {one}" for one in found])


def starts(directory: Path) -> list[Start]:
    """From nothing, from a clean stop, and from some kills. Raises RuntimeError when a life fails of itself."""
    nothing = directory / "nothing"
    nothing.mkdir()
    begin(Outside(nothing))
    stopped = _copy(nothing, "stopped")
    lived = _lived(stopped)
    found = [Start("from nothing", nothing, lived.counts)]
    again = _lived(_copy(stopped, "again"))
    found.append(Start("after a stop", stopped, again.counts))
    known = {*lived.counts, *again.counts}
    for number, name in enumerate(KILLED_AT):
        killed = _copy(nothing, f"killed{number}")
        boot(
            Outside(killed),
            Fault(_named(lived.counts, name), lived.counts[_named(lived.counts, name)] - 1, KILL),
        )
        told = _lived(_copy(killed, f"again{number}"))
        counts = Counter({place: count for place, count in told.counts.items() if place not in known})
        known |= {*counts}
        found.append(Start(f"killed at {name}", killed, counts))
    return found


def _copy(root: Path, name: str) -> Path:
    return Path(shutil.copytree(root, root.with_name(name)))


def _lived(root: Path) -> Told:
    told = boot(Outside(root))
    if told.how != "done":
        raise RuntimeError(f"the life fails of itself: {told.why}")
    return told


def _named(counts: Iterable[Place], name: str) -> Place:
    return next(place for place in counts if f"{place.kind} {place.site}" == name)


def plan(start: Start, dice: random.Random, known: Container[Place] = ()) -> Iterator[Fault]:
    """Each place in some ways; one that is ``known``, from another start, in fewer."""
    for place, count in sorted(start.counts.items(), key=lambda item: (item[0].kind, item[0].site)):
        times = dice.sample(range(count), min(count, MOST_TIMES))
        match place.family:
            case "thread":
                yield from (
                    Fault(place, at, calls=calls) for at in times for calls in (1, dice.randint(2, 3))
                )
            case "await":
                yield Fault(place, times[0])
                yield Fault(place, times[-1], -1)
                yield Fault(place, times[-1], errno.EMFILE, looks=dice.randint(1, 2))
            case "disk":
                half, code = (
                    dice.random() < 0.5,
                    errno.EMFILE if place.kind in WITHOUT_DESCRIPTOR else errno.EIO,
                )
                if place not in known:
                    yield Fault(place, times[0], code, dice.choice((1, AWHILE)))
                for at in times if count >= MOST_TIMES else times[-1:]:
                    yield Fault(place, at, errno.EIO, looks=dice.randint(0, 2), half=half)


_STARTS: list[Start] = []  # inherited by the processes of the walk


def _look(at: tuple[int, Fault]) -> Looked:
    return look(_STARTS[at[0]], at[1])


def walk(console: Console, seed: str, quick: bool) -> list[str]:
    """The walk over the life; what was found."""
    began = time.monotonic()
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="wf-", dir="/tmp") as directory:
        _STARTS[:] = starts(Path(directory))
        planned, known = [], set[Place]()
        for number, start in enumerate(_STARTS):
            planned += [(number, fault) for fault in plan(start, dice, known)]
            known |= {*start.counts}
        if quick:
            planned = planned[dice.randrange(QUICK_STEP) :: QUICK_STEP]
        dice.shuffle(planned)
        with forked_pool() as pool:
            looks = pool.imap_unordered(_look, planned)
            done = list(follow(console, "walk of faults, lives", len(planned), looks))
    families = Counter(looked.fault.place.family for looked in done)
    places, came = sum(len(start.counts) for start in _STARTS), sum(looked.came for looked in done)
    refused = sum(looked.refused for looked in done)
    console.print(
        f"  walk of faults: {places} places; {families['disk']} lives with a fault of the disk, {families['thread']} "
        f"without a thread, {families['await']} cancelled; {came} met it, {refused} boots or stops ended with it; "
        f"{time.monotonic() - began:.0f} s",
        highlight=False,
    )
    return [fault for looked in done for fault in looked.found]


def prove_faults(console: Console, seed: str, quick: bool) -> bool:
    """The walk, whole or every twelfth place of it; prints what it found."""
    found = walk(console, seed, quick)
    held = say_found(
        console, found, "after each fault the node is well, or said why; nothing is lost or doubled"
    )
    return squeeze(console, seed, quick) and held


if __name__ == "__main__":
    sys.exit(run_alone(prove_faults, __doc__, "each twelfth fault"))
