"""Every frame that a cell can send, true and false, against the node's own door, link, port and kernel.

The cell is a socket in this process; what it says reaches a real kernel over a real ledger. Each link ends with a lie,
so that its end tells that everything before it was heard.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kernel.abi import ABI_VERSION
from kernel.cell.link.frames import FrameDecoder, encode_frame
from kernel.cells.cell_acceptor import Acceptor, CellConnection
from kernel.cells.cell_entrance import UnixEntrance
from kernel.cells.cell_table import CellLimits
from kernel.cells.cells import Cells
from kernel.cells.started_cell import StartedCell
from kernel.helper.listening import listen
from kernel.signals import Signals
from tests.kernel.cells.test_cell_acceptor import HandEngine
from tests.kernel.twins.kernel_twin import Twin, kernel_twin
from tests.patience import HANG_S
from tests.prove.fuzz_watch import Fuzzed, Watch
from tests.prove.hostile_values import HostileValues

BOOT = 7
FRAMES_PER_LINK = 12
HEALTHY_EVERY = 200
TOOLS = ("calculator", "ask", "send_message", "pay", "memory_search")
LIE = ["log", 2**40, "the end"]


class FuzzEntrance(UnixEntrance):
    """Its visitors are sockets of this very process, so no process is killed for what they say."""

    async def open(self, acceptor: Acceptor) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            lambda: acceptor.connection(CellConnection), sock=listen(self._path)
        )


class CountingCells(Cells):
    """``heard``: the frames that were understood or refused; not those behind the one that ended a link."""

    heard = 0

    def _received(self, cell: StartedCell, frame: Any) -> None:
        self.heard += 1
        super()._received(cell, frame)

    def _link_closed(self, cell: StartedCell, error: Exception | None) -> None:
        self.heard += str(error).startswith("frame of")
        super()._link_closed(cell, error)


class HostileCell:
    """One link, with process ``pid`` running in ``turn``."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder(BOOT, max_values=None)
        self._frames: list[Any] = []
        self.pid = 0
        self.turn = ""

    def say(self, frame: Any) -> None:
        self._writer.write(encode_frame(BOOT, frame))

    def say_payload(self, payload: bytes, boot: int = BOOT) -> None:
        self._writer.write(len(payload).to_bytes(4, "big") + boot.to_bytes(8, "big") + payload)

    async def hear(self, what: str) -> list[Any]:
        """The next frame of that kind."""
        async with asyncio.timeout(HANG_S):
            while True:
                while not self._frames:
                    data = await self._reader.read(2**16)
                    assert data, f"the node closed the link of a good cell, waiting for {what}"
                    self._frames += self._decoder.feed(data)
                frame: list[Any] = self._frames.pop(0)
                if frame[0] == what:
                    return frame

    async def ended(self) -> None:
        """Until the node has closed the link."""
        async with asyncio.timeout(HANG_S):
            try:
                while await self._reader.read(2**16):
                    pass
            except ConnectionError:
                pass
        self._writer.close()


class CellFuzz:
    """The node under fuzz, and one cell after the other."""

    def __init__(self, twin: Twin, cells: CountingCells, engine: HandEngine, path: Path, seed: str) -> None:
        self._twin = twin
        self._cells = cells
        self._engine = engine
        self._path = path
        self._rng = random.Random(seed)
        self._values = HostileValues(self._rng)
        self.links = 0

    async def cell(self) -> HostileCell:
        """A good cell with a process in a turn."""
        _, token = await asyncio.wait_for(self._engine.asked.get(), HANG_S)
        cell = HostileCell(*await asyncio.open_unix_connection(self._path))
        cell.say(["hello", token, 1, ABI_VERSION])
        await cell.hear("welcome")
        self.links += 1
        name = f"p{self.links}"
        spawned = asyncio.ensure_future(self._twin.spawn(name, restart="temporary", tools=TOOLS))
        cell.pid = (await cell.hear("start"))[1]
        cell.say(["started", cell.pid])
        await spawned
        await self._twin.send(name)
        cell.turn = (await cell.hear("turn"))[2]
        return cell

    async def healthy(self) -> None:
        """A cell that does as it should is answered."""
        cell = await self.cell()
        mail = self._twin.kernel.state.turns[cell.turn].mail
        end = asyncio.ensure_future(self._twin.end_of(mail))
        await asyncio.sleep(0)
        cell.say(["call", cell.pid, cell.turn, 0, 0, "now", {}])
        await cell.hear("result")
        cell.say(
            ["done", cell.pid, cell.turn, {"reply": "well", "remember": [], "status": "ok", "stages": []}]
        )
        assert (await asyncio.wait_for(end, HANG_S))["reply"] == "well"
        cell.say(LIE)
        await cell.ended()

    async def hostile(self) -> None:
        """A cell that says one frame after the other until it is closed."""
        cell = await self.cell()
        for round_ in range(FRAMES_PER_LINK):
            frame = self._true_frame(cell, round_)
            boot = BOOT if self._rng.random() < 0.99 else self._rng.getrandbits(64)
            cell.say_payload(self._values.payload(frame), boot)
        cell.say(LIE)
        await cell.ended()

    def _true_frame(self, cell: HostileCell, round_: int) -> list[Any]:
        """One that a cell in this place may send, of any kind."""
        pid, turn = cell.pid, cell.turn
        args: dict[str, Any] = {"name": self._rng.choice(TOOLS), "arguments": '{"expression":"1"}', "id": "a"}
        model = {
            "messages": [{"role": "user", "content": "hi"}],
            "tools": ["ask"],
            "provider": "",
            "model": "",
            "terms": None,
            "options": None,
            "sections": [],
        }
        result = {"reply": "r", "remember": [{"a": [1, "b"]}], "status": "ok", "stages": []}
        kinds: tuple[Callable[[], list[Any]], ...] = (
            lambda: ["call", pid, turn, round_, 0, "tool", args],
            lambda: ["call", pid, turn, round_, 0, "model", model],
            lambda: [
                "call",
                pid,
                turn,
                round_,
                0,
                "model",
                model | {"terms": {"count": 1, "hash": "00", "pieces": [[0, 1], 1]}},
            ],
            lambda: ["call", pid, turn, round_, 0, self._rng.choice(("now", "random")), {}],
            lambda: ["log", pid, "text"],
            lambda: ["pong"],
            lambda: ["beat", 1, pid],
            lambda: ["done", pid, turn, result],
            lambda: ["started", pid],
            lambda: ["failed", pid, "why"],
            lambda: ["ended", pid, turn],
            lambda: ["crashed", pid, turn, "why"],
            lambda: ["exited", pid, turn, "normal"],
            lambda: ["stopped", pid],
            lambda: ["hello", "token", 1, ABI_VERSION],
        )
        weights = (6, 6, 4, 3, 3, *[1] * (len(kinds) - 5))
        return self._rng.choices(kinds, weights)[0]()


async def fuzz_cells(place: Path, frames: int, seed: str, tell: Callable[[int], None]) -> Fuzzed:
    """Until ``frames`` were heard; ``tell`` how many."""
    engine, path = HandEngine(), place / "s"

    def counting(signals: Signals) -> CountingCells:
        limits = CellLimits(confirm_s=HANG_S)
        return CountingCells(engine, BOOT, FuzzEntrance(path), place / "slots", signals, limits)

    async with kernel_twin(place, make_cells=counting) as twin:
        cells = twin.kernel.cells
        assert isinstance(cells, CountingCells)
        await cells.open()
        fuzz = CellFuzz(twin, cells, engine, path, seed)
        with Watch() as watch:
            await fuzz.healthy()
            warm = min(frames // 4, 5_000)
            while cells.heard < frames:
                await (fuzz.hostile() if fuzz.links % HEALTHY_EVERY else fuzz.healthy())
                if warm and cells.heard >= warm:
                    warm = 0
                    watch.warm()
                tell(min(cells.heard, frames))
            await fuzz.healthy()
            return watch.result(cells.heard, fuzz.links)
