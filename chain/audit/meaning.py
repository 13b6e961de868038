"""What the bodies of entries say together: boots, changes of keys, erasures, and calls that have no outcome yet."""

from __future__ import annotations

from reprlib import repr as brief
from typing import Any

from chain.audit.findings import Findings
from chain.audit.missing import Missing
from chain.errors import RotationError
from chain.keys.rotation import KIND as ROTATED
from chain.keys.rotation import KeyHistory

ERASE = "erase"
NEVER_ERASED = (ERASE, ROTATED)
OUTCOMES = ("tool.outcome", "tool.resolved")
BOOTED, ACCEPTED = "node.booted", "state.accepted"
CONFIGURED = ("configuration", "peers")  # digests in node.booted of what decides and is no state
MOST_KEPT = 1_000
_ID_CHARACTERS = 64

FOLLOWED = frozenset(("tool.intent", *OUTCOMES, BOOTED, ACCEPTED, ERASE, ROTATED))
"""The kinds that say something together."""


class Meaning:
    """``keys``: the node's, from the first ones on; it follows their changes.

    boots, erased: how many. open_calls: seqs of intents without an outcome. accepted: entries by which a person took
    over state that no key had signed. configured: boots with another configuration or other rights of peers than the
    one before, and which.
    """

    def __init__(self, findings: Findings, keys: KeyHistory | None) -> None:
        self.boots = self.erased = 0
        self.open_calls: dict[tuple[str, str], int] = {}
        self.accepted: list[int] = []
        self.configured: list[tuple[int, str]] = []
        self._findings = findings
        self._keys = keys
        self._configured: dict[str, str] = {}
        self._intents: dict[int, tuple[str, str]] = {}
        self._missing = Missing()

    def follow(self, seq: int, kind: str, body: dict[str, Any], where: str) -> None:
        """The entry ``seq`` and its body."""
        if kind == "tool.intent":
            call = _call(body)
            self._settled(call)
            self.open_calls[call] = seq
            self._intents[seq] = call
        elif kind in OUTCOMES:
            self._settled(_call(body))
        elif kind == BOOTED:
            self.boots += 1
            self._booted(seq, body)
        elif kind == ACCEPTED and len(self.accepted) < MOST_KEPT:
            self.accepted.append(seq)
        elif kind == ERASE:
            self._erasure(seq, where, body.get("ranges"))
        elif kind == ROTATED and self._keys is not None:
            try:
                self._keys.rotated(seq, body)
            except RotationError as error:
                expected = "a change of keys that all four keys signed"
                self._findings.add(seq, "rotation", where, expected, str(error))

    def gone(self, seq: int, kind: str, cause: int, where: str) -> None:
        """A body is not there: right only when a later entry says so, and never for those that say such things."""
        self.erased += 1
        if kind in OUTCOMES and cause in self._intents:  # what it was the outcome of, its leaf still tells
            self._settled(self._intents[cause])
        if kind in NEVER_ERASED:
            self._findings.add(seq, "erased", where, f"the body of {kind}, which is never erased", "nothing")
        else:
            self._missing.add(seq)

    def finish(self) -> None:
        """Nothing more comes: what is missing and was not explained never will be."""
        for first, last in self._missing.ranges():
            which = f"entries {first} to {last}" if last > first else f"entry {first}"
            expected = "salt and body, or an entry that says who erased them"
            self._findings.add(first, "erased", which, expected, "nothing")

    def _erasure(self, seq: int, where: str, ranges: Any) -> None:
        """An entry says that the bodies of ``ranges`` are gone."""
        for pair in ranges if type(ranges) is list else [None]:
            if type(pair) is list and [*map(type, pair)] == [int, int] and 0 <= pair[0] <= pair[1] < seq:
                self._missing.explain(pair[0], pair[1])
            else:
                self._findings.add(seq, "body", where, "ranges of earlier entries", brief(pair))

    def _booted(self, seq: int, body: dict[str, Any]) -> None:
        """Whether the node was configured as at the boot before."""
        now = {name: str(body[name]) for name in CONFIGURED if name in body}
        before, self._configured = self._configured, now
        changed = [name for name in now if before and before.get(name) != now[name]]
        if changed and len(self.configured) < MOST_KEPT:
            self.configured.append((seq, ", ".join(changed)))

    def _settled(self, call: tuple[str, str]) -> None:
        """A call is not open, or not any more."""
        self._intents.pop(self.open_calls.pop(call, -1), None)


def _call(body: dict[str, Any]) -> tuple[str, str]:
    return f"{body.get('turn')!s:.{_ID_CHARACTERS}}", f"{body.get('ordinal')!s:.{_ID_CHARACTERS}}"
