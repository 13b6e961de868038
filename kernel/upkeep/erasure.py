"""What an erasure means: which entries, and what of the node's state holds what was said in them. Pure.

Read from the ledger: a **selection** (some entries, all of a process, all of a session) becomes a **plan**. The turns
that a plan names hold, or have held, what is to be erased; so do the sessions. Whether any of it is still in use is
for the node to say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from chain.entry.record import EntryRecord
from kernel.errors import Invalid, NotFound, Refused
from kernel.operations.erasure import MOST_SEQS
from kernel.slices.mailboxes import turn_id

PROTECTED: Mapping[str, str] = {
    "key.rotated": "every later signature is checked by it",
    "erase": "it says what was erased, by whom and why",
    "node.booted": "it says when the node ran, and with which keys",
    "state.accepted": "it says which state a person has accepted, and why",
    "node.stopped": "it says when the node stopped, and why",
    "process.spawned": "it says who made which process, and with what rights",
    "process.changed": "it says what a process was changed to",
}
MOST_LEFT = 1000
DEFAULT_SESSION = "main"

_READS_MEMORY = ("memory_search", "memory_read", "knowledge_base")
_DOCUMENT = re.compile(r'"id":"(d[0-9]+)"').findall
_OF_TURN = ("turn", "model", "sys", "tool", "monitor")
_TOLD = ("message.accepted", "message.sent")
_PUBLISHED = "topic.published"
_CAUSED = (*_TOLD, _PUBLISHED, "message.replied", "memory.written", "process.exited")
_COMMANDS = ("operator.command", "peer.command")
_SPAWNED = "process.spawned"
_MEASURED = re.compile(r"[0-9]+ characters").fullmatch


Session = tuple[str, str]
"""An address, and the name of a session there."""
Handled = tuple[set[Session], str]


class Entries(Protocol):
    """The ledger, as ``chain.state.history.History`` gives it."""

    @property
    def size(self) -> int: ...

    def entries(self, start: int = 0) -> Iterator[EntryRecord]: ...

    def entry(self, seq: int) -> EntryRecord: ...


@dataclass(frozen=True, slots=True)
class Selection:
    """Entries by number, or all of a process (``pid``), or all of a ``session`` of ``address``."""

    seqs: tuple[int, ...] = ()
    pid: int | None = None
    address: str = ""
    session: str = ""

    def check(self) -> None:
        """Raises Invalid."""
        ways = [bool(self.seqs), self.pid is not None, bool(self.session)]
        if sum(ways) != 1:
            raise Invalid("name what to erase in one way: entries by number, a PID, or a session")
        if bool(self.session) != bool(self.address):
            raise Invalid("a session is that of a process: name both")
        if self.pid is not None and self.pid < 1:
            raise Invalid("PID 0 is the kernel itself: name entries, a process or a session")
        if len(self.seqs) > MOST_SEQS or any(seq < 0 for seq in self.seqs):
            raise Invalid(f"at most {MOST_SEQS} entries at once, numbered from 0")

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Selection:
        """What ``asdict`` made."""
        return cls(tuple(value["seqs"]), value["pid"], value["address"], value["session"])


@dataclass(slots=True)
class Plan:
    """``ranges``: first and last of each row of entries. ``turns``: those they are part of, that asked for them or
    caused them, and all that were handed what these said (:meth:`_Finder._pass_on`). ``left``: entries of these turns
    that are not erased, and what else repeats what they say, seq and kind, the first :data:`MOST_LEFT` of
    ``left_count``; ``kept``: how many of the selected are never erased, by kind. ``pids``: whose turns they are.
    ``exits``: PIDs of which the end is erased, and ``refusals``: the reasons of refusals that are, for the node's state
    repeats both. ``logs``: files of the log that may repeat it, and how many lines of these PIDs, -1 where nobody can
    say.
    """

    ranges: list[tuple[int, int]] = field(default_factory=list)
    entries: int = 0
    turns: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    sessions: list[tuple[str, str]] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    left: list[tuple[int, str]] = field(default_factory=list)
    left_count: int = 0
    kept: dict[str, int] = field(default_factory=dict)
    pids: list[int] = field(default_factory=list)
    exits: list[int] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    logs: list[tuple[str, int]] = field(default_factory=list)

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Plan:
        """What ``asdict`` made, after a way as JSON."""
        pairs = {
            name: [tuple(pair) for pair in value[name]] for name in ("ranges", "sessions", "left", "logs")
        }
        return cls(**{**value, **pairs})


def plan_erasure(ledger: Entries, selection: Selection) -> Plan:
    """Raises Refused (an entry that is never erased), NotFound, Invalid."""
    selection.check()
    finder = _Finder(ledger, selection)
    finder.select()
    if not finder.selected:
        raise NotFound("there is nothing to erase: no such entries, or they are erased already")
    return finder.plan()


class _Finder:
    def __init__(self, ledger: Entries, selection: Selection) -> None:
        self._ledger = ledger
        self._selection = selection
        self._seqs = frozenset(selection.seqs)
        self.selected: set[int] = set()
        self._turns: set[str] = set()  # whose entries are all meant
        self._said: set[str] = set()  # of which an entry is selected
        self._causes: set[int] = set()
        self._repeating: set[int] = set()  # no part of a turn, and says what is erased
        self._ordered: set[int] = set()  # commands that are selected, and may be why something ended
        self._published: set[int] = set()  # that of which a copy is selected: the others say the same
        self._concerned: set[str] = set()
        self._messages: set[str] = set()
        self._sessions: set[Session] = set()
        self._documents: list[str] = []
        self._exits: set[int] = set()
        self._refusals: set[str] = set()
        self._kept: dict[str, int] = {}

    # -- which entries -------------------------------------------------------------------------------------------

    def select(self) -> None:
        if self._selection.seqs:
            for record in self._named():
                self._take(record)
            return
        self._turns = set(self._whole_turns())
        for record in self._ledger.entries():
            if self._is_meant(record):
                self._take(record)

    def _named(self) -> list[EntryRecord]:
        size = self._ledger.size
        beyond = [seq for seq in self._seqs if seq >= size]
        if beyond:
            raise NotFound(f"there is no entry {min(beyond)}: the ledger has {size}")
        records = [self._ledger.entry(seq) for seq in sorted(self._seqs)]
        never = [record.entry for record in records if record.entry.kind in PROTECTED]
        if never:
            each = "; ".join(f"entry {one.seq} is {one.kind}: {PROTECTED[one.kind]}" for one in never[:5])
            raise Refused(f"never erased: {each}")
        return records

    def _whole_turns(self) -> Iterator[str]:
        chosen = self._selection
        for record in self._ledger.entries():
            kind = record.entry.kind
            if chosen.pid is not None:
                if kind == "turn.started" and record.entry.pid == chosen.pid:
                    yield record.entry.subject
            elif kind == "message.accepted" and not record.erased:
                body = record.body
                if (body["to"], body["session"]) == (chosen.address, chosen.session):
                    yield turn_id(body["id"])

    def _is_meant(self, record: EntryRecord) -> bool:
        entry = record.entry
        return (
            _turn_of(record) in self._turns
            or (self._selection.pid is not None and entry.pid == self._selection.pid)
            or (entry.kind in _CAUSED and entry.cause in self.selected)
        )

    def _take(self, record: EntryRecord) -> None:
        """Select an entry, and note whom it concerns."""
        kind = record.entry.kind
        if record.erased:
            return
        if kind in PROTECTED:
            self._kept[kind] = self._kept.get(kind, 0) + 1
            return
        self.selected.add(record.entry.seq)
        turn = _turn_of(record)
        if turn:
            self._said.add(turn)
            self._concerned.add(turn)
        if kind in _CAUSED or (kind == "process.started" and self._selection.pid is not None):
            self._causes.add(record.entry.cause)
        body = record.body
        if kind == "memory.written":
            self._documents.append(body["id"])
        elif kind in _COMMANDS:
            self._ordered.add(record.entry.seq)
        elif kind == "process.exited":
            self._exits.add(body["pid"])
        elif kind == "message.refused":
            self._refusals.add(body["why"])
        elif kind in _TOLD:
            self._messages.add(body["id"])
            if asker := _handled(record)[1]:  # its turn has the answer
                self._concerned.add(asker)
        elif kind == "message.replayed":
            self._concerned.add(turn_id(body["as"]))

    # -- what else they concern ----------------------------------------------------------------------------------

    def plan(self) -> Plan:
        self._concerned.update(self._causing())
        self._pass_on()
        self._messages.update(map(_message_of, self._concerned))
        left = list(self._left())
        return Plan(
            ranges=ranges_of(self.selected),
            entries=len(self.selected),
            turns=sorted(self._concerned),
            messages=sorted(self._messages),
            sessions=sorted(self._sessions),
            documents=self._documents,
            left=left[:MOST_LEFT],
            left_count=len(left),
            kept=self._kept,
            pids=sorted(self._pids()),
            exits=sorted(self._exits),
            refusals=sorted(self._refusals),
        )

    def _causing(self) -> Iterator[str]:
        """Turns that caused what is selected, and so hold its text as they gave it. Notes commands that repeat it."""
        causes = self._causes - self.selected - {-1}
        spawns: list[EntryRecord] = []
        for record in self._ledger.entries(min(causes, default=self._ledger.size)):
            if record.entry.seq not in causes:
                continue
            if record.entry.kind == _SPAWNED:
                spawns.append(record)
                if _prompt(record.body["spec"]):
                    self._repeating.add(record.entry.seq)
            yield from self._turn_or_command(record)
        for spawned in spawns:
            if spawned.entry.cause >= 0:
                yield from self._turn_or_command(self._ledger.entry(spawned.entry.cause))

    def _turn_or_command(self, record: EntryRecord) -> Iterator[str]:
        if record.entry.kind in _COMMANDS:
            if not record.erased and _repeats(record.body["arguments"]):
                self._repeating.add(record.entry.seq)
        elif record.entry.kind == _PUBLISHED:
            self._published.add(record.entry.seq)
            if record.entry.cause >= 0:
                yield from self._turn_or_command(self._ledger.entry(record.entry.cause))
        elif turn := _turn_of(record):
            yield turn

    def _pass_on(self) -> None:
        """Concern the turns that were handed what turns concerned say: those of messages and of processes that these
        sent and started, those that asked for their answers or read documents of theirs, those that got the same
        publication, and later ones of the same sessions, whose history says it. All in one reading, in the order in
        which it happened.
        """
        members, reached = set(self._published), set[str]()
        sessions, children, documents = set[Session](), set[str](), set(self._documents)
        handled: dict[str, Handled] = {}

        def reach(turn: str) -> None:
            while turn and turn not in reached:
                reached.add(turn)
                self._concerned.add(turn)
                where, turn = handled.get(turn) or _handled(self._ledger.entry(_seq_of(turn)))
                sessions.update(where)

        starts = *map(_seq_of, self._concerned | documents), *self._published
        for record in self._ledger.entries(min(starts, default=self._ledger.size)):
            entry, turn = record.entry, _turn_of(record)
            is_caused = entry.cause in members
            if entry.kind in _TOLD:
                handled[turn] = _handled(record)
                if is_caused:
                    self._concerned.add(turn)
            elif entry.kind == "turn.started":
                where, asker = handled.get(turn) or _handled(self._ledger.entry(_seq_of(turn)))
                if not record.erased:
                    where = {(record.body["address"], record.body["session"])}
                handled[turn] = where, asker
                if turn in self._concerned or where & sessions or children.intersection(dict(where)):
                    reach(turn)
            elif entry.kind == "turn.ended":
                handled.pop(turn, None)
            elif entry.kind == _SPAWNED and is_caused:
                children.add(record.body["address"])
            elif entry.kind == "memory.written" and is_caused:
                documents.add(entry.subject)
            elif entry.kind == "message.replayed" and turn in self._concerned and not record.erased:
                self._concerned.add(turn_id(record.body["as"]))
            elif documents.intersection(_read(record)) or self._concerned & _joined(record):
                reach(turn)
            if turn in self._concerned or (is_caused and (entry.kind in _CAUSED or record.erased)):
                members.add(entry.seq)

    def _pids(self) -> set[int]:
        """Who handled the turns concerned, and the process that was chosen."""
        start = min(map(_seq_of, self._concerned), default=self._ledger.size)
        found = {
            record.entry.pid
            for record in self._ledger.entries(start)
            if record.entry.kind == "turn.started" and record.entry.subject in self._concerned
        }
        return found | self._exits | ({self._selection.pid} if self._selection.pid is not None else set())

    def _left(self) -> Iterator[tuple[int, str]]:
        """Entries of the turns concerned, what these caused, and exits that say why a command ordered them, which are
        not selected and still have a body.
        """
        starts = [*map(_seq_of, self._concerned), *self._repeating, *self._ordered, *self._published]
        members = set(self._published)
        for record in self._ledger.entries(min(starts, default=self._ledger.size)):
            entry = record.entry
            if entry.seq in self._repeating or (entry.kind == _SPAWNED and entry.cause in members):
                yield entry.seq, entry.kind
                continue
            is_caused = entry.cause in members and (entry.kind in _CAUSED or record.erased)
            is_by_order = entry.kind == "process.exited" and entry.cause in self._ordered
            if is_caused or is_by_order or _turn_of(record) in self._concerned:
                members.add(entry.seq)
                self._sessions.update(_handled(record)[0])
                if entry.seq not in self.selected and not record.erased and entry.kind not in PROTECTED:
                    yield entry.seq, entry.kind


def _handled(record: EntryRecord) -> Handled:
    """Where a message is handled on this node, and the turn here that asked it, or empty; nothing when it is erased."""
    if record.entry.kind not in _TOLD or record.erased:
        return set(), ""
    body = record.body
    asker = "" if "@" in body["reply_to"] else body["reply_to"].partition(":")[0]
    return {(body["to"], body["session"])} if record.entry.kind == "message.accepted" else set(), asker


def _read(record: EntryRecord) -> list[str]:
    """Documents that a tool which reads memory has given, recall included."""
    if record.entry.kind != "tool.outcome" or record.erased or record.body["tool"] not in _READS_MEMORY:
        return []
    return _DOCUMENT(record.body["result"])


def _joined(record: EntryRecord) -> set[str]:
    """What would have been the turns of messages that joined another one, whose entry repeats them."""
    if record.entry.kind != "turn.steered" or record.erased:
        return set()
    return set(map(turn_id, record.body["messages"]))


def _turn_of(record: EntryRecord) -> str:
    """The turn that an entry is part of, or empty; messages are part of the turn that handles them."""
    entry = record.entry
    noun = entry.kind.partition(".")[0]
    if noun == "message":
        return turn_id(entry.subject) if entry.subject else ""
    if noun not in _OF_TURN or (noun == "tool" and record.erased):
        return ""
    return entry.subject if noun != "tool" else str(record.body["turn"])


def _repeats(arguments: str) -> bool:
    """Whether a command's arguments name a session, say why, which the exit that follows repeats, or hold a title or a
    prompt, as those of older nodes do.
    """
    told = json.loads(arguments)
    prompt = _prompt(told["spec"]) if "spec" in told else ""
    if told.get("session", DEFAULT_SESSION) != DEFAULT_SESSION:
        return True
    return any(text and not _MEASURED(text) for text in (told.get("title", ""), told.get("why", ""), prompt))


def _prompt(spec: str) -> str:
    return str(json.loads(spec).get("config", {}).get("system_prompt", ""))


def _message_of(turn: str) -> str:
    return "m" + turn[1:]


def _seq_of(ident: str) -> int:
    """Messages and documents are named after the entry that took them, and a turn after its message."""
    return int(ident[1:])


def ranges_of(seqs: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each unbroken row."""
    found: list[tuple[int, int]] = []
    for seq in sorted(seqs):
        if found and found[-1][1] == seq - 1:
            found[-1] = (found[-1][0], seq)
        else:
            found.append((seq, seq))
    return found


def as_json(value: Selection | Plan) -> dict[str, Any]:
    """For the way to another process."""
    return asdict(value)
