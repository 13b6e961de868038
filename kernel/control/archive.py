"""What people may ask of the archive: statements of SQL, how far it has come, and to be built anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from kernel.control.asked import Asked
from kernel.errors import Busy, Invalid, KernelError, TimedOut, Unavailable
from kernel.helper.helper import HelperLost, HelperRefused
from kernel.memory.memory import Ask
from kernel.memory.requests import ArchiveStatus, SqlAnswer, SqlFault, SqlQuestion
from kernel.operations.archive import Archive, ArchiveState, Found, Query
from kernel.operations.operation import Handler, Nothing
from kernel.shapes import ShapeError, read, told
from kernel.state.recorder import Recorder, ledger_errors

T = TypeVar("T")
_ERRORS: Mapping[str, type[KernelError]] = {kind.code: kind for kind in (Invalid, Busy, TimedOut)}


async def ask_archive(archive: Ask, op: str, question: Any, kind: type[T]) -> T:
    """One question to the archive, however long it takes. Raises Unavailable."""
    try:
        return read(kind, await archive(op, told(question)))
    except (HelperLost, HelperRefused) as error:
        raise Unavailable(f"the archive cannot answer: {error}") from error
    except ShapeError as error:
        raise Unavailable(f"the archive's answer to {op} is none: {error}") from error


class ArchiveControl:
    """``archive(op, args)`` asks the archive. Questions are not recorded."""

    def __init__(self, recorder: Recorder, archive: Ask) -> None:
        self._ledger = recorder.ledger
        self._archive = archive

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (
            Archive.status.by(self.status),
            Archive.sql.by(self.sql),
            Archive.rebuild.by(self.rebuild),
        )

    async def sql(self, asked: Asked, request: Query) -> Found:
        """Everything acknowledged before is asked over, unless the archive is far behind.

        Raises Invalid, Busy, TimedOut, Unavailable.
        """
        with ledger_errors():
            await self._ledger.barrier()
        answer = await ask_archive(self._archive, "sql", SqlQuestion(request.sql, request.limit), SqlAnswer)
        if answer.found is None:
            fault = answer.fault or SqlFault(Unavailable.code, "the archive says nothing of this statement")
            raise _ERRORS.get(fault.code, Unavailable)(fault.message)
        found = answer.found
        return {"columns": found.columns, "rows": found.rows, "cut": found.cut, "loaded": found.loaded}

    async def status(self, asked: Asked, request: Nothing) -> ArchiveState:
        """Raises Unavailable."""
        return await self._state()

    async def rebuild(self, asked: Asked, request: Nothing) -> ArchiveState:
        """Raises Unavailable."""
        await self._state()  # refused before the command is recorded
        asked.record()
        await ask_archive(self._archive, "rebuild", Nothing(), Nothing)
        return await self._state()

    async def _state(self) -> ArchiveState:
        status = await ask_archive(self._archive, "status", Nothing(), ArchiveStatus)
        return {
            "entries": status.entries,
            "size": self._ledger.size,
            "rebuilt": status.rebuilt,
            "fault": status.fault,
        }
