"""Frames that somebody hostile would write: true ones with one thing changed, bombs, noise. Repeatable by a seed."""

from __future__ import annotations

import copy
import random
import struct
from typing import Any

import msgpack

_BOMBS = (b"\x80", b"\x90", b"\xa1x", b"\x91\x01", b"\x81\x01\x02", b"\xc0", b"\xcb" + bytes(8))


class HostileValues:
    """Draws from ``rng``."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def payload(self, value: Any) -> bytes:
        """What is sent in place of the msgpack of ``value``."""
        rng = self._rng
        draw = rng.random()
        if draw < 0.01:
            return self.bomb()
        if draw < 0.02:
            return rng.randbytes(rng.randrange(200))
        packed: bytes = msgpack.packb(value if draw < 0.25 else self.changed(value))
        return self.garbled(packed) if draw > 0.93 else packed

    def changed(self, value: Any) -> Any:
        """``value`` with one or two places replaced, left out, doubled or added to."""
        value = copy.deepcopy(value)
        for _ in range(self._rng.choice((1, 1, 1, 2))):
            value = self._change(value, 0.98)
        return value

    def _change(self, value: Any, within: float = 0.8) -> Any:
        """``within``: how often something in it is changed and not the whole of it."""
        rng = self._rng
        if isinstance(value, list) and value and rng.random() < within:
            at = rng.randrange(len(value))
            how = rng.random()
            if how < 0.1:
                del value[at]
            elif how < 0.2:
                value.insert(at, self.junk())
            else:
                value[at] = self._change(value[at])
            return value
        if isinstance(value, dict) and value and rng.random() < within:
            key = rng.choice(list(value))
            how = rng.random()
            if how < 0.1:
                del value[key]
            elif how < 0.2:
                value[self.key()] = self.junk()
            else:
                value[key] = self._change(value[key])
            return value
        return self.junk()

    def key(self) -> Any:
        """What a map may have as its key."""
        return self._rng.choice(("x", "", 0, -1, 2.5, None, True, b"bytes", "k" * 5000))

    def junk(self, depth: int = 0) -> Any:
        """Anything."""
        rng = self._rng
        simple: tuple[Any, ...] = (
            None, True, False, 0, 1, -1, 2**31, 2**53, 2**63, 2**64 - 1, -(2**63), 0.0, float("nan"), float("inf"),
            "", "x", "\n", "\x1b[2J", "\u202e", "x" * 300, "€" * 3000, "/user/../etc", "0", "a@b", b"", b"\xff" * 40,
        )  # fmt: skip
        draw = rng.random()
        if draw < 0.75 or depth > 3:
            return rng.choice(simple)
        if draw < 0.85:
            return [self.junk(depth + 1) for _ in range(rng.randrange(6))]
        if draw < 0.95:
            return {self.key(): self.junk(depth + 1) for _ in range(rng.randrange(4))}
        if draw < 0.97:
            return [{}] * rng.choice((10, 2_000, 20_000))
        if draw < 0.99:
            return "x" * rng.choice((10_000, 300_000, 2_000_000))
        nested: Any = []
        for _ in range(rng.choice((20, 400))):
            nested = [nested]
        return nested

    def garbled(self, data: bytes) -> bytes:
        """Some bits flipped, cut short, or more at the end."""
        rng = self._rng
        changed = bytearray(data)
        how = rng.random()
        if how < 0.6 and changed:
            for _ in range(rng.randrange(1, 4)):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            return bytes(changed)
        if how < 0.8:
            return data[: rng.randrange(len(data) + 1)]
        return data + rng.randbytes(rng.randrange(1, 20))

    def bomb(self) -> bytes:
        """Few bytes that would be many objects, or would announce them."""
        rng = self._rng
        small = rng.choice(_BOMBS)
        count = rng.choice((100, 30_000, 30_000, 400_000)) // len(small)
        how = rng.random()
        if how < 0.4:
            return b"\xdd" + struct.pack(">I", count) + small * count
        if how < 0.6:
            return b"\x91" * rng.choice((50, 600, 2_000, 100_000)) + small
        if how < 0.8:
            header = rng.choice(
                (b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdc\x3f\xf0", b"\xdc\x03\xe8")
            )
            return header * rng.choice((1, 300, 900))
        return b"\x9f" * count
