"""What people may ask of dead letters: to see them and what became of them, to send one again, to drop one."""

from __future__ import annotations

import re
from itertools import islice

from kernel.control.archive import ask_archive
from kernel.control.asked import Asked
from kernel.control.mail.history import KINDS, steps_of
from kernel.control.processes import SHOWN_CHARS
from kernel.errors import Invalid, NotFound
from kernel.kernel import Kernel
from kernel.memory.memory import Ask
from kernel.memory.requests import AboutQuestion, LogRows
from kernel.model.address import is_below
from kernel.operations.messages import (
    DeadLetter,
    Drop,
    Dropped,
    Letters,
    Messages,
    OfLetter,
    OfMessage,
    Replay,
    Replayed,
    Step,
)
from kernel.operations.operation import Handler
from kernel.slices.dead_letters import DeadLetter as Letter
from kernel.slices.mailboxes import turn_id
from kernel.state.recorder import ledger_errors
from kernel.values import clean

MOST_STEPS = 500
_IS_ID = re.compile(r"m[0-9]{1,18}").fullmatch


class LetterControl:
    """Dead letters of a node."""

    def __init__(self, kernel: Kernel, archive: Ask) -> None:
        self._router = kernel.router
        self._letters = kernel.state.dead
        self._recorder = kernel.recorder
        self._archive = archive

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (
            Messages.deadletters.by(self.deadletters),
            Messages.deadletter.by(self.deadletter),
            Messages.history.by(self.history),
            Messages.replay.by(self.replay),
            Messages.drop.by(self.drop),
        )

    async def deadletters(self, asked: Asked, request: Letters) -> list[DeadLetter]:
        found = (letter for letter in self._letters.values() if _is_meant(letter, request))
        rows = (_row(letter) for letter in islice(found, request.limit))
        return [{**row, "text": row["text"][:SHOWN_CHARS]} for row in rows]

    async def deadletter(self, asked: Asked, request: OfLetter) -> DeadLetter:
        return _row(self._must(request.id))

    async def history(self, asked: Asked, request: OfMessage) -> list[Step]:
        """Raises Invalid, NotFound, Unavailable."""
        if not _IS_ID(request.id):
            raise Invalid(f"{request.id!r} is no message: ids are m and a number, as in m12")
        with ledger_errors():
            await self._recorder.barrier()
        ident = request.id
        about = AboutQuestion(
            list(KINDS), [ident, turn_id(ident)], turn_id(ident), int(ident[1:]), MOST_STEPS
        )
        steps = steps_of((await ask_archive(self._archive, "about", about, LogRows)).rows)
        if not steps:
            raise NotFound(f"the ledger knows no message {ident}; weftos chain log --kind message has them")
        return steps

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
