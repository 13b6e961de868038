"""Behaviours for the tests of cells: the good, the bad and the stubborn."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import sys
import time
from collections import Counter
from typing import Any, ClassVar

from kernel.abi import (
    OPEN_CALLS,
    LogicalExit,
    Message,
    ModelRequest,
    ProcessInfo,
    Syscalls,
    ToolCall,
    TurnResult,
)


class Base:
    def __init__(self, info: ProcessInfo) -> None:
        self.info = info


class Echo(Base):
    async def handle(self, message: Message, sys: Syscalls) -> str:
        return f"{self.info.name}: {message.text}"


class Draws(Base):
    """Answers with a number of the interpreter's own generator."""

    async def handle(self, message: Message, sys: Syscalls) -> str:
        return repr(random.random())


class Caller(Base):
    """Makes one call of each kind and remembers what came back."""

    async def handle(self, message: Message, sys: Syscalls) -> TurnResult:
        first = await sys.call_tool("add", {"b": 2, "a": 1})
        both = await sys.call_tools([ToolCall("x", "{}", "id1"), ToolCall("y", "[1", "id2")])
        answer = await sys.ask_model(ModelRequest(({"role": "user", "content": "hi"},), ("add",)))
        now, dice = await sys.now(), await sys.random()
        sys.log("a line")
        return TurnResult(
            reply=f"{first.text} {[r.id for r in both]} {answer.text} {now} {dice}",
            remember=({"history": await sys.history(), "tools": await sys.tools()},),
        )


class Loop(Base):
    """Makes as many calls as the message says."""

    async def handle(self, message: Message, sys: Syscalls) -> str:
        for _ in range(int(message.text)):
            await sys.call_tool("t", "{}")
        return "done"


class Waits(Base):
    """Waits for a tool call, or for nothing at all, and says how it ended."""

    async def handle(self, message: Message, sys: Syscalls) -> str:
        if message.text == "sleep":
            sys.log("sleeping")
            await asyncio.sleep(3600)
        await sys.call_tool("slow", "{}")
        return "went on"


class Burns(Base):
    """Computes until it is stopped, and lets others have a turn."""

    async def handle(self, message: Message, sys: Syscalls) -> str:
        while True:
            sum(range(10_000))
            await asyncio.sleep(0)


class BurnsAndGoes(Base):
    """Computes for a tenth of a second, then leaves, or is killed."""

    async def handle(self, message: Message, sys: Syscalls) -> str:
        until_s = time.process_time() + 0.1
        while time.process_time() < until_s:
            sum(range(10_000))
        if message.text == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise SystemExit


class Stubborn(Base):
    """Survives any number of cancellations."""

    async def handle(self, message: Message, sys: Syscalls) -> str:
        sys.log("stubborn")
        while True:
            try:
                await asyncio.sleep(3600)
            except BaseException:
                continue


class Leaves(Base):
    """Starts a task that outlives its turn."""

    async def handle(self, message: Message, sys: Syscalls) -> str:
        self.task = asyncio.create_task(self.linger(sys))
        await asyncio.sleep(0)
        return "left"

    async def linger(self, sys: Syscalls) -> None:
        await asyncio.sleep(3600)


class Crashes(Base):
    async def handle(self, message: Message, sys: Syscalls) -> Any:
        match message.text:
            case "raise":
                raise ValueError("two\nlines \x1b[31m")
            case "exit 0":
                raise SystemExit
            case "exit 3":
                raise SystemExit(3)
            case "logical":
                raise LogicalExit("refused", "two\nlines \x1b[31m" + "x" * 1000)
            case "logical of its own":
                raise Futile("no_progress", "more")
            case "logical nonsense":
                raise Muddled("refused")
            case "logical tired":
                raise Tired("tired")
            case "nested":
                raise Unspeakable
            case "type":
                return 42
            case "task exit":
                await asyncio.create_task(self.leave())
            case "surrogate":
                return "\ud800"
            case "huge":
                return "x" * (17 * 2**20)
        return "fine"

    async def leave(self) -> None:
        sys.exit(1)


class Futile(LogicalExit):
    """One of the behaviour's own."""


class Muddled(LogicalExit):
    """One that does not say what it should."""

    def __init__(self, reason: str) -> None:
        self.detail = 7  # type: ignore[assignment]  # that is the point


class Tired(LogicalExit):
    """One that gives a reason of its own."""

    def __init__(self, reason: str) -> None:
        self.reason = reason  # type: ignore[assignment]  # that is the point
        self.detail = "x"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Kills(Base):
    """Is killed in the middle of a step of its own."""

    async def handle(self, message: Message, sys: Syscalls) -> str:
        if message.text == "in a task":
            await asyncio.gather(self.kill())
        await self.kill()
        return "unreachable"

    async def kill(self) -> None:
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGKILL)


class Blocks(Base):
    """Holds the event loop of its cell."""

    async def handle(self, message: Message, sys: Syscalls) -> str:
        sys.log("blocking")
        await asyncio.sleep(0.01)
        time.sleep(3600)
        return "unreachable"


class NeverYields(Base):
    """Native code that never gives the interpreter back: no other thread of the cell goes on either."""

    async def handle(self, message: Message, sys: Syscalls) -> str:
        sys.log("computing")
        await asyncio.sleep(0.01)
        sum(itertools.repeat(0))
        return "unreachable"


class Explodes(Base):
    """Takes 128 MiB and keeps the cell with it."""

    async def handle(self, message: Message, sys: Syscalls) -> str:
        held = bytearray(os.urandom(1)) * (128 * 2**20)
        sys.log(f"holds {len(held)}")
        await asyncio.sleep(0.01)
        time.sleep(3600)
        return "unreachable"


class StartRaises(Echo):
    def __init__(self, info: ProcessInfo) -> None:
        raise RuntimeError("no such start")


class StartHangs(Echo):
    def __init__(self, info: ProcessInfo) -> None:
        time.sleep(3600)


class Strays(Base):
    """Does what its message says, and the next time something else."""

    runs: Counter[str] = Counter()  # noqa: RUF012 -- what both of its instances have

    def __init__(self, info: ProcessInfo) -> None:
        super().__init__(info)
        self.word = info.config.pop("word")

    async def handle(self, message: Message, sys: Syscalls) -> TurnResult:
        self.runs[message.text] += 1
        run = self.runs[message.text]
        match message.text:
            case "asks":
                await sys.now()
                await sys.call_tool("t", {"run": run})
            case "asks more":
                for _ in range(run):
                    await sys.now()
            case "asks less":
                for _ in range(3 - run):
                    await sys.now()
            case "raises" if run > 1:
                raise ValueError("again")
            case "returns":
                return TurnResult(f"run {run}")
            case "changes what it asked":
                asked = {"role": "user", "content": "hi"}
                await sys.ask_model(ModelRequest((asked,)))
                asked["content"] = "changed"
            case "changes what it was told":
                for record in await sys.history():
                    await sys.call_tool("t", record)
                    record["old"] = "changed"
                answer = await sys.ask_model(ModelRequest(({"role": "user", "content": "hi"},)))
                await sys.call_tool("t", str(answer))
            case "large":
                await sys.call_tool("t", "x" * (17 * 2**20))
            case "together":
                await asyncio.gather(sys.now(), sys.random(), sys.call_tool("t", {}))
        return TurnResult("done")


class GoesOn(Base):
    """Leaves a task that goes on making calls, and takes longer the second time."""

    left: ClassVar[list[asyncio.Task[None]]] = []

    async def handle(self, message: Message, sys: Syscalls) -> str:
        self.left.append(asyncio.create_task(self.again(sys)))
        await asyncio.sleep(0.2 * (len(self.left) - 1))
        return "done"

    @staticmethod
    async def again(sys: Syscalls) -> None:
        while True:
            await sys.call_tool("left", {})


class Promises(Base):
    """Answers with an awaitable that is no coroutine."""

    def handle(self, message: Message, sys: Syscalls) -> asyncio.Future[str]:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        answer.set_result("done")
        return answer


class Remembering(Base):
    """Counts its turns in memory, which a crash takes."""

    turns = 0

    async def handle(self, message: Message, sys: Syscalls) -> str:
        self.turns += 1
        await sys.call_tool("t", {"turn": self.turns})
        return "done"


class Large(Base):
    """A call that is over the frame limit is an answer, not a crash."""

    async def handle(self, message: Message, sys: Syscalls) -> str:
        result = await sys.call_tool("t", "x" * (17 * 2**20))
        second = await sys.call_tool("t", "{}")
        return f"{result.status} {second.status}"


class Many(Base):
    """Makes more calls at once than may be under way."""

    async def handle(self, message: Message, sys: Syscalls) -> str:
        together = await sys.call_tools([ToolCall("t", "{}")] * 400)
        apart = await asyncio.gather(*(sys.now() for _ in range(400)))
        return f"{len(together)} {len(apart)} {set(apart)}"


class Flood(Base):
    """Speaks past its own shell: more calls than may be under way."""

    async def handle(self, message: Message, sys: Any) -> str:
        for round_ in range(OPEN_CALLS + 1):
            sys._send(
                ["call", sys._pid, sys._turn, round_, 0, "tool", {"name": "slow", "arguments": "", "id": ""}]
            )
        await asyncio.sleep(3600)
        return "unreachable"


class Foreign(Base):
    """Asks with something that no frame may hold."""

    async def handle(self, message: Message, sys: Syscalls) -> str:
        strange: Any = {("a", "key"): 1}
        await sys.ask_model(ModelRequest(({"role": "user", "content": strange},)))
        return "unreachable"


class Modules(Base):
    """Tells what the cell has loaded."""

    async def handle(self, message: Message, sys_: Syscalls) -> str:
        ours = ("chain", "cognition", "kernel", "mesh", "weftos", "duckdb")
        return " ".join(sorted(name for name in sys.modules if name.split(".")[0] in ours))


class NotABehaviour:
    pass


class Steps(Base):
    """Asks for the time again and again, as often as the message says, with a pause between."""

    async def handle(self, message: Message, sys: Syscalls) -> str:
        for _ in range(int(message.text)):
            await sys.now()
            await asyncio.sleep(0.1)
        return f"took {message.text} steps"
