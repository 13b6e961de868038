"""What a node does when somebody sets the machine's clock: nothing is late, and the ledger says what happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chain.entry.reader import EntryRecord, read_records
from kernel.signals import Signals
from kernel.state.recorder import Recorder
from kernel.state.state import State
from kernel.upkeep.clock_watch import JUMP_US, ClockWatch
from tests.chain.test_clock import HOUR_S, Machine
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.committed import JOURNAL, LIMITS, MemoryLedger
from tests.kernel.twins.kernel_twin import Twin


def test_a_jump_is_said_once_and_its_end_once() -> None:
    ledger, told = MemoryLedger(), []
    ahead = iter((0, JUMP_US, 3600_000_000, 3599_000_000, 1800_000_000, 1799_000_000, 1, 0, -JUMP_US - 1))
    recorder = Recorder(ledger, State(*LIMITS), Signals())  # type: ignore[arg-type]  # a twin
    watch = ClockWatch(lambda: next(ahead), recorder, lambda event, **fields: told.append(fields["ahead_s"]))
    for _ in range(9):
        watch.look()
    records = [record for record in read_records(JOURNAL, ledger.disk) if isinstance(record, EntryRecord)]
    said = [record.body["ahead_us"] for record in records if record.entry.kind == "node.clock"]
    assert said == [3600_000_000, 1799_000_000, 1, -JUMP_US - 1]
    assert told == [us / 1e6 for us in said]


def test_a_clock_that_jumps_forward_makes_no_dead_letter_of_what_is_on_its_way(tmp_path: Path) -> None:
    machine = Machine()
    clock = machine.clock()

    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada", "first")
        at = await twin.delivery()
        late_us = clock.now_us() + 60_000_000
        waiting = await twin.send("ada", "in time", deadline_us=late_us)
        machine.wall += HOUR_S
        machine.pass_(1)
        twin.finish(at)
        second = await twin.delivery()
        assert second.message.text == "in time"
        expired = await twin.send("ada", "too late", deadline_us=late_us)
        machine.pass_(60)
        twin.finish(second)
        assert (await twin.end_of(waiting))["status"] == "ok"
        assert (await twin.end_of(expired))["status"] == "dead"

    options: dict[str, Any] = {"now_us": clock.now_us}
    on_twin(tmp_path, body, **options)
