"""How the end of a message reaches whoever asked: an ask of this node, another node, somebody who watches."""

from __future__ import annotations

from kernel.message.message_signals import MessageDied
from kernel.message.watch import Watchers
from kernel.peer.outboxes import Outboxes
from kernel.slices.mailboxes import Mail
from kernel.state.after_durable import AfterDurable
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit
from kernel.syscall.settlement import Settlement


class Replies:
    """Answers to messages, and what is said of dead ones."""

    def __init__(
        self, recorder: Recorder, watchers: Watchers, outboxes: Outboxes, settlement: Settlement
    ) -> None:
        self._recorder = recorder
        self._watchers = watchers
        self._outboxes = outboxes
        self._settlement = settlement
        self._after = AfterDurable(recorder.ledger)

    def put(self, unit: Unit, mail: Mail, status: str, reply: str, pid: int) -> None:
        """Add the records that hand over the answer of the incarnation ``pid`` to ``mail``."""
        if "@" in mail.reply_to:
            self._outboxes.reply(unit, mail, status, reply, pid)
        elif mail.reply_to:
            self._settlement.replied(unit, mail, status, reply)

    def died(self, death: MessageDied) -> None:
        """Whoever waits for a message that became a dead letter is told; who is outside, when that is on the disk."""
        mail, why = death.mail, death.why
        end = {"status": "dead", "reply": why, "turn": ""}
        self._after.do(lambda: self._watchers.ended(mail.id, end), death.ticket)
        if "@" in mail.reply_to:
            self._outboxes.reply_dead(mail, why)
        elif mail.reply_to:
            unit = Unit()
            self._settlement.replied(unit, mail, "error", f"dead letter: {why}")
            if unit.records:
                self._recorder.must(unit)
