"""Trajectories as a person sees them, and what he says of a turn: on record, once it has ended, until it is erased."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernel.abi import StageReport, TurnResult
from kernel.cells.cell_events import TurnDone
from kernel.errors import Busy, Invalid, NotFound, Unavailable
from kernel.operations.erasure import Erasure
from kernel.operations.spawning import Spawning
from kernel.operations.turns.sessions import Sessions
from kernel.operations.turns.trajectories import Thumb, Trajectories
from tests.kernel.control.test_control import control_of, on_control
from tests.kernel.slices.feed.test_trajectories import SCORED
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import Twin

KEPT = (StageReport("score", "continue", SCORED, 1), StageReport("learn", "continue", "kept", 1))


async def turned(twin: Twin, stages: tuple[StageReport, ...] = KEPT, session: str = "main") -> str:
    """A turn of ada's that has ended."""
    mail = await twin.send("ada", "go", session=session)
    at = await twin.delivery()
    record = {"role": "user", "content": "go"}
    twin.say(TurnDone(at.pid, at.turn, TurnResult("done", (record,), "ok", stages)))
    await twin.end_of(mail)
    return at.turn


def test_a_thumb_is_on_record_counts_and_outlasts_the_node(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        turn = await turned(twin)
        said: list[tuple[Thumb, str, float]] = [("up", "", 0.95), ("down", "up", 0.45)]
        for thumb, before, overall in said:
            done = await control(Trajectories.rate, turn, thumb, why=f"  it\nis {thumb}")
            assert (done["before"], done["overall"]) == (before, overall)
        entries = await twin.entries("turn.rated")
        assert [(one.entry.subject, one.body["thumb"], one.body["why"]) for one in entries] == [
            (turn, "up", "it is up"),
            (turn, "down", "it is down"),
        ]
        commands = [
            c.body for c in await twin.entries("operator.command") if c.body["operation"] == "rate_turn"
        ]
        assert [json.loads(c["arguments"]) for c in commands] == [
            {"turn": turn, "thumb": "up"},
            {"turn": turn, "thumb": "down"},
        ], "why is said once, where it can be erased"

    async def then(twin: Twin) -> None:
        control = control_of(twin)
        [row] = await control(Trajectories.list, "ada")
        assert (row["thumb"], row["overall"], row["outcome"]) == ("down", 0.45, "ok")
        newer = [await turned(twin) for _ in range(3)]
        listed = await control(Trajectories.list, "ada", limit=2)
        assert [each["turn"] for each in listed] == newer[1:]
        earlier = await control(Trajectories.list, "ada", limit=2, before=listed[0]["response"])
        assert [each["turn"] for each in earlier] == [row["turn"], newer[0]]

    on_control(tmp_path, body)
    on_twin(tmp_path, then)


def test_a_turn_is_rated_when_it_has_ended_whether_a_trajectory_of_it_is_kept_or_not(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin, archive=twin.archive.ask)
        await control(Spawning.spawn, "ada")
        turn = await turned(twin, ())
        done = await control(Trajectories.rate, turn, "up")
        assert done["overall"] is None and await control(Trajectories.list, "ada") == []
        await twin.send("ada")
        at = await twin.delivery()
        with pytest.raises(Busy, match=f"turn {at.turn} has not ended yet"):
            await control(Trajectories.rate, at.turn, "up")
        twin.finish(at)
        with pytest.raises(NotFound, match="no turn t999999 has ended here"):
            await control(Trajectories.rate, "t999999", "up")
        for wrong in ("12", "t1\n", "t-1", "../t1"):
            with pytest.raises(Invalid, match="is no turn"):
                await control(Trajectories.rate, wrong, "up")
        with pytest.raises(Unavailable, match="the archive cannot answer"):
            await control_of(twin)(Trajectories.rate, turn, "up")
        assert len(await twin.entries("turn.rated")) == 1

    on_twin(tmp_path, body)


def test_an_erased_or_forgotten_session_has_no_trajectory_and_no_thumb(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin, archive=twin.archive.ask)
        await control(Spawning.spawn, "ada")
        gone, deleted, stays = [await turned(twin, session=name) for name in ("x", "y", "z")]
        for turn in (gone, deleted, stays):
            await control(Trajectories.rate, turn, "down", why="secret")
        told = await control(Erasure.erase, "it must go", target="ada", session="x")
        rated = [one.entry.seq for one in await twin.entries("turn.rated")]
        assert any(first <= rated[0] <= last for first, last in told["ranges"]), (
            "so what was said with it goes"
        )
        await control(Sessions.delete, "ada", "y")
        assert [row["turn"] for row in await control(Trajectories.list, "ada")] == [stays]

    on_twin(tmp_path, body)
