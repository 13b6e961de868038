"""The one table of ledger kinds: what each entry means, what its body holds, and whether its writer waits.

Kinds are dotted: a noun, then a verb. Bodies are flat maps; every field is present in every entry of its kind, with the
type of its row (:mod:`chain.entry.fields`). ``docs/ledger-kinds.md`` tells the same at length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from chain.entry.fields import (
    BOOL,
    BYTES,
    DIGEST,
    JSON,
    NUMBER,
    RANGES,
    TEXT,
    TEXTS,
    TEXTS_OR_NIL,
    WHOLE,
    WHOLES,
    Field,
    Fields,
    Type,
)


@dataclass(frozen=True, slots=True)
class Kind:
    """``fields``: what each field of the body is, and what it means. ``durable``: it is written to the disk at once,
    unless ``lazy_when`` says of its body that nobody outside the node hears of it before of something that is.
    """

    name: str
    meaning: str
    fields: Mapping[str, Field]
    durable: bool
    lazy_when: Callable[[Mapping[str, Any]], bool] | None = None

    def is_durable(self, body: Mapping[str, Any]) -> bool:
        """Whether an entry with ``body`` is written to the disk at once, with all before it."""
        return self.durable and not (self.lazy_when is not None and self.lazy_when(body))

    def check(self, body: Mapping[str, Any]) -> list[str]:
        """Every field that ``body`` lacks, has too many, or has with another type than its own, in words."""
        lacking = [f"{self.name} lacks the field {name}" for name in self.fields if name not in body]
        unknown = [f"{self.name} has no field {name}" for name in body if name not in self.fields]
        return [*lacking, *unknown, *self.mistyped(body)]

    def mistyped(self, body: Mapping[str, Any]) -> list[str]:
        """Every field of ``body`` that has another type than its own, in words."""
        return [
            f"{self.name}: {name} is {type(body[name]).__name__}, must be {field.type.words}"
            for name, field in self.fields.items()
            if name in body and not field.type.holds(body[name])
        ]


def _kind(name: str, meaning: str, /, *, durable: bool = False, **fields: tuple[Type, str]) -> Kind:
    return Kind(name, meaning, MappingProxyType({key: Field(*row) for key, row in fields.items()}), durable)


_TURN = TEXT, "id of the turn"
_ORDINAL = TEXT, "round and index of the syscall in its turn"
_CALL_HASH = DIGEST, "SHA-256 of the canonical call"
_ADDRESS = TEXT, "address of the process"
_MESSAGE = TEXT, "id of the message"
_ORIGIN = TEXT, "true name of the other node"

_TABLE = (
    _kind(
        "node.booted",
        "the node has recovered and starts its processes; then it listens",
        durable=True,
        boot=(TEXT, "boot id, 16 hexadecimal digits"),
        version=(TEXT, "version of weftos"),
        engine=(TEXT, "ray or local"),
        name=(TEXT, "petname of the node"),
        origin=(TEXT, "true name of the node"),
        ed25519=(TEXT, "verifier key"),
        ml_dsa_65=(TEXT, "verifier key"),
        recovered_groups=(WHOLE, "groups replayed from the journal"),
        torn_bytes=(WHOLE, "bytes of an incomplete last group that were cut off"),
        configuration=(DIGEST, "SHA-256 of the settings in force, as canonical JSON"),
        peers=(DIGEST, "SHA-256 of the peers' rights, as canonical JSON"),
        changed=(TEXT, "which of the two are not those of the boot before"),
    ),
    _kind(
        "state.accepted",
        "a person has accepted state that the node's keys had not signed, or that entries contradict; from here on "
        "it is bound by the signatures again",
        durable=True,
        reason=(TEXT, "why, in that person's words"),
        uid=(WHOLE, "user id of that person"),
        what=(TEXTS, "what was found, each with its place, and how many more there are"),
        contradicted=(WHOLES, "entries that the state contradicts, by their numbers"),
    ),
    _kind(
        "node.stopped",
        "the node stopped cleanly",
        durable=True,
        boot=(TEXT, "boot id, 16 hexadecimal digits"),
        reason=(TEXT, "why it stopped"),
    ),
    _kind(
        "node.disk_full",
        "the disk is full: the node is read-only until there is room",
        durable=True,
        why=(TEXT, "what the disk said"),
    ),
    _kind(
        "node.unrecorded",
        "something happened that no record could be made of; what came after it is recorded",
        kinds=(TEXT, "kinds of the records that were left out"),
        why=(TEXT, "what was wrong with them"),
    ),
    _kind(
        "node.clock",
        "the machine's clock and the node's differ, by more or less than before; the node's never jumps",
        ahead_us=(WHOLE, "microseconds by which the machine's is ahead, below 0 when it is behind"),
    ),
    _kind(
        "node.reconciled",
        "the process table, the cells and the operating system did not agree, in two looks; it is repaired now",
        what=(TEXT, "ghost, orphan, orphan cell, lost cell or orphan process"),
        of=(TEXT, "PID, name of the cell, or id of the operating system's process"),
        why=(TEXT, "what was found, in words"),
    ),
    _kind("node.disk_free", "the disk has room again: the node goes on", durable=True),
    _kind(
        "operator.command",
        "a person gave a command over the control socket",
        uid=(WHOLE, "user id of the peer"),
        os_pid=(WHOLE, "operating system process id of the peer"),
        operation=(TEXT, "name of the operation"),
        arguments=(JSON, "JSON, never a secret"),
    ),
    _kind(
        "process.spawned",
        "a child slot was created; lazy only where an application made it, whose apply waits for all of them",
        durable=True,
        address=_ADDRESS,
        parent=(TEXT, "address of its supervisor"),
        spec=(JSON, "JSON of the spawn request"),
        made_by=(TEXT, "operator, agent, peer:ORIGIN or app:NAME; not in older entries"),
    ),
    _kind(
        "process.changed",
        "what a child slot is kept as was changed while it is there; no process was touched",
        durable=True,
        address=_ADDRESS,
        spec=(JSON, "JSON of the whole specification, as it is from now on"),
        fields=(TEXTS, "names of the fields of it that are others now"),
    ),
    _kind(
        "process.started",
        "an incarnation runs, and with it its slot, unless that is stopped or parked",
        address=_ADDRESS,
        pid=(WHOLE, "its PID"),
        cell=(TEXT, "name of its cell, empty without one"),
    ),
    _kind(
        "process.exited",
        "an incarnation ended",
        address=_ADDRESS,
        pid=(WHOLE, "its PID"),
        reason=(TEXT, "exit reason"),
        detail=(TEXT, "one bounded line"),
        turn=(
            TEXT,
            "the turn that it was in, of cell_lost only with nobody known to blame; else empty; not in older entries",
        ),
    ),
    _kind(
        "process.felled",
        "a process took down the cell that it shared with others",
        address=_ADDRESS,
        pid=(WHOLE, "its PID"),
        cell=(TEXT, "name of the cell"),
        reason=(TEXT, "exit reason: crash, or timeout when it held the cell"),
        times=(WHOLE, "how many cells it has taken down by now"),
        isolated=(BOOL, "whether it is in no cell with any that is not, from its next start on"),
    ),
    _kind(
        "process.ending",
        "the end of a supervisor, which has begun and takes its time, will leave its slot stopped: a node that is "
        "killed in between begins with it so",
        address=_ADDRESS,
        stops=(BOOL, "whether it will; false: it was said, and it will not after all"),
    ),
    _kind(
        "process.slot",
        "a child slot changed its state",
        address=_ADDRESS,
        state=(
            TEXT,
            "running (started by hand; in older entries after each start), restarting, parked, stopped or removed",
        ),
        why=(TEXT, "what changed it"),
    ),
    _kind(
        "process.suspended",
        "a person has a process begin no turn from now on, also in incarnations to come: its messages wait",
        durable=True,
        address=_ADDRESS,
        by=(TEXT, "who"),
    ),
    _kind(
        "process.resumed",
        "a person has a suspended process go on",
        durable=True,
        address=_ADDRESS,
        by=(TEXT, "who"),
    ),
    _kind(
        "message.accepted",
        "a message is in its receiver's mailbox, and will be answered for; lazy only where a call of this node asks",
        durable=True,
        id=_MESSAGE,
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
    ),
    _kind(
        "message.sent",
        "a message to another node was accepted for carriage, and will be answered for",
        durable=True,
        id=_MESSAGE,
        sender=(TEXT, "address, or operator"),
        to=(TEXT, "PID, name or address as asked for, and @ORIGIN"),
        peer=_ORIGIN,
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
    _kind(
        "message.keyed",
        "it was sent under a key: what the same person or process sends again within a day is answered, and not sent",
        id=_MESSAGE,
        key=(DIGEST, "SHA-256 of the key"),
        to=(TEXT, "address, and @ORIGIN of another node"),
        request=(DIGEST, "SHA-256 of the key and what was asked: target, session, text"),
        by=(TEXT, "address of the process, empty for a person; lacks in older entries"),
    ),
    _kind("message.acknowledged", "the other node has taken a message, durably", id=_MESSAGE, peer=_ORIGIN),
    _kind(
        "message.replied",
        "the answer to a message that went to another node",
        durable=True,
        id=_MESSAGE,
        peer=_ORIGIN,
        status=(TEXT, "ok or error"),
        reply=(TEXT, "text of the reply"),
        reply_hash=(DIGEST, "SHA-256 of the whole reply"),
    ),
    _kind(
        "message.unanswered",
        "a message that another node has taken gets no answer",
        id=_MESSAGE,
        peer=_ORIGIN,
        why=(TEXT, "why not"),
    ),
    _kind(
        "message.refused",
        "a message was not accepted",
        to=(TEXT, "address as asked for"),
        sender=(TEXT, "address, or operator"),
        why=(TEXT, "what forbade it"),
    ),
    _kind(
        "message.dead",
        "an accepted message could not be delivered",
        durable=True,
        id=_MESSAGE,
        to=(TEXT, "address"),
        why=(TEXT, "why not"),
        reason=(
            TEXT,
            "the same in one word: down, expired, poison, diverged, undeliverable, overflow, gave_way, taken_back or "
            "other; not in older entries",
        ),
    ),
    _kind(
        "message.replayed",
        "a dead letter was sent again",
        durable=True,
        id=_MESSAGE,
        to=(TEXT, "where it was sent now; not in older entries"),
        **{"as": (TEXT, "id of the new message")},
    ),
    _kind(
        "message.cancelled",
        "a message was taken back before it was handed out",
        durable=True,
        id=_MESSAGE,
        to=(TEXT, "address"),
        why=(TEXT, "who did so, and why"),
    ),
    _kind(
        "message.dropped",
        "a dead letter was discarded; its text stays in the entry that accepted it",
        id=_MESSAGE,
        why=(TEXT, "why"),
        by=(
            TEXT,
            "bound (there were too many: the oldest is archived), operator:UID, policy (of a subscription), process "
            "(which took its monitor back) or erasure; not in older entries",
        ),
    ),
    _kind(
        "topic.subscribed",
        "what is published to the topics of a pattern goes to a process, in its mailbox, from now on",
        durable=True,
        address=_ADDRESS,
        pattern=(TEXT, "a topic, TOPIC.* or *"),
        overflow=(TEXT, "where its mailbox is full: back_pressure, dead_letter or drop_oldest"),
    ),
    _kind(
        "topic.unsubscribed",
        "a subscription was taken back",
        durable=True,
        address=_ADDRESS,
        pattern=(TEXT, "its pattern"),
    ),
    _kind(
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
    _kind(
        "turn.started",
        "the handling of a message began, or began again after a crash",
        turn=_TURN,
        message=_MESSAGE,
        address=_ADDRESS,
        session=(TEXT, "session it belongs to"),
        attempt=(WHOLE, "1 for the first time"),
        config=(
            JSON,
            "JSON of what the node's configuration tells the behaviour; that of attempt 1 goes for all",
        ),
        result_bytes=(
            WHOLE,
            "how much of a tool's result the process is handed; that of attempt 1 goes for all",
        ),
        ends=(WHOLE, "of how many ends of those that were handed it before the process is told"),
    ),
    _kind(
        "turn.ended",
        "the handling of a message ended; lazy only where that answers a call of this node",
        durable=True,
        turn=_TURN,
        status=(TEXT, "ok, error, cancelled, diverged (a person gave it up) or poison"),
        reply=(TEXT, "text of the reply"),
        reply_hash=(DIGEST, "SHA-256 of the whole reply"),
        call=(TEXT, "call of this node that it answers, TURN:ORDINAL, empty for none; not in older entries"),
        stages=(
            JSON,
            "JSON of the steps that the behaviour tells of: [stage, outcome, why, microseconds]; not in older entries",
        ),
    ),
    _kind(
        "turn.diverged",
        "a resumed turn asked something else than before: it is parked until a person decides",
        durable=True,
        turn=_TURN,
        ordinal=_ORDINAL,
        recorded=(JSON, "JSON of the call that is recorded: op, name, arguments (bounded), seq, outcome"),
        asked=(JSON, "JSON of the call that was made instead: op, name, arguments (bounded)"),
    ),
    _kind(
        "turn.differed",
        "a turn that was gone through once more, to check it, did not do the same: its behaviour is not deterministic",
        turn=_TURN,
        ordinal=(TEXT, "which syscall: round.index; or end"),
        first=(TEXT, "what it asked or returned at first, in bounded words"),
        then=(TEXT, "what it did then"),
    ),
    _kind(
        "turn.decided",
        "a person decided on a turn that had diverged",
        durable=True,
        turn=_TURN,
        ordinal=_ORDINAL,
        decision=(TEXT, "again, accept (what was recorded from this call on is forgotten) or dead"),
        by=(TEXT, "who decided"),
    ),
    _kind(
        "model.asked",
        "a model was asked; only what is new against the request before in the session is held",
        turn=_TURN,
        ordinal=_ORDINAL,
        call_hash=(DIGEST, "SHA-256 of the canonical call, as the process made it"),
        provider=(TEXT, "provider that is asked"),
        model=(TEXT, "model that is asked"),
        tools=(TEXTS, "names of the tools that are offered"),
        asked=(
            TEXT,
            "JSON of what the process asked for, bounded: provider, model, tools, options other than the usual ones, "
            "number of messages, first and last where they are new",
        ),
        request_hash=(
            DIGEST,
            "SHA-256 of the canonical request, in which messages_hash stands for the messages (without messages_hash, "
            "in entries of older builds: of the whole canonical request)",
        ),
        messages_hash=(
            DIGEST,
            "SHA-256 of the SHA-256 of each message's canonical JSON, one after the other",
        ),
        prefix_of=(WHOLE, "seq of the model.asked in terms of whose messages this one is told, -1 for none"),
        prefix_count=(WHOLE, "how many of its messages are taken over"),
        pieces=(
            JSON,
            "JSON of how the messages are put together: [first, behind] are those of prefix_of, a number that many of "
            "new (in entries of older builds absent: the first prefix_count, then all of new)",
        ),
        new=(TEXT, "JSON of the messages that are new"),
        results=(
            JSON,
            "JSON of what tools gave, which new lacks: [which of new, seq of the tool.outcome, how many characters of "
            "its result are the content] (in entries of older builds absent: none)",
        ),
        truncated=(BOOL, "whether new was cut at the limit"),
    ),
    _kind(
        "model.answered",
        "a model answered, or failed",
        turn=_TURN,
        ordinal=_ORDINAL,
        status=(TEXT, "ok or error"),
        answer=(JSON, "JSON"),
        input_tokens=(
            WHOLE,
            "tokens read, 0 when unknown; of an error after the answer had begun those of budget.reserved, where there "
            "is one",
        ),
        output_tokens=(WHOLE, "tokens written, 0 when unknown; of such an error as above"),
        cached_tokens=(
            WHOLE,
            "how many of the tokens read the provider had kept from before, 0 when unknown (in entries of older builds "
            "absent)",
        ),
        error_kind=(
            TEXT,
            "of an error rate_limited, timeout, auth, context_overflow, content_refused, server, transport, invalid, "
            "budget, refused or cancelled, else empty (in entries of older builds absent, with all that follows)",
        ),
        retry_after_ms=(WHOLE, "milliseconds that the provider wants to be left alone, 0: it has not said"),
        stop_reason=(TEXT, "stop, tool_calls, length or content_filter, empty where nobody says"),
        provider=(TEXT, "provider that was asked"),
        model=(TEXT, "model that was asked"),
        cost_millionths=(
            WHOLE,
            "what the answer cost, in millionths of the unit of money, -1 where no price is declared or nobody counted",
        ),
    ),
    _kind(
        "budget.reserved",
        "the question before it may use so much of accounts; its answer settles that, or its turn's end. What is said "
        "of money is absent in entries of older builds",
        turn=_TURN,
        ordinal=_ORDINAL,
        accounts=(TEXTS, "addresses whose accounts pay the tokens, each the whole"),
        tokens=(WHOLE, "tokens that are reserved, and that it may use where accounts is empty"),
        input=(WHOLE, "how many of them are for what is read, about"),
        payers=(TEXTS, "addresses whose accounts pay the money, each the whole"),
        money=(WHOLE, "money that is reserved, in millionths"),
        input_price=(WHOLE, "what a million tokens cost that are read, in millionths"),
        output_price=(WHOLE, "what a million tokens cost that are written, in millionths"),
        cached_price=(WHOLE, "what a million tokens cost that are read and were kept, in millionths"),
        last=(BOOL, "whether it is the last of its turn, put without tools"),
        note=(TEXT, "what its model was told of what is left, behind all messages"),
    ),
    _kind(
        "budget.used",
        "a process has used so much more, as it was measured; of less than a hundredth of an account nothing is said",
        address=(TEXT, "address of the process"),
        resource=(TEXT, "cpu_ms"),
        accounts=(TEXTS, "addresses whose accounts pay it, each the whole"),
        amount=(WHOLE, "how much more"),
    ),
    _kind(
        "budget.held",
        "a process holds so much at once, as it was measured, until it is said otherwise or the process exits",
        address=(TEXT, "address of the process"),
        resource=(TEXT, "memory_bytes"),
        account=(TEXT, "address whose account it is held of"),
        amount=(WHOLE, "how much it holds"),
    ),
    _kind(
        "budget.granted",
        "an account was given more, out of the one above it where there is one",
        durable=True,
        address=(TEXT, "address of the account"),
        resource=(TEXT, "tool_calls, messages, tokens, money, time_ms, cpu_ms or memory_bytes"),
        amount=(WHOLE, "how much more; money in millionths"),
        by=(TEXT, "who gave it"),
    ),
    _kind(
        "budget.changed",
        "another budget was declared for a process that is there; beside the process.changed that says it",
        durable=True,
        address=(TEXT, "address of the account"),
        then=(TEXT, "what is done when one is used up: wrap_up, refuse, pause or stop"),
        resources=(TEXTS, "what is limited from now on; what is not among them is limited no more"),
        amounts=(WHOLES, "how much of each is granted from now on; money in millionths"),
    ),
    _kind(
        "budget.warned",
        "more than 80, or 100, in a hundred of an account is spent; said once for each, until more is granted",
        address=(TEXT, "address of the account"),
        resource=(TEXT, "tool_calls, messages, tokens, money, time_ms, cpu_ms or memory_bytes"),
        percent=(WHOLE, "80 or 100"),
        spent=(WHOLE, "how much is spent; money in millionths"),
        granted=(WHOLE, "of how much"),
    ),
    _kind(
        "sys.value",
        "a process was given the time or random bits",
        turn=_TURN,
        ordinal=_ORDINAL,
        call_hash=_CALL_HASH,
        op=(TEXT, "now or random"),
        value=(NUMBER, "what it was given"),
    ),
    _kind(
        "monitor.set",
        "a process watches another one, or is linked with it, or was refused that",
        turn=_TURN,
        ordinal=_ORDINAL,
        call_hash=_CALL_HASH,
        ref=(TEXT, "what the monitor is named by, empty when it was refused"),
        target=(TEXT, "PID, name or address as asked for, with @NODE for another node"),
        address=(TEXT, "address that this means, on that node; empty for none"),
        pid=(WHOLE, "PID that is watched, 0 for none and on another node"),
        peer=(TEXT, "true name of that node, empty for this one"),
        rights=(TEXTS, "names of the tools that the turn could use, which are those for the end too"),
        why=(TEXT, "why it was refused, else empty"),
        link=(BOOL, "whether it is a link; not in older entries"),
        watcher_pid=(
            WHOLE,
            "of a link, the PID that set it, where the other is bound to the end of that too; else 0; not in older "
            "entries",
        ),
    ),
    _kind(
        "monitor.removed",
        "a process has taken a monitor back",
        turn=_TURN,
        ordinal=_ORDINAL,
        call_hash=_CALL_HASH,
        ref=(TEXT, "the monitor"),
        found=(BOOL, "whether it was set; else it had ended, or never was one of that process"),
        flushed=(
            TEXT,
            "id of the message that had told its end and was taken out of the mailbox, empty for none",
        ),
        link=(BOOL, "whether it is a link; not in older entries"),
    ),
    _kind(
        "monitor.traps",
        "an address has the ends of those that it is linked with told to it, or does so no more",
        turn=_TURN,
        ordinal=_ORDINAL,
        call_hash=_CALL_HASH,
        on=(BOOL, "whether they are told"),
        before=(BOOL, "whether they were until now"),
        rights=(TEXTS, "names of the tools that the turn could use, which are those for the ends too"),
    ),
    _kind(
        "monitor.down",
        "a monitor has ended with a message to its watcher, in the entry before; or a link, with a message, or with "
        "what the end of one is for the other",
        ref=(TEXT, "the monitor, or the link"),
        watcher=(
            TEXT,
            "address of the process that set it; of a link, of the one that is not the one that ended",
        ),
        message=(TEXT, "id of the message, empty for a link of which nobody is told"),
        reason=(
            TEXT,
            "exit reason of what it watched; noproc: there was none; noconnection: its node was lost",
        ),
    ),
    _kind(
        "tool.proposed",
        "a process asked for a tool call",
        turn=_TURN,
        ordinal=_ORDINAL,
        call_hash=_CALL_HASH,
        tool=(TEXT, "name of the tool"),
        arguments=(TEXT, "JSON, or the text as proposed when it is none"),
        arguments_hash=(DIGEST, "SHA-256 of the arguments"),
    ),
    _kind(
        "tool.verdict",
        "the gates decided on a proposed call",
        turn=_TURN,
        ordinal=_ORDINAL,
        tool=(TEXT, "name of the tool"),
        decision=(TEXT, "allow, deny or escalate"),
        reasons=(TEXTS, "list of reasons"),
    ),
    _kind(
        "tool.intent",
        "the node is about to run a tool; lazy only for a tool without effects, and for ask",
        durable=True,
        turn=_TURN,
        ordinal=_ORDINAL,
        tool=(TEXT, "name of the tool"),
        arguments_hash=(DIGEST, "SHA-256 of the arguments"),
        effects=(TEXT, "none, local or external"),
        boot=(TEXT, "boot id, 16 hexadecimal digits"),
        attempt=(WHOLE, "1 for the first time"),
        pid=(WHOLE, "PID on whose behalf"),
        replaces=(
            TEXT,
            "of file_write: what was there before its first attempt: a digest, or absent and a witness",
        ),
        on_doubt=(
            TEXT,
            "what the tool says is to be done when it is in doubt: ask, retry or lost; retry without effects",
        ),
        effect_id=(
            TEXT,
            "names the effect, the same at every attempt, 32 hexadecimal digits; handed to the tool; not in older "
            "entries",
        ),
        probe=(
            BOOL,
            "whether the tool can be asked by it what became of the effect; not in older entries",
        ),
    ),
    _kind(
        "tool.outcome",
        "a tool call ended",
        turn=_TURN,
        ordinal=_ORDINAL,
        tool=(TEXT, "name of the tool"),
        status=(TEXT, "ok, error, timeout (no effects), killed (not run), denied, lost or in_doubt"),
        result=(TEXT, "text, bounded"),
        result_hash=(TEXT, "SHA-256 of the whole result, as whoever ran it says"),
        truncated=(BOOL, "whether the whole result is longer than the text"),
        attempt=(WHOLE, "1 for the first time"),
    ),
    _kind(
        "tool.probed",
        "a call was in doubt, and its tool was asked what became of the effect",
        turn=_TURN,
        ordinal=_ORDINAL,
        tool=(TEXT, "name of the tool"),
        effect_id=(TEXT, "which effect"),
        attempt=(WHOLE, "the newest attempt"),
        answer=(TEXT, "landed, not_landed, unknown, or not_asked of a worker that may act still"),
        why=(TEXT, "why it is unknown or not asked, else empty"),
    ),
    _kind(
        "tool.resolved",
        "a call without an outcome was decided",
        durable=True,
        turn=_TURN,
        ordinal=_ORDINAL,
        tool=(TEXT, "name of the tool"),
        resolution=(TEXT, "retry, done or lost"),
        by=(
            TEXT,
            "operator; probe: its tool's probe, of a doubt; or the node: it stopped before the call had begun, or the "
            "probe said before any doubt that it has not landed, so another attempt is due",
        ),
    ),
    _kind(
        "memory.written",
        "a document was remembered; its text is a state record beside this entry, and can be erased",
        durable=True,
        id=(TEXT, "id of the document"),
        owner=(TEXT, "address of the process it belongs to, or operator"),
        scope=(TEXT, "own or shared"),
        text_hash=(DIGEST, "SHA-256 of the text"),
        bytes=(WHOLE, "size of the text"),
        title=(TEXT, "title of the document"),
        shown_hash=(
            DIGEST,
            "SHA-256 of what a search shows: title, line feed, the first 1,000 characters of the text",
        ),
        pid=(WHOLE, "the process that wrote it, 0 for a person"),
    ),
    _kind(
        "memory.forgotten",
        "a document was taken out of memory",
        durable=True,
        id=(TEXT, "id of the document"),
        by=(TEXT, "who asked for it"),
    ),
    _kind(
        "peer.added",
        "a node is in the allow list from now on",
        durable=True,
        origin=_ORIGIN,
        name=(TEXT, "petname"),
        address=(TEXT, "where it is dialled, empty when it dials"),
        may=(TEXTS, "what it may: of send, ps, spawn and kill"),
        tools=(
            TEXTS_OR_NIL,
            "tools that are used for it here, by name; * is every tool, null those without effects",
        ),
        how=(TEXT, "operator, or the join token by its id"),
    ),
    _kind(
        "peer.removed",
        "a node is in the allow list no longer",
        durable=True,
        origin=_ORIGIN,
        name=(TEXT, "petname"),
    ),
    _kind(
        "peer.up",
        "there is a link with a peer",
        origin=_ORIGIN,
        name=(TEXT, "petname"),
        boot=(TEXT, "its boot id"),
    ),
    _kind(
        "peer.down",
        "a peer is lost",
        origin=_ORIGIN,
        name=(TEXT, "petname"),
        why=(TEXT, "what ended the link"),
    ),
    _kind(
        "peer.refused",
        "a link or a word of another node was refused; written at most once a second",
        who=(TEXT, "origin when it was proved, else an address"),
        why=(TEXT, "which rule it broke"),
        more=(WHOLE, "how many refusals before this one were not written"),
    ),
    _kind(
        "peer.head",
        "a newer tree head of a peer is kept; written at most once a minute for each",
        origin=_ORIGIN,
        size=(WHOLE, "entries that it covers"),
        root=(DIGEST, "root hash"),
    ),
    _kind(
        "peer.conflict",
        "a peer showed a head that contradicts the one kept: no further is taken until a person decides",
        durable=True,
        origin=_ORIGIN,
        name=(TEXT, "petname"),
        why=(TEXT, "which rule it broke"),
        kept_size=(WHOLE, "entries that the head kept covers"),
        kept_root=(DIGEST, "its root hash"),
        shown_size=(WHOLE, "entries that the head shown covers"),
        shown_root=(DIGEST, "its root hash"),
        kept=(TEXT, "the signed note of the head kept"),
        shown=(TEXT, "the signed note of the head shown"),
    ),
    _kind(
        "peer.decided",
        "a person decided which of two heads of a peer counts",
        durable=True,
        origin=_ORIGIN,
        name=(TEXT, "petname"),
        counts=(TEXT, "kept or shown"),
        size=(WHOLE, "entries that the head covers which counts"),
        root=(DIGEST, "its root hash"),
        reason=(TEXT, "what the person gave as the reason"),
        by=(TEXT, "operator"),
    ),
    _kind(
        "peer.command",
        "a peer asked for something that it is granted",
        principal=(TEXT, "peer: and its origin"),
        name=(TEXT, "petname"),
        operation=(TEXT, "spawn or kill"),
        arguments=(JSON, "JSON"),
    ),
    _kind(
        "key.rotated",
        "other keys sign from this entry on; alone in its group, and its body is never erased",
        durable=True,
        ed25519=(TEXT, "the new verifier key"),
        ml_dsa_65=(TEXT, "the new verifier key"),
        number=(WHOLE, "1 for the first rotation"),
        reason=(TEXT, "why, as the operator said"),
        old_ed25519=(BYTES, "signature of the old Ed25519 key over the statement"),
        old_ml_dsa_65=(BYTES, "signature of the old ML-DSA-65 key over the statement"),
        new_ed25519=(BYTES, "signature of the new Ed25519 key over the statement"),
        new_ml_dsa_65=(BYTES, "signature of the new ML-DSA-65 key over the statement"),
    ),
    _kind(
        "erase",
        "the bodies of some entries are gone for good; the entries stay, and the tree with them",
        durable=True,
        ranges=(RANGES, "list of [first, last] entries whose bodies are gone"),
        by=(TEXT, "who asked for it"),
        reason=(TEXT, "why"),
    ),
)


def _asks_here(body: Mapping[str, Any]) -> bool:
    """A call of this node asks, and hears of nothing but the answer."""
    waits = body.get("reply_to", "")
    return bool(waits) and "@" not in waits


def _answers_here(body: Mapping[str, Any]) -> bool:
    """It is told to a call of this node."""
    return bool(body.get("call"))


def _does_nothing_outside(body: Mapping[str, Any]) -> bool:
    """The tool has no effects, or none but the question that stands beside it and says itself what it waits for."""
    return body.get("effects") == "none" or body.get("tool") == "ask"


def _is_of_an_apply(body: Mapping[str, Any]) -> bool:
    """An application has it made, with others: the apply answers when all of them are on the disk."""
    return str(body.get("made_by", "")).startswith("app:")


_LAZY: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "process.spawned": _is_of_an_apply,
    "message.accepted": _asks_here,
    "turn.ended": _answers_here,
    "tool.intent": _does_nothing_outside,
}
KINDS: Mapping[str, Kind] = MappingProxyType(
    {kind.name: replace(kind, lazy_when=_LAZY.get(kind.name)) for kind in _TABLE}
)
_FIT = {kind.name: Fields({name: field.type for name, field in kind.fields.items()}).fit for kind in _TABLE}


def fits(kind: str, body: Mapping[str, Any]) -> bool:
    """Whether ``body`` has exactly the fields of its kind, each of its type. :meth:`Kind.check` says why not."""
    fit = _FIT.get(kind)
    return fit is not None and fit(body)


def well_typed(kind: str, body: Mapping[str, Any]) -> bool:
    """As :func:`fits`, of an entry that may be an older one, or of a kind that came later: what its kind tells of is of
    its type, whatever there is.
    """
    return fits(kind, body) or kind not in KINDS or not KINDS[kind].mistyped(body)
