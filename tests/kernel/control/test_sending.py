"""What people send under a key is sent once, whatever is killed in between; what expires is a dead letter."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kernel.abi import Identity, Inbound, MessageOptions
from kernel.cells.cell_events import CellLeft
from kernel.errors import Invalid, Refused
from kernel.operations.messages import Messages
from kernel.operations.spawning import Spawning
from kernel.slices.mail import keyed
from tests.kernel.control.test_control import control_of, on_control
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import Twin


def test_the_same_key_sends_once_and_is_answered_the_same(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        first = await control(Messages.send, "ada", "pay", key="k1")
        assert await control(Messages.send, "ada", "pay", key="k1") == {**first, "again": True}
        other = await control(Messages.send, "ada", "pay", key="k2")
        assert other["message"] != first["message"]
        assert len(await twin.entries("message.accepted")) == 2
        assert len(await twin.entries("operator.command")) == 4

    on_control(tmp_path, body)


def test_a_repeated_request_waits_for_the_end_of_the_one_message_or_is_told_it(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        sent = await control(Messages.send, "ada", "pay", key="k1")
        at = await twin.delivery()
        again = asyncio.create_task(control(Messages.send, "ada", "pay", key="k1", wait_s=60))
        await asyncio.sleep(0)
        twin.finish(at, "paid")
        answer = await again
        assert (answer["reply"], answer["status"], answer["again"]) == ("paid", "ok", True)
        late = await control(Messages.send, "ada", "pay", key="k1", wait_s=60)
        assert late == {**sent, "again": True, "status": "ok", "turn": at.turn}

    on_control(tmp_path, body)


def test_a_key_of_another_request_is_refused_and_sends_nothing(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        sent = await control(Messages.send, "ada", "pay", key="k1")
        for text, session in (("pay more", ""), ("pay", "other")):
            with pytest.raises(Refused, match=f"another message was sent under this key, {sent['message']}"):
                await control(Messages.send, "ada", text, session=session, key="k1")
        assert len(await twin.entries("message.accepted")) == 1

    on_control(tmp_path, body)


def test_a_key_is_known_after_a_restart_and_though_its_target_is_gone(tmp_path: Path) -> None:
    sent: dict[str, Any] = {}

    async def before(twin: Twin) -> None:
        control = control_of(twin)
        await control(Spawning.spawn, "ada")
        answer = await control(Messages.send, "ada", "pay", key="k1")
        sent.update(answer)

    async def after(twin: Twin) -> None:
        control = control_of(twin)
        assert await control(Messages.send, "ada", "pay", key="k1") == {**sent, "again": True}
        at = await twin.delivery()
        twin.kernel.processes.stop("/user/ada")
        twin.finish(at)
        twin.say(CellLeft(at.pid, "shutdown", ""))
        await twin.kernel.processes.remove("/user/ada", False)
        late = await control(Messages.send, "ada", "pay", key="k1")
        assert (late["message"], late["status"]) == (sent["message"], "ok")

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_keys_are_known_for_a_time_and_up_to_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyed, "MOST_KEYS", 2)

    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        first = await control(Messages.send, "ada", "pay", key="k1")
        for key in ("k2", "k3"):
            await control(Messages.send, "ada", "pay", key=key)
        assert len(twin.kernel.state.keyed) == 2
        assert (await control(Messages.send, "ada", "pay", key="k1"))["message"] != first["message"]
        monkeypatch.setattr(keyed, "KEPT_S", 0)
        assert "again" not in await control(Messages.send, "ada", "pay", key="k3")

    on_control(tmp_path, body)


def test_what_a_key_stands_for_is_not_in_the_ledger(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        await control(Messages.send, "ada", "a private word", key="a private key")
        [entry] = await twin.entries("message.keyed")
        assert "private" not in str(entry.body)
        assert not any("private key" in str(one.body) for one in await twin.entries("operator.command"))

    on_control(tmp_path, body)


def test_a_message_that_has_expired_before_its_turn_is_a_dead_letter(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        await control(Messages.send, "ada", "first")
        at = await twin.delivery()
        await control(Messages.send, "ada", "late", expires_s=0.000_001)
        kept = await control(Messages.send, "ada", "kept", expires_s=3600)
        twin.finish(at)
        assert (await twin.delivery()).message.id == kept["message"]
        [letter] = await control(Messages.deadletters)
        assert (letter["text"], letter["why"]) == ("late", "expired before it was delivered")

    on_control(tmp_path, body)


# -- how it came -----------------------------------------------------------------------------------------------------


def test_a_message_of_a_channel_is_shown_whole_to_who_handles_it(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        came: dict[str, Any] = {
            "channel": "telegram",
            "user": "bob",
            "id": "7",
            "options": {"temperature": 0.5},
        }
        await control(Messages.send, "ada", "hi", **came)
        at = await twin.delivery()
        who = Identity("telegram:bob", ("guest",))
        assert at.message.inbound == Inbound(
            "telegram", "", "bob", "7", MessageOptions(temperature=0.5), who=who
        )

    on_control(tmp_path, body)


def test_an_id_of_a_channel_is_answered_once_whoever_sends_or_watches_it_again(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        came: dict[str, Any] = {"channel": "telegram", "id": "7"}
        sent = await control(Messages.send, "ada", "pay", **came)
        at = await twin.delivery()
        assert await control(Messages.send, "ada", "pay", **came) == {**sent, "again": True}
        watching = control.stream(Messages.watch, "ada", "pay", **came)
        assert (await anext(watching))["again"] is True
        twin.finish(at, "paid")
        assert [event["reply"] async for event in watching if event["event"] == "reply"] == ["paid"]
        late = [event async for event in control.stream(Messages.watch, "ada", "pay", **came)]
        assert late[1] == {"event": "ended", "status": "ok", "turn": at.turn, "channel": "telegram"}
        other = await control(Messages.send, "ada", "pay", channel="signal", id="7")
        assert other["message"] != sent["message"]
        with pytest.raises(Refused, match=f"with the id 7 of channel telegram, {sent['message']}"):
            await control(Messages.send, "ada", "pay more", **came)
        with pytest.raises(Invalid, match="leave the key out"):
            await control(Messages.send, "ada", "pay", key="k", **came)
        assert len(await twin.entries("message.accepted")) == 2

    on_control(tmp_path, body)


def test_what_cannot_be_said_of_a_message_sends_nothing(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        with pytest.raises(Invalid, match=r"chat '\.\./x' is not allowed"):
            await control(Messages.send, "ada", "hi", channel="telegram", chat="../x")
        with pytest.raises(Invalid, match="are not empty: leave out what is not known"):
            await control(Messages.send, "ada", "hi", channel="telegram", chat="")
        with pytest.raises(Invalid, match="leave session out"):
            await control(Messages.send, "ada", "hi", channel="telegram", chat="1", session="mine")
        assert await twin.entries("message.accepted") == []
        assert len(await twin.entries("operator.command")) == 1

    on_control(tmp_path, body)
