"""How the end of a message reaches whoever asked: an ask of this node, another node, somebody who watches."""

from __future__ import annotations

from collections.abc import Callable

from chain.ledger.ledger import Draft
from kernel.message.message_signals import MessageDied
from kernel.message.watch import Watchers
from kernel.peer.remote import Remote
from kernel.state.recorder import Recorder
from kernel.state.state import Mail
from kernel.syscall.settlement import Settlement


class Replies:
    """Answers to messages, and what is said of dead ones."""

    def __init__(
        self, recorder: Recorder, watchers: Watchers, remote: Remote, settlement: Settlement
    ) -> None:
        self._recorder = recorder
        self._watchers = watchers
        self._remote = remote
        self._settlement = settlement

    def of(self, mail: Mail, status: str, reply: str, seq: int) -> tuple[list[Draft], Callable[[], None]]:
        """The records that hand over the answer to ``mail``, the first to be written as sequence ``seq``, and what to
        do once they are written.
        """
        if "@" in mail.reply_to:
            return self._remote.reply(mail, status, reply, seq)
        return self._settlement.replied(mail.reply_to, status, reply)

    def died(self, death: MessageDied) -> None:
        """Whoever waits for a message that became a dead letter is told."""
        mail, why = death.letter.mail, death.letter.why
        self._watchers.ended(mail.id, {"status": "dead", "reply": why, "turn": ""})
        if "@" in mail.reply_to:
            self._remote.reply_dead(mail, why)
        elif mail.reply_to:
            records, after = self._settlement.replied(mail.reply_to, "error", f"dead letter: {why}")
            self._recorder.commit_later(records, after)
