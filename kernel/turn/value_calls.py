"""Values as syscalls: time, randomness, and what a session has done, recorded, so that a resumed turn sees the same.

Of what a session has done the place in the ledger is recorded up to which it was told: what it says follows from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from chain.ledger.ledger import Draft
from kernel.cell.protocol import CallOutcome, Value
from kernel.process.live import LiveProcess
from kernel.slices.turns import Turn
from kernel.state.recorder import Recorder
from kernel.turn.divergence import shown
from kernel.turn.turns import Turns
from kernel.values import call_hash


class ValueCalls:
    """Takes the syscalls that take nothing; answers through :meth:`Turns.answer`. ``chance`` is where the
    randomness comes from that behaviours ask for.
    """

    def __init__(self, recorder: Recorder, turns: Turns, chance: Random) -> None:
        self._recorder = recorder
        self._turns = turns
        self._values: Mapping[str, Callable[[], float]] = {
            "now": lambda: recorder.ledger.now_us() / 1e6,
            "random": lambda: chance.getrandbits(63),
            "deeds": lambda: recorder.ledger.next_seq - 1,
        }

    def asked(self, process: LiveProcess, turn: Turn, ordinal: str, op: str) -> None:
        """A cell asks for a value. Raises LedgerUnavailable."""
        hashed = call_hash(op)
        recorded = turn.calls.get(ordinal)
        if recorded is not None and recorded.call_hash != hashed:
            self._turns.diverge(process, turn, recorded, shown(op, "", ""))
            return
        if recorded is None:
            value = self._values[op]()
            body = {"turn": turn.id, "ordinal": ordinal, "call_hash": hashed, "op": op, "value": value}
            draft = Draft("sys.value", body, process.pid, turn.id, turn.mail.trace, turn.started_seq)
            self._recorder.commit([draft])
        outcome = turn.calls[ordinal].outcome
        assert outcome is not None
        self._turns.answer(turn, ordinal, self._told(turn, op, outcome["value"]))

    def _told(self, turn: Turn, op: str, value: float) -> CallOutcome:
        if op != "deeds":
            return Value(value)
        return self._recorder.state.deeds.as_of((turn.address, turn.mail.session), int(value), turn.id)
