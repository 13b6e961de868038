"""What holds for the process tree whatever happens to it: a random walk over its shell, on twins and a wound clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.errors import KernelError
from kernel.model.address import ROOT, USER, ancestors, is_below
from kernel.model.states import CELL_LOST, CRASH
from kernel.operations.spawning import TEMPLATE, AutoShutdown
from kernel.slices.tree.slots import DOWN
from kernel.supervision.reducer import STRATEGIES, Phase
from tests.kernel.twins.tree_twin import Tree

ALIVE = (Phase.STARTING, Phase.UP, Phase.STOPPING)
NAMES = ("a", "b", "c")
RESTARTS = st.sampled_from(["permanent", "transient", "temporary"])
TYPES: st.SearchStrategy[Literal["worker", "supervisor"]] = st.sampled_from(
    ["worker", "worker", "supervisor"]
)
MODES = get_args(AutoShutdown)
STRATEGY = st.sampled_from(sorted(STRATEGIES))

FAMILY: tuple[tuple[str, str, Literal["worker", "supervisor"]], ...] = (
    ("a", "/user", "supervisor"),
    ("a", "/user/a", "worker"),
    ("a", "/user/a/a", "worker"),
    ("a", "/user/a/a/a", "worker"),
    ("b", "/user/a/a", "supervisor"),
    ("a", "/user/a/a/b", "worker"),
    ("b", "/user/a", "worker"),
)

which = st.integers(0, 99)
Step = tuple[object, ...]
steps = st.one_of(
    st.tuples(st.just("spawn"), which, st.sampled_from(NAMES), TYPES, RESTARTS, STRATEGY),
    st.tuples(st.just("spawn"), which, st.sampled_from(NAMES), TYPES, RESTARTS, STRATEGY),
    st.tuples(st.just("crash"), which, st.sampled_from([CRASH, "normal", CELL_LOST])),
    st.tuples(st.just("crash"), which, st.just(CRASH)),
    st.tuples(st.just("crash twice"), which),
    st.tuples(st.just("kill"), st.just(0), st.sampled_from(["kill", "term"])),
    st.tuples(st.just("stop"), st.sampled_from([1, 2, 3])),
    st.tuples(st.just("kill"), which, st.sampled_from(["kill", "term"])),
    st.tuples(st.just("stop"), which),
    st.tuples(st.just("start"), which),
    st.tuples(st.just("remove"), which),
    st.tuples(st.just("remove more")),
    st.tuples(st.just("write"), which, st.sampled_from(NAMES), TYPES, RESTARTS),
    st.tuples(st.just("begin")),
    st.tuples(st.just("cell"), st.lists(which, max_size=4)),
    st.tuples(st.just("turn"), which),
    st.tuples(st.just("turns")),
    st.tuples(st.just("turn ends"), which),
    st.tuples(st.just("up"), which),
    st.tuples(st.just("all up")),
    st.tuples(st.just("all up")),
    st.tuples(st.just("no pids")),
    st.tuples(st.just("pids")),
    st.tuples(st.just("wind"), st.sampled_from([0.0, 0.1, 0.5, 3.0, 6.0, 70.0])),
)


def _may_end(tree: Tree, parent: str) -> bool:
    """Whether a child there may be significant."""
    return tree.state.slots[parent].spec.auto_shutdown != "never"


def act(tree: Tree, step: Step) -> None:
    """Do one thing, to the slot or the process that its number means just now."""
    slots = sorted(tree.state.slots)
    live = [address for address in tree.running() if address not in (ROOT, USER)]

    def slot() -> str:
        return slots[int(str(step[1])) % len(slots)]

    def process() -> str:
        return live[int(str(step[1])) % len(live)]

    workers = [address for address in live if tree.state.slots[address].spec.type == "worker"]
    match step:
        case ("spawn", _, str(name), kind, restart, strategy):
            parent = slot()
            fields: dict[str, Any] = {"significant": restart != "permanent" and _may_end(tree, parent)}
            if kind == "supervisor" and strategy != TEMPLATE:
                fields["auto_shutdown"] = MODES[int(str(step[1])) % len(MODES)]
            tree.spawn_only(
                name, parent, type=kind, restart=restart, intensity=(2, 60.0), strategy=strategy, **fields
            )
        case ("write", _, str(name), kind, restart):
            tree.spawn_only(name, slot(), begin=False, type=kind, restart=restart)
        case ("begin",):
            tree.begin()
        case ("crash", int(number), str(reason)) if workers:
            tree.crash(workers[number % len(workers)], reason)
        case ("crash twice", int(number)) if workers:  # after the second, its restart waits
            address = workers[number % len(workers)]
            for _ in range(2):
                if tree.live.at(address) is not None:
                    tree.up()
                    tree.crash(address)
        case ("kill", _, str(signal)) if live:
            tree.processes.kill(process(), signal)
        case ("stop", _):
            tree.processes.stop(slot())
        case ("remove", _):
            address = slot()
            if tree.state.slots.down(address) is None:
                tree.processes.stop(address)
                tree.finish()
            tree.remove(address)
        case ("remove more",):
            tree.remove_more()
        case ("start", int(number)):
            down = [address for address in slots if tree.state.slots[address].state in DOWN] or slots
            tree.processes.start(down[number % len(down)])
        case ("cell", [*numbers]) if workers:
            tree.cell_lost(sorted({workers[int(str(number)) % len(workers)] for number in numbers}))
        case ("turn", _) if live:
            tree.open_turn(process())
        case ("turns",):
            for address in live:
                tree.open_turn(address)
        case ("turn ends", _) if live:
            tree.end_turn(process())
        case ("up", int(number)):
            tree.up_one(number)
        case ("all up",):
            tree.up()
        case ("no pids",):
            tree.use_up_pids()
        case ("pids",):
            tree.sync()
        case ("wind", float(by_s)):
            tree.clock.wind(by_s)


def check(tree: Tree) -> None:
    """What holds at any moment."""
    live = tree.live.all()
    addresses = [process.address for process in live]
    assert len(addresses) == len(set(addresses)), "two processes at one address"
    pids = {process.pid for process in live}
    exited = {draft.pid for draft in tree.journal.drafts if draft.kind == "process.exited"}
    assert tree.pids <= pids | exited, "a process that nobody knows of"
    assert {pid for _, pid, _ in tree.ended} <= exited, "an exit that is not recorded"
    if tree.processes.effects.unfinished:
        return
    for process in live:
        if process.address == ROOT:
            continue
        assert process.address in tree.state.slots, f"{process.address} runs and has no slot"
        for above in ancestors(process.address):
            slot = tree.state.slots.get(above)
            supervised = above == ROOT or (slot is not None and slot.spec.type == "supervisor")
            assert not supervised or tree.live.at(above) is not None, f"{process.address} outlived {above}"
        down = tree.state.slots.down(process.address)
        assert down is None or process.draining or process.spec.type == "supervisor", (
            f"{process.address} goes on, though {down.address} is {down.state}"
        )
    for address in (ROOT, *tree.state.slots):
        supervisor = tree.processes.supervisors.get(address)
        for child in supervisor.children if supervisor is not None else ():
            at = f"{address}/{child.spec.id}" if address != ROOT else USER
            if child.phase is Phase.STARTING and tree.journal.slow:
                continue  # it may wait for a PID
            assert (child.phase in ALIVE) is (tree.live.at(at) is not None), f"{at} is {child.phase}"


def settle(tree: Tree) -> None:
    """Let all turns end, all timers run out and all starts succeed."""
    tree.begin()
    tree.sync()
    while tree.removing:
        tree.remove_more()
    for _ in range(30):
        for address in tree.running():
            tree.end_turn(address)
        tree.clock.wind(40.0)
        tree.up()
        check(tree)
        if not tree.clock.waiting:
            return


def check_settled(tree: Tree) -> None:
    """What is meant to run does, and nothing else."""
    for address, slot in tree.state.slots.items():
        process, down = tree.live.at(address), tree.state.slots.down(address)
        if down is not None:
            assert process is None, f"{address} runs, though {down.address} is {down.state}"
        else:
            assert process is not None and not process.draining, f"{address} is {slot.state} and does not run"
            assert str(process.state) == "running"
    assert not [at for at, supervisor in tree.processes.supervisors.items() if supervisor.group is not None]


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=40), st.sampled_from([1, 3, 1_000]), STRATEGY)
def test_one_address_has_at_most_one_process_and_what_runs_is_what_is_meant_to(
    walk: list[Step], at_once: int, strategy: str
) -> None:
    tree = Tree(at_once=at_once)
    for name, parent, kind in FAMILY:
        tree.spawn(name, parent, type=kind, intensity=(2, 60.0), strategy=strategy)
        tree.finish()
        tree.up()
    for step in walk:
        try:
            act(tree, step)
        except KernelError as error:
            # a refusal is of a class of its own; a fault in weftos is not
            assert type(error) is not KernelError, error
        check(tree)
    settle(tree)
    check_settled(tree)


trees = st.lists(st.tuples(which, TYPES), min_size=1, max_size=25)


def grown(shape: list[tuple[int, Literal["worker", "supervisor"]]]) -> tuple[Tree, str, list[str]]:
    """A tree below ``/user/top``, and what is in it in the order of its starts."""
    tree = Tree()
    addresses = [tree.spawn("top", type=shape[0][1])]
    for number, (at, kind) in enumerate(shape[1:]):
        addresses.append(tree.spawn(f"n{number}", addresses[at % len(addresses)], type=kind))
    return tree, addresses[0], preorder(tree, addresses[0])


def preorder(tree: Tree, address: str) -> list[str]:
    below = [preorder(tree, child.address) for child in tree.state.slots.children(address)]
    return [address, *(one for each in below for one in each)]


ENDS: dict[str, Callable[[Tree, str], None]] = {
    "stop": lambda tree, address: tree.processes.stop(address),
    "term": lambda tree, address: tree.processes.kill(address, "term"),
    "kill": lambda tree, address: tree.processes.kill(address, "kill"),
}


@settings(max_examples=150, deadline=None)
@given(trees, which, st.sets(which, max_size=10), st.sampled_from(sorted(ENDS)), st.sampled_from([2, 1_000]))
def test_what_is_ended_is_ended_to_its_last_leaf_children_before_parents_in_reverse_order(
    shape: list[tuple[int, Literal["worker", "supervisor"]]], at: int, busy: set[int], how: str, at_once: int
) -> None:
    tree, _, all_of_it = grown(shape)
    tree.clock.wind(0.0)
    tree.processes.effects.at_once = at_once
    target = all_of_it[at % len(all_of_it)]
    below = [address for address in all_of_it if address == target or is_below(address, target)]
    for number in sorted(busy):
        tree.open_turn(below[number % len(below)])
    in_turns = [process.address for process in tree.live.all() if process.turn]
    before = {address: tree.pid(address) for address in all_of_it}
    beside = {address: before[address] for address in all_of_it if address not in below}
    ENDS[how](tree, target)
    if how != "kill":
        for address in below:
            process = tree.live.get(before[address])
            assert process is None or process.draining or process.spec.type == "supervisor"
        for address in in_turns:
            tree.end_turn(address)
    tree.finish()
    assert [address for address, *_ in tree.ended] == list(reversed(below))
    tree.up()
    assert {address: tree.pid(address) for address in beside} == beside
    runs = {address for address in below if tree.live.at(address) is not None}
    assert runs == (set() if how == "stop" else set(below))
    if how == "stop":
        tree.processes.start(target)
        tree.finish()
        tree.up()
    assert set(all_of_it) <= set(tree.running())


@settings(max_examples=50, deadline=None)
@given(trees, st.sets(which, min_size=1, max_size=10))
def test_turns_that_do_not_end_hold_a_stop_up_for_one_time_not_for_one_each(
    shape: list[tuple[int, Literal["worker", "supervisor"]]], busy: set[int]
) -> None:
    tree, top, all_of_it = grown(shape)
    for number in busy:
        tree.open_turn(all_of_it[number % len(all_of_it)])
    tree.processes.stop(top)
    tree.clock.wind(5.0)
    assert tree.running() == [ROOT, USER]
    assert [address for address, *_ in tree.ended] == list(reversed(all_of_it))
