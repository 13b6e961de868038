"""What people, and peers, may have made: processes and supervisors."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from chain.journal.ticket import Ticket
from kernel.control.asked import Asked, Record
from kernel.control.facts import NodeFacts
from kernel.errors import Invalid, KernelError, Refused, TimedOut
from kernel.kernel import Kernel
from kernel.model.address import child_of, join, name_of, validate_address
from kernel.model.capability import handed_down, is_pattern, tools_of
from kernel.model.makers import OPERATOR, MadeBy
from kernel.model.spec import DEFAULT_TOOLS, ProcessSpec
from kernel.operations.operation import START_S, Handler
from kernel.operations.rights.capabilities import UNRESTRICTED, Capabilities
from kernel.operations.spawning import (
    MAX_CONFIG_BYTES,
    TEMPLATE,
    NotStarted,
    SpawnAllRequest,
    Spawned,
    SpawnedAll,
    Spawning,
    SpawnRequest,
)
from kernel.pace import give_way
from kernel.policy.asker import PERSON, Asker
from kernel.process.admission import check_mailbox, check_turn_timeout, named_fault
from kernel.process.starts import StartsTogether
from kernel.process.workspaces import Workspaces
from kernel.state.recorder import ledger_errors
from kernel.toolbox.data_mark import shows_ours
from kernel.toolbox.protected import Looked
from kernel.values import clean, measured, plain
from mesh.identity.peers import Peer

T = TypeVar("T")
AT_A_TIME = 32
MOST_FAULTS = 20
DEFAULTS = {field.name: field.default for field in fields(SpawnRequest)}
FIXED = (
    "behaviour",
    "tools",
    "restart",
    "isolation",
    "supervisor",
    "shutdown_s",
    "significant",
    "on_logical",
    "capabilities",
    "budget",
    "turn_timeout_s",
    "mailbox",
)
"""Fields of a spawn that a template says of all its children."""

RemoteSpawn = Callable[[Asked, SpawnRequest, Peer], Awaitable[Spawned]]


@dataclass(frozen=True, slots=True)
class Begun:
    """Children that are written, and their starts to come."""

    ticket: Ticket
    starts: StartsTogether


class SpawnControl:
    """``remote_spawn`` has a peer make the process."""

    def __init__(
        self, kernel: Kernel, facts: NodeFacts, workspaces: Workspaces, remote_spawn: RemoteSpawn
    ) -> None:
        self._kernel = kernel
        self._providers = facts.providers
        self._data = facts.data
        self._runtime = facts.runtime
        self._workspaces = workspaces
        self._remote_spawn = remote_spawn

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (Spawning.spawn.by(self.spawn), Spawning.spawn_all.by(self.spawn_all))

    async def spawn(self, asked: Asked, request: SpawnRequest) -> Spawned:
        peer = self._kernel.remote.split(f"@{request.on}")[1] if request.on else None
        if peer is not None:
            return await self._remote_spawn(asked, request, peer)
        return await self.make(request, asked.record, PERSON)

    async def make(self, request: SpawnRequest, record: Record, asker: Asker) -> Spawned:
        """Make a child of this node, and wait until it runs. ``record`` says who asked for it."""
        parent = self._address(request.under)
        spec = self.spec_of(request, parent, self._template_of(parent), asker)
        self._kernel.processes.admission.check_spawn(spec, parent, asker)
        self._workspaces.make(spec)
        seq, trace = record(name=spec.name, under=parent, spec=_measured(spec).to_json())
        processes = self._kernel.processes
        with ledger_errors():
            draft = processes.admission.draft_spawn(spec, parent, 0, trace, seq, asker)
            ticket = self._kernel.recorder.commit([draft])
        address = draft.body["address"]
        started = processes.when_started(address)
        processes.begin(address)
        with ledger_errors():
            await ticket.durable()
        return {"address": address, "pid": await started_pid(address, started), "name": spec.name}

    async def spawn_all(self, asked: Asked, request: SpawnAllRequest) -> SpawnedAll:
        """Make all of them in one unit, or none. What takes time for each is done a few at a time; from the last look
        at what speaks against them to the record nothing else happens.
        """
        children, faults = await self._children(request.each())
        _refuse([*faults, *self._kernel.processes.admission.check_spawns(children)])
        return await self.make_all(children, lambda: asked.record(**_in_short(request, children)))

    async def make_all(
        self,
        children: Sequence[tuple[str, ProcessSpec]],
        record: Callable[[], tuple[int, bytes]],
        made_by: MadeBy = "",
    ) -> SpawnedAll:
        """Make children, each with its parent, in one unit, and wait until they run. ``record`` says who asked. Their
        own directories are made when their first turns begin: it would be a fifth of all that this takes.
        """
        return await self.told(await self.begin_all(children, record, made_by))

    async def begin_all(
        self,
        children: Sequence[tuple[str, ProcessSpec]],
        record: Callable[[], tuple[int, bytes]],
        made_by: MadeBy = "",
    ) -> Begun:
        """The same without waiting for the disk and for their starts."""
        admission = self._kernel.processes.admission
        _refuse(admission.check_spawns(children))
        seq, trace = record()
        with ledger_errors():
            ticket = self._kernel.recorder.commit(
                [
                    admission.entry_of(spec, parent, 0, trace, seq, PERSON, made_by)
                    for parent, spec in children
                ]
            )
        return Begun(ticket, await self._begin(children))

    async def told(self, begun: Begun) -> SpawnedAll:
        """What became of them, when they are on the disk and each start has come to its end."""
        await self._over(begun)
        return _told(begun.starts)

    async def failed(self, begun: Begun) -> list[NotStarted]:
        """The same, of those that do not run."""
        await self._over(begun)
        return _not_started(begun.starts)

    async def _over(self, begun: Begun) -> None:
        with ledger_errors():
            await begun.ticket.durable()
        await begun.starts.over(START_S)

    def workspaces_below(self, parent: str) -> str:
        """What the directories begin with that children of ``parent`` get which the operator makes, when none is named:
        their names follow.
        """
        return self._workspaces.text_below(parent)

    async def _children(
        self, requests: Sequence[SpawnRequest]
    ) -> tuple[list[tuple[str, ProcessSpec]], list[KernelError]]:
        """Each with the address of its parent; and what is wrong with the others."""
        faults: list[KernelError] = []
        children = []
        for some in batched(requests):
            looked = Looked()
            for request in some:
                try:
                    parent = self._address(request.under)
                    template = self._template_of(parent)
                    children.append((parent, self.spec_of(request, parent, template, PERSON, looked)))
                except KernelError as error:
                    faults.append(named_fault(request.name, error))
            await give_way()
        return children, faults

    async def _begin(self, children: Sequence[tuple[str, ProcessSpec]]) -> StartsTogether:
        """Start what was just written."""
        processes = self._kernel.processes
        starts = processes.when_all_started(child_of(parent, spec.name) for parent, spec in children)
        rest = deque(starts.addresses)
        try:
            while rest:
                await give_way()
                processes.begin_all([rest.popleft() for _ in range(min(AT_A_TIME, len(rest)))])
        finally:  # whoever asked has gone: they are on record, and to run
            processes.begin_all(rest)
        return starts

    def _address(self, target: str) -> str:
        if target.startswith("/"):
            return validate_address(target)
        return self._kernel.messaging.resolve(target)

    def _template_of(self, parent: str) -> ProcessSpec | None:
        above = self._kernel.state.slots.get(parent)
        return None if above is None else above.spec.template

    def spec_of(
        self,
        request: SpawnRequest,
        parent: str,
        template: ProcessSpec | None,
        asker: Asker,
        looked: Looked | None = None,
    ) -> ProcessSpec:
        """What is asked for, below a ``parent`` that makes its children of ``template``. Raises Invalid, Refused."""
        if template is not None:
            return self._of_template(request, template, parent, asker, looked)
        if not request.supervisor:
            workspace = self._workspace(request, request.behaviour, parent, asker, looked)
            return self._worker(request, asker, parent, request.name, workspace)
        return ProcessSpec(
            request.name,
            type="supervisor",
            restart=request.restart,
            tools=(),
            intensity=request.intensity or (5, 60.0),
            strategy=request.strategy or "one_for_one",
            shutdown_s=request.shutdown_s,
            significant=request.significant,
            auto_shutdown=request.auto_shutdown,
            template=self._template(request, asker, parent) if request.strategy == TEMPLATE else None,
            budget=None if request.strategy == TEMPLATE else request.budget,
        )

    def _template(self, request: SpawnRequest, asker: Asker, parent: str) -> ProcessSpec:
        """What the children of a supervisor are made of."""
        restart, shutdown_s = request.child_restart or "permanent", request.child_shutdown_s
        one = replace(request, restart=restart, shutdown_s=shutdown_s, significant=False)
        return self._worker(one, asker, parent, "", "")

    def _of_template(
        self,
        request: SpawnRequest,
        template: ProcessSpec,
        parent: str,
        asker: Asker,
        looked: Looked | None,
    ) -> ProcessSpec:
        """A child that is made of it. Whoever asks for one says what is its own, and nothing of what all have."""
        of_all = {**{name: getattr(template, name, None) for name in FIXED}, "supervisor": False}
        said = [name for name in FIXED if getattr(request, name) not in (DEFAULTS[name], of_all[name])]
        if said:
            raise Invalid(f"{parent} makes its children of a template: leave out {', '.join(said)}")
        self._check_provider(request.provider)
        workspace = self._workspace(request, template.behaviour, parent, asker, looked)
        return template.made(request.name, workspace, _config(request))

    def _worker(
        self, request: SpawnRequest, asker: Asker, parent: str, name: str, workspace: str
    ) -> ProcessSpec:
        entry = self._kernel.env.behaviours.get(request.behaviour)
        if entry is None:
            known = ", ".join(sorted(self._kernel.env.behaviours))
            raise Invalid(f"behaviour {request.behaviour!r} is not configured; there are: {known}")
        self._check_provider(request.provider)
        check_turn_timeout(request.turn_timeout_s, self._kernel.env.bounds.turn_timeout_s)
        check_mailbox(request.mailbox, self._kernel.env.bounds)
        tools = _default_tools(asker) if request.tools is None else tuple(dict.fromkeys(request.tools))
        known_tools = self._kernel.registry
        unknown = [each for each in tools if not tools_of((each,), (), known_tools) & known_tools.keys()]
        if unknown:
            known = ", ".join(sorted(self._kernel.registry))
            raise Invalid(f"no tool {', '.join(unknown)}; there are: {known}")
        if request.isolation == "shared" and entry.isolation == "dedicated":
            raise Refused(
                f"behaviour {entry.name} is configured for cells of its own; see [behaviours.{entry.name}]"
            )
        return ProcessSpec(
            name=name,
            behaviour=request.behaviour,
            restart=request.restart,
            isolation=request.isolation or entry.isolation,
            tools=_named_tools(tools, asker),
            workspace=workspace,
            config=_config(request),
            shutdown_s=request.shutdown_s,
            significant=request.significant,
            on_logical=request.on_logical,
            capabilities=self._handed_down(request.capabilities, parent),
            budget=request.budget,
            turn_timeout_s=request.turn_timeout_s,
            mailbox=request.mailbox,
        )

    def _handed_down(self, wanted: Capabilities | None, parent: str) -> Capabilities:
        """What a child of ``parent`` is given: of what is asked for no more than the agent above it has."""
        above = self._kernel.state.slots.worker_above(parent)
        if above is None:
            return wanted or UNRESTRICTED
        return handed_down(above.spec.capabilities, above.address, wanted or UNRESTRICTED)

    def _check_provider(self, provider: str) -> None:
        if provider and provider not in self._providers:
            known = ", ".join(sorted(self._providers))
            raise Invalid(f"provider {provider!r} is not configured; there are: {known}")

    def _workspace(
        self, request: SpawnRequest, behaviour: str, parent: str, asker: Asker, looked: Looked | None
    ) -> str:
        """What a removed process left is its operator's, and handed to no process that somebody else has made; nor is
        the directory that is configured for all.
        """
        chosen = request.workspace
        if not chosen and asker.maker == OPERATOR:
            chosen = self._kernel.env.rules.of_new(behaviour, request.config or {}).root
        if not chosen:
            address = join(parent, request.name)
            own = self._workspaces.own(address)
            if asker.maker != OPERATOR and self._workspaces.is_left(own):
                own = self._workspaces.another(address, self._kernel.recorder.ledger.next_seq)
            self._workspaces.check(own, looked)
            return str(own)
        try:
            wanted = Path(os.path.realpath(chosen))
            is_directory = wanted.is_dir()
        except (OSError, ValueError) as error:
            raise Invalid(f"workspace {chosen[:200]!r} is no path: {error}") from error
        if not Path(chosen).is_absolute():
            raise Invalid(f"workspace {chosen!r} is not an absolute path")
        inside = self._data.resolve() / "workspaces"
        for own in (self._data.resolve(), self._runtime.resolve()):
            overlaps = wanted == own or own in wanted.parents or wanted in own.parents
            if overlaps and inside not in wanted.parents:
                raise Refused(
                    f"workspace {wanted} would show the node's own files; choose a directory outside {own}"
                )
        if not is_directory:
            raise Invalid(f"workspace {wanted} is not a directory; make it first")
        if inside not in wanted.parents and shows_ours(wanted):
            raise Refused(
                f"workspace {wanted} would show files of a weftos node; choose a directory outside its data directory"
            )
        self._workspaces.check(wanted, looked)
        return str(wanted)


def _default_tools(asker: Asker) -> tuple[str, ...]:
    """Of a process for which nobody names any: as far as who asks may give them."""
    return tuple(name for name in DEFAULT_TOOLS if asker.rights is None or name in asker.rights)


def _named_tools(tools: tuple[str, ...], asker: Asker) -> tuple[str, ...]:
    """Patterns of another node mean what it may have used here by now; a person's mean what comes later too."""
    if asker.rights is None or not any(map(is_pattern, tools)):
        return tools
    return tuple(sorted(tools_of(tools, (), asker.rights)))


def _config(request: SpawnRequest) -> dict[str, Any]:
    """What its behaviour is told. Raises Invalid for what no record can hold."""
    told: dict[str, Any] = plain(request.config or {}, "config", MAX_CONFIG_BYTES)
    config = {name: getattr(request, name) for name in ("provider", "model", "system_prompt")}
    return told | {key: clean(value) for key, value in config.items() if value}


def _measured(spec: ProcessSpec) -> ProcessSpec:
    """The spec as it is told beside who asked for it: of standing instructions no more than what they hash to."""
    config = {key: value if key != "system_prompt" else measured(value) for key, value in spec.config.items()}
    return replace(spec, config=config, template=None if spec.template is None else _measured(spec.template))


def batched(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """So many as the loop may be held for."""
    for at in range(0, len(items), AT_A_TIME):
        yield items[at : at + AT_A_TIME]


def _refuse(faults: Sequence[KernelError]) -> None:
    """Raises all of them as one, of the kind that the first is of."""
    if faults:
        words = [str(fault) for fault in faults[:MOST_FAULTS]]
        if len(faults) > MOST_FAULTS:
            words.append(f"and {len(faults) - MOST_FAULTS} more")
        raise type(faults[0])("; ".join(words))


def _in_short(request: SpawnAllRequest, children: Sequence[tuple[str, ProcessSpec]]) -> dict[str, Any]:
    """Of many children their number and the first names: what each is, its own entry says."""
    names = [like.name for like in request.spawns[:MOST_FAULTS]]
    parents = list(dict.fromkeys(parent for parent, _ in children))[:MOST_FAULTS]
    return {"children": len(children), "names": names, "under": parents}


def _told(starts: StartsTogether) -> SpawnedAll:
    """What became of those starts, when each has come to its end, or the time is over."""
    pids = starts.pids
    return {
        "spawned": [
            {"address": address, "pid": pids[address], "name": name_of(address)}
            for address in starts.addresses
            if address in pids
        ],
        "failed": _not_started(starts),
    }


def _not_started(starts: StartsTogether) -> list[NotStarted]:
    """Those of them that do not run, and why."""
    if len(starts.pids) == len(starts.addresses):
        return []
    return [
        {"address": address, "name": name_of(address), "why": starts.whys.get(address) or _late(address)}
        for address in starts.addresses
        if address not in starts.pids
    ]


async def started_pid(address: str, started: asyncio.Future[int]) -> int:
    """The PID of a process, when it runs. Raises TimedOut, and what kept it from starting."""
    try:
        return await asyncio.wait_for(started, START_S)
    except TimeoutError:
        raise TimedOut(_late(address)) from None


def _late(address: str) -> str:
    return f"{address} did not start within {START_S:g} s; weftos ps shows its state"
