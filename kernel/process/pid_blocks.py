"""PIDs, reserved on disk in blocks: none is ever given twice."""

from __future__ import annotations

from chain.ledger.ledger import StateChange
from kernel.model.pids import first_pids, resume_pids, take
from kernel.process.process_signals import PidsReserved
from kernel.signals import Signals
from kernel.state.recorder import Recorder


class PidBlocks:
    """The PIDs of this boot: a new block, recorded before any of it is given out. Raises what the ledger raises."""

    def __init__(self, recorder: Recorder, signals: Signals) -> None:
        self._recorder = recorder
        self._signals = signals
        reserved = recorder.state.pids.reserved
        self._pids, reserve = resume_pids(reserved) if reserved else first_pids()
        recorder.commit([StateChange("pids", str(reserve.upto), b"")], durable=True)

    def next(self) -> int:
        """A PID that was never used and never will be again."""
        self._pids, pid, reserve = take(self._pids)
        if reserve is not None:
            self._recorder.must([StateChange("pids", str(reserve.upto), b"")])
            self._signals.say(PidsReserved(reserve.upto))
        return pid
