"""Messages that join the turn that runs, where their channel's ``while_busy`` is ``steer``: handed over when the
behaviour asks for them, recorded as what that call was given, so that a resumed turn has the same, and answered by it.

A message that nobody asks for before the turn ends has a turn of its own, as any other; so has one with attachments, or
that asks for another answer than the turn's message: only its text could join.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from chain.ledger.ledger import Draft
from kernel.cell.protocol import Steered
from kernel.message.chats import STEER
from kernel.message.watch import Watchers
from kernel.process.live import LiveProcess
from kernel.slices.mailboxes import MESSAGE, Mail
from kernel.slices.tree.slots import Slot
from kernel.slices.turns import Call, Turn
from kernel.state.after_durable import AfterDurable
from kernel.state.recorder import Recorder
from kernel.turn.divergence import shown
from kernel.turn.turns import Turns
from kernel.values import call_hash, canonical

OP = "steered"
MOST_AT_ONCE = 32
MOST_BYTES = 256 * 2**10


class Steering:
    """Takes the syscall; answers through :meth:`Turns.answer`. ``policy`` says what a message of a channel does while
    the session of a slot is busy.
    """

    def __init__(
        self, recorder: Recorder, turns: Turns, watchers: Watchers, policy: Callable[[Slot, str], str]
    ) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._turns = turns
        self._watchers = watchers
        self._policy = policy
        self._after = AfterDurable(recorder.ledger)

    def asked(self, process: LiveProcess, turn: Turn, ordinal: str) -> None:
        """A cell asks for those that wait. Raises LedgerUnavailable."""
        recorded = turn.calls.get(ordinal)
        if recorded is not None and recorded.call_hash != call_hash(OP):
            self._turns.diverge(process, turn, recorded, shown(OP, "", ""))
            return
        if recorded is None:
            self._join(process, turn, ordinal, list(self._joining(turn)))
        self._answer(turn, turn.calls[ordinal])

    def _joining(self, turn: Turn) -> Iterator[Mail]:
        slot = self._state.slots.get(turn.address)
        now_us, left = self._recorder.ledger.now_us(), MOST_BYTES
        waiting = iter(self._state.mail.get(turn.address, {}).values()) if slot is not None else ()
        for number, mail in enumerate(waiting):
            if mail.id == turn.mail.id or slot is None:
                continue
            channel = "" if mail.inbound is None else mail.inbound.channel
            if mail.kind != MESSAGE or mail.session != turn.mail.session or not channel:
                return  # what came before it is answered before it
            if mail.identity != turn.mail.identity or mail.rights != turn.mail.rights:
                return  # what another user says is not said in this one's name, nor with his rights
            if not _is_text_alone(mail, turn.mail):
                return
            if self._policy(slot, channel) != STEER or (mail.deadline_us and mail.deadline_us < now_us):
                return
            left -= len(mail.text.encode())
            if left < 0 or number > MOST_AT_ONCE:
                return
            yield mail

    def _join(self, process: LiveProcess, turn: Turn, ordinal: str, joining: list[Mail]) -> None:
        body = {
            "turn": turn.id,
            "ordinal": ordinal,
            "call_hash": call_hash(OP),
            "messages": [mail.id for mail in joining],
            "texts": canonical([mail.text for mail in joining]),
        }
        draft = Draft("turn.steered", body, process.pid, turn.id, turn.mail.trace, turn.started_seq)
        ticket = self._recorder.commit([draft])
        for mail in joining:
            self._after.do(lambda ident=mail.id: self._tell(ident, turn.id), ticket)  # type: ignore[misc]  # bound now

    def _tell(self, ident: str, turn: str) -> None:
        self._watchers.ended(ident, {"status": "steered", "reply": "", "turn": turn})

    def _answer(self, turn: Turn, call: Call) -> None:
        assert call.outcome is not None
        self._turns.answer(turn, call.ordinal, Steered(tuple(json.loads(call.outcome["result"]))))


def _is_text_alone(mail: Mail, first: Mail) -> bool:
    """Whether it says no more than its text, beside the message whose turn it may join."""
    one, other = mail.inbound, first.inbound
    return one is not None and other is not None and not one.attachments and one.options == other.options
