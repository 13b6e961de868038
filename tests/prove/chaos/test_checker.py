"""Each law of the checker, broken by hand: a history that is well, and what is said once one thing is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.prove.chaos import checker

Row = dict[str, Any]
NAMES = ("history", "effects", "doubts", "deadletters")


def event(f: str, op: str, kind: str, **more: Any) -> Row:
    return {"f": f, "op": op, "type": kind, **more}


def asked(op: str, route: list[str], **more: Any) -> list[Row]:
    """A message that is acknowledged and answered."""
    return [
        event("send", op, "invoke", route=route, **more),
        event("send", op, "ok"),
        event("answer", op, "invoke"),
        event("answer", op, "ok", status="ok"),
    ]


def killed(op: str) -> list[Row]:
    return [event("kill", op, "invoke"), event("kill", op, "ok")]


def effect(name: str, number: int) -> Row:
    return {"effect": name, "id": f"{number:032x}"}


def letter(name: str, reason: str) -> Row:
    op, _, hop = name.partition(".")
    return {"text": json.dumps({"id": op, "hop": int(hop), "route": []}), "reason": reason}


def doubt(name: str) -> Row:
    return {"id": "t9:0.0", "arguments": json.dumps({"effect": name, "wait_ms": 3})}


class Case:
    """m1 goes from a1 to a2, m2 is in want of an answer for a while, s was stopped meanwhile, m9 is asked last."""

    def __init__(self) -> None:
        self.history = [
            *asked("m1", ["a1", "a2"]),
            event("send", "m2", "invoke", route=["a2"]),
            *killed("k1"),
            event("send", "m2", "info"),
            event("stop", "x1", "invoke", agent="s"),
            event("stop", "x1", "ok"),
            event("send", "m2", "invoke", route=["a2"]),
            event("send", "m2", "ok"),
            event("answer", "m2", "invoke"),
            event("answer", "m2", "ok", status="ok"),
            *asked("m9", ["a1", "s"], final=True),
        ]
        self.effects = [effect(name, n) for n, name in enumerate(("m1.0", "m1.1", "m2.0", "m9.0", "m9.1"))]
        self.doubts: list[Row] = []
        self.deadletters: list[Row] = []

    def without(self, f: str, op: str, kind: str) -> None:
        self.history = [e for e in self.history if (e["f"], e["op"], e["type"]) != (f, op, kind)]

    def put(self, *events: Row) -> None:
        """Before all else."""
        self.history = [*events, *self.history]

    def ends(self, op: str, status: str) -> None:
        self.history = deepcopy(self.history)
        for each in self.history:
            if (each["f"], each["op"], each["type"]) == ("answer", op, "ok"):
                each["status"] = status

    def lose(self, name: str) -> None:
        self.effects = [each for each in self.effects if each["effect"] != name]

    def breaches(self) -> list[str]:
        return list(checker.Seen(self.history, self.effects, self.doubts, self.deadletters).breaches())


def test_what_went_well_is_no_breach() -> None:
    assert Case().breaches() == []


def test_an_acknowledged_message_that_nobody_answered_is_missing() -> None:
    case = Case()
    for kind in ("invoke", "ok"):
        case.without("answer", "m1", kind)
    assert case.breaches() == ["m1 was acknowledged and is missing"]


@pytest.mark.parametrize("name", ["m1.0", "m1.1", "m2.0", "m9.1"])
def test_an_effect_of_what_was_answered_that_did_not_happen_is_found_at_each_hop(name: str) -> None:
    case = Case()
    case.lose(name)
    assert case.breaches() == [f"{name} did not happen"]


def test_a_doubled_effect_is_found_and_so_is_an_id_of_two() -> None:
    case = Case()
    case.effects.append(effect("m1.1", 99))
    assert case.breaches() == ["m1.1 happened 2 times"]
    case = Case()
    case.effects[0]["id"] = case.effects[1]["id"]
    assert case.breaches() == ["two effects have one id"]


@pytest.mark.parametrize("f", ["send", "answer"])
def test_what_nobody_knows_in_the_end_is_found(f: str) -> None:
    case = Case()
    case.without(f, "m2", "ok")
    assert f"{f} m2 is unresolved" in case.breaches()
    case = Case()
    case.put(event("start", "x2", "invoke"), event("start", "x2", "info"))
    assert case.breaches() == ["start x2 is unresolved"]


def test_what_nobody_knows_is_no_breach_where_a_call_in_doubt_holds_it() -> None:
    case = Case()
    case.put(event("send", "m3", "invoke", route=["a1"]), event("send", "m3", "ok"))
    case.put(event("answer", "m3", "invoke"), event("answer", "m3", "info"))
    assert case.breaches() == ["answer m3 is unresolved", "m3 was acknowledged and is missing"]
    case.doubts.append(doubt("m3.0"))
    assert case.breaches() == []


def test_an_effect_that_was_given_up_as_lost_need_not_have_happened() -> None:
    case = Case()
    case.lose("m1.1")
    case.put(event("decide", "t1:0.0", "invoke", effect="m1.1", word="lost"), event("decide", "t1:0.0", "ok"))
    assert case.breaches() == []


def test_a_hop_that_was_told_that_the_next_cannot_be_had_is_the_last() -> None:
    case = Case()
    case.lose("m1.1")
    case.effects.append(effect("m1.0.refused", 50))
    assert case.breaches() == []


def test_what_was_invented_is_found_and_what_was_refused_and_happened() -> None:
    words = "happened, and nobody asked for it, or was refused"
    case = Case()
    case.effects += [effect("m7.0", 60), effect("m1.2", 61)]
    assert case.breaches() == [f"m7.0 {words}", f"m1.2 {words}"]
    case = Case()
    case.put(event("send", "m3", "invoke", route=["a1"]), event("send", "m3", "fail"))
    assert case.breaches() == []
    case.effects.append(effect("m3.0", 62))
    assert case.breaches() == [f"m3.0 {words}"]


def test_an_end_with_an_error_is_a_breach_unless_somebody_interfered() -> None:
    case = Case()
    case.ends("m1", "cancelled")
    assert case.breaches() == ["m1 ended as cancelled, and nobody had interfered"]
    case.put(event("cancel", "x3", "invoke", agent="a1"), event("cancel", "x3", "ok"))
    assert case.breaches() == []


def test_two_ends_of_one_message_are_found() -> None:
    case = Case()
    case.put(event("answer", "m1", "invoke"), event("answer", "m1", "ok", status="dead"))
    assert case.breaches() == ["m1 ended as dead and ok, and nobody had interfered"]


def test_a_dead_message_is_a_dead_letter_and_that_for_poison_alone() -> None:
    case = Case()
    case.ends("m1", "dead")
    case.effects = [each for each in case.effects if not each["effect"].startswith("m1.")]
    said = case.breaches()
    assert "m1 is said to be dead, and is no dead letter" in said
    case.deadletters = [letter("m1.0", "poison")]
    assert case.breaches() == []
    case.deadletters = [letter("m1.0", "undeliverable")]
    assert case.breaches() == ["m1.0 is a dead letter (undeliverable), and nobody had interfered"]


def test_what_follows_the_interference_may_be_missing_and_what_came_before_may_not() -> None:
    case = Case()
    case.put(*asked("m4", ["a1", "s", "a2"]))
    case.effects.append(effect("m4.0", 70))
    assert case.breaches() == []
    case.lose("m4.0")
    assert case.breaches() == ["m4.0 did not happen"]


def test_the_end_is_well_only_when_something_was_asked_after_the_last_blow_and_answered() -> None:
    case = Case()
    case.history += killed("k2")
    assert case.breaches() == ["nothing was asked after the last blow"]
    case = Case()
    case.ends("m9", "dead")
    case.deadletters = [letter("m9.0", "poison")]
    assert case.breaches() == ["m9, asked last, is not answered"]


def test_an_answer_to_no_question_is_no_history() -> None:
    case = Case()
    case.put(event("start", "x2", "ok"))
    assert case.breaches() == ["start x2: ok is no history"]


def run(place: Path, case: Case) -> subprocess.CompletedProcess[str]:
    for name in NAMES:
        rows = getattr(case, name)
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    argv = [sys.executable, "-I", "-S", str(Path(checker.__file__)), str(place)]
    return subprocess.run(argv, capture_output=True, text=True)


def test_it_runs_without_any_package_and_says_each_breach_in_a_line(tmp_path: Path) -> None:
    case = Case()
    done = run(tmp_path, case)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    case.lose("m1.0")
    done = run(tmp_path, case)
    assert (done.returncode, done.stdout) == (1, "m1.0 did not happen\n")


def test_it_stays_short_and_imports_nothing_of_what_it_judges() -> None:
    text = Path(checker.__file__).read_text()
    assert len(text.splitlines()) <= 100
    assert not [name for name in ("weftos", "kernel", "chain", "mesh", "cognition") if name in text]
