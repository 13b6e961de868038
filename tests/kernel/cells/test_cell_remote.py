"""Cells on other machines: real cells over TCP and Noise, by a proxy that a test can cut; and whoever else dials."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import struct
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from kernel.abi import ABI_VERSION
from kernel.cell.link.frames import FrameDecoder, FrameError, encode_frame
from kernel.cell.link.noise_pipe import MAX_HANDSHAKE_BYTES, NoisePipe, OneTimeKey
from kernel.cells.cell_entrance import TcpEntrance, own_address_towards, split_address
from kernel.cells.cell_table import CellLimits
from kernel.cells.cells import Cells
from kernel.cells.engines.engine_local import LocalEngine
from kernel.errors import Invalid
from mesh.identity.identity import NoiseKey
from tests.descriptors import refusals_at_once
from tests.kernel.cells.test_cell_acceptor import HandEngine
from tests.kernel.twins.cell_node import BOOT, ENV, Node, Notes, message, placement, relimit
from tests.patience import HANG_S

SECRET = secrets.token_bytes(32)


class Proxy:
    """Stands between the cells and the node; ``cut`` lets nothing through any more and closes nothing."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._tasks: set[asyncio.Task[None]] = set()
        self._through = asyncio.Event()
        self._through.set()

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        for one, other in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.ensure_future(self._copy(one, other))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(2**16):
                await self._through.wait()
                writer.write(data)
        await self._through.wait()
        writer.close()

    def cut(self) -> None:
        self._through.clear()

    def mend(self) -> None:
        self._through.set()

    async def close(self) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()


class RemoteNode(Node):
    """``start`` tries again when a machine that stood still has cost the cell its lease before it could begin."""

    proxy: Proxy

    async def start(self, pid: int, behaviour: str, **changes: Any) -> None:
        notes, heard = self.notes, len(self.notes.all)

        def lost() -> bool:
            return any(event[0] == "cell_lost" and pid in event[3] for event in notes.all[heard:])

        while not notes.of("started", pid):
            del notes.all[heard:]
            self.cells.place(placement(pid, behaviour, **changes))
            await notes.until(lambda: bool(notes.of("started", pid)) or lost())


@asynccontextmanager
async def remote_node(**limits: Any) -> AsyncIterator[RemoteNode]:
    """A node whose cells are plain processes that come in over TCP, through a proxy."""
    with tempfile.TemporaryDirectory(prefix="wt") as directory:
        base = Path(directory)
        bounds = CellLimits(**({"hang_s": HANG_S} | limits))
        entrance = TcpEntrance("127.0.0.1:0", NoiseKey.from_secret(SECRET), BOOT, bounds.lease_s)
        proxy = Proxy(entrance.dial["host"], entrance.dial["port"])
        dial = {**entrance.dial, "port": await proxy.open()}
        engine = LocalEngine(BOOT, dial, ENV, base, base / "cells.log")
        notes = Notes()
        cells = Cells(engine, BOOT, entrance, base / "slots", notes.signals(), bounds)
        notes.cells = cells
        node = RemoteNode(cells, notes, base, bounds)
        node.proxy = proxy
        try:
            await cells.open()
            yield node
        finally:
            await proxy.close()
            await cells.close()


def with_remote(body: Callable[[RemoteNode], Awaitable[None]], **limits: Any) -> None:
    async def run() -> None:
        async with remote_node(**limits) as node:
            await body(node)

    asyncio.run(run())


async def ended(handle: int) -> None:
    """Wait for the end of the process of a pidfd, which the node has not killed."""
    gone = asyncio.Event()
    asyncio.get_running_loop().add_reader(handle, gone.set)
    try:
        await asyncio.wait_for(gone.wait(), HANG_S)
    finally:
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)


def test_a_process_lives_in_a_cell_on_the_far_side() -> None:
    async def body(node: RemoteNode) -> None:
        await node.start(1, "Caller")
        assert (await node.turn(1, "x"))["reply"] == f"three ['id1', 'id2'] hello 12.5 {2**64 - 1}"
        await node.start(2, "Loop")
        assert (await node.turn(2, "300"))["reply"] == "done"

    with_remote(body)


def test_messages_longer_than_a_noise_message_arrive_whole_both_ways() -> None:
    async def body(node: RemoteNode) -> None:
        await node.start(1, "Echo")
        text = "".join(chr(97 + number % 26) for number in range(3 * 2**20))
        assert (await node.turn(1, text))["reply"] == f"p1: {text}"

    with_remote(body)


def test_a_remote_cell_holds_of_ours_the_abi_its_shell_and_noise() -> None:
    async def body(node: RemoteNode) -> None:
        await node.start(1, "Modules")
        loaded = (await node.turn(1, "x"))["reply"].split()
        allowed = {
            "kernel",
            "kernel.abi",
            "kernel.cell",
            "kernel.shapes",
            "mesh",
            "mesh.bounded",
            "mesh.links",
            "mesh.links.noise",
            "mesh.errors",
        }
        assert "mesh.links.noise" in loaded
        assert [name for name in loaded if name not in allowed and not name.startswith("kernel.cell.")] == []

    with_remote(body)


def test_a_cut_link_ends_the_cell_by_itself_and_the_node_never_hears_it_again() -> None:
    async def body(node: RemoteNode) -> None:
        await node.start(1, "Waits")
        node.deliver(1, "sleep")
        await node.notes.wait("log", 1)
        handle = os.pidfd_open(node.cells.place_of(1).os_pid)
        engine = cast("LocalEngine", node.cells._engine)
        engine.kill_cell = lambda cell: None  # type: ignore[method-assign]  # a far machine is out of reach
        engine._on_exit = lambda cell, why, used_ms: None  # and says nothing
        node.proxy.cut()
        lost = await node.notes.wait("cell_lost")
        assert lost[2:5] == (0, [1], "nothing heard of it for 6 s")
        await ended(handle)
        heard = len(node.notes.all)
        node.proxy.mend()
        await node.start(2, "Echo", domain="other")
        assert [event for event in node.notes.all[heard:] if event[1] == 1] == []

    with_remote(body, lease_s=6.0, beat_s=0.2)


def test_a_cell_that_stood_still_for_its_lease_ends_when_it_goes_on() -> None:
    async def body(node: RemoteNode) -> None:
        await node.start(1, "Echo")
        os_pid = node.cells.place_of(1).os_pid
        handle = os.pidfd_open(os_pid)
        node.cells._engine.kill_cell = lambda cell: None  # type: ignore[method-assign]  # as above
        os.kill(os_pid, signal.SIGSTOP)
        assert (await node.notes.wait("cell_lost"))[3] == [1]
        os.kill(os_pid, signal.SIGCONT)
        await ended(handle)

    with_remote(body, lease_s=3.0, beat_s=0.2)


def test_a_cell_that_computes_keeps_its_lease_and_says_which_process_holds_it() -> None:
    async def body(node: RemoteNode) -> None:
        await node.start(1, "Blocks")
        await node.start(2, "Echo")
        node.deliver(1, "x")
        await node.notes.wait("log", 1)
        async with asyncio.timeout(HANG_S):
            while not (found := await node.cells.stacks(2)).stuck:  # it answers until it blocks
                await asyncio.sleep(0)
        calls = [call for stack in found.stacks for call in stack.calls]
        assert "time.sleep(3600)" in [call.source for call in calls]
        node.watch(hang_s=2.0)  # not before: a slow machine holds a cell too
        lost = await node.notes.wait("cell_lost")
        assert lost[2:5] == (1, [1, 2], "it did not answer for 2 s")
        assert node.notes.ends == [("timeout", ("/user/p1", 1))]

    with_remote(body, beat_s=0.1)


def test_a_cell_whose_node_is_gone_ends() -> None:
    async def run() -> None:
        async with remote_node(lease_s=1.0, beat_s=0.2) as node:
            await node.start(1, "Echo")
            handle = os.pidfd_open(node.cells.place_of(1).os_pid)
            node.cells._engine.kill_cell = lambda cell: None  # type: ignore[method-assign]  # as above
            node.cells.lose(node.cells._where[1], "for the test")
            await ended(handle)

    asyncio.run(run())


@pytest.mark.parametrize("frame", [["turn", 1, "t1", {"id": "m1"}, [], []], ["turn", 1]])
def test_a_cell_that_was_sent_what_it_cannot_read_ends(frame: list[Any]) -> None:
    async def body(node: RemoteNode) -> None:
        await node.start(1, "Echo")
        handle = os.pidfd_open(node.cells.place_of(1).os_pid)
        node.cells._engine.kill_cell = lambda cell: None  # type: ignore[method-assign]  # as above
        node.cells._where[1].port._host.send(frame)
        await ended(handle)

    with_remote(body)


# Whoever else dials: every byte is the test's


class Dialer:
    """One TCP connection to the node's door."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._frames: list[Any] = []

    def shake(self, hello: bytes, boot: int = BOOT, key: bytes = NoiseKey.from_secret(SECRET).public) -> None:
        self.pipe = NoisePipe(OneTimeKey(), boot, key, hello)
        self.decoder = FrameDecoder(boot)
        self.writer.write(self.pipe.begin())

    async def hear(self) -> Any:
        """The next frame but for pings and leases, which come whenever they are due."""
        while not self._frames:
            data = await asyncio.wait_for(self.reader.read(2**16), HANG_S)
            assert data, "the node closed the link"
            plain, reply = self.pipe.feed(data)
            self.writer.write(reply)
            self._frames += [frame for frame in self.decoder.feed(plain) if frame[0] not in ("lease", "ping")]
        return self._frames.pop(0)

    def say(self, frame: Any) -> None:
        self.writer.write(self.pipe.seal(encode_frame(BOOT, frame)))

    async def refused(self) -> None:
        """The node closes the link without having said a frame."""
        with suppress(ConnectionResetError):
            while data := await asyncio.wait_for(self.reader.read(2**16), HANG_S):
                if hasattr(self, "pipe"):
                    plain, reply = self.pipe.feed(data)
                    assert plain == b""
                    self.writer.write(reply)
        self.writer.close()


class Case:
    def __init__(
        self, cells: Cells, engine: HandEngine, notes: Notes, dial: dict[str, Any], limits: CellLimits
    ) -> None:
        self.cells = cells
        self.engine = engine
        self.notes = notes
        self._dial = dial
        self._limits = limits

    def limit(self, **changed: float) -> None:
        relimit(self._limits, **changed)

    async def dial(self) -> Dialer:
        return Dialer(*await asyncio.open_connection(self._dial["host"], self._dial["port"]))

    async def token(self) -> str:
        return (await asyncio.wait_for(self.engine.asked.get(), HANG_S))[1]

    async def cell(self, token: str) -> Dialer:
        dialer = await self.dial()
        dialer.shake(hello(token))
        assert await dialer.hear() == ["welcome", None]
        return dialer


def hello(token: str, abi: int = ABI_VERSION, boot: int = BOOT) -> bytes:
    return encode_frame(boot, ["hello", token, 4242, abi])


def with_door(body: Callable[[Case], Awaitable[None]], **limits: Any) -> None:
    async def run() -> None:
        with tempfile.TemporaryDirectory(prefix="wt") as directory:
            bounds = CellLimits(**({"hang_s": HANG_S} | limits))
            entrance = TcpEntrance("127.0.0.1:0", NoiseKey.from_secret(SECRET), BOOT, bounds.lease_s)
            engine, notes = HandEngine(), Notes()
            cells = Cells(engine, BOOT, entrance, Path(directory) / "slots", notes.signals(), bounds)
            await cells.open()
            try:
                await body(Case(cells, engine, notes, entrance.dial, bounds))
            finally:
                await cells.close()

    asyncio.run(run())


def framed(data: bytes) -> bytes:
    return struct.pack(">H", len(data)) + data


def first_message(payload: bytes) -> bytes:
    """A first handshake message whose payload anybody could read."""
    from mesh.links.noise import NoiseXX

    return framed(
        NoiseXX(True, OneTimeKey(), b"weftos/cell/1\n" + BOOT.to_bytes(8, "big")).write_message(payload)
    )


HOSTILE: dict[str, tuple[Callable[[Dialer, str], None], str]] = {
    "garbage": (
        lambda dialer, token: dialer.writer.write(b"GET / HTTP/1.1\r\n\r\n"),
        "handshake message of 18245",
    ),
    "zeros": (
        lambda dialer, token: dialer.writer.write(framed(bytes(32))),
        "cannot write a handshake message",
    ),
    "a short message": (lambda dialer, token: dialer.writer.write(framed(b"x")), "is not of this handshake"),
    "an empty message": (lambda dialer, token: dialer.writer.write(framed(b"")), "is not of this handshake"),
    "a long message": (
        lambda dialer, token: dialer.writer.write(struct.pack(">H", MAX_HANDSHAKE_BYTES + 1)),
        f"limit {MAX_HANDSHAKE_BYTES}",
    ),
    "a token in the open": (
        lambda dialer, token: dialer.writer.write(first_message(hello(token))),
        "the first handshake message holds a payload",
    ),
    "the plain link": (lambda dialer, token: dialer.writer.write(hello(token)), "visitor at the door"),
    "a made-up token": (lambda dialer, token: dialer.shake(hello("0" * 32)), "its token is not expected"),
    "no token": (lambda dialer, token: dialer.shake(b""), "no hello within"),
    "another ABI": (lambda dialer, token: dialer.shake(hello(token, abi=99)), "it speaks ABI 99"),
    "an old boot's frame": (
        lambda dialer, token: dialer.shake(hello(token, boot=BOOT - 1)),
        "this is boot 000000000000b007",
    ),
    "an oversized hello": (lambda dialer, token: dialer.shake(hello(token + "0" * 5000)), "limit 4096"),
    "a hello over the handshake": (
        lambda dialer, token: dialer.shake(hello(token + "0" * 20_000)),
        f"limit {MAX_HANDSHAKE_BYTES}",
    ),
    "a frame of a cell": (
        lambda dialer, token: dialer.shake(encode_frame(BOOT, ["started", 1])),
        "the first frame is not a hello",
    ),
}


@pytest.mark.parametrize(("act", "words"), HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_dialer_is_refused_and_the_true_cell_still_admitted(
    act: Callable[[Dialer, str], None], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(case: Case) -> None:
        token = await case.token()
        dialer = await case.dial()
        act(dialer, token)
        await dialer.refused()
        case.limit(hello_s=HANG_S)  # a true cell has all the time that it takes
        cell = await case.cell(token)
        assert words in caplog.text
        case.cells.place(placement(1, "Echo"))
        assert (await cell.hear())[:2] == ["start", 1]

    with_door(body, hello_s=0.5 if words.startswith("no hello") else HANG_S)


def test_a_token_opens_the_door_once(caplog: pytest.LogCaptureFixture) -> None:
    async def body(case: Case) -> None:
        token = await case.token()
        await case.cell(token)
        thief = await case.dial()
        thief.shake(hello(token))
        await thief.refused()
        assert "stale, used before, or made up" in caplog.text

    with_door(body)


def test_a_slow_handshake_and_a_crowd_are_sent_away(caplog: pytest.LogCaptureFixture) -> None:
    async def body(case: Case) -> None:
        slow = await case.dial()
        slow.writer.write(b"\x00")
        crowd = [await case.dial() for _ in range(3)]
        for dialer in (*crowd, slow):
            await dialer.refused()
        assert "when another one came; there is room for 2" in caplog.text
        assert "no hello within 0.3 s" in caplog.text

    with_door(body, hello_s=0.3, visitors=2)


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "another node": (
        {"key": NoiseKey.from_secret(secrets.token_bytes(32)).public},
        "is not the node of the start order",
    ),
    "another boot": ({"boot": BOOT - 1}, "is not of this handshake"),
}


@pytest.mark.parametrize(("order", "words"), OTHERS.values(), ids=OTHERS.keys())
def test_a_cell_shows_its_token_to_nobody_but_the_node_and_boot_of_its_start_order(
    order: dict[str, Any], words: str
) -> None:
    async def body(case: Case) -> None:
        dialer = await case.dial()
        dialer.shake(hello(await case.token()), **order)
        with pytest.raises(FrameError, match=words):
            await dialer.hear()
        dialer.writer.close()

    with_door(body)


LIES: dict[str, tuple[Callable[[Dialer], None], str]] = {
    "a beat too far": (lambda cell: cell.say(["beat", 2, 0]), "beat 2 after beat 0"),
    "another's pid": (lambda cell: cell.say(["log", 2, "x"]), "spoke for pid 2"),
    "a changed byte": (lambda cell: cell.writer.write(framed(bytes(40))), "were changed"),
    "a replayed message": (lambda cell: cell.writer.write(cell.pipe.seal(b"\0") * 2), "were changed"),
    "a plain frame": (lambda cell: cell.writer.write(encode_frame(BOOT, ["log", 1, "x"])), "were changed"),
}


@pytest.mark.parametrize(("lie", "words"), LIES.values(), ids=LIES.keys())
def test_a_remote_cell_that_lies_is_lost(lie: Callable[[Dialer], None], words: str) -> None:
    async def body(case: Case) -> None:
        cell = await case.cell(await case.token())
        case.cells.place(placement(1, "Echo"))
        assert (await cell.hear())[:2] == ["start", 1]
        cell.say(["started", 1])
        await case.notes.wait("started", 1)
        case.cells.deliver(1, "t1", message("x"), [], [])
        lie(cell)
        lost = await case.notes.wait("cell_lost")
        culprit = 0 if words == "were changed" else 1  # what is changed on the way is nobody's doing there
        assert lost[2:4] == (culprit, [1])
        assert words in lost[4]
        cell.writer.close()

    with_door(body)


def test_a_remote_cell_is_blamed_on_the_process_that_its_newest_beat_named() -> None:
    async def body(case: Case) -> None:
        cell = await case.cell(await case.token())
        case.cells.place(placement(1, "Echo"))
        assert (await cell.hear())[:2] == ["start", 1]
        cell.say(["started", 1])
        cell.say(["beat", 1, 1])
        await case.notes.wait("started", 1)
        cell.writer.close()
        assert (await case.notes.wait("cell_lost"))[2:4] == (1, [1])
        assert case.notes.ends == [("crash", None)]  # its machine may be gone

    with_door(body)


def test_no_descriptor_for_who_dials_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(case: Case) -> None:
        address = (case._dial["host"], case._dial["port"])
        assert await refusals_at_once(address, monkeypatch) == 1

    with_door(body)


def test_an_address_that_no_cell_could_dial_is_refused_by_name() -> None:
    for wrong in ("", "host", "host:", ":1", "host:x", "host:65536"):
        with pytest.raises(Invalid, match=r"is not HOST:PORT"):
            split_address(wrong)
    assert split_address("[::1]:80") == ("::1", 80)
    assert own_address_towards("127.0.0.1:9") == "127.0.0.1"
    with pytest.raises(Invalid, match="no address that a cell could dial"):
        TcpEntrance("0.0.0.0:0", NoiseKey.from_secret(SECRET), BOOT, 5.0)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        TcpEntrance(f"127.0.0.1:{taken.getsockname()[1]}", NoiseKey.from_secret(SECRET), BOOT, 5.0)
