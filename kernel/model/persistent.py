"""A map that is a value: ``set`` and ``remove`` return a new one and share most of it with the old.

A reducer over thousands of children would copy them all at each step with a plain dict. Here the entries
lie in 64 small dicts and a change copies one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

V = TypeVar("V")
_SHARDS = 64


class PersistentMap(Generic[V]):
    """Strings to values. Order of iteration has no meaning."""

    __slots__ = ("_shards", "_size")

    def __init__(self, shards: tuple[dict[str, V], ...] = ({},) * _SHARDS, size: int = 0) -> None:
        self._shards = shards
        self._size = size

    @classmethod
    def of(cls, values: Mapping[str, V]) -> PersistentMap[V]:
        """One that holds all of these, made at once."""
        shards: tuple[dict[str, V], ...] = tuple({} for _ in range(_SHARDS))
        for key, value in values.items():
            shards[hash(key) % _SHARDS][key] = value
        return cls(shards, len(values))

    def _with_shard(self, at: int, shard: dict[str, V], size: int) -> PersistentMap[V]:
        copy: PersistentMap[V] = PersistentMap.__new__(PersistentMap)
        copy._shards = (*self._shards[:at], shard, *self._shards[at + 1 :])
        copy._size = size
        return copy

    def get(self, key: str) -> V | None:
        return self._shards[hash(key) % _SHARDS].get(key)

    def set(self, key: str, value: V) -> PersistentMap[V]:
        at = hash(key) % _SHARDS
        old = self._shards[at]
        return self._with_shard(at, {**old, key: value}, self._size + (key not in old))

    def remove(self, key: str) -> PersistentMap[V]:
        """Without ``key``; KeyError when it is not there."""
        at = hash(key) % _SHARDS
        shard = dict(self._shards[at])
        del shard[key]
        return self._with_shard(at, shard, self._size - 1)

    def values(self) -> Iterator[V]:
        for shard in self._shards:
            yield from shard.values()

    def __contains__(self, key: str) -> bool:
        return key in self._shards[hash(key) % _SHARDS]

    def __len__(self) -> int:
        return self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PersistentMap) and self._shards == other._shards

    __hash__ = None  # type: ignore[assignment]  # the way to say unhashable
