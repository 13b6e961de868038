"""Doubt: an intent without an outcome, after a crash of the worker or of the node.

The tool's own policy decides: done again (``retry``), given up (``lost``), or put before a person (``ask``). What has
no effects is done again. Nothing is done again more than twice; then a person decides, or it is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chain.ledger import Draft
from kernel.abi import OnDoubt, ToolDeclaration
from kernel.errors import NotFound, Refused
from kernel.live import LiveTable
from kernel.recorder import Recorder
from kernel.state import Call, State, Turn
from kernel.states import ProcessEvent, ProcessState
from kernel.tool_records import CallSite, Outcome

MAX_ATTEMPTS = 3
RESOLUTIONS = {
    "done": ("ok", "done: a person confirmed it"),
    "lost": ("lost", "not done: a person said so"),
}


def policy_of(declaration: ToolDeclaration | None, attempt: int) -> OnDoubt:
    """What to do about a doubtful call. A tool that is not configured any more has no policy: a person decides."""
    if declaration is None:
        return "ask"
    if declaration.effects == "none":
        return "retry" if attempt < MAX_ATTEMPTS else "lost"
    if declaration.on_doubt == "retry" and attempt >= MAX_ATTEMPTS:
        return "ask"
    return declaration.on_doubt


@dataclass(frozen=True, slots=True)
class Resolved:
    """A person's word, recorded: the call, and whether it is to be done again."""

    turn: Turn
    call: Call
    again: bool


class Doubts:
    """Records doubt, and a person's word on it. ``site(turn, call)`` tells where a recorded call stands."""

    def __init__(
        self, recorder: Recorder, live: LiveTable, site: Callable[[Turn, Call], CallSite], limit_bytes: int
    ) -> None:
        self._recorder = recorder
        self._state: State = recorder.state
        self._live = live
        self._site = site
        self._limit_bytes = limit_bytes

    def draft(self, turn: Turn, call: Call, policy: OnDoubt) -> Draft:
        """The outcome that says so: ``lost`` or ``in_doubt``."""
        if policy == "lost":
            status, text = "lost", f"{call.name} was lost in a crash; it is not known to be done"
        else:
            status, text = "in_doubt", "it is not known whether this was done; a person must say"
        return self._site(turn, call).outcome(self._outcome(call, status, text), call.intent_seq)

    def _outcome(self, call: Call, status: str, text: str) -> Outcome:
        return Outcome(status, text, call.attempt, self._limit_bytes)

    def suspend(self, turn: Turn) -> None:
        """The process that runs the turn waits for a person."""
        process = self._live.at(turn.address)
        if process is not None and process.turn == turn.id and process.state is ProcessState.RUNNING:
            process.on(ProcessEvent.SUSPEND)

    async def resolve(self, ident: str, resolution: str, by: str) -> Resolved:
        """Record a person's word on a doubt (``turn:ordinal``). Raises NotFound or Refused."""
        turn_id, _, ordinal = ident.partition(":")
        turn = self._state.turns.get(turn_id)
        call = turn.calls.get(ordinal) if turn is not None else None
        if turn is None or call is None or not call.doubt:
            raise NotFound(f"no doubt {ident}; weftos doubts list shows them")
        if resolution != "retry" and resolution not in RESOLUTIONS:
            raise Refused(f"resolution {resolution!r} is none of retry, {', '.join(RESOLUTIONS)}")
        site = self._site(turn, call)
        records = [site.draft("tool.resolved", {"resolution": resolution, "by": by}, call.intent_seq)]
        if resolution != "retry":
            records.append(site.outcome(self._outcome(call, *RESOLUTIONS[resolution])))
        ticket = self._recorder.commit(records, durable=True)
        await ticket.durable()
        process = self._live.at(turn.address)
        waits = process is not None and process.turn == turn.id and process.state is ProcessState.SUSPENDED
        if process is not None and waits and not any(other.doubt for other in turn.calls.values()):
            process.on(ProcessEvent.RESUME)
        return Resolved(turn, call, resolution == "retry")
