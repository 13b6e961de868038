"""The call: what may happen to one syscall of a turn, and in which order.

A tool call is proposed; the gates allow it or it ends at once, *denied*. An intent says that it is about to be made,
and from then on it counts as under way, whether it has been handed over or not. It ends with its outcome. While it has
an intent and no outcome it may be **in doubt**, and is then decided by a person, or done again as its tool's policy
says.
"""

from __future__ import annotations

from enum import StrEnum

from kernel.model.machines.machine import By, Events, Table


class CallState(StrEnum):
    ABSENT = "absent"
    ASKED = "asked"
    PROPOSED = "proposed"
    UNDER_WAY = "under way"
    IN_DOUBT = "in doubt"
    ENDED = "ended"


class CallEvent(StrEnum):
    ASK = "ask"
    ANSWER = "answer"
    GIVE = "give"
    PROPOSE = "propose"
    INTEND = "intend"
    DOUBT = "doubt"
    END = "end"
    RETRY = "retry"
    DECIDE = "decide"
    FORGET = "forget"


CALL_TABLE: Table[CallState, CallEvent] = {
    CallState.ABSENT: {
        CallEvent.ASK: CallState.ASKED,
        CallEvent.GIVE: CallState.ENDED,
        CallEvent.PROPOSE: CallState.PROPOSED,
    },
    CallState.ASKED: {
        CallEvent.ASK: CallState.ASKED,
        CallEvent.ANSWER: CallState.ENDED,
        CallEvent.FORGET: CallState.ABSENT,
    },
    CallState.PROPOSED: {
        CallEvent.INTEND: CallState.UNDER_WAY,
        CallEvent.END: CallState.ENDED,
        CallEvent.FORGET: CallState.ABSENT,
    },
    CallState.UNDER_WAY: {
        CallEvent.INTEND: CallState.UNDER_WAY,
        CallEvent.DOUBT: CallState.IN_DOUBT,
        CallEvent.END: CallState.ENDED,
        CallEvent.RETRY: CallState.PROPOSED,
        CallEvent.DECIDE: CallState.UNDER_WAY,
        CallEvent.FORGET: CallState.ABSENT,
    },
    CallState.IN_DOUBT: {
        CallEvent.INTEND: CallState.UNDER_WAY,
        CallEvent.DOUBT: CallState.IN_DOUBT,
        CallEvent.END: CallState.ENDED,
        CallEvent.RETRY: CallState.PROPOSED,
        CallEvent.DECIDE: CallState.UNDER_WAY,
        CallEvent.FORGET: CallState.ABSENT,
    },
    CallState.ENDED: {CallEvent.FORGET: CallState.ABSENT},
}

CALL_EVENTS: Events[CallEvent] = {
    "model.asked": CallEvent.ASK,
    "model.answered": CallEvent.ANSWER,
    "sys.value": CallEvent.GIVE,
    "model.quoted": CallEvent.GIVE,
    "sys.files": CallEvent.GIVE,
    "turn.steered": CallEvent.GIVE,
    "sys.compaction": CallEvent.GIVE,
    "monitor.set": CallEvent.GIVE,
    "monitor.removed": CallEvent.GIVE,
    "monitor.traps": CallEvent.GIVE,
    "tool.proposed": CallEvent.PROPOSE,
    "tool.intent": CallEvent.INTEND,
    "tool.outcome": By(
        "status",
        {
            **dict.fromkeys(("ok", "error", "timeout", "killed", "denied", "lost"), CallEvent.END),
            "in_doubt": CallEvent.DOUBT,
        },
    ),
    "tool.resolved": By(
        "resolution", {"retry": CallEvent.RETRY, "done": CallEvent.DECIDE, "lost": CallEvent.DECIDE}
    ),
    "turn.decided": By("decision", {"accept": CallEvent.FORGET}),
}

CALL_MEANINGS: dict[CallState | CallEvent, str] = {
    CallState.ABSENT: "not asked for, or forgotten",
    CallState.ASKED: "a model was asked and has not answered",
    CallState.PROPOSED: "a tool call was asked for; nothing has been begun",
    CallState.UNDER_WAY: "its intent is recorded, so it may have been made",
    CallState.IN_DOUBT: "it is not known what became of it: a person must say",
    CallState.ENDED: "it has an outcome, which every later asking is answered with",
    CallEvent.ASK: "a model is asked; asked again after a crash that came before the answer",
    CallEvent.ANSWER: "the model answered, or failed",
    CallEvent.GIVE: "a value, a quote or files were given, a monitor or link was set, refused or taken back",
    CallEvent.PROPOSE: "a process asks for a tool call",
    CallEvent.INTEND: "the node is about to make it; again: another attempt, the one before stays unsettled",
    CallEvent.DOUBT: "it is not known whether it was done",
    CallEvent.END: "what came of it is known; denied, when nothing was begun",
    CallEvent.RETRY: "that attempt is settled, and another one is due",
    CallEvent.DECIDE: "a person said what became of it; the outcome follows",
    CallEvent.FORGET: "a person let the turn go on with another call in its place",
}

CALL_GUARDS: dict[CallEvent, str] = {
    **dict.fromkeys(
        (CallEvent.ASK, CallEvent.ANSWER, CallEvent.GIVE, CallEvent.PROPOSE, CallEvent.INTEND),
        "its turn is open",
    ),
    CallEvent.DOUBT: "it says so of the newest attempt",
    CallEvent.END: "it is the outcome of the newest attempt",
    CallEvent.FORGET: "its turn is parked, and the call is not before the one at which that diverged",
}
