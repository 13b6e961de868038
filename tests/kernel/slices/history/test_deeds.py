"""What sessions have done, out of the entries of their calls."""

from __future__ import annotations

import pytest

from kernel.abi import Deed, Deeds
from kernel.slices.history import deeds as bounds
from kernel.slices.history.deeds import MOST_DEEDS
from kernel.slices.history.target import TARGET_CHARS, target_of
from tests.kernel.slices.told import Calling

KEY = ("/a", "main")


class Doing(Calling):
    """``deed``: one call of the turn, made to its end."""

    def deed(self, number: int, status: str = "ok", effects: str = "local") -> int:
        ordinal = f"{number}.0"
        self.propose(ordinal, f'{{"path":"f{number}"}}')
        at = self.intend(ordinal, effects=effects)
        if status:
            self.outcome(status, "", ordinal)
        return at

    def told(self, turn: str = "t9", seq: int | None = None) -> Deeds:
        return self.state.deeds.as_of(KEY, self.seq if seq is None else seq, turn)


def test_a_call_with_effects_is_a_deed_from_its_intent_on_and_says_what_came_of_it() -> None:
    told = Doing()
    first = told.deed(1, "")
    assert told.told() == Deeds((Deed(first, "pay", "f1", "under_way", "t1"),))
    told.outcome("in_doubt", "", "1.0")
    before = told.seq
    told.entry("tool.resolved", turn="t1", ordinal="1.0", resolution="done")
    told.outcome("ok", "", "1.0")
    assert [deed.outcome for deed in told.told().deeds] == ["ok"]
    assert [deed.outcome for deed in told.told(seq=before).deeds] == ["in_doubt"]
    assert told.told(seq=first - 1) == Deeds()


def test_no_deed_is_what_has_no_effects_and_what_was_never_to_be_made() -> None:
    told = Doing()
    told.deed(1, effects="none")
    told.propose("2.0")
    told.outcome("denied", "", "2.0", attempt=0)
    assert told.told() == Deeds()


def test_a_turn_is_not_told_of_itself() -> None:
    told = Doing()
    told.deed(1)
    assert told.told("t1") == Deeds() and len(told.told("t2").deeds) == 1


def test_what_comes_of_a_call_behind_the_end_of_its_turn_is_known_too() -> None:
    told = Doing()
    told.deed(1, "")
    told.end()
    told.outcome("ok", "", "1.0")
    assert [deed.outcome for deed in told.told().deeds] == ["ok"]


def test_the_newest_and_those_in_doubt_stay_one_by_one_and_the_others_are_counted() -> None:
    told = Doing()
    told.deed(0, "in_doubt")
    for number in range(1, MOST_DEEDS + 6):
        told.deed(number)
    assert len(told.told().deeds) == MOST_DEEDS + 6, "an open turn is told what it was told"
    told.end()
    kept = told.told()
    assert (len(kept.deeds), kept.earlier, kept.tools) == (MOST_DEEDS, 6, "pay 6")
    assert [kept.deeds[0].target, kept.deeds[1].target] == ["f0", "f7"]


def test_of_too_many_sessions_those_that_did_nothing_for_longest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_SESSIONS", 2)
    told = Doing()
    told.deed(1)
    told.end()
    for number in (2, 3):
        told.message(number, f"/b{number}")
        told.turn(number, f"/b{number}")
        told.propose("1.0", turn=f"t{number}")
        told.intend("1.0", turn=f"t{number}", effects="local")
        told.entry("turn.ended", turn=f"t{number}", status="ok")
    assert told.told() == Deeds()
    assert len(told.state.deeds.as_of(("/b3", "main"), told.seq, "").deeds) == 1


def test_they_outlive_their_session_and_go_with_their_process_and_by_erasure() -> None:
    for forget in ("removed", "erased"):
        told = Doing()
        told.deed(1)
        told.end()
        told.state.apply_change("session", "/a\nmain", None)
        assert len(told.told().deeds) == 1
        if forget == "erased":
            told.state.apply_change("deeds", "/a\nmain", None)
        else:
            told.entry("process.slot", address="/a", state="removed", why="")
        assert told.told() == Deeds()
        told.outcome("ok", "", "1.0")  # of what is not known any more
        assert told.restored().deeds.rows() == []


def test_a_snapshot_has_all_of_it() -> None:
    told = Doing()
    for number in range(MOST_DEEDS + 3):
        told.deed(number, "in_doubt" if number == 5 else "ok")
    told.end()
    restored = told.restored()
    assert restored.deeds.rows() == told.state.deeds.rows()
    assert restored.deeds.as_of(KEY, told.seq, "") == told.told()


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        ('{"path":"notes/a.md","text":"x"}', "notes/a.md"),
        ('{"text":"come at\\nten","to":"bob"}', "bob: come at ten"),
        ('{"recipients":["a@x","b@x"],"subject":"Hi"}', "a@x, b@x: Hi"),
        ('{"amount":3}', "3"),
        ('{"what":"the lot"}', "the lot"),
        ("{}", ""),
        ('{"path":""}', ""),
        ('{"path":{"a":1},"name":"x"}', "x"),
        ("[1]", "[1]"),
        ("no json", "no json"),
        ('{"path":"a\\u202eb\\u0000c"}', "a b c"),
        ('{"path":"' + "x" * 500 + '"}', "x" * (TARGET_CHARS - 1) + "…"),
    ],
)
def test_a_target_is_one_line_of_what_the_arguments_say(arguments: str, target: str) -> None:
    assert target_of(arguments) == target
