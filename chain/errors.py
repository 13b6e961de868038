"""Everything chain raises. One base, and a class for each case that a caller handles differently.

Ours to refuse (the caller's fault): :class:`EntryError`, :class:`BodyTooLarge`. Somebody else's bytes:
:class:`NoteError`, :class:`VerifierKeyError`, :class:`HeadError`, :class:`ProofError`, :class:`ReceiptError`.
The environment's: :class:`KeyFileError`, :class:`LedgerUnavailable`, :class:`DamageError`,
:class:`UnboundState`, :class:`ForeignDataError`. Ours: :class:`ReplayError`.
"""

from __future__ import annotations


class ChainError(Exception):
    """Base of every error of this package."""


class EntryError(ChainError):
    """An entry or a body is not of the form the ledger holds: wrong type, out of range, not canonical."""


class BodyTooLarge(EntryError):
    """A body is over ``MAX_BODY_BYTES`` when encoded. Nothing was written."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"body of {size_bytes} bytes, limit {limit_bytes}: "
            "shorten it, or store it elsewhere and record its hash"
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class ProofError(ChainError):
    """An inclusion or consistency proof does not prove what it claims; the message holds both sides."""


class NoteError(ChainError):
    """A signed note is malformed, or lacks a good signature of a key it must have."""


class VerifierKeyError(NoteError):
    """A verifier key (vkey) text is malformed, or its key id does not match its name and key."""


class HeadError(NoteError):
    """A note's text is not a tree head."""


class ReceiptError(ChainError):
    """A receipt is malformed, or its parts contradict each other."""


class KeyFileError(ChainError):
    """The node's own keys are missing, unreadable, too widely readable, or do not belong together."""


class LedgerUnavailable(ChainError):
    """The journal cannot be written (disk full, failed fsync, closed).

    Nothing that needs a record may happen now.
    """


class DamageError(ChainError):
    """The journal holds bytes that the node never wrote, anywhere but in an incomplete last frame.

    ``file`` and ``offset`` name the place, ``seq`` the first entry concerned (-1 when unknown), ``what`` the
    finding.
    """

    def __init__(self, file: str, offset: int, seq: int, what: str) -> None:
        at = f"{file}, byte {offset}" + (f", entry {seq}" if seq >= 0 else "")
        super().__init__(
            f"journal damaged at {at}: {what}; restore the file from a copy, and see `weftos chain verify`"
        )
        self.file = file
        self.offset = offset
        self.seq = seq
        self.what = what


class ReplayError(ChainError):
    """The journal is whole, and yet the node's state cannot take one of its records.

    ``file``, ``offset`` and ``group`` name its frame, ``place`` the record in it, from 1.
    """

    def __init__(self, file: str, offset: int, group: int, place: int, record: str, what: str) -> None:
        super().__init__(
            f"record {place} of group {group} ({file}, byte {offset}), {record}, cannot be taken into the node's "
            f"state: {what}. The ledger itself is whole, and nothing was changed: `weftos chain verify`, `log` and "
            "`export` read it. To start again, use the version of weftos that wrote the record, or a copy of the "
            "data directory from before it; and report this"
        )
        self.file = file
        self.offset = offset
        self.group = group
        self.place = place
        self.what = what


class UnboundState(ChainError):
    """State that decides or is remembered is not what the node's keys have signed. ``what`` names it."""

    rule = "is not what it has signed"

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the node's state {self.rule}: {what}. Nothing was started, and ledger and state are as they were. "
            "Restore the whole data directory from a copy; or, when you know how this came about and want it to count, "
            "`weftos up --accept-state REASON`, which the ledger will record"
        )
        self.what = what


class ContradictedState(UnboundState):
    """As its base: the keys have signed the state, and it says otherwise than the entries that made it."""

    rule = "says otherwise than its entries"


class ForeignDataError(ChainError):
    """The data belongs to another node, or has a format this version does not know. It is not touched."""


class RotationError(ChainError):
    """A change of keys does not follow from the keys before it, or a list of keys is none."""


class UnsoundHead(ChainError):
    """A head was to be signed that does not continue the one signed last. It was not; nothing is from now on."""

    def __init__(self, own: str, claimed: str) -> None:
        super().__init__(
            f"refused to sign the head {claimed}: what was signed before and the entries since lead to {own}; "
            "the node signs nothing more, restart it and see `weftos chain verify`"
        )


class TileError(ChainError):
    """A file of a published ledger is missing or not of the form it must have. ``file`` is its path there."""

    def __init__(self, file: str, what: str) -> None:
        super().__init__(f"ledger/{file}: {what}")
        self.file = file
        self.what = what


class MissingTile(TileError):
    """A file of a published ledger that its checkpoint promises is not there."""


class BundleError(ChainError):
    """A bundle is malformed, over a limit, or its parts contradict each other."""
