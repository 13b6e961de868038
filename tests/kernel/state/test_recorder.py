"""What waits for the ledger: in order, with one timer, and nobody behind what can never be written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest

import kernel.state.recorder
from chain.entry.draft import PREVIOUS, Draft, StateChange
from chain.entry.reader import EntryRecord, read_records
from chain.errors import EntryError, LedgerUnavailable
from kernel.signals import Signals
from kernel.state.recorder import CALLS_PER_STEP, Recorder, Unrecorded
from kernel.state.state import State
from tests.kernel.twins.committed import JOURNAL, LIMITS, MemoryLedger, Ticket
from tests.patience import HANG_S

LIMIT_S = HANG_S


class RefusingLedger(MemoryLedger):
    """Takes nothing while ``refusal`` says why; counts what it is asked. ``room``: it refuses after so many units."""

    def __init__(self) -> None:
        super().__init__()
        self.why: str | None = None
        self.room: int | None = None
        self.looks = self.tries = 0

    @property
    def refusal(self) -> str | None:
        self.looks += 1
        return self.why

    def commit(self, records: Sequence[Draft | StateChange], *, durable: bool = False) -> Ticket:
        self.tries += 1
        if self.room == 0:
            self.why = "full"
        if self.why is not None:
            raise LedgerUnavailable(self.why)
        if self.room is not None:
            self.room -= 1
        return super().commit(records, durable=durable)

    def whys(self) -> list[str]:
        """What was written, of the drafts of these tests."""
        records = read_records(JOURNAL, self.disk)
        return [record.body["why"] for record in records if isinstance(record, EntryRecord)]


def draft(why: str, **more: Any) -> Draft:
    return Draft("message.refused", {"to": "/a", "sender": "operator", "why": why}, **more)


def on_recorder(
    monkeypatch: pytest.MonkeyPatch,
    body: Callable[[RefusingLedger, Recorder], Awaitable[None]],
    unrecorded: Callable[[str, str], None] = lambda kinds, why: None,
) -> None:
    monkeypatch.setattr(kernel.state.recorder, "RETRY_S", 0.001)

    async def run() -> None:
        ledger = RefusingLedger()
        signals = Signals()
        signals.connect({Unrecorded: (lambda said: unrecorded(said.kinds, said.why),)})
        recorder = Recorder(ledger, State(*LIMITS), signals)  # type: ignore[arg-type]
        await asyncio.wait_for(body(ledger, recorder), LIMIT_S)

    asyncio.run(run())


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0)


def test_two_thousand_that_wait_are_one_timer_and_try_nothing_until_it_is_of_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(ledger: RefusingLedger, recorder: Recorder) -> None:
        ledger.why = "no"
        for number in range(2000):
            recorder.must([draft(f"{number}")])
            recorder.when_writable(number % 1000, lambda: None)
        before = ledger.looks
        await until(lambda: ledger.looks - before > 5)
        assert (ledger.tries, recorder.waiting) == (1, 3000)
        ledger.why = None
        await until(lambda: recorder.waiting == 0)
        assert ledger.whys() == [f"{number}" for number in range(2000)]

    on_recorder(monkeypatch, body)


def test_what_can_never_be_written_is_left_out_and_said_and_nobody_waits_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[tuple[str, str]] = []

    async def body(ledger: RefusingLedger, recorder: Recorder) -> None:
        ledger.why = "no"
        recorder.must([draft("first")])
        recorder.must([draft("half a pair \ud800")])
        recorder.must([Draft("no.such_kind", {})])
        recorder.must([StateChange("pids", "x", b"")])
        recorder.must([draft("last")])
        ledger.why = None
        await until(lambda: recorder.waiting == 0)
        kinds = ["message.refused", "no.such_kind", "state pids"]
        assert [found for found, _ in said] == kinds and recorder.unrecorded == 3
        first, *left, last = ledger.whys()
        assert (first, last, len(left)) == ("first", "last", 3)
        assert all(why in (told for _, told in said) for why in left)
        records = [record for record in read_records(JOURNAL, ledger.disk) if isinstance(record, EntryRecord)]
        unrecorded = [record.body["kinds"] for record in records if record.entry.kind == "node.unrecorded"]
        assert unrecorded == kinds

    on_recorder(monkeypatch, body, lambda kinds, why: said.append((kinds, why)))


def test_records_that_were_one_unit_are_one_when_they_have_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(ledger: RefusingLedger, recorder: Recorder) -> None:
        ledger.why = "no"
        recorder.must([draft("cause"), draft("effect", cause=PREVIOUS)])
        ledger.why = None
        await until(lambda: recorder.waiting == 0)
        assert ledger.whys() == ["cause", "effect"] and recorder.unrecorded == 0

    on_recorder(monkeypatch, body)


def test_nothing_is_written_before_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(ledger: RefusingLedger, recorder: Recorder) -> None:
        ledger.why = "no"
        recorder.must([draft("exited")])
        with pytest.raises(LedgerUnavailable, match="1 units of records wait for the disk: no"):
            recorder.commit([draft("started")])
        ledger.why = None
        with pytest.raises(LedgerUnavailable, match=r"1 units of records wait for the disk$"):
            recorder.commit([draft("started")])
        await recorder.writable()
        recorder.commit([draft("started")])
        assert ledger.whys() == ["exited", "started"]

    on_recorder(monkeypatch, body)


def test_a_caller_that_can_be_refused_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(ledger: RefusingLedger, recorder: Recorder) -> None:
        with pytest.raises(EntryError):
            recorder.commit([Draft("no.such_kind", {})])
        assert recorder.unrecorded == 0

    on_recorder(monkeypatch, body)


def test_work_that_waits_goes_on_once_for_each_key_also_when_one_of_it_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(ledger: RefusingLedger, recorder: Recorder) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failed.append(context))
        failed: list[Any] = []
        done: list[int] = []
        ledger.why = "no"
        for number in range(3 * CALLS_PER_STEP):
            recorder.when_writable(number, partial(done.append, number))
        recorder.when_writable(5, lambda: 1 // 0)  # type: ignore[arg-type]
        recorder.when_writable(7, lambda: done.append(-7))
        ledger.why = None
        await recorder.writable()
        await until(lambda: recorder.waiting == 0)
        expected = {*range(3 * CALLS_PER_STEP), -7} - {5, 7}
        await until(lambda: set(done) == expected)
        assert len(done) == len(expected) and len(failed) == 1

    on_recorder(monkeypatch, body)


@pytest.mark.parametrize("event", [RefusingLedger.group_written, lambda ledger: ledger.fault(None)])
def test_what_waits_goes_on_as_soon_as_the_disk_takes_records_again(
    monkeypatch: pytest.MonkeyPatch, event: Callable[[RefusingLedger], None]
) -> None:
    async def body(ledger: RefusingLedger, recorder: Recorder) -> None:
        monkeypatch.setattr(kernel.state.recorder, "RETRY_S", 3600.0)
        ledger.why = "no"
        recorder.must([draft("waits")])
        ledger.fault("no")
        assert recorder.waiting == 1
        ledger.why = None
        event(ledger)
        assert ledger.whys() == ["waits"] and recorder.waiting == 0

    on_recorder(monkeypatch, body)


def test_work_waits_until_all_that_happened_before_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes some of it and refuses again: work that waits for the records is not made in between."""

    async def body(ledger: RefusingLedger, recorder: Recorder) -> None:
        seen: list[list[str]] = []
        ledger.why = "no"
        recorder.must([draft("first")])
        recorder.must([draft("second")])
        recorder.when_writable("after", lambda: seen.append(ledger.whys()))
        ledger.why, ledger.room = None, 1
        await until(lambda: ledger.whys() == ["first"] and ledger.why is not None)
        looks = ledger.looks
        await until(lambda: ledger.looks > looks + 1)
        assert (seen, recorder.waiting) == ([], 2)
        ledger.why, ledger.room = None, None
        await until(lambda: bool(seen))
        assert seen == [["first", "second"]]

    on_recorder(monkeypatch, body)


def test_what_happens_while_only_work_waits_is_written_at_once_and_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(ledger: RefusingLedger, recorder: Recorder) -> None:
        monkeypatch.setattr(kernel.state.recorder, "RETRY_S", 3600.0)
        ledger.why = "no"
        recorder.when_writable("work", lambda: None)
        ledger.why = None
        recorder.must([draft("happened")])
        recorder.commit([draft("asked")])
        assert ledger.whys() == ["happened", "asked"]

    on_recorder(monkeypatch, body)
