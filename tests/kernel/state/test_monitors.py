"""The slice of monitors: what is due, what is told, and who watches no more. Plain records, no node."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.slices.monitors import Monitor
from kernel.state.state import State
from kernel.state.state_snapshot import encode_state, restore_state
from tests.kernel.twins.committed import LIMITS
from tests.kernel.twins.former_states import SPEC_A, SPEC_B, former
from tests.kernel.twins.records import message

TRACE = b"t" * 16


class Told:
    """A state with ``/a``, ``/a/b`` below it, and an open turn of each; told of more, entry by entry."""

    def __init__(self) -> None:
        self.state = State(*LIMITS)
        self.seq = 0
        for address, parent, spec in (("/a", "/", SPEC_A), ("/a/b", "/a", SPEC_B)):
            self.entry("process.spawned", address=address, parent=parent, spec=spec, made_by="operator")
        for ident, address in ((2, "/a"), (3, "/a/b")):
            self.entry("message.accepted", **message(ident, address, sender="/x", session="s"))
        for ident, address in ((2, "/a"), (3, "/a/b")):
            self.entry("turn.started", turn=f"t{ident}", message=f"m{ident}", address=address, attempt=1)

    def entry(self, kind: str, /, **body: Any) -> None:
        self.state.apply_entry(kind, body, self.seq, self.seq, TRACE)
        self.seq += 1

    def watch(self, ref: str, pid: int, turn: str = "t2", **more: Any) -> None:
        body: dict[str, Any] = {
            "turn": turn,
            "ordinal": f"{self.seq}.0",
            "call_hash": "h",
            "ref": ref,
            "target": "bob",
        }
        body |= {"address": "/bob", "pid": pid, "peer": "", "rights": ["ask"], "why": "", **more}
        self.entry("monitor.set", **body)

    def exits(self, pid: int, reason: str = "crash") -> None:
        self.entry("process.exited", address="/bob", pid=pid, reason=reason, detail="")

    def slot(self, address: str, state: str) -> None:
        self.entry("process.slot", address=address, state=state, why="")

    @property
    def refs(self) -> list[str]:
        return list(self.state.monitors)

    @property
    def due(self) -> dict[str, str]:
        monitors = self.state.monitors
        return {ref: monitors[ref].reason for ref in monitors.due}

    def restored(self) -> State:
        """The state that a snapshot of this one comes to."""
        state, kept = State(*LIMITS), encode_state(self.state)
        restore_state(state, kept)
        assert encode_state(state) == kept
        return state


def test_a_monitor_has_whom_and_what_its_turn_was_for() -> None:
    told = Told()
    told.watch("r6", 7)
    assert told.state.monitors["r6"] == Monitor(
        "r6", 6, "/a", "bob", "/bob", 7, "", "t2", "/x", "s", TRACE, frozenset({"ask"})
    )
    call = told.state.turns["t2"].calls["6.0"]
    assert (call.op, call.name, call.outcome) == ("monitor", "bob", {"ref": "r6", "why": ""})


def test_an_exit_makes_all_monitors_of_that_incarnation_due_and_of_no_other() -> None:
    told = Told()
    told.watch("r6", 7)
    told.watch("r7", 7, "t3")
    told.watch("r8", 8)
    told.exits(7, "killed")
    assert told.due == {"r6": "killed", "r7": "killed"}
    told.exits(7, "crash")
    assert told.due == {"r6": "killed", "r7": "killed"}
    assert told.refs == ["r6", "r7", "r8"]


def test_what_is_told_is_over() -> None:
    told = Told()
    told.watch("r6", 7)
    told.exits(7)
    told.entry("monitor.down", ref="r6")
    assert (told.refs, told.due) == ([], {})
    told.exits(7)
    assert told.due == {}


@pytest.mark.parametrize("due", [False, True])
def test_what_is_taken_back_is_never_due(due: bool) -> None:
    told = Told()
    told.watch("r6", 7)
    if due:
        told.exits(7)
    told.entry("monitor.removed", turn="t2", ordinal="9.0", call_hash="h", ref="r6", found=True)
    told.exits(7)
    assert (told.refs, told.due) == ([], {})
    assert told.state.turns["t2"].calls["9.0"].outcome == {"found": True}


def test_what_was_not_found_is_not_taken_back() -> None:
    told = Told()
    told.watch("r6", 7)
    told.entry("monitor.removed", turn="t3", ordinal="9.0", call_hash="h", ref="r6", found=False)
    assert told.refs == ["r6"]


def test_what_was_refused_is_a_call_and_no_monitor() -> None:
    told = Told()
    told.watch("", 0, why="no")
    assert told.refs == []
    assert told.state.turns["t2"].calls["6.0"].outcome == {"ref": "", "why": "no"}


@pytest.mark.parametrize("state", ["stopped", "parked", "removed"])
def test_who_is_down_watches_no_more_nor_who_is_below(state: str) -> None:
    told = Told()
    told.watch("r6", 7)
    told.watch("r7", 7, "t3")
    told.exits(7)
    told.watch("r9", 8)
    told.slot("/a/b", state)
    assert told.refs == ["r6", "r9"]
    told.slot("/a", state)
    assert (told.refs, told.due) == ([], {})


def test_who_is_down_sets_none() -> None:
    told = Told()
    told.slot("/a", "stopped")
    told.watch("r7", 7)
    told.watch("r8", 7, "t3")
    assert told.refs == []


@pytest.mark.parametrize("state", ["running", "restarting"])
def test_who_comes_back_watches_on(state: str) -> None:
    told = Told()
    told.watch("r6", 7)
    told.entry("process.exited", address="/a", pid=3, reason="crash", detail="")
    told.slot("/a", state)
    told.exits(7)
    assert told.due == {"r6": "crash"}


def test_a_process_may_watch_itself() -> None:
    told = Told()
    told.watch("r6", 3, address="/a")
    told.entry("process.exited", address="/a", pid=3, reason="crash", detail="")
    assert told.due == {"r6": "crash"}


def test_how_many_an_address_has_is_known() -> None:
    told = Told()
    told.watch("r6", 7)
    told.watch("r7", 0, peer="o")
    told.watch("r8", 7, "t3")
    monitors = told.state.monitors
    assert [monitors.count_of(at) for at in ("/a", "/a/b", "/c")] == [2, 1, 0]


def test_a_snapshot_keeps_what_is_set_and_what_is_due_in_the_order_of_the_ends() -> None:
    told = Told()
    for ref, pid in (("r6", 6), ("r7", 7), ("r8", 8)):
        told.watch(ref, pid)
    told.exits(8, "killed")
    told.exits(6, "normal")
    state = told.restored()
    assert list(state.monitors.due) == ["r8", "r6"]
    state.apply_entry("process.exited", {"address": "/", "pid": 7, "reason": "x", "detail": ""}, 99, 99, b"")
    assert list(state.monitors.due) == ["r8", "r6", "r7"]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_what_an_earlier_version_kept_has_no_monitors_and_one_kind_of_messages(number: int) -> None:
    state = State(*LIMITS)
    restore_state(state, former(number))
    assert list(state.monitors) == []
    kinds = {mail.kind for box in state.mail.values() for mail in box.values()}
    kinds |= {letter.mail.kind for letter in state.dead.values()}
    kinds |= {mail.kind for mail in state.in_transit.questions.values()}
    assert kinds == {"message"}
