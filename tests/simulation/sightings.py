"""Which of the rare states a node is in: at a crash, after a step, and as a step befalls it."""

from __future__ import annotations

from kernel.model.states import ProcessState
from kernel.process.live import LiveProcess
from kernel.slices.turns import Turn
from kernel.supervision.reducer import Phase
from tests.simulation.checks import Record
from tests.simulation.node import Node
from tests.simulation.world import World


def at_crash(node: Node, world: World, record: Record, *, refuses: bool) -> None:
    """The node has just crashed, with ``record`` on its disk."""
    ledger, processes = node.ledger, node.kernel.processes
    if ledger.fuse.kind == "after" and ledger.fuse.count <= 0:
        world.saw("crash-untold")
    if len(ledger.unwritten) > ledger.stored:
        world.saw("crash-unwritten")
    if refuses:
        world.saw("crash-refused")
    if any(supervisor.group is not None for supervisor in processes.supervisors.values()):
        world.saw("crash-in-restart")
    children = [child for supervisor in processes.supervisors.values() for child in supervisor.children]
    if any(child.phase is Phase.WAITING for child in children):
        world.saw("crash-in-back-off")
    if any(process.draining for process in node.kernel.live.all()):
        world.saw("crash-in-stop")
    _calls_at_crash(node, world, record)


def _calls_at_crash(node: Node, world: World, record: Record) -> None:
    settled = record.settled
    handed = {one.intent for attempts in world.attempts.values() for one in attempts}
    for call, intents in record.intents.items():
        open_ = call not in settled and call not in record.taken_back
        if open_ and intents[-1]["seq"] not in handed:
            world.saw("crash-before-hand-over")
        if call in settled and intents[-1]["turn"] not in record.ended:
            world.saw("crash-in-turn")
    for call, attempts in world.attempts.items():
        last = attempts[-1]
        if call in settled or last.boot != world.boot:
            continue
        if last.end == "answered":
            world.saw("crash-before-outcome")
        elif last.end == "under way":
            world.saw("crash-after-effect" if last.effects else "crash-before-effect")


def at_kill(world: World, process: LiveProcess | None, turn: Turn | None, *, refuses: bool) -> None:
    """An operator kills it."""
    if process is None:
        return
    if process.state is ProcessState.SUSPENDED:
        world.saw("kill-awaiting")
    if process.state is ProcessState.STARTING:
        world.saw("kill-starting")
    if turn is not None and under_way(world, turn):
        world.saw("kill-under-way")
    if refuses:
        world.saw("kill-refused")


def at_cancel(world: World, turn: Turn | None, *, awaited: bool, refuses: bool) -> None:
    """``turn`` is cancelled; its process ``awaited`` a person."""
    if awaited:
        world.saw("cancel-awaiting")
    if turn is not None and turn.attempt > 1:
        world.saw("cancel-recovering")
    if refuses:
        world.saw("cancel-refused")


def at_stop(node: Node, world: World, address: str) -> None:
    """An operator stops it."""
    above, _, name = address.rpartition("/")
    supervisor = node.kernel.processes.supervisors.get(above)
    child = supervisor.table.get(name) if supervisor is not None else None
    group = supervisor.group if supervisor is not None else None
    if child is not None and group is not None and child.order > group.reached:
        world.saw("stop-in-restart")


def at_a_lost_cell(world: World, turns: list[Turn]) -> None:
    """A cell is lost in which these were."""
    for turn in turns:
        if under_way(world, turn):
            world.saw("cell-with-call")
        if turn.attempt > 1:
            world.saw("cell-in-recovery")


def under_way(world: World, turn: Turn) -> bool:
    """Whether a call of it, one with effects, is at a worker."""
    calls = (world.attempts.get(f"{turn.id}:{ordinal}", []) for ordinal in turn.calls)
    return any(one.end == "under way" for attempts in calls for one in attempts)
