"""What people may ask of trajectories: to see them, and to say how a turn went."""

from __future__ import annotations

import re
from itertools import islice

from chain.ledger.ledger import Draft
from kernel.control.archive import ask_archive
from kernel.control.asked import Asked
from kernel.errors import Busy, Invalid, NotFound
from kernel.kernel import Kernel
from kernel.memory.memory import Ask
from kernel.memory.requests import AboutQuestion, LogRows
from kernel.operations.operation import Handler
from kernel.operations.turns.trajectories import (
    ListTrajectories,
    Rate,
    Rated,
    Trajectories,
    TrajectoryRow,
)
from kernel.slices.feed.trajectories import rated_overall, thumb_of
from kernel.state.recorder import ledger_errors
from kernel.turn.turn_signals import SessionRead
from kernel.values import clean

_ENDS = ["turn.ended", "message.dead"]
_IS_TURN = re.compile(r"t[0-9]{1,18}").fullmatch


class TrajectoryControl:
    """Trajectories of a node."""

    def __init__(self, kernel: Kernel, archive: Ask) -> None:
        self._kernel = kernel
        self._state = kernel.state
        self._archive = archive

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (Trajectories.list.by(self.list), Trajectories.rate.by(self.rate))

    async def list(self, asked: Asked, request: ListTrajectories) -> list[TrajectoryRow]:
        address = self._kernel.messaging.resolve(request.named)
        now_us, before = self._kernel.recorder.ledger.now_us(), request.before
        found = self._state.trajectories.of(address, now_us)
        meant = (one for one in found if not before or one.response < before)
        return [one.row() for one in islice(meant, request.limit)][::-1]

    async def rate(self, asked: Asked, request: Rate) -> Rated:
        """Raises Invalid, Busy (the turn goes on), NotFound, Unavailable."""
        ident = request.turn
        if not _IS_TURN(ident):
            raise Invalid(f"{ident!r:.40} is no turn: ids are t and a number, as in t12")
        await self._check_ended(ident)
        one = self._state.trajectories.get(ident)
        before = None if one is None else thumb_of(one.thumb)
        seq, trace = asked.record(turn=ident, thumb=request.thumb)
        body = {
            "turn": ident,
            "thumb": request.thumb,
            "why": " ".join(clean(request.why).split()),
            "by": asked.by,
        }
        with ledger_errors():
            ticket = self._kernel.recorder.commit([Draft("turn.rated", body, 0, ident, trace, seq)])
            if one is not None:  # an erasure of its session that is being planned has not seen this entry
                self._kernel.opened.read(SessionRead(one.address, one.session))
            await ticket.durable()
        return {
            "turn": ident,
            "thumb": request.thumb,
            "seq": ticket.entries[0].entry.seq,
            "before": before or "",
            "overall": None if one is None else rated_overall(one.scores, request.thumb),
        }

    async def _check_ended(self, ident: str) -> None:
        if ident in self._state.turns:
            raise Busy(f"turn {ident} has not ended yet: rate it when it has")
        if ident in self._state.trajectories:
            return
        with ledger_errors():
            await self._kernel.recorder.barrier()
        about = AboutQuestion(_ENDS, [ident, f"m{ident[1:]}"], ident, int(ident[1:]), 1)
        rows = (await ask_archive(self._archive, "about", about, LogRows)).rows
        if not rows:
            raise NotFound(f"no turn {ident} has ended here: weftos chain log --kind turn.ended has those")
        if rows[0]["body"] is None:
            raise NotFound(f"turn {ident} was erased")
