"""What a cell may say, rule by rule, with plain values and a clock of our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgpack
import pytest

from kernel.abi import LogicalReason, ModelAnswer, ValueName
from kernel.cell.link.frames import VALUE_BYTES, FrameError
from kernel.cell.protocol import ModelQuestion, Nothing, ToolOutcome, Value, read_arguments
from kernel.cells.cell_events import CellCall
from kernel.cells.cell_port import CellPort
from kernel.cells.cell_table import CellLimits
from kernel.errors import StateError
from tests.kernel.twins.cell_node import Notes, message, placement

TOOL = {"name": "t", "arguments": "{}", "id": ""}
RESULT = {"reply": "r", "remember": [], "status": "ok", "stages": []}


class Host:
    """A twin of what surrounds a port."""

    def __init__(self) -> None:
        self.sent: list[list[Any]] = []
        self.killed: list[tuple[str, int]] = []
        self.free: list[int] = []
        self.asked = 0
        self.silent = False
        self.slot = 0
        self.now = 0.0
        self._timers: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []

    def send(self, frame: list[Any]) -> None:
        self.sent.append(frame)

    def kill(self, why: str, culprit: int) -> None:
        self.killed.append((why, culprit))

    def now_s(self) -> float:
        return self.now

    def later(self, delay_s: float, call: Callable[..., None], *args: Any) -> None:
        self._timers.append((self.now + delay_s, call, args))

    @property
    def timers(self) -> int:
        return len(self._timers)

    def running(self) -> int:
        return self.slot

    def ask(self) -> None:
        self.asked += 1

    def is_silent(self) -> bool:
        return self.silent

    def released(self, pid: int) -> None:
        self.free.append(pid)

    def refused(self, pid: int, why: str) -> None:
        """Nothing here is too large for a link."""

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while due := sorted((timer for timer in self._timers if timer[0] <= end), key=lambda timer: timer[0]):
            self._timers.remove(due[0])
            self.now = due[0][0]
            due[0][1](*due[0][2])
        self.now = end


class Case:
    """A connected port with pid 1 running in turn t1, and pid 2 idle."""

    def __init__(self, detail_chars: int = 1000) -> None:
        self.host = Host()
        self.notes = Notes()
        self.port = CellPort(
            "c1",
            self.notes.signals(),
            CellLimits(open_calls=3, detail_chars=detail_chars, hang_s=20),
            self.host,
        )
        self.port.connect()
        for pid in (1, 2):
            self.port.add(placement(pid, "Echo"))
            self.port.receive(["started", pid])
        self.port.deliver(1, "t1", message("hi"), [], [])
        self.host.sent.clear()
        self.notes.all.clear()

    def call(self, round_: int, index: int = 0) -> None:
        self.port.receive(["call", 1, "t1", round_, index, "tool", TOOL])


MODEL = {
    "messages": [{"role": "user"}],
    "tools": [],
    "provider": "",
    "model": "",
    "terms": None,
    "options": None,
    "sections": [],
}
REFERS = {**MODEL, "terms": {"count": 1, "hash": "00", "pieces": [[0, 1], 1]}}

LIES: dict[str, tuple[Any, str]] = {
    "a pid that is yes": (["log", True, "x"], "yes or no in place of a number"),
    "a pid of another cell": (["call", 9, "t1", 0, 0, "now", {}], "spoke for pid 9, which is not in cell c1"),
    "the kernel's pid": (["log", 0, "x"], "pid 0"),
    "a second hello": (["hello", "x", 1, 1], "no known shape"),
    "no list": ({"op": "call"}, "no known shape"),
    "nothing": ([], "no known shape"),
    "a pid as text": (["started", "1"], "no known shape"),
}

BREACHES: dict[str, tuple[list[Any], str]] = {
    "a start that was not asked for": (["started", 2], "pid 2, which is running"),
    "a failed start of a running one": (["failed", 1, "x"], "pid 1, which is running, in turn t1"),
    "a death that was not declared": (["stopped", 1], "pid 1, which is running"),
    "yes in place of a number": (["call", 1, "t1", True, 0, "now", {}], "yes or no in place of a number"),
    "a call in a turn that is not open": (
        ["call", 1, "t0", 0, 0, "now", {}],
        "turn 't0' of pid 1, open is 't1'",
    ),
    "a call without a turn": (["call", 2, "t1", 0, 0, "now", {}], "open is None"),
    "the end of a turn that is not open": (["done", 1, "t2", RESULT], "in turn 't2'"),
    "a result without a reply": (["done", 1, "t1", {"status": "ok"}], "turn result of the wrong shape"),
    "a result with more": (["done", 1, "t1", {**RESULT, "sender": "x"}], "turn result of the wrong shape"),
    "a status of its own": (["done", 1, "t1", {**RESULT, "status": "great"}], "turn result"),
    "records that are none": (["done", 1, "t1", {**RESULT, "remember": [1]}], "turn result"),
    "an unwound turn that was open": (["ended", 1, "t1"], "unwound turn t1 of pid 1, which was not ended"),
    "a crash in another turn": (["crashed", 1, "t9", "x"], "in turn 't9'"),
    "an exit for a reason of its own": (["exited", 1, "t1", "killed", ""], "no known shape"),
    "a logical end for a reason of its own": (["exited", 1, "t1", "budget", "x"], "no known shape"),
    "a normal end with words": (["exited", 1, "t1", "normal", "x"], "no known shape"),
    "a logical end without words": (["exited", 1, "t1", "refused"], "no known shape"),
    "a logical end in another turn": (["exited", 1, "t9", "refused", "x"], "in turn 't9'"),
    "a replay that nobody asked for": (
        ["differs", 1, "t1", "0.0", "a", "b"],
        "a replay of pid 1 that nobody",
    ),
    "a replay of another turn": (["differs", 1, "t9", "0.0", "a", "b"], "in turn 't9'"),
    "an unknown syscall": (["call", 1, "t1", 0, 0, "fork", {}], "syscall 'fork'"),
    "arguments as a value": (
        ["call", 1, "t1", 0, 0, "tool", {"name": "t", "arguments": {}, "id": ""}],
        "arguments of the wrong shape",
    ),
    "an argument too many": (["call", 1, "t1", 0, 0, "tool", {**TOOL, "pid": 0}], "wrong shape"),
    "a time with arguments": (["call", 1, "t1", 0, 0, "now", {"x": 1}], "wrong shape"),
    "messages that are none": (
        ["call", 1, "t1", 0, 0, "model", {**MODEL, "messages": ["x"]}],
        "wrong shape",
    ),
    "a negative ordinal": (["call", 1, "t1", -1, 0, "now", {}], "(-1, 0)"),
    "a negative index": (["call", 1, "t1", 1, -1, "now", {}], "(1, -1)"),
    "random bits with arguments": (["call", 1, "t1", 0, 0, "random", {"x": 1}], "wrong shape"),
    "arguments that are none": (["call", 1, "t1", 0, 0, "now", [1]], "no known shape"),
}


@pytest.mark.parametrize(("frame", "words"), LIES.values(), ids=LIES.keys())
def test_a_lie_is_refused(frame: Any, words: str) -> None:
    case = Case()
    with pytest.raises(FrameError) as refused:
        case.port.receive(frame)
    assert words in str(refused.value)
    assert case.notes.all == []


@pytest.mark.parametrize(("frame", "words"), BREACHES.values(), ids=BREACHES.keys())
def test_who_breaks_a_rule_has_crashed_alone_and_its_neighbours_go_on(frame: list[Any], words: str) -> None:
    case = Case()
    pid = frame[1]
    case.port.receive(frame)
    [(_, culprit, turn, why)] = case.notes.all
    assert (culprit, turn, words in why) == (pid, "t1" if pid == 1 else None, True), why
    assert case.notes.of("crashed") == case.notes.all
    assert case.host.sent == [["stop", pid, "it broke the rules of the link"]]
    case.port.receive(frame)  # dead, it has its second to go
    if frame[0] != "stopped":
        case.port.receive(["stopped", pid])
    case.host.pass_time(5)
    other = 3 - pid
    case.port.end_turn(1, "t1", "cancelled")
    case.port.deliver(other, "t2", message(""), [], [])
    case.port.receive(["call", other, "t2", 0, 0, "now", {}])
    assert [event[0] for event in case.notes.all] == ["crashed", "syscall"]
    assert case.host.killed == []


def test_who_breaks_a_rule_while_it_starts_has_not_started() -> None:
    case = Case()
    case.port.add(placement(3, "Echo"))
    case.port.receive(["log", 3, b"bytes"])
    [(event, pid, why)] = case.notes.all
    assert (event, pid, "no known shape" in why) == ("start_failed", 3, True)


def test_a_report_of_a_start_that_crosses_its_stop_is_no_lie() -> None:
    case = Case()
    case.port.add(placement(3, "Echo"))
    case.port.stop(3, "killed")
    case.port.receive(["started", 3])
    case.port.receive(["stopped", 3])
    assert (case.notes.all, case.host.free, case.host.killed) == ([], [3], [])


def test_of_starts_that_are_reported_together_one_that_is_false_is_its_own_alone() -> None:
    case = Case()
    for pid in (3, 4, 5, 6):
        case.port.add(placement(pid, "Echo"))
    case.port.stop(5, "killed")
    case.port.receive(["started", 3, 2, 4, 5])
    assert [note[:2] for note in case.notes.all] == [("crashed", 2), ("started", 3), ("started", 4)]
    case.port.receive(["started", 6])
    assert case.notes.all[-1] == ("started", 6) and case.host.killed == []


@pytest.mark.parametrize(
    ("pids", "words"),
    [([3, 9], "pid 9, which is not in cell c1"), ([3] * 33, "33 starts"), ([9, "4"], "no known shape")],
)
def test_starts_that_are_reported_for_others_or_without_bound_are_a_lie(pids: list[Any], words: str) -> None:
    case = Case()
    case.port.add(placement(3, "Echo"))
    with pytest.raises(FrameError, match=words):
        case.port.receive(["started", *pids])
    assert case.notes.all == []


def test_hundreds_that_start_take_one_timer_and_each_that_is_late_is_told_in_its_time() -> None:
    case = Case()
    case.host.pass_time(60.0)
    for pid in range(3, 203):
        case.port.add(placement(pid, "Echo"))
    assert case.host.timers == 1
    case.host.pass_time(4.0)
    case.port.add(placement(203, "Echo"))
    for pid in range(3, 202):
        case.port.receive(["started", pid], 0)
    case.notes.all.clear()
    case.host.pass_time(5.9)
    assert case.notes.all == []
    case.host.pass_time(0.1)
    assert case.notes.all == [("start_failed", 202, "timeout: not constructed within 10 s")]
    case.host.pass_time(4.0)
    assert [note[:2] for note in case.notes.all] == [("start_failed", 202), ("start_failed", 203)]


def test_a_start_timer_that_comes_late_does_nothing() -> None:
    case = Case()
    for pid in (3, 4):
        case.port.add(placement(pid, "Echo"))
    case.port.receive(["started", 3])
    case.port.stop(4, "killed")
    case.port.receive(["stopped", 4])
    case.notes.all.clear()
    case.host.sent.clear()
    case.host.pass_time(60)
    assert (case.notes.all, case.host.sent, case.host.killed) == ([], [], [])


def test_a_start_timer_of_a_cell_that_is_gone_does_nothing() -> None:
    case = Case()
    case.port.add(placement(3, "Echo"))
    assert case.port.close() == ([1, 2, 3], [])
    case.host.pass_time(60)
    assert (case.notes.all, case.host.killed) == ([], [])


@pytest.mark.parametrize("op", get_args(ValueName))
def test_values_are_asked_for_without_arguments(op: str) -> None:
    case = Case()
    case.port.receive(["call", 1, "t1", 0, 0, op, {}])
    assert [event[0] for event in case.notes.all] == ["syscall"]
    case.port.receive(["call", 1, "t1", 1, 0, op, {"at": 1}])
    assert [event[0] for event in case.notes.all] == ["syscall", "crashed"]


@pytest.mark.parametrize("ordinal", [(1, 1), (1, 0), (0, 5)])
def test_ordinals_must_rise(ordinal: tuple[int, int]) -> None:
    case = Case()
    case.call(0)
    case.call(1, 0)
    case.call(1, 1)
    case.call(*ordinal)
    [(_, pid, turn, why)] = case.notes.of("crashed")
    assert (pid, turn, f"numbered a call of pid 1 {ordinal} after (1, 1)" in why) == (1, "t1", True)
    assert [(call[2].round, call[2].index) for call in case.notes.of("syscall")] == [(0, 0), (1, 0), (1, 1)]


def test_calls_without_number_end_their_process_alone() -> None:
    case = Case()
    for round_ in range(3):
        case.call(round_)
    case.port.result(1, "t1", 0, 0, Value(0.5))
    case.call(3)
    assert case.notes.of("crashed") == []
    case.call(4)
    [(_, pid, turn, why)] = case.notes.of("crashed")
    assert (pid, turn, "has 3 calls open for pid 1, the limit" in why) == (1, "t1", True)
    assert len(case.notes.of("syscall")) == 4


def test_an_outcome_is_sent_once_and_only_in_its_turn() -> None:
    case = Case()
    case.call(0)
    for turn, ordinal in (("t1", (0, 0)), ("t1", (0, 0)), ("t0", (0, 0)), ("t1", (7, 0))):
        case.port.result(1, turn, *ordinal, ToolOutcome("ok", turn, False))
    assert case.host.sent == [["result", 1, "t1", 0, 0, {"status": "ok", "text": "t1", "truncated": False}]]


def test_a_turn_ends_once_and_the_next_one_numbers_anew() -> None:
    case = Case()
    case.call(5)
    with pytest.raises(StateError, match="turn t2 delivered to pid 1, which is running, in turn t1"):
        case.port.deliver(1, "t2", message(""), [], [])
    case.port.receive(["done", 1, "t1", RESULT])
    case.port.deliver(1, "t2", message(""), [], [])
    case.port.receive(["call", 1, "t2", 0, 0, "now", {}])
    assert case.notes.of("turn_done") == [("turn_done", 1, "t1", RESULT)]


@pytest.mark.parametrize(
    "frame",
    [
        ["call", 1, "t1", 0, 0, "now", {}],
        ["done", 1, "t1", RESULT],
        ["crashed", 1, "t1", "x"],
        ["exited", 1, "t1", "normal", ""],
        ["ended", 1, "t1"],
        ["log", 1, "x"],
    ],
)
def test_a_dead_process_is_not_heard_and_is_no_lie_while_it_unwinds(frame: list[Any]) -> None:
    case = Case()
    case.port.stop(1, "killed")
    case.port.receive(frame)
    assert case.notes.all == []
    case.port.receive(["stopped", 1])
    assert case.host.free == [1]
    with pytest.raises(FrameError, match="not in cell c1"):
        case.port.receive(frame)


def test_a_death_that_is_not_confirmed_costs_the_cell() -> None:
    case = Case()
    case.port.stop(1, "killed")
    case.host.pass_time(0.9)
    assert case.host.killed == []
    case.host.pass_time(0.2)
    assert case.host.killed == [("pid 1 still ran 1 s after its death", 1)]
    assert case.port.close() == ([2], [])


def test_a_neighbour_that_computes_gives_its_time_to_who_is_to_confirm() -> None:
    case = Case()
    case.host.slot = 1
    case.port.stop(2, "stopped")
    case.host.pass_time(12)
    assert case.host.killed == []
    case.host.slot = 0
    case.port.receive(["stopped", 2])
    case.host.pass_time(5)
    assert (case.host.killed, case.notes.all) == ([], [])
    case.host.slot = 9
    case.port.end_turn(1, "t1", "cancelled")
    case.host.pass_time(12)
    assert case.notes.all == []
    case.port.receive(["ended", 1, "t1"])
    case.port.deliver(1, "t2", message("x"), [], [])
    case.host.pass_time(40)
    assert case.notes.all == []


def test_nobody_is_judged_while_a_cell_in_which_nobody_computes_does_not_answer() -> None:
    case = Case()
    case.host.silent = True
    case.port.stop(1, "stopped")
    assert (case.host.asked, case.port.at_work()) == (1, [1])
    case.host.pass_time(3)
    assert case.host.killed == []
    case.host.silent = False
    case.host.pass_time(1)
    assert [culprit for _, culprit in case.host.killed] == [1]


def test_who_computes_itself_is_judged_also_when_its_cell_does_not_answer() -> None:
    case = Case()
    case.host.silent, case.host.slot = True, 1
    case.port.stop(1, "stopped")
    case.host.pass_time(1)
    assert [culprit for _, culprit in case.host.killed] == [1]


def test_a_neighbour_that_is_always_there_does_not_hold_up_a_confirmation_for_ever() -> None:
    case = Case()
    case.host.slot = 1
    case.port.stop(2, "stopped")
    case.host.pass_time(29)
    assert case.host.killed == []
    case.host.pass_time(2)
    assert case.host.killed == [("pid 2 still ran 1 s after its death", 2)]


def test_while_a_death_is_not_confirmed_new_processes_wait_and_are_not_lost_with_the_cell() -> None:
    case = Case()
    case.port.receive(["crashed", 1, "t1", "boom"])
    case.port.add(placement(3, "Echo"))
    assert case.port.waits(3)
    assert [frame[0] for frame in case.host.sent] == []
    case.port.receive(["stopped", 1])
    assert [frame[:2] for frame in case.host.sent] == [["start", 3]]
    case.port.stop(2, "killed")
    case.port.add(placement(4, "Echo"))
    lost, waiting = case.port.close()
    assert lost == [3]
    assert [placed.pid for placed in waiting] == [4]


def test_one_that_waits_is_stopped_without_a_word_to_the_cell() -> None:
    case = Case()
    case.port.stop(2, "killed")
    case.host.sent.clear()
    case.port.add(placement(3, "Echo"))
    case.port.stop(3, "killed")
    assert case.host.free == [3]
    assert case.host.sent == []


def test_an_ended_turn_is_not_heard_and_its_end_is_confirmed_in_any_way() -> None:
    case = Case()
    case.port.end_turn(1, "t1", "cancelled")
    case.port.deliver(1, "t2", message(""), [], [])
    case.port.receive(["call", 1, "t1", 0, 0, "now", {}])
    case.port.receive(["done", 1, "t1", RESULT])
    case.port.receive(["call", 1, "t2", 0, 0, "now", {}])
    case.host.pass_time(5)
    assert [event[0] for event in case.notes.all] == ["syscall"]
    assert case.notes.all[0][2] == CellCall("t2", 0, 0, "now", Nothing())


def test_a_turn_that_is_not_unwound_is_the_crash_of_its_process() -> None:
    case = Case()
    case.port.end_turn(1, "t1", "cancelled")
    case.port.deliver(1, "t2", message(""), [], [])
    case.host.pass_time(1.5)
    assert case.notes.of("crashed") == [
        ("crashed", 1, "t2", "turn t1 went on for 1 s after it had been ended", True)
    ]
    assert case.host.sent[-1] == ["stop", 1, "turn not unwound"]
    case.host.pass_time(1)
    assert case.host.killed == [("pid 1 still ran 1 s after its death", 1)]


def test_the_time_to_unwind_a_turn_is_not_that_of_its_next_delivery() -> None:
    case = Case()
    case.port.end_turn(1, "t1", "diverged")
    case.port.receive(["ended", 1, "t1"])
    case.host.pass_time(0.5)
    case.port.deliver(1, "t1", message("hi"), [], [])
    case.call(0)
    case.host.pass_time(0.45)
    case.port.end_turn(1, "t1", "diverged again")
    case.host.pass_time(0.5)
    assert case.notes.of("crashed") == []
    case.host.pass_time(0.5)
    assert case.notes.all[-1] == ("crashed", 1, None, "turn t1 went on for 1 s after it had been ended", True)


def test_a_replay_differs_once_in_a_turn_and_in_bounded_words() -> None:
    case = Case(detail_chars=20)
    case.port.add(placement(3, "Echo", check_replay=True))
    case.port.receive(["started", 3])
    for turn in ("t3", "t4"):
        case.port.deliver(3, turn, message("hi"), [], [])
        case.port.receive(["differs", 3, turn, "0.0", "x" * 100, "a\nb"])
        assert case.notes.all[-1] == ("differs", 3, turn, "0.0", "x" * 20, "a b")
        case.port.receive(["done", 3, turn, RESULT] if turn == "t3" else ["differs", 3, turn, "0.0", "", ""])
    assert case.notes.of("crashed")[0][3].startswith("broke the rules")


def test_deliveries_of_a_turn_are_answered_in_their_order() -> None:
    case = Case()
    case.port.end_turn(1, "t1", "diverged")
    case.port.deliver(1, "t1", message("hi"), [], [])
    case.call(5)  # of the first, which still unwinds
    case.port.end_turn(1, "t1", "cancelled")
    for answer in (["done", 1, "t1", RESULT], ["ended", 1, "t1"]):
        case.port.receive(answer)
    case.port.deliver(1, "t1", message("hi"), [], [])
    case.host.pass_time(5)
    case.call(0)
    case.port.receive(["done", 1, "t1", RESULT])
    assert [note[0] for note in case.notes.all] == ["syscall", "turn_done"]


@pytest.mark.parametrize("reason", get_args(LogicalReason))
def test_a_process_that_ends_itself_says_why_in_a_bounded_line(reason: str) -> None:
    case = Case(detail_chars=20)
    case.port.receive(["exited", 1, "t1", reason, "x\n" * 100])
    assert case.notes.all == [("exited", 1, reason, "x " * 10)]
    case.port.receive(["exited", 1, "t1", reason, "again"])  # dead, it is not heard
    assert len(case.notes.all) == 1


def test_a_crash_while_an_ended_turn_unwinds_names_the_turn_that_is_open() -> None:
    case = Case(detail_chars=20)
    case.port.end_turn(1, "t1", "cancelled")
    case.port.receive(["crashed", 1, "t1", "x" * 100 + "\n"])
    assert case.notes.of("crashed") == [("crashed", 1, None, "x" * 20, True)]


def test_a_logical_end_while_an_ended_turn_unwinds_is_none_of_the_turn_that_is_open() -> None:
    case = Case()
    case.port.end_turn(1, "t1", "cancelled")
    case.port.deliver(1, "t2", message("of another"), [], [])
    case.port.receive(["exited", 1, "t1", "refused", "x"])
    assert case.notes.all == [("exited", 1, "refused", "x", True)]


def test_a_start_that_takes_too_long_fails_unless_another_holds_the_cell() -> None:
    case = Case()
    case.port.add(placement(3, "Echo"))
    case.host.slot = 1
    case.host.pass_time(15)
    assert case.notes.all == []
    case.host.slot = 3
    case.host.pass_time(1.5)
    assert case.notes.all == [("start_failed", 3, "timeout: not constructed within 10 s")]
    case.host.pass_time(1)
    assert case.host.killed == [("pid 3 still ran 1 s after its death", 3)]


def test_a_question_in_terms_of_another_comes_once_more_when_it_is_wanted_whole() -> None:
    case = Case()
    case.port.receive(["call", 1, "t1", 0, 0, "model", REFERS])
    case.call(1)
    case.port.say_whole(1, "t1", 0, 0)
    case.port.say_whole(1, "t1", 0, 0)
    assert case.host.sent == [["whole", 1, "t1", 0, 0]]
    said = {"role": "user"}
    whole = {**MODEL, "messages": [msgpack.packb(said)] * 2}
    case.port.receive(["call", 1, "t1", 0, 0, "model", whole], 100)
    calls = [read_arguments(*call) for call in (("model", REFERS), ("tool", TOOL))]
    assert [call.args for _, _, call in case.notes.all] == [*calls, ModelQuestion((said, said))]
    assert case.notes.all[-1][-1].cost_bytes == 100 + 2 * 3 * VALUE_BYTES
    case.call(2)
    case.port.receive(["call", 1, "t1", 0, 0, "model", whole])
    assert "(0, 0) after (2, 0)" in case.notes.of("crashed")[0][-1]


def test_a_call_that_is_wanted_whole_must_be_whole() -> None:
    case = Case()
    case.port.receive(["call", 1, "t1", 0, 0, "model", REFERS])
    case.port.say_whole(1, "t1", 0, 0)
    case.port.receive(["call", 1, "t1", 0, 0, "model", REFERS])
    assert "(0, 0) after (0, 0)" in case.notes.of("crashed")[0][-1]


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([{"role": "user"}], "must have its messages packed"),
        ([msgpack.packb([1])], "wrong shape"),
        ([msgpack.packb({})[:-1]], "ends in the middle"),
        ([b"\x81\xa1a\xdd\x00\x03\xff\xf0" + b"\xc0" * 0x3FFF0] * 2, "more than"),
    ],
    ids=["not packed", "no map", "cut", "too many values"],
)
def test_what_is_said_whole_is_counted_and_checked(messages: list[Any], why: str) -> None:
    case = Case()
    case.port.receive(["call", 1, "t1", 0, 0, "model", REFERS])
    case.port.say_whole(1, "t1", 0, 0)
    case.port.receive(["call", 1, "t1", 0, 0, "model", {**MODEL, "messages": messages}])
    assert why in case.notes.of("crashed")[0][-1]


def test_a_conversation_of_more_values_than_a_frame_may_have_can_be_said_whole() -> None:
    case = Case()
    case.port.receive(["call", 1, "t1", 0, 0, "model", REFERS])
    case.port.say_whole(1, "t1", 0, 0)
    said: dict[str, Any] = {"tool_calls": [{}] * 15_000}
    case.port.receive(["call", 1, "t1", 0, 0, "model", {**MODEL, "messages": [msgpack.packb(said)] * 10}])
    assert case.notes.all[-1][-1].args == ModelQuestion((said,) * 10)


def test_one_that_was_answered_meanwhile_is_not_heard_and_no_lie() -> None:
    case = Case()
    case.port.receive(["call", 1, "t1", 0, 0, "model", REFERS])
    case.port.say_whole(1, "t1", 0, 0)
    case.port.result(1, "t1", 0, 0, ModelAnswer("ok", ""))
    case.port.receive(["call", 1, "t1", 0, 0, "model", {**MODEL, "messages": []}])
    assert len(case.notes.all) == 1


def test_what_is_not_open_is_not_wanted() -> None:
    case = Case()
    case.port.say_whole(1, "t1", 0, 0)
    case.port.say_whole(1, "t2", 0, 0)
    case.port.say_whole(9, "t1", 0, 0)
    assert case.host.sent == []


@pytest.mark.parametrize(
    "terms",
    [{"count": 1, "hash": "00"}, {"pieces": []}, {"count": "1", "hash": "00", "pieces": []}, [1, "00", []],
     {"count": True, "hash": "00", "pieces": []}, {"count": 1, "hash": "00", "pieces": {}},
     {"count": 1, "hash": "00", "pieces": [], "more": 1}],
)  # fmt: skip
def test_a_reference_of_another_shape_is_a_lie(terms: Any) -> None:
    case = Case()
    case.port.receive(["call", 1, "t1", 0, 0, "model", {**MODEL, "terms": terms}])
    assert "arguments of the wrong shape" in case.notes.of("crashed")[0][-1]
