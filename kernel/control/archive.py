"""What people may ask of the archive: statements of SQL, how far it has come, and to be built anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from kernel.control.asked import Asked
from kernel.errors import Busy, Invalid, KernelError, TimedOut, Unavailable
from kernel.helper.helper import HelperLost, HelperRefused
from kernel.memory.memory import Ask
from kernel.operations.archive import Archive, ArchiveState, Found, Query
from kernel.operations.operation import Handler, Nothing
from kernel.state.recorder import Recorder, ledger_errors

_ERRORS: Mapping[str, type[KernelError]] = {kind.code: kind for kind in (Invalid, Busy, TimedOut)}


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
        answer = await self._ask("sql", {"sql": request.sql, "limit": request.limit})
        if "error" in answer:
            code, message = str(answer["error"]["code"]), str(answer["error"]["message"])
            raise _ERRORS.get(code, Unavailable)(message)
        return cast(Found, answer)

    async def status(self, asked: Asked, request: Nothing) -> ArchiveState:
        """Raises Unavailable."""
        return await self._state()

    async def rebuild(self, asked: Asked, request: Nothing) -> ArchiveState:
        """Raises Unavailable."""
        asked.record()
        await self._ask("rebuild", {})
        return await self._state()

    async def _state(self) -> ArchiveState:
        return cast(ArchiveState, {**await self._ask("status", {}), "size": self._ledger.size})

    async def _ask(self, op: str, args: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = await self._archive(op, args)
        except (HelperLost, HelperRefused) as error:
            raise Unavailable(f"the archive cannot answer: {error}") from error
        return answer if isinstance(answer, dict) else {}
