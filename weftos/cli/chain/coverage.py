"""What a verification shows, and what none of these files can: one table, as honest as we can make it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chain.audit.report import Report


@dataclass(frozen=True, slots=True)
class Row:
    """``by``: what covers it; empty when nothing does, and then ``why`` says why not."""

    what: str
    by: str = ""
    why: str = ""


def coverage(report: Report, *, local: bool) -> list[Row]:
    """The rows for what was read: a whole data directory when ``local``, else entries alone."""
    return [*_entries(report), *(_directory(report) if local else _copy())]


def _entries(report: Report) -> list[Row]:
    rows = [
        Row(f"entries up to {report.full_size - 1}", "heads signed with Ed25519 and ML-DSA-65")
        if report.full_size
        else Row("entries", why="no head with both signatures is here yet"),
        Row("bodies of these entries", "the salted commitments in them"),
    ]
    if report.provisional:
        rows.insert(1, Row(f"{report.provisional} newest entries", "heads signed with Ed25519 alone, so far"))
    if report.erased:
        rows.append(
            Row(f"erased bodies: {report.erased}", why="gone; what they said cannot be shown any more")
        )
    rows.append(_whose(report))
    return rows


def _whose(report: Report) -> Row:
    if report.pinned:
        return Row("whose ledger this is", "the key that you gave or verified under before")
    return Row(
        "whose ledger this is",
        why="the key came with the directory: whoever made all of it could say anything",
    )


def _directory(report: Report) -> list[Row]:
    signed = "the Ed25519 signature of the journal's last frame"
    state = "slots, rights, workspaces, sessions, documents, mail, doubts"
    rows = [
        Row(f"state in the journal: {state}", signed)
        if report.bound
        else Row(state, why="not as the keys signed it"),
    ]
    if report.snapshot:
        rows.append(
            Row("the same in the snapshot", "both signatures under its digest, and its entries")
            if report.bound
            else Row("the same in the snapshot", why="not as the keys signed it")
        )
    if report.accepted:
        rows.append(Row("state before entry " + str(report.accepted[-1]), why="a person has accepted it"))
    return [
        *rows,
        Row("that configuration and peers' rights are the same", "digests in node.booted, from boot to boot"),
        Row(
            "what they are now",
            why="weftos.toml and mesh/ are the operator's to write; the next boot records it",
        ),
        Row("that nothing is cut off at the end", why=_end(report)),
        *_older_slots(report),
        Row(
            "archive, index, logs, workspaces",
            why="made from the ledger or beside it; --db compares the database",
        ),
        Row("state since the snapshot, should Ed25519 be broken", why="only the snapshot has both signatures")
        if report.snapshot
        else Row(
            "state, should Ed25519 be broken", why="there is no snapshot yet, which has both signatures"
        ),
        Row("who has read the keys", why="who can read keys/ can sign anything"),
    ]


def _older_slots(report: Report) -> list[Row]:
    if report.slots >= report.full_size:
        return []
    covered = f"heads/ covers {report.slots} entries, a full head in the journal {report.full_size}"
    return [Row("that heads/ holds the newest head", why=f"{covered}: so it is in a copy of a node that ran")]


def _end(report: Report) -> str:
    if report.closed:
        return (
            "groups behind the newest full head could be gone together with the clean stop: as after a crash"
        )
    return "groups behind the newest full head could be gone: that is what a crash leaves, too"


def _copy() -> list[Row]:
    return [
        Row("whether there are more entries", why="only a newer head, seen elsewhere, can tell"),
        Row("the node's state, configuration and peers", why="they are not published"),
    ]
