"""Which entries somebody wants to see: filters of ``chain log``, ``chain export`` and ``chain stats``. Pure.

All filters of one selection must hold. A process is named by its PID (that incarnation), or by name or address (all of
them); which PIDs a name had is learned from the ``process.started`` entries as they pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from chain.entry.entry import Entry
from chain.entry.reader import EntryRecord
from weftos.errors import WeftosError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_RELATIVE = re.compile(r"([0-9]{1,6})([smhdw])").fullmatch
_PARTIES = ("address", "to", "sender", "parent", "owner")


@dataclass(frozen=True, slots=True)
class Selection:
    """What must hold for an entry; None: nothing of the kind. Times in microseconds since 1970.

    process: acted itself. address: acted, or is named in the body as who did or got something. kind: a whole kind, or
    its noun (``tool``). tool: called. turn: belongs to it. since_us: at or after. until_us: before. text: somewhere in
    the body, in upper or lower case. first, last: range of sequence numbers.
    """

    process: str | None = None
    address: str | None = None
    kind: str | None = None
    tool: str | None = None
    turn: str | None = None
    since_us: int | None = None
    until_us: int | None = None
    text: str | None = None
    first: int | None = None
    last: int | None = None

    @property
    def names_a_process(self) -> bool:
        """Whether it can only be told after all ``process.started`` entries which PIDs are meant."""
        return self.address is not None or (self.process is not None and not self.process.isdigit())

    def is_past(self, entry: Entry) -> bool:
        """Whether neither ``entry`` nor any after it is selected: times never fall."""
        return (self.last is not None and entry.seq > self.last) or (
            self.until_us is not None and entry.time_us >= self.until_us
        )

    @property
    def everything(self) -> bool:
        return self == Selection()


class Selector:
    """Decides for entries that pass in order, from the first one of the ledger on when a name is to be known."""

    def __init__(self, selection: Selection) -> None:
        self._wanted = selection
        process = selection.process
        self._pids = {int(process)} if process is not None and process.isdigit() else set()
        self._address_pids: set[int] = set()
        self._text = selection.text.casefold() if selection.text is not None else None
        self._address_seen = False

    def matches(self, record: EntryRecord) -> bool:
        """Whether the entry is selected. What the leaf tells is asked first: bodies are slow to read."""
        entry, wanted = record.entry, self._wanted
        if wanted.names_a_process and entry.kind == "process.started" and not record.erased:
            self._learn(record.body)
        return (
            (wanted.first is None or entry.seq >= wanted.first)
            and (wanted.last is None or entry.seq <= wanted.last)
            and (wanted.since_us is None or entry.time_us >= wanted.since_us)
            and (wanted.until_us is None or entry.time_us < wanted.until_us)
            and (wanted.kind is None or entry.kind == wanted.kind or entry.kind.startswith(f"{wanted.kind}."))
            and (wanted.process is None or entry.pid in self._pids)
            and self._body_matches(record)
        )

    def finish(self) -> None:
        """All entries have passed. Raises WeftosError when a process was named that never was one."""
        unknown = None
        if self._wanted.process is not None and not self._pids:
            unknown = self._wanted.process
        elif self._wanted.address is not None and not (self._address_pids or self._address_seen):
            unknown = self._wanted.address
        if unknown is not None:
            raise WeftosError(
                f"the ledger knows no process {unknown}: weftos chain log --kind process", "not_found"
            )

    def _learn(self, body: dict[str, Any]) -> None:
        if is_named(body["address"], self._wanted.process):
            self._pids.add(body["pid"])
        if is_named(body["address"], self._wanted.address):
            self._address_pids.add(body["pid"])

    def _body_matches(self, record: EntryRecord) -> bool:
        wanted = self._wanted
        if wanted.tool is None and wanted.turn is None and wanted.address is None and self._text is None:
            return True
        body = record.body
        return (
            (wanted.tool is None or body.get("tool") == wanted.tool)
            and (wanted.turn is None or body.get("turn") == wanted.turn)
            and (wanted.address is None or self._concerns(record, body))
            and (self._text is None or any(self._text in text.casefold() for text in _texts(body)))
        )

    def _concerns(self, record: EntryRecord, body: dict[str, Any]) -> bool:
        named = any(is_named(body.get(field), self._wanted.address) for field in _PARTIES)
        self._address_seen = self._address_seen or named
        return named or record.entry.pid in self._address_pids


def is_named(address: object, wanted: str | None) -> bool:
    """Whether ``address`` is the wanted one, or ends in the wanted name."""
    return wanted is not None and isinstance(address, str) and wanted in (address, address.rpartition("/")[2])


def _texts(value: object) -> Iterator[str]:
    """Every string in a body, at any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def parse_time(text: str, now: datetime) -> int:
    """Microseconds since 1970 of an ISO 8601 time (UTC when it names no zone), or of a span before ``now`` (10m, 2h).

    Raises WeftosError.
    """
    relative = _RELATIVE(text.strip())
    try:
        if relative:
            moment = now - timedelta(**{_UNITS[relative[2]]: int(relative[1])})
        else:
            moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    except (ValueError, OverflowError) as error:
        raise WeftosError(
            f"{text!r:.40} is no time: give 2026-05-01T12:00 (UTC), or 10m, 2h, 3d for that long ago",
            "invalid",
        ) from error
