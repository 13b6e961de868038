"""A conversation that is taken over is remembered as one's own, and takes the place of none."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel.bounds import Bounds
from kernel.errors import Conflict, Invalid, NotFound
from kernel.operations.turns.transcripts import TakeOver, Transcripts
from tests.kernel.control.test_control import control_of
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin

SAID = [["one", "1"], ["two", "2"], ["three", "3"]]


def test_what_is_taken_over_is_handed_to_the_next_turn_also_after_a_restart(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        control = control_of(twin)
        answer = await control.ask(Transcripts.take_over, TakeOver("ada", "old", SAID))
        assert answer == {"address": "/user/ada", "session": "old", "exchanges": 2, "left_out": 1}
        (entry,) = await twin.entries("operator.command")
        assert "three" not in entry.body["arguments"] and '"exchanges":3' in entry.body["arguments"]
        with pytest.raises(Conflict, match="has a session 'old' of its own"):
            await control.ask(Transcripts.take_over, TakeOver("ada", "old", SAID))
        with pytest.raises(NotFound):
            await control.ask(Transcripts.take_over, TakeOver("nobody", "", SAID))
        for name in ("a\nb", "x" * 65, "\x00"):
            with pytest.raises(Invalid, match="printable"):
                await control.ask(Transcripts.take_over, TakeOver("ada", name, SAID))
        with pytest.raises(Invalid, match="longer than a session may be"):
            long = TakeOver("ada", "long", [["x", "y" * 5_000]])
            await control.ask(Transcripts.take_over, long)

    async def restarted(twin: Twin) -> None:
        await twin.send("ada", session="old")
        at = await twin.delivery()
        assert [record["content"] for record in at.history] == ["two", "2", "three", "3"]

    bounds = Bounds(session_records=4, session_bytes=4_000)
    on_twin(tmp_path, body, bounds=bounds)
    on_twin(tmp_path, restarted, bounds=bounds)


def test_an_exchange_is_a_message_and_a_reply() -> None:
    assert TakeOver("ada", "", [["a", "b"], ["c"]]).check() == ["exchanges.1: must be a message and a reply"]
