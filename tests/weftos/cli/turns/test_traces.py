"""weftos trace: what a turn went through, made of the ledger alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chain.entry.draft import Draft
from tests.weftos.cli.test_audit import go_on
from tests.weftos.cli.test_cli import Shell
from tests.weftos.twins.audited_ledger import write_story

TRACE = bytes(15) + b"\x07"
STAGES = [
    ["classify", "continue", "chat", 300],
    ["execute", "continue", "", 9_000],
    ["score", "continue", "0.90 (relevance 0.50, coherence 1.00)", 20],
    ["learn", "skip", "\x1b[31moff", 0],
]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """The story, and behind it a turn of bob's with stages, which two providers did not answer and a third did."""
    write_story(tmp_path / "data")
    turn = {"turn": "t18"}
    asked = {
        "call_hash": "c" * 64, "tools": [], "asked": "{}", "request_hash": "d" * 64, "messages_hash": "e" * 64,
        "prefix_of": -1, "prefix_count": 0, "pieces": "[]", "new": "[]", "truncated": False,
    }  # fmt: skip
    drafts = [
        Draft(
            "turn.started",
            {**turn, "message": "m18", "address": "/user/bob", "session": "other", "attempt": 1},
            9,
            "t18",
            TRACE,
        )
    ]
    for number, (provider, kind) in enumerate((("a", "server"), ("b", "auth"), ("c", ""))):
        ordinal, status = f"{number}.0", "error" if kind else "ok"
        drafts.append(
            Draft(
                "model.asked",
                {**turn, **asked, "ordinal": ordinal, "provider": provider, "model": "m"},
                9,
                "t18",
                TRACE,
            )
        )
        answered = {
            "ordinal": ordinal, "status": status, "answer": "{}", "input_tokens": 7, "output_tokens": 3,
            "error_kind": kind, "retry_after_ms": 0, "stop_reason": "", "cost_millionths": 5 if not kind else -1,
        }  # fmt: skip
        drafts.append(Draft("model.answered", {**turn, **answered}, 9, "t18", TRACE))
    ended = {
        **turn,
        "status": "ok",
        "reply": "done",
        "reply_hash": "e" * 64,
        "call": "",
        "stages": json.dumps(STAGES),
    }
    go_on(tmp_path / "data", [*drafts, Draft("turn.ended", ended, 9, "t18", TRACE)])
    return Shell(tmp_path / "data", monkeypatch, capsys)


def test_the_newest_turn_is_shown_with_its_stages_and_who_did_not_answer(shell: Shell) -> None:
    found = shell.json("trace")
    assert (found["turn"], found["outcome"], found["session_key"]) == ("t18", "ok", "/user/bob other")
    assert [(row["stage"], row["outcome"], row["took_us"]) for row in found["stages"]] == [
        ("classify", "continue", 300),
        ("execute", "continue", 9_000),
        ("score", "continue", 20),
        ("learn", "skip", 0),
    ]
    assert found["stages"][1]["started_at_us"] == found["started_at_us"] + 300
    assert [(call["provider"], call["error_kind"]) for call in found["model_calls"]] == [
        ("a", "server"),
        ("b", "auth"),
        ("c", ""),
    ]
    assert (found["provider_used"], found["fallback_attempts"], found["total_tokens"]) == ("c", 2, 30)
    assert found["trace_id"] == TRACE.hex()


def test_people_get_a_tree_in_which_nothing_of_a_behaviour_is_obeyed(shell: Shell) -> None:
    _, out, _ = shell.run("trace")
    assert "\x1b[31m" not in out and "execute" in out and "9.0 ms" in out
    assert "2 questions not answered; answered by c m" in out


@pytest.mark.parametrize(
    "wanted",
    [("--turn", "t2"), ("--pid", "/user/ada"), ("--pid", "ada"), ("--pid", "8"), ("--session", "main")],
)
def test_a_turn_is_chosen_by_itself_its_process_or_its_session(shell: Shell, wanted: tuple[str, str]) -> None:
    found = shell.json("trace", *wanted)
    assert found["turn"] == "t2" and found["stages"] == [], "an older entry tells of none"
    assert [call["tool"] for call in found["tool_calls"]] == ["file_read", "file_read"]
    _, out, _ = shell.run("trace", *wanted)
    assert "its behaviour has told of none" in out


def test_what_a_person_says_of_a_turn_is_shown_with_the_score_that_it_makes(shell: Shell) -> None:
    assert shell.json("trace")["rating"] is None
    said = [("up", ""), ("down", "\x1b[31mno use")]
    go_on(
        shell.data,
        [
            Draft("turn.rated", {"turn": "t18", "thumb": thumb, "why": why, "by": "operator:7"}, 0, "t18")
            for thumb, why in said
        ],
    )
    rating = shell.json("trace", "--turn", "t18")["rating"]
    assert (rating["thumb"], rating["by"], rating["overall"]) == ("down", "operator:7", 0.45)
    assert shell.json("trace", "--turn", "t2")["rating"] is None
    _, out, _ = shell.run("trace")
    assert "rated down by operator:7" in out and "no use; its score is 0.45 with that" in out
    assert "\x1b[31m" not in out


def test_what_there_is_not_is_said(shell: Shell) -> None:
    status, _, said = shell.run("trace", "--pid", "nobody")
    assert status != 0 and "no turn of nobody has ended" in said
    status, _, said = shell.run("trace", "--last", "--pid", "ada")
    assert status != 0 and "newest of all turns" in said
    status, _, said = shell.run("trace", "--turn", "t99")
    assert status != 0 and "the ledger knows no turn t99" in said
