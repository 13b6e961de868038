"""Which process a chat's session is, what it is made of, and which has to go for another one."""

from __future__ import annotations

from itertools import combinations

import pytest

from kernel.message.chats import Room, Seen, is_asleep, process_name, room, session_spec
from kernel.model.address import validate_name
from kernel.model.spec import ProcessSpec
from kernel.operations.rights.budgets import Budget
from kernel.slices.tree.slots import Slot

KEYS = [
    "telegram:42", "telegram:-42", "telegram:4.2", "telegram:..", "telegram:@bob:matrix.org", "tele:gram:42",
    "telegram-4:2", "telegram:4-2", "telegram:" + "x" * 128, "telegram:" + "x" * 127, "telegram:Бob", "telegram:об",
    "a:b", "a:b-", "a:b.", "a" * 32 + ":" + "1" * 31, "a" * 32 + ":" + "1" * 32, "a:B",
]  # fmt: skip


def test_a_key_that_can_be_read_is_the_name_and_another_has_a_hash() -> None:
    assert process_name("telegram:-42") == "telegram.-42"
    assert process_name("matrix:!room:example.org").startswith("matrix..roomexam-")
    assert process_name("x:об").startswith("x..")


@pytest.mark.parametrize("key", KEYS)
def test_every_key_comes_to_a_name_that_a_process_may_have(key: str) -> None:
    assert validate_name(process_name(key)) == process_name(key)


def test_no_two_keys_come_to_one_name() -> None:
    for one, other in combinations(KEYS, 2):
        assert process_name(one) != process_name(other), (one, other)


def test_a_session_is_all_that_its_agent_is_and_spends_what_that_has() -> None:
    agent = ProcessSpec(
        "ada",
        tools=("ask",),
        config={"model": "m"},
        budget=Budget(tokens=9),
        significant=True,
        restart="transient",
    )
    made = session_spec(agent, "telegram:42")
    assert (made.name, made.session, made.restart) == ("telegram.42", "telegram:42", "permanent")
    assert (made.tools, made.config, made.budget, made.significant) == (("ask",), {"model": "m"}, None, False)
    assert made.check() == []
    assert ProcessSpec.from_json(made.to_json()) == made


def test_only_a_session_that_fell_asleep_is_woken() -> None:
    spec = session_spec(ProcessSpec("ada"), "telegram:42")
    slot = Slot("/user/ada/telegram.42", "/user/ada", spec, 1, state="stopped", why="idle")
    assert is_asleep(slot)
    for name, value in (("why", "stop"), ("state", "parked"), ("spec", ProcessSpec("telegram.42"))):
        other = Slot(**{**{each: getattr(slot, each) for each in slot.__slots__}, name: value})
        assert not is_asleep(other)


BUSY, IDLE, OLDER = (
    Seen("/busy", True, True, 0),
    Seen("/idle", True, False, 9),
    Seen("/older", True, False, 3),
)
ASLEEP, LONGER = Seen("/asleep", False, False, 8), Seen("/longer", False, False, 2)
PARKED = Seen("/parked", False, True, 0)


@pytest.mark.parametrize(
    ("seen", "running", "kept", "found"),
    [
        ([], 1, 1, Room()),
        ([BUSY], 2, 2, Room()),
        ([BUSY, IDLE, OLDER], 3, None, Room(sleeps="/older")),
        ([BUSY, IDLE, OLDER], 4, None, Room()),
        ([BUSY, BUSY], 2, 9, Room(why="2 sessions are busy, the limit of one agent")),
        ([ASLEEP, LONGER, BUSY], 2, 3, Room(goes="/longer")),
        ([ASLEEP, LONGER, IDLE], 1, 3, Room(sleeps="/idle", goes="/longer")),
        ([ASLEEP, LONGER, BUSY], 2, None, Room()),
        (
            [PARKED, BUSY],
            2,
            2,
            Room(why="it has 2 sessions, the limit of one agent, and none of them is asleep"),
        ),
    ],
)
def test_who_makes_room_is_idle_or_asleep_the_longest_and_nobody_who_is_busy(
    seen: list[Seen], running: int, kept: int | None, found: Room
) -> None:
    assert room(seen, running, kept) == found
