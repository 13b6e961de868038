"""What a verification has found, whatever form the ledger had."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from chain.audit.audit import Audit
from chain.audit.claims import Claims
from chain.audit.findings import Finding
from chain.keys.rotation import vkeys_text

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Report:
    """It succeeded when there are no ``findings``; of very many, the last ones are only counted (``left_out``).

    entries: how many were read; root: of the tree over them. size: entries that the newest signed head covers;
    full_size: that the newest head with both signatures covers; provisional: those behind it; published: those in
    the published ledger; slots: that the newest head in heads/ covers. torn_bytes: an incomplete last frame, as a
    crash leaves it. closed: the journal ends with a clean stop. pinned: the keys came from the caller; when False,
    everything here was measured against keys in the ledger itself. partial: only some entries of the ledger are
    here. begins: those before were not audited. rotations: changes of keys; snapshot: whether there is one; bound:
    whether the node's keys have signed its state, None when there is none here; uncompared: why it was not held
    against the entries; accepted: entries by which a person took over state that they had not; configured: boots at
    which configuration or peers' rights were others than before, and which; erased: bodies that were erased.
    open_calls: seqs of intents that have no outcome yet. note: the newest head with both signatures, empty without
    one; published_note: the checkpoint; vkeys: the keys that the ledger has had.
    """

    origin: str
    entries: int
    size: int
    root: bytes
    full_size: int
    provisional: int
    torn_bytes: int
    boots: int
    closed: bool
    pinned: bool
    partial: bool = False
    begins: int = 0
    published: int = 0
    slots: int = 0
    rotations: int = 0
    erased: int = 0
    note: bytes = b""
    published_note: bytes = b""
    vkeys: bytes = b""
    bound: bool | None = None
    snapshot: bool = False
    uncompared: str = ""
    accepted: list[int] = field(default_factory=list)
    configured: list[tuple[int, str]] = field(default_factory=list)
    open_calls: list[int] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    left_out: int = 0


def report_of(audit: Audit, claims: Claims, more: Sequence[Finding] = (), *, partial: bool = False) -> Report:
    """What was found of a ledger that is nothing but entries under one full head."""
    newest = claims.newest()
    size = newest.head.size if newest else 0
    return Report(
        origin=audit.origin,
        entries=audit.entries,
        size=size,
        root=audit.tree.root() if not partial or newest is None else newest.head.root,
        full_size=size,
        provisional=max(0, audit.entries - size),
        torn_bytes=0,
        boots=audit.meaning.boots,
        closed=False,
        pinned=bool(claims.pinned),
        partial=partial,
        begins=audit.begins,
        published=size,
        rotations=claims.history.rotations if claims.history else 0,
        erased=audit.meaning.erased,
        note=newest.note if newest else b"",
        published_note=newest.note if newest and not partial else b"",
        vkeys=vkeys_text(claims.history.pairs) if claims.history else b"",
        accepted=audit.meaning.accepted,
        configured=audit.meaning.configured,
        open_calls=[] if partial else sorted(audit.meaning.open_calls.values()),
        findings=[*claims.findings.kept, *audit.findings.kept, *more],
        left_out=audit.findings.left_out + claims.findings.left_out,
    )
