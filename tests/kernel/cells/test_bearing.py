"""What bears the cells of the local engine: a process of its own, from which each of them is forked."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from kernel.cells.engines import engine_local
from kernel.cells.engines.engine import EngineError
from kernel.cells.engines.engine_local import LocalEngine
from kernel.helper.os_processes import read_process
from tests.kernel.twins.cell_node import BOOT, ENV, Node, local_node
from tests.patience import HANG_S

NOWHERE = {"socket": "/nowhere"}


def with_node(body: Callable[[Node], Awaitable[None]]) -> None:
    async def run() -> None:
        async with local_node() as node:
            await body(node)

    asyncio.run(run())


def parent_of(os_pid: int) -> int:
    row = read_process(os_pid)
    assert row is not None
    return row.parent


async def two_cells(node: Node) -> tuple[int, int]:
    for pid in (1, 2):
        await node.start(pid, "Echo", isolation="dedicated")
    return node.cells.place_of(1).os_pid, node.cells.place_of(2).os_pid


class Exits:
    """An engine by itself, and what it tells of the ends of its cells."""

    def __init__(self, base: Path, dial: dict[str, str]) -> None:
        self.engine = LocalEngine(BOOT, dial, ENV, base, base / "log")
        self._told: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    async def open(self) -> None:
        await self.engine.open(
            lambda why: self._told.put_nowait(("", why)),
            lambda cell, why, _: self._told.put_nowait((cell, why)),
        )

    async def next(self) -> tuple[str, str]:
        return await asyncio.wait_for(self._told.get(), HANG_S)


def with_engine(base: Path, body: Callable[[Exits], Awaitable[None]]) -> None:
    async def run() -> None:
        exits = Exits(base, NOWHERE)
        await exits.open()
        try:
            await body(exits)
        finally:
            await exits.engine.close()

    asyncio.run(run())


def test_all_cells_are_forked_from_one_process_which_the_node_has_started() -> None:
    async def body(node: Node) -> None:
        first, second = await two_cells(node)
        assert first != second and parent_of(first) == parent_of(second) != os.getpid()
        assert parent_of(parent_of(first)) == os.getpid()

    with_node(body)


def test_a_cell_has_neither_the_socket_of_what_bears_it_nor_hold_of_another_cell() -> None:
    async def body(node: Node) -> None:
        for os_pid in await two_cells(node):
            held = [os.readlink(at) for at in Path(f"/proc/{os_pid}/fd").iterdir() if os.path.lexists(at)]
            assert sum(name.startswith("socket:") for name in held) <= 3, (
                held
            )  # its link, and its loop's own two
            assert not any("pidfd" in name for name in held), held

    with_node(body)


def test_two_cells_draw_other_random_numbers() -> None:
    async def body(node: Node) -> None:
        for pid in (1, 2):
            await node.start(pid, "Draws", isolation="dedicated")
        assert (await node.turn(1, "x"))["reply"] != (await node.turn(2, "x"))["reply"]

    with_node(body)


def test_when_it_is_killed_the_engine_is_lost_no_cell_has_died_by_itself_and_the_next_come_from_another() -> (
    None
):
    async def body(node: Node) -> None:
        first, _ = await two_cells(node)
        before = parent_of(first)
        os.kill(before, signal.SIGKILL)
        await node.notes.until(lambda: bool(node.notes.of("engine_lost")))
        lost = {pid: event for event in node.notes.of("cell_lost") for pid in event[3]}
        assert set(lost) == {1, 2}
        assert [event[4:6] for event in lost.values()] == [
            ("engine lost: the process that bears cells has ended", False)
        ] * 2
        await node.cells.open()
        await node.start(3, "Echo")
        assert (await node.turn(3, "hi"))["reply"] == "p3: hi"
        assert parent_of(node.cells.place_of(3).os_pid) != before

    with_node(body)


def test_the_ends_of_cells_that_are_heard_before_its_own_are_no_deaths_of_theirs() -> None:
    """The loop may read the end of a link before that of the control socket, which came first: here it never does."""

    async def body(node: Node) -> None:
        first, _ = await two_cells(node)
        engine = node.cells._engine
        assert isinstance(engine, LocalEngine)
        asyncio.get_running_loop().remove_reader(engine._bearing._control)  # type: ignore[arg-type]  # it is there
        os.kill(parent_of(first), signal.SIGKILL)
        await node.notes.until(lambda: bool(node.notes.of("engine_lost")))
        lost = {pid: event[4:6] for event in node.notes.of("cell_lost") for pid in event[3]}
        assert lost == dict.fromkeys((1, 2), ("engine lost: the process that bears cells has ended", False))

    with_node(body)


def test_one_that_is_stuck_is_ended_when_the_cell_that_it_was_to_bear_is_not_waited_for_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(exits: Exits) -> None:
        await exits.engine.start_cell("c1", "token")
        assert (await exits.next())[0] == "c1"
        [bearer] = (pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_child(pid))
        os.kill(bearer, signal.SIGSTOP)
        await exits.engine.start_cell("c2", "token")
        exits.engine.kill_cell("c2")
        assert is_child(bearer)  # it may yet
        monkeypatch.setattr(engine_local, "STUCK_S", 0.0)
        exits.engine.kill_cell("c2")
        assert await exits.next() == ("", "the process that bears cells has ended")
        await exits.engine.start_cell("c3", "token")
        assert (await exits.next())[0] == "c3"

    with_engine(tmp_path, body)


def test_the_end_of_a_cell_is_told_in_words_and_what_it_printed_is_in_the_log(tmp_path: Path) -> None:
    async def body(exits: Exits) -> None:
        await exits.engine.start_cell("c1", "token")
        assert await exits.next() == ("c1", "exit status 1")

    with_engine(tmp_path, body)


def test_one_that_is_not_wanted_any_more_before_it_is_born_is_killed(tmp_path: Path) -> None:
    async def body(exits: Exits) -> None:
        await exits.engine.start_cell("c1", "token")
        exits.engine.kill_cell("c1")
        cell, why = await exits.next()
        assert cell == "c1" and why in ("signal 9", "exit status 1")  # it may have ended by itself before
        assert (await exits.engine.census()).cells == ()

    with_engine(tmp_path, body)


def test_one_of_which_the_node_can_have_no_hold_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = socket.recv_fds

    def without(sock: socket.socket, size: int, most: int) -> tuple[bytes, list[int], int, object]:
        packet, fds, flags, address = receive(sock, size, most)
        for fd in fds:
            os.close(fd)
        return packet, [], flags, address

    async def body(exits: Exits) -> None:
        monkeypatch.setattr(socket, "recv_fds", without)
        await exits.engine.start_cell("c1", "token")
        assert await exits.next() == ("c1", "Too many open files")
        assert (await exits.engine.census()).cells == ()

    with_engine(tmp_path, body)


def test_what_was_ordered_of_one_that_has_ended_does_not_come(tmp_path: Path) -> None:
    async def body(exits: Exits) -> None:
        await exits.engine.start_cell("c1", "token")
        [bearer] = (pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if is_child(pid))
        os.kill(bearer, signal.SIGKILL)
        told = await exits.next()
        assert told in (("", "the process that bears cells has ended"), ("c1", "exit status 1"))
        await exits.engine.start_cell("c2", "token")
        assert (await exits.next())[0] == "c2"

    with_engine(tmp_path, body)


def is_child(pid: int) -> bool:
    """A cell's bearer of this process."""
    row = read_process(pid)
    return row is not None and row.alive and row.parent == os.getpid() and "kernel.cell" in command(pid)


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        engine = LocalEngine(BOOT, NOWHERE, ENV, tmp_path / "none", tmp_path / "log")
        with pytest.raises(EngineError, match=r"cannot start a cell: .*No such file"):
            await engine.start_cell("c1", "token")
        await engine.close()

    asyncio.run(run())
