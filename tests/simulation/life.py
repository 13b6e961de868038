"""One node over all its boots, and what befalls it: steps drawn from a seed.

At each end of a boot it is looked at whether a replay comes to what the node had; the rest is for the run it lives in.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, get_args

from chain.errors import ChainError, LedgerUnavailable
from chain.ledger.ledger import Draft
from kernel.control.asked import Asked
from kernel.control.mail.messages import MessageControl
from kernel.errors import KernelError, NotFound, Refused, SupervisionError
from kernel.message.messaging import OPERATOR, Outgoing
from kernel.message.publications import Published
from kernel.model.commands import Command
from kernel.model.spec import ProcessSpec
from kernel.model.states import ProcessState
from kernel.operations.mailboxes import Mailbox
from kernel.operations.messages import Messages, Send
from kernel.operations.rights.budgets import Budget, OnExhausted
from kernel.operations.spawning import AutoShutdown, Restart
from kernel.policy.asker import PERSON
from kernel.slices.mail.subscriptions import OVERFLOWS
from kernel.state.recorder import Recorder
from kernel.supervision.strategies import STRATEGIES
from mesh.identity.peers import Peer
from tests.chain.twins.memory_disk import MemoryDisk
from tests.kernel.twins.kernel_twin import accept
from tests.simulation.checks import Record, at_any_moment, of_the_state, replay_is_live, stays_stopped, unrest
from tests.simulation.ledger import Fuse, Weather
from tests.simulation.node import Node
from tests.simulation.plans import ALONE, TALKATIVE, Plans
from tests.simulation.setting import TOOLS, draw_setting
from tests.simulation.sightings import at_a_lost_cell, at_cancel, at_crash, at_kill, at_stop
from tests.simulation.virtual_loop import Crash
from tests.simulation.wire import ORIGINS, Wire
from tests.simulation.witness import Witness
from tests.simulation.world import Broken, Sent, World

NAMES = ("a", "b", "c", "d")
START_S = 1_000.0
MOST_BOOTS = 8
PATTERNS = ("news.a", "news.*", "*", "telemetry.a", "telemetry.*")


class Client(Asked):
    """A person who sends, with a trace from the seed; that he asks is no entry."""

    def __init__(self, trace: bytes, recorder: Recorder) -> None:
        super().__init__({"uid": 0, "os_pid": 1}, Messages.send, recorder)
        self._trace = trace

    def record(self, **arguments: Any) -> tuple[int, bytes]:
        return -1, self._trace


class Life:
    """A node, over all its boots, and what befalls it: the methods that begin with ``step_``.

    ``steps`` are those of the whole run, of which the ``early`` ones mostly make processes; a node of two has a
    ``name`` and a ``wire``.
    """

    def __init__(
        self, seed: str, steps: list[str], early: int, name: str = "", wire: Wire | None = None
    ) -> None:
        self._seed, self.steps, self._early, self.name, self.wire = seed, steps, early, name, wire
        self._choose, self._kernel_chance = Random(), Random()
        self.world = World(Random())
        self._weather = Weather(Random())
        self.decide("first boot")
        self.witness = Witness(self.world.causes)
        self._plans = Plans(self._choose, self._targets, ALONE if wire is None else TALKATIVE)
        self.other: Life | None = None
        self._sends = 0
        self._last = self._gone = ""  # the address that something befell last, and that was removed last
        self._down = self._forgets = False
        self._starts: set[str] = set()  # what a person has started again since
        self._stopped: dict[str, int] = {}  # by a person who has been told so, and the entries that made them
        self.node = self._boot(MemoryDisk(), START_S)

    def decide(self, number: object) -> None:
        """What is drawn from now on follows from the seed and that ``number``, and not from what was drawn before."""
        chances = {
            "steps": self._choose, "world": self.world.chance, "kernel": self._kernel_chance,
            "disk": self._weather.chance,
        }  # fmt: skip
        for what, chance in chances.items():
            chance.seed(f"{self._seed} {what} {self.name} {number}")

    def _boot(self, disk: MemoryDisk, now_s: float) -> Node:
        while True:
            node = Node(
                disk, self.world, self._weather, self._kernel_chance, now_s,
                restored=self._choose.random() < 0.5, looks=of_the_state,
                setting=draw_setting(self._choose), name=self.name, wire=self.wire, fuse=self._boot_fuse(),
            )  # fmt: skip
            try:
                node.boot()
            except LedgerUnavailable:  # it does not start on a disk that refuses
                now_s = max(now_s, self._weather.refuses_until_s)
                self._heard_of_boot(node)
            except Crash:
                self.steps[-1] += "; and once more as it booted"
                self.world.saw("crash-in-boot")
                self._heard_of_boot(node)
                self.world.died(Record(node.ledger).settled, forgets=True)
                node.loop.abandon()
                disk, now_s = node.disk.crash(self._torn()), node.now_s() + 1.0
            else:
                self._heard_of_boot(node)
                return node

    def _heard_of_boot(self, node: Node) -> None:
        """What was on the disk before a boot is of those before it."""
        for what in self.witness.read(node.ledger.kept.entries[: node.ledger.replayed]):
            self.world.broken(what)
        self.witness.booted()

    def _boot_fuse(self) -> Fuse:
        """Seldom the node crashes as it boots, or soon after."""
        if not self.world.boot or self.world.boot >= MOST_BOOTS or self._choose.random() < 0.8:
            return Fuse()
        return Fuse(self._choose.choice(("commit", "before", "after")), self._choose.randrange(1, 5))

    def _torn(self) -> int:
        return self._choose.choice((0, 0, 10, 500, 10_000))

    # -- steps -----------------------------------------------------------------------------------------------------

    def befall(self, numbers: Sequence[int]) -> None:
        """The steps of these numbers together, each in its own round of the loop or all in one. Raises Crash."""
        self.node.loop.do(self._together(numbers))
        if self._down:
            self._after_down()

    def crashed(self) -> None:
        """Its loop has raised Crash: it boots again."""
        self.steps[-1] += f"; the node {self.name} crashed" if self.name else "; the node crashed"
        self.check(replay_is_live(self.node))
        record = Record(self.node.ledger)
        at_crash(self.node, self.world, record, refuses=self._refuses())
        self.world.died(record.settled, forgets=True)
        self._next_boot(torn=self._torn())

    async def _together(self, numbers: Sequence[int]) -> None:
        last = numbers[-1]
        for number in numbers:
            self.decide(number)
            if await self._befalls(number):
                return
            while number == last and TAKEN_BACK in self.steps[-1]:  # what follows at once belongs to it
                if await self._befalls(number):
                    return

    async def _befalls(self, number: int) -> bool:
        """One step; whether that was the end of the boot."""
        weights = self._weights(number)
        name = self._choose.choices(list(weights), list(weights.values()))[0]
        at_s = self.node.now_s()
        self.steps.append(f"{number:4} {at_s:10.4f} s  {self.name and f'{self.name:5}'}{name} ")
        if name == "down":
            await self._stop_node()
            return True
        self.steps[-1] += self._tried(getattr(self, f"step_{name}"))
        if TAKEN_BACK not in self.steps[-1] and self._choose.random() < 0.5:
            await asyncio.sleep(0)
        return False

    def _weights(self, number: int) -> dict[str, int]:
        """How likely each step is now: what comes together seldom, and has gone wrong together, is sought."""
        if number < self._early:
            return EARLY
        weights = dict(STEP_WEIGHTS) if self.wire is None else STEP_WEIGHTS | WITH_A_WIRE
        if self.steps and "kill /" in self.steps[-1]:
            weights["down"] = 100 if TAKEN_BACK in self.steps[-1] else 20
        if self.other is not None and self.node.kernel.remote.mesh.peer(self.other.name) is None:
            weights["peer"] = 25
        if self._refuses():
            weights |= WHILE_IT_REFUSES if self.wire is None else CUT_WHILE_IT_REFUSES
        elif self.node.state.doubts():
            weights |= {"resolve": 40, "cancel": 12, "kill": 15}
        if self._restarted_together():
            weights |= {"stop": 40, "crash": 20}
        if self.wire is None and self._restarting():
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

    def _awaiting(self) -> list[str]:
        """The addresses whose processes wait for a person."""
        live = self.node.kernel.live.all()
        return [process.address for process in live if process.state is ProcessState.SUSPENDED]

    def _restarted_together(self) -> list[str]:
        """The addresses of children that a restart of several has yet to start."""
        return [
            f"{above}/{child.spec.id}"
            for above, supervisor in self.node.kernel.processes.supervisors.items()
            if supervisor.group is not None
            for child in supervisor.children
            if child.order > supervisor.group.reached
        ]

    def _often(self, addresses: list[str], otherwise: Callable[[], str]) -> str:
        """One of them, where there are any, every second time."""
        return self._choose.choice(addresses) if addresses and self._choose.random() < 0.5 else otherwise()

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
        parent = "/user" if choose.random() < (0.6 if self.wire is None else 0.9) else self._address()
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
            type="supervisor" if choose.random() < (0.2 if self.wire is None else 0.05) else "worker",
            restart=choose.choice(("permanent", "permanent", "transient", "temporary")),
            tools=tools,
            intensity=(choose.choice((1, 3, 5)), 60.0),
            budget=self._budget(),
        )
        if spec.type == "worker" and choose.random() < 0.3:
            spec = replace(spec, mailbox=Mailbox(messages=choose.choice((1, 3)), overflow="dead_letter"))
        if spec.type == "worker" and spec.restart != "temporary":
            spec = replace(spec, on_logical=choose.choice(("restart", "restart", "park", "end")))
        if spec.type == "supervisor":
            spec = self._supervisor(spec)
        to = self.node.state.slots.get(parent)
        if to is not None and to.spec.template is not None:
            spec = to.spec.template.made(name, "", {})
        elif to is not None and to.spec.auto_shutdown != "never" and spec.restart != "permanent":
            spec = replace(spec, significant=choose.random() < 0.5)
        kernel = self.node.kernel
        draft = kernel.processes.admission.draft_spawn(spec, parent, 0, choose.randbytes(16), -1)
        kernel.recorder.commit([draft])
        kernel.processes.begin(draft.body["address"])
        kind = spec.strategy if spec.type == "supervisor" else spec.type
        return f"{draft.body['address']} ({kind}, {spec.restart})"

    def _budget(self) -> Budget | None:
        """Often one that is soon used up."""
        choose = self._choose
        if choose.random() < 0.75:
            return None
        then = choose.choice(get_args(OnExhausted))
        return Budget(
            tool_calls=choose.choice((None, 3, 30)),
            messages=choose.choice((None, 2, 20)),
            tokens=choose.choice((600, 2_000, 100_000)),
            money=choose.choice((None, "0.001", "0.03")),
            then=then,
        )

    def _supervisor(self, spec: ProcessSpec) -> ProcessSpec:
        choose, strategy = self._choose, self._choose.choice(sorted(STRATEGIES))
        made = replace(spec, tools=(), strategy=strategy, budget=None)
        if STRATEGIES[strategy].dynamic:
            restart = choose.choice(get_args(Restart))
            return replace(made, template=ProcessSpec("", tools=TOOLS, restart=restart))
        return replace(made, auto_shutdown=choose.choice(("never", *get_args(AutoShutdown))))

    def step_send(self) -> str:
        to = self._address(worker=True)
        if self.other is not None and self._choose.random() < 0.5:
            to = self._choose.choice(self.other.abroad() or [to])
        return self._send(to, self._plans.plan)

    def _send(self, to: str, plan: Callable[[str], dict[str, Any]]) -> str:
        self._sends += 1
        text = json.dumps(plan(f"{self.name}s{self._sends}"))
        session = self._choose.choice(("main", "other"))
        deadline_us = self.node.ledger.now_us() + 3_000_000 if self._choose.random() < 0.1 else 0
        waits = "@" in to and self._choose.random() < 0.5
        trace = self._choose.randbytes(16)
        out = Outgoing(OPERATOR, to, text, session, trace, -1, wants_reply=waits, deadline_us=deadline_us)
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

    def _targets(self) -> list[str]:
        """Who may be sent to, here and there."""
        return self._workers() + (self.other.abroad() if self.other is not None else [])

    def _workers(self) -> list[str]:
        return [slot.address for slot in self.node.state.slots.values() if slot.spec.type == "worker"]

    def abroad(self) -> list[str]:
        """Its processes, as the other node calls them."""
        return [f"{address}@{self.name}" for address in self._workers()]

    def step_change(self) -> str:
        choose, address = self._choose, self._address()
        slot = self.node.state.slots.get(address)
        wanted: dict[str, Any] = {
            "restart": choose.choice(get_args(Restart)),
            "shutdown_s": choose.choice((0.0, 2.0, "infinity")),
            "significant": choose.random() < 0.3,
        }
        if slot is not None and slot.spec.type == "supervisor":
            wanted |= {
                "intensity": (choose.choice((1, 3, 5)), 60.0),
                "strategy": choose.choice(sorted(STRATEGIES)),
                "auto_shutdown": choose.choice(get_args(AutoShutdown)),
            }
        fields = {name: wanted[name] for name in choose.sample(sorted(wanted), choose.choice((1, 1, 2)))}
        self.node.kernel.processes.change(address, fields, choose.randbytes(16), -1)
        return f"{address} to {fields}"

    def step_kill(self) -> str:
        turns = self.node.state.turns.values()
        held = [turn.address for turn in turns if self.node.workers.waiting({turn.id})]
        busy = held or self._awaiting() or [turn.address for turn in turns]
        address = self._often(busy, self._address)
        signal = self._choose.choice(("kill", "term"))
        kernel = self.node.kernel
        process = kernel.live.at(address)
        turn = self.node.state.turn_of(address)
        waiting = self.node.workers.waiting({turn.id}) if turn is not None and process is not None else []
        if signal == "kill":
            at_kill(self.world, process, turn, refuses=self._refuses())
        kernel.processes.kill(address, signal)
        if signal == "kill" and kernel.live.at(address) is not process:
            self.world.refused.update(waiting)
            if waiting:
                self.world.saw("kill-queued")
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
        address = self._often(self._restarted_together(), self._address)
        at_stop(self.node, self.world, address)
        made = self._order(address).seq
        self.node.kernel.processes.stop(address, self._order(address))
        self._starts.discard(address)
        self._task(self._is_stopped(address, made))
        return address

    def _order(self, address: str) -> Command:
        """Of a person, about what is there; it is no entry of its own, so the slot's stands for it."""
        slot = self.node.state.slots.get(address)
        return Command(-1 if slot is None else slot.spawned_seq, "operator:0")

    async def _is_stopped(self, address: str, spawned_seq: int) -> None:
        """It is told that it is, once that is on the disk."""
        kernel = self.node.kernel
        await kernel.processes.effects.settled()
        await kernel.recorder.barrier()
        if address not in self._starts:
            self._stopped[address] = spawned_seq

    def _start(self, address: str) -> None:
        self.node.kernel.processes.start(address)
        self._stopped.pop(address, None)
        self._starts.add(address)

    def step_restart(self) -> str:
        """Often of what is ending already."""
        ending = [
            address
            for address, supervisor in self.node.kernel.processes.supervisors.items()
            if supervisor.closing is not None and address.count("/") > 1
        ]
        address = self._often(ending, self._address)
        self.node.kernel.processes.restart(address, self._order(address))
        return address

    def step_start(self) -> str:
        down = self._are_down()
        address = self._choose.choice(down) if down else self._address()
        self._start(address)
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
        address, cancels = (
            self._often(self._awaiting(), lambda: self._address(worker=True)),
            self.node.kernel.cancels,
        )
        process, turn = self.node.kernel.live.at(address), self.node.state.turn_of(address)
        awaited = process is not None and process.state is ProcessState.SUSPENDED
        message = self._choose.choice([*self.node.state.mail.get(address, ()), ""])
        try:
            mail = cancels.find(address, message)
        except (NotFound, Refused) as nothing:
            return f"{address}: {nothing}"
        at_cancel(self.world, turn, awaited=awaited, refuses=self._refuses())
        cut = cancels.cancel(mail, "cancelled by an operator")
        return f"{address} {message} ({cut.others})"

    def step_replay(self) -> str:
        dead = list(self.node.state.dead)
        if not dead:
            return "nothing is dead"
        ident, again = self._choose.choice(dead), self._choose.random() < 0.5
        to = "" if self._choose.random() < 0.5 else self._choose.choice(self._targets() or [""])
        if not self.node.state.dead[ident].mail.text.startswith(
            "{"
        ):  # no plan, which is all that others understand
            to = ""
        self._task(self.node.kernel.router.replay(ident, -1, to, again))
        return f"{ident} {to}{' again' if again else ''}"

    def step_drop(self) -> str:
        dead = list(self.node.state.dead)
        if not dead:
            return "nothing is dead"
        ident = self._choose.choice(dead)
        self._task(self.node.kernel.router.drop(ident, "done", "operator:0", -1))
        return ident

    def step_subscribe(self) -> str:
        address, pattern = self._address(worker=True), self._choose.choice(PATTERNS)
        if address not in self.node.state.slots:
            return "nobody is there"
        kernel, telemetry = self.node.kernel, pattern.startswith("telemetry")
        overflow = self._choose.choice(OVERFLOWS if telemetry else OVERFLOWS[:2])
        unit, origin = kernel.recorder.unit(), Draft("", {})
        if pattern in self.node.state.subscriptions.of(address) and self._choose.random() < 0.3:
            kernel.publications.unsubscribe(unit, address, pattern, origin)
        else:
            kernel.publications.subscribe(unit, PERSON, address, pattern, overflow, origin)
        kernel.recorder.commit(unit)
        return f"{address} to {pattern}: {overflow}"

    def step_publish(self) -> str:
        """To a topic, or to all below an address; seldom so often that mailboxes overflow."""
        choose = self._choose
        to, times = choose.choice(("news.a", "news.b", "telemetry.a", "/user")), choose.choice((1, 1, 1, 14))
        said = [self._publish(to) for _ in range(times)]
        return f"{to} {times} times: {said[-1]}"

    def _publish(self, to: str) -> Published:
        kernel = self.node.kernel
        unit, trace = kernel.recorder.unit(), self._choose.randbytes(16)
        self._sends += 1
        text = json.dumps(self._plans.plan(f"{self.name}s{self._sends}", depth=2))
        out = Outgoing(OPERATOR, "", text, "main", trace, -1)
        say = kernel.publications.broadcast if to.startswith("/") else kernel.publications.publish
        said = say(unit, out, to)
        kernel.recorder.commit(unit)
        return said

    def step_send_keyed(self) -> str:
        """Under one of a few keys, so that the same is sent again, after a crash too."""
        key = self._choose.choice(("k1", "k2", "k3"))
        to = self._choose.choice(self._workers() or ["/user/a"])
        request = Send(to, json.dumps({"name": key, "rounds": []}), key=key)
        self._task(self._keyed(request, Client(self._choose.randbytes(16), self.node.kernel.recorder)))
        return f"{key} to {to}"

    async def _keyed(self, request: Send, asked: Asked) -> None:
        kernel = self.node.kernel
        answer = await MessageControl(kernel, ()).send(asked, request)
        if answer.get("again"):
            self.world.saw("key-again")
        self.world.answered(self.name + request.key, answer["address"], answer["message"])

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
            self.world.saw("resolve-refused")
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
        running = self.node.cells.reachable()
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
        turns = self.node.state.turns
        held = [hosted.turn for hosted in self.node.cells.hosted.values() if hosted.cell == cell]
        at_a_lost_cell(self.world, [turns[turn] for turn in held if turn in turns])
        if self._choose.random() < 0.6:
            self.node.cells.lose(cell)
            return cell
        for_s = self._choose.choice((0.001, 0.02, 0.3, 2.0))
        self.node.cells.silence(cell, for_s)
        return f"{cell}, after {for_s:g} s of silence"

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
        self.slow_down(self._choose.uniform(0.5, 5.0))
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
        self.check(replay_is_live(self.node))
        self.world.died(Record(self.node.ledger).settled, forgets=self._forgets)
        self._next_boot(torn=0)

    def _next_boot(self, torn: int) -> None:
        node = self.node
        node.loop.abandon()
        self.node = self._boot(node.disk.crash(torn), node.now_s() + 1.0)

    def step_link(self) -> str:
        assert self.wire is not None
        before = self.wire.is_up
        self.wire.link()
        return "in the place of the one there was" if before else ""

    def step_unlink(self) -> str:
        assert self.wire is not None
        self.wire.unlink("the wire was cut")
        return ""

    def step_peer(self) -> str:
        """The other node is no peer any more, or one again, with another ceiling."""
        assert self.other is not None
        remote, name = self.node.kernel.remote, self.other.name
        if remote.mesh.peer(name) is None:
            self._allow(self._choose.choice((None, frozenset(TOOLS), frozenset(TOOLS))))
            return f"{name} is allowed again"
        remote.removed(remote.mesh.remove_peer(name))
        return f"{name} is allowed no longer"

    def _allow(self, tools: frozenset[str] | None) -> None:
        assert self.other is not None
        peer = Peer(self.other.name, ORIGINS[self.other.name], tools=tools)
        self.node.kernel.remote.mesh.add_peer(peer)
        self.node.kernel.remote.on_added(peer, "operator:0")

    def step_cut_off(self) -> str:
        """A question to the other node is cut off, before it goes out or before it is acknowledged: the disk refuses,
        and meanwhile the link goes, comes, goes.
        """
        node, wire, other = self.node, self.wire, self.other
        assert wire is not None and other is not None
        after_s, slow_s = self._choose.choice(((0.0, 0.0), (0.03, 0.0), (0.03, 2.0), (0.06, 2.0)))
        flaps, for_s = self._choose.choice((1, 2, 3, 3)), self._choose.choice((0.1, 0.5, 1.0))

        def refuse() -> None:
            self._weather.refuses_until_s = node.now_s() + for_s
            for flap in range(flaps):
                change = wire.link if flap % 2 else partial(wire.unlink, "the wire was cut")
                node.loop.call_later(for_s * (flap + 1) / 5, change)

        def begin() -> None:
            other.slow_down(slow_s)
            node.loop.call_later(after_s, refuse)

        node.ledger.ambush = begin
        if not wire.is_up:
            wire.link()
        to, asked = self._address(worker=True), self._choose.choice(other.abroad() or ["/user/a"])
        sent = self._send(to, lambda name: self._plans.question(name, asked))
        return f"after {after_s:g} s for {for_s:g} s, the link changes {flaps} times: {sent}"

    def slow_down(self, for_s: float) -> None:
        """Its disk is slow for so long."""
        self._weather.slow_until_s = self.node.now_s() + for_s

    # -- the end ---------------------------------------------------------------------------------------------------

    def calm(self) -> None:
        """From now on the disk takes everything at once, and nothing goes off."""
        self.node.ledger.ambush = None
        self._weather.refuses_until_s = self._weather.slow_until_s = 0.0
        self.node.ledger.fuse = Fuse()

    def unrest(self) -> list[str]:
        found = unrest(self.node)
        down = [f"{address} is down" for address in self._are_down()]
        return found or down or [f"{address} is paused" for address in self._are_paused()]

    def _are_down(self) -> list[str]:
        slots = self.node.state.slots
        return [address for address, slot in slots.items() if slot.state in ("stopped", "parked")]

    def _are_paused(self) -> list[str]:
        return [address for address, slot in self.node.state.slots.items() if slot.suspended]

    def tend(self) -> None:
        """What a person does: decide doubts, give more to who ended for his budget, start what is down, resume what is
        paused, allow the other node.
        """
        if self.other is not None and self.node.kernel.remote.mesh.peer(self.other.name) is None:
            self._allow(frozenset(TOOLS))
        for doubt in self.node.state.doubts():
            self._task(self._resolve(doubt.id, self._choose.choice(("done", "lost", "retry"))))
        slots = self.node.state.slots
        if any(slots[address].last_exit.reason == "budget" for address in self._are_down()):
            with suppress(ChainError):
                self._give_more()
        for address in self._are_down():
            with suppress(KernelError, ChainError):
                self._start(address)
        for address in self._are_paused():
            with suppress(KernelError, ChainError):
                self.node.kernel.processes.resume(address, Command(-1, "operator:0"))

    def _give_more(self) -> None:
        """To all who have accounts: those above first, since the others have it from them."""
        accounts = self.node.state.accounts.book.accounts
        for address in sorted(accounts, key=lambda each: each.count("/")):
            for resource, line in list(accounts[address].lines.items()):
                body = {"address": address, "resource": resource, "amount": line.granted, "by": "operator:0"}
                self.node.kernel.recorder.commit([Draft("budget.granted", body, 0, "")])

    def look(self) -> None:
        """After each step. Raises Broken."""
        self.check(
            [
                *at_any_moment(self.node),
                *stays_stopped(self.node, self._stopped),
                *self.witness.read(self.node.ledger.kept.entries),
            ]
        )

    def check(self, broken: list[str]) -> None:
        for what in broken:
            self.world.broken(what)
        if self.world.faults:
            raise Broken("; ".join(self.world.faults[:4]))


STEP_WEIGHTS = {
    "spawn": 11, "send": 34, "kill": 9, "stop": 7, "restart": 4, "start": 6, "remove": 6, "cancel": 4, "replay": 4,
    "resolve": 6, "drop": 1, "subscribe": 5, "publish": 6, "send_keyed": 4,
    "change": 4, "crash_process": 6, "lose_cell": 4, "lose_worker": 6,
    "gateway_down": 2, "disk_refuses": 5, "ambush": 3, "disk_slow": 3,
    "crash": 4, "down": 4,
}  # fmt: skip
TAKEN_BACK = "taken back"
WHILE_IT_REFUSES = {"kill": 20, "cancel": 12, "crash_process": 20, "lose_cell": 10}
EARLY = {"spawn": 5, "send": 1}
WITH_A_WIRE = {
    "spawn": 5,
    "stop": 3,
    "remove": 2,
    "link": 16,
    "unlink": 12,
    "disk_refuses": 9,
    "cut_off": 4,
    "peer": 1,
}
CUT_WHILE_IT_REFUSES = {"spawn": 1, "send": 10, "unlink": 30, "link": 30}
