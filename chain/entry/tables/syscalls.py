"""Kinds of what a turn asks for beside: values, monitors, tools, memory."""

from __future__ import annotations

from chain.entry.fields import BOOL, DIGEST, JSON, NUMBER, TEXT, TEXTS, WHOLE
from chain.entry.kind import CALL_HASH, ORDINAL, TURN, kind

SYSCALLS = (
    kind(
        "sys.value",
        "a process was given the time or random bits, or told what its session has done",
        turn=TURN,
        ordinal=ORDINAL,
        call_hash=CALL_HASH,
        op=(TEXT, "now, random or deeds"),
        value=(
            NUMBER,
            "what it was given; of deeds the newest entry by then: what it was told follows from those",
        ),
    ),
    kind(
        "sys.files",
        "a process was given the files of its workspace that stand in its system prompt",
        turn=TURN,
        ordinal=ORDINAL,
        call_hash=CALL_HASH,
        files=(
            JSON,
            "JSON of [name, SHA-256 of what of its text is shown, what is to be said of it] for each",
        ),
        new=(
            JSON,
            "JSON of those texts by their SHA-256 that the session was not told with its sys.files before",
        ),
    ),
    kind(
        "monitor.set",
        "a process watches another one, or is linked with it, or was refused that",
        turn=TURN,
        ordinal=ORDINAL,
        call_hash=CALL_HASH,
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
    kind(
        "monitor.removed",
        "a process has taken a monitor back",
        turn=TURN,
        ordinal=ORDINAL,
        call_hash=CALL_HASH,
        ref=(TEXT, "the monitor"),
        found=(BOOL, "whether it was set; else it had ended, or never was one of that process"),
        flushed=(
            TEXT,
            "id of the message that had told its end and was taken out of the mailbox, empty for none",
        ),
        link=(BOOL, "whether it is a link; not in older entries"),
    ),
    kind(
        "monitor.traps",
        "an address has the ends of those that it is linked with told to it, or does so no more",
        turn=TURN,
        ordinal=ORDINAL,
        call_hash=CALL_HASH,
        on=(BOOL, "whether they are told"),
        before=(BOOL, "whether they were until now"),
        rights=(TEXTS, "names of the tools that the turn could use, which are those for the ends too"),
    ),
    kind(
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
    kind(
        "tool.proposed",
        "a process asked for a tool call",
        turn=TURN,
        ordinal=ORDINAL,
        call_hash=CALL_HASH,
        tool=(TEXT, "name of the tool"),
        arguments=(TEXT, "JSON, or the text as proposed when it is none"),
        arguments_hash=(DIGEST, "SHA-256 of the arguments"),
    ),
    kind(
        "tool.verdict",
        "the gates decided on a proposed call",
        turn=TURN,
        ordinal=ORDINAL,
        tool=(TEXT, "name of the tool"),
        decision=(TEXT, "allow, deny or escalate"),
        reasons=(TEXTS, "list of reasons"),
    ),
    kind(
        "tool.intent",
        "the node is about to run a tool; lazy only for a tool without effects, and for ask",
        durable=True,
        turn=TURN,
        ordinal=ORDINAL,
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
    kind(
        "tool.outcome",
        "a tool call ended",
        turn=TURN,
        ordinal=ORDINAL,
        tool=(TEXT, "name of the tool"),
        status=(TEXT, "ok, error, timeout (no effects), killed (not run), denied, lost or in_doubt"),
        result=(TEXT, "text, bounded"),
        result_hash=(TEXT, "SHA-256 of the whole result, as whoever ran it says"),
        truncated=(BOOL, "whether the whole result is longer than the text"),
        attempt=(WHOLE, "1 for the first time"),
    ),
    kind(
        "tool.probed",
        "a call was in doubt, and its tool was asked what became of the effect",
        turn=TURN,
        ordinal=ORDINAL,
        tool=(TEXT, "name of the tool"),
        effect_id=(TEXT, "which effect"),
        attempt=(WHOLE, "the newest attempt"),
        answer=(TEXT, "landed, not_landed, unknown, or not_asked of a worker that may act still"),
        why=(TEXT, "why it is unknown or not asked, else empty"),
    ),
    kind(
        "tool.resolved",
        "a call without an outcome was decided",
        durable=True,
        turn=TURN,
        ordinal=ORDINAL,
        tool=(TEXT, "name of the tool"),
        resolution=(TEXT, "retry, done or lost"),
        by=(
            TEXT,
            "operator; probe: its tool's probe, of a doubt; or the node: it stopped before the call had begun, or the "
            "probe said before any doubt that it has not landed, so another attempt is due",
        ),
    ),
    kind(
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
    kind(
        "memory.forgotten",
        "a document was taken out of memory",
        durable=True,
        id=(TEXT, "id of the document"),
        by=(TEXT, "who asked for it"),
    ),
)
