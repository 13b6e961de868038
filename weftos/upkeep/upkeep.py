"""What keeps the files of a node's ledger short, and takes out of them what is erased."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from chain.in_thread import in_thread
from kernel.control.facts import Erasures
from kernel.errors import Invalid, KernelError, NotFound, Refused, Unavailable
from kernel.state.recorder import Recorder
from kernel.upkeep.erasure import Plan, Selection, as_json
from weftos.config.settings import Settings
from weftos.helpers.commands import compact_child, selection_child
from weftos.helpers.compaction import Compaction, CompactionError, Log, run_child
from weftos.log.erased_logs import logged
from weftos.upkeep.erasing import Erasing

_ERRORS: dict[str, type[KernelError]] = {kind.code: kind for kind in (Refused, NotFound, Invalid)}


class Upkeep:
    """One node's, between its start and its stop. ``archive(op, args)`` asks the archive."""

    def __init__(
        self,
        data: Path,
        runtime: Path,
        settings: Settings,
        recorder: Recorder,
        archive: Callable[[str, dict[str, Any]], Awaitable[Any]],
        log: Log,
    ) -> None:
        ledger, child = recorder.ledger.upkeep, compact_child(data, runtime, settings.limits.bounds())
        self._compaction = Compaction(ledger, data, child, settings.ledger.compact_bytes, log)
        self._erasing = Erasing(recorder, ledger, self._compaction, archive, log)
        self._reader = selection_child(data, runtime)
        self._logs = data / "logs"

    @property
    def erasures(self) -> Erasures:
        """For the control facade."""
        return Erasures(self._plan, self._erasing.start, self._erasing.progress)

    async def _plan(self, selection: Selection) -> Plan:
        """Read the whole ledger, in another process. Raises KernelError."""
        try:
            said = json.loads(await run_child(self._reader, json.dumps(as_json(selection)).encode()))
        except CompactionError as error:
            raise Unavailable(f"the ledger could not be read: {error}") from error
        if "error" in said:
            raise _ERRORS.get(said["error"]["code"], Unavailable)(said["error"]["message"])
        plan = Plan.of(said)
        plan.logs = await in_thread(logged, self._logs, frozenset(plan.pids))
        return plan

    def start(self) -> None:
        """Begin, and go on with what the last run left undone."""
        self._compaction.start()
        self._erasing.start()

    async def close(self) -> None:
        """Stop where it stands."""
        await self._erasing.close()
        await self._compaction.close()
