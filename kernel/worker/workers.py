"""The node's side of the workers: which package runs a tool, and one pool for each package.

Built-in and third-party tools never share a process, and neither do two third-party packages.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kernel.abi import ToolDeclaration
from kernel.cell.link.frames import UNHEEDED, Hearing
from kernel.helper.helper import HelperCommand
from kernel.helper.os_processes import SESSION_VARIABLE, Mark
from kernel.toolbox.declaration import DeclarationError, declaration_from_data
from kernel.toolbox.files import UNKNOWN
from kernel.toolbox.protected import NOTHING_PROTECTED, ProtectedPaths
from kernel.toolbox.registry import BUILTIN_PACKAGE, RegistryError, ToolSource, builtin_declarations
from kernel.worker.intent import Spent, receipt_index
from kernel.worker.pool import (
    Came,
    Placed,
    WorkerCall,
    WorkerLeft,
    WorkerLimits,
    WorkerLost,
    WorkerPool,
    WorkerResult,
    WorkerUnavailable,
    WorkerWithdrawn,
    local_result,
    waited_for,
)
from kernel.worker.requests import Configure, Configured, ToolImport

__all__ = [
    "Came",
    "Description",
    "WorkerCall",
    "WorkerLeft",
    "WorkerLimits",
    "WorkerLost",
    "WorkerResult",
    "WorkerUnavailable",
    "WorkerWithdrawn",
    "Workers",
    "worker_command",
    "worker_name",
]

ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", SESSION_VARIABLE)


@dataclass(frozen=True, slots=True)
class Description:
    """What the third-party tools say of themselves: the usable declarations, and of every other tool its fault."""

    declarations: tuple[ToolDeclaration, ...]
    faults: dict[str, str]


def worker_name(package: str) -> str:
    """What the worker of a package is called."""
    return f"worker-{package}"


def worker_command(
    name: str, cwd: Path, logs: Path, limits: WorkerLimits, variables: Mapping[str, str] | None = None
) -> HelperCommand:
    """How a worker is started: an allow-listed environment (no keys of the node) and the ``variables`` that its tools
    are configured with, safe path, a log of its own.
    """
    env = {**(variables or {}), **{key: os.environ[key] for key in ENVIRONMENT if key in os.environ}}
    argv = (sys.executable, "-P", "-m", "kernel.worker.worker", "--threads", str(limits.calls_at_once))
    return HelperCommand(name, argv, {**env, "PYTHONUNBUFFERED": "1"}, cwd, logs / f"{name}.log")


class Workers:
    """Runs tool calls in worker processes.

    ``key`` is the node's Ed25519 verifier key, by which each worker checks receipts. ``on_process`` is told the name
    (``worker-PACKAGE``) and operating system pid of each worker, and the name and None when it is gone. What is
    ``protected`` the file tools show nobody. ``hearing`` is entered for what a worker says at a time. Raises
    RegistryError when a source takes the name of another tool.
    """

    def __init__(
        self,
        boot: int,
        key: str,
        command: Callable[[str], HelperCommand],
        sources: Iterable[ToolSource] = (),
        on_process: Callable[[str, int | None], None] = lambda name, os_pid: None,
        limits: WorkerLimits | None = None,
        protected: ProtectedPaths = NOTHING_PROTECTED,
        hearing: Hearing = UNHEEDED,
    ) -> None:
        self._spent = Spent()
        self._package_of: dict[str, str] = {}
        grouped: dict[str, list[ToolSource]] = {BUILTIN_PACKAGE: []}
        reserved = {declaration.name for declaration in builtin_declarations()}
        for source in sources:
            if source.name in reserved or source.name in self._package_of:
                raise RegistryError(
                    f"tool {source.name}: the name is taken by another tool; choose another one"
                )
            self._package_of[source.name] = source.package
            grouped.setdefault(source.package, []).append(source)
        self._sources = grouped
        self._pools: dict[str, WorkerPool] = {}
        for package, members in grouped.items():
            name = worker_name(package)
            tools = [ToolImport(source.name, source.import_string, source.python_path) for source in members]
            builtin = package == BUILTIN_PACKAGE
            setup = Configure((key,), builtin, tuple(tools), protected.paths, protected.own_groups)
            self._pools[package] = WorkerPool(
                partial(command, name),
                boot,
                setup,
                limits or WorkerLimits(),
                partial(on_process, name),
                hearing,
            )

    def accept(self, key: str) -> None:
        """The node signs with the key in this verifier key too, from now on."""
        for pool in self._pools.values():
            pool.accept(key)

    async def describe(self) -> Description:
        """Start each third-party worker and ask what its tools are. Never raises for a tool's fault."""
        packages = [package for package in self._sources if package != BUILTIN_PACKAGE]
        answers = await asyncio.gather(
            *(self._pools[package].start() for package in packages), return_exceptions=True
        )
        declarations: list[ToolDeclaration] = []
        faults: dict[str, str] = {}
        for package, answer in zip(packages, answers, strict=True):
            names = {source.name for source in self._sources[package]}
            if isinstance(answer, BaseException):
                if not isinstance(answer, WorkerUnavailable):
                    raise answer
                faults.update(dict.fromkeys(names, answer.message))
                continue
            good, bad = _read_description(names, answer)
            declarations += good
            faults |= bad
        return Description(tuple(declarations), faults)

    def put(self, call: WorkerCall, begin: Callable[[], bool], ended: Callable[[Came], None]) -> Placed:
        """Have one call run; each intent runs once. See :meth:`WorkerPool.put`: ``ended`` gets the result, or
        WorkerLost (in doubt), WorkerUnavailable or WorkerWithdrawn (surely not run). Raises WorkerUnavailable.
        """
        if not self._spent.claim(receipt_index(call.receipt)):
            text = "this intent was handed to a worker before, or has no readable receipt; each runs once"
            ended(local_result("refused", text))
            return Placed(lambda: None, lambda why: None)
        return self._pools[self._package_of.get(call.tool, BUILTIN_PACKAGE)].put(call, begin, ended)

    async def run(self, call: WorkerCall, begin: Callable[[], bool] = lambda: True) -> WorkerResult:
        """The same as a coroutine, which raises what is no result; cancelling it takes the call back."""
        return await waited_for(lambda ended: self.put(call, begin, ended))

    async def look(self, call: WorkerCall, begin: Callable[[], bool] = lambda: True) -> str:
        """The version of the file that a ``file_write`` names; nothing is done. Raises as :meth:`run`."""
        look = replace(call, op="look", effects=False)
        result = await self._pools[BUILTIN_PACKAGE].run(look, begin)
        return result.text if result.status == "ok" else UNKNOWN

    async def probe(self, call: WorkerCall) -> WorkerResult:
        """What the probe of the tool says became of an effect; nothing is done. Raises as :meth:`run`."""
        probe = replace(call, op="probe", effects=False)
        return await self._pools[self._package_of.get(call.tool, BUILTIN_PACKAGE)].run(probe, lambda: True)

    def end(self, name: str, hard: bool, why: str) -> None:
        """End the worker of that name, as :meth:`WorkerPool.end`."""
        for package, pool in self._pools.items():
            if worker_name(package) == name:
                pool.end(hard, why)

    def marks(self) -> list[Mark]:
        """Of the worker processes that there are: what they have started bears them, and is theirs."""
        return [mark for pool in self._pools.values() for mark in pool.marks()]

    async def close(self) -> None:
        """Kill every worker; calls under way are lost."""
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))


def _read_description(names: set[str], answer: Configured) -> tuple[list[ToolDeclaration], dict[str, str]]:
    """What a worker told of the tools ``names``, believed only as far as it can be checked."""
    declarations: dict[str, ToolDeclaration] = {}
    faults = {
        name: why[:1000] for name, why in answer.faults.items() if name in names and isinstance(why, str)
    }
    for data in answer.declarations:
        try:
            declaration = declaration_from_data(data)
        except DeclarationError as error:
            name = data.get("name") if isinstance(data, dict) else None
            if isinstance(name, str) and name in names:
                faults[name] = f"the tool declares itself wrongly: {error}"
            continue
        if declaration.name in names and declaration.sandbox == "thirdparty":
            declarations[declaration.name] = declaration
    for name in names - set(declarations) - set(faults):
        faults[name] = "the worker said nothing about it"
    return list(declarations.values()), faults
