"""What a slice of the node's durable state is.

Theory of operation. A slice keeps what some kinds of records say, and nothing else changes it. It hears an entry when
:data:`kernel.state.state.HEARS` names it for that kind, in the order of that row; it may read the slices that stand
before it when it is made, never write them. What it keeps it gives as **rows**, of types that msgpack has, with a
**format** of its own; what can be derived (indices, sums) is not in them. Whoever changes the rows gives that slice
another format and a migration from the one before: nothing else of a snapshot is touched by it.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from typing import Any, ClassVar, NamedTuple, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


class Told(NamedTuple):
    """An entry as slices hear it; its body has passed :func:`kernel.state.record_forms.check_entry`."""

    body: dict[str, Any]
    seq: int
    time_us: int
    trace: bytes
    pid: int = 0
    """Whose doing it is; 0 for the node's and a person's."""


Handler = Callable[[Told], None]
Keeper = Callable[[Any, Any], None]
Migration = Callable[[Any], Any]


class Slice:
    """``MIGRATIONS``: by format, what makes rows of the next one of them. Format 0 is that of a snapshot which does
    not have this slice.
    """

    NAME: ClassVar[str]
    FORMAT: ClassVar[int] = 1
    MIGRATIONS: ClassVar[Mapping[int, Migration]] = {}

    def hears(self) -> Mapping[str, Handler]:
        """By kind, what is done with an entry."""
        return {}

    def keeps(self) -> Mapping[str, Keeper]:
        """By table, what is done with key and value of a state record, as :mod:`kernel.state.record_forms` reads it."""
        return {}

    def rows(self) -> Any:
        """All that is kept."""
        raise NotImplementedError

    def restore(self, rows: Any) -> None:
        """Bring a new slice to where the one was that gave ``rows``. Raises ValueError, TypeError, Invalid."""
        raise NotImplementedError


class Table(Slice, Mapping[K, V]):
    """A slice that is read as a mapping."""

    def __init__(self, kept: MutableMapping[K, V] | None = None) -> None:
        self._kept: MutableMapping[K, V] = {} if kept is None else kept

    def __getitem__(self, key: K) -> V:
        return self._kept[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    @overload
    def get(self, key: K, default: None = None) -> V | None: ...

    @overload
    def get(self, key: K, default: V | D) -> V | D: ...

    def get(self, key: K, default: Any = None) -> Any:
        return self._kept.get(key, default)

    def values(self) -> ValuesView[V]:
        return self._kept.values()

    def items(self) -> ItemsView[K, V]:
        return self._kept.items()
