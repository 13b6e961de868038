"""Topics: who gets what is published, what becomes of it where there is no room, and that every message is counted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kernel.bounds import Bounds
from kernel.errors import Busy, Invalid, MailboxFull, NotFound, Refused
from kernel.operations.messages import Messages, Topics
from kernel.operations.rights.capabilities import Capabilities
from kernel.operations.spawning import Spawning
from tests.kernel.control.test_control import control_of, on_control
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import Twin

TOOLS = ("publish", "broadcast", "subscribe", "unsubscribe")


def counted(twin: Twin) -> None:
    """Nothing that was accepted is lost sight of."""
    tally = twin.kernel.state.tally
    assert tally.accepted == tally.acknowledged + tally.dead + tally.dropped + tally.in_flight


def waiting(twin: Twin, name: str) -> list[str]:
    return [mail.text for mail in twin.kernel.state.mail.get(f"/user/{name}", {}).values()]


def test_each_subscriber_gets_what_is_published_once_with_its_topic_and_nobody_else(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for name, patterns in (("ada", ("a.b",)), ("bob", ("a.*", "*", "a.b")), ("eve", ("b.*", "a.b.c"))):
            await control(Spawning.spawn, name)
            for pattern in patterns:
                await control(Topics.subscribe, name, pattern)
        said = await control(Topics.publish, "a.b", "news")
        assert (said["accepted"], said["dead"], said["dropped"], said["left_out"]) == (2, 0, 0, 0)
        got = [await twin.delivery() for _ in range(2)]
        assert [(at.message.text, at.message.kind, at.message.topic) for at in got] == [
            ("news", "publication", "a.b")
        ] * 2
        assert (waiting(twin, "ada"), waiting(twin, "bob"), waiting(twin, "eve")) == (["news"], ["news"], [])
        [entry] = await twin.entries("topic.published")
        assert entry.entry.seq == said["seq"]
        causes = {one.entry.cause for one in await twin.entries("message.accepted")}
        assert causes == {said["seq"]}
        counted(twin)

    on_control(tmp_path, body)


def test_nobody_listens_and_that_is_said(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        assert (await control(Topics.publish, "a", "news"))["accepted"] == 0

    on_control(tmp_path, body)


def test_a_subscription_is_there_after_a_restart_and_ends_with_its_slot(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        control = control_of(twin)
        await control(Spawning.spawn, "team", supervisor=True)
        await control(Spawning.spawn, "ada", under="/user/team")
        await control(Topics.subscribe, "/user/team/ada", "a.*")

    async def after(twin: Twin) -> None:
        control = control_of(twin)
        assert [row["pattern"] for row in await control(Topics.list)] == ["a.*"]
        twin.kernel.processes.stop("/user/team")
        assert (await control(Topics.publish, "a.b", "news"))["left_out"] == 1
        await twin.kernel.processes.remove("/user/team", True)
        assert await control(Topics.list) == []

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_subscriptions_are_taken_back_listed_in_pages_and_refused_in_words(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        await control(Spawning.spawn, "team", supervisor=True)
        rows = [await control(Topics.subscribe, "ada", pattern) for pattern in ("a", "b.*", "*")]
        assert await control(Topics.list) == rows
        assert await control(Topics.list, limit=1, after=rows[0]["seq"]) == rows[1:2]
        assert await control(Topics.unsubscribe, "ada", "b.*") == {"address": "/user/ada", "pattern": "b.*"}
        with pytest.raises(NotFound, match=r"/user/ada has not subscribed to b\.\*; weftos topics list"):
            await control(Topics.unsubscribe, "ada", "b.*")
        with pytest.raises(Refused, match="supervisor: it takes no messages"):
            await control(Topics.subscribe, "team", "a")
        with pytest.raises(Invalid, match="drop_oldest is for telemetry topics alone"):
            await control(Topics.subscribe, "ada", "a", overflow="drop_oldest")
        with pytest.raises(Invalid, match="is not allowed: use words"):
            await control(Topics.publish, "a..b", "x")

    on_control(tmp_path, body)


FULL = Bounds(mailbox_messages=2)


async def full(twin: Twin, control: Doors, pattern: str, overflow: Any) -> None:
    """Ada is in a turn, one more message waits for her, and she has subscribed; bob has, and nothing waits for him."""
    for name in ("ada", "bob"):
        await control(Spawning.spawn, name)
        await control(Topics.subscribe, name, pattern, overflow=overflow)
    for text in ("in a turn", "waits"):
        await control(Messages.send, "ada", text)
    await twin.delivery()


def on_full(tmp_path: Path, body: Callable[[Twin, Doors], Awaitable[None]]) -> None:
    on_control(tmp_path, body, bounds=FULL)


def test_back_pressure_refuses_a_publication_for_all_when_one_has_no_room(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await full(twin, control, "a", "back_pressure")
        with pytest.raises(MailboxFull, match=r"mailbox of /user/ada is full .*; nobody has got it"):
            await control(Topics.publish, "a", "news")
        assert waiting(twin, "bob") == []
        assert len(await twin.entries("message.refused")) == 1
        counted(twin)

    on_full(tmp_path, body)


def test_a_dead_letter_is_made_for_whom_there_is_no_room(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await full(twin, control, "a", "dead_letter")
        said = await control(Topics.publish, "a", "news")
        assert (said["accepted"], said["dead"]) == (2, 1)
        [letter] = await control(Messages.deadletters)
        assert (letter["to"], letter["text"]) == ("/user/ada", "news")
        assert "mailbox of /user/ada is full" in letter["why"]
        assert waiting(twin, "bob") == ["news"]
        counted(twin)

    on_full(tmp_path, body)


def test_dead_letters_of_publications_are_bounded_as_all_are(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await full(twin, control, "a", "dead_letter")
        for number in range(4):
            await control(Topics.publish, "a", f"{number}")
        letters = await control(Messages.deadletters)
        assert [letter["text"] for letter in letters] == ["3", "3"]
        counted(twin)

    on_control(tmp_path, body, bounds=Bounds(mailbox_messages=2, dead_letters=2))


def test_telemetry_drops_the_oldest_of_its_kind_that_waits_and_nothing_else(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        await control(Topics.subscribe, "ada", "telemetry.*", overflow="drop_oldest")
        await control(Topics.publish, "telemetry.cpu", "0")
        at = await twin.delivery()
        await control(Messages.send, "ada", "a person's")
        for number in (1, 2):
            await control(Topics.publish, "telemetry.cpu", f"{number}")
        said = await control(Topics.publish, "telemetry.cpu", "3")
        assert (said["accepted"], said["dropped"], said["left_out"]) == (1, 1, 0)
        assert waiting(twin, "ada") == ["0", "a person's", "2", "3"]
        assert await control(Messages.deadletters) == []
        assert twin.kernel.state.tally.dropped == 1
        twin.finish(at)
        counted(twin)

    on_control(tmp_path, body, bounds=Bounds(mailbox_messages=4))


def test_telemetry_that_finds_nothing_to_drop_is_left_out(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await full(twin, control, "telemetry.*", "drop_oldest")
        said = await control(Topics.publish, "telemetry.cpu", "1")
        assert (said["accepted"], said["dropped"], said["left_out"]) == (1, 0, 1)
        assert waiting(twin, "ada") == ["in a turn", "waits"]

    on_full(tmp_path, body)


def test_all_below_an_address_are_told_and_who_cannot_be_is_counted(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "team", supervisor=True)
        for name in ("ada", "bob", "eve"):
            await control(Spawning.spawn, name, under="/user/team")
        await control(Spawning.spawn, "alone")
        await control(Messages.send, "/user/team/ada", "in a turn")
        await twin.delivery()
        await control(Messages.send, "/user/team/ada", "waits")
        twin.kernel.processes.stop("/user/team/eve")
        said = await control(Messages.broadcast, "team", "stand up")
        assert (said["accepted"], said["left_out"]) == (1, 2)
        assert [at.text for at in twin.kernel.state.mail["/user/team/bob"].values()] == ["stand up"]
        assert waiting(twin, "alone") == []
        with pytest.raises(Refused, match="nobody is below /user/alone"):
            await control(Messages.broadcast, "alone", "hello")
        counted(twin)

    on_full(tmp_path, body)


def test_an_agent_publishes_subscribes_and_tells_those_below_it_by_tools_that_it_must_hold(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=TOOLS)
        await twin.spawn("kid", parent="/user/ada", tools=())
        await twin.spawn("eve", tools=())
        await twin.send("ada")
        at = await twin.delivery()
        subscribed = await twin.call_tool(at, "subscribe", {"pattern": "a.*"})
        assert subscribed["text"] == "/user/ada gets what is published to a.*"
        assert (await twin.call_tool(at, "publish", {"topic": "a.b", "text": "x"}, 1))["text"] == (
            "accepted for 0 processes"  # its own it does not get
        )
        told = await twin.call_tool(at, "broadcast", {"text": "stand up"}, 2)
        assert told["text"] == "accepted for 1 processes"
        kid = await twin.delivery()
        assert (kid.message.sender, kid.message.text) == ("/user/ada", "stand up")
        taken = await twin.call_tool(at, "unsubscribe", {"pattern": "a.*"}, 3)
        assert taken["status"] == "ok" and not twin.kernel.state.subscriptions
        again = await twin.call_tool(at, "unsubscribe", {"pattern": "a.*"}, 4)
        assert again["status"] == "error" and "has not subscribed" in again["text"]
        await twin.send("eve")
        refused = await twin.call_tool(await twin.delivery(), "publish", {"topic": "a", "text": "x"})
        assert refused["status"] == "denied"

    on_twin(tmp_path, body)


def test_whom_an_agent_may_not_speak_to_it_does_not_reach_by_a_topic_either(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        await twin.spawn("ada", tools=TOOLS, capabilities=Capabilities(messages="children"))
        below = Capabilities(messages="parent")
        await twin.spawn("kid", parent="/user/ada", tools=(), capabilities=below)
        await twin.spawn("bob", tools=())
        for name in ("/user/ada/kid", "bob"):
            await control(Topics.subscribe, name, "a")
        await twin.send("ada")
        at = await twin.delivery()
        said = await twin.call_tool(at, "publish", {"topic": "a", "text": "x"})
        assert said["text"] == "accepted for 1 processes, 1 left out"
        assert waiting(twin, "bob") == []

    on_twin(tmp_path, body)


def test_a_turn_that_is_resumed_publishes_once(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", tools=TOOLS)
        await twin.spawn("bob")
        control = control_of(twin)
        await control(Topics.subscribe, "bob", "a")
        await twin.send("ada")
        at = await twin.delivery()
        first = await twin.call_tool(at, "publish", {"topic": "a", "text": "x"})
        assert (await twin.delivery()).message.topic == "a"
        twin.crash(at)
        again = await twin.call_tool(await twin.delivery(), "publish", {"topic": "a", "text": "x"})
        assert again == first
        assert len(await twin.entries("topic.published")) == 1

    on_twin(tmp_path, body)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (Bounds(pattern_subscribers=1), r"a has 1 subscribers, the limit"),
        (Bounds(process_subscriptions=1), r"/user/bob has 1 subscriptions, the limit"),
        (Bounds(subscriptions=2), r"the node has 2 subscriptions, the limit"),
    ],
)
def test_subscriptions_have_bounds_and_an_old_one_can_be_made_again(
    tmp_path: Path, bounds: Bounds, said: str
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for name in ("ada", "bob"):
            await control(Spawning.spawn, name)
        await control(Topics.subscribe, "ada", "a")
        await control(Topics.subscribe, "bob", "b")
        with pytest.raises(Busy, match=said):
            await control(Topics.subscribe, "bob", "a")
        await control(Topics.subscribe, "ada", "a", overflow="dead_letter")
        assert [row["overflow"] for row in await control(Topics.list)] == ["back_pressure", "dead_letter"]

    on_control(tmp_path, body, bounds=bounds)


def test_a_publication_has_bounds_for_how_many_and_how_much(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for name in ("ada", "bob", "eve"):
            await control(Spawning.spawn, name)
            await control(Topics.subscribe, name, "b" if name == "eve" else "a")
            await control(Topics.subscribe, name, "all")
        with pytest.raises(Invalid, match="more than 2 processes, the limit"):
            await control(Topics.publish, "all", "x")
        with pytest.raises(Invalid, match="more than 2 processes, the limit"):
            await control(Messages.broadcast, "/user", "x")
        with pytest.raises(Invalid, match=r"to 2 processes it would be \d+ bytes, limit 3000"):
            await control(Topics.publish, "a", "x" * 600)
        with pytest.raises(Invalid, match="message of 1100 bytes, limit 1000"):
            await control(Topics.publish, "b", "x" * 1100)
        counted(twin)

    bounds = Bounds(publication_receivers=2, publication_bytes=3000, message_bytes=1000)
    on_control(tmp_path, body, bounds=bounds)


def test_agents_that_publish_because_of_one_message_are_stopped(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        await twin.spawn("ada", tools=TOOLS)
        for name in ("bob", "eve"):
            await twin.spawn(name)
            await control(Topics.subscribe, name, "a")
        await twin.send("ada")
        at = await twin.delivery()
        assert (await twin.call_tool(at, "publish", {"topic": "a", "text": "x"}))["status"] == "ok"
        refused = await twin.call_tool(at, "publish", {"topic": "a", "text": "x"}, 1)
        assert refused["status"] == "error" and "more than 3 messages came of one message" in refused["text"]

    on_twin(tmp_path, body, bounds=Bounds(messages_per_trace=3))


def test_a_process_hears_and_publishes_what_its_capability_holds_alone(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada", tools=TOOLS, capabilities=Capabilities(topics=("news.*",)))
        await twin.send("/user/ada", "go")
        at = await twin.delivery()
        calls = [
            *(("subscribe", {"pattern": pattern}) for pattern in ("news.*", "news.a", "news", "*", "secret")),
            *(("publish", {"topic": topic, "text": "x"}) for topic in ("news.a", "news", "newsx", "secret")),
        ]
        said = [await twin.call_tool(at, *call, ordinal) for ordinal, call in enumerate(calls)]
        assert [one["status"] for one in said] == ["ok"] * 2 + ["error"] * 3 + ["ok"] + ["error"] * 3
        assert said[3]["text"] == "capability: /user/ada may hear news.*, not *"
        assert said[-1]["text"] == "capability: /user/ada may publish to news.*, not to secret"

    on_control(tmp_path, body)
