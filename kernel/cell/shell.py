"""The cell: one link to the node, and the processes that the node has handed over.

Frames from the node::

    welcome slot-path                                   after a good hello; nil for a cell on another machine
    start pid order
    turn pid turn message history tools
    result pid turn round index outcome                 whole pid turn round index
    end pid turn why           stop pid why             ping

and to it: ``hello token os-pid abi-version``, then

    started pid                failed pid why           a start's answer; failed is followed by stopped
    call pid turn round index op args
    done pid turn result       ended pid turn           crashed pid turn why       exited pid turn reason detail
    stopped pid                log pid text             pong

Orders, messages, arguments, outcomes and results have the shapes of :mod:`kernel.cell.protocol`.
The node is trusted and the cell is not. A cell that loses its link ends at once: nothing thinks without a
kernel. One that dials over TCP (:mod:`kernel.cell.remote`) says its hello inside the Noise handshake and holds a lease
(:mod:`kernel.cell.link.lease`), by the frames ``lease heard`` and ``beat number running-pid``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any, Protocol

from kernel.abi import ABI_VERSION, Message, ProcessInfo
from kernel.cell.link.frames import OWN, FrameError, FrameLink
from kernel.cell.load import BehaviourError, construct, load_behaviour
from kernel.cell.process import CellProcess, Delivery
from kernel.cell.protocol import StartOrder
from kernel.cell.slot import Slot
from kernel.cell.steps import Steps, task_factory
from kernel.shapes import ShapeError, read


class Link(Protocol):
    """What a cell speaks into."""

    def send(self, value: Any) -> None: ...


class Cell:
    """The processes of a cell. ``link`` is set before the first frame is heard."""

    link: Link

    def __init__(self) -> None:
        self._slot = Slot(None)
        self._processes: dict[int, CellProcess] = {}
        self._operations: dict[str, Callable[..., None]] = {
            "welcome": self._welcome,
            "start": self._start,
            "turn": self._turn,
            "result": self._result,
            "whole": self._whole,
            "end": self._end,
            "stop": self._stop,
            "ping": self._ping,
        }

    def running(self) -> int:
        """The PID of the process that is running right now, 0 when none is."""
        return int(self._slot.running[0])

    def received(self, frame: Any) -> None:
        """One frame from the node. Raises FrameError."""
        try:
            operation = self._operations[frame[0]]
        except (LookupError, TypeError) as error:
            raise FrameError("the node sent a frame that this cell does not know") from error
        try:
            operation(*frame[1:])
        except ShapeError as error:
            raise FrameError(f"the node sent a {frame[0]} of the wrong shape: {error}") from None

    def _welcome(self, slot_path: str | None) -> None:
        self._slot = Slot(slot_path)

    def _start(self, pid: int, start: dict[str, Any]) -> None:
        order = read(StartOrder, start)
        steps = Steps(pid, self._slot.running)
        info = ProcessInfo(pid, order.address, order.name, order.behaviour, order.config, order.last_exit)
        try:
            behaviour = steps.run(
                lambda: construct(load_behaviour(order.import_string, order.python_path), info)
            )
        except BehaviourError as error:
            self.link.send(["failed", pid, str(error)])
            steps.cancel()
            self.link.send(["stopped", pid])
            return
        self._processes[pid] = CellProcess(behaviour, steps, self.link.send, self._gone)
        self.link.send(["started", pid])

    def _gone(self, pid: int) -> None:
        self._processes.pop(pid, None)

    def _turn(
        self, pid: int, turn: str, message: dict[str, Any], history: list[dict[str, Any]], tools: list[str]
    ) -> None:
        process = self._processes.get(pid)
        if process is not None:
            process.deliver(Delivery(turn, read(Message, message), history, tools))

    def _result(self, pid: int, turn: str, round_: int, index: int, outcome: Any) -> None:
        process = self._processes.get(pid)
        if process is not None:
            process.resolve(turn, round_, index, outcome)

    def _whole(self, pid: int, turn: str, round_: int, index: int) -> None:
        process = self._processes.get(pid)
        if process is not None:
            process.say_whole(turn, round_, index)

    def _end(self, pid: int, turn: str, why: str) -> None:
        process = self._processes.get(pid)
        if process is not None:
            process.end(turn, why)

    def _stop(self, pid: int, why: str) -> None:
        process = self._processes.get(pid)
        if process is not None:
            process.stop()

    def _ping(self) -> None:
        self.link.send(["pong"])


def run_cell(dial: dict[str, Any], token: str, boot: int) -> None:
    """Dial the node and serve until the link ends; then leave the process at once, whatever still runs in it.

    ``dial`` says where the node is: {socket}, or {host, port, key, lease_s} on another machine.
    """

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(task_factory)
        cell = Cell()
        if "socket" in dial:
            hello = ["hello", token, os.getpid(), ABI_VERSION]
            link = FrameLink(
                boot,
                cell.received,
                lambda error: os._exit(0),
                lambda opened: opened.send(hello),
                bounds=OWN,
            )
            cell.link = link
            await loop.create_unix_connection(lambda: link, dial["socket"])
        else:
            from kernel.cell.remote import RemoteLink  # Noise, which a cell beside its node does without

            remote = RemoteLink(dial, token, boot, cell.received, cell.running, _leave)
            cell.link = remote
            remote.start()
        await loop.create_future()

    asyncio.run(serve())


def _leave(why: str) -> None:
    print(f"cell: {why}", file=sys.stderr, flush=True)
    os._exit(0)
