"""Sessions as a person sees them, the model that a chat prefers, and commands that wait behind no message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernel.abi import TurnResult
from kernel.bounds import Bounds
from kernel.cells.cell_events import TurnDone
from kernel.errors import Busy, NotFound
from kernel.operations.messages import Messages
from kernel.operations.spawning import Spawning
from kernel.operations.turns.sessions import Sessions
from tests.kernel.control.test_control import control_of, on_control
from tests.kernel.turn.test_chat_sessions import asleep, of, until
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import Twin

CHAT = "/user/ada/telegram.42"


async def said(control: Doors, text: str, **more: Any) -> Any:
    return await control(Messages.send, "ada", text, **of("42", **more))


def test_the_model_that_a_chat_prefers_acts_on_its_next_message_and_is_kept_and_taken_back(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        told = await said(control, "/model offline/small", user="bob")
        assert (told["status"], told["message"]) == ("ok", "")
        assert told["reply"] == "From now on this chat is answered by offline/small."
        await said(control, "hi", options={"temperature": 0.5})
        at = await twin.delivery()
        assert at.message.inbound is not None
        options = at.message.inbound.options
        assert (options.provider, options.model, options.temperature) == ("offline", "small", 0.5)
        await control(Messages.send, "ada", "hi", **of("43"))
        other = await twin.delivery()
        assert other.message.inbound is not None and other.message.inbound.options.model == ""
        twin.crash(at)
        await said(control, "/model other")
        again = await twin.delivery()
        assert again.message.inbound == at.message.inbound, "a resumed turn has what it had"
        twin.finish(again)

    async def then(twin: Twin) -> None:
        control = control_of(twin)
        assert (await said(control, "/model"))["reply"] == "This chat is answered by other."
        assert (await control(Sessions.show, "ada", "telegram:42"))["model"] == "other"
        await said(control, "/model default")
        assert (await control(Sessions.show, "ada", "telegram:42"))["model"] == ""

    on_control(tmp_path, body)
    on_twin(tmp_path, then)


def test_a_command_waits_behind_no_message_and_one_that_comes_again_is_carried_out_once(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(
            Spawning.spawn, "ada", config={"channel_overrides": {"telegram": {"while_busy": "reject"}}}
        )
        await said(control, "one", id="1", user="bob")
        at = await twin.delivery()
        other = await said(control, "/stop", user="mallory")
        assert "asked by somebody else" in other["reply"] and twin.cells.ended == []
        done = await said(control, "/stop", id="2", user="bob")
        assert (done["reply"], done["turn"]) == ("Stopped.", at.turn)
        ended = (await twin.entries("turn.ended"))[-1]
        assert (ended.body["status"], ended.body["reply"]) == ("cancelled", "cancelled by bob: /stop")
        await said(control, "two", id="3")
        then = await twin.delivery()
        again = await said(control, "/stop", id="2", user="bob")
        assert (again["again"], again["status"]) == (True, "ok")
        process = twin.kernel.live.at(CHAT)
        assert process is not None and process.turn == then.turn
        watched = [each async for each in control.stream(Messages.watch, "ada", "/stop", **of("42", id="4"))]
        assert [each["event"] for each in watched] == ["accepted", "reply"]
        assert (await said(control, "/stop"))["reply"] == "Nothing is being answered."

    on_control(tmp_path, body)


def test_sessions_are_listed_shown_and_forgotten_and_none_in_which_something_is_answered(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        assert await control(Sessions.list, "ada") == []
        await said(control, "one")
        at = await twin.delivery()
        await said(control, "two")
        [row] = await control(Sessions.list, "ada")
        assert (row["session"], row["state"], row["turn"], row["waiting"]) == (
            "telegram:42",
            "busy",
            at.turn,
            1,
        )
        with pytest.raises(Busy, match=r"session telegram:42 of /user/ada/telegram.42 is being answered"):
            await control(Sessions.delete, "ada", "telegram:42")
        twin.finish(at, remember=[{"role": "user", "content": "one"}])
        twin.finish(await twin.delivery(), remember=[{"role": "user", "content": "two"}])
        await until(asleep(twin, CHAT))
        await control(Messages.send, "ada", "plain")
        twin.finish(await twin.delivery(), remember=[{"role": "user", "content": "plain"}])
        await until(lambda: twin.kernel.state.in_flight == 0)
        rows = await control(Sessions.list, "ada")
        assert [(row["session"], row["state"], row["chat"]) for row in rows] == [
            ("telegram:42", "asleep", True),
            ("main", "running", False),
        ]
        shown = await control(Sessions.show, "ada", "telegram:42", limit=1)
        assert shown["shown"] == [{"role": "user", "content": "two"}] and shown["records"] == 2
        done = await control(Sessions.delete, "ada", "telegram:42")
        assert (done["records"], done["removed"]) == (2, True)
        assert CHAT not in twin.kernel.state.slots
        assert (await control(Sessions.delete, "ada", "main"))["removed"] is False
        assert await control(Sessions.list, "ada") == []
        with pytest.raises(NotFound, match="has no session 'telegram:42'"):
            await control(Sessions.show, "ada", "telegram:42")
        await said(control, "anew")
        assert (await twin.delivery()).history == []

    on_control(tmp_path, body, bounds=Bounds(session_idle_s=0.02))


def test_a_session_that_is_idle_is_deleted_with_its_process(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        await said(control, "one")
        twin.finish(await twin.delivery())
        await until(lambda: twin.kernel.state.in_flight == 0)
        assert (await control(Sessions.delete, CHAT, "telegram:42"))["removed"] is True
        assert CHAT not in twin.kernel.state.slots and twin.kernel.live.at(CHAT) is None

    on_control(tmp_path, body)


def test_the_newest_summary_is_undone_and_then_the_one_before(tmp_path: Path) -> None:
    def summary(name: str) -> dict[str, Any]:
        told = {"text": name, "kept": 2, "records": 4, "sha256": name}
        return {"role": "assistant", "content": "", "internal": True, "summary": told}

    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        await twin.send("ada")
        at = await twin.delivery()
        twin.say(TurnDone(at.pid, at.turn, TurnResult("", (summary("s1"), summary("s2")))))
        await twin.send("ada")
        open_one = await twin.delivery()
        with pytest.raises(Busy, match="is being answered"):
            await control(Sessions.undo, "ada", "main")
        twin.finish(open_one)
        for name in ("s2", "s1"):
            told = await control(Sessions.undo, "ada", "main")
            assert (told["sha256"], told["records"]) == (name, 4)
        with pytest.raises(NotFound, match="no summary that could be undone"):
            await control(Sessions.undo, "ada", "main")
        [before, *undone] = [
            r for r in twin.kernel.state.sessions["/user/ada", "main"].history() if "undone" in r
        ]
        assert before["undone"] == "s2" and [r["undone"] for r in undone] == ["s1"]

    on_control(tmp_path, body)
