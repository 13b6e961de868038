"""The mailbox of a process: its limits, and what becomes of a message for which there is no room."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from kernel.bounds import Bounds
from kernel.errors import Invalid, MailboxFull, SupervisionError
from kernel.model.spec import ProcessSpec
from kernel.operations.mailboxes import Mailbox, read_mailbox
from kernel.operations.messages import Messages, Topics
from kernel.operations.processes import Processes
from kernel.operations.rights.capabilities import Capabilities
from kernel.operations.spawning import TEMPLATE, Spawning, SpawnRequest
from tests.kernel.control.test_control import on_control
from tests.kernel.message.test_publications import counted, waiting
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import LIMIT_S, Twin
from weftos.cli.agents.mailboxes import read_sizes

TWO_THEN_DEAD = Mailbox(messages=2, overflow="dead_letter")


async def filled(twin: Twin, control: Doors, mailbox: Mailbox | None, count: int = 2) -> None:
    """ada is in a turn, and her mailbox holds so many messages."""
    await control(Spawning.spawn, "ada", mailbox=mailbox)
    for number in range(count):
        await control(Messages.send, "ada", str(number))
    await twin.delivery()


def dead(twin: Twin) -> list[tuple[str, str]]:
    return [(letter.mail.text, letter.reason) for letter in twin.kernel.state.dead.values()]


def test_a_mailbox_takes_as_many_as_its_spec_says_and_what_is_too_much_is_refused(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await filled(twin, control, Mailbox(messages=2))
        with pytest.raises(MailboxFull, match=r"mailbox of /user/ada is full \(2 messages, limit 2\)"):
            await control(Messages.send, "ada", "too much")
        await control(Spawning.spawn, "bob", mailbox=Mailbox(bytes=3000))
        for text in ("1", "2"):
            await control(Messages.send, "bob", text)
        with pytest.raises(MailboxFull, match=r"mailbox of /user/bob is full \(\d+ bytes, limit 3000\)"):
            await control(Messages.send, "bob", "x" * 1000)
        assert dead(twin) == []
        counted(twin)

    on_control(tmp_path, body)


def test_where_the_spec_says_so_it_is_accepted_and_dead_at_once_and_its_sender_told(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await filled(twin, control, TWO_THEN_DEAD)
        told = await control(Messages.send, "ada", "too much", wait_s=LIMIT_S)
        why = "mailbox of /user/ada is full (2 messages, limit 2); its spec says dead_letter"
        assert (told["status"], told["reply"]) == ("dead", why)
        assert (waiting(twin, "ada"), dead(twin)) == (["0", "1"], [("too much", "overflow")])
        accepted = await twin.entries("message.accepted", "message.dead")
        assert [(one.entry.kind, one.body["id"]) for one in accepted[-2:]] == [
            ("message.accepted", told["message"]),
            ("message.dead", told["message"]),
        ]
        counted(twin)
        again = await control(Messages.replay, told["message"])  # there is no room yet: it is another letter
        assert dead(twin)[1:] == [("too much", "overflow")]
        assert list(twin.kernel.state.dead)[1:] == [again["message"]]
        counted(twin)

    on_control(tmp_path, body)


def test_who_asks_a_full_process_hears_that_his_question_is_dead(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await filled(twin, control, TWO_THEN_DEAD)
        await twin.spawn("bob")
        await twin.send("bob")
        bob = await twin.delivery()
        answer = await twin.call_tool(bob, "ask", {"to": "ada", "text": "?"})
        assert answer["status"] == "error" and "dead letter: mailbox of /user/ada is full" in answer["text"]
        sent = await twin.call_tool(bob, "send_message", {"to": "ada", "text": "!"}, 1)
        assert sent["status"] == "ok"
        assert dead(twin) == [("?", "overflow"), ("!", "overflow")]
        assert twin.kernel.attempts.get(bob.turn, "0.0") is None  # nobody waits for an answer any more
        counted(twin)

    on_control(tmp_path, body)


def test_what_may_not_be_sent_is_refused_however_full_the_mailbox_is(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await filled(twin, control, TWO_THEN_DEAD)
        await twin.spawn("bob", capabilities=Capabilities(messages="none"))
        await twin.send("bob")
        bob = await twin.delivery()
        refused = await twin.call_tool(bob, "send_message", {"to": "ada", "text": "!"})
        assert refused["status"] == "error" and dead(twin) == []
        with pytest.raises(Invalid, match="limit 100"):
            await control(Messages.send, "ada", "x" * 101)
        assert dead(twin) == []

    on_control(tmp_path, body, bounds=Bounds(message_bytes=100))


def test_of_what_is_published_the_subscription_decides(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await filled(twin, control, TWO_THEN_DEAD)
        await control(Topics.subscribe, "ada", "news")
        with pytest.raises(MailboxFull, match="nobody has got it"):
            await control(Topics.publish, "news", "!")
        assert dead(twin) == []

    on_control(tmp_path, body)


def test_it_is_changed_from_the_next_message_on_and_shown(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await filled(twin, control, None, count=3)
        limits = {"messages": 5, "bytes": 16 * 2**20, "overflow": "back_pressure"}
        assert (await control(Processes.inspect, "ada"))["mailbox_limits"] == limits
        assert (await control(Processes.change, "ada", mailbox=TWO_THEN_DEAD))["changed"] == ["mailbox"]
        assert (await control(Processes.change, "ada", mailbox=TWO_THEN_DEAD))["changed"] == []
        found = await control(Processes.inspect, "ada")
        assert found["mailbox_limits"] == {"messages": 2, "bytes": 16 * 2**20, "overflow": "dead_letter"}
        assert found["spec"]["mailbox"] == {"messages": 2, "overflow": "dead_letter"}
        await control(Messages.send, "ada", "too much")
        assert (waiting(twin, "ada"), dead(twin)) == (["0", "1", "2"], [("too much", "overflow")])
        await control(Spawning.spawn, "team", supervisor=True)
        assert (await control(Processes.inspect, "team"))["mailbox_limits"] is None
        with pytest.raises(SupervisionError, match="a supervisor takes no messages"):
            await control(Processes.change, "team", mailbox=TWO_THEN_DEAD)

    on_control(tmp_path, body, bounds=Bounds(mailbox_messages=5))


def test_no_mailbox_is_larger_than_the_node_allows_and_supervisors_have_none(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        with pytest.raises(Invalid, match="messages is 6, more than the node's 5: give at most that"):
            await control(Spawning.spawn, "ada", mailbox=Mailbox(messages=6))
        with pytest.raises(Invalid, match=r"raise limits\.mailbox_bytes"):
            await control(Spawning.spawn, "ada", mailbox=Mailbox(bytes=2**30))
        team = SpawnRequest("team", supervisor=True, mailbox=TWO_THEN_DEAD)
        assert team.check() == ["a supervisor runs no behaviour: leave out mailbox"]
        await control(Spawning.spawn, "pool", supervisor=True, strategy=TEMPLATE, mailbox=TWO_THEN_DEAD)
        await control(Spawning.spawn, "one", under="/user/pool")
        assert twin.kernel.state.slots["/user/pool/one"].spec.mailbox == TWO_THEN_DEAD
        with pytest.raises(Invalid, match="leave out mailbox"):
            await control(Spawning.spawn, "two", under="/user/pool", mailbox=Mailbox(messages=1))

    on_control(tmp_path, body, bounds=Bounds(mailbox_messages=5))


def test_a_node_that_allows_less_by_now_holds_every_mailbox_to_that(tmp_path: Path) -> None:
    async def first(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada", mailbox=Mailbox(messages=4))

    async def then(twin: Twin, control: Doors) -> None:
        limits = (await control(Processes.inspect, "ada"))["mailbox_limits"]
        assert limits is not None and limits["messages"] == 2
        assert twin.kernel.state.slots["/user/ada"].spec.mailbox == Mailbox(messages=4)

    on_control(tmp_path, first, bounds=Bounds(mailbox_messages=5))
    on_control(tmp_path, then, bounds=Bounds(mailbox_messages=2))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"messages": 0}, "messages is 0, must be a whole number from 1"),
        ({"bytes": True}, "bytes is True, must be a whole number"),
        ({"messages": "9"}, "messages is '9'"),
        ({"overflow": "drop_oldest"}, "must be back_pressure or dead_letter; drop_oldest is for topics"),
        ({"size": 1}, "no field 'size'; there are messages, bytes, overflow"),
        ([], "a mailbox is a map"),
    ],
)
def test_every_fault_of_a_mailbox_is_said(fields: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_mailbox(fields)
    if isinstance(fields, dict) and "size" not in fields:
        assert words.split(",")[0] in ProcessSpec("ada", mailbox=Mailbox(**fields)).check()[0]


def test_a_spec_keeps_its_mailbox_as_text_does() -> None:
    spec = ProcessSpec("ada", mailbox=Mailbox(messages=3, bytes=9, overflow="dead_letter"))
    assert ProcessSpec.from_json(spec.to_json()) == spec
    older = {key: value for key, value in json.loads(spec.to_json()).items() if key != "mailbox"}
    assert ProcessSpec.from_json(json.dumps(older)).mailbox is None


@pytest.mark.parametrize(
    "words", [["messages"], ["messages=1", "messages=2"], ["overflow=never"], ["messages=-1"]]
)
def test_the_option_says_what_is_wrong_with_it(words: list[str]) -> None:
    with pytest.raises(typer.BadParameter):
        read_sizes(words)
    assert read_sizes(["messages=2", "overflow=dead_letter"]) == TWO_THEN_DEAD
    assert read_sizes(None) is None
