"""Doubt: an intent without an outcome, after a crash of the worker or of the node, or a deadline.

A tool that has a probe is asked first (:mod:`kernel.syscall.probes`). Where that does not know, the tool's own policy
decides, as it was when the call was made and as it is now: done again (``retry``) or given up (``lost``) when both say
so, else put before a person (``ask``). What has no effects is done again. Nothing is done
again more than twice, nor when its turn has ended; then a person decides, or it is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chain.ledger.ledger import PREVIOUS, Draft
from kernel.abi import OnDoubt, OutcomeStatus, ToolDeclaration
from kernel.errors import NotFound, Refused
from kernel.model.states import ProcessEvent, ProcessState
from kernel.process.live import LiveTable
from kernel.slices.calls import OpenIntent
from kernel.slices.turns import Call, Turn
from kernel.state.after_durable import AfterDurable
from kernel.state.recorder import Recorder
from kernel.state.state import State
from kernel.syscall.tool_records import Outcome

MAX_ATTEMPTS = 3
RESOLUTIONS: dict[str, tuple[OutcomeStatus, str]] = {
    "done": ("ok", "done: a person confirmed it"),
    "lost": ("lost", "not done: a person said so"),
}

Drafter = Callable[[OpenIntent, str, dict[str, Any], int], Draft]


def harmless(declaration: ToolDeclaration | None, call: Call) -> bool:
    """Whether the tool has no effects, and had none when the call was made: a configuration may change between."""
    return declaration is not None and declaration.effects == "none" and call.effects in ("", "none")


def policy_of(declaration: ToolDeclaration | None, call: Call, *, turn_open: bool = True) -> OnDoubt:
    """What to do about a doubtful call. A tool that is not configured any more has no policy, nor one that had effects
    when the call was made and has none now: a person decides.
    """
    if declaration is None or (declaration.effects == "none" and not harmless(declaration, call)):
        return "ask"
    again = turn_open and call.attempt < MAX_ATTEMPTS
    if declaration.effects == "none":
        return "retry" if again else "lost"
    policy = call.agreed(declaration.then)
    return "ask" if policy == "retry" and not again else policy


def node_policy(declaration: ToolDeclaration | None, call: Call) -> OnDoubt:
    """What to do about a call at which the node itself failed. It would fail again: nothing is done again by itself."""
    policy = "ask" if declaration is None else call.agreed(declaration.then)
    return "ask" if policy == "retry" else policy


@dataclass(frozen=True, slots=True)
class Resolved:
    """A person's word, recorded: the call, its turn when it is still open, and whether it is to be done again."""

    turn: Turn | None
    call: Call
    again: bool


class Doubts:
    """Records doubt, and a person's word on it.

    ``draft(intent, kind, body, cause)`` drafts an entry about a call; ``cause`` is a sequence number.
    """

    def __init__(self, recorder: Recorder, live: LiveTable, draft: Drafter, limit_bytes: int) -> None:
        self._recorder = recorder
        self._state: State = recorder.state
        self._live = live
        self._draft = draft
        self._limit_bytes = limit_bytes
        self._after = AfterDurable(recorder.ledger)

    def draft(self, intent: OpenIntent, policy: OnDoubt, why: str) -> Draft:
        """The outcome that says so: ``lost`` or ``in_doubt``; ``why`` it is not known what became of the call."""
        if policy == "lost":
            return self.outcome(intent, "lost", f"{why}; it is not known to be done")
        return self.outcome(
            intent, "in_doubt", f"{why}; it is not known whether this was done, a person must say"
        )

    def outcome(
        self, intent: OpenIntent, status: OutcomeStatus, text: str, cause: int | None = None
    ) -> Draft:
        """An outcome that no tool gave. Caused by the intent, unless ``cause`` says otherwise."""
        call = intent.call
        body = Outcome(status, text, call.attempt, self._limit_bytes).body()
        return self._draft(intent, "tool.outcome", body, call.intent_seq if cause is None else cause)

    def suspend(self, turn: Turn) -> None:
        """The process that runs the turn waits for a person."""
        process = self._live.at(turn.address)
        if process is not None and process.turn == turn.id and process.state is ProcessState.RUNNING:
            process.on(ProcessEvent.SUSPEND)

    def check(self, ident: str, resolution: str) -> OpenIntent:
        """What :meth:`resolve` would decide. Raises NotFound or Refused."""
        intent = self._state.intents.get(ident)
        if intent is None or not intent.call.doubt:
            raise NotFound(f"no doubt {ident}; weftos doubts list shows them")
        if resolution != "retry" and resolution not in RESOLUTIONS:
            raise Refused(f"resolution {resolution!r} is none of retry, {', '.join(RESOLUTIONS)}")
        if resolution == "retry" and intent.turn not in self._state.turns:
            raise Refused(
                f"turn {intent.turn} has ended, so nobody would hear of another attempt: say done or lost, and ask "
                f"{intent.address} again"
            )
        return intent

    async def resolve(
        self, ident: str, resolution: str, by: str, go_on: Callable[[Resolved], None]
    ) -> Resolved:
        """Record a person's word on a doubt (``turn:ordinal``); it acts, by ``go_on`` too, once it is on the disk.

        Raises NotFound or Refused; LedgerUnavailable when it could not be recorded, or is not on the disk yet: what was
        recorded acts all the same when it is, since nobody can say it a second time.
        """
        intent = self.check(ident, resolution)
        turn, call = self._state.turns.get(intent.turn), intent.call
        records = [
            self._draft(intent, "tool.resolved", {"resolution": resolution, "by": by}, call.intent_seq)
        ]
        if resolution != "retry":
            records.append(self.outcome(intent, *RESOLUTIONS[resolution], PREVIOUS))
        ticket = self._recorder.commit(records)
        resolved = Resolved(turn, call, resolution == "retry")
        self._after.do(lambda: self._act(resolved, go_on), ticket)
        await ticket.durable()
        return resolved

    def _act(self, resolved: Resolved, go_on: Callable[[Resolved], None]) -> None:
        if resolved.turn is not None:
            self.wake(resolved.turn)
            go_on(resolved)

    def wake(self, turn: Turn) -> None:
        """The process that runs the turn goes on, unless another call of it is in doubt."""
        process = self._live.at(turn.address)
        waits = process is not None and process.turn == turn.id and process.state is ProcessState.SUSPENDED
        if process is not None and waits and not any(other.doubt for other in turn.calls.values()):
            process.on(ProcessEvent.RESUME)
