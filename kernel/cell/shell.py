"""The cell: one link to the node, and the processes that the node has handed over.

Frames from the node::

    welcome slot-path                                   after a good hello; nil for a cell on another machine
    start pid order
    like pid address name ...                           more starts, else as in the last order
    configure pid config                                what its behaviour is told from its next turn on
    turn pid turn message history tools sizes
    result pid turn round index outcome                 whole pid turn round index
    end pid turn why           stop pid why             ping
    stack pid number

and to it: ``hello token os-pid abi-version``, then

    started pid ...            failed pid why           answers to starts; failed is followed by stopped
    call pid turn round index op args
    differs pid turn ordinal first then                 before done, when its replay is checked
    done pid turn result       ended pid turn           crashed pid turn why       exited pid turn reason detail
    stopped pid                log pid text             pong
    stack number stacks

Orders, messages, arguments, outcomes and results have the shapes of :mod:`kernel.cell.protocol`.
The node is trusted and the cell is not. A cell that loses its link ends at once: nothing thinks without a
kernel. One that dials over TCP (:mod:`kernel.cell.link.remote`) says its hello inside the Noise handshake and holds a
lease (:mod:`kernel.cell.link.lease`), by the frames ``lease heard`` and ``beat number running-pid``; ``threads number``
is answered as ``stack`` is, by the link's own thread.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from kernel.abi import ABI_VERSION, Behaviour, Message, ProcessInfo
from kernel.cell.link.frames import OWN, FrameError, FrameLink
from kernel.cell.load import BehaviourError, construct, load_behaviour
from kernel.cell.process import CellProcess, Delivery
from kernel.cell.protocol import STARTED_TOGETHER, Stacks, StartOrder
from kernel.cell.slot import Slot
from kernel.cell.stacks import dump_on_signal
from kernel.cell.steps import Steps, task_factory
from kernel.shapes import ShapeError, read, told


class Link(Protocol):
    """What a cell speaks into."""

    def send(self, value: Any) -> None: ...


class Cell:
    """The processes of a cell. ``link`` is set before the first frame is heard."""

    link: Link

    def __init__(self) -> None:
        self._slot = Slot(None)
        self._processes: dict[int, CellProcess] = {}
        self._made: dict[int, tuple[type[Behaviour], ProcessInfo]] = {}
        self._told: dict[int, dict[str, Any]] = {}  # for the next turn
        self._began: list[int] = []  # that was not said yet
        self._order: StartOrder | None = None  # the last
        self._operations: dict[str, Callable[..., None]] = {
            "welcome": self._welcome,
            "start": self._start,
            "like": self._start_likes,
            "configure": self._configure,
            "turn": self._turn,
            "result": self._result,
            "whole": self._whole,
            "end": self._end,
            "stop": self._stop,
            "ping": self._ping,
            "stack": self._stack,
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
        if frame[0] not in ("start", "like"):
            self._say_began()
        try:
            operation(*frame[1:])
        except ShapeError as error:
            raise FrameError(f"the node sent a {frame[0]} of the wrong shape: {error}") from None

    def _welcome(self, slot_path: str | None) -> None:
        self._slot = Slot(slot_path)
        if slot_path is not None:
            dump_on_signal(slot_path)

    def _start(self, pid: int, start: dict[str, Any]) -> None:
        order = read(StartOrder, start)
        self._order = replace(order, config=copy.deepcopy(order.config))  # a behaviour may change its own
        self._construct(pid, order)

    def _start_likes(self, *starts: Any) -> None:
        last = self._order
        if last is None:
            raise FrameError("the node sent a start that is like another, before any other")
        for pid, address, name in zip(*[iter(starts)] * 3, strict=True):
            order = StartOrder(  # of thousands each comes here, and replace() takes thrice as long
                address,
                name,
                last.behaviour,
                last.import_string,
                last.python_path,
                copy.deepcopy(last.config) if last.config else {},
                last.last_exit,
                last.check_replay,
            )
            self._construct(pid, order)

    def _construct(self, pid: int, order: StartOrder) -> None:
        steps = Steps(pid, self._slot.running)
        info = ProcessInfo(pid, order.address, order.name, order.behaviour, order.config, order.last_exit)
        config = copy.deepcopy(order.config) if order.check_replay else {}  # a behaviour may change its own
        try:
            behaviour = steps.run(
                lambda: construct(load_behaviour(order.import_string, order.python_path), info)
            )
        except BehaviourError as error:
            self.link.send(["failed", pid, str(error)])
            steps.cancel()
            self.link.send(["stopped", pid])
            return
        fresh = None
        if order.check_replay:
            fresh = functools.partial(_construct_anew, type(behaviour), info, config)
        self._processes[pid] = CellProcess(behaviour, steps, self.link.send, self._gone, fresh)
        self._made[pid] = type(behaviour), info
        if not self._began:
            asyncio.get_running_loop().call_soon(self._say_began)
        self._began.append(pid)
        if len(self._began) == STARTED_TOGETHER:
            self._say_began()

    def _say_began(self) -> None:
        """Of many starts that come together one frame tells."""
        if self._began:
            self.link.send(["started", *self._began])
            self._began = []

    def _gone(self, pid: int) -> None:
        self._processes.pop(pid, None)
        self._made.pop(pid, None)
        self._told.pop(pid, None)

    def _configure(self, pid: int, config: dict[str, Any]) -> None:
        if pid in self._processes:
            self._told[pid] = config

    def _turn(
        self,
        pid: int,
        turn: str,
        message: dict[str, Any],
        history: list[dict[str, Any]],
        tools: list[str],
        sizes: Sequence[int] = (),
    ) -> None:
        process = self._processes.get(pid)
        if process is not None:
            config = self._told.pop(pid, None)
            make = None if config is None else functools.partial(_construct_anew, *self._made[pid], config)
            process.deliver(Delivery(turn, read(Message, message), history, tools, make, tuple(sizes)))

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

    def _stack(self, pid: int, number: int) -> None:
        process = self._processes.get(pid)
        found = Stacks((), 0) if process is None else process.stacks()
        self.link.send(["stack", number, told(found)])


def _construct_anew(behaviour: type[Behaviour], info: ProcessInfo, config: dict[str, Any]) -> Behaviour:
    return construct(behaviour, replace(info, config=copy.deepcopy(config)))


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
            from kernel.cell.link.remote import RemoteLink  # Noise, which a cell beside its node does without

            remote = RemoteLink(dial, token, boot, cell.received, cell.running, _leave)
            cell.link = remote
            remote.start()
        await loop.create_future()

    asyncio.run(serve())


def _leave(why: str) -> None:
    print(f"cell: {why}", file=sys.stderr, flush=True)
    os._exit(0)
