"""The one table of ledger kinds: what each entry means, what its body holds, and whether its writer waits.

Kinds are dotted: a noun, then a verb. Bodies are flat maps; every field is present in every entry of its
kind. A field called JSON holds canonical JSON text. ``docs/ledger-kinds.md`` tells the same at length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class Kind:
    """``fields``: body field to meaning. ``durable``: it is written to the disk at once, unless its field in
    ``lazy_when`` has the value there.
    """

    name: str
    meaning: str
    fields: Mapping[str, str]
    durable: bool
    lazy_when: tuple[str, str] | None = None

    def is_durable(self, body: Mapping[str, Any]) -> bool:
        """Whether an entry with ``body`` is written to the disk at once, with all before it."""
        if self.lazy_when is None or not self.durable:
            return self.durable
        field, value = self.lazy_when
        return body.get(field) != value

    def check(self, body: Mapping[str, Any]) -> list[str]:
        """Every field that ``body`` lacks or has too many, in words."""
        lacking = [f"{self.name} lacks the field {name}" for name in self.fields if name not in body]
        return lacking + [f"{self.name} has no field {name}" for name in body if name not in self.fields]


def _kind(name: str, meaning: str, /, *, durable: bool = False, **fields: str) -> Kind:
    return Kind(name, meaning, MappingProxyType(fields), durable)


_TURN = "id of the turn"
_ORDINAL = "round and index of the syscall in its turn"
_CALL_HASH = "SHA-256 of the canonical call"
_ADDRESS = "address of the process"
_MESSAGE = "id of the message"
_ORIGIN = "true name of the other node"

_TABLE = (
    _kind(
        "node.booted",
        "the node has recovered and starts its processes; then it listens",
        durable=True,
        boot="boot id, 16 hexadecimal digits",
        version="version of weftos",
        engine="ray or local",
        name="petname of the node",
        origin="true name of the node",
        ed25519="verifier key",
        ml_dsa_65="verifier key",
        recovered_groups="groups replayed from the journal",
        torn_bytes="bytes of an incomplete last group that were cut off",
        configuration="SHA-256 of the settings in force, as canonical JSON",
        peers="SHA-256 of the peers' rights, as canonical JSON",
        changed="which of the two are not those of the boot before",
    ),
    _kind(
        "state.accepted",
        "a person has accepted state that the node's keys had not signed, or that entries contradict; from here on "
        "it is bound by the signatures again",
        durable=True,
        reason="why, in that person's words",
        uid="user id of that person",
        what="what was found, each with its place, and how many more there are",
        contradicted="entries that the state contradicts, by their numbers",
    ),
    _kind(
        "node.stopped",
        "the node stopped cleanly",
        durable=True,
        boot="boot id, 16 hexadecimal digits",
        reason="why it stopped",
    ),
    _kind(
        "node.disk_full",
        "the disk is full: the node is read-only until there is room",
        durable=True,
        why="what the disk said",
    ),
    _kind(
        "node.unrecorded",
        "something happened that no record could be made of; what came after it is recorded",
        kinds="kinds of the records that were left out",
        why="what was wrong with them",
    ),
    _kind(
        "node.clock",
        "the machine's clock and the node's differ, by more or less than before; the node's never jumps",
        ahead_us="microseconds by which the machine's is ahead, below 0 when it is behind",
    ),
    _kind("node.disk_free", "the disk has room again: the node goes on", durable=True),
    _kind(
        "operator.command",
        "a person gave a command over the control socket",
        uid="user id of the peer",
        os_pid="operating system process id of the peer",
        operation="name of the operation",
        arguments="JSON, never a secret",
    ),
    _kind(
        "process.spawned",
        "a child slot was created",
        durable=True,
        address=_ADDRESS,
        parent="address of its supervisor",
        spec="JSON of the spawn request",
        made_by="operator, agent or peer:ORIGIN; not in older entries",
    ),
    _kind(
        "process.started",
        "an incarnation runs",
        address=_ADDRESS,
        pid="its PID",
        cell="name of its cell, empty without one",
    ),
    _kind(
        "process.exited",
        "an incarnation ended",
        address=_ADDRESS,
        pid="its PID",
        reason="exit reason",
        detail="one bounded line",
        turn="the turn that it was in when its cell died, with nobody known to blame; else empty; not in older entries",
    ),
    _kind(
        "process.slot",
        "a child slot changed its state",
        address=_ADDRESS,
        state="running, restarting, parked, stopped or removed",
        why="what changed it",
    ),
    _kind(
        "message.accepted",
        "a message is in its receiver's mailbox, and will be answered for",
        durable=True,
        id=_MESSAGE,
        sender="address, or operator",
        to="address",
        text="text of the message",
        session="session it belongs to",
        reply_to="message it answers, empty for none",
        wants_reply="whether the sender waits for an answer",
        deadline_us="microseconds since 1970 after which it is dead, 0 for none",
        rights="names of the tools the sender could use, nil for a person",
        waiting="processes of other nodes that wait for its answer, ADDRESS@ORIGIN, the asker last",
    ),
    _kind(
        "message.sent",
        "a message to another node was accepted for carriage, and will be answered for",
        durable=True,
        id=_MESSAGE,
        sender="address, or operator",
        to="PID, name or address as asked for, and @ORIGIN",
        peer=_ORIGIN,
        text="text of the message",
        session="session it belongs to",
        reply_to="turn and ordinal of the ask that it is, empty for none",
        wants_reply="whether somebody waits for an answer",
        deadline_us="microseconds since 1970 after which it is dead unless the node has taken it",
        answer_by_us="microseconds since 1970 after which its answer is of no use, 0 for never",
        rights="names of the tools the sender could use, nil for a person",
        waiting="processes that wait for its answer, ADDRESS@ORIGIN, the asker last",
        answers="message of that node which it answers, empty for none",
        status="of an answer: ok or error; else empty",
    ),
    _kind("message.acknowledged", "the other node has taken a message, durably", id=_MESSAGE, peer=_ORIGIN),
    _kind(
        "message.replied",
        "the answer to a message that went to another node",
        durable=True,
        id=_MESSAGE,
        peer=_ORIGIN,
        status="ok or error",
        reply="text of the reply",
        reply_hash="SHA-256 of the whole reply",
    ),
    _kind(
        "message.unanswered",
        "a message that another node has taken gets no answer",
        id=_MESSAGE,
        peer=_ORIGIN,
        why="why not",
    ),
    _kind(
        "message.refused",
        "a message was not accepted",
        to="address as asked for",
        sender="address, or operator",
        why="what forbade it",
    ),
    _kind(
        "message.dead",
        "an accepted message could not be delivered",
        durable=True,
        id=_MESSAGE,
        to="address",
        why="why not",
    ),
    _kind(
        "message.replayed",
        "a dead letter was sent again",
        durable=True,
        id=_MESSAGE,
        **{"as": "id of the new message"},
    ),
    _kind("message.dropped", "a dead letter was discarded: there were too many", id=_MESSAGE, why="why"),
    _kind(
        "turn.started",
        "the handling of a message began, or began again after a crash",
        turn=_TURN,
        message=_MESSAGE,
        address=_ADDRESS,
        session="session it belongs to",
        attempt="1 for the first time",
        config="JSON of what the node's configuration tells the behaviour; that of attempt 1 goes for all",
        result_bytes="how much of a tool's result the process is handed; that of attempt 1 goes for all",
    ),
    _kind(
        "turn.ended",
        "the handling of a message ended",
        durable=True,
        turn=_TURN,
        status="ok, error, cancelled, diverged (a person gave it up) or poison",
        reply="text of the reply",
        reply_hash="SHA-256 of the whole reply",
    ),
    _kind(
        "turn.diverged",
        "a resumed turn asked something else than before: it is parked until a person decides",
        durable=True,
        turn=_TURN,
        ordinal=_ORDINAL,
        recorded="JSON of the call that is recorded: op, name, arguments (bounded), seq, outcome",
        asked="JSON of the call that was made instead: op, name, arguments (bounded)",
    ),
    _kind(
        "turn.decided",
        "a person decided on a turn that had diverged",
        durable=True,
        turn=_TURN,
        ordinal=_ORDINAL,
        decision="again, accept (what was recorded from this call on is forgotten) or dead",
        by="who decided",
    ),
    _kind(
        "model.asked",
        "a model was asked; only what is new against the request before in the session is held",
        turn=_TURN,
        ordinal=_ORDINAL,
        call_hash="SHA-256 of the canonical call, as the process made it",
        provider="provider that is asked",
        model="model that is asked",
        tools="names of the tools that are offered",
        asked="JSON of what the process asked for, bounded: provider, model, tools, number of messages, first and last "
        "where they are new",
        request_hash="SHA-256 of the canonical request, in which messages_hash stands for the messages (without "
        "messages_hash, in entries of older builds: of the whole canonical request)",
        messages_hash="SHA-256 of the SHA-256 of each message's canonical JSON, one after the other",
        prefix_of="seq of the model.asked in terms of whose messages this one is told, -1 for none",
        prefix_count="how many of its messages are taken over",
        pieces="JSON of how the messages are put together: [first, behind] are those of prefix_of, a number that many "
        "of new (in entries of older builds absent: the first prefix_count, then all of new)",
        new="JSON of the messages that are new",
        results="JSON of what tools gave, which new lacks: [which of new, seq of the tool.outcome, how many characters "
        "of its result are the content] (in entries of older builds absent: none)",
        truncated="whether new was cut at the limit",
    ),
    _kind(
        "model.answered",
        "a model answered, or failed",
        turn=_TURN,
        ordinal=_ORDINAL,
        status="ok or error",
        answer="JSON",
        input_tokens="tokens read, 0 when unknown",
        output_tokens="tokens written, 0 when unknown",
    ),
    _kind(
        "sys.value",
        "a process was given the time or random bits",
        turn=_TURN,
        ordinal=_ORDINAL,
        call_hash=_CALL_HASH,
        op="now or random",
        value="what it was given",
    ),
    _kind(
        "tool.proposed",
        "a process asked for a tool call",
        turn=_TURN,
        ordinal=_ORDINAL,
        call_hash=_CALL_HASH,
        tool="name of the tool",
        arguments="JSON, or the text as proposed when it is none",
        arguments_hash="SHA-256 of the arguments",
    ),
    _kind(
        "tool.verdict",
        "the gates decided on a proposed call",
        turn=_TURN,
        ordinal=_ORDINAL,
        tool="name of the tool",
        decision="allow, deny or escalate",
        reasons="list of reasons",
    ),
    replace(
        _kind(
            "tool.intent",
            "the node is about to run a tool; lazy only for a tool without effects",
            durable=True,
            turn=_TURN,
            ordinal=_ORDINAL,
            tool="name of the tool",
            arguments_hash="SHA-256 of the arguments",
            effects="none, local or external",
            boot="boot id, 16 hexadecimal digits",
            attempt="1 for the first time",
            pid="PID on whose behalf",
            replaces="of file_write: what was there before its first attempt: a digest, or absent and a witness",
            on_doubt="what the tool says is to be done when it is in doubt: ask, retry or lost; retry without effects",
        ),
        lazy_when=("effects", "none"),
    ),
    _kind(
        "tool.outcome",
        "a tool call ended",
        turn=_TURN,
        ordinal=_ORDINAL,
        tool="name of the tool",
        status="ok, error, timeout (no effects), killed (not run), denied, lost or in_doubt",
        result="text, bounded",
        result_hash="SHA-256 of the whole result",
        truncated="whether the whole result is longer than the text",
        attempt="1 for the first time",
    ),
    _kind(
        "tool.resolved",
        "a call without an outcome was decided",
        durable=True,
        turn=_TURN,
        ordinal=_ORDINAL,
        tool="name of the tool",
        resolution="retry, done or lost",
        by="operator, or the node: it stopped before the call had begun, so another attempt is due",
    ),
    _kind(
        "memory.written",
        "a document was remembered; its text is a state record beside this entry, and can be erased",
        durable=True,
        id="id of the document",
        owner="address of the process it belongs to, or operator",
        scope="own or shared",
        text_hash="SHA-256 of the text",
        bytes="size of the text",
        title="title of the document",
        shown_hash="SHA-256 of what a search shows: title, line feed, the first 1,000 characters of the text",
        pid="the process that wrote it, 0 for a person",
    ),
    _kind(
        "memory.forgotten",
        "a document was taken out of memory",
        durable=True,
        id="id of the document",
        by="who asked for it",
    ),
    _kind(
        "peer.added",
        "a node is in the allow list from now on",
        durable=True,
        origin=_ORIGIN,
        name="petname",
        address="where it is dialled, empty when it dials",
        may="what it may: of send, ps, spawn and kill",
        tools="tools that are used for it here, by name; * is every tool, null those without effects",
        how="operator, or the join token by its id",
    ),
    _kind(
        "peer.removed", "a node is in the allow list no longer", durable=True, origin=_ORIGIN, name="petname"
    ),
    _kind("peer.up", "there is a link with a peer", origin=_ORIGIN, name="petname", boot="its boot id"),
    _kind("peer.down", "a peer is lost", origin=_ORIGIN, name="petname", why="what ended the link"),
    _kind(
        "peer.refused",
        "a link or a word of another node was refused; written at most once a second",
        who="origin when it was proved, else an address",
        why="which rule it broke",
        more="how many refusals before this one were not written",
    ),
    _kind(
        "peer.head",
        "a newer tree head of a peer is kept; written at most once a minute for each",
        origin=_ORIGIN,
        size="entries that it covers",
        root="root hash",
    ),
    _kind(
        "peer.conflict",
        "a peer showed a head that contradicts the one kept: no further is taken until a person decides",
        durable=True,
        origin=_ORIGIN,
        name="petname",
        why="which rule it broke",
        kept_size="entries that the head kept covers",
        kept_root="its root hash",
        shown_size="entries that the head shown covers",
        shown_root="its root hash",
        kept="the signed note of the head kept",
        shown="the signed note of the head shown",
    ),
    _kind(
        "peer.decided",
        "a person decided which of two heads of a peer counts",
        durable=True,
        origin=_ORIGIN,
        name="petname",
        counts="kept or shown",
        size="entries that the head covers which counts",
        root="its root hash",
        reason="what the person gave as the reason",
        by="operator",
    ),
    _kind(
        "peer.command",
        "a peer asked for something that it is granted",
        principal="peer: and its origin",
        name="petname",
        operation="spawn or kill",
        arguments="JSON",
    ),
    _kind(
        "key.rotated",
        "other keys sign from this entry on; alone in its group, and its body is never erased",
        durable=True,
        ed25519="the new verifier key",
        ml_dsa_65="the new verifier key",
        number="1 for the first rotation",
        reason="why, as the operator said",
        old_ed25519="signature of the old Ed25519 key over the statement",
        old_ml_dsa_65="signature of the old ML-DSA-65 key over the statement",
        new_ed25519="signature of the new Ed25519 key over the statement",
        new_ml_dsa_65="signature of the new ML-DSA-65 key over the statement",
    ),
    _kind(
        "erase",
        "the bodies of some entries are gone for good; the entries stay, and the tree with them",
        durable=True,
        ranges="list of [first, last] entries whose bodies are gone",
        by="who asked for it",
        reason="why",
    ),
)

KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _TABLE})
