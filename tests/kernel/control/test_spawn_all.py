"""Many processes by one request: all of them, or none."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel.bounds import Bounds
from kernel.control.spawning import AT_A_TIME
from kernel.errors import Busy, Conflict, Invalid, KernelError
from kernel.model.spec import ProcessSpec
from kernel.operations.spawning import MOST_AT_ONCE, SpawnAllRequest, Spawning, SpawnRequest
from tests.kernel.control.test_control import on_control
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import Twin

WORKER = SpawnRequest("w", tools=[])


async def spawn_all(control: Doors, *spawns: SpawnRequest, count: int | None = None) -> Any:
    return await control(Spawning.spawn_all, spawns, count=count)


def test_they_are_one_unit_of_the_ledger_and_told_when_they_run(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("team", type="supervisor", tools=())
        written: list[int] = []
        twin.ledger.on_group(lambda group: written.append(len(group.entries)))
        made = await spawn_all(control, WORKER, replace(WORKER, name="v", under="/user/team"), count=70)
        assert made["failed"] == []
        names = [f"{name}-{number}" for name in "wv" for number in range(1, 71)]
        assert [each["name"] for each in made["spawned"]] == names
        running = {process.address: process.pid for process in twin.kernel.live.all()}
        assert running.items() >= {each["address"]: each["pid"] for each in made["spawned"]}.items()
        [command] = await twin.entries("operator.command")
        assert json.loads(command.body["arguments"]) == {
            "children": 140,
            "names": ["w", "v"],
            "under": ["/user", "/user/team"],
        }
        entries = (await twin.entries("process.spawned"))[-140:]
        assert {record.entry.cause for record in entries} == {command.entry.seq}
        first = command.entry.seq + 1
        assert [record.entry.seq for record in entries] == list(range(first, first + 140))
        assert max(written) >= 140
        own = tmp_path / "workspaces" / "user+" / "team+" / "v-70"
        assert twin.kernel.state.slots["/user/team/v-70"].spec.workspace == str(own) and not own.exists()

    on_control(tmp_path, body)


def test_none_is_made_when_one_cannot_be_and_every_fault_is_said_at_once(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("taken")
        before = set(twin.kernel.state.slots)
        wrong = [
            replace(WORKER, name="odd", behaviour="none_such"),
            replace(WORKER, name="lost", under="/user/nowhere"),
            replace(WORKER, name="armed", tools=["no_tool"]),
        ]
        with pytest.raises(KernelError) as error:
            await spawn_all(
                control, WORKER, *wrong, replace(WORKER, name="taken"), replace(WORKER, name="17")
            )
        said = str(error.value)
        for words in (
            "odd: behaviour 'none_such' is not configured",
            "lost: no process at /user/nowhere",
            "armed: no tool no_tool",
            "taken: /user/taken exists",
            "17: name '17' is all digits",
        ):
            assert words in said
        assert set(twin.kernel.state.slots) == before
        assert not await twin.entries("operator.command") and not (tmp_path / "workspaces").exists()

    on_control(tmp_path, body)


def test_no_two_are_made_at_one_address_however_their_parent_is_named(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        pid = await twin.spawn("team", type="supervisor", tools=())
        below = [replace(WORKER, under=under) for under in ("/user/team", "team", str(pid))]
        with pytest.raises(Conflict, match="w: /user/team/w is made by another of them"):
            await spawn_all(control, *below)
        assert "/user/team/w" not in twin.kernel.state.slots

    on_control(tmp_path, body)


@pytest.mark.parametrize(
    "bounds, words",
    [
        (Bounds(processes=12), "w-11: the node has 12 slots, the limit"),
        (Bounds(children=10), "w-11: /user has 10 children"),
    ],
)
def test_those_before_it_count_against_each(tmp_path: Path, bounds: Bounds, words: str) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        held = len(twin.kernel.state.slots)
        room = 10 if bounds.children == 10 else 12 - held
        with pytest.raises(Busy, match="limit"):
            await spawn_all(control, WORKER, count=room + 1)
        assert len(twin.kernel.state.slots) == held
        assert len((await spawn_all(control, WORKER, count=room))["spawned"]) == room

    on_control(tmp_path, body, bounds=bounds)


def test_one_that_does_not_start_is_told_beside_those_that_run(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        twin.cells.refuse = lambda placement: "it raised" if placement.name == "w-2" else ""
        made = await spawn_all(control, WORKER, count=3)
        assert [each["name"] for each in made["spawned"]] == ["w-1", "w-3"]
        [failed] = made["failed"]
        assert failed["address"] == "/user/w-2" and "it raised" in failed["why"]

    on_control(tmp_path, body)


@pytest.mark.parametrize(
    "request_, words",
    [
        (SpawnAllRequest([]), ["0 children in one request: 1 to 1000"]),
        (SpawnAllRequest([WORKER] * 2, count=MOST_AT_ONCE), ["2000 children in one request"]),
        (SpawnAllRequest([WORKER, replace(WORKER, under="/user/a"), WORKER]), ["w: 2 times below /user"]),
        (
            SpawnAllRequest([replace(WORKER, on="n2"), replace(WORKER, strategy="rest_for_one")]),
            ["w: strategy belongs to a supervisor", "w: on n2: only a child of this node", "w: 2 times"],
        ),
        (SpawnAllRequest([replace(WORKER, name="a-1"), replace(WORKER, name="a")], count=2), []),
    ],
)
def test_what_can_be_seen_without_the_node_is_said_at_once(
    request_: SpawnAllRequest, words: list[str]
) -> None:
    faults = request_.check()
    assert len(faults) == len(words)
    for fault, word in zip(faults, words, strict=True):
        assert word in fault


def test_a_thousand_faults_are_told_in_few_words(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        with pytest.raises(Invalid, match=r"w-20: .*; and 980 more$") as error:
            await spawn_all(control, replace(WORKER, behaviour="none_such"), count=1000)
        assert len(str(error.value)) < 4_000

    on_control(tmp_path, body)


def test_what_replicas_have_in_common_is_checked_once_and_of_others_each_alone(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("team", type="supervisor", tools=())
        admission, like = twin.kernel.processes.admission, ProcessSpec("a", tools=())
        odd = replace(like, shutdown_s=-1)
        wanted = [
            *(("/user", like.named(f"a-{number}", "")) for number in range(3)),
            ("/user", odd.named("b-1", "")),
            ("/user", odd.named("b-2", "")),
            ("/user/team", like.named("a-0", "")),
            ("/user/team", like.named("a-0", "")),
            ("/nowhere", like.named("a-0", "")),
            ("/user", like.named("12", "")),
            ("/user", like.named("a-3", "")),
        ]
        faults = [str(fault) for fault in admission.check_spawns(wanted)]
        words = [
            "b-1: shutdown_s",
            "b-2: shutdown_s",
            "a-0: /user/team/a-0 is made",
            "a-0: children",
            "12: name",
        ]
        assert [fault.startswith(word) for fault, word in zip(faults, words, strict=True)] == [True] * 5, (
            faults
        )

    on_control(tmp_path, body)


def test_the_way_to_their_workspaces_is_looked_at_for_many_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        looked, stat = Counter[Any](), os.stat

        def look(path: Any, **options: Any) -> os.stat_result:
            looked[path] += 1
            return stat(path, **options)

        monkeypatch.setattr(os, "stat", look)
        await spawn_all(control, WORKER, count=4 * AT_A_TIME)
        assert looked[str(tmp_path / "workspaces" / "user+")] == 4

    on_control(tmp_path, body)
