"""The node's side of compaction and of erasing: in which order, and what happens when a step fails."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgpack
import pytest

import weftos.helpers.compaction
from chain.disk import Disk
from chain.errors import LedgerUnavailable
from chain.ledger.ledger import StateChange
from chain.state.snapshot import NEW
from kernel.helper.helper import HelperLost
from kernel.helper.offspring import Offspring
from kernel.signals import Signals
from kernel.state.record_forms import ERASING
from kernel.state.recorder import Recorder
from kernel.state.state import State
from tests.chain.twins.ledgers import open_ledger
from tests.patience import HANG_S
from weftos.helpers.compaction import Child, Compaction, CompactionError, retry_s, run_child
from weftos.upkeep.erasing import Erasing

COVER = (
    "import sys; from json import dumps; "
    "print(dumps({'group': int(sys.argv[sys.argv.index('--group') + 1]), 'entries': 3, 'digest': '0d'}))"
)


class TwinLedger:
    """Notes what it is asked. ``faults``: how often each call fails first, with ``error``."""

    def __init__(self, error: type[Exception] = LedgerUnavailable) -> None:
        self.error = error
        self.sealed = 0
        self.looks = 0
        self.calls: list[Any] = []
        self.faults: dict[str, int] = {}
        self.present = (5, b"c" * 32)
        self.snapshot_digest = b""

    def _note(self, name: str, *arguments: Any) -> None:
        if self.faults.get(name):
            self.faults[name] -= 1
            raise self.error(f"no {name} just now")
        self.calls.append((name, *arguments))

    @property
    def sealed_bytes(self) -> int:
        self.looks += 1
        return self.sealed

    async def roll(self) -> int:
        self._note("roll")
        return 5

    @property
    def segment(self) -> tuple[int, bytes]:
        return self.present

    async def publish(self) -> None:
        self._note("publish")

    async def place_snapshot(self, group: int, digest: bytes) -> None:
        self._note("place_snapshot", group, digest)

    async def drop_before(self, group: int) -> int:
        self._note("drop_before", group)
        self.sealed = 0
        return 2

    async def erase_bodies(self, ranges: Sequence[tuple[int, int]]) -> int:
        self._note("erase_bodies", list(ranges))
        return 1


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, Any]]] = []

    def __call__(self, level: str, event: str, **fields: Any) -> None:
        self.lines.append((level, event, fields))

    def events(self) -> list[str]:
        return [event for _, event, _ in self.lines]


def child(code: str = COVER) -> Child:
    return Child((sys.executable, "-c", code), {}, Path("/"))


def compaction(ledger: TwinLedger, data: Path, log: Log, code: str = COVER) -> Compaction:
    return Compaction(ledger, data, child(code), 100, log)


async def until(look: Any) -> None:
    async with asyncio.timeout(HANG_S):
        while not look():
            await asyncio.sleep(0.01)


def test_a_snapshot_comes_before_anything_is_removed(tmp_path: Path) -> None:
    async def run() -> None:
        ledger, log = TwinLedger(), Log()
        await compaction(ledger, tmp_path, log).run_to(5)
        assert ledger.calls == [("publish",), ("place_snapshot", 5, b"\r"), ("drop_before", 5)]
        [(level, event, fields)] = log.lines
        assert (level, event) == ("info", "journal compacted")
        assert (fields["group"], fields["entries"], fields["segments_removed"]) == (5, 3, 2)

    asyncio.run(run())


def test_without_a_snapshot_nothing_is_removed(tmp_path: Path) -> None:
    async def run() -> None:
        ledger = TwinLedger()
        failing = "import sys; sys.stderr.write('journal damaged'); sys.exit(1)"
        with pytest.raises(CompactionError, match="journal damaged"):
            await compaction(ledger, tmp_path, Log(), failing).run_to(5)
        with pytest.raises(CompactionError, match="ended with status 3"):
            await compaction(ledger, tmp_path, Log(), "import sys; sys.exit(3)").run_to(5)
        assert ledger.calls == [("publish",)] * 2
        for step in ("publish", "place_snapshot", "drop_before"):
            ledger.faults = {step: 1}
            with pytest.raises(CompactionError, match=f"no {step}"):
                await compaction(ledger, tmp_path, Log()).run_to(5)
        with pytest.raises(CompactionError, match="begins with group 5, not yet with 6"):
            await compaction(ledger, tmp_path, Log()).run_to(6)

    asyncio.run(run())


def test_a_segment_that_begins_while_it_is_published_is_not_covered(tmp_path: Path) -> None:
    class RollingLedger(TwinLedger):
        async def publish(self) -> None:
            await super().publish()
            self.present = (8, b"d" * 32)

    async def run() -> None:
        ledger = RollingLedger()
        await compaction(ledger, tmp_path, Log()).run_to(5)
        assert ledger.calls == [("publish",), ("place_snapshot", 5, b"\r"), ("drop_before", 5)]

    asyncio.run(run())


@pytest.mark.parametrize("error", [LedgerUnavailable, RuntimeError])  # the second: "can't start new thread"
def test_it_runs_when_there_is_enough_and_again_after_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    monkeypatch.setattr(weftos.helpers.compaction, "LOOK_S", 0.01)
    monkeypatch.setattr(weftos.helpers.compaction, "RETRY_S", 0.01)

    async def run() -> None:
        ledger, log = TwinLedger(error), Log()
        ledger.present = (9, b"c" * 32)
        ledger.faults = {"publish": 2}
        made = compaction(ledger, tmp_path, log)
        made.start()
        ledger.sealed = 99
        looks = ledger.looks
        await until(lambda: ledger.looks > looks + 2)  # so two looks at 99 have come to their end
        assert log.lines == []
        ledger.sealed = 100
        await until(lambda: "journal compacted" in log.events())
        assert log.events() == ["the journal could not be compacted"] * 2 + ["journal compacted"]
        assert ledger.calls == [("publish",), ("place_snapshot", 9, b"\r"), ("drop_before", 9)]
        await made.close()

    asyncio.run(run())


def test_after_each_failure_in_a_row_it_is_tried_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [retry_s(failures) for failures in (1, 2, 3, 5, 6, 5000)] == [60, 120, 240, 960, 960, 960]
    waits: list[int] = []

    def noted(failures: int) -> float:
        waits.append(failures)
        return 0.0

    monkeypatch.setattr(weftos.helpers.compaction, "LOOK_S", 0.01)
    monkeypatch.setattr(weftos.helpers.compaction, "retry_s", noted)

    async def run() -> None:
        ledger = TwinLedger()
        made = compaction(ledger, tmp_path, Log())
        made.start()
        for expected in ([1, 2], [1, 2, 1]):
            ledger.faults = {"publish": len(expected) - len(waits)}
            ledger.sealed = 100
            await until(lambda: not ledger.sealed)
            assert waits == expected
        await made.close()

    asyncio.run(run())


def _half_written(data: Path, then: str) -> str:
    """The code of a process that begins a snapshot."""
    new = data / "snapshot" / NEW
    return f"import os, sys; os.makedirs({str(new.parent)!r}); open({str(new)!r}, 'w').write('half'); {then}"


@pytest.mark.parametrize(
    "then",
    ["sys.exit('No space left on device')", "os.kill(os.getpid(), 9)", COVER],
    ids=["no room", "killed", "not placed"],
)
def test_a_snapshot_that_did_not_get_its_place_is_not_left_there(tmp_path: Path, then: str) -> None:
    async def run() -> None:
        ledger = TwinLedger()
        ledger.faults = {"place_snapshot": 1}
        with pytest.raises(CompactionError):
            await compaction(ledger, tmp_path, Log(), _half_written(tmp_path, then)).run_to(5)
        assert list((tmp_path / "snapshot").iterdir()) == []

    asyncio.run(run())


def test_nor_is_it_when_the_run_is_given_up(tmp_path: Path) -> None:
    async def run() -> None:
        code = _half_written(tmp_path, "import time; time.sleep(600)")
        task = asyncio.create_task(compaction(TwinLedger(), tmp_path, Log(), code).run_to(5))
        await until((tmp_path / "snapshot" / NEW).exists)
        task.cancel()
        await asyncio.wait([task])
        assert list((tmp_path / "snapshot").iterdir()) == []

    asyncio.run(run())


@pytest.mark.parametrize("fault", [OSError(errno.EIO, "on purpose"), RuntimeError("can't start new thread")])
def test_a_run_that_is_given_up_is_over_though_nothing_can_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Else its task went on, and who stops the node waited for it for ever."""

    def broken(directory: Path, disk: Disk) -> None:
        raise fault

    monkeypatch.setattr(weftos.helpers.compaction, "discard_snapshot", broken)

    async def run() -> None:
        log, code = Log(), _half_written(tmp_path, "import time; time.sleep(600)")
        task = asyncio.create_task(compaction(TwinLedger(), tmp_path, log, code).run_to(5))
        await until((tmp_path / "snapshot" / NEW).exists)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert log.events() == ["what was left of a snapshot could not be removed"]

    asyncio.run(run())


def test_a_run_that_is_given_up_leaves_no_process(tmp_path: Path) -> None:
    async def run() -> None:
        mark = tmp_path / "pid"
        code = f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
        task = asyncio.create_task(run_child(child(code)))
        await until(lambda: mark.exists() and mark.read_text())
        task.cancel()
        await asyncio.wait([task])
        assert not Path(f"/proc/{mark.read_text()}").exists()

    asyncio.run(run())


def test_a_process_that_cannot_start_is_an_error_of_ours() -> None:
    missing = Child(("/nowhere/python", "-P", "-m", "weftos.helpers.compact"), {}, Path("/"))
    with pytest.raises(CompactionError, match=r"cannot start weftos\.helpers\.compact"):
        asyncio.run(run_child(missing))


def test_a_process_for_which_there_is_no_thread_is_not_left_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waited for it: one that reads what it is told did so for ever."""

    def no_thread(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def run() -> None:
        with monkeypatch.context() as patch, pytest.raises(CompactionError, match="can't start new thread"):
            patch.setattr(threading.Thread, "start", no_thread)
            await run_child(SLEEPS)

    before = children()
    asyncio.run(run())
    assert children() <= before


def test_a_process_that_cannot_be_looked_at_is_not_left_running(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_descriptor(self: Offspring, pid: int) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    before = children()
    monkeypatch.setattr(Offspring, "_register", no_descriptor)
    with pytest.raises(CompactionError, match="Too many open files"):
        asyncio.run(run_child(SLEEPS))
    assert children() <= before


SLEEPS = Child((sys.executable, "-P", "-c", "import time; time.sleep(600)"), {}, Path("/"))


def children() -> set[str]:
    """The processes that this one has started and that are there."""
    found: set[str] = set()
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            found |= {*task.read_text().split()}
    return found


@pytest.mark.parametrize("error", [LedgerUnavailable, RuntimeError])
def test_erasing_goes_through_every_file_and_ends_when_nothing_is_left(
    tmp_path: Path, error: type[Exception]
) -> None:
    """Each step fails once: it is told, and all is done again."""

    async def run() -> None:
        real = open_ledger(tmp_path)
        real.start(asyncio.get_running_loop())
        recorder = Recorder(real, State(10, 1000), Signals())
        ledger, log = TwinLedger(error), Log()
        rebuilt: list[str] = []

        async def archive(op: str, args: dict[str, Any]) -> Any:
            if len(rebuilt) == 0:
                rebuilt.append("lost")
                raise HelperLost("archive is not running")
            rebuilt.append(op)

        erasing = Erasing(recorder, ledger, compaction(ledger, tmp_path, log), archive, log, retry_s=0.01)
        erasing.start()
        assert erasing.progress() == {"step": "", "fault": ""}
        recorder.commit([StateChange(ERASING, "7", msgpack.packb([[1, 2], [4, 4]]))])
        recorder.commit([StateChange(ERASING, "9", msgpack.packb([[6, 6]]))])
        ledger.faults = dict.fromkeys(("roll", "publish", "place_snapshot", "drop_before", "erase_bodies"), 1)
        erasing.start()
        erasing.start()
        await until(lambda: not recorder.state.erasing)
        assert log.events().count("erasing does not go on") == 6
        assert rebuilt == ["lost", "rebuild"]
        assert ledger.calls[-5:] == [
            ("roll",),
            ("publish",),
            ("place_snapshot", 5, b"\r"),
            ("drop_before", 5),
            ("erase_bodies", [(1, 2), (4, 4), (6, 6)]),
        ]
        await until(lambda: erasing.progress() == {"step": "", "fault": ""})
        assert log.lines[-1] == ("info", "erased", {"entries": [7, 9]})
        assert [name for name, *_ in ledger.calls].count(
            "erase_bodies"
        ) == 1  # not again for the archive's sake
        await erasing.close()
        await real.close()

    asyncio.run(run())
