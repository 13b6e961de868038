"""What people may ask of dead letters: to see them, to send one again, to drop one."""

from __future__ import annotations

from itertools import islice

from kernel.control.asked import Asked
from kernel.control.processes import SHOWN_CHARS
from kernel.errors import NotFound
from kernel.kernel import Kernel
from kernel.model.address import is_below
from kernel.operations.messages import (
    DeadLetter,
    Drop,
    Dropped,
    Letters,
    Messages,
    OfLetter,
    Replay,
    Replayed,
)
from kernel.operations.operation import Handler
from kernel.slices.dead_letters import DeadLetter as Letter
from kernel.state.recorder import ledger_errors
from kernel.values import clean


class LetterControl:
    """Dead letters of a node."""

    def __init__(self, kernel: Kernel) -> None:
        self._router = kernel.router
        self._letters = kernel.state.dead

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (
            Messages.deadletters.by(self.deadletters),
            Messages.deadletter.by(self.deadletter),
            Messages.replay.by(self.replay),
            Messages.drop.by(self.drop),
        )

    async def deadletters(self, asked: Asked, request: Letters) -> list[DeadLetter]:
        found = (letter for letter in self._letters.values() if _is_meant(letter, request))
        rows = (_row(letter) for letter in islice(found, request.limit))
        return [{**row, "text": row["text"][:SHOWN_CHARS]} for row in rows]

    async def deadletter(self, asked: Asked, request: OfLetter) -> DeadLetter:
        return _row(self._must(request.id))

    async def replay(self, asked: Asked, request: Replay) -> Replayed:
        self._router.check_replay(request.id, request.to, request.again)
        seq, _ = asked.record(id=request.id, to=request.to, again=request.again)
        with ledger_errors():
            new = await self._router.replay(request.id, seq, request.to, request.again)
        return {"message": new.id, "address": new.address, "seq": new.seq}

    async def drop(self, asked: Asked, request: Drop) -> Dropped:
        self._must(request.id)
        seq, _ = asked.record(id=request.id, why=request.why)
        with ledger_errors():
            await self._router.drop(request.id, clean(request.why), asked.by, seq)
        return {"id": request.id}

    def _must(self, ident: str) -> Letter:
        letter = self._letters.get(ident)
        if letter is None:
            raise NotFound(f"no dead letter {ident}; weftos deadletters list shows them")
        return letter


def _is_meant(letter: Letter, request: Letters) -> bool:
    return (
        letter.seq > request.after
        and (request.replayed or not letter.replays)
        and request.reason in ("", letter.reason)
        and _is_at(letter.mail.to, request.to)
        and _is_at(letter.mail.sender, request.sender)
    )


def _is_at(address: str, asked: str) -> bool:
    return asked in ("", address) or (asked.startswith("/") and is_below(address, asked))


def _row(letter: Letter) -> DeadLetter:
    mail = letter.mail
    return {
        "id": mail.id,
        "sender": mail.sender,
        "to": mail.to,
        "session": mail.session,
        "text": mail.text,
        "why": letter.why,
        "reason": letter.reason,
        "seq": letter.seq,
        "time_us": letter.time_us,
        "accepted_seq": mail.seq,
        "accepted_us": mail.time_us,
        "replays": letter.replays,
        "replayed_as": letter.replayed_as,
    }
