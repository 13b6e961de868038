"""What is recorded of calls that end otherwise than by their tool: withdrawn, in doubt, answered by a message.

That nothing was done is said only of what was not handed over.
"""

from __future__ import annotations

from typing import Any

from chain.ledger.ledger import Draft
from kernel.abi import OnDoubt, OutcomeStatus
from kernel.bounds import Bounds
from kernel.message.message_signals import AskAnswered
from kernel.model.states import KILLED, SHUTDOWN
from kernel.process.live import LiveTable
from kernel.process.process_signals import ProcessExited
from kernel.slices.calls import OpenIntent, call_id
from kernel.slices.mailboxes import Mail, turn_id
from kernel.slices.turns import Call, Turn
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit
from kernel.syscall.attempts import Attempt, Attempts
from kernel.syscall.doubts import Doubts, harmless, policy_of
from kernel.syscall.tool_records import CallSite, Outcome, follow_up
from kernel.toolbox.registry import Registry


class Settlement:
    """Drafts those records, over the attempts that are under way."""

    def __init__(
        self,
        recorder: Recorder,
        live: LiveTable,
        attempts: Attempts,
        registry: Registry,
        bounds: Bounds,
    ) -> None:
        self._state = recorder.state
        self._attempts = attempts
        self._registry = registry
        self._limit_bytes = bounds.tool_record_bytes
        self.doubts = Doubts(recorder, live, self.follow_up, self._limit_bytes)

    # -- one call ------------------------------------------------------------------------------------------------

    def subject(self, name: str) -> str:
        """A tool's name may stand in a leaf only when it is one of ours and not what a model made up."""
        return name if name in self._registry else "unknown"

    def site_of(self, turn: Turn, call: Call, pid: int) -> CallSite:
        """A recorded call, and the incarnation that asks, or asked, for it."""
        return CallSite(turn, call.ordinal, call.name, pid, self.subject(call.name))

    def follow_up(self, intent: OpenIntent, kind: str, body: dict[str, Any], cause: int) -> Draft:
        """A later entry about an intent; ``cause`` is a sequence number."""
        return follow_up(intent, self.subject(intent.call.name), kind, body, cause)

    def outcome(
        self, status: OutcomeStatus, text: str, attempt: int, full_hash: str = "", truncated: bool = False
    ) -> Outcome:
        return Outcome(status, text, attempt, self._limit_bytes, full_hash, truncated)

    def policy(self, call: Call, *, turn_open: bool) -> OnDoubt:
        """What to do about a call that is in doubt."""
        entry = self._registry.get(call.name)
        return policy_of(entry.declaration if entry else None, call, turn_open=turn_open)

    def doubted(self, intent: OpenIntent, why: str, *, turn_open: bool) -> list[Draft]:
        """What is to be recorded of a call of which nobody knows whether it was made; nothing when it may be made
        again, or is in doubt already.
        """
        policy = self.policy(intent.call, turn_open=turn_open)
        if policy == "retry" or intent.call.doubt:
            return []
        return [self.doubts.draft(intent, policy, why)]

    def undone(
        self, site: CallSite, call: Call, status: OutcomeStatus, text: str, *, again: bool = False
    ) -> Draft:
        """The outcome of an attempt of which it is known that it was not made; ``again``: the next one after the
        recorded one. When an earlier one may have been, that is not the outcome of the call: then it is in doubt.
        """
        intent = self._state.intents.get(call_id(*site.key))
        entry = self._registry.get(call.name)
        declaration = entry.declaration if entry else None
        if intent is None or harmless(declaration, call) or not (call.unsettled or again):
            cause = call.intent_seq if call.intent_seq >= 0 else call.seq
            return site.outcome(self.outcome(status, text, call.attempt), cause)
        policy = policy_of(declaration, call, turn_open=False)
        return self.doubts.draft(intent, policy, f"{text}; but an earlier attempt may have been made")

    def withdrawn(self, site: CallSite, call: Call, attempt: Attempt) -> Draft:
        """The outcome of an attempt that was taken back in time."""
        text = f"{attempt.withdrawn}, and the call had not begun: nothing was done"
        return self.undone(site, call, "killed", text)

    def stopped(self, ident: str, ordinal: str, attempt: Attempt) -> Draft | None:
        """What is to be recorded of an attempt that had not begun when the node stopped."""
        turn, intent = self._state.turns.get(ident), self._state.intents.get(call_id(ident, ordinal))
        call = turn.calls.get(ordinal) if turn is not None else None
        if attempt.withdrawn:
            if turn is None or call is None or call.outcome is not None or call.doubt:
                return None
            return self.withdrawn(self.site_of(turn, call, attempt.pid), call, attempt)
        if intent is None or intent.call.unsettled:
            return None
        body = {"resolution": "retry", "by": "node: it had not begun when the node stopped"}
        return self.follow_up(intent, "tool.resolved", body, intent.call.intent_seq)

    def replied(self, unit: Unit, question: Mail, status: str, reply: str) -> None:
        """The end of the ``ask`` that sent ``question``: add the record that says so; who asked hears of it once it is
        written. Nothing when nobody waits for it any more: an ask that was forgotten has left its place to another
        call, which is younger than the question and has an outcome of its own.
        """
        ident, _, ordinal = question.reply_to.partition(":")
        turn = self._state.turns.get(ident)
        call = turn.calls.get(ordinal) if turn is not None else None
        if turn is None or call is None or call.outcome is not None or question.seq < call.seq:
            return
        self.ask_ended(unit, turn, call, "ok" if status == "ok" else "error", reply)

    def ask_ended(self, unit: Unit, turn: Turn, call: Call, status: OutcomeStatus, reply: str) -> None:
        """The same for the ask itself, whatever became of its question."""
        outcome = self.outcome(status, reply, call.attempt)
        unit.add(self.site_of(turn, call, call.pid).outcome(outcome, call.intent_seq))
        unit.say(AskAnswered(turn.id, call.ordinal))

    # -- the calls of a turn -------------------------------------------------------------------------------------

    def of_message(self, message: str) -> list[Draft]:
        """:meth:`of_turn` for the turn that handles a message, when there is one."""
        turn = self._state.turns.get(turn_id(message))
        return self.of_turn(turn) if turn is not None else []

    def of_turn(self, turn: Turn) -> list[Draft]:
        """Outcomes for the calls of a turn that ends, as far as they are known.

        What was not handed over is withdrawn. What is under way stays open: its outcome is recorded when it is known.
        So does what is in doubt, until a person says what became of it.
        """
        drafts = [self._settled(turn, call) for call in turn.calls.values()]
        return [draft for draft in drafts if draft is not None]

    def _settled(self, turn: Turn, call: Call) -> Draft | None:
        self._attempts.stop_waiting(turn.id, call.ordinal)
        if call.op != "tool" or call.outcome is not None or call.doubt:
            return None
        attempt = self._attempts.get(turn.id, call.ordinal)
        if attempt is not None:
            if not attempt.withdraw("the turn has ended"):
                return None
            return self.withdrawn(self.site_of(turn, call, attempt.pid), call, attempt)
        intent = self._state.intents.get(call_id(turn.id, call.ordinal))
        if intent is None:
            return None
        if call.name == "ask":
            return self.doubts.outcome(intent, "lost", "the turn ended before there was a reply")
        policy = self.policy(call, turn_open=False)
        return self.doubts.draft(intent, policy, "the turn ended before this was known")

    def exited(self, end: ProcessExited) -> None:
        """Ended on purpose: what was about to be done is not done, and its outcome is ``killed``. The turn is that of
        the address, whether this incarnation has taken it up yet or not.
        """
        if end.reason != KILLED and not end.reason.startswith(SHUTDOWN):
            return
        process = end.process
        turn = self._state.turns.get(process.turn) or self._state.turn_of(process.address)
        if turn is None:
            return
        for call in turn.calls.values():
            attempt = self._attempts.get(turn.id, call.ordinal)
            if attempt is not None and call.outcome is None:
                attempt.withdraw(f"process {process.pid} was ended ({end.reason})")
