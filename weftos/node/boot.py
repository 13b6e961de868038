"""The one wiring place: builds the parts of a node in the order of recovery, and takes them down again.

Order: lock the data directory; end everything of the old boot; replay; settle what is in doubt; then listen.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chain.clock import SteadyClock
from chain.disk import Disk
from chain.entry.draft import Draft
from chain.entry.reader import Record
from chain.errors import ChainError, ContradictedState
from chain.keys.key_change import adopt_keys, load_candidates
from chain.keys.keys import Keys
from chain.ledger.ledger import Ledger, Reader, Tuning
from chain.state.binding import Unbound
from cognition.config.check import parse
from cognition.config.trace_config import NodesAgentConfig
from kernel.bounds import MIB, STATE_LIMITS, Bounds
from kernel.cells.cell_events import EngineLost
from kernel.cells.cell_table import CellLimits
from kernel.cells.cells import Cells
from kernel.cells.engines.engine import Engine
from kernel.cells.engines.engine_ray import RayEngine
from kernel.cells.launcher import BehaviourEntry, Told
from kernel.control.asked import Asked
from kernel.control.control import Control
from kernel.control.facts import NodeFacts, NodeServices, no_traces
from kernel.errors import Refused
from kernel.helper.helpers import HelperNotice, LinkedHelper, WorkerSeen
from kernel.helper.nursery import Nursery
from kernel.helper.os_session import DataLock, end_old_session, lock, read_boot, write_boot
from kernel.kernel import Environment, Kernel
from kernel.memory.embeddings import Embeddings
from kernel.operations.node import Node as NodeOperations
from kernel.operations.operation import Operator
from kernel.policy.rules.in_force import RulesInForce
from kernel.signals import Signals
from kernel.state.agreement import Contradiction, DocumentCheck
from kernel.state.recorder import Recorder, replay_into
from kernel.state.state import State
from kernel.state.state_snapshot import restore_state
from kernel.toolbox.protected import ProtectedPaths
from kernel.toolbox.registry import Registry, ToolSource, builtin_declarations
from kernel.upkeep.clock_watch import ClockWatch
from kernel.upkeep.loop_lag import LoopLag
from kernel.worker.workers import WorkerLimits, Workers, worker_command, worker_name
from mesh.identity.peers import Peer
from mesh.mesh import Mesh
from weftos import __version__
from weftos.config.config import Config, load
from weftos.config.routing import told_routing
from weftos.config.rules import read_rules
from weftos.config.terms import terms_of
from weftos.errors import WeftosError
from weftos.helpers.commands import archive_command, gateway_told, tracer_command
from weftos.lifecycle.initialise import initialise
from weftos.log.erased_logs import NODE_LOG, PROCESSES_LOG
from weftos.log.log_files import read_last_of
from weftos.log.logs import JsonLog, LoggingBridge
from weftos.log.tail import LogTails
from weftos.node.accepting import MOST_SAID, configured, contradictions, record_acceptance
from weftos.node.archive_link import ArchiveLink
from weftos.node.collector import Collector
from weftos.node.engines import make_engine
from weftos.node.gates import gates_of
from weftos.node.mesh_wiring import called_the_same, make_mesh, open_mesh
from weftos.node.protected import others_faults, protected_paths
from weftos.node.reconciler import Reconciler
from weftos.node.reload import Behaviours, NodeGateway, Reload, Routes
from weftos.node.runtime import make_runtime, remove_recorded
from weftos.node.tracing import TraceExport
from weftos.ownership import check_own_place, way_fault
from weftos.paths import has_data
from weftos.sealed_environment import secrets_of
from weftos.traces.content import Scrubber
from weftos.upkeep.key_rotation import KeyRotation
from weftos.upkeep.upkeep import Upkeep

if TYPE_CHECKING:
    from weftos.api.listener import Listener

AGENT = BehaviourEntry("agent", "cognition.agent:Agent")

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What ``weftos up`` was told."""

    data: Path
    name: str | None = None
    config: Path | None = None
    engine: str | None = None
    ray_address: str | None = None
    ray_token: Path | None = None
    listen: str | None = None
    join: str | None = None
    token: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables the node was started with, provider keys among them; its own environment lacks them."""
    accept_state: str | None = None
    app: Sequence[Path] = ()
    """Files of applications, whose own tools and behaviours this run knows."""

    def flags(self) -> dict[str, str | None]:
        """Those that are settings, by their dotted keys. ``token``, the join token's file, is none, nor is
        ``accept_state``: why a person takes over state that the keys have not signed.
        """
        return {
            "node.name": self.name,
            "node.engine": self.engine,
            "node.ray_address": self.ray_address,
            "node.ray_token": str(self.ray_token) if self.ray_token else None,
            "mesh.listen": self.listen,
            "mesh.join": self.join,
        }


@dataclass(frozen=True, slots=True)
class BootContext:
    """What the running parts stand on: everything up to the replayed journal."""

    data: Path
    held: DataLock
    config: Config
    state: State
    ledger: Ledger
    runtime: Path
    boot: int
    log: JsonLog
    processes_log: JsonLog
    """What processes log; in a file of its own, which takes no place from the node's."""
    clock: SteadyClock
    provider_keys: Mapping[str, str] = field(repr=False)
    """By their variables: for the gateway, and for what must not get into a log."""
    nursery: Nursery
    """Of the gateway; it was begun before there was anything to know."""
    protected: ProtectedPaths
    tool_variables: Mapping[str, Mapping[str, str]] = field(repr=False)
    """What each tool's worker is given beside what all have, by the tool's name."""
    load: Callable[[], Config]
    """Reads the configuration again, as it was read for this boot."""
    token: Path | None

    @property
    def keys(self) -> Keys:
        """Those in force."""
        return self.ledger.keys

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def name(self) -> str:
        """The petname, by default that of the data directory."""
        return self.config.settings.node.name or self.data.name

    @property
    def engine(self) -> str:
        return self.config.settings.node.engine


class CellsChild:
    """The engine of the cells (for Ray: the placer) as a child of ``/kernel``."""

    def __init__(self, cells: Cells, engine: Engine) -> None:
        self._cells = cells
        self._engine = engine
        self.on_death: Callable[[str], None] = lambda why: None

    @property
    def os_pid(self) -> int:
        return self._engine.os_pid if isinstance(self._engine, RayEngine) else os.getpid()

    async def start(self, on_death: Callable[[str], None]) -> None:
        self.on_death = on_death
        await self._cells.open()

    async def end(self, hard: bool) -> None:
        if not isinstance(self._engine, RayEngine):
            raise Refused("local cells have no placer: this part of the node ends with it (weftos down)")
        await self._engine.end(hard)

    async def stop(self) -> None:
        """The cells are closed by the kernel, which closes the engine."""


class Stop:
    """Begins a clean stop, for the first of the reasons it is called with."""

    def __init__(self) -> None:
        self.why = ""
        self._wanted = asyncio.Event()

    def __call__(self, why: str) -> None:
        self.why = self.why or why
        self._wanted.set()

    async def wanted(self) -> None:
        """Wait until somebody wants it."""
        await self._wanted.wait()


@dataclass(frozen=True, slots=True)
class Node:
    """A running node."""

    context: BootContext
    kernel: Kernel
    mesh: Mesh
    listener: Listener
    lag: LoopLag
    clock: ClockWatch
    upkeep: Upkeep
    collector: Collector
    reconciler: Reconciler
    reload: Reload
    stop: Stop
    tracing: TraceExport | None

    def ready(self) -> dict[str, Any]:
        """The last line on the ready descriptor."""
        context = self.context
        return {
            "ready": True,
            "name": context.name,
            "origin": context.keys.origin,
            "boot": f"{context.boot:016x}",
            "engine": context.engine,
            "socket": str(context.runtime / "control.sock"),
            "listen": self.kernel.remote.address,
        }

    def hang_up(self) -> None:
        """Somebody wants the configuration read again, by a signal."""
        op: Operator = {"uid": os.getuid(), "os_pid": os.getpid()}
        self.reload.hang_up(Asked(op, NodeOperations.reload, self.kernel.recorder).record)

    async def close(self) -> None:
        """Stop listening, then what runs, then the ledger; remove the runtime directory."""
        context = self.context
        await self.listener.stop()
        if self.tracing is not None:
            await self.tracing.close()
        self.lag.stop()
        self.collector.stop()
        self.clock.stop()
        await self.reconciler.stop()
        await self.upkeep.close()
        await self.kernel.remote.close()
        await self.mesh.close()
        await self.kernel.close()
        try:
            if context.ledger.read_only is None:
                body = {"boot": f"{context.boot:016x}", "reason": self.stop.why[:200]}
                context.ledger.commit([Draft("node.stopped", body)])
            await context.ledger.close()
        except ChainError as error:
            context.log.log("error", "the ledger could not be closed", why=str(error))
            raise
        finally:
            context.log.close()
            context.processes_log.close()
            shutil.rmtree(context.runtime, ignore_errors=True)
            context.held.close()


async def start(options: Options, nursery: Nursery, report: Report) -> Node:
    """Boot a node; ``nursery`` bears its gateway. Raises WeftosError, ConfigError, KernelError, ChainError, HelperOver
    or OSError; then nothing is left.
    """
    data = options.data.absolute()
    if not has_data(data):
        report("making the data directory")
        initialise(data)
    check_own_place(data)
    held = lock(data, runs=True)
    try:
        context = await _recover(options, data, held, nursery, report)
        return await _build(context, options.token, report)
    except BaseException:
        held.close()
        raise


async def _recover(
    options: Options, data: Path, held: DataLock, nursery: Nursery, report: Report
) -> BootContext:
    """End the old boot and replay the journal."""
    read = partial(
        load,
        data,
        file=options.config,
        flags=options.flags(),
        environment=options.environment,
        apps=options.app,
    )
    config = read()
    if faults := others_faults(config, options.token, os.environ):
        raise WeftosError(
            f"others could change what the node is to run or whom it is to believe: {'; '.join(faults)}",
            "refused",
        )
    keys_given = secrets_of(config.secret_variables(), options.environment)
    tool_variables = config.tool_variables(options.environment)
    unsaid = [*keys_given.values(), *(value for own in tool_variables.values() for value in own.values())]
    before = read_boot(data)
    ended = end_old_session(data)
    if before is not None and not remove_recorded(Path(before.runtime), data):
        report(f"somebody else has made {before.runtime} since: left alone")
    if ended:
        report(f"ended {ended} processes of the last run")
    keys, *others = load_candidates(data)
    bounds = config.settings.limits.bounds()
    state = State(*(getattr(bounds, name) for name in STATE_LIMITS))
    clock = SteadyClock()
    report("reading the journal")
    documents = DocumentCheck()

    def replay(record: Record) -> None:
        documents(record)
        replay_into(state, record)

    found: list[Unbound | Contradiction] = []

    def agree(unbound: tuple[Unbound, ...]) -> None:
        found[:] = [*unbound, *contradictions(data, state, documents.found, Disk())]
        if found and options.accept_state is None:
            raise ContradictedState(_said(found))

    ledger = await asyncio.to_thread(
        Ledger.open,
        data,
        keys,
        others=others,
        now_us=clock.now_us,
        reader=Reader(
            replay, lambda found: restore_state(state, found), options.accept_state is not None, agree
        ),
        tuning=Tuning(config.settings.ledger.segment_bytes, publish_s=config.settings.ledger.publish_s),
    )
    adopt_keys(data, ledger.keys, Disk())
    runtime = make_runtime(data)
    boot = secrets.randbits(63)
    write_boot(data, boot, runtime)
    log = _open_log(config, data / "logs" / NODE_LOG, unsaid)
    root = logging.getLogger()
    root.handlers[:] = [LoggingBridge(log)]
    root.setLevel(logging.INFO)
    processes_log = _open_log(config, data / "logs" / PROCESSES_LOG, unsaid)
    if ended or ledger.recovery.torn_bytes:
        log.log("warning", "recovered", ended_processes=ended, torn_bytes=ledger.recovery.torn_bytes)
    clock.not_before(ledger.last_time_us)
    ledger.on_fault(lambda part, why: _log_fault(log, part, why))
    ledger.start(asyncio.get_running_loop())
    if found and options.accept_state is not None:
        await record_acceptance(Recorder(ledger, state, Signals()), found, options.accept_state)
        log.log("warning", "state was accepted", what=_said(found))
        report(f"accepted, and recorded: {_said(found)}")
    protected = protected_paths(data, config, options.token, os.environ)
    return BootContext(
        data,
        held,
        config,
        state,
        ledger,
        runtime,
        boot,
        log,
        processes_log,
        clock,
        keys_given,
        nursery,
        protected,
        tool_variables,
        read,
        options.token,
    )


def _said(found: Sequence[Unbound | Contradiction]) -> str:
    return "; ".join(map(str, found[:MOST_SAID]))


def _log_fault(log: JsonLog, part: str, why: str | None) -> None:
    if why is None:
        log.log("info", "the ledger goes on", part=part)
    else:
        log.log("error", "the ledger has a fault", part=part, why=why)


def _open_log(config: Config, file: Path, unsaid: list[str]) -> JsonLog:
    settings = config.settings.logs
    return JsonLog(
        file,
        max_bytes=settings.max_bytes,
        backups=settings.backups,
        level=settings.level,
        secrets=unsaid,
    )


async def _build(context: BootContext, token: Path | None, report: Report) -> Node:
    """Everything that runs, in the order in which it may be heard.

    The control API is imported only when the process tree starts: it takes longer than all of the rest.
    """
    bounds = replace(
        context.config.settings.limits.bounds(), carriage_s=context.config.settings.mesh.deadline_s
    )
    signals, runtime, settings = Signals(), context.runtime, context.config.settings
    engine, entrance = make_engine(
        settings.node, context.keys.origin, context.boot, context.runtime, context.logs
    )
    limits = CellLimits(
        processes_per_cell=bounds.processes_per_cell,
        warm_cells=bounds.warm_cells,
        start_s=bounds.start_timeout_s,
        hang_s=bounds.hang_s,
        memory_bytes=bounds.cell_memory_mib * MIB,
    )
    hearing = context.ledger.hearing
    cells = Cells(engine, context.boot, entrance, runtime / "slots", signals, limits, hearing)
    hosts = CellsChild(cells, engine)
    mesh = make_mesh(context.data, context.keys, context.name, context.boot, settings, context.clock.now_us)
    if why := called_the_same(mesh, context.name):
        context.log.log("warning", "a peer has the name of this node", why=why)
        report(why)
    kernel, gateway, archive, asked, reload = await _kernel(context, bounds, signals, cells, mesh, report)
    embeddings = Embeddings(gateway.request, archive.helper.request)
    lag, stop = LoopLag(), Stop()
    clock = ClockWatch(context.clock.ahead_us, kernel.recorder, kernel.env.log)
    upkeep = Upkeep(context.data, runtime, settings, kernel.recorder, archive.ask, context.log.log)
    rotation = KeyRotation(
        context.data,
        kernel.recorder,
        lambda keys: kernel.workers.accept(keys.ed25519.text),
        mesh.rekey,
        kernel.env.log,
    )
    reconciler = Reconciler(kernel, settings.node.reconcile_s)
    tracing = _tracing(context, signals, kernel)
    services = NodeServices(
        config_view=reload.view,
        read_logs=_logs_of(context.logs),
        follow_logs=_tails_of(context.logs),
        archive=archive.ask,
        shutdown=stop,
        loop_lag=lag,
        erasures=upkeep.erasures,
        rotate=rotation.rotate,
        reload=reload,
        clock_ahead_s=clock.ahead_s,
        check=reconciler.check,
        traces=no_traces if tracing is None else tracing.state,
    )
    _record_boot(context, kernel.recorder, [view.peer for view in mesh.peers()])
    kernel.helpers.add("placer" if engine.name == "ray" else "cells", hosts)
    kernel.helpers.add("gateway", gateway, asked.is_up)
    kernel.helpers.add("archive", archive.helper, archive.tell)
    context.ledger.on_group(archive.group)
    if tracing is not None:
        kernel.helpers.add("tracer", tracing.tracer)
        context.ledger.on_group(tracing.group)
    report("starting the process tree")
    control = Control(kernel, _facts(context), services)
    control.workspaces.look()
    for fault in control.workspaces.faults():
        context.log.log("warning", "a workspace is at fault", what=fault)
    kernel.boot(
        {
            EngineLost: (lambda said: hosts.on_death(said.why),),
            HelperNotice: (embeddings.noticed,),
            **control.hears(),
        }
    )
    await context.ledger.barrier()
    await open_mesh(kernel.remote, settings, token)
    doors = await asyncio.to_thread(importlib.import_module, "weftos.api.listener")
    listener: Listener = doors.Listener(control, runtime / "control.sock")
    node = Node(
        context, kernel, mesh, listener, lag, clock, upkeep, Collector(), reconciler, reload, stop, tracing
    )
    await listener.start()
    node.collector.start()
    lag.start()
    clock.start()
    upkeep.start()
    reconciler.start()
    return node


def _tracing(context: BootContext, signals: Signals, kernel: Kernel) -> TraceExport | None:
    """What brings traces out, where the configuration wants that."""
    config = parse(NodesAgentConfig, context.config.settings.agent, "agent").trace
    if not config.sink:
        return None
    command = tracer_command(config, context.data, context.keys.origin, context.runtime, context.logs)
    secrets_known = [*context.provider_keys.values()]
    secrets_known += [value for own in context.tool_variables.values() for value in own.values()]
    helper = LinkedHelper(command, context.boot, signals)
    state = kernel.state
    return TraceExport(config, helper, state.turn_logs, state.turns, kernel.registry, Scrubber(secrets_known))


async def _kernel(
    context: BootContext, bounds: Bounds, signals: Signals, cells: Cells, mesh: Mesh, report: Report
) -> tuple[Kernel, LinkedHelper, ArchiveLink, NodeGateway, Reload]:
    """The kernel with its tools, and the helpers it will ask."""
    config, runtime, logs, boot = context.config, context.runtime, context.logs, context.boot
    tools = config.settings.tools.items()
    sources = [ToolSource(name, tool.import_, tuple(tool.python_path)) for name, tool in tools]
    limits = WorkerLimits()
    variables: dict[str, dict[str, str]] = {}
    for source in sources:
        own = context.tool_variables[source.name]
        variables.setdefault(worker_name(source.package), {}).update(own)
    workers = Workers(
        boot,
        context.keys.ed25519.text,
        lambda name: worker_command(name, runtime, logs, limits, variables.get(name)),
        sources,
        lambda name, os_pid: signals.say(WorkerSeen(name, os_pid)),
        limits,
        context.protected,
        context.ledger.hearing,
    )
    context.nursery.tell(gateway_told(config, context.provider_keys), logs / "gateway.log")
    gateway = LinkedHelper(context.nursery, boot, signals)
    helper = LinkedHelper(archive_command(config, context.data, runtime, logs), boot, signals)
    archive = ArchiveLink(helper, context.ledger)

    def note(event: str, **fields: Any) -> None:
        log = context.processes_log if event == "agent" else context.log
        log.log("info", event, **fields)

    recorder = Recorder(context.ledger, context.state, signals)
    behaviours, routes = Behaviours(_behaviours(config)), Routes(config.settings)
    terms = terms_of(config.settings)
    rules = RulesInForce(context.state, read_rules, Told(behaviours))
    env = Environment(
        boot,
        bounds,
        gates_of(terms, rules, routes),
        behaviours,
        note,
        archive.ask,
        mesh=mesh,
        name=context.name,
        protected=context.protected,
        rules=rules,
        terms=terms,
    )
    registry = Registry(builtin_declarations())
    if sources:
        report("asking the workers for their tools")
        registry = await _registry(workers, sources, context.log, report)
    asked = NodeGateway(gateway, config.settings)
    kernel = Kernel(recorder, registry, cells, workers, asked, signals, env)
    reload = Reload(
        config,
        context.load,
        lambda new: others_faults(new, context.token, os.environ),
        _behaviours,
        behaviours,
        routes,
        terms,
        asked,
        context.log.log,
    )
    return kernel, gateway, archive, asked, reload


async def _registry(workers: Workers, sources: list[ToolSource], log: JsonLog, report: Report) -> Registry:
    """Built-in and configured tools. One that cannot be used is left out, and the log says why."""
    described = await workers.describe()
    for name, fault in described.faults.items():
        log.log("error", "tool not usable", tool=name, why=fault)
        report(f"tool {name} is not usable: {fault}")
    return Registry([*builtin_declarations(), *described.declarations], sources)


def _facts(context: BootContext) -> NodeFacts:
    return NodeFacts(
        name=context.name,
        origin=context.keys.origin,
        version=__version__,
        engine=context.engine,
        data=context.data,
        runtime=context.runtime,
        providers=frozenset(context.config.settings.providers),
        protected=context.protected,
        way_fault=way_fault,
    )


def _logs_of(logs: Path) -> Callable[[str, int], list[dict[str, Any]]]:
    """What reads the newest lines of a process, by its address."""
    files = (logs / NODE_LOG, logs / PROCESSES_LOG)
    return lambda address, limit: read_last_of(files, limit, {"address": address})


def _tails_of(logs: Path) -> Callable[[str], LogTails]:
    """What reads the lines of a process that come from now on, by its address."""
    files = (logs / NODE_LOG, logs / PROCESSES_LOG)
    return lambda address: LogTails(files, {"address": address})


def _record_boot(context: BootContext, recorder: Recorder, peers: Sequence[Peer]) -> None:
    body = {
        "boot": f"{context.boot:016x}",
        "version": __version__,
        "engine": context.engine,
        "name": context.name,
        "origin": context.keys.origin,
        "ed25519": context.keys.ed25519.text,
        "ml_dsa_65": context.keys.mldsa.text,
        "recovered_groups": context.ledger.recovery.groups,
        "torn_bytes": context.ledger.recovery.torn_bytes,
        **configured(context.config.settings, peers, context.state.boots.configured),
    }
    recorder.commit([Draft("node.booted", body)])


def _behaviours(config: Config) -> dict[str, BehaviourEntry]:
    of_all = {name: value for name, value in config.settings.agent.items() if name != "trace"}
    told = {"recall_tokens": config.settings.memory.budget_tokens, **of_all}
    if (routing := told_routing(config.settings)) is not None:
        told["routing"] = routing
    if config.settings.guard:
        told["guard"] = config.settings.guard
    known = {AGENT.name: replace(AGENT, config=told)}
    for name, entry in config.settings.behaviours.items():
        package = f"{entry.import_.partition(':')[0].partition('.')[0]}|{':'.join(entry.python_path)}"
        known[name] = BehaviourEntry(name, entry.import_, tuple(entry.python_path), entry.isolation, package)
    check = config.settings.node.check_replay
    return {name: replace(entry, check_replay=check) for name, entry in known.items()}
