"""Asks of nodes that are lost: whoever waits for the answer is told ``noconnection``, some of them at a time."""

from __future__ import annotations

import asyncio
from itertools import islice

from chain.ledger.ledger import Draft
from kernel.peer.inboxes import Replied
from kernel.peer.outboxes import Outboxes
from kernel.peer.remote_calls import NOCONNECTION
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit
from mesh.identity.peers import Peer

TOLD_AT_ONCE = 100  # between two rounds of the event loop: a lost node with many askers does not hold it up


class LostQuestions:
    """The questions whose askers are yet to be told, and what. ``replied(unit, question, status, text)`` ends an ask.

    Those that are left when the node stops wait on at the next boot.
    """

    def __init__(self, recorder: Recorder, outboxes: Outboxes, replied: Replied) -> None:
        self._recorder = recorder
        self._in_transit = recorder.state.in_transit
        self._outboxes = outboxes
        self._replied = replied
        self._lost: dict[str, str] = {}
        self._goes_on = False
        self._closed = False

    def lose(self, peer: Peer, why: str) -> None:
        """``peer`` is lost."""
        words = f"{NOCONNECTION}: {peer.name} was lost ({why})"
        for question in self._in_transit.questions.values():
            if question.peer == peer.origin and question.reply_to:
                self._lost[question.id] = words
        if not self._goes_on:
            self._tell_some()

    def close(self) -> None:
        """Tell nobody any more."""
        self._closed = True

    def _tell_some(self) -> None:
        """Some of them now, and the rest in the next rounds of the loop: also when one fails, or others follow."""
        if self._closed:
            return
        self._goes_on = True
        try:
            for ident in list(islice(self._lost, TOLD_AT_ONCE)):
                self._tell(ident, self._lost.pop(ident))
        finally:
            self._goes_on = bool(self._lost)
            if self._goes_on:
                asyncio.get_running_loop().call_soon(self._tell_some)

    def _tell(self, ident: str, words: str) -> None:
        question = self._in_transit.questions.get(ident)
        if question is None:  # it was answered, or given up, meanwhile
            return
        if self._in_transit.find(ident) is not None:
            self._outboxes.withdraw(question, words)
            return
        body = {"id": ident, "peer": question.peer, "why": words}
        unit = Unit()
        unit.add(Draft("message.unanswered", body, 0, ident, question.trace, question.seq))
        self._replied(unit, question, "error", words)
        self._recorder.must(unit)
