"""Counters of past PIDs are looked through seldom: with thousands of processes that takes the loop milliseconds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import kernel.kernel
from chain.ledger.ledger import Ledger
from kernel.process.process_signals import PidsReserved
from tests.kernel.twins.kernel_twin import kernel_twin


def test_counters_are_looked_through_when_there_are_many_more_than_the_last_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, looked = [0], []
    monkeypatch.setattr(kernel.kernel, "COUNTERS", 100)
    monkeypatch.setattr(Ledger, "counters", property(lambda self: held[0]))
    monkeypatch.setattr(Ledger, "forget_counters", lambda self, in_use: looked.append(held[0]))

    async def body() -> None:
        async with kernel_twin(tmp_path) as twin:
            for held[0] in (10, 199, 200, 250, 299, 300, 399):
                twin.say(PidsReserved(1))

    asyncio.run(body())
    assert looked == [200, 300]
