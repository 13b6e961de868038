"""The node's durable state as bytes, and back: what a snapshot keeps in place of the journal before it.

The bytes are msgpack: the number of their own format, and of each slice by its name the pair of the format of its rows
and the rows (:mod:`kernel.slice`). A changed slice gets another number and a migration, a new one a migration
from 0; the format here stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from chain.errors import DamageError, ForeignDataError
from kernel.errors import Invalid
from kernel.model.rows import as_list, as_number
from kernel.slice import Slice
from kernel.state.former_snapshots import FORMER, slices_of
from kernel.state.state import State

FORMAT = 4

_PLACE = "snapshot/state.ws"
_FAULTS = (LookupError, ValueError, TypeError, RecursionError, msgpack.UnpackException, Invalid)


def encode_state(state: State) -> bytes:
    """All of ``state``."""
    slices = {name: [one.FORMAT, one.rows()] for name, one in state.slices.items()}
    packed: bytes = msgpack.packb({"format": FORMAT, "slices": slices})
    return packed


def restore_state(state: State, data: bytes) -> None:
    """Bring a new ``state`` to where the encoded one was.

    Raises ForeignDataError for a later format, DamageError for anything that :func:`encode_state` does not write, nor
    did before; then ``state`` is of no use.
    """
    try:
        parts = msgpack.unpackb(data)
    except _FAULTS as error:
        raise _damage(f"not msgpack: {type(error).__name__}") from error
    try:
        found = _slices(parts)
        for name in found.keys() - state.slices.keys():
            raise ForeignDataError(f"the state in {_PLACE} has a part {name!r:.60} that this version lacks")
        for name, one in state.slices.items():
            one.restore(_migrated(one, *found.get(name, (0, None))))
    except _FAULTS as error:
        raise _damage(f"{type(error).__name__}: {error}") from error


def _slices(parts: Any) -> Mapping[str, tuple[int, Any]]:
    """Format and rows of each slice."""
    found = parts.get("format") if isinstance(parts, dict) else None
    if type(found) is int and found > FORMAT:
        raise ForeignDataError(f"the state in {_PLACE} has format {found}, this version knows {FORMAT}")
    if type(found) is int and found in FORMER:
        return slices_of(found, parts)
    if found != FORMAT or set(parts) != {"format", "slices"} or type(parts["slices"]) is not dict:
        raise ValueError("its parts are not those of a state")
    pairs = {name: as_list(pair) for name, pair in parts["slices"].items()}
    return {name: (as_number(format_), rows) for name, (format_, rows) in pairs.items()}


def _migrated(one: Slice, format_: int, rows: Any) -> Any:
    """``rows`` as this version of a slice has them."""
    if format_ > one.FORMAT:
        what = f"the part {one.NAME!r} of the state in {_PLACE}"
        raise ForeignDataError(f"{what} has format {format_}, this version knows {one.FORMAT}")
    while format_ < one.FORMAT:
        migration = one.MIGRATIONS.get(format_)
        if migration is None:
            raise ValueError(f"its part {one.NAME!r} is missing or of no known format ({format_})")
        rows = migration(rows)
        format_ += 1
    return rows


def _damage(what: str) -> DamageError:
    return DamageError(_PLACE, 0, -1, f"the node's state in it cannot be read: {what}")
