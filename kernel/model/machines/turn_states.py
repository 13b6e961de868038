"""The turn: what may happen to the handling of one message, and in which order.

What is recorded is *open* or *parked*. Two more things are true of an open turn while the node runs, and follow from
elsewhere: it is **in doubt** while one of its calls is (:mod:`kernel.model.machines.call_states`), and its process is
suspended meanwhile; it is **ending** from its end until the disk has taken that (:mod:`kernel.process.ends`).
"""

from __future__ import annotations

from enum import StrEnum

from kernel.model.machines.machine import By, Events, Table


class TurnState(StrEnum):
    ABSENT = "absent"
    OPEN = "open"
    PARKED = "parked"


class TurnEvent(StrEnum):
    START = "start"
    CRASH = "crash"
    LOSE = "lose"
    DIVERGE = "diverge"
    AGAIN = "again"
    ACCEPT = "accept"
    GIVE_UP = "give up"
    END = "end"
    FAIL = "fail"
    DEAD_LETTER = "dead letter"


TURN_TABLE: Table[TurnState, TurnEvent] = {
    TurnState.ABSENT: {TurnEvent.START: TurnState.OPEN},
    TurnState.OPEN: {
        TurnEvent.START: TurnState.OPEN,
        TurnEvent.CRASH: TurnState.OPEN,
        TurnEvent.LOSE: TurnState.OPEN,
        TurnEvent.DIVERGE: TurnState.PARKED,
        TurnEvent.END: TurnState.ABSENT,
        TurnEvent.FAIL: TurnState.ABSENT,
        TurnEvent.DEAD_LETTER: TurnState.ABSENT,
    },
    TurnState.PARKED: {
        TurnEvent.CRASH: TurnState.PARKED,
        TurnEvent.AGAIN: TurnState.OPEN,
        TurnEvent.ACCEPT: TurnState.OPEN,
        TurnEvent.GIVE_UP: TurnState.OPEN,
        TurnEvent.END: TurnState.ABSENT,
        TurnEvent.FAIL: TurnState.ABSENT,
        TurnEvent.DEAD_LETTER: TurnState.ABSENT,
    },
}

TURN_EVENTS: Events[TurnEvent] = {
    "turn.started": TurnEvent.START,
    "turn.diverged": TurnEvent.DIVERGE,
    "turn.decided": By(
        "decision", {"again": TurnEvent.AGAIN, "accept": TurnEvent.ACCEPT, "dead": TurnEvent.GIVE_UP}
    ),
    "turn.ended": By(
        "status",
        {
            "ok": TurnEvent.END,
            "error": TurnEvent.END,
            "cancelled": TurnEvent.END,
            "diverged": TurnEvent.FAIL,
            "poison": TurnEvent.FAIL,
        },
    ),
    "message.dead": TurnEvent.DEAD_LETTER,
    "process.exited": By(
        "reason",
        {
            **dict.fromkeys(
                ("crash", "timeout", "no_progress", "refused", "diverged", "budget"), TurnEvent.CRASH
            ),
            "cell_lost": TurnEvent.LOSE,
        },
    ),
}

TURN_MEANINGS: dict[TurnState | TurnEvent, str] = {
    TurnState.ABSENT: "not begun, or ended: its message waits in the mailbox, or is answered or dead",
    TurnState.OPEN: "an incarnation handles the message, or the next one will be handed it as the same turn",
    TurnState.PARKED: "it diverged: it waits for a person, and its mailbox behind it",
    TurnEvent.START: "the message is handed out, for the first time or again",
    TurnEvent.CRASH: "the incarnation that ran it died of it, or ended in it for a logical reason",
    TurnEvent.LOSE: "the cell died under the incarnation that ran it, and nobody is known to blame",
    TurnEvent.DIVERGE: "resumed, it asked something else than before",
    TurnEvent.AGAIN: "a person: hand it out once more",
    TurnEvent.ACCEPT: "a person: the new call stands, what was recorded from there on is forgotten",
    TurnEvent.GIVE_UP: "a person: its message is to be a dead letter",
    TurnEvent.END: "it came to an end, which answers its message",
    TurnEvent.FAIL: "it came to no end: its message becomes a dead letter",
    TurnEvent.DEAD_LETTER: "its message became a dead letter",
}

TURN_GUARDS: dict[TurnEvent, str] = {
    TurnEvent.START: "its message is in the mailbox of the address",
    TurnEvent.CRASH: "it is the turn of the oldest message of the address that has begun",
    TurnEvent.LOSE: "the entry names the turn",
}
