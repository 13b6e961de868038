"""What of the session a model may see: whole exchanges that a model server takes, and what became of those before.

Results that are some turns old are shown in one line, and what looks like a secret in a result is not shown at all.
What does not fit is left out, or put into a summary that the session keeps, as ``[agent.history] strategy`` says;
without an answer from the model it is left out. The model is told that something was.

What the session has *done* is never lost with that: the node's record of it stands before what is shown, as far as
no exchange that is shown tells of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cognition.config.agent_config import HistoryConfig
from cognition.context import Record, estimate_tokens, node_note, system_records
from cognition.history.aging import aged
from cognition.history.compaction import (
    REST_TURNS,
    breaker_record,
    is_left_alone,
    limit_of,
    recent_of,
    source_bytes,
)
from cognition.history.deeds import MOST_BYTES, digest, not_shown
from cognition.history.extract import extract
from cognition.history.repair import repaired
from cognition.history.secrets import redacted
from cognition.history.sensitive import hidden
from cognition.history.strategy import (
    LEAST_ROOM,
    fits,
    most_that_fit,
    room_of,
    summarises,
    summary_bytes,
    to_keep,
)
from cognition.history.summary import (
    PROMPT,
    Summary,
    cut_at,
    source_of,
    summary_of,
    taken_apart,
    without_facts,
)
from cognition.stages.prompted import prompted
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Continue, Outcome
from kernel.abi import Compaction, Deeds, ModelRequest

TRUNCATED = "Earlier messages of this conversation are not shown."


async def history_sanitize(turn: AgentTurn) -> Outcome:
    turn = await prompted(turn)
    config, history = turn.config.history, await turn.sys.history()
    summary, records = taken_apart(history)
    if config.redact_tool_outputs:
        records = list(map(_without_secrets, records))
    if not turn.sees_sensitive:
        records = _without_sensitive(records, config)
    exchanges = aged(repaired(records))
    shown = _Shown(turn, await turn.sys.deeds(), room_of(config, turn.system))
    alone = is_left_alone(history)
    limit = 0 if alone else limit_of(window_of(turn), turn.system)
    beside = shown.beside(summary, exchanges)
    is_full = limit > 0 and len(exchanges) > 1 and _tokens(beside, exchanges) > limit
    if not is_full and fits(exchanges, beside, shown.room):
        return Continue(shown.turn(summary, exchanges), f"{len(exchanges)} exchanges")
    room = shown.room - shown.reserved
    if is_full or (summarises(config, room) and not alone):
        kept = recent_of(exchanges) if is_full else to_keep(config, exchanges, room)
        source = _without_sensitive(records, config)  # whoever asks: others will be shown the summary
        part = _Part(summary, source[: cut_at(records, kept)], len(records) - cut_at(records, kept))
        turn, newer = await _summarised(turn, part, summary_bytes(max(room, LEAST_ROOM)), is_full)
        shown = replace(shown, of=turn)
        if newer is not None and fits(exchanges[len(exchanges) - kept :], _head(newer), room):
            why = f"{kept} exchanges, {len(exchanges) - kept} into a summary"
            return Continue(shown.turn(newer, exchanges[len(exchanges) - kept :]), why)
        if newer is not None:
            summary, exchanges = newer, exchanges[len(exchanges) - kept :]
    if not fits([], _head(summary), room):
        summary = None  # it was made for a larger room
    kept = most_that_fit(exchanges, _head(summary), room)
    gone = len(exchanges) - kept
    return Continue(
        shown.turn(summary, exchanges[gone:], truncated=bool(gone)), f"{kept} exchanges, {gone} left out"
    )


def window_of(turn: AgentTurn) -> int:
    """The window that the history has to fit: as no model is chosen yet, the smallest of those that may be."""
    return turn.config.context_window or (turn.router.least_window if turn.router is not None else 0)


def _tokens(beside: Sequence[Record], exchanges: Sequence[list[Record]]) -> int:
    return sum(map(estimate_tokens, (*beside, *(record for exchange in exchanges for record in exchange))))


@dataclass(frozen=True, slots=True)
class _Part:
    """What is to be summarised: the summary ``before``, and ``records`` that came since; so many behind it stay."""

    before: Summary | None
    records: list[Record]
    behind: int

    @property
    def tokens(self) -> int:
        return sum(map(estimate_tokens, (*_head(self.before), *self.records)))

    def turn_at(self, end: int) -> str:
        """The turn of its first or last message, as far as the session says it."""
        turns = [record["turn"] for record in self.records if isinstance(record.get("turn"), str)]
        return turns[end][:64] if turns else ""


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
    turn: AgentTurn, part: _Part, most_bytes: int, must: bool
) -> tuple[AgentTurn, Summary | None]:
    """A part of the session in a model's words, or where it ``must`` be and the model gives none, by how each message
    began; None where there is none, or it takes no less. The turn then has what the session is to keep of it.
    """
    source = source_of(part.before, part.records, source_bytes(window_of(turn)))
    first = summary_of("", part.records, part.behind)
    told = Compaction(
        "started", len(part.records), first.sha256, part.turn_at(0), part.turn_at(-1), before=part.tokens
    )
    await turn.sys.compaction(told)
    asked = (*system_records(PROMPT), {"role": "user", "content": source})
    answer = await turn.ask(ModelRequest(asked, (), turn.provider, turn.model, aside=True))
    said, facts = without_facts(answer.text) if answer.status == "ok" else ("", ())
    why = "" if said.strip() else f"no summary: {answer.text[:200] or 'an empty answer'}"
    if why and must:
        said = extract(source)
    newer = replace(first, text=summary_of(said, [], 0, most_bytes).text)
    after = sum(map(estimate_tokens, newer.shown()))
    if not said.strip():
        turn.sys.log(f"history: {why}")
        await turn.sys.compaction(replace(told, state="failed", why=why))
        return turn, None
    if after >= part.tokens:
        why = f"{part.tokens} tokens would have become {after}"
        turn.sys.log(f"history: {why}; it is left alone for {REST_TURNS} turns")
        await turn.sys.compaction(replace(told, state="failed", after=after, why=why))
        return replace(turn, notes=(*turn.notes, breaker_record(why))), None
    facts = tuple(map(redacted, facts))
    flushed = await turn.sys.compaction(replace(told, state="done", after=after, facts=facts, why=why))
    if flushed.why:
        turn.sys.log(f"history: {flushed.why}")
    return replace(turn, notes=(*turn.notes, newer.record())), newer


def _without_sensitive(records: list[Record], config: HistoryConfig) -> list[Record]:
    return [_cleaned(record, lambda text: hidden(text, config.sensitive_fields)) for record in records]


def _without_secrets(record: Record) -> Record:
    return _cleaned(record, redacted)


def _cleaned(record: Record, clean: Callable[[str], str]) -> Record:
    """The same with what a tool gave cleaned."""
    text = record.get("content")
    if record.get("role") != "tool" or not isinstance(text, str):
        return record
    cleaned = clean(text)
    return record if cleaned == text else {**record, "content": cleaned}
