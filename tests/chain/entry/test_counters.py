from __future__ import annotations

from chain.entry.counters import Counters
from chain.entry.entry import Entry


def entry(pid: int, count: int, time_us: int = 10) -> Entry:
    return Entry(0, time_us, "weftos-abc", pid, count, "a.b", "", b"", -1, bytes(32), bytes(32))


def test_every_process_counts_from_zero_and_time_never_falls() -> None:
    counters = Counters()
    assert [counters.check(entry(pid, count)) for pid, count in ((1, 0), (2, 0), (1, 1), (1, 2))] == [
        None
    ] * 4
    assert counters.check(entry(1, 4)) == ("count", "entry 3 of pid 1", "entry 4")
    assert Counters().check(entry(1, 1)) == ("count", "entry 0 of pid 1", "entry 1")
    assert counters.check(entry(1, 3, time_us=9)) == ("time", "not before 10", "9")


def test_a_number_that_was_counted_already_is_wrong_whatever_was_touched() -> None:
    counters = Counters()
    counters.check(entry(1, 0))
    counters.unread()
    assert counters.check(entry(1, 0)) == ("count", "entry 1 of pid 1", "entry 0")


def test_behind_a_touched_entry_one_number_may_be_missing_and_only_one() -> None:
    counters = Counters()
    counters.check(entry(1, 0))
    counters.unread()
    assert counters.check(entry(1, 2)) is None
    assert counters.check(entry(1, 4)) == ("count", "entry 3 of pid 1", "entry 4")


def test_a_touched_entry_has_no_say_in_time() -> None:
    counters = Counters()
    counters.check(entry(1, 0))
    before = counters.time_us
    counters.check(entry(1, 1, time_us=10**9))
    counters.disbelieve(before)
    assert counters.check(entry(1, 2, time_us=11)) is None


def test_behind_a_gap_any_number_starts_a_process_anew() -> None:
    counters = Counters()
    counters.check(entry(1, 0))
    counters.forget()
    assert [counters.check(entry(pid, count)) for pid, count in ((1, 7), (2, 3), (1, 8))] == [None] * 3
    assert counters.check(entry(2, 5)) == ("count", "entry 4 of pid 2", "entry 5")
