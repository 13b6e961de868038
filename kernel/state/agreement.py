"""Whether the node's state says what the entries say that it was made by. Pure.

State is a function of the journal, and a snapshot stands for a journal that is gone. What made it is still in the
published ledger: each slot names the ``process.spawned``, and the ``process.changed`` that said its spec last, each
message its ``message.accepted`` and each document its ``memory.written``. A snapshot is signed, so a difference is a
fault of ours, or a person has accepted it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from chain.entry.reader import EntryRecord, Record, StateRecord
from chain.vectors.document import TABLE as DOCUMENTS
from chain.vectors.document import DocumentError, decode_document
from kernel.errors import Invalid
from kernel.model.makers import OPERATOR
from kernel.model.spec import ProcessSpec
from kernel.slices.mailboxes import Mail
from kernel.slices.tree.slots import Slot
from kernel.state.state import State
from kernel.values import sha256_hex

MOST_NAMED = 10_000
"""More are named when these are accepted."""

Look = Callable[[int], "tuple[str, dict[str, Any] | None] | None"]
"""Of an entry by its seq: its kind, and its body (None: erased). None when it cannot be looked up now."""
Check = tuple[int, tuple[str, ...], Callable[[dict[str, Any]], str]]
_SPAWNED, _CHANGED, _WRITTEN = ("process.spawned",), ("process.changed",), ("memory.written",)
_SAID = ("message.accepted", "message.sent")


@dataclass(frozen=True, slots=True)
class Contradiction:
    """``what`` the state says otherwise than entry ``seq`` (-1: there is none)."""

    seq: int
    kind: str
    what: str

    def __str__(self) -> str:
        return f"entry {self.seq} ({self.kind}): {self.what}" if self.seq >= 0 else self.what


def disagreements(state: State, look: Look) -> list[Contradiction]:
    """What ``state`` says otherwise than the entries that made it and no person has accepted, in words that name both;
    at most ``MOST_NAMED``.
    """
    found: list[Contradiction] = []
    for seq, kinds, differs in sorted(_checks(state), key=lambda check: check[0]):
        entry = None if seq in state.boots.accepted else look(seq)
        if entry is None:
            continue
        there, body = entry
        what = "" if body is None else differs(body)
        if there not in kinds:
            what = f"the state has something there that was made by {' or '.join(kinds)}"
        if what:
            found.append(Contradiction(seq, there, what))
        if len(found) == MOST_NAMED:
            break
    return found


def _checks(state: State) -> Iterator[Check]:
    """By which entry each part of the state was made, and how the two are compared."""
    for slot in state.slots.values():
        yield slot.spawned_seq, _SPAWNED, partial(_slot, slot)
        if slot.changed_seq >= 0:
            yield slot.changed_seq, _CHANGED, partial(_spec, slot)
    for fact in state.documents.facts():
        said = {"id": fact.id, "owner": fact.owner, "scope": fact.scope, "bytes": fact.bytes}
        yield fact.seq, _WRITTEN, partial(_fields, f"document {fact.id}", said)
    for mail in _letters(state):
        yield mail.seq, _SAID, partial(_mail, mail)


def _letters(state: State) -> Iterator[Mail]:
    for box in state.mail.values():
        yield from box.values()
    for letter in state.dead.values():
        yield letter.mail
    for waiting in state.in_transit.outbox.values():
        yield from waiting.values()


def _slot(slot: Slot, body: dict[str, Any]) -> str:
    if slot.changed_seq < 0 and _made_so(slot) == body:  # nearly all, and to read a spec takes thrice as long
        return ""
    try:
        spec = ProcessSpec.from_json(str(body.get("spec")))
    except Invalid as error:
        return f"its spec cannot be read: {error}"
    mine = {"address": slot.address, "parent": slot.parent, "made_by": slot.made_by, **_rights(slot.spec)}
    theirs = {
        "address": body.get("address"),
        "parent": body.get("parent"),
        "made_by": body.get("made_by", OPERATOR),
        **_rights(spec),
    }
    if fault := _fields(f"process {slot.address}", mine, theirs):
        return fault
    if slot.changed_seq >= 0 or spec == slot.spec:
        return ""
    return f"process {slot.address} has another spec than it was spawned with"


def _made_so(slot: Slot) -> dict[str, Any]:
    """The body of the entry that would make it."""
    return {
        "address": slot.address,
        "made_by": slot.made_by,
        "parent": slot.parent,
        "spec": slot.spec.to_json(),
    }


def _spec(slot: Slot, body: dict[str, Any]) -> str:
    same = body.get("address") == slot.address and body.get("spec") == slot.spec.to_json()
    return "" if same else f"process {slot.address} has another spec than it was changed to"


def _rights(spec: ProcessSpec) -> dict[str, Any]:
    """What a spec lets a process do: all that is named when it differs."""
    return {"tools": spec.tools, "workspace": spec.workspace, "capabilities": spec.capabilities}


def _mail(mail: Mail, body: dict[str, Any]) -> str:
    rights = body.get("rights")
    theirs = {**body, "rights": None if rights is None else sorted(rights)}
    mine = {
        "id": mail.id,
        "sender": mail.sender,
        "to": mail.to,
        "text": mail.text,
        "session": mail.session,
        "rights": None if mail.rights is None else sorted(mail.rights),
    }
    return _fields(f"message {mail.id}", mine, theirs)


def _fields(what: str, mine: dict[str, Any], theirs: dict[str, Any]) -> str:
    for name, value in mine.items():
        if theirs.get(name) != value:
            return f"{what} has {name} {value!r:.200} in the state, and {theirs.get(name)!r:.200} there"
    return ""


class DocumentCheck:
    """Holds each document of the journal against the ``memory.written`` before it: hand it every record, in order.

    ``found`` is what a person has not accepted since.
    """

    def __init__(self) -> None:
        self.found: list[Contradiction] = []
        self._written: EntryRecord | None = None

    def __call__(self, record: Record) -> None:
        if isinstance(record, EntryRecord):
            if record.entry.kind == "memory.written":
                self._written = record
            elif record.entry.kind == "state.accepted":
                self.found.clear()
        elif isinstance(record, StateRecord) and record.table == DOCUMENTS and record.value is not None:
            self._document(record)

    def _document(self, record: StateRecord) -> None:
        written, self._written = self._written, None
        if written is not None and written.erased:
            return
        mine = written is not None and written.body.get("id") == record.key
        what = document_differs(record, written.body if written is not None and mine else None)
        if what and len(self.found) < MOST_NAMED:
            seq = written.entry.seq if written is not None else -1
            self.found.append(Contradiction(seq, "memory.written", what))


def documents_differ(records: Iterable[StateRecord], state: State, look: Look) -> list[Contradiction]:
    """Which documents of a snapshot are not those that their entries name, by the hash of their texts, but for what a
    person has accepted.
    """
    seqs = {fact.id: fact.seq for fact in state.documents.facts() if fact.seq not in state.boots.accepted}
    found: list[Contradiction] = []
    for record in records:
        if record.table != DOCUMENTS or record.key not in seqs:
            continue
        entry = look(seqs[record.key])
        what = document_differs(record, entry[1]) if entry and entry[1] is not None else ""
        if what:
            found.append(Contradiction(seqs[record.key], "memory.written", what))
        if len(found) == MOST_NAMED:
            break
    return found


def document_differs(record: StateRecord, body: dict[str, Any] | None) -> str:
    """How the state record of a document differs from the body of the entry that says it was written."""
    if body is None:
        return f"document {record.key[:64]} was written by no entry"
    try:
        document = decode_document(record.key, record.value or b"")
    except DocumentError as error:
        return str(error)
    mine = {
        "id": document.id,
        "owner": document.owner,
        "scope": document.scope,
        "text_hash": sha256_hex(document.text),
        "title": document.title,
    }
    return _fields(f"document {record.key[:64]}", mine, body)
