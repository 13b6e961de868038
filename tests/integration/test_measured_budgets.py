"""What a process in a cell of its own uses of the machine, as the system tells it, ends what its budget says."""

from __future__ import annotations

import contextlib

from kernel.operations.rights.budgets import Budget
from tests.integration.live_node import LiveNode, until
from weftos import WeftosError


def test_processor_time_is_used_up_and_stops_who_was_to_be_stopped(node: LiveNode) -> None:
    with contextlib.suppress(WeftosError):  # where the machine is slow its start alone takes as much
        node.api.spawn(
            "busy", isolation="dedicated", tools=("calculator",), budget=Budget(cpu_ms=60, then="stop")
        )

    def worked() -> bool:
        with contextlib.suppress(WeftosError):  # it may be stopped by now
            node.api.send("busy", "1+1")
        return node.row("busy")["slot"] == "stopped"

    until(worked, "it has used up its processor time")
    [row] = node.api.budgets.show("busy")
    assert row["resource"] == "cpu_ms" and row["spent"] >= 60
    used = [entry["amount"] for entry in node.entries("budget.used") if entry["address"] == "/user/busy"]
    assert sum(used) == row["spent"]


def test_the_memory_of_a_cell_is_held_until_its_process_ends(node: LiveNode) -> None:
    node.api.spawn("heavy", isolation="dedicated", tools=(), budget=Budget(memory_bytes=2**40))
    node.api.spawn("fat", isolation="dedicated", tools=(), budget=Budget(memory_bytes=2**20, then="stop"))
    until(lambda: node.row("fat")["slot"] == "stopped", "no cell has so little memory")
    assert {row["spent"] for row in node.api.budgets.show("fat")} == {0}
    held = [entry["amount"] for entry in node.entries("budget.held") if entry["address"] == "/user/fat"]
    assert held and held[-1] > 2**20
    assert not [entry for entry in node.entries("budget.held") if entry["address"] == "/user/heavy"]


def test_a_shared_cell_is_refused_in_words(node: LiveNode) -> None:
    status, _, err = node.command("spawn", "light", "--budget", "memory_bytes=100000000")
    assert status == 1 and "measured in a cell of its own alone: spawn light with isolation dedicated" in err
