"""A run: one node, or two with a wire between them; steps that befall them, and at the end quiet.

After each step what must always hold is looked at, at each end of a boot what it has written, and at the quiet end
everything. The same seed comes to the same steps, and to the same bytes on the disks.
"""

from __future__ import annotations

import hashlib
import logging
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from random import Random

from tests.simulation.checks import (
    at_any_moment,
    of_the_record,
    of_what_came,
    replay_is_live,
    snapshot_is_whole,
)
from tests.simulation.ledger import JOURNAL
from tests.simulation.life import Life
from tests.simulation.setting import TOOLS, few_at_once
from tests.simulation.virtual_loop import Crash, Idle
from tests.simulation.wire import NAMES, Wire
from tests.simulation.world import Broken, World

STEPS = 100
QUIET_S = 1_500.0
LOOK_S = 15.0
SNAPSHOT_EVERY = 8  # moments


@dataclass(frozen=True)
class Result:
    """How a run went. ``fault``: what must never be, empty when all held; ``digest``: SHA-256 of the journals."""

    seed: str
    steps: list[str]
    fault: str
    digest: str
    entries: int
    kinds: dict[str, int] = field(default_factory=dict)
    nodes: int = 1


class Run:
    """The ``lives`` of its nodes, and the time they share."""

    def __init__(self, seed: str, nodes: int) -> None:
        self.steps: list[str] = []
        self._choose = Random(f"{seed} run")
        self._moments = 0
        self._wire = Wire(Random(f"{seed} wire"), frozenset(TOOLS)) if nodes > 1 else None
        names = NAMES if self._wire is not None else ("",)
        self.lives = [Life(seed, self.steps, name, self._wire) for name in names]
        if self._wire is not None:
            self._wire.link()
            one, two = self.lives
            one.other, two.other = two, one

    def steps_of(self, count: int) -> None:
        """Do so many. Raises Broken."""
        while len(self.steps) < count:
            life = self._choose.choice(self.lives)
            try:
                life.befall(count - len(self.steps))
            except Crash:
                life.crashed()
            else:
                self._let(self._pause_s())
            self._moments += 1
            self._look()
        self._quiet()

    def _pause_s(self) -> float:
        """How long nothing else befalls it."""
        return 0.0 if self._choose.random() < 0.3 else 10 ** self._choose.uniform(-4, 0.9)

    def _let(self, delay_s: float) -> None:
        """Let everything happen that does so in that time, in its order; a node that crashes boots again."""
        until_s = max(life.node.now_s() for life in self.lives) + delay_s
        while _next_s(life := min(self.lives, key=_next_s)) <= until_s:
            try:
                life.node.loop.round_at(_next_s(life))
            except Crash:
                life.crashed()
        for life in self.lives:
            life.node.loop.wait_until(until_s)

    def _look(self) -> None:
        for life in self.lives:
            whole = snapshot_is_whole(life.node) if self._moments % SNAPSHOT_EVERY == 0 else []
            life.check([*at_any_moment(life.node), *whole])

    def _quiet(self) -> None:
        """Nothing befalls the nodes any more: everything comes to an end."""
        for life in self.lives:
            life.calm()
        until_s = self.lives[0].node.now_s() + QUIET_S
        restless = ["nothing was looked at yet"]
        while restless:
            if self.lives[0].node.now_s() > until_s:
                raise Broken(f"after {QUIET_S:g} s of quiet: {'; '.join(restless[:6])}")
            if self._wire is not None and not self._wire.is_up:
                self._wire.link()
            for life in self.lives:
                life.node.run(life.tend)
            self._let(LOOK_S)
            self._look()
            restless = [what for life in self.lives for what in life.unrest()]
        for life in self.lives:
            life.node.loop.do(life.node.ledger.barrier())
        for life in self.lives:
            node = life.node
            life.check([*at_any_moment(node), *replay_is_live(node), *snapshot_is_whole(node)])
            life.check(of_the_record(node, life.world))
            if life.other is not None:
                life.check(of_what_came(life.other.node, node))

    def kinds(self) -> Counter[str]:
        """How many entries of each kind there are."""
        return Counter(entry.kind for life in self.lives for entry, _ in life.node.ledger.kept.entries)

    def digest(self) -> str:
        """Of all bytes that are on the disks."""
        digest = hashlib.sha256()
        for life in self.lives:
            disk = life.node.disk
            for name in disk.names(JOURNAL):
                digest.update(disk.read(JOURNAL / name))
        return digest.hexdigest()


class Heard(logging.Handler):
    """Whatever the kernel calls an error in its log is one."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        self._world.broken(f"the node logs: {record.getMessage()}")


@contextmanager
def heard(world: World) -> Iterator[None]:
    log, handler = logging.getLogger("kernel"), Heard(world)
    log.addHandler(handler)
    propagate, log.propagate = log.propagate, False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate


def simulate(seed: str, steps: int = STEPS, nodes: int = 1) -> Result:
    """The run of ``seed``, ``steps`` long, of so many nodes."""
    fault, scarce = "", Random(f"{seed} few").random() < 0.5
    with few_at_once() if scarce else nullcontext():
        run = Run(seed, nodes)
        with heard(run.lives[0].world):
            try:
                run.steps_of(steps)
            except (Broken, Idle) as error:
                fault = str(error)
            except (
                Exception
            ) as error:  # a fault of the kernel, or of the simulation: the seed shows it either way
                fault = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
            finally:
                for life in run.lives:
                    life.node.loop.abandon()
    kinds = run.kinds()
    return Result(seed, run.steps, fault, run.digest(), kinds.total(), kinds, nodes)


def shortest(failed: Result) -> Result:
    """The run of the same seed that fails with the fewest steps."""
    for steps in range(1, len(failed.steps)):
        shorter = simulate(failed.seed, steps, failed.nodes)
        if shorter.fault:
            return shorter
    return failed


def _next_s(life: Life) -> float:
    return life.node.loop.next_s()
