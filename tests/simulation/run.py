"""A run: steps drawn from a seed, each of them something that befalls the node, and at the end quiet.

After each step what must always hold is looked at, at each end of a boot what it has written, and at the quiet end
everything. The same seed comes to the same steps, and to the same bytes on the disk.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from chain.errors import ChainError, LedgerUnavailable
from kernel.errors import KernelError, SupervisionError
from kernel.message.messaging import OPERATOR, Outgoing
from kernel.model.spec import ProcessSpec
from tests.chain.twins.memory_disk import MemoryDisk
from tests.kernel.twins.kernel_twin import accept
from tests.simulation.checks import Record, at_any_moment, of_the_record, of_the_state, replay_is_live, unrest
from tests.simulation.ledger import JOURNAL, Fuse, Weather
from tests.simulation.node import TOOLS, Node
from tests.simulation.plans import Plans
from tests.simulation.virtual_loop import Crash, Idle
from tests.simulation.world import Broken, Sent, World

STEPS = 100
NAMES = ("a", "b", "c", "d")
START_S = 1_000.0
QUIET_S = 1_500.0
LOOK_S = 15.0
MOST_BOOTS = 8


@dataclass(frozen=True)
class Result:
    """How a run went. ``fault``: what must never be, empty when all held; ``digest``: SHA-256 of the journal."""

    seed: str
    steps: list[str]
    fault: str
    digest: str
    entries: int
    kinds: dict[str, int] = field(default_factory=dict)


class Run:
    """One run. Its steps are the methods that begin with ``step_``."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self._choose = Random(f"{seed} steps")
        self.world = World(Random(f"{seed} world"))
        self._kernel_chance = Random(f"{seed} kernel")
        self._weather = Weather(Random(f"{seed} disk"))
        self._plans = Plans(self._choose)
        self._sends = 0
        self._last = self._gone = ""  # the address that something befell last, and that was removed last
        self._down = self._forgets = False
        self.steps: list[str] = []
        self.node = self._boot(MemoryDisk(), START_S)

    def _boot(self, disk: MemoryDisk, now_s: float) -> Node:
        while True:
            try:
                restored = self._choose.random() < 0.5
                return Node(
                    disk, self.world, self._weather, self._kernel_chance, now_s, restored=restored, looks=of_the_state
                )  # fmt: skip
            except LedgerUnavailable:  # it does not start on a disk that refuses
                now_s = max(now_s, self._weather.refuses_until_s)

    # -- steps -----------------------------------------------------------------------------------------------------

    def steps_of(self, count: int) -> None:
        """Do so many. Raises Broken."""
        while len(self.steps) < count:
            self._moment(count)
            self._check(at_any_moment(self.node))
        self._quiet()

    def _moment(self, count: int) -> None:
        """A few steps at the same time, each in its own round of the loop or all in one; then a while of nothing."""
        try:
            self.node.loop.do(self._together(min(self._choose.choice((1, 1, 2, 3)), count - len(self.steps))))
            if self._down:
                self._after_down()
            self.node.loop.let(self._pause_s())
        except Crash:
            self.steps[-1] += "; the node crashed"
            self._after_crash()

    async def _together(self, count: int) -> None:
        while count > 0:
            count -= 1
            weights = self._weights()
            name = self._choose.choices(list(weights), list(weights.values()))[0]
            self.steps.append(f"{self.node.now_s():10.4f} s  {name} ")
            if name == "down":
                await self._stop_node()
                return
            self.steps[-1] += self._tried(getattr(self, f"step_{name}"))
            if TAKEN_BACK in self.steps[-1]:
                count = max(count, 1)
            elif self._choose.random() < 0.5:
                await asyncio.sleep(0)

    def _weights(self) -> dict[str, int]:
        """How likely each step is now: what comes together seldom, and has gone wrong together, is sought."""
        if len(self.steps) < 6:
            return EARLY
        weights = dict(STEP_WEIGHTS)
        if "  kill " in self.steps[-1]:
            weights["down"] = 100 if TAKEN_BACK in self.steps[-1] else 20
        if self._refuses():
            weights |= WHILE_IT_REFUSES
        elif self.node.state.doubts():
            weights["resolve"] = 40
        if self._restarting():
            weights["spawn"] = 60
        return weights

    def _refuses(self) -> bool:
        return self.node.ledger.refusal is not None or self.node.now_s() < self._weather.refuses_until_s

    def _restarting(self) -> list[str]:
        """The addresses that are up and have no process just now."""
        state, live = self.node.state, self.node.kernel.live
        return [
            address
            for address, slot in state.slots.items()
            if slot.state in ("running", "restarting") and live.at(address) is None
        ]

    def _pause_s(self) -> float:
        """How long nothing else befalls it."""
        return 0.0 if self._choose.random() < 0.3 else 10 ** self._choose.uniform(-4, 0.9)

    def _tried(self, step: Callable[[], str]) -> str:
        try:
            return step()
        except (KernelError, ChainError) as error:
            return f"refused: {error}"[:160]

    def _task(self, work: Any) -> None:
        """Something that takes its time; that it is refused is none of our business."""

        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._heard)

    def _heard(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        refused = isinstance(error, KernelError | ChainError | Crash) and not isinstance(
            error, SupervisionError
        )
        if error is not None and not refused:
            self.world.broken(f"{type(error).__name__}: {error}")

    def _address(self, *, worker: bool = False) -> str:
        """Often the one that something has befallen last."""
        slots = self.node.state.slots
        if (
            self._last in slots
            and self._choose.random() < 0.4
            and not (worker and slots[self._last].spec.type != "worker")
        ):
            return self._last
        found = [
            address for address, slot in slots.items()
            if address != "/user" and (not worker or slot.spec.type == "worker")
        ]  # fmt: skip
        self._last = self._choose.choice(found) if found else "/user/a"
        return self._last

    def step_spawn(self) -> str:
        choose = self._choose
        parent = "/user" if choose.random() < 0.6 else self._address()
        tools = TOOLS if choose.random() < 0.8 else TOOLS[:6]
        restarting = self._restarting()
        if restarting and choose.random() < 0.5:
            parent = choose.choice(restarting)
        above, _, name = self._gone.rpartition("/")
        if name in NAMES and choose.random() < 0.5:
            parent = above
        else:
            name = choose.choice(NAMES)
        spec = ProcessSpec(
            name,
            type="supervisor" if choose.random() < 0.2 else "worker",
            restart=choose.choice(("permanent", "permanent", "transient", "temporary")),
            tools=tools,
            intensity=(choose.choice((1, 3, 5)), 60.0),
        )
        if spec.type == "supervisor":
            spec = ProcessSpec(
                spec.name, "supervisor", restart=spec.restart, tools=(), intensity=spec.intensity
            )
        kernel = self.node.kernel
        draft = kernel.processes.admission.draft_spawn(spec, parent, 0, choose.randbytes(16), -1)
        kernel.recorder.commit([draft])
        kernel.processes.begin(draft.body["address"])
        return f"{draft.body['address']} ({spec.type}, {spec.restart})"

    def step_send(self) -> str:
        self._sends += 1
        to = self._address(worker=True)
        text = json.dumps(self._plans.plan(f"s{self._sends}", self.node.state))
        session = self._choose.choice(("main", "other"))
        deadline_us = self.node.ledger.now_us() + 3_000_000 if self._choose.random() < 0.1 else 0
        out = Outgoing(OPERATOR, to, text, session, self._choose.randbytes(16), -1, deadline_us=deadline_us)
        kernel, world, node = self.node.kernel, self.world, self.node
        mail, ticket = accept(kernel, out)
        sent = Sent(mail.id, text)
        end = kernel.watchers.wait(mail.id)

        def told(done: asyncio.Future[dict[str, Any]]) -> None:
            if not done.cancelled():
                world.told(sent, done.result(), Record(node.ledger).end_of(sent.id))

        end.add_done_callback(told)

        async def acknowledged() -> None:
            await ticket.durable()
            world.acknowledge(sent)

        self._task(acknowledged())
        return f"{mail.id} to {to}: {text[:100]}"

    def step_kill(self) -> str:
        turns = self.node.state.turns.values()
        held = [turn.address for turn in turns if self.node.workers.waiting({turn.id})]
        busy = held or [turn.address for turn in turns]
        address = self._choose.choice(busy) if busy and self._choose.random() < 0.5 else self._address()
        signal = self._choose.choice(("kill", "term"))
        kernel = self.node.kernel
        process = kernel.live.at(address)
        turn = self.node.state.turn_of(address)
        waiting = self.node.workers.waiting({turn.id}) if turn is not None and process is not None else []
        kernel.processes.kill(address, signal)
        if signal == "kill" and kernel.live.at(address) is not process:
            self.world.refused.update(waiting)
        taken_back = f"; {TAKEN_BACK}: {' '.join(waiting)}" if waiting and signal == "kill" else ""
        return f"{address} ({signal}){taken_back}"

    def step_ambush(self) -> str:
        """Whoever asks next is killed in the same round of the loop."""
        node = self.node

        def kill(address: str) -> None:
            with suppress(KernelError):
                node.kernel.processes.kill(address, "kill")

        node.cells.ambush = kill
        return ""

    def step_stop(self) -> str:
        address = self._address()
        self.node.kernel.processes.stop(address)
        return address

    def step_start(self) -> str:
        down = self._are_down()
        address = self._choose.choice(down) if down else self._address()
        self.node.kernel.processes.start(address)
        return address

    def step_remove(self) -> str:
        down = self._are_down()
        address = self._choose.choice(down) if down else self._address()
        processes = self.node.kernel.processes
        gone = processes.admission.removal(address, True)
        self._task(processes.remove(address, True))
        self._gone = address
        return f"{address} ({len(gone)})"

    def step_cancel(self) -> str:
        address = self._address(worker=True)
        process = self.node.kernel.live.at(address)
        if process is None or not self.node.kernel.turns.cut_short(
            process, "cancelled", "cancelled by an operator"
        ):
            return f"{address}: nothing to cancel"
        return address

    def step_replay(self) -> str:
        dead = list(self.node.state.dead)
        if not dead:
            return "nothing is dead"
        ident = self._choose.choice(dead)
        self._task(self.node.kernel.router.replay(ident, -1))
        return ident

    def step_resolve(self) -> str:
        doubts = self.node.state.doubts()
        if not doubts:
            return "nothing is in doubt"
        turns = self.node.state.turns
        doubt = self._choose.choice([one for one in doubts if one.turn in turns] or doubts)
        word = self._choose.choice(("done", "lost", "retry"))
        self._task(self._resolve(doubt.id, word))
        if self._choose.random() < 0.5:
            self._weather.refuses_until_s = self.node.now_s() + 0.5
            return f"{doubt.id} {word}, on a disk that refuses"
        return f"{doubt.id} {word}"

    async def _resolve(self, ident: str, word: str) -> None:
        node = self.node
        before = node.ledger.next_seq
        if word == "retry":  # it may act before whoever said it is told
            self.world.words[ident] = self.world.words.get(ident, 0) + 1
            self.world.refused.discard(ident)
        try:
            await node.kernel.tool_calls.resolve(ident, word, "operator:0")
        except (KernelError, ChainError):
            if word == "retry" and node.ledger.next_seq == before:
                self.world.words[ident] -= 1
            raise

    def step_crash_process(self) -> str:
        running = [one for one in self.node.cells.hosted.values() if one.running]
        if not running:
            return "none runs"
        one = self._choose.choice(running)
        if self._choose.random() < 0.2:
            self.node.cells.leave(one)
        else:
            self.node.cells.crash(one)
        self._last = one.placement.address
        return self._last

    def step_lose_cell(self) -> str:
        cells = sorted({one.cell for one in self.node.cells.hosted.values()})
        if not cells:
            return "there is none"
        cell = self._choose.choice(cells)
        self.node.cells.lose(cell)
        return cell

    def step_lose_worker(self) -> str:
        self.node.workers.lose("the worker died")
        return ""

    def step_gateway_down(self) -> str:
        self.node.gateway.down_until_s = self.node.now_s() + self._choose.uniform(0.1, 4.0)
        return ""

    def step_disk_refuses(self) -> str:
        for_s = self._choose.choice((0.05, 0.3, 1.0, 4.0))
        self._weather.refuses_until_s = self.node.now_s() + for_s
        return f"for {for_s:g} s"

    def step_disk_slow(self) -> str:
        self._weather.slow_until_s = self.node.now_s() + self._choose.uniform(0.5, 5.0)
        return ""

    def step_crash(self) -> str:
        """Now, or at a commit, before a group is written, or after it was and before anybody is told."""
        if self.world.boot >= MOST_BOOTS:
            return "enough of that"
        kind = self._choose.choice(("now", "commit", "before", "after"))
        if kind == "now":
            raise Crash
        count = self._choose.randrange(1, 8)
        self.node.ledger.fuse = Fuse(kind, count)
        return f"at the {count}. {kind}"

    async def _stop_node(self) -> None:
        """A clean stop, as far as the disk allows one; a new start follows."""
        if self.world.boot >= MOST_BOOTS:
            return
        node, stopped = self.node, True
        node.ledger.fuse = Fuse()
        refuses = self._refuses()
        await node.kernel.close()
        try:
            await node.ledger.close()
        except LedgerUnavailable:
            stopped = False
            self.steps[-1] += "on a disk that refuses"
        self._forgets = refuses or not stopped
        self._down = True

    def _after_down(self) -> None:
        self._down = False
        self._check(replay_is_live(self.node))
        self.world.died(Record(self.node.ledger).settled, forgets=self._forgets)
        self._next_boot(torn=0)

    def _after_crash(self) -> None:
        self._check(replay_is_live(self.node))
        self.world.died(Record(self.node.ledger).settled, forgets=True)
        self._next_boot(torn=self._choose.choice((0, 0, 10, 500, 10_000)))

    def _next_boot(self, torn: int) -> None:
        node = self.node
        node.loop.abandon()
        self.node = self._boot(node.disk.crash(torn), node.now_s() + 1.0)

    # -- the end ---------------------------------------------------------------------------------------------------

    def _quiet(self) -> None:
        """Nothing befalls the node any more: everything comes to an end."""
        self._weather.refuses_until_s = self._weather.slow_until_s = 0.0
        self.node.ledger.fuse = Fuse()
        until_s = self.node.now_s() + QUIET_S
        restless = ["nothing was looked at yet"]
        while restless:
            if self.node.now_s() > until_s:
                raise Broken(f"after {QUIET_S:g} s of quiet: {'; '.join(restless[:6])}")
            self.node.run(self._tend)
            self.node.loop.let(LOOK_S)
            self._check(at_any_moment(self.node))
            restless = self._unrest()
        self.node.loop.do(self.node.ledger.barrier())
        self._check(
            [*at_any_moment(self.node), *replay_is_live(self.node), *of_the_record(self.node, self.world)]
        )

    def _unrest(self) -> list[str]:
        found = unrest(self.node)
        return found if found else [f"{address} is down" for address in self._are_down()]

    def _are_down(self) -> list[str]:
        slots = self.node.state.slots
        return [address for address, slot in slots.items() if slot.state in ("stopped", "parked")]

    def _tend(self) -> None:
        """What a person does: decide doubts, start what is down."""
        for doubt in self.node.state.doubts():
            self._task(self._resolve(doubt.id, self._choose.choice(("done", "lost", "retry"))))
        for address in self._are_down():
            with suppress(KernelError, ChainError):
                self.node.kernel.processes.start(address)

    def _check(self, broken: list[str]) -> None:
        if broken or self.world.faults:
            raise Broken("; ".join([*self.world.faults, *broken][:4]))

    def digest(self) -> str:
        """Of all bytes that are on the disk."""
        disk, digest = self.node.disk, hashlib.sha256()
        for name in disk.names(JOURNAL):
            digest.update(disk.read(JOURNAL / name))
        return digest.hexdigest()


STEP_WEIGHTS = {
    "spawn": 11, "send": 34, "kill": 9, "stop": 7, "start": 6, "remove": 6, "cancel": 4, "replay": 2, "resolve": 6,
    "crash_process": 6, "lose_cell": 4, "lose_worker": 6,
    "gateway_down": 2, "disk_refuses": 5, "ambush": 3, "disk_slow": 3,
    "crash": 4, "down": 4,
}  # fmt: skip
TAKEN_BACK = "taken back"
WHILE_IT_REFUSES = {"kill": 20, "cancel": 12, "crash_process": 20, "lose_cell": 10}
EARLY = {"spawn": 5, "send": 1}


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


def simulate(seed: str, steps: int = STEPS) -> Result:
    """The run of ``seed``, ``steps`` long."""
    run = Run(seed)
    fault = ""
    with heard(run.world):
        try:
            run.steps_of(steps)
        except (Broken, Idle) as error:
            fault = str(error)
        except (
            Exception
        ) as error:  # a fault of the kernel, or of the simulation: the seed shows it either way
            fault = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        finally:
            run.node.loop.abandon()
    kinds: dict[str, int] = {}
    for entry, _ in run.node.ledger.kept.entries:
        kinds[entry.kind] = kinds.get(entry.kind, 0) + 1
    return Result(seed, run.steps, fault, run.digest(), len(run.node.ledger.kept.entries), kinds)


def shortest(failed: Result) -> Result:
    """The run of the same seed that fails with the fewest steps."""
    for steps in range(1, len(failed.steps)):
        shorter = simulate(failed.seed, steps)
        if shorter.fault:
            return shorter
    return failed
