"""Who may dial in, and what becomes of cells that lie: the real socket, with cells whose every byte a test
writes.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import struct
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kernel.abi import ABI_VERSION
from kernel.cell.link.frames import HEADER_BYTES, FrameDecoder, encode_frame
from kernel.cells.cell_acceptor import Acceptor
from kernel.cells.cell_entrance import UnixEntrance
from kernel.cells.cell_table import CellLimits
from kernel.cells.cells import Cells
from kernel.cells.engines.engine import EngineError, OnExit
from kernel.errors import Invalid
from kernel.helper.listening import listen
from tests.descriptors import refusals_at_once
from tests.kernel.twins.cell_node import BOOT, Notes, message, placement
from tests.patience import HANG_S
from tests.places import ROOT

RELAY = str(ROOT / "tests/kernel/twins/relay_child.py")


class HandEngine:
    """Starts nothing: the test is the cells. Can be told to fail, and to be lost."""

    name = "hand"

    def __init__(self) -> None:
        self.asked: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.killed: list[str] = []
        self.opened = 0
        self.fails = ""
        self.lose: Callable[[str], None] = lambda why: None
        self.exit: OnExit = lambda cell, why, used_ms: None

    async def open(self, on_lost: Callable[[str], None], on_exit: OnExit) -> None:
        self.opened += 1
        self.lose, self.exit = on_lost, on_exit

    async def start_cell(self, cell: str, token: str) -> None:
        if self.fails:
            raise EngineError(self.fails)
        self.asked.put_nowait((cell, token))

    def look(self) -> None: ...

    async def census(self) -> None: ...

    def kill_cell(self, cell: str) -> None:
        self.killed.append(cell)

    async def close(self) -> None:
        return

    def info(self) -> dict[str, Any]:
        return {}


class Relay:
    """A process that says what the test writes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._decoder = FrameDecoder(BOOT)
        self._frames: list[Any] = []

    def say(self, frame: Any, boot: int = BOOT) -> None:
        self.say_bytes(encode_frame(boot, frame))

    def say_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def hello(self, token: str, os_pid: int | None = None, abi: int = ABI_VERSION, boot: int = BOOT) -> None:
        self.say(["hello", token, self.process.pid if os_pid is None else os_pid, abi], boot)

    async def hear(self) -> Any:
        """The next frame but for pings, which come whenever they are due."""
        assert self.process.stdout is not None
        while not self._frames:
            data = await asyncio.wait_for(self.process.stdout.read(2**16), HANG_S)
            assert data, "the node closed the link"
            self._frames += [frame for frame in self._decoder.feed(data) if frame != ["ping"]]
        return self._frames.pop(0)

    async def ended(self) -> None:
        """The node closed the link, or killed the process."""
        await asyncio.wait_for(self.process.wait(), HANG_S)


class Case:
    def __init__(self, cells: Cells, engine: HandEngine, notes: Notes, socket_path: Path) -> None:
        self.cells = cells
        self.engine = engine
        self.notes = notes
        self.socket_path = socket_path
        self.relays: list[Relay] = []

    async def dial(self) -> Relay:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", RELAY, str(self.socket_path), stdin=-1, stdout=-1
        )
        self.relays.append(Relay(process))
        return self.relays[-1]

    async def token(self) -> str:
        return (await asyncio.wait_for(self.engine.asked.get(), HANG_S))[1]

    async def cell(self) -> Relay:
        """A good cell."""
        relay = await self.dial()
        relay.hello(await self.token())
        assert (await relay.hear())[0] == "welcome"
        return relay

    async def running(self, pid: int, relay: Relay) -> None:
        """Place a process and have the cell say that it runs."""
        self.cells.place(placement(pid, "Echo"))
        assert (await relay.hear())[:2] == ["start", pid]
        relay.say(["started", pid])
        await self.notes.wait("started", pid)


@asynccontextmanager
async def hand_node(**limits: Any) -> AsyncIterator[Case]:
    with tempfile.TemporaryDirectory(prefix="wd") as directory:
        base = Path(directory)
        engine, notes = HandEngine(), Notes()
        cells = Cells(
            engine,
            BOOT,
            UnixEntrance(base / "s"),
            base / "slots",
            notes.signals(),
            CellLimits(**({"hang_s": HANG_S} | limits)),
        )
        case = Case(cells, engine, notes, base / "s")
        await cells.open()
        try:
            yield case
        finally:
            await cells.close()
            for relay in case.relays:
                if relay.process.returncode is None:
                    relay.process.kill()
                await relay.ended()


def with_node(body: Callable[[Case], Awaitable[None]], **limits: Any) -> None:
    async def run() -> None:
        async with hand_node(**limits) as case:
            await body(case)

    asyncio.run(run())


REFUSED: dict[str, tuple[Callable[[Relay, str], None], str]] = {
    "a made-up token": (lambda relay, token: relay.hello("0" * 32), "its token is not expected"),
    "no token": (lambda relay, token: relay.hello(""), "its token is not expected"),
    "an old boot": (lambda relay, token: relay.hello(token, boot=BOOT - 1), "this is boot 000000000000b007"),
    "another process": (lambda relay, token: relay.hello(token, os_pid=1), "it says it is process 1"),
    "another ABI": (
        lambda relay, token: relay.hello(token, abi=99),
        f"it speaks ABI 99, this node {ABI_VERSION}",
    ),
    "no hello": (lambda relay, token: relay.say(["started", 1]), "the first frame is not a hello"),
    "garbage": (lambda relay, token: relay.say_bytes(b"GET / HTTP/1.1\r\n\r\n"), "announced, limit 4096"),
    "an oversized hello": (lambda relay, token: relay.hello(token + "0" * 5000), "limit 4096"),
}


@pytest.mark.parametrize(("say", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_visitor_is_refused_and_the_true_cell_still_admitted(
    say: Callable[[Relay, str], None], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(case: Case) -> None:
        token = await case.token()
        visitor = await case.dial()
        say(visitor, token)
        await visitor.ended()
        assert words in caplog.text
        case.engine.asked.put_nowait(("c1", token))
        await case.running(1, await case.cell())

    with_node(body)


def test_a_token_used_twice_is_refused_and_the_first_cell_stays(caplog: pytest.LogCaptureFixture) -> None:
    async def body(case: Case) -> None:
        token = await case.token()
        case.engine.asked.put_nowait(("c1", token))
        first = await case.cell()
        second = await case.dial()
        second.hello(token)
        await second.ended()
        assert "stale, used before, or made up" in caplog.text
        await case.running(1, first)

    with_node(body)


def test_a_token_of_a_cell_that_came_too_late_is_stale(caplog: pytest.LogCaptureFixture) -> None:
    async def body(case: Case) -> None:
        token = await case.token()
        case.cells.place(placement(1, "Echo"))
        lost = await case.notes.wait("cell_lost")
        assert lost[2:] == (0, [1], "cell c1 failed to start: it did not connect within 0.2 s", False)
        assert "c1" in case.engine.killed
        late = await case.dial()
        late.hello(token)
        await late.ended()
        assert "its token is not expected" in caplog.text

    with_node(body, connect_s=0.2)


def test_a_visitor_that_says_nothing_is_sent_away(caplog: pytest.LogCaptureFixture) -> None:
    async def body(case: Case) -> None:
        await (await case.dial()).ended()
        assert "no hello within 0.2 s" in caplog.text

    with_node(body, hello_s=0.2)


def test_only_so_many_visitors_may_stand_at_the_door(caplog: pytest.LogCaptureFixture) -> None:
    async def body(case: Case) -> None:
        standing = []
        for _ in range(3):
            visitor = socket.socket(socket.AF_UNIX)
            visitor.setblocking(False)
            await asyncio.get_running_loop().sock_connect(visitor, str(case.socket_path))
            standing.append(visitor)
        assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(standing[0], 1), HANG_S) == b""
        assert "when another one came; there is room for 2" in caplog.text
        for visitor in standing:
            visitor.close()

    with_node(body, visitors=2)


LIES: dict[str, tuple[bytes, str]] = {
    "another's pid": (encode_frame(BOOT, ["log", 2, "x"]), "spoke for pid 2, which is not in cell c1"),
    "garbage": (b"\x00\x00\x00\x02" + struct.pack(">Q", BOOT) + b"\xc1\xc1", "not msgpack"),
    "an old boot": (encode_frame(BOOT - 1, ["log", 1, "x"]), "frame of boot 000000000000b006"),
    "an oversized frame": (struct.pack(">IQ", 2**25, BOOT), f"frame of {2**25} bytes announced"),
    "an unknown frame": (encode_frame(BOOT, {"op": 1}), "a frame of no known shape"),
}


@pytest.mark.parametrize(("data", "words"), LIES.values(), ids=LIES.keys())
def test_a_cell_that_lies_is_killed_and_its_processes_are_lost(
    data: bytes, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(case: Case) -> None:
        liar = await case.cell()
        await case.running(1, liar)
        other = await case.cell()
        case.cells.place(placement(2, "Echo", domain="other"))
        assert (await other.hear())[:2] == ["start", 2]
        other.say(["started", 2])
        await case.notes.wait("started", 2)
        case.cells.deliver(1, "t1", message("x"), [], [])
        case.cells.deliver(2, "t2", message("x"), [], [])
        liar.say_bytes(data + encode_frame(BOOT, ["log", 1, "after the lie"]))
        lost = await case.notes.wait("cell_lost")
        assert lost[:4] == ("cell_lost", "c1", 1, [1])  # nobody else there was in a turn
        assert words in lost[4]
        assert words in caplog.text
        await liar.ended()
        assert liar.process.returncode == -9
        other.say(["call", 2, "t2", 0, 0, "now", {}])
        await case.notes.wait("syscall", 2)
        assert case.notes.of("log") == []

    with_node(body)


def test_a_cell_that_the_engine_cannot_start_is_lost_with_the_engines_words() -> None:
    async def body(case: Case) -> None:
        case.engine.fails = "no memory left"
        case.cells.place(placement(1, "Echo", isolation="dedicated"))
        case.cells.place(placement(2, "Echo", isolation="dedicated"))
        lost = await case.notes.wait("cell_lost", count=2)
        assert lost[3] == [2]
        assert "no memory left" in lost[4]

    with_node(body)


@pytest.mark.parametrize(
    ("in_turns", "asking", "culprit"),
    [((), (), 0), ((2,), (), 2), ((1, 2), (), 0), ((1, 2), (1,), 2), ((2,), (2,), 0)],
)
def test_the_only_one_at_work_on_a_turn_is_to_blame_for_a_cell_that_died_with_nobody_in_its_slot(
    in_turns: tuple[int, ...], asking: tuple[int, ...], culprit: int
) -> None:
    async def body(case: Case) -> None:
        relay = await case.cell()
        await case.running(1, relay)
        await case.running(2, relay)
        for pid in in_turns:
            case.cells.deliver(pid, f"t{pid}", message("x"), [], [])
        for pid in asking:
            relay.say(["call", pid, f"t{pid}", 0, 0, "tool", {"name": "slow", "arguments": "{}", "id": ""}])
            await case.notes.wait("syscall", pid)
        relay.process.kill()
        assert (await case.notes.wait("cell_lost"))[2:4] == (culprit, [1, 2])

    with_node(body)


def test_who_does_not_confirm_its_death_has_taken_its_cell_down_and_no_neighbour_is_blamed() -> None:
    async def body(case: Case) -> None:
        case.cells._watch.stop()  # the relay answers no ping, and would be lost for that first on a slow machine
        relay = await case.cell()
        await case.running(1, relay)
        await case.running(2, relay)
        (case.cells.slots_dir / "c1").write_bytes((1).to_bytes(8, sys.byteorder))
        case.cells.stop(2, "stopped")
        lost = await case.notes.wait("cell_lost")
        assert lost[2:] == (0, [1], "pid 2 still ran 0.1 s after its death", True)
        assert case.notes.ends == [("crash", ("/user/p2", 2))]

    with_node(body, confirm_s=0.1, hang_s=0.2, start_s=0.1)


def test_a_cell_that_ends_before_it_dials_is_lost_at_once() -> None:
    async def body(case: Case) -> None:
        await case.token()
        case.cells.place(placement(1, "Echo"))
        case.engine.exit("c1", "exit status 3", 0)
        lost = await case.notes.wait("cell_lost")
        assert lost[2:] == (0, [1], "cell c1 failed to start: exit status 3", False)

    with_node(body)


def test_a_cell_that_ended_is_lost_though_another_process_holds_its_link() -> None:
    async def body(case: Case) -> None:
        relay = await case.cell()
        await case.running(1, relay)
        case.engine.exit(
            "c1", "signal 9", 0
        )  # the relay still holds the link, as a process would that it forked
        assert await case.notes.wait("cell_lost") == ("cell_lost", "c1", 0, [1], "end of file", True)

    with_node(body)


def test_a_cell_that_had_not_read_all_when_it_was_killed_ended_as_any_other() -> None:
    """The socket says "reset" then, and not "end of file": which of the two depends on how far the cell had come."""

    async def body(case: Case) -> None:
        relay = await case.cell()
        await case.running(1, relay)
        relay.process.send_signal(signal.SIGSTOP)
        case.cells.place(placement(2, "Echo"))
        for _ in range(5):
            await asyncio.sleep(0)
        relay.process.kill()
        assert (await case.notes.wait("cell_lost"))[2:] == (0, [1, 2], "end of file", True)

    with_node(body)


def test_an_entrance_that_could_not_be_opened_is_opened_at_the_next_try() -> None:
    async def body(case: Case) -> None:
        socket_path = case.socket_path.with_name("again")
        entrance = UnixEntrance(socket_path)
        real, fails = entrance.open, [OSError(errno.EMFILE, os.strerror(errno.EMFILE))]

        async def once(acceptor: Acceptor) -> None:
            if fails:
                raise fails.pop()
            await real(acceptor)

        entrance.open = once  # type: ignore[method-assign]
        cells = Cells(
            HandEngine(), BOOT, entrance, socket_path.with_name("more"), Notes().signals(), CellLimits()
        )
        with pytest.raises(OSError):
            await cells.open()
        for _ in range(2):  # the second time as after the end of an engine
            await cells.open()
        await asyncio.open_unix_connection(socket_path)
        await cells.close()

    with_node(body)


def test_an_engines_end_loses_each_cell_once_and_what_waits_starts_when_it_is_back() -> None:
    async def body(case: Case) -> None:
        first = await case.cell()
        await case.running(1, first)
        case.cells.place(placement(2, "Echo", domain="other"))  # its cell has not dialled yet
        (case.cells.slots_dir / "c1").write_bytes((1).to_bytes(8, sys.byteorder))  # it computes just then
        case.engine.lose("killed")
        await first.ended()
        assert await case.notes.wait("engine_lost") == ("engine_lost", "killed")
        assert await case.notes.wait("cell_lost") == ("cell_lost", "c1", 0, [1], "engine lost: killed", False)
        case.cells.place(placement(3, "Echo", domain="other"))
        while not case.engine.asked.empty():
            case.engine.asked.get_nowait()
        await case.cells.open()
        relay = await case.cell()
        assert {(await relay.hear())[1], (await relay.hear())[1]} == {2, 3}
        assert len(case.notes.of("cell_lost")) == 1
        assert case.notes.of("start_failed") == []

    with_node(body)


def test_what_waits_for_an_engine_that_does_not_come_back_fails_in_the_end() -> None:
    async def body(case: Case) -> None:
        case.engine.lose("killed")
        case.cells.place(placement(1, "Echo"))
        assert (await case.notes.wait("cell_lost"))[2:] == (0, [1], "no cell within 0.2 s", False)

    with_node(body, wait_s=0.2)


def test_the_socket_is_private_and_replaces_what_a_dead_node_left(tmp_path: Path) -> None:
    path = tmp_path / "s"
    listen(path).close()
    listener = listen(path)
    assert os.stat(path).st_mode & 0o777 == 0o600
    listener.close()


def test_a_socket_path_that_is_too_long_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="bytes, the limit is 107"):
        listen(tmp_path / ("x" * 120))


def test_no_descriptor_for_who_dials_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(case: Case) -> None:
        assert await refusals_at_once(str(case.socket_path), monkeypatch) == 1

    with_node(body)


def test_the_header_is_all_that_a_garbage_hello_needs_to_be_refused() -> None:
    async def body(case: Case) -> None:
        visitor = await case.dial()
        visitor.say_bytes(b"\xff" * HEADER_BYTES)
        await visitor.ended()

    with_node(body)
