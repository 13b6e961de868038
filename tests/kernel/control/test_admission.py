"""A user of a channel is who the node says he is, may ask what it says, and not more often than it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernel.abi import Identity
from kernel.control.mail import admission
from kernel.errors import AccessDenied, CapabilityError, Invalid, RateLimited
from kernel.operations.messages import Messages
from kernel.operations.rights.policy import Policy
from kernel.operations.spawning import Spawning
from kernel.policy.access import BUILT_IN, Access, ChannelRules, Known, RoleRules
from kernel.policy.limits.rates import RateLimit, RateLimits
from kernel.policy.routes import RouteRights, RoutesGate
from tests.kernel.control.test_control import on_control
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import Twin
from weftos.node.gates import GATES

ACCESS = Access(
    {"tel:7": Known("alice", ("staff",), "premium")},
    {**BUILT_IN, "staff": RoleRules(agents=("/user/ada",), tools=("calculator", "pay"), sensitive=True)},
    {"shut": ChannelRules(unknown=())},
)


def limited(limits: RateLimits) -> dict[str, Any]:
    return {"rates": limits}


async def denied(control: Doors, target: str, **fields: Any) -> AccessDenied:
    with pytest.raises(AccessDenied) as raised:
        await control(Messages.send, target, "hi", **fields)
    return raised.value


def test_a_user_is_known_by_his_channel_and_the_turn_is_held_to_his_rights(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada", tools=["calculator", "file_read", "pay", "ping"])
        await control(Messages.send, "ada", "hi", channel="tel", user="7")
        at = await twin.delivery()
        assert at.message.inbound is not None
        assert at.message.inbound.who == Identity("alice", ("staff",), "premium", True)
        assert at.tools == ["calculator", "pay"]
        refused = await twin.call_tool(at, "ping", {})
        assert (refused["status"], "capability: ping" in refused["text"]) == ("denied", True)
        assert (await twin.call_tool(at, "pay", {}, 1))["status"] == "ok"
        twin.finish(at)
        await control(Messages.send, "ada", "hi", channel="tel", user="8")
        assert (await twin.delivery()).tools == ["calculator", "file_read"]

    on_control(tmp_path, body, access=ACCESS)


def test_who_may_not_ask_is_told_why_and_it_is_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "DENIALS_A_MINUTE", 2)

    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        await control(Spawning.spawn, "bob")
        one = await denied(control, "bob", channel="tel", user="7")
        assert (one.user, one.channel, one.reason) == ("7", "tel", "who is staff may not ask /user/bob")
        assert str(one) == "AccessDenied: user 7 of channel tel: who is staff may not ask /user/bob"
        for number in range(5):
            await denied(control, "ada", channel="shut", user=f"u{number}")
        entries = [each.body for each in await twin.entries("access.denied")]
        assert [(each["user"], each["to"], each["untold"]) for each in entries] == [
            ("7", "/user/bob", 0),
            ("u0", "/user/ada", 0),
        ]
        assert await twin.entries("message.accepted", "turn.started") == []
        commands = await twin.entries("operator.command")
        assert len(commands) == 2  # the spawns: a message that is refused has none
        with pytest.raises(Invalid, match="user 'a/b' is not allowed"):
            await control(Messages.send, "ada", "hi", channel="tel", user="a/b")

    on_control(tmp_path, body, access=ACCESS)


def test_a_message_too_many_is_refused_with_a_time_and_a_restart_gives_none_for_free(tmp_path: Path) -> None:
    now_us, limits = [10**15], limited(RateLimits(RateLimit(2, 3)))

    async def refused(control: Doors, seconds: int, **fields: Any) -> None:
        with pytest.raises(RateLimited, match=f"try again in {seconds} s") as raised:
            await control(Messages.send, "ada", "hi", **fields)
        assert raised.value.retry_after_s == seconds

    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        for _ in range(2):
            await control(Messages.send, "ada", "hi", channel="tel", user="7")
            now_us[0] += 10_000_000
        for _ in range(3):
            await refused(control, 40, channel="tel", user="7")
        await control(Messages.send, "ada", "hi", channel="tel", user="8")
        now_us[0] -= 3_600_000_000  # the ledger's time does not fall
        await refused(control, 40, channel="tel", user="7")
        now_us[0] += 3_640_000_000
        await control(Messages.send, "ada", "hi", channel="tel", user="7")
        accepted = await twin.entries("message.accepted")
        assert [each.body["rate"] for each in accepted] == ["alice", "alice", "tel:8", "alice"]
        assert len(await twin.entries("message.refused")) == 1
        assert len(await twin.entries("operator.command")) == 5

    on_control(tmp_path, body, access=ACCESS, now_us=lambda: now_us[0], **limits)

    async def booted(twin: Twin, control: Doors) -> None:
        await refused(control, 3540, channel="tel", user="7")
        await control(Messages.send, "ada", "by the operator")

    on_control(tmp_path, booted, access=ACCESS, now_us=lambda: now_us[0], **limits)


def test_an_agent_is_limited_where_a_glob_names_it(tmp_path: Path) -> None:
    limits = RateLimits(RateLimit(1), {"/user/ada": RateLimit(1)})

    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada", tools=["send_message"])
        await control(Spawning.spawn, "bob", tools=["send_message"])
        await control(Messages.send, "ada", "go")
        at = await twin.delivery()
        said = {"to": "bob", "text": "1"}
        first = await twin.call_tool(at, "send_message", said)
        assert first["status"] == "ok", first["text"]
        many = await twin.call_tool(at, "send_message", said, 1)
        assert many["status"] == "error"
        assert "rate: /user/ada may send 1 messages in a minute; try again in " in many["text"]

    on_control(tmp_path, body, **limited(limits))


def test_what_is_said_of_a_user_explains_itself(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada", tools=["calculator", "ping"])
        found = await control(Policy.explain, "ada", tool="ping", user="tel:7")
        assert (found["decision"], found["rules"][-1]) == (
            "deny",
            {"rule": "access", "decision": "deny", "reasons": ["ping is not used for alice (staff)"]},
        )
        rows = {row["tool"]: row for row in (await control(Policy.tools, "ada", user="tel:7"))["tools"]}
        assert rows["calculator"]["decision"] == "allow" and rows["ping"]["rules"] == ["access"]
        shut = await control(Policy.explain, "ada", tool="ping", user="shut:x")
        assert "nobody knows shut:x" in shut["rules"][-1]["reasons"][0]
        plain = await control(Policy.explain, "ada", tool="ping")
        assert plain["decision"] == "allow" and "access" not in [rule["rule"] for rule in plain["rules"]]
        with pytest.raises(Invalid, match="is no CHANNEL:USER"):
            await control(Policy.explain, "ada", tool="ping", user=":x")

    on_control(tmp_path, body, access=ACCESS)


def test_what_was_decided_holds_though_the_configuration_says_otherwise_by_now(tmp_path: Path) -> None:
    async def before(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada", tools=["pay", "ping"])
        await control(Messages.send, "ada", "hi", channel="tel", user="7")
        await twin.delivery()

    on_control(tmp_path, before, access=ACCESS)

    async def after(twin: Twin, control: Doors) -> None:
        at = await twin.delivery()
        assert at.message.inbound is not None and at.message.inbound.who.name == "alice"
        assert at.tools == ["pay"]
        await denied(control, "ada", channel="tel", user="7")

    on_control(tmp_path, after, access=replace(ACCESS, users={}, unknown=()))


def test_a_word_on_the_model_of_a_chat_counts_as_a_message_since_it_may_make_a_session(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        for chat in ("1", "2"):
            await control(Messages.send, "ada", "/model small", channel="tel", chat=chat, user="8")
        for text in ("/model small", "hi"):
            with pytest.raises(RateLimited):
                await control(Messages.send, "ada", text, channel="tel", chat="3", user="8")
        await control(Messages.send, "ada", "/model", channel="tel", chat="3", user="9")
        assert len(await twin.entries("process.spawned")) == 4  # /user, ada and two sessions

    on_control(tmp_path, body, **limited(RateLimits(RateLimit(per_minute=2))))


@pytest.mark.parametrize("said", ["offline/big", "big"])
def test_nobody_has_a_chat_answered_by_a_model_that_he_may_not_ask_himself(tmp_path: Path, said: str) -> None:
    rights = RouteRights(
        ("free", "premium"), {"offline/small": 0, "offline/big": 1}, "premium", {}, {"guest": "free"}
    )

    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada", provider="offline")
        chat: dict[str, Any] = {"channel": "tel", "chat": "1"}
        with pytest.raises(
            CapabilityError, match="tel:8 may have free at most, and offline/big is of premium"
        ):
            await control(Messages.send, "ada", f"/model {said}", user="8", **chat)
        assert "configured" in (await control(Messages.send, "ada", "/model", user="8", **chat))["reply"]
        for user, text in (("8", "/model small"), ("8", "/model default"), ("7", f"/model {said}")):
            assert (await control(Messages.send, "ada", text, user=user, **chat))["status"] == "ok"

    on_control(tmp_path, body, access=ACCESS, gates=(*GATES, RoutesGate(rights)))
