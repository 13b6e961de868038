"""How long a turn took by itself, which is what its replay may take."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kernel.cell.link.frames import FrameError
from kernel.cell.replay import Recording


def test_waiting_for_an_answer_is_no_time_of_the_turn_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    refuses: list[int] = []

    def send(frame: list[Any]) -> None:
        if refuses:
            raise FrameError("too large")

    async def body() -> None:
        loop, now_s = asyncio.get_running_loop(), 100.0
        monkeypatch.setattr(loop, "time", lambda: now_s)
        recording = Recording(send, [])
        now_s += 2
        for index in (0, 1, 1):  # the last one is said again, whole
            recording.send(["call", 7, "t1", 0, index, "now", {}])
        now_s += 300
        recording.told(0, 0, {})
        recording.told(0, 0, {})
        now_s += 300
        recording.told(0, 1, {})
        refuses.append(1)
        with pytest.raises(FrameError):
            recording.send(["call", 7, "t1", 1, 0, "now", {}])
        now_s += 3
        assert recording.own_s == 5

    asyncio.run(body())
