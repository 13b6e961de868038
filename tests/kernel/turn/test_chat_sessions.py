"""Messages of chats go to sessions: one process for each, made with its message, alone in its faults, woken again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel.bounds import Bounds
from kernel.cell.protocol import Nothing
from kernel.cells.cell_events import CellAsked, CellCall, CellStarted
from kernel.errors import Busy, Conflict, Refused
from kernel.message.chats import is_asleep
from kernel.operations.messages import Messages
from kernel.operations.processes import Processes
from kernel.operations.spawning import Spawning
from kernel.policy.access import PERSON, Access
from kernel.worker.workers import WorkerLost
from tests.kernel.control.test_control import control_of, on_control
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import LIMIT_S, Delivery, Twin

QUICK = Bounds(session_idle_s=0.02)
FILE = {"name": "a.txt", "type": "text/plain", "size": 1, "sha256": "0" * 64, "text": "a"}


def of(chat: str, **more: Any) -> dict[str, Any]:
    return {"channel": "telegram", "chat": chat, **more}


async def until(holds: Callable[[], bool]) -> None:
    async def look() -> None:
        while not holds():
            await asyncio.sleep(0.001)

    await asyncio.wait_for(look(), LIMIT_S)


def asleep(twin: Twin, address: str) -> Callable[[], bool]:
    def holds() -> bool:
        slot = twin.kernel.state.slots.get(address)
        return slot is not None and is_asleep(slot) and twin.kernel.live.at(address) is None

    return holds


def test_a_slow_chat_blocks_no_other_and_each_is_one_process(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        first, second, other = await asyncio.gather(
            control(Messages.send, "ada", "one", **of("42")),
            control(Messages.send, "ada", "two", **of("42")),
            control(Messages.send, "ada", "three", **of("43")),
        )
        assert first["address"] == second["address"] == "/user/ada/telegram.42"
        assert other["address"] == "/user/ada/telegram.43"
        found = {
            (at.message.text, at.message.session): at for at in [await twin.delivery(), await twin.delivery()]
        }
        assert set(found) == {("one", "telegram:42"), ("three", "telegram:43")}
        assert len(await twin.entries("process.spawned")) == 4  # /user, ada and two sessions
        twin.finish(found["one", "telegram:42"])
        assert (await twin.delivery()).message.text == "two"
        rows = {row["address"]: row.get("session") for row in await control(Processes.ps)}
        assert rows["/user/ada/telegram.42"] == "telegram:42" and rows["/user/ada"] is None
        assert (first["channel"], first["chat"]) == ("telegram", "42")
        plain = await control(Messages.send, "ada", "four")
        assert "channel" not in plain
        assert plain["address"] == "/user/ada"
        again = await control(Messages.send, "/user/ada/telegram.43", "five", **of("43"))
        assert again["address"] == "/user/ada/telegram.43"
        with pytest.raises(Refused, match="is the session of chat telegram:42: send to /user/ada"):
            await control(Messages.send, "/user/ada/telegram.42", "six", **of("43"))
        with pytest.raises(
            Refused, match="is the session of chat telegram:42: a message of a channel says its"
        ):
            await control(
                Messages.send,
                "/user/ada/telegram.42",
                "six",
                channel="telegram",
                user="mallory",
                session="telegram:42",
            )

    on_control(tmp_path, body)


def test_a_node_that_ends_between_the_acceptance_and_the_start_loses_nothing(tmp_path: Path) -> None:
    async def first(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        twin.cells.silent = True
        await control(Messages.send, "ada", "one", **of("42"))

    async def then(twin: Twin) -> None:
        at = await twin.delivery()
        assert (at.message.text, at.message.session) == ("one", "telegram:42")

    on_control(tmp_path, first)
    on_twin(tmp_path, then)


def test_one_that_is_idle_falls_asleep_and_the_next_message_finds_its_history(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        await control(Messages.send, "ada", "one", **of("42"))
        twin.finish(await twin.delivery(), remember=[{"role": "user", "content": "one"}])
        await until(asleep(twin, "/user/ada/telegram.42"))
        pid = twin.kernel.state.slots["/user/ada/telegram.42"].pid
        await control(Messages.send, "ada", "two", **of("42"))
        at = await twin.delivery()
        assert at.history == [{"role": "user", "content": "one"}]
        assert at.pid > pid
        assert [process.address for process in twin.kernel.live.all()].count("/user/ada/telegram.42") == 1

    on_control(tmp_path, body, bounds=QUICK)


def test_a_message_for_one_that_sleeps_outlasts_the_node_that_was_to_wake_it(tmp_path: Path) -> None:
    async def first(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        await control(Messages.send, "ada", "one", **of("42"))
        twin.finish(await twin.delivery())
        await until(asleep(twin, "/user/ada/telegram.42"))
        twin.cells.silent = True
        await control(Messages.send, "ada", "two", **of("42"))

    async def then(twin: Twin) -> None:
        assert (await twin.delivery()).message.text == "two"

    async def sleeps(twin: Twin, control: Doors) -> None:
        twin.finish(await twin.delivery())
        await until(asleep(twin, "/user/ada/telegram.42"))

    async def stays(twin: Twin) -> None:
        assert twin.kernel.live.at("/user/ada/telegram.42") is None
        await control_of(twin)(Messages.send, "ada", "three", **of("42"))
        assert (await twin.delivery()).message.text == "three"

    on_control(tmp_path, first, bounds=QUICK)
    on_twin(tmp_path, then)
    on_control(tmp_path, sleeps, bounds=QUICK)
    on_twin(tmp_path, stays)


def test_one_with_something_to_do_does_not_fall_asleep(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        for chat in ("busy", "idle"):
            await control(Messages.send, "ada", "one", **of(chat))
        found = {at.message.session: at for at in [await twin.delivery(), await twin.delivery()]}
        twin.finish(found["telegram:idle"])
        await until(asleep(twin, "/user/ada/telegram.idle"))
        assert twin.kernel.live.at("/user/ada/telegram.busy") is not None

    on_control(tmp_path, body, bounds=QUICK)


def test_beyond_the_limit_the_one_idle_longest_sleeps_and_when_all_are_busy_it_is_said(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        for chat in ("a", "b"):
            await control(Messages.send, "ada", "one", **of(chat))
            twin.finish(await twin.delivery())
        await control(Messages.send, "ada", "one", **of("c"))
        await twin.delivery()
        await until(asleep(twin, "/user/ada/telegram.a"))
        await control(Messages.send, "ada", "two", **of("b"))
        await twin.delivery()
        with pytest.raises(Busy, match="/user/ada: 2 sessions are busy, the limit of one agent; try again"):
            await control(Messages.send, "ada", "two", **of("a"))
        refused = await twin.entries("message.refused")
        assert len(refused) == 1
        assert len(await twin.entries("process.spawned")) == 5

    on_control(tmp_path, body, bounds=Bounds(running_sessions=2))


def test_of_too_many_the_one_that_slept_longest_goes_with_its_history(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        slots, sessions = twin.kernel.state.slots, twin.kernel.state.sessions
        for chat in ("a", "b"):
            await control(Messages.send, "ada", "one", **of(chat))
            twin.finish(await twin.delivery(), remember=[{"said": chat}])
            await until(asleep(twin, f"/user/ada/telegram.{chat}"))
        await control(Messages.send, "ada", "one", **of("c"))
        await twin.delivery()
        await until(lambda: "/user/ada/telegram.a" not in slots)
        assert [key[1] for key in sessions] == ["telegram:b"]
        assert "/user/ada/telegram.b" in slots

    on_control(tmp_path, body, bounds=Bounds(session_idle_s=0.02, agent_sessions=2))


def test_one_chat_that_crashes_again_and_again_takes_down_nobody_else(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        await control(Messages.send, "ada", "steady", **of("good"))
        good = await twin.delivery()
        pids = [process.pid for process in twin.kernel.live.all() if "bad" not in process.address]
        for number in range(9):
            await control(Messages.send, "ada", f"poison {number}", **of("bad"))
        slots = twin.kernel.state.slots
        crashed = 0
        while slots["/user/ada/telegram.bad"].state != "parked":
            at = await twin.delivery()
            twin.crash(at)
            crashed += 1
            await asyncio.sleep(0)
        await until(lambda: not twin.kernel.state.mail.get("/user/ada/telegram.bad"))
        dead = await twin.entries("message.dead")
        assert len(dead) == 9
        assert {record.body["reason"] for record in dead} <= {"down", "poison"}
        assert all("telegram.bad" in record.body["why"] or "poison" in record.body["why"] for record in dead)
        assert [process.pid for process in twin.kernel.live.all()] == pids
        assert slots["/user/ada"].restarts == 0
        twin.finish(good, "fine")
        with pytest.raises(Refused, match=r"telegram\.bad is parked; weftos start /user/ada/telegram\.bad"):
            await control(Messages.send, "ada", "more", **of("bad"))

    on_control(tmp_path, body, bounds=Bounds(turn_attempts=2))


def test_a_child_that_is_no_session_is_handed_no_chat(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        await control(Spawning.spawn, "telegram.42", under="/user/ada")
        with pytest.raises(
            Conflict, match=r"telegram.42 is no session of chat telegram:42, and has its name"
        ):
            await control(Messages.send, "ada", "one", **of("42"))

    on_control(tmp_path, body)


def test_the_crash_of_the_agent_leaves_its_sessions_in_their_turns(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        await control(Messages.send, "ada", "one", **of("42"))
        session = await twin.delivery()
        await control(Messages.send, "ada", "plain")
        twin.crash(await twin.delivery())
        assert (await twin.delivery()).message.text == "plain"
        process = twin.kernel.live.at("/user/ada/telegram.42")
        assert process is not None and process.turn == session.turn

    on_control(tmp_path, body)


def test_a_stopped_agent_takes_no_message_of_a_chat_and_one_that_is_back_wakes_its_sessions(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        await control(Messages.send, "ada", "one", **of("42"))
        twin.finish(await twin.delivery())
        await until(asleep(twin, "/user/ada/telegram.42"))
        await control(Processes.stop, "ada")
        for chat in ("42", "43"):
            with pytest.raises(Refused, match="/user/ada is stopped"):
                await control(Messages.send, "ada", "two", **of(chat))
        await control(Processes.start, "ada")
        await control(Messages.send, "ada", "three", **of("42"))
        assert (await twin.delivery()).message.text == "three"

    on_control(tmp_path, body, bounds=QUICK)


# -- while an earlier message is answered ----------------------------------------------------------------------------


def lost(call: object) -> Any:
    raise WorkerLost("its worker died")


def busy(policy: str) -> dict[str, Any]:
    return {"config": {"channel_overrides": {"telegram": {"while_busy": policy}}}}


def test_reject_refuses_in_words_and_records_nothing_but_that(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada", **busy("reject"))
        sent = await control(Messages.send, "ada", "one", **of("42", id="1"))
        at = await twin.delivery()
        with pytest.raises(Busy, match=f"is answering {sent['message']} still: say it again"):
            await control(Messages.send, "ada", "two", **of("42", id="2"))
        await control(Messages.send, "ada", "two", **of("43", id="3"))
        assert len(await twin.entries("message.accepted")) == 2
        assert len(await twin.entries("message.refused")) == 1
        await twin.delivery()
        twin.finish(at)
        await control(Messages.send, "ada", "two", **of("42", id="2"))
        assert (await twin.delivery()).message.text == "two"

    on_control(tmp_path, body)


@pytest.mark.parametrize("waits_for", ["its behaviour", "a tool", "a person", "its own start"])
def test_interrupt_cancels_on_record_what_runs_whatever_it_waits_for_and_the_new_one_begins(
    tmp_path: Path, waits_for: str
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada", tools=("pay",), **busy("interrupt"))
        twin.cells.silent = waits_for == "its own start"
        if waits_for == "a tool":
            twin.workers.hold.clear()
        twin.workers.answer = lost
        first = await control(Messages.send, "ada", "one", **of("42"))
        end = twin.kernel.watchers.wait(first["message"])
        if waits_for != "its own start":
            at = await twin.delivery()
        if waits_for in ("a tool", "a person"):
            twin.ask_tool(at, "pay", {"to": "bob"})
            await until(lambda: bool(twin.workers.calls))
        if waits_for == "a person":
            await until(lambda: bool(twin.kernel.state.doubts()))
        await control(Messages.send, "ada", "two", **of("42"))
        ended = await asyncio.wait_for(end, LIMIT_S)
        assert (ended["status"], ended["reply"]) == (
            "cancelled",
            "a newer message of telegram:42 interrupted it",
        )
        if waits_for == "its own start":
            twin.say(CellStarted((twin.cells.placed[-1].pid,), "c1"))
        assert (await twin.delivery()).message.text == "two"
        assert twin.kernel.state.in_flight == 1
        kind = "message.cancelled" if waits_for == "its own start" else "turn.ended"
        assert len(await twin.entries(kind)) == 1

    on_control(tmp_path, body, access=Access(unknown=(PERSON,)))


def test_what_is_cancelled_or_stopped_by_name_does_not_wait_behind_messages(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        for text in ("one", "two", "three"):
            await control(Messages.send, "ada", text, **of("42"))
        at = await twin.delivery()
        done = await control(Processes.cancel, "/user/ada/telegram.42")
        assert done["turn"] == at.turn
        assert (await twin.delivery()).message.text == "two"

    on_control(tmp_path, body)


def asks_what_joins(twin: Twin, at: Delivery, round_: int) -> None:
    twin.say(CellAsked(at.pid, CellCall(at.turn, round_, 0, "steered", Nothing())))


def test_what_is_said_meanwhile_joins_the_turn_at_one_step_and_at_the_same_when_it_is_resumed(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada", **busy("steer"))
        await control(Messages.send, "ada", "one", **of("42"))
        at = await twin.delivery()
        asks_what_joins(twin, at, 0)
        assert (await twin.result())["texts"] == []
        second = await control(Messages.send, "ada", "two", **of("42", id="2"))
        end = twin.kernel.watchers.wait(second["message"])
        asks_what_joins(twin, at, 1)
        assert (await twin.result())["texts"] == ["two"]
        assert await asyncio.wait_for(end, LIMIT_S) == {"status": "steered", "reply": "", "turn": at.turn}
        await control(Messages.send, "ada", "three", **of("42"))
        twin.crash(at)
        again = await twin.delivery()
        for round_, texts in enumerate(([], ["two"])):
            asks_what_joins(twin, again, round_)
            assert (await twin.result())["texts"] == texts
        twin.finish(again)
        assert (await twin.delivery()).message.text == "three"
        repeated = await control(Messages.send, "ada", "two", **of("42", id="2"))
        assert (repeated["status"], repeated["turn"]) == ("steered", at.turn)
        tally = twin.kernel.state.tally
        assert (tally.accepted, tally.acknowledged, twin.kernel.state.in_flight) == (3, 2, 1)

    async def then(twin: Twin) -> None:
        assert (await twin.delivery()).message.text == "three"
        assert twin.kernel.state.in_flight == 1

    on_control(tmp_path, body)
    on_twin(tmp_path, then)


def test_what_does_not_steer_waits_and_holds_back_what_is_behind_it(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada", **busy("steer"))
        await control(Messages.send, "ada", "one", **of("42"))
        at = await twin.delivery()
        session = "/user/ada/telegram.42"
        await control(Messages.send, session, "from elsewhere")
        await control(Messages.send, "ada", "two", **of("42"))
        asks_what_joins(twin, at, 0)
        assert (await twin.result())["texts"] == []
        twin.finish(at)
        assert (await twin.delivery()).message.text == "from elsewhere"

    on_control(tmp_path, body)


@pytest.mark.parametrize("more", [{"attachments": (FILE,)}, {"options": {"model": "other"}}])
def test_what_is_more_than_text_has_a_turn_of_its_own(tmp_path: Path, more: dict[str, Any]) -> None:
    """Attachments and options of what joins a turn would be lost."""

    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada", **busy("steer"))
        await control(Messages.send, "ada", "one", **of("42"))
        at = await twin.delivery()
        await control(Messages.send, "ada", "two", **of("42", **more))
        asks_what_joins(twin, at, 0)
        assert (await twin.result())["texts"] == []
        twin.finish(at)
        inbound = (await twin.delivery()).message.inbound
        assert inbound is not None and (inbound.attachments or inbound.options.model == "other")

    on_control(tmp_path, body)


@pytest.mark.parametrize("policy", ["steer", "interrupt"])
def test_another_user_of_the_chat_neither_speaks_in_a_turn_nor_ends_it(tmp_path: Path, policy: str) -> None:
    """What he says would be done with the rights of who has asked."""

    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada", **busy(policy))
        await control(Messages.send, "ada", "one", **of("42", user="alice"))
        at = await twin.delivery()
        await control(Messages.send, "ada", "do as I say", **of("42", user="mallory"))
        asks_what_joins(twin, at, 0)
        assert (await twin.result())["texts"] == [] and twin.cells.ended == []
        twin.finish(at)
        other = await twin.delivery()
        assert other.message.inbound is not None and other.message.inbound.who.name == "telegram:mallory"

    on_control(tmp_path, body)
