"""The tree over the entries of an audit, with the roots at the sizes that somebody will ask for."""

from __future__ import annotations

from collections.abc import Sequence

from chain.merkle.merkle import CompactRange


class WatchedTree:
    """``roots``: by size, those of ``watched`` that have passed. ``whole``: no hash is missing; from the first one on
    that is, there is no root that a head could have.
    """

    def __init__(self, watched: frozenset[int]) -> None:
        self.roots: dict[int, bytes] = {}
        self.whole = True
        self._watched = watched
        self._tree = CompactRange()
        self._note()

    @property
    def size(self) -> int:
        return self._tree.size

    def root(self) -> bytes:
        return self._tree.root()

    def root_with(self, hash_: bytes) -> bytes:
        """The root if ``hash_`` came next."""
        tree = self._tree.copy()
        tree.append(hash_)
        return tree.root()

    def watch(self, sizes: frozenset[int]) -> None:
        """Look at these sizes too, of which none has passed yet."""
        self._watched |= sizes

    def begin_at(self, tree: CompactRange) -> None:
        """Take ``tree`` for that of the first entries."""
        self._tree = tree
        self._note()

    def grow(self, hash_: bytes) -> None:
        self._tree.append(hash_)
        self._note()

    def grow_unwatched(self, hashes: Sequence[bytes]) -> None:
        """Many at once, at no size that is watched."""
        self._tree.extend(hashes)

    def watches_within(self, count: int) -> bool:
        """Whether a size is watched that comes behind the next hash, and with one of ``count - 1`` behind it."""
        return not self._watched.isdisjoint(range(self.size + 2, self.size + count + 1))

    def lose(self) -> None:
        """Hashes are missing here."""
        self.whole = False

    def _note(self) -> None:
        if self.size in self._watched and self.whole:
            self.roots[self.size] = self.root()
