"""Puts processes into cells: the process tree's :class:`kernel.process.processes.Launcher`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernel.abi import LastExit
from kernel.cells.cell_events import CellStartFailed, Placement
from kernel.cells.cells import Cells
from kernel.operations.spawning import Isolation
from kernel.process.live import LiveProcess
from kernel.signals import Signals
from kernel.state.state import State
from kernel.values import canonical


@dataclass(frozen=True, slots=True)
class BehaviourEntry:
    """A behaviour the node knows by name. ``package`` is its trust domain; ``config`` is what each of its processes is
    told, unless its spawn says otherwise.
    """

    name: str
    import_string: str
    python_path: tuple[str, ...] = ()
    isolation: Isolation = "shared"
    package: str = "builtin"
    config: Mapping[str, Any] = field(default_factory=dict)


class CellLauncher:
    """Over the behaviours that are configured now."""

    def __init__(
        self, cells: Cells, state: State, behaviours: Mapping[str, BehaviourEntry], signals: Signals
    ) -> None:
        self._cells = cells
        self._state = state
        self._behaviours = behaviours
        self._signals = signals
        self._texts: dict[str, tuple[BehaviourEntry, str]] = {}

    def place(self, process: LiveProcess) -> None:
        """Put a process into a cell; a behaviour that is not configured any more fails to start."""
        spec = process.spec
        entry = self._behaviours.get(spec.behaviour)
        if entry is None:
            failed = CellStartFailed(process.pid, f"behaviour {spec.behaviour!r} is not configured")
            asyncio.get_running_loop().call_soon(self._signals.say, failed)
            return
        resumed = self._state.turn_of(process.address)
        told = entry.config
        process.config = self._text(entry)
        if resumed is not None and resumed.config:
            told = json.loads(resumed.config)  # what the open turn began with, whatever is configured by now
            process.config = canonical(told)
        domain = f"{entry.package}|{','.join(sorted(spec.tools))}"
        self._cells.place(
            Placement(
                pid=process.pid,
                address=process.address,
                name=spec.name,
                behaviour=spec.behaviour,
                import_string=entry.import_string,
                domain=domain,
                isolation=spec.isolation,
                made_by=self._state.slots.maker(process.address),
                python_path=entry.python_path,
                config={**told, **spec.config},
                last_exit=self._last_exit(process),
            )
        )

    def _text(self, entry: BehaviourEntry) -> str:
        """What is configured of a behaviour, as JSON: one text for all of its processes."""
        known = self._texts.get(entry.name)
        if known is None or known[0] is not entry:
            known = self._texts[entry.name] = entry, canonical(dict(entry.config))
        return known[1]

    def _last_exit(self, process: LiveProcess) -> LastExit | None:
        slot = self._state.slots.get(process.address)
        return None if slot is None else slot.forerunner(process.after)

    def stop(self, pid: int, why: str) -> None:
        """The process is dead to the node: see that its cell knows."""
        self._cells.stop(pid, why)
