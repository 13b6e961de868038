"""The slice of mailboxes: what waits for whom, what it holds, and what is left when it is gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernel.abi import Inbound, MessageOptions
from kernel.model.inbound import inbound_text
from kernel.slices.mailboxes import (
    ASKED_LATER_US,
    BESIDE_TEXTS_BYTES,
    KINDS_OF_MESSAGES,
    Mail,
    Mailboxes,
    message_id,
    origin_of,
    sent_by,
    size_of,
    turn_id,
)
from tests.kernel.slices.told import TRACE, Told
from tests.kernel.twins.records import message

WHOLE: dict[str, Any] = {
    "id": "m9", "sender": "/s", "to": "/a", "text": "x", "session": "n", "reply_to": "t1:0.0", "wants_reply": True,
    "deadline_us": 7, "rights": ["pay"], "waiting": ["/b@o"], "kind": "publication", "topic": "a.b",
}  # fmt: skip
OF_A_PEER: dict[str, Any] = {"peer": "o", "answers": "m3", "status": "ok", "answer_by_us": 8}
ENDINGS: list[tuple[str, dict[str, Any]]] = [
    ("message.dead", {"id": "m1", "why": "w"}),
    ("message.cancelled", {"id": "m1"}),
    ("turn.ended", {"turn": "t1", "status": "ok"}),
    ("turn.ended", {"turn": "t1", "status": "error"}),
    ("turn.ended", {"turn": "t1", "status": "cancelled"}),
]


def a_message(**more: Any) -> Mail:
    given: dict[str, Any] = {**WHOLE, "rights": frozenset(WHOLE["rights"]), "waiting": ("/b@o",), **more}
    return Mail(seq=1, trace=TRACE, time_us=1001, **given)


def kept(boxes: Mailboxes) -> Any:
    """Everything that is known of mail, beside the messages themselves."""
    return (
        {address: list(box) for address, box in boxes.items()},
        boxes.waits_for,
        boxes.box_bytes,
        boxes.origin_bytes,
        boxes.telemetry,
        boxes.messages,
        boxes.bytes,
    )


# -- a message -------------------------------------------------------------------------------------------------------


def test_an_accepted_message_has_all_that_was_said_of_it() -> None:
    told = Told()
    told.entry("message.accepted", **WHOLE)
    assert told.state.mail.find("m9") == a_message()


def test_a_message_to_another_node_has_what_that_node_is_to_know() -> None:
    told = Told()
    told.entry("message.sent", **{**WHOLE, **OF_A_PEER, "to": "/a@o"})
    assert told.state.find_mail("m9") == a_message(**OF_A_PEER, to="/a@o")


def test_a_message_of_before_there_were_kinds_and_topics_is_one_that_somebody_sent() -> None:
    told = Told()
    told.entry("message.accepted", **{name: WHOLE[name] for name in WHOLE if name not in ("kind", "topic")})
    assert told.state.mail.find("m9") == a_message(kind="message", topic="")


def test_a_person_who_sends_may_use_all_tools_and_an_empty_set_is_none_of_them() -> None:
    for rights, held in ((None, None), ([], frozenset())):
        told = Told()
        told.entry("message.accepted", **{**WHOLE, "rights": rights})
        assert told.state.mail["/a"]["m9"].rights == held


def test_the_size_of_a_message_is_that_of_all_its_texts_in_bytes() -> None:
    empty = a_message(sender="", text="", session="", reply_to="", rights=None, waiting=())
    assert size_of(empty) == BESIDE_TEXTS_BYTES
    texts = {"text": "é\ud800", "sender": "ab", "session": "abc", "reply_to": "abcd", "answers": "é"}
    full = a_message(**texts, rights=frozenset({"abcdefg", "h"}), waiting=("ab", "é"))
    assert (
        size_of(full) == full.size_bytes == BESIDE_TEXTS_BYTES + (2 + 3) + 2 + 3 + 4 + 2 + (7 + 1) + (2 + 2)
    )


def test_a_sender_has_sent_what_he_said_himself_and_pays_for_all_but_warnings_of_budgets() -> None:
    kinds = {kind: a_message(kind=kind) for kind in KINDS_OF_MESSAGES}
    assert {kind for kind, mail in kinds.items() if sent_by(mail) == "/s"} == {"message", "publication"}
    assert {kind for kind, mail in kinds.items() if sent_by(mail) == ""} == {"down", "exit", "budget"}
    assert {kind for kind, mail in kinds.items() if mail.payer != "/s"} == {"budget"}


def test_the_origin_of_a_message_is_the_node_behind_the_last_at_sign() -> None:
    assert [origin_of(sender) for sender in ("/a", "/a@o", "x@y@o", "operator")] == ["", "o", "o", ""]


def test_a_turn_and_its_message_are_named_by_one_number() -> None:
    assert (turn_id("m12"), message_id("t12")) == ("t12", "m12")


# -- mailboxes -------------------------------------------------------------------------------------------------------


def test_a_mailbox_has_its_messages_oldest_first_and_no_other_ones() -> None:
    told = Told()
    told.message(5)
    told.message(3)
    told.message(4, "/b")
    boxes = told.state.mail
    assert {address: list(box) for address, box in boxes.items()} == {"/a": ["m5", "m3"], "/b": ["m4"]}
    assert (boxes.find("m4"), boxes.find("m6"), boxes.messages) == (boxes["/b"]["m4"], None, 3)


def test_bytes_are_counted_by_mailbox_and_by_origin() -> None:
    told = Told()
    told.message(1, text="x" * 10)
    told.message(2, "/b", sender="/c@o", text="y" * 20)
    told.message(3, "/b", sender="/d@o")
    one, two, three = (told.state.find_mail(f"m{ident}") for ident in (1, 2, 3))
    assert one and two and three
    assert told.state.mail.box_bytes == {"/a": one.size_bytes, "/b": two.size_bytes + three.size_bytes}
    assert told.state.mail.origin_bytes == {"": one.size_bytes, "o": two.size_bytes + three.size_bytes}
    assert told.state.mail.bytes == one.size_bytes + two.size_bytes + three.size_bytes
    told.entry("message.cancelled", id="m2")
    assert told.state.mail.box_bytes == {"/a": one.size_bytes, "/b": three.size_bytes}
    assert told.state.mail.origin_bytes == {"": one.size_bytes, "o": three.size_bytes}


def test_who_asked_waits_for_whom_he_asked_as_often_as_he_did() -> None:
    told = Told()
    told.message(1, sender="/q", reply_to="t9:0.0")
    told.message(2, sender="/q", reply_to="t9:0.1")
    told.message(3, "/b", sender="/q", reply_to="t9:0.2")
    told.message(4, "/b", sender="/q")
    assert told.state.mail.waits_for == {"/q": {"/a": 2, "/b": 1}}
    told.entry("message.cancelled", id="m1")
    assert told.state.mail.waits_for == {"/q": {"/a": 1, "/b": 1}}
    told.entry("message.cancelled", id="m2")
    told.entry("message.cancelled", id="m4")
    assert told.state.mail.waits_for == {"/q": {"/b": 1}}
    told.entry("message.cancelled", id="m3")
    assert told.state.mail.waits_for == {}


def test_who_asks_here_is_told_first_that_the_time_for_a_message_is_over() -> None:
    told = Told()
    told.message(1, deadline_us=7)
    told.message(2, deadline_us=5, reply_to="t9:0.0")
    told.message(3, deadline_us=6, reply_to="t9:0.0@o")
    told.message(4)
    assert [told.state.mail.deadlines.first(), len(told.state.mail.deadlines)] == [(6, "m3"), 3]
    told.entry("message.cancelled", id="m3")
    assert told.state.mail.deadlines.first() == (7, "m1")
    told.entry("message.dead", id="m1", why="w")
    assert told.state.mail.deadlines.first() == (5 + ASKED_LATER_US, "m2")


def test_a_message_whose_turn_has_begun_has_no_time_any_more_also_after_a_restart() -> None:
    told = Told()
    told.message(1, deadline_us=7)
    told.message(2, deadline_us=8)
    told.turn(1)
    for state in (told.state, told.restored()):
        assert (state.mail.deadlines.first(), len(state.mail.deadlines)) == ((8, "m2"), 1)


def test_messages_that_have_joined_a_turn_are_in_no_mailbox() -> None:
    told = Told()
    for ident in (1, 2, 3):
        told.message(ident)
    told.turn(1)
    told.entry("turn.steered", turn="t1", ordinal="0.0", call_hash="h", messages=["m2"], texts='["x"]')
    assert list(told.state.mail["/a"]) == ["m1", "m3"]


def test_publications_to_telemetry_topics_stand_in_their_mailbox_oldest_first() -> None:
    told = Told()
    for ident, topic in ((4, "telemetry.load"), (3, "telemetry"), (2, "orders"), (1, "")):
        told.message(ident, kind="publication", topic=topic)
    told.message(6, "/b", kind="publication", topic="telemetry.load")
    assert {to: list(box) for to, box in told.state.mail.telemetry.items()} == {
        "/a": ["m4", "m3"],
        "/b": ["m6"],
    }
    for ident in (6, 4, 2):
        told.entry("message.cancelled", id=f"m{ident}")
    assert told.state.mail.telemetry == {"/a": {"m3": None}}


@pytest.mark.parametrize(("kind", "body"), ENDINGS)
def test_nothing_is_left_of_a_message_that_is_dead_taken_back_or_answered(
    kind: str, body: dict[str, Any]
) -> None:
    told = Told()
    told.message(2, "/b")
    before = kept(told.restored().mail)
    told.message(1, sender="/q@o", reply_to="t9:0.0", kind="publication", topic="telemetry.load")
    told.turn(1)
    assert kept(told.state.mail) != before
    told.entry(kind, **body)
    assert kept(told.state.mail) == before
    assert told.state.mail.find("m1") is None
    told.entry(kind, **body)
    assert kept(told.state.mail) == before, "said once more"


@pytest.mark.parametrize("status", ["diverged", "poison"])
def test_a_message_whose_turn_came_to_no_end_waits_to_be_made_a_dead_letter(status: str) -> None:
    told = Told()
    told.message(1)
    told.turn(1)
    told.entry("turn.ended", turn="t1", status=status)
    assert told.state.mail.find("m1") is not None


def test_a_snapshot_has_all_mail_in_its_order() -> None:
    told = Told()
    told.entry("message.accepted", **WHOLE)
    told.message(3, sender="/c@o", rights=None)
    told.message(2, "/b", topic="telemetry.load")
    told.entry("message.cancelled", id="m3")
    told.message(4)
    again = told.restored().mail
    assert kept(again) == kept(told.state.mail)
    assert [again.find(ident) for ident in ("m9", "m2", "m4")] == [
        told.state.mail.find(ident) for ident in ("m9", "m2", "m4")
    ]


def test_rows_of_earlier_formats_are_messages_that_somebody_sent_to_no_topic_and_that_came_no_way() -> None:
    told = Told()
    told.entry("message.accepted", **message(1, "/a"))
    [row] = told.state.mail.rows()
    assert Mailboxes.MIGRATIONS[1]([row[:-3]]) == [row[:-2]]
    assert Mailboxes.MIGRATIONS[2]([row[:-2]]) == [row[:-1]]
    assert Mailboxes.MIGRATIONS[3]([row[:-1]]) == [row]


def test_how_a_message_came_is_kept_with_it_counts_with_it_and_outlasts_a_snapshot() -> None:
    told = Told()
    came = Inbound("telegram", "42", "bob", "7", MessageOptions(temperature=0.5))
    told.entry("message.accepted", **message(1, "/a", inbound=inbound_text(came)))
    mail = told.state.mail.find("m1")
    assert mail is not None
    assert mail.inbound == came
    assert told.restored().mail.find("m1") == mail
    assert told.state.mail.bytes == size_of(replace(mail, inbound=None)) + len(inbound_text(came))
    letter = told.entry("message.dead", id="m1", why="w")
    assert told.restored().dead["m1"].mail.inbound == came, letter
