"""PIDs, reserved on disk in blocks: none is ever given twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from chain.ledger.ledger import StateChange
from kernel.model.pids import first_pids, resume_pids, take
from kernel.process.process_signals import PidsReserved
from kernel.signals import Signals
from kernel.state.after_durable import AfterDurable
from kernel.state.recorder import Recorder


class PidBlocks:
    """The PIDs of this boot: none of a block is given out before it is on the disk that the block is reserved. The
    first one is taken to be there: nobody outside sees a node before its boot is. Raises what the ledger raises.
    """

    def __init__(self, recorder: Recorder, signals: Signals) -> None:
        self._recorder = recorder
        self._signals = signals
        self._after = AfterDurable(recorder.ledger)
        self._waiting: list[Callable[[], None]] = []
        reserved = recorder.state.pids.reserved
        self._pids, reserve = resume_pids(reserved) if reserved else first_pids()
        self._durable = reserve.upto
        recorder.commit([StateChange("pids", str(reserve.upto), b"")], durable=True)

    def next(self) -> int | None:
        """A PID that was never used and never will be again; None while the disk has yet to take the next block."""
        if self._pids.next_pid >= self._durable:
            return None
        self._pids, pid, reserve = take(self._pids)
        if reserve is not None:
            upto = reserve.upto
            self._recorder.until_writable("pids", lambda: self._reserve(upto))
        return pid

    def when_reserved(self, call: Callable[[], None]) -> None:
        """Have ``call`` made when there are PIDs again, which others may have taken before it."""
        self._waiting.append(call)

    async def wait(self) -> int:
        """The next PID, however long the disk refuses."""
        while (pid := self.next()) is None:
            reserved = asyncio.Event()
            self.when_reserved(reserved.set)
            await reserved.wait()
        return pid

    def _reserve(self, upto: int) -> None:
        ticket = self._recorder.commit([StateChange("pids", str(upto), b"")], durable=True)
        self._after.do(lambda: self._reserved(upto), ticket)

    def _reserved(self, upto: int) -> None:
        self._durable = upto
        self._signals.say(PidsReserved(upto))
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()
