"""Who reads each entry once: what must never be in a ledger, said in entries that no kernel would write."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kernel.model.spec import ProcessSpec
from tests.simulation.witness import Witness

Entry = tuple[Any, dict[str, Any]]
A = "/user/s/a"


def entry(kind: str, at_s: float = 0.0, **body: Any) -> Entry:
    return SimpleNamespace(kind=kind, time_us=int(at_s * 1e6)), body


def spawned(address: str, **spec: Any) -> Entry:
    made = ProcessSpec(address.rpartition("/")[2], **spec)
    return entry("process.spawned", address=address, spec=made.to_json())


def started(pid: int, address: str = A, at_s: float = 0.0) -> Entry:
    return entry("process.started", at_s, address=address, pid=pid)


def inside(cell: str, pid: int, address: str) -> Entry:
    return entry("process.started", address=address, pid=pid, cell=cell)


def exited(pid: int, reason: str = "killed", address: str = A, at_s: float = 0.0) -> Entry:
    return entry("process.exited", at_s, address=address, pid=pid, reason=reason)


def tree(strategy: str = "one_for_one", most: int = 1) -> list[Entry]:
    intensity = (most, 60.0)
    return [
        spawned("/user/s", type="supervisor", strategy=strategy, tools=(), intensity=intensity),
        spawned(A),
    ]


def test_a_life_as_it_should_be_breaks_nothing_and_says_who_runs() -> None:
    witness = Witness({5: {"crash"}})
    assert (
        witness.read([*tree(), started(4), exited(4), started(5), exited(5, "crash"), started(6)][:-1]) == []
    )
    assert witness.running == {}
    assert (witness.checks, witness.gave_up) == (6, 0)


def test_a_successor_that_had_its_place_when_a_dead_one_was_blamed_is_alone_from_its_next_start_on() -> None:
    witness = Witness({4: ["killed"], 7: ["killed"]})
    felled = entry("process.felled", address=A, pid=4, isolated=True)
    entries = [*tree(most=5), started(4), exited(4), inside("c2", 5, "/user/b"), felled, inside("c2", 6, A)]
    assert witness.read(entries) == []
    [wrong] = witness.read([*entries, exited(6), inside("c2", 7, A)])
    assert wrong.endswith("/user/s/a started in c2 beside /user/b, and one of them is to be alone")


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([started(4), exited(4), started(4)], "PID 4 started at /user/s/a, and was given before"),
        ([started(4), started(5)], "PID 5 started at /user/s/a, where PID 4 has not ended"),
        ([started(4), exited(4), exited(4)], "PID 4 at /user/s/a ended a second time, with killed"),
        ([started(4), exited(5)], "PID 5 ended at /user/s/a, where PID 4 runs"),
        ([started(4), exited(4, "bored")], "ended with 'bored', which is no reason"),
        (
            [
                entry("process.felled", address=A, pid=3, isolated=True),
                inside("c1", 4, A),
                inside("c2", 5, "/user/b"),
                inside("c1", 6, "/user/c"),
            ],
            "/user/c started in c1 beside /user/s/a, and one of them is to be alone",
        ),
        ([started(4), exited(4, "crash")], "ended with crash, and nothing outside had it end so"),
    ],
)
def test_what_must_never_be_is_said(entries: list[Entry], words: str) -> None:
    [said] = Witness({4: {"cell_lost"}}).read(entries)
    assert words in said


def came_back(times: int, apart_s: float, reason: str = "killed") -> list[Entry]:
    """A child that ends so many times, and is back at once."""
    rows = [started(10)]
    for number in range(times):
        at_s = apart_s * (number + 1)
        rows += [exited(10 + number, reason, at_s=at_s), started(11 + number, at_s=at_s)]
    return rows


def test_a_restart_beyond_the_intensity_is_said_and_one_below_it_is_not() -> None:
    assert Witness({}).read([*tree(), *came_back(1, 1.0)]) == []
    [said] = Witness({}).read([*tree(), *came_back(2, 1.0)])
    assert said == "/user/s/a came back, restart 2 within its period, and its intensity is 1"


def test_restarts_that_lie_a_period_apart_are_not_counted_together() -> None:
    assert Witness({}).read([*tree(), *came_back(5, 55.0)]) == []


def test_ends_in_order_and_with_the_cell_are_not_counted() -> None:
    assert Witness({}).read([*tree(), *came_back(5, 1.0, "shutdown")]) == []
    lost: dict[int, set[str]] = {pid: {"cell_lost"} for pid in range(10, 15)}
    assert Witness(lost).read([*tree(), *came_back(5, 1.0, "cell_lost")]) == []


def test_where_several_are_restarted_for_one_nothing_is_counted() -> None:
    assert Witness({}).read([*tree("one_for_all"), *came_back(5, 1.0)]) == []


def test_a_start_by_hand_and_a_boot_count_anew() -> None:
    once = [*tree(), *came_back(1, 1.0)]
    by_hand = entry("process.slot", address="/user/s", state="running")
    assert Witness({}).read([*once, by_hand, exited(11), started(12)]) == []
    witness = Witness({})
    assert witness.read(once) == []
    witness.booted()
    assert witness.read([*once, started(12), exited(12), started(13)]) == []


def test_who_is_linked_ends_as_another_did_and_not_before_it() -> None:
    told: dict[str, Any] = {
        "address": "/user/s/b",
        "pid": 5,
        "reason": "crash",
        "detail": "PID 4, /user/s/a, ended, and is linked with it",
    }
    after = [
        *tree(),
        started(4),
        started(5, "/user/s/b"),
        exited(4, "crash"),
        entry("process.exited", **told),
    ]
    assert Witness({4: {"crash"}}).read(after) == []
    [said] = Witness({4: {"crash"}}).read([*after[:4], after[5]])
    assert "PID 5 at /user/s/b ended with crash, and nothing outside" in said


def test_an_entry_is_read_once() -> None:
    witness, entries = Witness({}), [*tree(), started(4)]
    assert [witness.read(entries), witness.read([*entries, exited(4)])] == [[], []]
    assert witness.checks == 4


def test_a_supervisor_that_ends_by_its_intensity_is_counted() -> None:
    witness = Witness({})
    above = started(3, "/user/s")
    entries = [
        *tree(),
        above,
        *came_back(1, 1.0),
        exited(11, at_s=2.0),
        exited(3, "shutdown", "/user/s", 2.0),
    ]
    assert witness.read(entries) == []
    assert witness.gave_up == 1
