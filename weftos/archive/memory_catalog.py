"""Which documents there are, who owns them, and which of them a reader may see; as arrays, by place.

A *place* is a small rising number, never used twice, that BM25 knows a document by; its *number* is the ledger entry
that wrote it, which is what the vector index and the results know it by. Places rise with time, so that equal scores
fall the same way after every restart.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from chain.vectors.document import EXCERPT_CHARACTERS, SHARED, Document, readable_owners

READERS_REMEMBERED = 16
FIRST_PLACES = 1024

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Held:
    """What is remembered of one document: enough for a result, so that a search asks no table (that took longer than
    the search). ``shown`` has the first ``EXCERPT_CHARACTERS`` of its text; ``cut``: there are more.
    """

    shown: Document
    cut: bool
    place: int
    text_hash: bytes
    bytes: int

    @property
    def id(self) -> str:
        return self.shown.id

    @property
    def number(self) -> int:
        return self.shown.seq


@dataclass(frozen=True, slots=True)
class Visible:
    """What one reader may find: by place, and as rising numbers."""

    places: Mask
    numbers: Numbers


class Catalog:
    """All documents. For one thread."""

    def __init__(self) -> None:
        self.by_id: dict[str, Held] = {}
        self.by_number: dict[int, Held] = {}
        self.places = 0
        self.text_bytes = 0
        self._numbers = np.full(FIRST_PLACES, -1, np.int64)
        self._owners = np.full(FIRST_PLACES, -1, np.int32)
        self._shared = np.zeros(FIRST_PLACES, np.bool_)
        self._codes: dict[str, int] = {}
        self._visible: OrderedDict[str, Visible] = OrderedDict()

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def shared(self) -> int:
        """How many documents are shared."""
        return int(self._shared.sum())

    @property
    def owners(self) -> int:
        """How many different owners the documents have."""
        return len({held.shown.owner for held in self.by_id.values()})

    def add(self, document: Document) -> Held | None:
        """Take ``document`` in, which is not there yet; None when another one has its number."""
        if document.seq in self.by_number:
            return None
        place = self.places
        self._grow(place)
        held = Held(
            replace(document, text=document.text[:EXCERPT_CHARACTERS]),
            len(document.text) > EXCERPT_CHARACTERS,
            place,
            document.text_hash,
            len(document.text.encode()),
        )
        self.places += 1
        self._numbers[place] = document.seq
        self._owners[place] = self._codes.setdefault(document.owner, len(self._codes))
        self._shared[place] = document.scope == SHARED
        self.by_id[held.id] = held
        self.by_number[held.number] = held
        self.text_bytes += held.bytes
        self._visible.clear()
        return held

    def remove(self, held: Held) -> None:
        del self.by_id[held.id]
        del self.by_number[held.number]
        self._numbers[held.place] = -1
        self._owners[held.place] = -1
        self._shared[held.place] = False
        self.text_bytes -= held.bytes
        self._visible.clear()

    def number_at(self, place: int) -> int:
        """The number of the document at ``place``."""
        return int(self._numbers[place])

    def visible(self, reader: str | None) -> Visible | None:
        """What ``reader`` (an address) may find; None, everything, for the operator (None)."""
        if reader is None:
            return None
        known = self._visible.get(reader)
        if known is None:
            mask = self._shared[: self.places].copy()
            owners = self._owners[: self.places]
            for owner in sorted(readable_owners(reader)):
                if owner in self._codes:
                    mask |= owners == self._codes[owner]
            known = Visible(mask, np.sort(self._numbers[: self.places][mask], kind="stable"))
            self._visible[reader] = known
            if len(self._visible) > READERS_REMEMBERED:
                self._visible.popitem(last=False)
        else:
            self._visible.move_to_end(reader)
        return known

    def _grow(self, place: int) -> None:
        if place < len(self._numbers):
            return
        more = len(self._numbers)
        self._numbers = np.concatenate((self._numbers, np.full(more, -1, np.int64)))
        self._owners = np.concatenate((self._owners, np.full(more, -1, np.int32)))
        self._shared = np.concatenate((self._shared, np.zeros(more, np.bool_)))
