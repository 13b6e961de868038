"""Questions to other nodes that get no answer any more: whoever waits is told so, some of them at a time.

An ask ends when its node is lost. A question of a person outlives links and boots: it ends when its node is no peer any
more, or nobody can wait for it any longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from itertools import islice, takewhile

from chain.ledger.ledger import Draft
from kernel.model.states import NOCONNECTION
from kernel.operations.operation import MAX_WAIT_S
from kernel.peer.inboxes import Local
from kernel.peer.outboxes import Outboxes
from kernel.slices.mailboxes import Mail
from kernel.state.after_durable import AfterDurable
from kernel.state.recorder import Recorder
from mesh.identity.peers import Peer

WAITED_FOR_US = MAX_WAIT_S * 1_000_000
TOLD_AT_ONCE = 100  # between two rounds of the event loop: a lost node with many askers does not hold it up


class LostQuestions:
    """The questions whose askers are yet to be told, and what.

    Those that are left when the node stops wait on at the next boot.
    """

    def __init__(self, recorder: Recorder, outboxes: Outboxes, local: Local, after: AfterDurable) -> None:
        self._recorder = recorder
        self._in_transit = recorder.state.in_transit
        self._outboxes = outboxes
        self._local = local
        self._after = after
        self._lost: dict[str, str] = {}
        self._goes_on = False
        self._closed = False

    def lose(self, peer: Peer, why: str) -> None:
        """``peer`` is lost, and comes again or not."""
        self._give_up((question for question in self._of(peer) if question.reply_to), _lost(peer, why))

    def removed(self, peer: Peer, why: str) -> None:
        """``peer`` is none any more."""
        self._give_up(self._of(peer), _lost(peer, why))

    def expire(self) -> None:
        """Give up what people asked so long ago that nobody waits; not while that cannot be recorded."""
        if self._recorder.ledger.read_only is None:
            since_us = self._recorder.ledger.now_us() - WAITED_FOR_US
            old = takewhile(
                lambda question: question.time_us <= since_us, self._in_transit.questions.values()
            )
            self._give_up(
                (question for question in old if not question.reply_to), "nobody waits for its answer"
            )

    def _of(self, peer: Peer) -> Iterable[Mail]:
        return (question for question in self._in_transit.questions.values() if question.peer == peer.origin)

    def _give_up(self, questions: Iterable[Mail], words: str) -> None:
        self._lost.update((question.id, words) for question in questions)
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
                words = self._lost.pop(ident)
                self._recorder.until_writable(("lost", ident), partial(self._tell, ident, words))
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
        unit = self._recorder.unit()
        unit.add(Draft("message.unanswered", body, 0, ident, question.trace, question.seq))
        self._local.replied(unit, question, "error", words)
        ticket = self._recorder.commit(unit)
        end = {"status": "error", "reply": words, "turn": ""}
        self._after.do(lambda: self._local.ended(ident, end), ticket)


def _lost(peer: Peer, why: str) -> str:
    return f"{NOCONNECTION}: {peer.name} was lost ({why})"
