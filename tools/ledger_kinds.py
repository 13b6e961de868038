"""Writes docs/ledger-kinds.md from chain/entry/kinds.py: ``python -m tools.ledger_kinds``; a test tells when it is
stale."""

from __future__ import annotations

from pathlib import Path

from chain.entry.kinds import KINDS, Kind

TARGET = Path(__file__).parent.parent / "docs" / "ledger-kinds.md"

_INTRODUCTION = """\
# Ledger kinds

Made from `chain/entry/kinds.py` by `python -m tools.ledger_kinds`; do not edit by hand.

Every entry of the ledger has a kind: a noun, a dot, a verb. The kind stands in the entry itself, beside sequence, time,
node, pid, subject, trace and cause; what follows here are the fields of its *body*, which lies beside the entry and is
bound to it by a salted commitment. Every field is present in every entry of its kind, with the type that stands beside
it: another is refused before it is written, and found by `weftos chain verify`.

*durable*: whoever records it waits until it is on the disk, and everything before it then is too. *lazy*: on the disk
within 50 ms, or sooner with the next durable one.
"""


def render() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *map(_section, KINDS.values())])


def _section(kind: Kind) -> str:
    rows = [f"| `{name}` | {field.type.words} | {field.meaning} |" for name, field in kind.fields.items()]
    wait = "durable" if kind.durable else "lazy"
    table = ["| field | type | meaning |", "|---|---|---|", *rows]
    return "\n".join([f"## {kind.name}", "", f"{kind.meaning} ({wait})", "", *table, ""])


if __name__ == "__main__":
    TARGET.write_text(render())
