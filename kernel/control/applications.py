"""Applications: what is declared is compared with what is there, and made so, a few hundred processes at a time.

Each of those is one unit of the ledger. Whatever stops an apply in between, the node's own end too, leaves slots that
bear the application's mark: the next apply finds them and does the rest.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TypeVar

from kernel.application.budgets import Share, budget_faults
from kernel.application.plan import Group, Plan, Present, Step, grouped
from kernel.control.asked import Asked
from kernel.control.spawning import Begun, SpawnControl, started_pid
from kernel.errors import Busy, Invalid, KernelError, NotFound, Refused, TimedOut
from kernel.kernel import Kernel
from kernel.model.address import USER, join, name_of
from kernel.model.address import parent as parent_of
from kernel.model.commands import Command
from kernel.model.makers import AGENT, app_maker, app_of
from kernel.model.spec import ProcessSpec
from kernel.operations.applications import (
    MOST_TOLD,
    Applications,
    Applied,
    Declaration,
    DeclaredSpawn,
    Deleted,
    FaultRow,
    OfApplication,
    OwnCode,
    Planned,
    StepRow,
)
from kernel.operations.operation import Handler
from kernel.operations.rights.budgets import Resource
from kernel.operations.spawning import NotStarted
from kernel.pace import give_way
from kernel.policy.asker import PERSON
from kernel.process.admission import fit_faults, spec_faults
from kernel.process.slots.change import OF_A_CHILD, OF_ITS_FLAGS
from kernel.process.slots.specs import child_spec, supervisor_flags
from kernel.slices.tree.slots import DOWN, Slot
from kernel.state.recorder import ledger_errors
from kernel.toolbox.protected import Looked

MADE_AT_ONCE = 32
"""Processes in one unit of the ledger: the loop is held while that is made."""
BEGUN_AT_ONCE = 30
"""Units whose processes start: cells do so while the next are made, and nobody waits at a cell for long."""
STOPPED_AT_ONCE = 250
CHANGED_AT_ONCE = 20
LOOKED_AT_ONCE = 32
END_S = 120.0
LOOK_S = 0.01
LONGEST_LOOK_S = 0.3
T = TypeVar("T")


@dataclass(slots=True)
class Made:
    """What an apply has done so far."""

    steps: int = 0
    failed: list[NotStarted] = field(default_factory=list)
    not_running: int = 0

    def fails(self, rows: Sequence[NotStarted]) -> None:
        """These do not run."""
        self.not_running += len(rows)
        self.failed += rows[: max(0, MOST_TOLD - len(self.failed))]


class ApplicationControl:
    """One thing at a time for each application."""

    def __init__(self, kernel: Kernel, spawning: SpawnControl) -> None:
        self._kernel = kernel
        self._slots = kernel.state.slots
        self._processes = kernel.processes
        self._spawning = spawning
        self._busy: set[str] = set()

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (
            Applications.plan.by(self.plan),
            Applications.apply.by(self.apply),
            Applications.delete.by(self.delete),
        )

    async def plan(self, asked: Asked, request: Declaration) -> Planned:
        wanted, faults = await self._wanted(request)
        plan = await self._planned(request.name, wanted)
        steps, counts = await _told(plan)
        faults += [{"entry": -1, "why": why} for why in plan.faults]
        return {"name": request.name, "steps": steps, "counts": counts, "faults": faults[:MOST_TOLD]}

    async def apply(self, asked: Asked, request: Declaration) -> Applied:
        async with self._alone(request.name):
            wanted, faults = await self._wanted(request)
            plan = await self._planned(request.name, wanted)
            whys = [*(fault["why"] for fault in faults), *plan.faults]
            if whys:
                raise Invalid("; ".join(whys[:20]) + (f"; and {len(whys) - 20} more" if whys[20:] else ""))
            steps, counts = await _told(plan)
            command, trace = asked.traced_command(request.why, name=request.name, **counts)
            by = command.seq, trace
            made = Made()
            try:
                await self._take_away(request.name, plan, command, made)
                await self._change(plan, wanted, by, made)
                await self._make(request.name, plan, wanted, by, made)
                await self._on_disk()
            except KernelError as error:
                total = sum(counts.values())
                raise type(error)(
                    f"{error}; {made.steps} of {total} steps are done: apply {request.name} again to go on"
                ) from error
        return {
            "name": request.name,
            "steps": steps,
            "counts": counts,
            "failed": made.failed,
            "not_running": made.not_running,
        }

    async def delete(self, asked: Asked, request: OfApplication) -> Deleted:
        name = request.name
        root = join(USER, name)
        async with self._alone(name):
            slot = self._slots.get(root)
            if slot is None:
                raise NotFound(f"there is no application {name}: no process is at {root}")
            if app_of(slot.made_by) != name:
                raise Refused(
                    f"{root} is there, and application {name} did not make it: weftos rm removes it"
                )
            plan = await self._planned(name, {})
            if plan.faults:
                raise Refused("; ".join(plan.faults[:20]))
            command = asked.command(request.why, name=name)
            before = self._slots.below(root) + 1
            await self._take_away(name, plan, command, Made())
            await self._on_disk()
            return {"name": name, "removed": before}

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        if name in self._busy:
            raise Busy(f"application {name} is being applied or deleted; try again when that is done")
        self._busy.add(name)
        try:
            yield
        finally:
            self._busy.discard(name)

    # -- what is to be -------------------------------------------------------------------------------------------

    async def _wanted(self, request: Declaration) -> tuple[dict[str, ProcessSpec], list[FaultRow]]:
        """Each process that is declared, by its address; and what is wrong with the entries."""
        wanted: dict[str, ProcessSpec] = {}
        faults: list[FaultRow] = [{"entry": -1, "why": why} for why in self._code_faults(request.code)]
        looked, shares = Looked(), list[Share]()
        for number, entry in enumerate(request.spawns):
            try:
                spec = self._checked(entry, wanted.get(entry.under), looked)
            except KernelError as error:
                faults.append({"entry": number, "why": f"{entry.address}: {error}"})
                continue
            like = plain(spec)
            shares.append(Share(entry.address, 1 if entry.replicas is None else entry.replicas, spec.budget))
            below = self._spawning.workspaces_below(entry.under)
            own = not entry.workspace and spec.workspace.startswith(below)
            for some in sliced(_names(entry), LOOKED_AT_ONCE):
                for name in some:
                    address = f"{entry.under}/{name}"
                    if address in wanted:
                        faults.append({"entry": number, "why": f"{address} is declared twice"})
                    wanted[address] = like.named(name, below + name if own else spec.workspace)
                await give_way()
        numbers = {each.address: number for number, each in enumerate(request.spawns)}
        faults += [{"entry": numbers.get(address, -1), "why": why} for address, why in budget_faults(shares)]
        return wanted, faults

    def _checked(self, entry: DeclaredSpawn, above: ProcessSpec | None, looked: Looked) -> ProcessSpec:
        """The spec of an entry, or of the last of its replicas, whose name is the longest. Raises KernelError."""
        last = replace(entry, name=f"{entry.name}-{entry.replicas}" if entry.replicas else entry.name)
        join(entry.under, last.name)
        spec = self._spawning.spec_of(last, entry.under, above.template if above else None, PERSON, looked)
        faults = spec_faults(spec)
        if above is not None:
            faults += fit_faults(spec, entry.under, above.template, supervisor_flags(above))
        if faults:
            raise Invalid("; ".join(faults))
        return spec

    def _code_faults(self, code: Sequence[OwnCode]) -> list[str]:
        """A request cannot name code that the node is to run: it is configured, just so, or not there."""
        faults = []
        for one in code:
            own = self._kernel.registry if one.kind == "tool" else self._kernel.env.behaviours
            entry = own.get(one.name)
            if entry is None:
                faults.append(
                    f"{one.kind} {one.name} is not configured on this node, which takes code from no request: start "
                    "the node with weftos up --app FILE, or put it into its weftos.toml"
                )
            elif (entry.import_string, tuple(entry.python_path)) != (
                one.import_string,
                tuple(one.python_path),
            ):
                faults.append(
                    f"{one.kind} {one.name} is configured as {entry.import_string or 'built in'} of "
                    f"{', '.join(entry.python_path) or 'weftos'}, not as {one.import_string} of "
                    f"{', '.join(one.python_path)}: start the node with weftos up --app FILE, or choose another name"
                )
        return faults

    # -- what is there -------------------------------------------------------------------------------------------

    async def _planned(self, app: str, wanted: dict[str, ProcessSpec]) -> Plan:
        plan = Plan(app, (*OF_A_CHILD, *OF_ITS_FLAGS))
        for some in sliced(wanted.items(), LOOKED_AT_ONCE):
            for address, spec in some:
                plan.want(address, spec)
            await give_way()
        root = join(USER, app)
        addresses = self._slots.tree(root) if root in self._slots else iter(())
        for at in sliced(addresses, LOOKED_AT_ONCE):
            for slot in filter(None, map(self._slots.get, at)):
                plan.see(self._present(slot))
            await give_way()
        plan.faults += self._room_faults(plan.grows)
        return plan

    def _room_faults(self, grows: Mapping[str, int]) -> list[str]:
        """What there is no room for, said before anything goes to make room."""
        bounds = self._kernel.env.bounds
        held = [("the node", len(self._slots), sum(grows.values()), bounds.processes, "processes")]
        held += [
            (at, self._slots.child_count(at), more, bounds.children, "children") for at, more in grows.items()
        ]
        return [
            f"{who} would have {there + more} {what}, and limits.{what} is {limit}: declare fewer, or raise it"
            for who, there, more, limit, what in held
            if more > 0 and there + more > limit
        ]

    def _present(self, slot: Slot) -> Present:
        above = self._slots.get(slot.parent)
        return Present(
            slot.address,
            plain(slot.spec),
            app_of(slot.made_by),
            agents=self._slots.maker(slot.address) == AGENT,
            down=slot.state in DOWN,
            state=slot.state,
            dynamic=above is not None and above.spec.template is not None,
            in_use=self._in_use(slot.address),
        )

    def _in_use(self, address: str) -> dict[Resource, int]:
        account = self._kernel.state.accounts.book.accounts.get(address)
        return {} if account is None else {name: line.in_use for name, line in account.lines.items()}

    # -- what is done --------------------------------------------------------------------------------------------

    async def _take_away(self, app: str, plan: Plan, command: Command, made: Made) -> None:
        for some in sliced(plan.takes_away(), STOPPED_AT_ONCE):
            for step in some:
                self._check_still_alone(app, step.address)
                if self._is_of(app, step.address) and self._slots.down(step.address) is None:
                    self._processes.stop(step.address, command)
            await self._on_disk()
            for step in some:
                await self._remove(app, step.address)
                made.steps += step.action == "remove"

    async def _on_disk(self) -> None:
        """What was done until now holds after a crash too."""
        await self._processes.effects.settled()
        with ledger_errors():
            await self._kernel.recorder.barrier()

    def _is_of(self, app: str, address: str) -> bool:
        """Still: since the plan was made, a person may have put another in its place."""
        slot = self._slots.get(address)
        return slot is not None and app_of(slot.made_by) == app

    def _check_still_alone(self, app: str, address: str) -> None:
        """Since the plan was made, a person may have made another below it. Raises Refused."""
        if not self._is_of(app, address):
            return
        for slot in filter(None, map(self._slots.get, self._slots.tree(address))):
            if app_of(slot.made_by) != app and self._slots.maker(slot.address) != AGENT:
                raise Refused(
                    f"{slot.address} was made meanwhile, would go with {address}, and application {app} did not make it"
                )

    async def _remove(self, app: str, address: str) -> None:
        """What was stopped goes when it has ended. Raises TimedOut, and what else keeps it."""
        waited_s, look_s = 0.0, LOOK_S
        while self._is_of(app, address):  # one of a template goes by itself
            try:
                with ledger_errors():
                    await self._processes.remove(address, recursive=True)
            except Busy as busy:
                if waited_s > END_S:
                    raise TimedOut(f"{busy}; weftos kill --signal kill {address} ends it at once") from busy
                waited_s += look_s
                await asyncio.sleep(look_s)
                look_s = min(2 * look_s, LONGEST_LOOK_S)
            except NotFound:
                return

    async def _change(
        self, plan: Plan, wanted: dict[str, ProcessSpec], by: tuple[int, bytes], made: Made
    ) -> None:
        seq, trace = by
        for some in sliced(plan.changes(), CHANGED_AT_ONCE):
            with ledger_errors():
                for step in some:
                    fields = {name: getattr(wanted[step.address], name) for name in step.fields}
                    if "budget" in fields:
                        fields["budget"] = step.budget
                    ticket = self._processes.change(step.address, fields, trace, seq)
                    made.steps += 1
                await ticket.durable()

    async def _make(
        self,
        app: str,
        plan: Plan,
        wanted: dict[str, ProcessSpec],
        by: tuple[int, bytes],
        made: Made,
    ) -> None:
        """Start and add, parents first: what is added has a parent that runs. Units follow one another while those
        before them start.
        """
        together: list[tuple[str, ProcessSpec]] = []
        begun: deque[Begun] = deque()
        starting: set[str] = set()  # and those that are about to

        async def add() -> None:
            if together:
                await asyncio.sleep(0)  # what was begun of the last unit has held the loop too
                begun.append(await self._spawning.begin_all(together, lambda: by, app_maker(app)))
                made.steps += len(together)
                together.clear()

        async def run(all_but: int) -> None:
            while len(begun) > all_but:
                made.fails(await self._spawning.failed(begun[0]))
                starting.difference_update(begun.popleft().starts.addresses)

        for step in plan.makes.values():
            above = parent_of(step.address)
            if step.action == "start" or above in starting:
                await add()
                await run(all_but=0)
            elif len(together) >= MADE_AT_ONCE:
                await add()
                await run(all_but=BEGUN_AT_ONCE)
            if step.action == "start":
                await self._start(step, made)
            else:
                together.append((above, wanted[step.address]))
                starting.add(step.address)
        await add()
        await run(all_but=0)

    async def _start(self, step: Step, made: Made) -> None:
        address = step.address
        made.steps += 1
        try:
            self._processes.start(address)
            await started_pid(address, self._processes.when_started(address))
        except (Refused, TimedOut) as error:
            made.fails([{"address": address, "name": name_of(address), "why": str(error)}])


def plain(spec: ProcessSpec) -> ProcessSpec:
    """The same spec as it is compared: a time to end that suits its type is not said, as after a change."""
    without = replace(spec, shutdown_s=None)
    return without if child_spec(without) == child_spec(spec) else spec


def _names(entry: DeclaredSpawn) -> Iterator[str]:
    """Of the processes that an entry stands for."""
    if entry.replicas is None:
        yield entry.name
    else:
        yield from (f"{entry.name}-{number}" for number in range(1, entry.replicas + 1))


def sliced(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """So many at a time."""
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some


async def _told(plan: Plan) -> tuple[list[StepRow], dict[str, int]]:
    """The first steps, and how many there are of each kind."""
    counts: Counter[str] = Counter()
    for some in sliced(plan.steps(), LOOKED_AT_ONCE):
        counts.update(step.action for step in some)
        await give_way()
    groups: list[Group] = []
    for some in sliced(plan.steps(), LOOKED_AT_ONCE):
        groups = list(grouped(some, groups))
        if len(groups) > MOST_TOLD:
            break
        await give_way()
    return [_row(group) for group in groups[:MOST_TOLD]], dict(counts)


def _row(group: Group) -> StepRow:
    return {
        "action": group.action,
        "address": group.address,
        "last": group.last,
        "count": group.count,
        "fields": list(group.fields),
        "why": group.why,
    }
