"""A kernel over a real ledger, with twins for what is outside it: cells, workers and gateway answer as a test says."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import msgpack

from chain.disk import Disk
from chain.entry.reader import EntryRecord, StateRecord, read_records
from chain.keys.key_change import adopt_keys, load_candidates
from chain.keys.keys import create_keys
from chain.ledger.ledger import Ledger, Reader, Ticket, Tuning
from chain.vectors.document import may_read
from kernel.abi import Message, ToolCall, ToolDeclaration, TurnResult
from kernel.bounds import STATE_LIMITS, Bounds
from kernel.budget.price import Price
from kernel.budget.spending import CostCaps
from kernel.cell.conversation import Conversation
from kernel.cell.protocol import CallOutcome, CodeLine, ModelOptions, ModelQuestion, Stack
from kernel.cells.cell_events import (
    CellAsked,
    CellCall,
    CellCrashed,
    CellStarted,
    CellStartFailed,
    CellView,
    Place,
    Placement,
    TurnDone,
    WarmCells,
)
from kernel.cells.health.stacks import CellStacks
from kernel.cells.launcher import BehaviourEntry, Told
from kernel.clock import Clock, LoopClock
from kernel.errors import KernelError
from kernel.helper.helper import Answered, HelperLost, HelperRefused
from kernel.helper.os_processes import Mark
from kernel.kernel import Environment, Kernel
from kernel.memory.requests import IndexStats, ToIndex
from kernel.message.messaging import OPERATOR, Outgoing
from kernel.model.spec import ProcessSpec
from kernel.peer.mesh_port import MeshPort, NoMesh
from kernel.peer.remote_calls import PeerAsked
from kernel.policy.access import Access
from kernel.policy.limits.rates import RateLimits, RatesGate
from kernel.policy.proposal import Gate
from kernel.policy.rules.file_rules import FileRulesGate
from kernel.policy.rules.in_force import RulesInForce
from kernel.policy.rules.tool_rules import ToolRulesGate
from kernel.policy.terms import Terms
from kernel.process.process_signals import SlotGone
from kernel.shapes import told
from kernel.signals import Signal, Signals
from kernel.slices.mailboxes import Mail
from kernel.state.recorder import Recorder, replay_into
from kernel.state.state import State
from kernel.state.state_snapshot import restore_state
from kernel.toolbox.registry import Registry, ToolSource, builtin_declarations
from kernel.turn.turn_signals import SessionRead
from kernel.values import canonical
from kernel.worker.pool import Placed
from kernel.worker.workers import Came, WorkerCall, WorkerResult, WorkerWithdrawn
from tests.kernel.twins.put_by import answer_by, put_by
from tests.patience import HANG_S
from weftos.config.rules import read_rules
from weftos.node.gates import GATES

LIMIT_S = HANG_S
EXTERNAL = ToolDeclaration("pay", "Pay somebody.", {"type": "object", "additionalProperties": True})
LOSABLE = ToolDeclaration("ping", "Ping somebody.", {"type": "object"}, on_doubt="lost")
CONFIRMED = ToolDeclaration("launch", "Launch it.", {"type": "object"}, confirmation=True)
BOOKING = ToolDeclaration("book", "Book it.", {"type": "object"}, effect_parameter="key", probe=True)
MEMORY = ("memory_search", "memory_read", "memory_write", "knowledge_base")
ALL = ("calculator", "file_read", "file_write", "send_message", "ask", "spawn_agent", "pay", "ping", "launch")


@dataclass
class Delivery:
    pid: int
    turn: str
    message: Message
    history: list[Any]
    tools: list[str]


class TwinCells:
    """Starts every process at once, unless told otherwise, or never while it is ``silent``; keeps what it is handed."""

    remote = False

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self.placed: list[Placement] = []
        self.deliveries: asyncio.Queue[Delivery] = asyncio.Queue()
        self.results: asyncio.Queue[tuple[int, str, str, dict[str, Any]]] = asyncio.Queue()
        self.wanted_whole: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.ended: list[tuple[int, str, str]] = []
        self.configured: list[tuple[int, dict[str, Any]]] = []
        self.stopped: list[tuple[int, str]] = []
        self.refuse: Callable[[Placement], str] = lambda placement: ""
        self.placements: asyncio.Queue[Placement] = asyncio.Queue()
        self.silent = False

    def place(self, placement: Placement) -> None:
        self.placed.append(placement)
        self.placements.put_nowait(placement)
        if self.silent:
            return
        why = self.refuse(placement)
        loop = asyncio.get_running_loop()
        if why:
            loop.call_soon(self._signals.say, CellStartFailed(placement.pid, why))
        else:
            loop.call_soon(self._signals.say, CellStarted((placement.pid,), "c1"))

    def configure(self, pid: int, config: dict[str, Any]) -> None:
        self.configured.append((pid, config))

    def deliver(
        self,
        pid: int,
        turn: str,
        message: Message,
        history: list[Any],
        tools: list[str],
        sizes: Sequence[int] = (),
    ) -> None:
        self.deliveries.put_nowait(Delivery(pid, turn, message, history, tools))

    def result(self, pid: int, turn: str, round_: int, index: int, outcome: CallOutcome) -> None:
        self.results.put_nowait((pid, turn, f"{round_}.{index}", told(outcome)))

    def say_whole(self, pid: int, turn: str, round_: int, index: int) -> None:
        self.wanted_whole.put_nowait((turn, f"{round_}.{index}"))

    def end_turn(self, pid: int, turn: str, why: str) -> None:
        self.ended.append((pid, turn, why))

    def stop(self, pid: int, why: str) -> None:
        self.stopped.append((pid, why))

    def place_of(self, pid: int) -> Place:
        return Place("c1")

    async def stacks(self, pid: int) -> CellStacks:
        return CellStacks("c1", False, 0, (Stack("a task", (CodeLine("a.py", 7, "handle", "await it"),)),), 1)

    @property
    def warm(self) -> WarmCells:
        return WarmCells(1, 1, 4)

    def list(self) -> list[CellView]:
        return []

    async def close(self) -> None: ...


class TwinWorkers:
    """Runs nothing: answers with ``answer(call)``, which may raise; keeps every call that was handed over.

    ``free`` cleared: calls wait to be handed over. ``hold`` cleared: those that were handed over do not end. A probe is
    answered with ``probed(call)``, which may raise, once ``probing`` is set.
    """

    def __init__(self) -> None:
        self.calls: list[WorkerCall] = []
        self.answer: Callable[[WorkerCall], WorkerResult] = lambda call: WorkerResult(
            "ok", "done", False, "", 4
        )
        self.waiting: list[WorkerCall] = []
        self.stopped: list[tuple[str, str]] = []
        self.ended: list[tuple[str, bool, str]] = []
        self.version: str | Exception = "absent"
        self.free, self.hold, self.probing = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.free.set()
        self.hold.set()
        self.probing.set()
        self.probes: list[WorkerCall] = []
        self.probed: Callable[[WorkerCall], WorkerResult] = lambda call: WorkerResult(
            "ok", "nobody knows", False, "", 12
        )

    async def look(self, call: WorkerCall, begin: Callable[[], bool] = lambda: True) -> str:
        if isinstance(self.version, Exception):
            raise self.version
        return self.version

    async def probe(self, call: WorkerCall) -> WorkerResult:
        self.probes.append(call)
        await self.probing.wait()
        return self.probed(call)

    async def run(self, call: WorkerCall, begin: Callable[[], bool] = lambda: True) -> WorkerResult:
        self.waiting.append(call)
        try:
            await self.free.wait()
        finally:
            self.waiting.remove(call)
        if not begin():
            raise WorkerWithdrawn("nobody wants it")
        self.calls.append(call)
        await self.hold.wait()
        return self.answer(call)

    def put(self, call: WorkerCall, begin: Callable[[], bool], ended: Callable[[Came], None]) -> Placed:
        def stop(why: str) -> None:
            self.stopped.append((call.tool, why))

        return put_by(lambda: self.run(call, begin), ended, stop)

    def end(self, name: str, hard: bool, why: str) -> None:
        self.ended.append((name, hard, why))

    def marks(self) -> list[Mark]:
        return []

    async def close(self) -> None: ...


class TwinGateway:
    """Answers every question with ``answer(request)``; keeps the questions, with all of their messages, and what it
    was told of each. ``forget`` has it lose all that it was told.
    """

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.told: list[list[int]] = []
        self._kept: dict[bytes, dict[str, Any]] = {}
        self.cancelled: list[str] = []
        self.answer: Callable[[dict[str, Any]], Any] = lambda request: answer_of("hello")
        self.prices: dict[str, Price] = {}

    def ask(self, request: dict[str, Any], answered: Answered) -> Callable[[], None]:
        return answer_by(lambda: self._answer_to(request), answered)

    async def _answer_to(self, request: dict[str, Any]) -> dict[str, Any]:
        digests = [request["digests"][at : at + 32] for at in range(0, len(request["digests"]), 32)]
        self.told.append([place for place, _ in request["said"]])
        for place, message in request["said"]:
            assert sha256(canonical(message).encode()).digest() == digests[place]
            self._kept[digests[place]] = message
        if not all(digest in self._kept for digest in digests):
            return {"status": "lost"}
        request = {**request, "messages": [self._kept[digest] for digest in digests]}
        self.asked.append(request)
        found = self.answer(request)
        answer: dict[str, Any] = await found if asyncio.iscoroutine(found) else found
        return answer

    def forget(self) -> None:
        self._kept.clear()

    def cancel(self, stream: str) -> None:
        self.cancelled.append(stream)

    def resolve(self, provider: str, model: str) -> tuple[str, str]:
        return provider or "twin", model or "twin-1"

    def price(self, provider: str, model: str) -> Price | None:
        return self.prices.get(model)


class TwinArchive:
    """Memory's half of the archive over the same journal: reads the whole of it for each question.

    ``down`` stands for an archive that is not running, ``hold`` for one that does not answer. A text is found when it
    holds one of the words asked for; more of them are better. ``extra`` results are put before those found.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.down = False
        self.hold = asyncio.Event()
        self.hold.set()
        self.extra: list[dict[str, Any]] = []

    async def ask(self, op: str, args: dict[str, Any]) -> Any:
        self.asked.append((op, args))
        if self.down:
            raise HelperLost("archive is not running")
        await self.hold.wait()
        if op == "about":
            return {"rows": self._about(args), "loaded": 0}
        documents = self._documents()
        match op:
            case "search":
                results = [*self.extra, *self._found(documents, args)][: args["k"]]
                answer = {"results": results, "mode": args["mode"], "degraded": "", "pending": 0}
                return {**answer, "embedder": "twin"}
            case "read":
                if args["id"] not in documents:
                    raise HelperRefused("ValueError: no such document")
                return documents[args["id"]]
            case "stats":
                return told(IndexStats(len(documents), 0, 0, 0, 0, 0, "twin", 0, 0, 0, 0, None, ""))
            case "reindex":
                return told(ToIndex(len(documents)))
        raise HelperRefused(f"ValueError: no operation {op!r}")

    def _about(self, args: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            {"seq": one.entry.seq, "time_us": one.entry.time_us, "pid": one.entry.pid,
             "kind": one.entry.kind, "body": one.body}
            for one in read_records(self._directory / "journal", Disk())
            if isinstance(one, EntryRecord) and one.entry.kind in args["kinds"]
            and (one.entry.subject in args["subjects"] or one.body.get("turn") == args["turn"])
        ]  # fmt: skip

    def _documents(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for record in read_records(self._directory / "journal", Disk()):
            if isinstance(record, StateRecord) and record.table == "doc":
                found.pop(record.key, None)
                if record.value is not None:
                    found[record.key] = msgpack.unpackb(record.value)
        return found

    def _found(self, documents: dict[str, dict[str, Any]], args: dict[str, Any]) -> list[dict[str, Any]]:
        words = set(args["query"].lower().split())
        scored = [
            (len(words & set(document["text"].lower().split())), document) for document in documents.values()
        ]
        return [
            {**document, "cut": False, "score": float(score), "parts": {"bm25": {"rank": 1, "score": 1.0}}}
            for score, document in sorted(scored, key=lambda pair: (-pair[0], pair[1]["seq"]))
            if score and may_read(document["owner"], document["scope"], args["owner"])
        ]


def go_off(timer: asyncio.TimerHandle | None) -> None:
    """What ``timer`` would do when its time is over, now and not again."""
    assert timer is not None and not timer.cancelled()
    timer._run()
    timer.cancel()


def answer_of(text: str) -> dict[str, Any]:
    return {"status": "ok", "text": text, "tool_calls": [], "input_tokens": 3, "output_tokens": 1}


@dataclass
class Twin:
    """A kernel and its surroundings."""

    kernel: Kernel
    ledger: Ledger
    cells: TwinCells
    workers: TwinWorkers
    gateway: TwinGateway
    archive: TwinArchive
    directory: Path
    signals: Signals
    log: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    ends: dict[str, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    peers_ask: Callable[[PeerAsked], None] = lambda asked: None
    slot_gone: Callable[[SlotGone], None] = lambda gone: None
    session_read: Callable[[SessionRead], None] = lambda read: None
    """The newest control's, of those that a test has made."""

    def say(self, signal: Signal) -> None:
        """Have something heard, as cells and helpers have."""
        self.signals.say(signal)

    async def spawn(self, name: str, parent: str = "/user", **fields: Any) -> int:
        fields.setdefault("tools", ALL)
        spec = ProcessSpec(name, **fields)
        processes = self.kernel.processes
        draft = processes.admission.draft_spawn(spec, parent, 0, b"", -1)
        self.kernel.recorder.commit([draft])
        started = processes.when_started(draft.body["address"])
        processes.begin(draft.body["address"])
        return await asyncio.wait_for(started, LIMIT_S)

    async def send(self, target: str, text: str = "hi", **fields: Any) -> Mail:
        out = Outgoing(
            fields.pop("sender", OPERATOR),
            target,
            text,
            fields.pop("session", "main"),
            bytes(16),
            -1,
            **fields,
        )
        mail, ticket = accept(self.kernel, out)
        self.ends[mail.id] = self.kernel.watchers.wait(mail.id)
        await ticket.durable()
        return mail

    async def delivery(self) -> Delivery:
        return await asyncio.wait_for(self.cells.deliveries.get(), LIMIT_S)

    async def result(self) -> dict[str, Any]:
        """The next outcome handed to a cell."""
        return (await asyncio.wait_for(self.cells.results.get(), LIMIT_S))[3]

    def ask_tool(self, at: Delivery, name: str, arguments: Any, round_: int = 0, index: int = 0) -> None:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        self.say(CellAsked(at.pid, CellCall(at.turn, round_, index, "tool", ToolCall(name, text))))

    async def call_tool(self, at: Delivery, name: str, arguments: Any, round_: int = 0) -> dict[str, Any]:
        self.ask_tool(at, name, arguments, round_)
        return await self.result()

    def ask_model(
        self,
        at: Delivery,
        messages: list[Any],
        round_: int = 0,
        tools: list[str] | None = None,
        options: ModelOptions | None = None,
    ) -> None:
        question = ModelQuestion(tuple(messages), tuple(tools or ()), options=options)
        self.say(CellAsked(at.pid, CellCall(at.turn, round_, 0, "model", question)))

    def tell_model(
        self, at: Delivery, conversation: Conversation, messages: list[Any], round_: int = 0
    ) -> ModelQuestion:
        """The same, told as a cell tells it. Returns what was told."""
        said, terms = conversation.told(messages)
        question = ModelQuestion(tuple(said), terms=terms)
        self.say(CellAsked(at.pid, CellCall(at.turn, round_, 0, "model", question)))
        return question

    async def wanted_whole(self) -> str:
        """The next call that is to be said whole: its ordinal."""
        return (await asyncio.wait_for(self.cells.wanted_whole.get(), LIMIT_S))[1]

    def finish(
        self,
        at: Delivery,
        reply: str = "done",
        remember: list[Any] | None = None,
        status: Literal["ok", "error"] = "ok",
    ) -> None:
        self.say(TurnDone(at.pid, at.turn, TurnResult(reply, tuple(remember or ()), status)))

    def crash(self, at: Delivery) -> None:
        self.say(CellCrashed(at.pid, at.turn, "the test said so"))

    async def end_of(self, mail: Mail) -> dict[str, Any]:
        """How a message ends, or has ended, that was sent with :meth:`send`."""
        return await asyncio.wait_for(asyncio.shield(self.ends[mail.id]), LIMIT_S)

    async def entries(self, *kinds: str) -> list[EntryRecord]:
        """What the journal holds, read back from the disk; only ``kinds``, when given."""
        await self.ledger.barrier()
        found = [
            record
            for record in read_records(self.directory / "journal", Disk())
            if isinstance(record, EntryRecord)
        ]
        return [record for record in found if not kinds or record.entry.kind in kinds]


def accept(kernel: Kernel, out: Outgoing) -> tuple[Mail, Ticket]:
    """One message from outside, which an idle process is handed at once."""
    unit = kernel.recorder.unit()
    accepted = kernel.router.put(unit, out)
    ticket = kernel.recorder.commit(unit)
    mail, letter = kernel.state.find_mail(accepted.id), kernel.state.dead.get(accepted.id)
    if letter is not None:  # there was no room for it
        return letter.mail, ticket
    assert mail is not None
    return mail, ticket


def _registry(without: Collection[str]) -> Registry:
    own = [tool for tool in (EXTERNAL, LOSABLE, CONFIRMED, BOOKING) if tool.name not in without]
    return Registry(
        [*builtin_declarations(), *own], [ToolSource(tool.name, "somewhere:thing") for tool in own]
    )


@asynccontextmanager
async def kernel_twin(
    directory: Path,
    bounds: Bounds | None = None,
    disk: Disk | None = None,
    without: Collection[str] = (),
    recall_tokens: int = 700,
    now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
    make_cells: Callable[[Signals], Any] = TwinCells,
    gates: Sequence[Gate] = GATES,
    mesh: MeshPort | None = None,
    name: str = "",
    tuning: Tuning = Tuning(retry_s=0.05),  # noqa: B008  # frozen
    clock: Clock | None = None,
    caps: CostCaps | None = None,
    agent: dict[str, Any] | None = None,
    rates: RateLimits | None = None,
    access: Access | None = None,
) -> AsyncIterator[Twin]:
    """Boot a kernel on ``directory``; a second time on the same one recovers what the first left. ``without``: tools
    whose worker did not load in this boot; ``recall_tokens``: what the configuration tells each agent; ``make_cells``:
    others than the twins; ``mesh`` and ``name``: of a node among others; ``clock``: another than the loop's; ``caps``:
    of cost; ``agent``: what else ``[agent]`` says; ``rates``: of messages; ``access``: of users of channels.
    """
    bounds = bounds or Bounds()
    if not any(directory.glob("keys*")):
        create_keys(directory / "keys")
    keys, *others = load_candidates(directory)
    state = State(*(getattr(bounds, name) for name in STATE_LIMITS))
    ledger = Ledger.open(
        directory,
        keys,
        now_us=now_us,
        others=others,
        reader=Reader(lambda record: replay_into(state, record), lambda found: restore_state(state, found)),
        disk=disk,
        tuning=tuning,
    )
    adopt_keys(directory, ledger.keys, disk or Disk())
    ledger.start(asyncio.get_running_loop())
    signals = Signals()
    cells, workers, gateway = make_cells(signals), TwinWorkers(), TwinGateway()
    log: list[tuple[str, dict[str, Any]]] = []
    told_to_agents = {"recall_tokens": recall_tokens, **(agent or {})}
    behaviours = {"agent": BehaviourEntry("agent", "a:B", config=told_to_agents)}
    rules = RulesInForce(state, read_rules, Told(behaviours))
    archive, terms = TwinArchive(directory), Terms(caps, rates, access)
    env = Environment(
        7,
        bounds,
        (*gates, ToolRulesGate(rules), FileRulesGate(rules), RatesGate(terms)),
        behaviours,
        lambda event, **fields: log.append((event, fields)),
        archive.ask,
        mesh=mesh or NoMesh(),
        name=name,
        clock=clock or LoopClock(),
        rules=rules,
        terms=terms,
    )
    recorder = Recorder(ledger, state, signals)
    twins: tuple[Any, Any, Any] = (cells, workers, gateway)
    kernel = Kernel(recorder, _registry(without), *twins, signals=signals, env=env)
    try:
        kernel.processes.effects.round_s = float("inf")  # what a test sees is no matter of time
        twin = Twin(kernel, ledger, cells, workers, gateway, archive, directory, signals, log)
        kernel.boot(
            {
                PeerAsked: (lambda asked: twin.peers_ask(asked),),
                SlotGone: (lambda gone: twin.slot_gone(gone),),
                SessionRead: (lambda read: twin.session_read(read),),
            }
        )
        yield twin
    finally:
        await kernel.close()
        await ledger.close()


__all__ = ["KernelError", "Twin", "answer_of", "kernel_twin"]
