"""Whether an address traps exits, as its behaviour says."""

from __future__ import annotations

from chain.ledger.ledger import Draft
from kernel.cell.protocol import Trapped, Trapping
from kernel.process.live import LiveProcess
from kernel.slices.turns import Turn
from kernel.state.recorder import Recorder
from kernel.turn.divergence import shown
from kernel.turn.turns import Turns
from kernel.values import call_hash


class TrapCalls:
    """Takes these syscalls; answers through :meth:`Turns.answer`."""

    def __init__(self, recorder: Recorder, turns: Turns) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._turns = turns

    def asked(self, process: LiveProcess, turn: Turn, ordinal: str, args: Trapping) -> None:
        """A cell says whether ends are to be told. Raises LedgerUnavailable."""
        name = "on" if args.on else "off"
        hashed = call_hash("trap_exits", name)
        recorded = turn.calls.get(ordinal)
        if recorded is not None and recorded.call_hash != hashed:
            self._turns.diverge(process, turn, recorded, shown("trap_exits", name, ""))
            return
        if recorded is None:
            body = {
                "turn": turn.id,
                "ordinal": ordinal,
                "call_hash": hashed,
                "on": args.on,
                "before": process.address in self._state.traps,
                "rights": sorted(process.rights),
            }
            draft = Draft("monitor.traps", body, process.pid, turn.id, turn.mail.trace, turn.started_seq)
            self._recorder.commit([draft])
        outcome = turn.calls[ordinal].outcome
        assert outcome is not None
        self._turns.answer(turn, ordinal, Trapped(**outcome))
