"""What is said is heard once, in order, by all of its row; and every signal there is has a row."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kernel
from chain.ledger.ledger import Draft
from kernel.errors import StateError
from kernel.signals import Signal, Signals
from kernel.state.unit import Unit
from tests.kernel.twins.kernel_twin import kernel_twin


@dataclass(frozen=True, slots=True)
class Rang(Signal):
    number: int


@dataclass(frozen=True, slots=True)
class Opened(Signal):
    pass


@pytest.fixture
def heard() -> list[str]:
    return []


def test_a_row_is_heard_in_its_order_and_what_it_says_after_it(heard: list[str]) -> None:
    signals = Signals()

    def first(rang: Rang) -> None:
        signals.say(Opened())
        heard.append(f"first {rang.number}")

    signals.connect(
        {
            Rang: (first, lambda rang: heard.append(f"second {rang.number}")),
            Opened: (lambda opened: heard.append("opened"),),
        }
    )
    signals.say(Rang(1))
    assert heard == ["first 1", "second 1", "opened"]


def test_what_is_said_before_there_is_a_table_waits_for_it(heard: list[str]) -> None:
    signals = Signals()
    signals.say(Rang(1))
    signals.say(Rang(2))
    signals.connect({Rang: (lambda rang: heard.append(str(rang.number)),)})
    assert heard == ["1", "2"]
    with pytest.raises(StateError, match="a table already"):
        signals.connect({})


def test_a_handler_that_fails_keeps_nobody_from_hearing_and_blames_who_said_it(heard: list[str]) -> None:
    faults: list[Exception] = []
    signals = Signals(faults.append)

    def fails(said: Any) -> None:
        if isinstance(said, Rang):
            signals.say(Opened())
        raise ValueError(f"of {said}")

    signals.connect(
        {
            Rang: (fails, lambda rang: heard.append("rang")),
            Opened: (fails, lambda opened: heard.append("opened")),
        }
    )
    for number in (7, 8):
        with pytest.raises(ValueError, match=f"number={number}"):
            signals.say(Rang(number))
    assert heard == ["rang", "opened"] * 2
    assert [str(fault) for fault in faults] == [f"of {Opened()}"] * 2  # who rang did not open


def test_what_has_happened_is_told_whatever_becomes_of_it(heard: list[str]) -> None:
    faults: list[Exception] = []
    signals = Signals(faults.append)

    def fails(rang: Rang) -> None:
        raise ValueError(f"of {rang.number}")

    signals.connect({Rang: (fails, lambda rang: heard.append(str(rang.number)))})
    signals.tell(Rang(1), Rang(2))
    assert (heard, [str(fault) for fault in faults]) == (["1", "2"], ["of 1", "of 2"])


def declared() -> set[str]:
    """The names of all signals that the kernel declares: of a class with slots there are two."""
    for module in pkgutil.walk_packages(kernel.__path__, "kernel."):
        if module.name not in ("kernel.cell.__main__", "kernel.cell.actor", "kernel.cells.engines.placer"):
            importlib.import_module(module.name)
    return {name_of(found) for found in Signal.__subclasses__() if found.__module__.startswith("kernel.")}


def name_of(signal: type[Signal]) -> str:
    return f"{signal.__module__}.{signal.__qualname__}"


def test_every_signal_of_the_kernel_has_a_row(tmp_path: Path) -> None:
    async def run() -> None:
        async with kernel_twin(tmp_path) as twin:
            rows = twin.signals._handlers
            assert set(map(name_of, rows)) == declared()
            assert all(rows.values())

    asyncio.run(run())


def test_a_unit_knows_the_numbers_of_its_entries_and_is_written_with_those_or_not_at_all(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with kernel_twin(tmp_path) as twin:
            recorder = twin.kernel.recorder
            unit, late = recorder.unit(), recorder.unit()
            for one in (unit, late):
                one.add(Draft("message.refused", {"to": "", "sender": "x", "why": f"{one.next_seq}"}))
                one.add(Draft("message.refused", {"to": "", "sender": "x", "why": f"{one.next_seq}"}))
            entries = recorder.commit(unit, durable=True).entries
            assert [str(written.entry.seq) for written in entries] == [r.body["why"] for r in unit.records]  # type: ignore[union-attr]
            size = twin.ledger.next_seq
            with pytest.raises(StateError, match="entries numbered from"):
                recorder.commit(late)
            with pytest.raises(StateError, match="cannot wait"):
                recorder.must(recorder.unit())
            with pytest.raises(StateError, match="have no numbers yet"):
                Unit().next_seq  # noqa: B018
            assert twin.ledger.next_seq == size

    asyncio.run(run())
