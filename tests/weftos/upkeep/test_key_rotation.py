"""A node changes its keys while it runs: the order of the steps, and what a refusing disk leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from chain.disk import Disk
from chain.errors import LedgerUnavailable
from chain.keys.keys import Keys, load_keys
from chain.notes.note import parse
from kernel.errors import Invalid, Unavailable
from kernel.operations.keys import Keys as KeyOperations
from tests.kernel.control.test_control import control_of
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import Twin, kernel_twin
from tests.patience import HANG_S
from weftos.upkeep.key_rotation import KeyRotation

Body = Callable[[Twin, KeyRotation], Awaitable[None]]


class Told:
    """What workers and mesh were told, and which keys were in force then."""

    def __init__(self, twin: Twin) -> None:
        self._twin = twin
        self.steps: list[tuple[str, Keys, bool]] = []
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.retry_s = HANG_S

    def note(self, step: str) -> Callable[[Keys], None]:
        return lambda keys: self.steps.append((step, keys, keys is self._twin.ledger.keys))

    def rotation(self) -> KeyRotation:
        return KeyRotation(
            self._twin.directory,
            self._twin.kernel.recorder,
            self.note("workers"),
            self.note("mesh"),
            lambda event, **fields: self.log.append((event, fields)),
            self.retry_s,
        )


def test_workers_are_told_before_and_peers_after_the_change(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        told = Told(twin)
        old = twin.ledger.keys
        answer = await told.rotation().rotate("a test")
        new = twin.ledger.keys
        assert [(step, keys is new, in_force) for step, keys, in_force in told.steps] == [
            ("workers", True, False),
            ("mesh", True, True),
        ]
        assert answer == {
            "origin": old.origin,
            "number": 1,
            "ed25519": new.ed25519.text,
            "ml_dsa_65": new.mldsa.text,
            "seq": answer["seq"],
        }
        assert load_keys(tmp_path / "keys").pairs == (old.pair, new.pair)
        assert [path.name for path in tmp_path.glob("keys*")] == ["keys"]
        (entry,) = await twin.entries("key.rotated")
        assert (entry.entry.seq, entry.body["reason"]) == (answer["seq"], "a test")
        assert told.log[0][0] == "keys changed"
        assert {line.key_id for line in parse(twin.ledger.head_note).signatures} <= {
            key.key_id for key in new.pair.both
        }

    on_twin(tmp_path, body)


def test_two_people_at_once_change_them_twice(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        rotation = Told(twin).rotation()
        answers = await asyncio.gather(rotation.rotate("one"), rotation.rotate("two"))
        assert [answer["number"] for answer in answers] == [1, 2]
        assert len(load_keys(tmp_path / "keys").pairs) == 3

    on_twin(tmp_path, body)


class FullDisk(Disk):
    """Is full as soon as the change is to be written, until ``room``."""

    def __init__(self) -> None:
        self.room = False
        self.full = False

    def write(self, handle: int, offset: int, data: bytes) -> None:
        self.full = not self.room and (self.full or b"key.rotated" in data)
        if self.full:
            raise OSError(28, "No space left on device")
        super().write(handle, offset, data)


def test_a_change_that_the_disk_refused_is_finished_when_it_takes_it(tmp_path: Path) -> None:
    async def run() -> None:
        disk = FullDisk()
        async with kernel_twin(tmp_path, disk=disk) as twin:
            told = Told(twin)
            old = twin.ledger.keys
            with pytest.raises(LedgerUnavailable, match="No space left"):
                await told.rotation().rotate("at a bad time")
            assert twin.ledger.keys is old and load_keys(tmp_path / "keys").pairs == (old.pair,)
            assert [step for step, _, _ in told.steps] == ["workers"]
            disk.room = True
            async with asyncio.timeout(HANG_S):
                while len(told.steps) < 2 or (tmp_path / "keys.old").exists():
                    await asyncio.sleep(0.01)
            assert told.steps[1][0] == "mesh"
        assert len(load_keys(tmp_path / "keys").pairs) == 2

    asyncio.run(run())


def test_keys_that_could_not_be_put_in_place_are_put_there_without_another_start(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        told = Told(twin)
        told.retry_s = 0.01
        old = tmp_path / "keys.old"
        old.write_text("in the way")  # of the rename
        with pytest.raises(OSError, match=r"keys.old"):
            await told.rotation().rotate("a test")
        new = twin.ledger.keys
        async with asyncio.timeout(HANG_S):
            while not any(event.startswith("the old keys are not removed") for event, _ in told.log):
                await asyncio.sleep(0.01)
        old.unlink()
        async with asyncio.timeout(HANG_S):
            while [path.name for path in tmp_path.glob("keys*")] != ["keys"]:
                await asyncio.sleep(0.01)
        assert load_keys(tmp_path / "keys").pairs == new.pairs

    on_twin(tmp_path, body)


def test_keys_for_whose_place_there_was_no_thread_are_put_there_without_another_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(twin: Twin) -> None:
        submit = ThreadPoolExecutor.submit

        def refused_once(*args: Any) -> Any:
            monkeypatch.setattr(ThreadPoolExecutor, "submit", submit)
            raise RuntimeError("can't start new thread")

        def rekey(keys: Keys) -> None:
            monkeypatch.setattr(ThreadPoolExecutor, "submit", refused_once)

        told = Told(twin)
        told.retry_s = 0.01
        monkeypatch.setattr(told, "note", lambda step: rekey if step == "mesh" else lambda keys: None)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            await told.rotation().rotate("a test")
        async with asyncio.timeout(HANG_S):
            while [path.name for path in tmp_path.glob("keys*")] != ["keys"]:
                await asyncio.sleep(0.01)
        assert load_keys(tmp_path / "keys").pairs == twin.ledger.keys.pairs

    on_twin(tmp_path, body)


def on_control(tmp_path: Path, body: Callable[[Twin, Doors], Awaitable[None]]) -> None:
    async def run(twin: Twin) -> None:
        await body(twin, control_of(twin, rotate=Told(twin).rotation().rotate))

    on_twin(tmp_path, run)


def test_who_asked_for_it_is_recorded_first(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        answer = await control(KeyOperations.rotate, " yearly ")
        (command,) = await twin.entries("operator.command")
        assert command.body["operation"] == "rotate" and json.loads(command.body["arguments"]) == {
            "reason": "yearly"
        }
        assert command.entry.seq < answer["seq"]

    on_control(tmp_path, body)


@pytest.mark.parametrize("reason", ["", "  ", "x" * 201, "two\nlines"])
def test_a_reason_that_is_none_changes_nothing(tmp_path: Path, reason: str) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        old = twin.ledger.keys
        with pytest.raises(Invalid, match="one line of 1 to 200 characters"):
            await control(KeyOperations.rotate, reason)
        assert twin.ledger.keys is old and await twin.entries("operator.command") == []

    on_control(tmp_path, body)


def test_keys_that_cannot_be_written_are_not_changed(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        (tmp_path / "keys.next").write_text("in the way")
        old = twin.ledger.keys
        with pytest.raises(Unavailable, match=r"keys.next exists"):
            await control(KeyOperations.rotate, "yearly")
        assert twin.ledger.keys is old

    on_control(tmp_path, body)
