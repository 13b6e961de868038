"""What people may ask of the archive: statements of SQL, how far it has come, and to be built anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernel.errors import Busy, Invalid, KernelError, TimedOut, Unavailable
from kernel.helper.helper import HelperLost, HelperRefused
from kernel.memory.memory import Ask
from kernel.state.recorder import Recorder, ledger_errors

Command = Callable[..., tuple[int, bytes]]

_ERRORS: Mapping[str, type[KernelError]] = {kind.code: kind for kind in (Invalid, Busy, TimedOut)}


class ArchiveControl:
    """The part of the control facade that is about the archive. ``archive(op, args)`` asks it.

    ``command(op, operation, **arguments)`` records who asked for what. Questions are not recorded.
    """

    def __init__(self, recorder: Recorder, command: Command, archive: Ask) -> None:
        self._ledger = recorder.ledger
        self._command = command
        self._archive = archive

    async def sql(self, sql: str, limit: int) -> dict[str, Any]:
        """What one SELECT answers: columns [[name, type]], rows, cut (why there are more, else empty), loaded (how many
        entries it was asked over). Everything acknowledged before is among them, unless the archive is far behind.

        Raises Invalid, Busy, TimedOut, Unavailable.
        """
        with ledger_errors():
            await self._ledger.barrier()
        answer = await self._ask("sql", {"sql": sql, "limit": limit})
        if "error" in answer:
            code, message = str(answer["error"]["code"]), str(answer["error"]["message"])
            raise _ERRORS.get(code, Unavailable)(message)
        return answer

    async def status(self) -> dict[str, Any]:
        """entries (that it holds), size (of the ledger), rebuilt (why it was, or None), fault (why it does not go on,
        or None). Raises Unavailable.
        """
        return {**await self._ask("status", {}), "size": self._ledger.size}

    async def rebuild(self, op: Mapping[str, object]) -> dict[str, Any]:
        """Throw its files away and begin to build them anew; then as :meth:`status`. Raises Unavailable."""
        self._command(op, "archive_rebuild")
        await self._ask("rebuild", {})
        return await self.status()

    async def _ask(self, op: str, args: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = await self._archive(op, args)
        except (HelperLost, HelperRefused) as error:
            raise Unavailable(f"the archive cannot answer: {error}") from error
        return answer if isinstance(answer, dict) else {}
