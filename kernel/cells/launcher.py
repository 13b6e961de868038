"""Puts processes into cells: the process tree's :class:`kernel.process.processes.Launcher`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import is_
from typing import Any

from kernel.abi import LastExit
from kernel.cells.cell_events import CellStartFailed, Placement
from kernel.cells.cells import Cells
from kernel.model.spec import ProcessSpec
from kernel.operations.rights.capabilities import Capabilities
from kernel.operations.spawning import Isolation
from kernel.process.live import LiveProcess
from kernel.signals import Signals
from kernel.state.state import State
from kernel.values import canonical, merged


@dataclass(frozen=True, slots=True)
class BehaviourEntry:
    """A behaviour the node knows by name. ``package`` is its trust domain; ``config`` is what each of its processes is
    told, unless its spawn says otherwise; ``check_replay``: each turn of theirs is gone through once more.
    """

    name: str
    import_string: str
    python_path: tuple[str, ...] = ()
    isolation: Isolation = "shared"
    package: str = "builtin"
    config: Mapping[str, Any] = field(default_factory=dict)
    check_replay: bool = False


class Told:
    """What is configured of behaviours now, by their names, as JSON: one text for all processes of one."""

    def __init__(self, behaviours: Mapping[str, BehaviourEntry]) -> None:
        self._behaviours = behaviours
        self._texts: dict[str, tuple[BehaviourEntry, str]] = {}

    def __call__(self, name: str) -> str:
        """Empty for one that is not known."""
        entry = self._behaviours.get(name)
        if entry is None:
            return ""
        known = self._texts.get(name)
        if known is None or known[0] is not entry:
            known = self._texts[name] = entry, canonical(dict(entry.config))
        return known[1]


class CellLauncher:
    """Over the behaviours that are configured now."""

    def __init__(
        self, cells: Cells, state: State, behaviours: Mapping[str, BehaviourEntry], signals: Signals
    ) -> None:
        self._cells = cells
        self._state = state
        self._behaviours = behaviours
        self._signals = signals
        self._text = Told(behaviours)
        self._shared: tuple[tuple[str, tuple[str, ...], Capabilities], str] | None = None
        self._told: tuple[tuple[Mapping[str, Any], dict[str, Any]], dict[str, Any]] | None = None

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
        process.config = self._text(spec.behaviour)
        if resumed is not None and resumed.config:
            told = json.loads(resumed.config)  # what the open turn began with, whatever is configured by now
            process.config = canonical(told)
        self._cells.place(
            Placement(
                pid=process.pid,
                address=process.address,
                name=spec.name,
                behaviour=spec.behaviour,
                import_string=entry.import_string,
                domain=self._domain(entry, spec),
                isolation="isolated" if process.alone and spec.isolation == "shared" else spec.isolation,
                made_by=self._state.slots.maker(process.address),
                python_path=entry.python_path,
                config=self._config(told, spec),
                last_exit=self._last_exit(process),
                check_replay=entry.check_replay,
            )
        )

    def told(self, spec: ProcessSpec) -> Mapping[str, Any]:
        """What a process of this spec is told, by what is configured now."""
        entry = self._behaviours.get(spec.behaviour)
        return self._config({} if entry is None else entry.config, spec)

    def _config(self, told: Mapping[str, Any], spec: ProcessSpec) -> dict[str, Any]:
        """What a process is told. Replicas have the very same: theirs is made once, and nobody changes it."""
        of = (told, spec.config)
        if self._told is None or not all(map(is_, of, self._told[0])):
            self._told = of, merged(told, spec.config)
        return self._told[1]

    def _domain(self, entry: BehaviourEntry, spec: ProcessSpec) -> str:
        """Whom it may share a cell with. Replicas have the very same tools and capabilities: theirs is made once."""
        of = (entry.package, spec.tools, spec.capabilities)
        if self._shared is None or not all(map(is_, of, self._shared[0])):
            held = canonical(told) if (told := spec.capabilities.told()) else ""
            self._shared = of, f"{entry.package}|{','.join(sorted(spec.tools))}{held}"
        return self._shared[1]

    def _last_exit(self, process: LiveProcess) -> LastExit | None:
        slot = self._state.slots.get(process.address)
        return None if slot is None else slot.forerunner(process.after)

    def stop(self, pid: int, why: str) -> None:
        """The process is dead to the node: see that its cell knows."""
        self._cells.stop(pid, why)
