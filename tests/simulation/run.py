"""A run: one node, or two with a wire between them; steps that befall them, and at the end quiet.

After each step what must always hold is looked at, at each end of a boot what it has written, and at the quiet end
everything. The same seed comes to the same steps, and to the same bytes on the disks. A run is a row of numbered
decisions, each drawn by itself: which node, what befalls it, together with what, and how long nothing else does. So
some can be left out and the others stay what they were, as far as the state still allows them.
"""

from __future__ import annotations

import hashlib
import logging
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from random import Random

from tests.simulation.checks import (
    of_the_record,
    of_the_tree,
    of_what_came,
    of_who_runs,
    replay_is_live,
    snapshot_is_whole,
)
from tests.simulation.entropy import no_hidden_entropy
from tests.simulation.ledger import JOURNAL
from tests.simulation.life import Life
from tests.simulation.rare import of_entries
from tests.simulation.setting import TOOLS, few_at_once
from tests.simulation.virtual_loop import Crash, Idle
from tests.simulation.wire import NAMES, Wire
from tests.simulation.world import Broken, World

STEPS = 100
EARLY = 6  # decisions for each node
JOINS, TOGETHER = 0.4, 3
SHRINKING_RUNS = 300
QUIET_S = 1_500.0
LOOK_S = 15.0
SNAPSHOT_EVERY = 8  # moments


@dataclass(frozen=True)
class Result:
    """How a run went. ``fault``: what must never be, empty when all held; ``digest``: SHA-256 of the journals and of
    the steps; ``seen``: how often each rare state was reached; ``checks``: how often each group of invariants was
    looked at; ``quiet_s``: how long after the last decision everything had come to an end; ``decisions``: those that
    were made.
    """

    seed: str
    steps: list[str]
    fault: str
    digest: str
    entries: int
    kinds: dict[str, int] = field(default_factory=dict)
    nodes: int = 1
    seen: dict[str, int] = field(default_factory=dict)
    checks: dict[str, int] = field(default_factory=dict)
    quiet_s: float = 0.0
    decisions: tuple[int, ...] = ()


class Run:
    """The ``lives`` of its nodes, and the time they share."""

    def __init__(self, seed: str, nodes: int) -> None:
        self.steps: list[str] = []
        self.checks: Counter[str] = Counter()
        self.decided: list[int] = []
        self.quiet_s = 0.0
        self._seed, self._choose, self._on_the_wire = seed, Random(), Random(f"{seed} wire")
        self._moments = 0
        self._wire = Wire(self._on_the_wire, frozenset(TOOLS)) if nodes > 1 else None
        names = NAMES if self._wire is not None else ("",)
        self.lives = [Life(seed, self.steps, EARLY * nodes, name, self._wire) for name in names]
        if self._wire is not None:
            self._wire.link()
            one, two = self.lives
            one.other, two.other = two, one

    def make(self, decisions: Sequence[int]) -> None:
        """Make these, and then be quiet. Raises Broken."""
        for together in moments(self._seed, decisions):
            self._decide(together[0])
            self.decided += together
            life = self._choose.choice(self.lives)
            try:
                life.befall(together)
            except Crash:
                life.crashed()
            else:
                self._let(self._pause_s())
            self._moments += 1
            self._look()
        self._decide("quiet")
        self._quiet()

    def _decide(self, number: object) -> None:
        self._choose.seed(f"{self._seed} run {number}")
        self._on_the_wire.seed(f"{self._seed} wire {number}")
        for life in self.lives:
            life.decide(number)

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
            life.look()
            self.checks["after each step"] += 1
            if self._moments % SNAPSHOT_EVERY == 0:
                life.check(snapshot_is_whole(life.node))
                self.checks["a snapshot is whole"] += 1

    def _quiet(self) -> None:
        """Nothing befalls the nodes any more: everything comes to an end."""
        for life in self.lives:
            life.calm()
        began_s = self.lives[0].node.now_s()
        until_s = began_s + QUIET_S
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
        self.quiet_s = self.lives[0].node.now_s() - began_s
        for life in self.lives:
            life.node.loop.do(life.node.ledger.barrier())
        for life in self.lives:
            node = life.node
            life.look()
            life.check([*replay_is_live(node), *snapshot_is_whole(node)])
            life.check([*of_the_tree(node), *of_who_runs(node, life.witness.running)])
            life.check(of_the_record(node, life.world))
            self.checks["at the quiet end"] += 1
            if life.other is not None:
                life.check(of_what_came(life.other.node, node))

    def kinds(self) -> Counter[str]:
        """How many entries of each kind there are."""
        return Counter(entry.kind for life in self.lives for entry, _ in life.node.ledger.kept.entries)

    def seen(self) -> Counter[str]:
        """How often each rare state was reached."""
        seen: Counter[str] = Counter()
        for life in self.lives:
            seen += life.world.seen + of_entries(life.node.ledger.kept.entries)
            seen["gave-up"] += life.witness.gave_up
        return seen + Counter({"wire-lost": self._wire.lost if self._wire is not None else 0})

    def checked(self) -> dict[str, int]:
        """How often each group of invariants was looked at."""
        made: Counter[str] = Counter()
        for life in self.lives:
            made += Counter(
                {"before each commit": life.world.looks, "of each entry, once": life.witness.checks,
                 "at each end of a boot": life.world.boot}
            )  # fmt: skip
        return dict(self.checks + made)

    def digest(self) -> str:
        """Of all bytes that are on the disks, and of all steps."""
        digest = hashlib.sha256("\n".join(self.steps).encode())
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


def simulate(seed: str, steps: int = STEPS, nodes: int = 1, only: Sequence[int] | None = None) -> Result:
    """The run of ``seed``, of so many nodes and decisions, or of ``only`` those."""
    fault, scarce = "", Random(f"{seed} few").random() < 0.5
    with few_at_once() if scarce else nullcontext():
        run = Run(seed, nodes)
        with heard(run.lives[0].world), no_hidden_entropy(run.lives[0].world.broken):
            try:
                run.make(range(steps) if only is None else only)
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
    return Result(
        seed, run.steps, fault, run.digest(), kinds.total(), kinds, nodes,
        run.seen(), run.checked(), run.quiet_s, tuple(run.decided),
    )  # fmt: skip


def moments(seed: str, decisions: Sequence[int]) -> list[list[int]]:
    """Those of them that befall a node together: which do follows from their numbers."""
    found: list[list[int]] = []
    for number in decisions:
        joins = Random(f"{seed} joins {number}").random() < JOINS
        if found and joins and len(found[-1]) < TOGETHER:
            found[-1].append(number)
        else:
            found.append([number])
    return found


def shortest(failed: Result, runs: int = SHRINKING_RUNS) -> Result:
    """The run of the same seed that fails with the fewest decisions that were found in so many runs: pieces are left
    out, smaller and smaller ones, for as long as what is left fails.
    """
    size = max(1, len(failed.decisions) // 2)
    while runs > 0:
        at, before = 0, failed
        while at < len(failed.decisions) and runs > 0:
            runs -= 1
            without = (*failed.decisions[:at], *failed.decisions[at + size :])
            shorter = simulate(failed.seed, nodes=failed.nodes, only=without)
            if shorter.fault:
                failed = shorter
            else:
                at += size
        if size == 1 and failed is before:
            break
        size = max(1, size // 2)
    return failed


def _next_s(life: Life) -> float:
    return life.node.loop.next_s()
