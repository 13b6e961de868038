"""Many seeds: both cores, two hash seeds, what was reached, and the exit status."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.places import ROOT
from tests.simulation.campaign import ENOUGH, Campaign, nodes_of
from tests.simulation.rare import RARE, unseen


def told(**other: Any) -> dict[str, Any]:
    seen = dict.fromkeys(RARE, 1)
    return {"seed": "7", "nodes": 2, "fault": "", "digest": "d", "seen": seen, "checks": {}, "quiet_s": 1.0,
            "entries": 9, **other}  # fmt: skip


def campaign(one: dict[str, Any], other: dict[str, Any], seeds: int = 1) -> Campaign:
    found = Campaign()
    found.take([one] * seeds, [other] * seeds)
    return found


def test_seeds_that_hold_and_come_to_the_same_hold() -> None:
    assert campaign(told(), told(), ENOUGH).held


def test_a_fault_another_digest_and_a_process_that_warns_each_fail() -> None:
    assert not campaign(told(fault="no"), told(fault="no")).held
    torn = campaign(told(), told(digest="e"))
    assert (torn.held, torn.torn) == (False, ["7"])
    warned = campaign(told(), told())
    warned.broken.append("RuntimeWarning")
    assert not warned.held


def test_a_rare_state_that_enough_seeds_never_reached_fails_and_fewer_may() -> None:
    seen = {name: 1 for name in RARE if name != "kill-awaiting"}
    few, enough = (campaign(told(seen=seen), told(seen=seen), seeds) for seeds in (ENOUGH - 1, ENOUGH))
    assert few.never() == enough.never() == ["kill-awaiting"]
    assert (few.held, enough.held) == (True, False)


def test_what_takes_two_nodes_is_not_missed_in_runs_of_one() -> None:
    of_two = {name for name, rare in RARE.items() if rare.nodes == 2}
    assert set(unseen({}, {1})) == set(RARE) - of_two
    assert set(unseen({}, {1, 2})) == set(RARE)
    assert [nodes_of(str(number)) for number in range(4)] == [1, 1, 2, 1]


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.simulation", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_few_seeds_from_the_command_line() -> None:
    done = run("--seeds", "2", "--steps", "30")
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 seeds, each twice, 0 failed, 0 differed" in done.stdout
    assert "node crash between an intent on the disk and its hand-over" in done.stdout


@pytest.mark.parametrize("seeds", ["0", "-3", "many"])
def test_a_number_of_seeds_that_is_none_is_refused(seeds: str) -> None:
    done = run("--seeds", seeds)
    assert done.returncode == 2
    assert "--seeds" in done.stderr
