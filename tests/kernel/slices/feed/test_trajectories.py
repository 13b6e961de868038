"""What turns came to, out of their entries: which are kept, for how long, and what is said of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

import kernel.slices.feed.trajectories as slice_module
from cognition.config.agent_config import LearnConfig
from cognition.scoring.scores import Scores
from kernel.model.spec import ProcessSpec
from kernel.slices.feed.trajectories import DAYS, KEEP, rated_overall, scores_in
from tests.kernel.slices.told import TRACE, Told

DAY_US = 24 * 3600 * 1_000_000
SCORED = str(Scores(0.5, 1, 1, 1, 1))
STAGES = json.dumps(
    [
        ["classify", "continue", "math (sum), complexity 0.20 (x +0.20)", 5],
        ["score", "continue", SCORED, 1],
        ["learn", "continue", "kept", 1],
    ]
)
ASKED = {"ordinal": "0.0", "call_hash": "h", "provider": "p", "model": "m"}


class Learning(Told):
    """Processes with turns; ``at_us`` is when the next entry is written."""

    def __init__(self, *addresses: str, **config: Any) -> None:
        super().__init__()
        self.at_us = 1_000_000
        for address in addresses or ("/a",):
            self.spawn(address, **config)

    def entry(self, kind: str, /, **body: Any) -> int:
        self.seq += 1
        self.at_us += 1
        self.state.apply_entry(kind, body, self.seq, self.at_us, TRACE)
        return self.seq

    def spawn(self, address: str, session: str = "", **config: Any) -> None:
        above, _, name = address.rpartition("/")
        spec = ProcessSpec(name, config=config, session=session)
        self.entry("process.spawned", address=address, parent=above or "/", spec=spec.to_json())

    def asked(self, number: int, address: str = "/a", told: str = "") -> None:
        """A turn of a message is begun, and asks a model."""
        self.message(number, address)
        self.turn(number, address, session="main", config=told)
        self.entry("model.asked", turn=f"t{number}", **ASKED)

    def answered(self, number: int, address: str = "/a", told: str = "", stages: str = STAGES) -> int:
        """It ends; gives the entry that says so."""
        self.asked(number, address, told)
        used = {"input_tokens": 7, "output_tokens": 3, "cost_millionths": 5}
        self.entry("model.answered", turn=f"t{number}", **ASKED, status="ok", answer="{}", **used)
        return self.entry("turn.ended", turn=f"t{number}", status="ok", reply="done", stages=stages)

    def of(self, address: str = "/a") -> list[str]:
        return [one.turn for one in self.state.trajectories.of(address, self.at_us)]


def test_a_trajectory_names_the_entries_of_what_was_said_and_adds_up_the_rest() -> None:
    told = Learning()
    ended = told.answered(1)
    one = told.state.trajectories.get("t1")
    assert one is not None
    row = one.row()
    assert (row["request"], row["response"], row["outcome"], row["task_type"]) == (2, ended, "ok", "math")
    assert (row["provider"], row["model"], row["input_tokens"], row["output_tokens"]) == ("p", "m", 7, 3)
    assert (row["cost_millionths"], row["cost_unknown"], row["tool_calls"]) == (5, 0, 0)
    assert row["scores"]["relevance"] == 0.5 and row["scores"]["tool_use"] == 1.0
    assert row["overall"] == row["scores"]["overall"] == 0.9
    assert "done" not in str(told.state.trajectories.rows()), "what was said is not repeated"
    assert told.restored().trajectories.get("t1") == one


CUT: dict[str, Any] = {"kind": "turn.ended", "turn": "t1", "status": "cancelled"}
DEAD: dict[str, Any] = {"kind": "message.dead", "id": "m1", "why": "w"}


@pytest.mark.parametrize("end", [CUT, DEAD], ids=["cut", "dead"])
@pytest.mark.parametrize(
    ("told", "own", "kept"),
    [
        ({}, {}, True),
        ({"pipeline": {"skip_stages": ["learn"]}}, {}, False),
        ({"pipeline": {"stages": ["execute"]}}, {}, False),
        ({"pipeline": {"stages": ["execute", "learn"]}}, {}, True),
        ({"learn": {"enabled": False}}, {}, False),
        ({"learn": {"enabled": False}}, {"learn": {"enabled": True}}, True),
        ({}, {"learn": {"enabled": False}}, False),
        ({"learn": "?", "pipeline": []}, {"learn": None}, True),
    ],
)
def test_a_turn_that_its_node_ended_is_kept_where_its_configuration_has_the_stage(
    told: dict[str, Any], own: dict[str, Any], kept: bool, end: dict[str, Any]
) -> None:
    learning = Learning(**own)
    learning.asked(1, told=json.dumps(told))
    learning.entry(end["kind"], **{name: value for name, value in end.items() if name != "kind"})
    assert learning.of() == (["t1"] if kept else [])
    one = learning.state.trajectories.get("t1")
    assert one is None or (one.outcome, one.provider, one.overall) == (end.get("status", "dead"), "p", None)


@pytest.mark.parametrize(
    "stages",
    ["[]", '[["execute","continue","",1]]', '[["learn","skip","not enabled",1]]'],
    ids=["none", "others", "skipped"],
)
def test_a_turn_without_the_stage_is_not_kept(stages: str) -> None:
    told = Learning()
    told.answered(1, stages=stages)
    assert told.of() == [] and len(told.state.trajectories) == 0


def test_the_newest_so_many_of_an_agent_and_its_chats_are_kept_as_its_newest_turn_was_told() -> None:
    told = Learning("/a", "/b")
    told.spawn("/a/tel.1", session="tel:1")
    few = json.dumps({"learn": {"keep": 2}})
    for number, address in enumerate(("/a", "/a/tel.1", "/b", "/a"), 1):
        told.answered(number, address, few)
    assert told.of("/a") == ["t4", "t2"] and told.of("/a/tel.1") == ["t2"] and told.of("/b") == ["t3"]
    told.answered(5, "/a", json.dumps({"learn": {"keep": -1, "days": "x"}}))
    assert told.of("/a") == ["t5", "t4", "t2"], "a number that is none is as if it were not there"


def test_what_is_older_than_so_many_days_is_shown_no_more_and_goes_with_the_next_turn_or_start() -> None:
    told = Learning(learn={"days": 2})
    told.answered(1)
    told.at_us += DAY_US
    told.answered(2)
    told.at_us += DAY_US
    assert told.of() == ["t2"] and len(told.state.trajectories) == 2
    told.entry("node.booted")
    assert len(told.state.trajectories) == 1
    told.at_us += 5 * DAY_US
    told.answered(3)
    assert len(told.state.trajectories) == 1 and told.of() == ["t3"]


def test_of_all_agents_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_module, "MOST_IN_ALL", 2)
    told = Learning("/a", "/b")
    for number, address in enumerate(("/a", "/b", "/a"), 1):
        told.answered(number, address)
    assert (told.of("/a"), told.of("/b")) == (["t3", "t1"], []), (
        "who ended a turn longest ago gives up his oldest"
    )


def test_they_go_with_their_process_and_when_they_are_forgotten() -> None:
    told = Learning("/a", "/a/sub", "/b")
    told.spawn("/a/tel.1", session="tel:1")
    for number, address in enumerate(("/a", "/a/tel.1", "/a/sub", "/b"), 1):
        told.answered(number, address)
    assert told.state.trajectories.in_session(("/a/tel.1", "main")) == ["t2"]
    told.entry("process.slot", address="/a/tel.1", state="removed", why="")
    assert told.of("/a") == ["t1"]
    told.entry("process.slot", address="/a", state="removed", why="")
    assert len(told.state.trajectories) == 1 and told.of("/a/sub") == []
    told.state.apply_change("trajectory", "t4", None)
    told.state.apply_change("trajectory", "t4", None)
    assert len(told.state.trajectories) == 0 and told.state.trajectories.rows() == []


def test_the_newest_thumb_counts_and_one_of_a_turn_that_is_not_kept_changes_nothing() -> None:
    told = Learning()
    told.answered(1)
    told.entry("turn.rated", turn="t9", thumb="up")
    for thumb, overall in (("up", 0.95), ("down", 0.45)):
        at = told.entry("turn.rated", turn="t1", thumb=thumb)
        for state in (told.state, told.restored()):
            one = state.trajectories.get("t1")
            assert one is not None and (one.thumb, one.rated, one.overall) == (thumb, at, overall)


@pytest.mark.parametrize(
    ("scores", "thumb", "overall"),
    [
        (SCORED, "", 0.9),
        (SCORED, "down", 0.45),
        ("", "up", 1.0),
        ("", "down", 0.0),
        ("", "", None),
        ("?", "", None),
    ],
)
def test_a_thumb_is_half_of_the_score(scores: str, thumb: str, overall: float | None) -> None:
    assert rated_overall(scores, thumb) == overall


@pytest.mark.parametrize(
    "words",
    ["", "good", "0.9", "0.90 (\x1b[31m 0.50)", "9.00 (relevance 0.50)", f"{SCORED} and more", "x" * 10_000],
)
def test_words_of_a_behaviour_that_read_otherwise_are_no_scores_and_are_not_kept(words: str) -> None:
    assert scores_in(words) == {}
    told = Learning()
    odd = [[name, "continue", words, 1] for name in ("classify", "score")]
    told.answered(1, stages=json.dumps([*odd, *json.loads(STAGES)[2:]]))
    one = told.state.trajectories.get("t1")
    assert one is not None and one.scores == "" and one.task_type in ("", "good")


def test_what_the_node_takes_for_granted_is_what_the_configuration_does() -> None:
    assert LearnConfig() == LearnConfig(True, KEEP, DAYS)
