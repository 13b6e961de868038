"""What must be true after the kills: the client's ledger, the effect server's count and the journal, held together."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tests.prove.accounts import Accounts, read_accounts

if TYPE_CHECKING:
    from tests.prove.kills import Campaign, Incident

STEP_FAILED = " did not work ("
"""How a planner answers, in order, that the tool of one of its steps could not do it."""


class Book:
    """The client's ledger. ``acknowledged``: own id -> (message, expects); ``replied``: own id -> (status, reply)."""

    def __init__(self, path: Path) -> None:
        self.acknowledged: dict[str, tuple[str, dict[str, list[str]]]] = {}
        self.replied: dict[str, tuple[str, str]] = {}
        for line in path.read_text().splitlines():
            entry: dict[str, Any] = json.loads(line)
            match entry["event"]:
                case "acknowledged":
                    self.acknowledged[entry["id"]] = (entry["message"], entry["expects"])
                case "replied":
                    self.replied[entry["id"]] = (entry["status"], entry["reply"])


def judge_kills(campaign: Campaign) -> None:
    """Add every check to the campaign's findings, and the figures of each incident."""
    accounts = read_accounts(campaign.house.node)
    book = Book(campaign.ledger)
    counts = Counter(campaign.effects.log.read_text().split())
    findings = campaign.findings
    findings.figure("messages acknowledged to the client", len(book.acknowledged))
    findings.figure("replies seen by the client", len(book.replied))
    findings.figure("effects counted outside", sum(counts.values()))
    findings.figure("tool calls", sum(work.calls for work in accounts.work.values()))
    done, again = campaign.resolved["done"], campaign.resolved["retry"]
    if boots := campaign.boots_s:
        spread = f"{min(boots):.2f} / {median(boots):.2f} / {max(boots):.2f} s"
        findings.figure("weftos up after a node kill, min / median / max", spread)
    findings.figure("doubts resolved", f"{done} had happened, {again} had not and were done again")
    findings.figure("dead letters", sum(ending.status == "dead" for ending in accounts.endings.values()))
    missing, doubled = _promises(campaign, accounts, book, counts)
    findings.check("no message ended with an error", _errors(accounts))
    findings.check("in doubt only what was in flight at the kill", _doubts(campaign.incidents, accounts))
    _attribute(campaign, accounts, missing, doubled)


def judge_promises(campaign: Campaign) -> None:
    """Add what holds whatever was done to the node: a call may have failed, and its message have ended with that."""
    accounts = read_accounts(campaign.house.node)
    book = Book(campaign.ledger)
    counts = Counter(campaign.effects.log.read_text().split())
    campaign.findings.figure("messages acknowledged to the client", len(book.acknowledged))
    campaign.findings.figure("effects counted outside", sum(counts.values()))
    statuses = Counter(ending.status for ending in accounts.endings.values())
    campaign.findings.figure("endings", ", ".join(f"{count} {status}" for status, count in statuses.items()))
    _promises(campaign, accounts, book, counts)


def _promises(
    campaign: Campaign, accounts: Accounts, book: Book, counts: Counter[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """What is missing, by message, and doubled, by effect."""
    findings = campaign.findings
    missing = dict(_missing(accounts, book))
    doubled = {effect: f"{effect} happened {n} times" for effect, n in counts.items() if n > 1}
    findings.check("no acknowledged message is missing", missing.values())
    findings.check("no effect is doubled", doubled.values())
    findings.check("no message ended twice", accounts.endings_twice)
    findings.check("replies are as recorded", _replies(accounts, book))
    findings.check("no effect without a recorded intent", sorted(set(counts) - set(accounts.effects)))
    findings.check("every answered message had each of its effects once", _effects(accounts, book, counts))
    findings.check("every answered message wrote its files", _files(campaign, accounts, book))
    resolved, recorded = campaign.resolved.total(), len(accounts.doubts)
    uneven = [] if resolved == recorded else [f"resolved {resolved}, recorded {recorded}"]
    findings.check("every doubt was resolved", uneven)
    return missing, doubled


def _missing(accounts: Accounts, book: Book) -> Iterable[tuple[str, str]]:
    for ident, (message, _) in book.acknowledged.items():
        if ident not in accounts.accepted.get(message, ""):
            yield message, f"{ident}: message {message} is not in the journal"
        elif message not in accounts.endings:
            yield message, f"{ident}: message {message} has no ending"


def _replies(accounts: Accounts, book: Book) -> Iterable[str]:
    for ident, told in book.replied.items():
        ending = accounts.endings.get(book.acknowledged[ident][0])
        if ending is None or (ending.status, ending.text) != told:
            yield f"{ident}: told {told}, recorded {ending}"


def _answered(accounts: Accounts, book: Book) -> Iterable[tuple[str, str, dict[str, list[str]]]]:
    for ident, (message, expects) in book.acknowledged.items():
        ending = accounts.endings.get(message)
        if ending is not None and ending.status == "ok" and STEP_FAILED not in ending.text:
            yield ident, ending.text, expects


def _effects(accounts: Accounts, book: Book, counts: Counter[str]) -> Iterable[str]:
    for ident, _, expects in _answered(accounts, book):
        for effect in expects["effects"]:
            if counts[effect] != 1:
                yield f"{ident}: effect {effect} happened {counts[effect]} times"


def _files(campaign: Campaign, accounts: Accounts, book: Book) -> Iterable[str]:
    """A resumed turn saw the same random number, so the file it wrote agrees with the reply it gave."""
    for ident, reply, expects in _answered(accounts, book):
        agent = ident.rpartition("-")[0]
        wanted = f"{ident} {json.loads(reply)['dice']}\n" if reply.startswith("{") else ident
        for name in expects["files"]:
            path = campaign.house.node / "workspaces" / "user+" / "load+" / agent / name
            found = path.read_text() if path.exists() else None
            if found != wanted:
                yield f"{ident}: {name} holds {found!r}, expected {wanted!r}"


def _errors(accounts: Accounts) -> Iterable[str]:
    for message, ending in accounts.endings.items():
        if ending.status not in ("ok", "dead") or STEP_FAILED in ending.text:
            yield f"{message} (attempt {ending.attempts}): {ending.status}: {ending.text}"


def _doubts(incidents: list[Incident], accounts: Accounts) -> Iterable[str]:
    for time_us, call in accounts.doubts:
        before = [incident for incident in incidents if incident.begin_us <= time_us]
        if not before:
            yield f"{call} was in doubt before anything was killed"
        elif call not in accounts.in_flight(before[-1].begin_us, before[-1].end_us):
            yield f"{call} was in doubt, but not in flight when {before[-1].victim.name} was killed"


def _attribute(
    campaign: Campaign, accounts: Accounts, missing: Iterable[str], doubled: Iterable[str]
) -> None:
    """Count, for each incident, what followed it and came before the next; what nobody dated goes to the last."""
    for incident in campaign.incidents:
        incident.in_flight = len(accounts.in_flight(incident.begin_us, incident.end_us))
    end_us = campaign.incidents[-1].begin_us
    begins = [incident.begin_us for incident in campaign.incidents]
    dated = {
        "resumed": accounts.resumed_at,
        "doubts": [time_us for time_us, _ in accounts.doubts],
        "missing": [accounts.accepted_at.get(message, end_us) for message in missing],
        "doubled": [accounts.intended_at.get(effect, end_us) for effect in doubled],
    }
    for column, times in dated.items():
        for time_us in times:
            incident = campaign.incidents[max(0, bisect_right(begins, time_us) - 1)]
            setattr(incident, column, getattr(incident, column) + 1)
