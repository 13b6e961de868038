"""A map that is a value: ``set`` and ``remove`` return a new one and share most of it with the old.

A reducer over thousands of children would copy them all at each step with a plain dict. Here the entries
lie in small dicts, as many as there are entries in each of them, and a change copies one of them and the row of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

V = TypeVar("V")
_SHARDS = 64


def _shards_for(size: int) -> int:
    """A power of two about the root of ``size``, and no less than ``_SHARDS``."""
    return max(_SHARDS, 1 << ((size - 1).bit_length() + 1) // 2) if size > 0 else _SHARDS


class PersistentMap(Generic[V]):
    """Strings to values. Order of iteration has no meaning."""

    __slots__ = ("_shards", "_size")

    def __init__(self, shards: tuple[dict[str, V], ...] = ({},) * _SHARDS, size: int = 0) -> None:
        self._shards = shards
        self._size = size

    @classmethod
    def of(cls, values: Mapping[str, V]) -> PersistentMap[V]:
        """One that holds all of these, made at once."""
        return cls._of(values.items(), len(values), _shards_for(len(values)))

    @classmethod
    def _of(cls, items: Iterable[tuple[str, V]], size: int, count: int) -> PersistentMap[V]:
        shards: tuple[dict[str, V], ...] = tuple({} for _ in range(count))
        for key, value in items:
            shards[hash(key) % count][key] = value
        return cls(shards, size)

    def _with_shard(self, at: int, shard: dict[str, V], size: int) -> PersistentMap[V]:
        copy: PersistentMap[V] = PersistentMap.__new__(PersistentMap)
        copy._shards = (*self._shards[:at], shard, *self._shards[at + 1 :])
        copy._size = size
        return copy

    def get(self, key: str) -> V | None:
        return self._shards[hash(key) % len(self._shards)].get(key)

    def set(self, key: str, value: V) -> PersistentMap[V]:
        at = hash(key) % len(self._shards)
        old = self._shards[at]
        shard = old.copy()
        shard[key] = value
        after = self._with_shard(at, shard, self._size + (key not in old))
        if after._size <= len(self._shards) ** 2:
            return after
        return self._of(after._items(), after._size, 2 * len(self._shards))

    def set_all(self, values: Mapping[str, V]) -> PersistentMap[V]:
        """All of these set: each part that they are in is copied once, and so is the row of them."""
        shards, size = [*self._shards], self._size
        changed: dict[int, dict[str, V]] = {}
        for key, value in values.items():
            at = hash(key) % len(shards)
            shard = changed.get(at)
            if shard is None:
                shard = changed[at] = shards[at] = shards[at].copy()
            size += key not in shard
            shard[key] = value
        after = PersistentMap(tuple(shards), size)
        return after if size <= len(shards) ** 2 else self._of(after._items(), size, _shards_for(size))

    def remove(self, key: str) -> PersistentMap[V]:
        """Without ``key``; KeyError when it is not there."""
        at = hash(key) % len(self._shards)
        shard = self._shards[at].copy()
        del shard[key]
        return self._with_shard(at, shard, self._size - 1)

    def _items(self) -> Iterator[tuple[str, V]]:
        for shard in self._shards:
            yield from shard.items()

    def values(self) -> Iterator[V]:
        for shard in self._shards:
            yield from shard.values()

    def __contains__(self, key: str) -> bool:
        return key in self._shards[hash(key) % len(self._shards)]

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PersistentMap) and dict(self._items()) == dict(other._items())

    __hash__ = None  # type: ignore[assignment]  # the way to say unhashable
