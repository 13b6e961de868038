"""Dead letters: found by what they have in common, sent again once, dropped with a reason, and each of them counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from chain.entry.kinds import KINDS
from kernel.bounds import Bounds
from kernel.cells.cell_events import CellLeft
from kernel.control.mail.history import KINDS as HISTORY_KINDS
from kernel.control.mail.history import steps_of
from kernel.errors import Invalid, NotFound, Refused, Unavailable
from kernel.operations.messages import Messages
from kernel.operations.node import Node
from kernel.operations.spawning import Spawning
from tests.kernel.control.test_control import control_of, on_control
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import Twin


async def one_dead(twin: Twin, control: Doors, name: str = "ada", reason: str = "other") -> str:
    """The id of a dead letter for a process, which runs."""
    if f"/user/{name}" not in twin.kernel.state.slots:
        await control(Spawning.spawn, name)
    sent = await control(Messages.send, name, f"to {name}")
    twin.kernel.messaging.dead_letter(sent["message"], "the test said so", reason=reason)
    return sent["message"]


def test_letters_are_found_by_receiver_sender_and_reason(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        ada, bob = await one_dead(twin, control), await one_dead(twin, control, "bob", "expired")
        for to, sender, reason, found in (
            ("", "", "", [ada, bob]),
            ("/user/ada", "", "", [ada]),
            ("/user", "", "", [ada, bob]),
            ("/user/a", "", "", []),
            ("", "", "expired", [bob]),
            ("", "operator", "", [ada, bob]),
            ("", "/user", "", []),
            ("/user/ada", "", "expired", []),
        ):
            letters = await control(Messages.deadletters, to=to, sender=sender, reason=reason)
            assert [letter["id"] for letter in letters] == found, (to, sender, reason)

    on_control(tmp_path, body)


@pytest.mark.parametrize("target", ["", "bob"])
def test_a_letter_is_sent_again_once_also_after_a_restart_unless_a_person_wants_it_again(
    tmp_path: Path, target: str
) -> None:
    found: list[str] = []

    async def before(twin: Twin) -> None:
        control = control_of(twin)
        for name in ("ada", "bob"):
            await control(Spawning.spawn, name)
        for text in ("first", "to ada"):
            found.append((await control(Messages.send, "ada", text))["message"])
        first = await twin.delivery()
        assert first.message.id == found.pop(0)
        twin.kernel.processes.stop("/user/ada")
        twin.finish(first)
        twin.say(CellLeft(first.pid, "shutdown"))
        twin.kernel.processes.start("/user/ada")
        new = await control(Messages.replay, found[0], to=target)
        assert new["address"] == f"/user/{target or 'ada'}"
        at = await twin.delivery()
        assert (at.message.id, at.message.text, at.message.sender) == (new["message"], "to ada", "operator")
        [entry] = await twin.entries("message.replayed")
        assert entry.body == {"id": found[0], "to": new["address"], "as": new["message"]}
        found.append(new["message"])

    async def after(twin: Twin) -> None:
        control = control_of(twin)
        with pytest.raises(Refused, match=f"{found[0]} was replayed as {found[1]} already; --again sends it"):
            await control(Messages.replay, found[0])
        assert await control(Messages.deadletters) == []
        [letter] = await control(Messages.deadletters, replayed=True)
        assert (letter["replays"], letter["replayed_as"]) == (1, found[1])
        await control(Messages.replay, found[0], again=True)
        assert (await control(Messages.deadletter, found[0]))["replays"] == 2
        tally = twin.kernel.state.tally
        assert tally.accepted == 4 == tally.acknowledged + tally.dead + tally.dropped + tally.in_flight

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_a_letter_that_cannot_be_sent_again_stays_as_it_was(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        ident = await one_dead(twin, control)
        twin.kernel.processes.stop("/user/ada")
        for to, error in (("", Refused), ("nobody", NotFound), ("ada@nowhere", NotFound)):
            with pytest.raises(error):
                await control(Messages.replay, ident, to=to)
        [letter] = await control(Messages.deadletters)
        assert (letter["id"], letter["replays"]) == (ident, 0)
        commands = [entry.body["operation"] for entry in await twin.entries("operator.command")]
        assert "replay" not in commands  # what is refused is no order

    on_control(tmp_path, body)


def test_a_letter_is_dropped_with_a_reason_and_counted(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        ident = await one_dead(twin, control)
        assert await control(Messages.drop, ident, "too old by now") == {"id": ident}
        [entry] = await twin.entries("message.dropped")
        assert entry.body == {"id": ident, "why": "too old by now", "by": "operator:1000"}
        assert await control(Messages.deadletters, replayed=True) == []
        counts = (await control(Node.status))["messages"]
        assert (counts["accepted"], counts["dead"], counts["dropped"], counts["archived"]) == (1, 0, 1, 0)
        with pytest.raises(NotFound, match=f"no dead letter {ident}"):
            await control(Messages.drop, ident, "again")

    on_control(tmp_path, body)


def test_the_oldest_that_make_room_are_counted_as_archived(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for _ in range(3):
            await one_dead(twin, control)
        counts = (await control(Node.status))["messages"]
        assert (counts["dead"], counts["dropped"], counts["archived"]) == (1, 2, 2)
        assert {entry.body["by"] for entry in await twin.entries("message.dropped")} == {"bound"}

    on_control(tmp_path, body, bounds=Bounds(dead_letters=1))


def test_status_says_when_many_wait_for_a_person_and_no_more_when_they_were_sent_again(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        first = await one_dead(twin, control)
        assert (await control(Node.status))["faults"] == []
        await one_dead(twin, control)
        assert (await control(Node.status))["faults"] == [
            "2 dead letters wait for a person: weftos deadletters list, then replay or drop them"
        ]
        await control(Messages.replay, first)
        assert (await control(Node.status))["faults"] == []

    on_control(tmp_path, body, bounds=Bounds(dead_letters_alert=2))


@pytest.mark.parametrize("kill", [False, True])
def test_each_way_to_die_has_a_word(tmp_path: Path, kill: bool) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        await control(Messages.send, "ada", "first")
        at = await twin.delivery()
        if kill:
            twin.crash(at)
            reason = "poison"
        else:
            await control(Messages.send, "ada", "late", expires_s=0.000_001)
            twin.finish(at)
            reason = "expired"
        await twin.entries("message.dead")
        [letter] = await control(Messages.deadletters)
        assert letter["reason"] == reason

    on_control(tmp_path, body, bounds=Bounds(turn_attempts=1))


def test_what_waits_for_a_stopped_process_is_dead_as_down(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        for text in ("first", "second"):
            await control(Messages.send, "ada", text)
        at = await twin.delivery()
        twin.kernel.processes.stop("/user/ada")
        twin.finish(at)
        [letter] = await control(Messages.deadletters)
        assert (letter["text"], letter["reason"]) == ("second", "down")

    on_control(tmp_path, body)


def test_what_became_of_a_letter_is_told_step_by_step(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin, archive=twin.archive.ask)
        await control(Spawning.spawn, "ada")
        sent = await control(Messages.send, "ada", "poison")
        pids = []
        for _ in range(2):
            at = await twin.delivery()
            pids.append(at.pid)
            twin.crash(at)
        await twin.entries("message.dead")
        ident = sent["message"]
        again = await control(Messages.replay, ident)
        await control(Messages.drop, ident, "seen")
        steps = await control(Messages.history, ident)  # it is no dead letter any more
        assert [(step["event"], step["pid"]) for step in steps] == [
            ("accepted", 0),
            ("delivered", pids[0]),
            ("receiver exited", pids[0]),
            ("delivered", pids[1]),
            ("receiver exited", pids[1]),
            ("turn ended", pids[1]),
            ("dead", 0),
            ("replayed", 0),
            ("dropped", 0),
        ]
        assert [step["detail"] for step in steps] == [
            "from operator to /user/ada",
            "attempt 1",
            "crash: the test said so",
            "attempt 2",
            "crash: the test said so",
            "poison",
            "poison: 2 incarnations crashed while handling it",
            f"as {again['message']}, to /user/ada",
            "seen (operator:1000)",
        ]
        assert [step["seq"] for step in steps] == sorted(step["seq"] for step in steps)
        with pytest.raises(NotFound, match="the ledger knows no message m999"):
            await control(Messages.history, "m999")
        with pytest.raises(Invalid, match="is no message: ids are m and a number"):
            await control(Messages.history, "t12")
        with pytest.raises(Unavailable, match="the archive cannot answer"):
            await control_of(twin)(Messages.history, ident)

    on_twin(tmp_path, body, bounds=Bounds(turn_attempts=2))


def test_what_is_erased_is_said_to_be_and_what_tells_of_nothing_is_left_out() -> None:
    row = {"kind": "message.accepted", "seq": 4, "pid": 0, "time_us": 9, "body": None}
    assert steps_of([row, {**row, "kind": "tool.intent"}]) == [
        {"event": "accepted", "detail": "what it says was erased", "pid": 0, "seq": 4, "time_us": 9}
    ]


def test_a_step_of_every_kind_is_made_of_what_its_entry_has() -> None:
    for kind in HISTORY_KINDS:
        body = dict.fromkeys(KINDS[kind].fields, "x")
        [step] = steps_of([{"kind": kind, "seq": 4, "pid": 0, "time_us": 9, "body": body}])
        assert step["event"] and step["detail"]
