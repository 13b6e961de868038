"""One message whose turn does everything that a turn can do, and a world outside that counts what was really done.

``errand`` boots the kernel of :mod:`tests.kernel.twins.kernel_twin`, sends the message unless it was accepted in an
earlier boot, and plays cells, workers and the person who settles doubts until nothing is left to do. What the world and
the client saw is kept in files beside the data directory, so that it outlives a kill of the whole process.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from chain.disk import Disk
from chain.entry.entry import decode_body
from chain.entry.reader import EntryRecord, read_records
from chain.errors import LedgerUnavailable
from chain.verify.verify import verify
from kernel.bounds import Bounds
from kernel.errors import NotFound, Unavailable
from kernel.slices.mailboxes import turn_id
from kernel.state.recorder import replay_into
from kernel.state.state import State
from kernel.toolbox.files import FileChanged, file_version, write_file
from kernel.worker.worker import terms_of
from kernel.worker.workers import WorkerCall, WorkerResult
from tests.kernel.twins.kernel_twin import ALL, MEMORY, Delivery, Twin, answer_of, kernel_twin
from tests.patience import HANG_S

WORK, QUESTION, GREETING = "do all of it", "what is two and two", "hello, kid"
ADA, BOB, KID = "/user/ada", "/user/bob", "/user/ada/kid"
NOTE, KEPT = "notes/note.txt", "what was to be kept"
PAUSE_S = 0.002
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("file_write", {"path": NOTE, "content": KEPT}),
    ("pay", {"amount": 5}),
    ("ask", {"to": "bob", "text": QUESTION}),
    ("spawn_agent", {"name": "kid", "tools": ["calculator"]}),
    ("memory_write", {"text": "ada has a kid"}),
    ("send_message", {"to": KID, "text": GREETING}),
]
REPLY = json.dumps(["ok"] * (len(CALLS) + 1) + ["4"])

Result = dict[str, Any]


class Outside:
    """What is seen from outside, a line each, on the disk as soon as it is known. ``step(kind)`` is called just before
    and just after each effect.
    """

    def __init__(self, root: Path, step: Callable[[str], None] = lambda kind: None) -> None:
        self.root = root
        self.data, self.workspace = root / "data", root / "workspace"
        self.step = step
        for directory in (self.data, self.workspace):
            directory.mkdir(exist_ok=True)

    def note(self, *words: str) -> None:
        handle = os.open(self.root / "seen", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, (json.dumps(words) + "\n").encode())
        os.close(handle)

    def seen(self, kind: str) -> list[list[str]]:
        path = self.root / "seen"
        lines = path.read_text().splitlines() if path.exists() else []
        return [words[1:] for words in map(json.loads, lines) if words[0] == kind]

    def work(self, call: WorkerCall) -> WorkerResult:
        """What a worker does."""
        arguments = json.loads(call.arguments)
        intents = [r.body for r in entries(self.data, "tool.intent")]
        if decode_body(call.body) not in intents:
            self.note("unrecorded", f"{call.tool} runs, the disk has {intents}")
        self.step("effect")
        status, text = "ok", "paid"
        if call.tool == "file_write":
            try:
                text = write_file(str(self.workspace), **arguments, **terms_of(decode_body(call.body)))  # type: ignore[arg-type]
            except FileChanged as error:
                status, text = "changed", str(error)
        else:
            self.note("effect", call.tool)
        self.step("effect")
        return WorkerResult(status, text, False, "", len(text))  # type: ignore[arg-type]

    def messages(self, text: str) -> list[str]:
        """The ids of the messages with this text, as the disk has them."""
        return [r.body["id"] for r in entries(self.data, "message.accepted") if r.body["text"] == text]

    def was_done(self, tool: str) -> bool:
        if tool == "file_write":
            path = self.workspace / NOTE
            return path.exists() and path.read_text() == KEPT
        return [tool] in self.seen("effect")


class Errand:
    """One boot's cells, client and person. Whoever is refused by the disk asks again."""

    def __init__(self, twin: Twin, outside: Outside) -> None:
        self._twin = twin
        self._outside = outside
        self._turns: set[asyncio.Task[None]] = set()
        self._waiting: dict[tuple[str, str], asyncio.Future[Result]] = {}
        twin.workers.answer = outside.work
        twin.workers.look = self._look  # type: ignore[method-assign]  # the version of a real file
        twin.gateway.answer = lambda request: answer_of("I shall")

    async def _look(self, call: WorkerCall, begin: Callable[[], bool] = lambda: True) -> str:
        return file_version(call.workspace, json.loads(call.arguments)["path"])

    async def run(self) -> None:
        """Until nothing is left to do."""
        helpers = [asyncio.create_task(work()) for work in (self._deliver, self._hand_over, self._decide)]
        try:
            async with asyncio.timeout(HANG_S):
                await self._ask()
                while self._open():
                    await asyncio.sleep(PAUSE_S)
                while not await self._taken(self._twin.ledger.barrier):
                    await asyncio.sleep(PAUSE_S)
        finally:
            for task in [*helpers, *self._turns]:
                task.cancel()
            done = await asyncio.gather(*helpers, *self._turns, return_exceptions=True)
        failed = [error for error in done if isinstance(error, Exception)]
        if failed:
            raise ExceptionGroup("the errand itself failed", failed)

    def _open(self) -> bool:
        state = self._twin.kernel.state
        failed = any(task.done() and task.exception() for task in self._turns)
        return not failed and bool(any(state.mail.values()) or state.turns or len(state.intents))

    # -- the client ----------------------------------------------------------------------------------------------

    async def _taken(self, work: Callable[[], Awaitable[object]]) -> bool:
        try:
            await work()
        except (LedgerUnavailable, Unavailable):
            return False
        return True

    async def _ask(self) -> None:
        """Have the two agents, and the message, once: what was accepted is not sent again."""
        state = self._twin.kernel.state
        fields: dict[str, Any] = {"tools": (*ALL, *MEMORY), "workspace": str(self._outside.workspace)}
        for name in ("ada", "bob"):
            while f"/user/{name}" not in state.slots:
                await self._taken(partial(self._twin.spawn, name, **fields))
                await asyncio.sleep(PAUSE_S)
        while not (found := self._outside.messages(WORK)):
            if await self._taken(partial(self._twin.send, "ada", WORK)):
                [ident] = self._outside.messages(WORK)
                self._outside.note("accepted", ident)
            await asyncio.sleep(PAUSE_S)
        if state.find_mail(found[0]) is not None:
            end = await self._twin.kernel.watchers.wait(found[0])
            self._outside.note("ended", found[0], end["status"], end["reply"])
            told = [r.body["reply"] for r in entries(self._outside.data, "turn.ended")]
            if end["reply"] not in told:
                self._outside.note("unrecorded", f"the end {end}, the disk has {told}")

    # -- the person ----------------------------------------------------------------------------------------------

    async def _decide(self) -> None:
        """Looks at the world, and says of each doubt what happened."""
        while True:
            for doubt in self._twin.kernel.state.doubts():
                word = "done" if self._outside.was_done(doubt.call.name) else "retry"
                self._outside.note("decided", doubt.call.name, word)
                with suppress(LedgerUnavailable, NotFound):
                    await self._twin.kernel.tool_calls.resolve(doubt.id, word, "operator:0")
            await asyncio.sleep(PAUSE_S)

    # -- the cells -----------------------------------------------------------------------------------------------

    async def _deliver(self) -> None:
        while True:
            at = await self._twin.cells.deliveries.get()
            self._turns.add(asyncio.create_task(self._turn(at)))

    async def _hand_over(self) -> None:
        while True:
            _, turn, ordinal, outcome = await self._twin.cells.results.get()
            self._waiting.pop((turn, ordinal)).set_result(outcome)

    async def _turn(self, at: Delivery) -> None:
        """As a real cell: the same message makes the same calls, in whichever boot."""
        match at.message.text:
            case text if text == WORK:
                reply = await self._work(at)
            case text if text == QUESTION:
                reply = (await self._tool(at, 0, "calculator", {"expression": "2+2"}))["text"]
            case _:
                reply = "hello"
        self._twin.finish(at, reply, [{"role": "user", "content": at.message.text}])

    async def _work(self, at: Delivery) -> str:
        self._twin.ask_model(at, [{"role": "user", "content": WORK}], 0, ["pay"])
        told = [await self._result(at, 0)]
        for round_, (tool, arguments) in enumerate(CALLS, 1):
            told.append(await self._tool(at, round_, tool, arguments))
            self._outside.note("told", tool, told[-1]["status"], told[-1]["text"])
        return json.dumps([*(one["status"] for one in told), told[3]["text"]])

    async def _tool(self, at: Delivery, round_: int, name: str, arguments: dict[str, Any]) -> Result:
        self._twin.ask_tool(at, name, arguments, round_)
        return await self._result(at, round_)

    def _result(self, at: Delivery, round_: int) -> asyncio.Future[Result]:
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting[at.turn, f"{round_}.0"] = future
        return future


async def errand(outside: Outside, disk: Disk | None = None) -> None:
    """One boot: until all is done."""
    async with kernel_twin(outside.data, disk=disk) as twin:
        await Errand(twin, outside).run()


def faults(outside: Outside) -> Iterator[str]:
    """What is wrong with the world and the ledger, once all is done and the node has stopped."""
    yield from agreed(outside, entries(outside.data))
    yield from _state(outside)
    for finding in verify(outside.data).findings:
        yield f"verify: {finding}"


def agreed(outside: Outside, found: list[EntryRecord]) -> Iterator[str]:
    """What of the errand is otherwise in the entries ``found`` than in the world."""
    yield from _effects(outside)
    yield from _records(found)
    yield from _promises(outside, found)


def _effects(outside: Outside) -> Iterator[str]:
    paid = outside.seen("effect").count(["pay"])
    if paid != 1:
        yield f"paid {paid} times, decided {outside.seen('decided')}"
    if not outside.was_done("file_write"):
        yield "the file is not written"


def _records(found: list[EntryRecord]) -> Iterator[str]:
    """Each thing once, whatever boot it was done in."""
    counts = Counter(record.entry.kind for record in found)
    for kind, once in {
        "message.accepted": 3,
        "turn.ended": 3,
        "memory.written": 1,
        "message.dead": 0,
    }.items():
        if counts[kind] != once:
            yield f"{counts[kind]} entries {kind}, expected {once}"
    texts = Counter(r.body["text"] for r in found if r.entry.kind == "message.accepted")
    if texts != Counter([WORK, QUESTION, GREETING]):
        yield f"accepted: {dict(texts)}"
    spawned = Counter(r.body["address"] for r in found if r.entry.kind == "process.spawned")
    if spawned != Counter(["/user", ADA, BOB, KID]):
        yield f"spawned: {dict(spawned)}"
    final = Counter(
        (r.body["turn"], r.body["ordinal"])
        for r in found
        if r.entry.kind == "tool.outcome" and r.body["status"] != "in_doubt"
    )
    if len(final) != len(CALLS) + 1 or set(final.values()) != {1}:
        yield f"final outcomes: {dict(final)}"


def _promises(outside: Outside, found: list[EntryRecord]) -> Iterator[str]:
    ends = {
        r.body["turn"]: [r.body["status"], r.body["reply"]] for r in found if r.entry.kind == "turn.ended"
    }
    accepted_work = [r for r in found if r.entry.kind == "message.accepted" and r.body["text"] == WORK]
    message = accepted_work[0].body["id"]
    for [accepted] in outside.seen("accepted"):
        if accepted != message:
            yield f"message {accepted} was accepted, the ledger has {message}"
    if ends[turn_id(message)] != ["ok", REPLY]:
        yield f"the reply is {ends[turn_id(message)]}"
    for words in outside.seen("unrecorded"):
        yield f"not on the disk: {words}"
    told = outside.seen("ended")
    if len(told) > 1 or any(words != [message, "ok", REPLY] for words in told):
        yield f"the client was told {told}"
    for tool in ("pay", "spawn_agent", "memory_write", "send_message"):
        if len({tuple(words[1:]) for words in outside.seen("told") if words[0] == tool}) > 1:
            yield f"of {tool} different things were told: {outside.seen('told')}"


def _state(outside: Outside) -> Iterator[str]:
    """What a replay of the journal comes to."""
    bounds = Bounds()
    state = State(bounds.session_records, bounds.session_bytes)
    for record in read_records(outside.data / "journal", Disk()):
        replay_into(state, record)
    tally = state.tally
    if tally.accepted != tally.acknowledged + state.in_flight + tally.dead + tally.dropped:
        yield f"conservation: {tally}, {state.in_flight} in flight"
    if state.in_flight or state.turns or len(state.intents) or state.kept_bytes or len(state.documents) != 1:
        yield f"left: {state.in_flight} messages, {len(state.turns)} turns, {len(state.intents)} intents, "
        yield f"{state.kept_bytes} bytes, {len(state.documents)} documents"


def entries(data: Path, *kinds: str) -> list[EntryRecord]:
    """What is in the journal."""
    found = [record for record in read_records(data / "journal", Disk()) if isinstance(record, EntryRecord)]
    return [record for record in found if not kinds or record.entry.kind in kinds]
