"""A tree of labels, drawn with guides, a line for each branch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from weftos.cli.terminal.styles import Paint, Text, plain

_DRAWN = ("│   ", "├── ", "    ", "└── ")
_ASCII = ("|   ", "+-- ", "    ", "`-- ")


@dataclass(slots=True)
class Branch:
    """A label, and the branches below it."""

    label: Text
    below: list[Branch] = field(default_factory=list)

    def add(self, label: Text) -> Branch:
        """One branch more below this one."""
        branch = Branch(label)
        self.below.append(branch)
        return branch


def branch_lines(root: Branch, paint: Paint = plain, *, ascii: bool = False) -> Iterator[str]:
    """A line for each branch of ``root``, however deep it is."""
    go_on, one, done, last = _ASCII if ascii else _DRAWN
    pending = [(root, "", "")]
    while pending:
        branch, guide, deeper = pending.pop()
        yield guide + branch.label.painted(paint)
        for place, child in enumerate(reversed(branch.below)):
            pending.append((child, deeper + (one if place else last), deeper + (go_on if place else done)))
