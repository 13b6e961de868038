"""What of the session a model may see: whole exchanges that a model server takes, and what became of those before.

Results that are some turns old are shown in one line, and what looks like a secret in a result is not shown at all.
What does not fit is left out, or put into a summary that the session keeps, as ``[agent.history] strategy`` says;
without an answer from the model it is left out. The model is told that something was.

What the session has *done* is never lost with that: the node's record of it stands before what is shown, as far as
no exchange that is shown tells of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cognition.context import Record, estimate_tokens, node_note, system_records
from cognition.history.aging import aged
from cognition.history.deeds import MOST_BYTES, digest, not_shown
from cognition.history.repair import repaired
from cognition.history.secrets import redacted
from cognition.history.strategy import (
    fits,
    most_that_fit,
    room_of,
    summarises,
    summary_bytes,
    to_keep,
)
from cognition.history.summary import PROMPT, Summary, cut_at, source_of, summary_of, taken_apart
from cognition.stages.prompted import prompted
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Continue, Outcome
from kernel.abi import Deeds, ModelRequest

TRUNCATED = "Earlier messages of this conversation are not shown."


async def history_sanitize(turn: AgentTurn) -> Outcome:
    turn = await prompted(turn)
    config = turn.config.history
    summary, records = taken_apart(await turn.sys.history())
    if config.redact_tool_outputs:
        records = list(map(_without_secrets, records))
    exchanges = aged(repaired(records))
    shown = _Shown(turn, await turn.sys.deeds(), room_of(config, turn.system))
    if fits(exchanges, shown.beside(summary, exchanges), shown.room):
        return Continue(shown.turn(summary, exchanges), f"{len(exchanges)} exchanges")
    room = shown.room - shown.reserved
    if summarises(config, room):
        kept = to_keep(config, exchanges, room)
        newer = await _summarised(turn, summary, records, cut_at(records, kept), summary_bytes(room))
        if newer is not None:
            noted = replace(shown, of=replace(turn, notes=(*turn.notes, newer.record())))
            why = f"{kept} exchanges, {len(exchanges) - kept} into a summary"
            return Continue(noted.turn(newer, exchanges[len(exchanges) - kept :]), why)
    if not fits([], _head(summary), room):
        summary = None  # it was made for a larger room
    kept = most_that_fit(exchanges, _head(summary), room)
    gone = len(exchanges) - kept
    return Continue(
        shown.turn(summary, exchanges[gone:], truncated=bool(gone)), f"{kept} exchanges, {gone} left out"
    )


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a turn is shown of its session. ``room``: tokens that there are for it."""

    of: AgentTurn
    deeds: Deeds
    room: int

    @property
    def most_bytes(self) -> int:
        """What is done may take a quarter of the room."""
        return min(MOST_BYTES, self.room)

    @property
    def reserved(self) -> int:
        """Tokens that what was done takes where no exchange is shown."""
        return sum(map(estimate_tokens, digest(self.deeds, self.most_bytes)))

    def beside(self, summary: Summary | None, exchanges: list[list[Record]]) -> tuple[Record, ...]:
        """What stands before the exchanges."""
        return (*digest(not_shown(self.deeds, exchanges), self.most_bytes), *_head(summary))

    def turn(
        self, summary: Summary | None, exchanges: list[list[Record]], truncated: bool = False
    ) -> AgentTurn:
        """The turn with its history."""
        note = (node_note(TRUNCATED), {"role": "assistant", "content": "Understood."}) if truncated else ()
        shown = (*note, *self.beside(summary, exchanges))
        return replace(self.of, history=(*shown, *(record for exchange in exchanges for record in exchange)))


def _head(summary: Summary | None) -> tuple[Record, ...]:
    return () if summary is None else summary.shown()


async def _summarised(
    turn: AgentTurn, before: Summary | None, records: list[Record], cut: int, most_bytes: int
) -> Summary | None:
    """The records before ``cut`` in a model's words; None when it gave none."""
    asked = (*system_records(PROMPT), {"role": "user", "content": source_of(before, records[:cut])})
    answer = await turn.ask(ModelRequest(asked, (), turn.provider, turn.model, aside=True))
    if answer.status != "ok" or not answer.text.strip():
        turn.sys.log(f"history: no summary of {cut} records: {answer.text[:200] or 'an empty answer'}")
        return None
    return summary_of(answer.text, records[:cut], len(records) - cut, most_bytes)


def _without_secrets(record: Record) -> Record:
    text = record.get("content")
    if record.get("role") != "tool" or not isinstance(text, str):
        return record
    clean = redacted(text)
    return record if clean == text else {**record, "content": clean}
