"""Behaviours of Erlang/OTP's supervisor that can be seen from outside, each named by its number: bodies for any
substrate. Those that need more than that stand in test_in_memory.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kernel.operations.spawning import TEMPLATE
from tests.kernel.supervision.conformance.world import World

RESTARTS = pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
ORDERLY = ["normal", "shutdown", "shutdown:done"]
ABNORMAL = ["crash", "killed"]
SHUTDOWN = pytest.mark.parametrize("reason", ORDERLY[1:])
REASONS = pytest.mark.parametrize("reason", ORDERLY + ABNORMAL)


def family(world: World, name: str, *children: str, **flags: Any) -> tuple[str, list[str], list[int]]:
    """A supervisor with these children: addresses and PIDs."""
    top = world.supervisor(name, **flags)
    addresses = [world.child(child, top) for child in children]
    return top, addresses, [world.pid(address) for address in addresses]


def is_back(world: World, address: str, before: int) -> Callable[[], bool]:
    return lambda: world.pid(address) not in (0, before)


def stays(world: World, address: str, state: str) -> Callable[[], bool]:
    return lambda: world.slot(address) == state and not world.pid(address)


def test_01_sup_start_normal(world: World) -> None:
    top = world.supervisor("n01", restart="transient")
    assert world.counts(top) == {"specs": 0, "active": 0, "supervisors": 0, "workers": 0}
    world.stop(top)
    world.until(stays(world, top, "stopped"))
    assert world.exits(top) == [(top, "shutdown")]


def test_13_sup_start_map(world: World) -> None:
    top, [child], _ = family(world, "n13", "a")
    assert world.spec(child)["restart"] == "permanent"
    assert world.refused(lambda: world.stop(f"{top}/nobody")) == "not_found"


def test_18_sup_stop_infinity(world: World) -> None:
    top = world.supervisor("n18", shutdown_s="infinity")
    child = world.child("a", top, shutdown_s="infinity")
    world.stop(top)
    world.until(stays(world, top, "stopped"))
    assert world.exits(top) == [(child, "shutdown"), (top, "shutdown")]


def test_19_sup_stop_timeout(world: World) -> None:
    top = world.supervisor("n19")
    prompt = world.child("prompt", top)
    late = world.child("late", top, shutdown_s=0.5)
    world.busy(late)
    world.stop(top)
    world.until(stays(world, top, "stopped"))
    assert world.exits(top) == [(late, "killed"), (prompt, "shutdown"), (top, "shutdown")]


def test_20_sup_stop_timeout_dynamic(world: World) -> None:
    top = world.supervisor("n20", strategy=TEMPLATE, child_shutdown_s=0.5)
    children = [world.child(f"a{number}", top) for number in range(3)]
    for child in children[1:]:
        world.busy(child)
    world.stop(top)
    world.until(stays(world, top, "stopped"))
    assert sorted(world.exits(top)[:-1]) == [
        (children[0], "shutdown"),
        (children[1], "killed"),
        (children[2], "killed"),
    ]


def test_21_sup_stop_brutal_kill(world: World) -> None:
    top = world.supervisor("n21")
    child = world.child("a", top, shutdown_s=0.0)
    world.stop(top)
    world.until(stays(world, top, "stopped"))
    assert world.exits(top) == [(child, "killed"), (top, "shutdown")]


def test_22_sup_stop_brutal_kill_dynamic(world: World) -> None:
    top = world.supervisor("n22", strategy=TEMPLATE, child_shutdown_s=0.0)
    children = [world.child(f"a{number}", top) for number in range(10)]
    world.stop(top)
    world.until(stays(world, top, "stopped"))
    assert sorted(world.exits(top)[:-1]) == [(child, "killed") for child in children]


@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
def test_25_order_of_children(world: World, strategy: str) -> None:
    top, children, _ = family(world, f"n25{strategy}", "c", "a", "b", strategy=strategy)
    assert world.starts(top) == children
    world.stop(top)
    world.until(stays(world, top, "stopped"))
    assert [address for address, _ in world.exits(top)] == [*reversed(children), top]


def test_27_child_adm(world: World) -> None:
    top, [child], [pid] = family(world, "n27", "a")
    again = {"name": "a", "under": top}
    assert world.refused(lambda: world.child(**again)) == "conflict"
    assert world.refused(lambda: world.start(child)) == "conflict"
    assert world.refused(lambda: world.remove(child)) in ("conflict", "refused")
    world.stop(child)
    world.until(stays(world, child, "stopped"))
    world.stop(child)
    assert world.refused(lambda: world.child(**again)) == "conflict"
    world.start(child)
    world.until(is_back(world, child, pid))
    world.stop(child)
    world.until(stays(world, child, "stopped"))
    world.remove(child)
    world.until(lambda: not world.slot(child))
    for call in (world.start, world.remove, world.stop):
        assert world.refused(lambda call=call: call(child)) == "not_found"  # type: ignore[misc]
    assert world.refused(lambda: world.child("a", f"{top}/nobody")) == "not_found"


def test_29_child_adm_simple(world: World) -> None:
    top = world.supervisor("n29", strategy=TEMPLATE)
    child = world.child("a", top)
    assert world.refused(lambda: world.start(child)) == "conflict"
    world.stop(child)
    world.until(lambda: not world.slot(child))
    assert world.pid(world.child("a", top))


def test_36_count_children(world: World) -> None:
    top, children, _ = family(world, "n36", "a", "b", "c")
    for _ in range(2):
        assert world.counts(top) == {"specs": 3, "active": 3, "supervisors": 0, "workers": 3}
    world.stop(children[0])
    world.until(lambda: world.counts(top)["active"] == 2)
    assert world.counts(top)["specs"] == 3


def test_37_count_children_supervisor(world: World) -> None:
    top = world.supervisor("n37")
    for name in "ab":
        world.supervisor(name, top)
    assert world.counts(top) == {"specs": 2, "active": 2, "supervisors": 2, "workers": 0}


def comes_back(world: World, reason: str) -> None:
    _, [child], [pid] = family(world, f"n40{reason.replace(':', '_')}", "a")
    world.ends(child, reason)
    world.until(is_back(world, child, pid))


def test_40_permanent_normal(world: World) -> None:
    comes_back(world, "normal")


@SHUTDOWN
def test_41_permanent_shutdown(world: World, reason: str) -> None:
    comes_back(world, reason)


@pytest.mark.parametrize("reason", ABNORMAL)
def test_42_permanent_abnormal(world: World, reason: str) -> None:
    comes_back(world, reason)


def is_left_and_can_be_started(world: World, reason: str) -> None:
    top = world.supervisor(f"n43{reason.replace(':', '_')}")
    child = world.child("a", top, restart="transient")
    pid = world.pid(child)
    world.ends(child, reason)
    world.until(stays(world, child, "stopped"))
    world.start(child)
    world.until(is_back(world, child, pid))


def test_43_transient_normal(world: World) -> None:
    is_left_and_can_be_started(world, "normal")


@SHUTDOWN
def test_44_transient_shutdown(world: World, reason: str) -> None:
    is_left_and_can_be_started(world, reason)


@pytest.mark.parametrize("reason", ABNORMAL)
def test_45_transient_abnormal(world: World, reason: str) -> None:
    top = world.supervisor(f"n45{reason}")
    child = world.child("a", top, restart="transient")
    pid = world.pid(child)
    world.ends(child, reason)
    world.until(is_back(world, child, pid))


@REASONS
def test_46_temporary(world: World, reason: str) -> None:
    top = world.supervisor(f"n46{reason.replace(':', '_')}")
    child = world.child("a", top, restart="temporary")
    world.ends(child, reason)
    world.until(lambda: not world.slot(child))
    assert world.counts(top)["specs"] == 0


@pytest.mark.parametrize("strategy", ["one_for_all", "rest_for_one"])
def test_47_temporary_bystander(world: World, strategy: str) -> None:
    top, [first], [pid] = family(world, f"n47{strategy}", "a", strategy=strategy)
    passing = world.child("t", top, restart="temporary")
    world.ends(first, "killed")
    world.until(is_back(world, first, pid))
    world.until(lambda: not world.slot(passing))
    assert world.pid(top)


@RESTARTS
@pytest.mark.parametrize("strategy", ["one_for_one", "one_for_all", "rest_for_one"])
def test_49_do_not_save_child_specs_for_temporary_children(world: World, restart: str, strategy: str) -> None:
    top = world.supervisor(f"n49{restart}{strategy}", strategy=strategy)
    child = world.child("a", top, restart=restart)
    world.stop(child)
    if restart == "temporary":
        world.until(lambda: not world.slot(child))
        assert world.pid(world.child("a", top, restart=restart))
    else:
        world.until(stays(world, child, "stopped"))
        assert world.refused(lambda: world.child("a", top, restart=restart)) == "conflict"


def test_51_one_for_one(world: World) -> None:
    top, [a, b], [first, second] = family(world, "n51", "a", "b", intensity=(1, 60.0), restart="transient")
    world.ends(b, "killed")
    world.until(is_back(world, b, second))
    assert world.pid(a) == first
    world.ends(b, "killed")
    world.until(stays(world, top, "stopped"))
    assert world.exits(top)[1:] == [(b, "killed"), (a, "shutdown"), (top, "shutdown")]


def test_53_one_for_all(world: World) -> None:
    flags = {"strategy": "one_for_all", "intensity": (1, 60.0), "restart": "transient"}
    top, children, before = family(world, "n53", "a", "b", "c", **flags)
    world.ends(children[1], "killed")
    for address, pid in zip(children, before, strict=True):
        world.until(is_back(world, address, pid))
    world.ends(children[0], "killed")
    world.until(stays(world, top, "stopped"))
    assert world.exits(top)[-1] == (top, "shutdown")


def test_56_rest_for_one(world: World) -> None:
    flags = {"strategy": "rest_for_one", "intensity": (1, 60.0), "restart": "transient"}
    top, children, before = family(world, "n56", "a", "b", "c", **flags)
    world.ends(children[1], "killed")
    for address, pid in zip(children[1:], before[1:], strict=True):
        world.until(is_back(world, address, pid))
    assert world.pid(children[0]) == before[0]
    world.ends(children[2], "killed")
    world.until(stays(world, top, "stopped"))
    assert world.exits(top)[-1] == (top, "shutdown")


def test_59_simple_one_for_one(world: World) -> None:
    top = world.supervisor("n59", strategy=TEMPLATE, intensity=(1, 60.0), restart="transient")
    a, b = (world.child(name, top) for name in "ab")
    first, second = world.pid(a), world.pid(b)
    world.ends(a, "killed")
    world.until(is_back(world, a, first))
    assert world.pid(b) == second
    world.ends(b, "killed")
    world.until(stays(world, top, "stopped"))


def test_60_tree_only_the_dead_worker_restarts(world: World) -> None:
    top, [bystander], [apart] = family(world, "n60", "bystander")
    middle = world.supervisor("middle", top)
    a, b = (world.child(name, middle) for name in "ab")
    before = [world.pid(address) for address in (top, middle, b)]
    pid = world.pid(a)
    world.ends(a, "killed")
    world.until(is_back(world, a, pid))
    assert [world.pid(address) for address in (top, middle, b)] == before
    assert world.pid(bystander) == apart


def test_60_tree_when_a_supervisor_gives_up_the_one_above_applies_its_strategy(world: World) -> None:
    top, [first], [kept] = family(world, "n60up", "first", strategy="rest_for_one")
    middle = world.supervisor("middle", top, intensity=(0, 60.0))
    worker, after = world.child("worker", middle), world.child("after", top)
    before = {address: world.pid(address) for address in (middle, worker, after)}
    world.ends(worker, "killed")
    for address, pid in before.items():
        world.until(is_back(world, address, pid))
    assert world.pid(first) == kept


def test_62_child_unlink(world: World) -> None:
    top = world.supervisor("n62")
    deaf = world.child("deaf", top, shutdown_s=0.5)
    world.busy(deaf)
    world.stop(deaf)
    world.until(stays(world, deaf, "stopped"))
    assert world.exits(top) == [(deaf, "killed")] and world.pid(top)


@pytest.mark.parametrize("which", ["middle", "worker"])
def test_63_simple_global_supervisor(world: World, which: str) -> None:
    top = world.supervisor(f"n63{which}")
    middle = world.supervisor("middle", top)
    worker = world.child("worker", middle)
    before = {address: world.pid(address) for address in (middle, worker)}
    killed = {"middle": middle, "worker": worker}[which]
    world.ends(killed, "killed")
    world.until(is_back(world, killed, before[killed]))
    world.until(is_back(world, worker, before[worker]))
    assert bool(world.pid(middle))


def test_27_29_the_word_of_a_refusal_is_that_of_otp(world: World) -> None:
    top, [child], _ = family(world, "n27w", "a")
    assert world.answer(lambda: world.child("a", top)) == "already_started"
    assert world.answer(lambda: world.start(child)) == "running"
    assert world.answer(lambda: world.remove(child)) == "running"
    world.stop(child)
    world.until(stays(world, child, "stopped"))
    assert world.answer(lambda: world.child("a", top)) == "already_present"
    assert world.answer(lambda: world.change(child, restart="temporary")) == "already_present"
    assert (
        world.answer(lambda: world.change(child, restart="transient", significant=True)) == "bad_combination"
    )
    assert world.answer(lambda: world.change(top, strategy="none_for_none")) == "bad_flags"
    pool = world.supervisor("n27p", strategy=TEMPLATE)
    made = world.child("c", pool)
    for call in (world.start, world.remove):
        assert world.answer(lambda call=call: call(made)) == "simple_one_for_one"  # type: ignore[misc]
    assert world.answer(lambda: world.change(made, restart="transient")) == "simple_one_for_one"
