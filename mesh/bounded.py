"""Msgpack from somebody else, whose values are counted before the first of them is built.

A value takes one byte on the wire and up to a hundred in memory, and a header of five bytes can announce four
thousand million: 16 MiB of empty maps are 1.2 GB of Python objects, and a few hundred nested array headers make the
unpacker reserve gigabytes. So the headers are walked first, which costs some 100 ns a value and stops at the limit:
what is refused has cost a few milliseconds and no memory. Long texts are one value, whatever their length.

Nothing that was sent is in an exception of this module, neither in its words nor by a traceback that holds it.
"""

from __future__ import annotations

from typing import Any

import msgpack

SMALL_BYTES = 1024
"""So little is unpacked at once: it has no more values than bytes, and what it announces is bounded by the unpacker."""

_ARRAYS = {0xDC: 2, 0xDD: 4}
_MAPS = {0xDE: 2, 0xDF: 4}
_TEXTS = {0xD9: 1, 0xDA: 2, 0xDB: 4, 0xC4: 1, 0xC5: 2, 0xC6: 4}
_NEVER_USED = 0xC1
_FIXED = {0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9}


class Unbounded(ValueError):
    """The bytes are not one msgpack value, or one of more values than allowed. The message says which."""


def _width(byte: int) -> int:
    """Bytes of a value that begins with ``byte``; 0 when the rest of its header, or its children, must be looked at."""
    if byte <= 0x7F or byte >= 0xE0 or byte in (0x80, 0x90, 0xC0, 0xC2, 0xC3):
        return 1
    if 0xA0 <= byte <= 0xBF:
        return 1 + byte - 0xA0
    return _FIXED.get(byte, 0)


_WIDTHS = tuple(map(_width, range(256)))
_LENGTHS = tuple(_TEXTS.get(byte, 0) for byte in range(256))


def count_values(data: bytes, limit: int) -> int:
    """How many values ``data`` holds, containers and keys included. Builds none.

    Raises :class:`Unbounded` at the ``limit``, for extension types, and when ``data`` is not exactly one value.
    """
    widths, lengths = _WIDTHS, _LENGTHS
    at, left, total = 0, 1, 1
    try:
        while left:
            left -= 1
            byte = data[at]
            width = widths[byte]
            if width:
                at += width
                continue
            length = lengths[byte]
            if length:  # cut short, it ends behind the data, and is found out below
                body = at + 1 + length
                at = body + int.from_bytes(data[at + 1 : body], "big")
                continue
            at, children = _look_into(data, at, byte)
            left += children
            total += children
            if total > limit:
                raise Unbounded(f"more than {limit} values")
    except IndexError:
        raise Unbounded("it ends in the middle of a value") from None
    if at != len(data):
        raise Unbounded(f"its value takes {at} bytes, it has {len(data)}")
    return total


def _look_into(data: bytes, at: int, byte: int) -> tuple[int, int]:
    """Where the first child of a container begins, and how many there are."""
    if 0x81 <= byte <= 0x8F:
        return at + 1, 2 * (byte - 0x80)
    if 0x91 <= byte <= 0x9F:
        return at + 1, byte - 0x90
    size = _ARRAYS.get(byte) or _MAPS.get(byte)
    if size is None:
        what = "not msgpack" if byte == _NEVER_USED else "which nobody here sends"
        raise Unbounded(f"a value of type {byte:#04x}, {what}")
    body = at + 1 + size
    if body > len(data):
        raise IndexError
    number = int.from_bytes(data[at + 1 : body], "big")
    return body, number * (2 if byte in _MAPS else 1)


def unpack(data: bytes, limit: int | None, *, any_keys: bool = False) -> Any:
    """The value in ``data``, of at most ``limit`` values (None: from a part of this node, not counted).

    ``any_keys``: a map may have keys that are neither text nor bytes. Raises :class:`Unbounded`.
    """
    if limit is not None and (len(data) > SMALL_BYTES or len(data) > limit):
        count_values(data, limit)
    fault = ""
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=not any_keys, ext_hook=_refuse_extension)
    except (ValueError, TypeError, MemoryError, msgpack.exceptions.UnpackException) as error:
        fault = type(error).__name__  # no more of it: it may hold what was sent
    raise Unbounded(f"not msgpack ({fault})")


def _refuse_extension(code: int, data: bytes) -> None:
    raise ValueError(f"extension type {code}")
