"""What an answer says was done to files and messages, held against what was done in its turn. Pure.

A model may say "I wrote report.md" and have called nothing. Here the few plain sentences are read in which a first
person says, in the past, that a named file was written, changed or deleted, or an address was sent something; what no
call of the turn that went well has named in its arguments is told to whoever asked. What is said in other words is not
noticed: this finds some of what is false and accuses nothing that is true by these sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cognition.context import Record

LONGEST_CHARS = 64 * 2**10
MOST = 8
_FILE = r"[`\"'*]{0,2}([\w./~-]{1,200}\.[A-Za-z][A-Za-z0-9]{0,7})[`\"'*]{0,2}"
_DONE = r"\bI(?:'ve| have)?(?: just| now| also| successfully)? (?:{verbs})\b"
_WRITTEN = re.compile(
    _DONE.format(verbs="wrote|written|saved|created|updated|edited|deleted|removed|modified|appended")
    + r"(?: [\w,'`\"-]{1,40}){0,8}? "
    + _FILE
)
_SENT = re.compile(
    _DONE.format(verbs="sent|messaged|emailed|notified")
    + r"(?: [\w,'`\"-]{1,40}){0,6}? ([\w.+-]{1,64}@[\w.-]{1,100}\w|/[\w/.-]{1,100}\w)"
)


@dataclass(frozen=True, slots=True)
class Claim:
    """``what``: the file, or who was sent something. ``sent``: whether it is the latter."""

    what: str
    sent: bool = False


def claims_of(text: str) -> tuple[Claim, ...]:
    """What it says was done."""
    text = text[:LONGEST_CHARS]
    found = [Claim(name) for name in _WRITTEN.findall(text)]
    found += [Claim(name, sent=True) for name in _SENT.findall(text)]
    return tuple(dict.fromkeys(found))[:MOST]


def unsupported(text: str, exchange: Sequence[Record]) -> tuple[Claim, ...]:
    """Those claims that no call of the turn bears out: none that went well has it in its arguments."""
    done = [arguments.lower() for arguments in _went_well(exchange)]
    return tuple(
        claim for claim in claims_of(text) if not any(_base(claim.what) in arguments for arguments in done)
    )


def _base(name: str) -> str:
    return name.rpartition("/")[2].lower()


def _went_well(exchange: Sequence[Record]) -> Iterable[str]:
    """The arguments of each call that has a result without a fault."""
    fine = {
        each.get("tool_call_id") for each in exchange if each.get("role") == "tool" and "status" not in each
    }
    for record in exchange:
        for call in record.get("tool_calls") or ():
            if call["id"] in fine:
                yield call["function"]["arguments"]


def note_of(claims: Sequence[Claim]) -> str:
    """What whoever asked is told behind the answer; empty where there is nothing to tell."""
    if not claims:
        return ""
    written = [claim.what for claim in claims if not claim.sent]
    sent = [claim.what for claim in claims if claim.sent]
    said = [f"wrote or changed {', '.join(written)}"] if written else []
    said += [f"sent anything to {', '.join(sent)}"] if sent else []
    return f"\n\n[weftos: no call of this turn {' or '.join(said)}.]"
