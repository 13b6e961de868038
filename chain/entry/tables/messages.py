"""Kinds of messages and topics."""

from __future__ import annotations

from chain.entry.fields import BOOL, DIGEST, TEXT, TEXTS, TEXTS_OR_NIL, WHOLE
from chain.entry.kind import ADDRESS, MESSAGE, ORIGIN, kind

MESSAGES = (
    kind(
        "message.accepted",
        "a message is in its receiver's mailbox, and will be answered for; lazy only where a call of this node asks",
        durable=True,
        id=MESSAGE,
        sender=(TEXT, "address, or operator"),
        to=(TEXT, "address"),
        text=(TEXT, "text of the message"),
        session=(TEXT, "session it belongs to"),
        reply_to=(
            TEXT,
            "who waits for its answer: a call, TURN:ORDINAL, or a message, ID@ORIGIN; empty for nobody",
        ),
        wants_reply=(BOOL, "whether the sender waits for an answer"),
        deadline_us=(WHOLE, "microseconds since 1970 after which it is dead, 0 for none"),
        rights=(TEXTS_OR_NIL, "names of the tools the sender could use, nil for a person"),
        waiting=(TEXTS, "processes of other nodes that wait for its answer, ADDRESS@ORIGIN, the asker last"),
        kind=(
            TEXT,
            "message; publication, to a topic; down: what a monitor watched has ended, and sender, session and rights "
            "are those of the turn that set it; exit: the other one of a link has, and they are those of the turn that "
            "had exits trapped; budget: most or all of one is used up; not in older entries",
        ),
        topic=(TEXT, "what it was published to, else empty; not in older entries"),
        rate=(
            TEXT,
            "the sender that it counts for where its rate is limited, else empty; not in older entries",
        ),
        inbound=(
            TEXT,
            "JSON: its channel, chat, user and id there, options and attachments, as far as they were said; else "
            "empty; not in older entries",
        ),
    ),
    kind(
        "message.sent",
        "a message to another node was accepted for carriage, and will be answered for",
        durable=True,
        id=MESSAGE,
        sender=(TEXT, "address, or operator"),
        to=(TEXT, "PID, name or address as asked for, and @ORIGIN"),
        peer=ORIGIN,
        text=(TEXT, "text of the message"),
        session=(TEXT, "session it belongs to"),
        reply_to=(TEXT, "turn and ordinal of the ask that it is, empty for none"),
        wants_reply=(BOOL, "whether somebody waits for an answer"),
        deadline_us=(WHOLE, "microseconds since 1970 after which it is dead unless the node has taken it"),
        answer_by_us=(WHOLE, "microseconds since 1970 after which its answer is of no use, 0 for never"),
        rights=(TEXTS_OR_NIL, "names of the tools the sender could use, nil for a person"),
        waiting=(TEXTS, "processes that wait for its answer, ADDRESS@ORIGIN, the asker last"),
        answers=(TEXT, "message of that node which it answers, empty for none"),
        status=(TEXT, "of an answer: ok or error; else empty"),
    ),
    kind(
        "message.keyed",
        "it was sent under a key: what the same person or process sends again within a day is answered, and not sent",
        id=MESSAGE,
        key=(DIGEST, "SHA-256 of the key"),
        to=(TEXT, "address, and @ORIGIN of another node"),
        request=(DIGEST, "SHA-256 of the key and what was asked: target, session, text, how it came"),
        by=(TEXT, "address of the process, empty for a person; lacks in older entries"),
        status=(
            TEXT,
            "as what it ended already: ok for a command to the node; else empty; lacks in older entries",
        ),
    ),
    kind(
        "session.preferred",
        "a person said in a chat which model is to answer there from now on",
        durable=True,
        address=ADDRESS,
        provider=(TEXT, "a provider, empty for the one that is configured"),
        model=(TEXT, "a model, empty for what that provider has of itself, or what is configured"),
        by=(TEXT, "who said so, as the channel names them; empty for nobody in particular"),
        rate=(TEXT, "whom it counts for, as of message.accepted; lacks in older entries"),
    ),
    kind("message.acknowledged", "the other node has taken a message, durably", id=MESSAGE, peer=ORIGIN),
    kind(
        "message.replied",
        "the answer to a message that went to another node",
        durable=True,
        id=MESSAGE,
        peer=ORIGIN,
        status=(TEXT, "ok or error"),
        reply=(TEXT, "text of the reply"),
        reply_hash=(DIGEST, "SHA-256 of the whole reply"),
    ),
    kind(
        "message.unanswered",
        "a message that another node has taken gets no answer",
        id=MESSAGE,
        peer=ORIGIN,
        why=(TEXT, "why not"),
    ),
    kind(
        "message.refused",
        "a message was not accepted",
        to=(TEXT, "address as asked for"),
        sender=(TEXT, "address, or operator"),
        why=(TEXT, "what forbade it"),
    ),
    kind(
        "access.denied",
        "a user of a channel may not ask what he did; it is no message",
        user=(TEXT, "who, as the channel names him"),
        channel=(TEXT, "channel"),
        to=(TEXT, "address of the process"),
        reason=(TEXT, "what forbids it"),
        untold=(
            WHOLE,
            "denials since the entry before that have none of their own: there were too many in a minute",
        ),
    ),
    kind(
        "message.dead",
        "an accepted message could not be delivered",
        durable=True,
        id=MESSAGE,
        to=(TEXT, "address"),
        why=(TEXT, "why not"),
        reason=(
            TEXT,
            "the same in one word: down, expired, poison, diverged, undeliverable, overflow, gave_way, taken_back or "
            "other; not in older entries",
        ),
    ),
    kind(
        "message.replayed",
        "a dead letter was sent again",
        durable=True,
        id=MESSAGE,
        to=(TEXT, "where it was sent now; not in older entries"),
        **{"as": (TEXT, "id of the new message")},
    ),
    kind(
        "message.cancelled",
        "a message was taken back before it was handed out",
        durable=True,
        id=MESSAGE,
        to=(TEXT, "address"),
        why=(TEXT, "who did so, and why"),
    ),
    kind(
        "message.dropped",
        "a dead letter was discarded; its text stays in the entry that accepted it",
        id=MESSAGE,
        why=(TEXT, "why"),
        by=(
            TEXT,
            "bound (there were too many: the oldest is archived), operator:UID, policy (of a subscription), process "
            "(which took its monitor back) or erasure; not in older entries",
        ),
    ),
    kind(
        "topic.subscribed",
        "what is published to the topics of a pattern goes to a process, in its mailbox, from now on",
        durable=True,
        address=ADDRESS,
        pattern=(TEXT, "a topic, TOPIC.* or *"),
        overflow=(TEXT, "where its mailbox is full: back_pressure, dead_letter or drop_oldest"),
    ),
    kind(
        "topic.unsubscribed",
        "a subscription was taken back",
        durable=True,
        address=ADDRESS,
        pattern=(TEXT, "its pattern"),
    ),
    kind(
        "topic.published",
        "something was published; the messages that it became are the entries that name this one as their cause",
        topic=(TEXT, "its topic; empty for what was said to all below an address"),
        below=(TEXT, "that address; empty for what was published to a topic"),
        sender=(TEXT, "address, or operator"),
        accepted=(WHOLE, "how many messages it became, those among them that are dead letters too"),
        dead=(WHOLE, "how many of these became dead letters at once"),
        dropped=(WHOLE, "how many older publications gave way to it"),
        left_out=(
            WHOLE,
            "how many of those it was for did not get it: they are down, have no room, or may not be "
            "spoken to",
        ),
    ),
)
