"""What is seen of turns, told to whoever follows one, while it runs or later.

Nobody has a queue: the events are kept (:mod:`kernel.slices.feed.turn_logs`), a reader is a number in them, and waits
when he has read what there is. So a reader who is slow, or never reads, costs nothing and holds up nobody; one who is
so slow that what he has not read is let go is told so. What is told is on the disk first: a number that anybody has
seen means the same event for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import islice
from typing import cast

from chain.errors import LedgerUnavailable
from chain.ledger.ledger import Group, StateChange
from kernel.errors import Busy, Invalid, NotFound
from kernel.operations.turns.events import EventName, TurnEventRow
from kernel.slices.feed.turn_event import RECORDED
from kernel.slices.feed.turn_logs import TurnLog
from kernel.slices.mailboxes import message_id
from kernel.state.after_durable import AfterDurable
from kernel.state.record_forms import TURN_EVENT, TurnEventName, turn_event
from kernel.state.recorder import Recorder
from kernel.values import clean

MOST_READERS = 10_000
TOGETHER_S = 0.02
TOGETHER_CHARS = 8 * 1024
_AT_ONCE = 256


@dataclass(slots=True)
class _Piece:
    """What a model has said and is not recorded yet."""

    timer: asyncio.TimerHandle
    text: list[str] = field(default_factory=list)
    chars: int = 0


class TurnFeed:
    """Records what models say while they say it, and lets turns be followed."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._ledger = recorder.ledger
        self._logs = recorder.state.turn_logs
        self._after = AfterDurable(recorder.ledger)
        self._pieces: dict[tuple[str, str], _Piece] = {}
        self._durable: dict[str, int] = {log.turn: log.next for log in self._logs.open_ones()}
        self._readers: dict[str, int] = {}
        self._news: dict[str, tuple[int, asyncio.Event]] = {}
        self._ledger.on_group(self._written)

    @property
    def readers(self) -> int:
        """How many there are."""
        return sum(self._readers.values())

    # -- what is seen --------------------------------------------------------------------------------------------

    def said(self, turn: str, step: str, text: str) -> None:
        """A model has said more. What comes within a moment is one event."""
        piece = self._pieces.get((turn, step))
        if piece is None:
            timer = asyncio.get_running_loop().call_later(TOGETHER_S, self._record_piece, turn, step)
            piece = self._pieces[turn, step] = _Piece(timer)
        piece.text.append(text)
        piece.chars += len(text)
        if piece.chars >= TOGETHER_CHARS:
            self._record_piece(turn, step)

    def void(self, turn: str, step: str, why: str) -> None:
        """What was shown of an answer is void: it begins anew."""
        self._take(turn, step)
        if self._shown(turn, step):
            self._record(turn, "reset", step, why)

    def settle(self, turn: str, step: str) -> None:
        """All of an answer is about to be recorded, or nothing will be: what is held back of it is recorded first, or
        left to that record where nothing was shown before.
        """
        if self._shown(turn, step):
            self._record_piece(turn, step)
        else:
            self._take(turn, step)

    def _shown(self, turn: str, step: str) -> int:
        log = self._logs.get(turn)
        return 0 if log is None else log.showing.get(step, 0)

    def _take(self, turn: str, step: str) -> str:
        piece = self._pieces.pop((turn, step), None)
        if piece is None:
            return ""
        piece.timer.cancel()
        return "".join(piece.text)

    def _record_piece(self, turn: str, step: str) -> None:
        if text := self._take(turn, step):
            self._record(turn, "llm_token", step, clean(text))

    def _record(self, turn: str, name: TurnEventName, step: str, text: str) -> None:
        """While the disk refuses, it is left out: the answer, once it is recorded, has all of the text."""
        log = self._logs.get(turn)
        if log is None or log.ended:
            return
        value = turn_event(name, self._ledger.now_us(), step, text)
        try:
            ticket = self._recorder.commit([StateChange(TURN_EVENT, turn, value)])
        except LedgerUnavailable:
            return
        number = log.next
        self._after.do(lambda: self._is_durable(turn, number), ticket)

    def _is_durable(self, turn: str, number: int) -> None:
        if turn in self._logs:
            self._durable[turn] = max(number, self._durable.get(turn, 0))

    def _written(self, group: Group) -> None:
        """Wake those for whom there is something."""
        for written in group.entries:
            if written.entry.kind == "turn.ended":
                self._durable.pop(written.entry.subject, None)
        for turn, (known, news) in self._news.items():
            log = self._logs.get(turn)
            if log is None or log.ended or self._visible(log) > known:
                news.set()

    def _visible(self, log: TurnLog) -> int:
        """The number of the first event that is not on the disk for certain."""
        durable, size, at = self._durable.get(log.turn, 0), self._ledger.size, log.next
        for one in reversed(log.events):
            if at <= durable or RECORDED < one.seq < size:
                break
            at -= 1
        return at

    # -- who looks on --------------------------------------------------------------------------------------------

    async def follow(self, turn: str, start: int, wait: bool) -> AsyncIterator[TurnEventRow]:
        """The events of a turn from number ``start`` on, until it has ended; without ``wait`` those that there are.

        A turn that has not begun is waited for when its message is there. Raises NotFound for one of which nothing is
        kept, Invalid for a number beyond the next event, Busy.
        """
        if self.readers >= MOST_READERS:
            raise Busy(f"{MOST_READERS} readers follow turns, the limit")
        self._readers[turn] = self._readers.get(turn, 0) + 1
        try:
            async for row in self._follow(turn, start, wait):
                yield row
        finally:
            self._readers[turn] -= 1
            if not self._readers[turn]:
                del self._readers[turn]
                self._news.pop(turn, None)

    async def _follow(self, turn: str, at: int, wait: bool) -> AsyncIterator[TurnEventRow]:
        while True:
            log = self._logs.get(turn)
            visible = 0 if log is None else self._visible(log)
            if log is None:
                self._must_come(turn)
            elif at > log.next:
                raise Invalid(
                    f"turn {turn} has {log.next} events so far, numbered from 0: ask for those from {log.next} on "
                    f"at most, not from {at}"
                )
            elif at < log.first:
                lost, at = at, log.first
                yield _lost(turn, lost, at, self._ledger.now_us())
                continue
            elif at < visible:
                for one in list(islice(log.events, at - log.first, min(visible, at + _AT_ONCE) - log.first)):
                    yield {
                        "turn": turn,
                        "offset": at,
                        "event": cast(EventName, one.name),
                        "time_us": one.time_us,
                        "step": one.step,
                        "data": dict(one.data),
                    }
                    at += 1
                continue
            elif log.ended and at >= log.next:
                return
            if not wait:
                return
            await self._more(turn, visible)

    def _must_come(self, turn: str) -> None:
        """Raises NotFound unless the message of a turn waits."""
        if self._recorder.state.find_mail(message_id(turn)) is None:
            raise NotFound(
                f"no events of a turn {turn!r:.60} are kept: they are for a day, and while there is room. weftos trace "
                "--turn has what the ledger says of it"
            )

    async def _more(self, turn: str, known: int) -> None:
        """Wait until there may be more than ``known`` events."""
        at, news = self._news.get(turn, (-1, None))
        if news is not None and known > at:
            news.set()
        if news is None or news.is_set():
            news = asyncio.Event()
            self._news[turn] = known, news
        await news.wait()


def _lost(turn: str, first: int, then: int, now_us: int) -> TurnEventRow:
    data = {"from": first, "to": then - 1}
    return {"turn": turn, "offset": first, "event": "lost", "time_us": now_us, "step": "", "data": data}
