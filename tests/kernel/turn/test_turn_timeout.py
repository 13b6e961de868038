"""A process may have less time for its turns than the node allows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernel.bounds import Bounds
from kernel.errors import Invalid, SupervisionError
from kernel.model.spec import ProcessSpec
from kernel.operations.processes import Processes
from kernel.operations.spawning import TEMPLATE, Spawning, SpawnRequest
from tests.kernel.control.test_control import control_of
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin, go_off


def test_a_turn_ends_by_the_deadline_of_its_process(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        await control(Spawning.spawn, "ada", turn_timeout_s=60)
        mail, behind = await twin.send("ada"), await twin.send("ada", "next")
        at = await twin.delivery()
        go_off(twin.kernel.live.all()[-1].overdue)
        end = await twin.end_of(mail)
        assert (end["status"], end["reply"]) == ("error", "the turn did not end within 60 s")
        assert (at.pid, at.turn, end["reply"]) in twin.cells.ended
        assert (await twin.delivery()).message.id == behind.id
        assert (await control(Processes.inspect, "ada"))["turn_timeout_s"] == 60

    on_twin(tmp_path, body)


def test_the_deadline_is_changed_from_the_next_turn_on(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        await twin.spawn("ada", tools=("spawn_agent",))
        assert (await control(Processes.inspect, "ada"))["turn_timeout_s"] == 100
        assert (await control(Processes.change, "ada", turn_timeout_s=30))["changed"] == ["turn_timeout_s"]
        assert (await control(Processes.change, "ada", turn_timeout_s=30))["changed"] == []
        await twin.send("ada")
        at = await twin.delivery()
        assert twin.kernel.turns.limit_s("/user/ada") == 30
        assert (await twin.call_tool(at, "spawn_agent", {"name": "kid", "tools": []}))["status"] == "ok"
        assert twin.kernel.state.slots["/user/ada/kid"].spec.turn_timeout_s == 30  # no longer than its maker
        with pytest.raises(Invalid, match="101 is more than the node's 100: give at most that"):
            await control(Processes.change, "ada", turn_timeout_s=101)
        with pytest.raises(SupervisionError, match="1 to 604800 seconds"):
            await control(Processes.change, "ada", turn_timeout_s=0.5)

    on_twin(tmp_path, body, bounds=Bounds(turn_timeout_s=100))


def test_a_deadline_is_of_what_takes_turns_and_at_most_the_nodes(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        with pytest.raises(Invalid, match="3601 is more than the node's 3600"):
            await control(Spawning.spawn, "ada", turn_timeout_s=3601)
        team = SpawnRequest("team", supervisor=True, turn_timeout_s=5)
        assert team.check() == ["a supervisor runs no behaviour: leave out turn_timeout_s"]
        await control(Spawning.spawn, "pool", supervisor=True, strategy=TEMPLATE, turn_timeout_s=5)
        await control(Spawning.spawn, "one", under="/user/pool")
        assert twin.kernel.turns.limit_s("/user/pool/one") == 5
        await control(Spawning.spawn, "crew", supervisor=True)
        with pytest.raises(SupervisionError, match="a supervisor takes no turns"):
            await control(Processes.change, "crew", turn_timeout_s=5)

    on_twin(tmp_path, body)


def test_it_never_exceeds_what_the_node_allows_by_now(tmp_path: Path) -> None:
    async def first(twin: Twin) -> None:
        await control_of(twin)(Spawning.spawn, "ada", turn_timeout_s=50)

    async def then(twin: Twin) -> None:
        assert twin.kernel.state.slots["/user/ada"].spec.turn_timeout_s == 50
        assert twin.kernel.turns.limit_s("/user/ada") == 20

    on_twin(tmp_path, first)
    on_twin(tmp_path, then, bounds=Bounds(turn_timeout_s=20))


def test_a_spec_of_a_version_without_deadlines_is_held_to_the_nodes() -> None:
    spec = ProcessSpec("ada")
    told = json.loads(spec.to_json())
    del told["turn_timeout_s"]
    assert ProcessSpec.from_json(json.dumps(told)) == spec
    held = ProcessSpec("ada", turn_timeout_s=5.0)
    assert ProcessSpec.from_json(held.to_json()) == held
    for wrong in ("5", True, [5]):
        with pytest.raises(Invalid, match="must be seconds"):
            ProcessSpec.from_json(json.dumps({**told, "turn_timeout_s": wrong}))
