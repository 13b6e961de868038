"""What is not as it must be."""

from __future__ import annotations

from dataclasses import dataclass

MOST_FINDINGS = 1_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it must be. ``seq``: the entry concerned, -1 when it is none or cannot be told."""

    seq: int
    kind: str
    where: str
    expected: str
    found: str


class Findings:
    """The first ``MOST_FINDINGS`` are ``kept``; ``count`` is how many there were."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.count = 0

    def add(self, seq: int, kind: str, where: str, expected: str, found: str) -> None:
        self.count += 1
        if self.count <= MOST_FINDINGS:
            self.kept.append(Finding(seq, kind, where, expected, found))

    @property
    def left_out(self) -> int:
        """How many were only counted."""
        return self.count - len(self.kept)
