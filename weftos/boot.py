"""The one wiring place: builds the parts of a node in the order of recovery, and takes them down again.

Order: lock the data directory; end everything of the old boot; replay; settle what is in doubt; then listen.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


from chain.draft import Draft
from chain.keys import Keys, load_keys
from chain.ledger import Ledger
from kernel.cell_table import CellLimits
from kernel.cells import Cells
from kernel.control import Control, NodeFacts
from kernel.engine import Engine
from kernel.engine_local import LocalEngine
from kernel.engine_ray import RayEngine
from kernel.helper import HelperCommand
from kernel.helpers import LinkedHelper
from kernel.kernel import BehaviourEntry, Environment, Kernel
from kernel.loop_lag import LoopLag
from kernel.processes import open_pids
from kernel.recorder import Recorder, replay_into
from kernel.session import DataLock, end_old_session, lock, read_boot, write_boot
from kernel.state import State
from kernel.tools.registry import Registry, ToolSource, builtin_declarations
from kernel.tools.workers import WorkerLimits, Workers, worker_command
from weftos import __version__
from weftos.config import Config, load
from weftos.errors import WeftosError
from weftos.initialise import initialise, is_initialised
from weftos.listener import Listener
from weftos.log_files import read_last
from weftos.logs import JsonLog, LoggingBridge

PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
MAX_SOCKET_PATH = 107
ARCHIVE_READY_S = 3.0

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What ``weftos up`` was told."""

    data: Path
    name: str | None = None
    config: Path | None = None
    engine: str | None = None


class CellsChild:
    """The engine of the cells (for Ray: the placer) as a child of ``/kernel``."""

    def __init__(self, cells: Cells, engine: Engine) -> None:
        self._cells = cells
        self._engine = engine
        self._opened = False
        self.on_death: Callable[[str], None] = lambda why: None

    @property
    def os_pid(self) -> int:
        return self._engine.os_pid if isinstance(self._engine, RayEngine) else os.getpid()

    async def start(self, on_death: Callable[[str], None]) -> None:
        self.on_death = on_death
        if self._opened:
            await self._cells.open_engine()
        else:
            self._opened = True
            await self._cells.open()

    async def stop(self) -> None:
        """The cells are closed by the kernel, which closes the engine."""


class NodeGateway:
    """The gateway as the model calls see it."""

    def __init__(self, helper: LinkedHelper) -> None:
        self._helper = helper

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = await self._helper.request("ask", request)
        return answer

    def cancel(self, stream: str) -> None:
        self._helper.notify("cancel", {"stream_id": stream})


@dataclass(slots=True)
class Node:
    """A running node."""

    options: Options
    config: Config
    keys: Keys
    ledger: Ledger
    kernel: Kernel
    listener: Listener
    log: JsonLog
    lock: DataLock
    runtime: Path
    boot: int
    lag: LoopLag
    stopping: asyncio.Event
    why: str = ""

    def stop(self, why: str) -> None:
        """Begin a clean stop."""
        self.why = self.why or why
        self.stopping.set()

    async def stopped(self) -> None:
        await self.stopping.wait()

    def ready(self) -> dict[str, Any]:
        """The last line on the ready descriptor."""
        settings = self.config.settings.node
        return {
            "ready": True,
            "name": settings.name,
            "origin": self.keys.origin,
            "boot": f"{self.boot:016x}",
            "engine": settings.engine,
            "socket": str(self.runtime / "control.sock"),
        }

    async def close(self) -> None:
        """Stop listening, then what runs, then the ledger; remove the runtime directory."""
        await self.listener.stop()
        self.lag.stop()
        await self.kernel.close()
        if self.ledger.read_only is None:
            body = {"boot": f"{self.boot:016x}", "reason": self.why[:200]}
            self.ledger.commit([Draft("node.stopped", body)], durable=True)
        await self.ledger.close()
        self.log.close()
        shutil.rmtree(self.runtime, ignore_errors=True)
        self.lock.close()


async def start(options: Options, report: Report) -> Node:
    """Boot a node. Raises WeftosError, ConfigError, KernelError, ChainError or OSError; then nothing is left."""
    data = options.data.absolute()
    if not is_initialised(data):
        report("making the data directory")
        initialise(data)
    held = lock(data)
    try:
        return await _start(options, data, held, report)
    except BaseException:
        held.close()
        raise


async def _start(options: Options, data: Path, held: DataLock, report: Report) -> Node:
    flags = {"node.name": options.name, "node.engine": options.engine}
    config = load(data, file=options.config, flags=flags, environment=os.environ)
    settings = config.settings
    before = read_boot(data)
    ended = end_old_session(data)
    if before is not None:
        _remove_runtime(Path(before.runtime))
    if ended:
        report(f"ended {ended} processes of the last run")
    keys = load_keys(data / "keys")
    bounds = settings.limits.bounds()
    state = State(bounds.session_records, bounds.session_bytes)
    report("reading the journal")
    ledger = await asyncio.to_thread(
        Ledger.open,
        data,
        keys,
        now_us=lambda: time.time_ns() // 1000,
        replay=lambda record: replay_into(state, record),
    )
    runtime = _make_runtime(data)
    boot = secrets.randbits(63)
    write_boot(data, boot, runtime)
    secret_values = [os.environ[name] for name in config.secret_variables() if name in os.environ]
    log = JsonLog(
        data / "logs" / "node.jsonl",
        max_bytes=settings.logs.max_bytes,
        backups=settings.logs.backups,
        level=settings.logs.level,
        secrets=secret_values,
    )
    logging.getLogger().handlers[:] = [LoggingBridge(log)]
    logging.getLogger().setLevel(logging.INFO)
    ledger.start(asyncio.get_running_loop())
    node = await _build(options, data, held, config, keys, ledger, state, runtime, boot, log, report)
    if ended or ledger.recovery.torn_bytes:
        log.log("warning", "recovered", ended_processes=ended, torn_bytes=ledger.recovery.torn_bytes)
    return node


async def _build(
    options: Options,
    data: Path,
    held: DataLock,
    config: Config,
    keys: Keys,
    ledger: Ledger,
    state: State,
    runtime: Path,
    boot: int,
    log: JsonLog,
    report: Report,
) -> Node:
    settings = config.settings
    bounds = settings.limits.bounds()
    logs = data / "logs"
    recorder = Recorder(ledger, state)
    sources = [ToolSource(name, tool.import_, tuple(tool.python_path)) for name, tool in settings.tools.items()]
    seen: list[Kernel] = []

    def on_worker(name: str, os_pid: int | None) -> None:
        if seen:
            seen[0].helpers.worker(name, os_pid)

    limits = WorkerLimits()
    workers = Workers(
        boot,
        keys.ed25519.text,
        lambda name: worker_command(name, runtime, logs, limits),
        sources,
        on_worker,
        limits,
    )
    registry = await _registry(workers, sources, log, report)
    gateway = LinkedHelper(
        _gateway_command(config, runtime, logs), boot, lambda op, args: _gateway_notice(seen, op, args)
    )
    archive = LinkedHelper(_archive_command(data, runtime, logs), boot, lambda op, args: None)

    def note(event: str, **fields: Any) -> None:
        log.log("info", event, **fields)

    env = Environment(boot, bounds, _behaviours(config), note)
    kernel = Kernel(recorder, open_pids(recorder), registry, workers, NodeGateway(gateway), env)
    seen.append(kernel)
    engine = _engine(config, boot, runtime, logs)
    kernel.cells = Cells(
        engine,
        boot,
        runtime / "cells.sock",
        runtime / "slots",
        kernel,
        CellLimits(processes_per_cell=bounds.processes_per_cell, start_s=bounds.start_timeout_s),
    )
    lag = LoopLag()
    stopping = asyncio.Event()
    name = settings.node.name or data.name
    facts = NodeFacts(
        name=name,
        origin=keys.origin,
        version=__version__,
        engine=settings.node.engine,
        data=data,
        runtime=runtime,
        providers=frozenset(settings.providers),
        config_view=config.view,
        read_logs=lambda address, limit: read_last(logs / "node.jsonl", limit, {"address": address}),
        archive=lambda op, args: archive.request(op, args, ARCHIVE_READY_S),
        shutdown=lambda why: node.stop(why),
        loop_lag_p99_ms=lag.p99_ms,
    )
    listener = Listener(Control(kernel, facts), runtime / "control.sock")
    node = Node(options, config, keys, ledger, kernel, listener, log, held, runtime, boot, lag, stopping)
    _record_boot(ledger, recorder, keys, boot, name, settings.node.engine)
    child = CellsChild(kernel.cells, engine)
    kernel.on_engine_lost = lambda why: child.on_death(why)
    kernel.helpers.add("placer" if engine.name == "ray" else "cells", child)
    kernel.helpers.add("gateway", gateway)
    kernel.helpers.add("archive", archive, lambda: archive.notify("durable", {"size": ledger.size}))
    ledger.on_group(lambda group: archive.notify("durable", {"size": group.size}))
    report("starting the process tree")
    kernel.boot()
    await ledger.barrier()
    await listener.start()
    lag.start()
    return node


def _record_boot(
    ledger: Ledger, recorder: Recorder, keys: Keys, boot: int, name: str, engine: str
) -> None:
    body = {
        "boot": f"{boot:016x}",
        "version": __version__,
        "engine": engine,
        "name": name,
        "origin": keys.origin,
        "ed25519": keys.ed25519.text,
        "ml_dsa_65": keys.mldsa.text,
        "recovered_groups": ledger.recovery.groups,
        "torn_bytes": ledger.recovery.torn_bytes,
    }
    recorder.commit([Draft("node.booted", body)], durable=True)


async def _registry(workers: Workers, sources: list[ToolSource], log: JsonLog, report: Report) -> Registry:
    """Built-in and configured tools. One that cannot be used is left out, and the log says why."""
    if not sources:
        return Registry(builtin_declarations())
    report("asking the workers for their tools")
    described = await workers.describe()
    for name, fault in described.faults.items():
        log.log("error", "tool not usable", tool=name, why=fault)
        report(f"tool {name} is not usable: {fault}")
    return Registry([*builtin_declarations(), *described.declarations], sources)


def _behaviours(config: Config) -> dict[str, BehaviourEntry]:
    known = {"agent": BehaviourEntry("agent", "cognition.agent:Agent")}
    for name, entry in config.settings.behaviours.items():
        package = f"{entry.import_.partition(':')[0].partition('.')[0]}|{':'.join(entry.python_path)}"
        known[name] = BehaviourEntry(name, entry.import_, tuple(entry.python_path), entry.isolation, package)
    return known


def _gateway_notice(seen: list[Kernel], op: str, args: dict[str, Any]) -> None:
    if op != "delta" or not seen or not isinstance(args.get("stream_id"), str):
        return
    shown = {"reset": True} if args.get("reset") else {"text": str(args.get("text", ""))}
    event = {"event": "delta", **shown}
    seen[0].model_calls.delta(args["stream_id"], event)


def _environment(*names: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in (*PASSED_ON, *names) if name in os.environ}
    return {**kept, "PYTHONUNBUFFERED": "1"}


def _gateway_command(config: Config, runtime: Path, logs: Path) -> HelperCommand:
    tables = {
        name: {key: value for key, value in provider.model_dump().items() if key in _PROVIDER_KEYS}
        for name, provider in config.settings.providers.items()
    }
    chosen = config.settings.model
    text = json.dumps({"default": chosen.default_provider, "default_model": chosen.default_model, "providers": tables})
    argv = (sys.executable, "-P", "-m", "weftos.gateway", "--config-json", text)
    return HelperCommand("gateway", argv, _environment(*config.secret_variables()), runtime, logs / "gateway.log")


_PROVIDER_KEYS = ("kind", "base_url", "api_key_env", "model", "stream")


def _archive_command(data: Path, runtime: Path, logs: Path) -> HelperCommand:
    argv = (sys.executable, "-P", "-m", "weftos.archive", "--data", str(data))
    return HelperCommand("archive", argv, _environment(), runtime, logs / "archive.log")


def _engine(config: Config, boot: int, runtime: Path, logs: Path) -> Engine:
    socket = runtime / "cells.sock"
    if config.settings.node.engine == "local":
        return LocalEngine(boot, socket, _environment(), runtime, logs / "cells.log")
    argv = (sys.executable, "-P", "-m", "kernel.placer")
    command = HelperCommand("placer", argv, _environment(), runtime, logs / "placer.log")
    return RayEngine(command, boot, socket, runtime)


def _make_runtime(data: Path) -> Path:
    """The runtime directory: short, mode 0700, ours. Raises WeftosError."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    tag = hashlib.sha256(os.fsencode(data)).hexdigest()[:8]
    place = Path(base) / f"weftos-{tag}" if base else Path("/tmp") / f"weftos-{os.getuid()}-{tag}"
    longest = place / "ray" / ("x" * 62)
    if len(os.fsencode(longest)) > MAX_SOCKET_PATH:
        raise WeftosError(
            f"the runtime directory {place} is too long for sockets: set XDG_RUNTIME_DIR to a shorter one", "invalid"
        )
    _remove_runtime(place)
    place.mkdir(mode=0o700, parents=False)
    return place


def _remove_runtime(place: Path) -> None:
    """Remove the runtime directory of an earlier run, if it is a directory of ours and nobody else's."""
    try:
        found = place.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or not place.name.startswith("weftos-"):
        raise WeftosError(f"{place} is not a runtime directory of this user: remove it", "conflict")
    shutil.rmtree(place)
