"""What a key has signed so far, kept by whoever signs with it: only a continuation of it is ever signed.

Whoever commits entries also works out the tree, and hands over its claim. The signing side does not take that
for true: it adds the leaf hashes to a tree of its own, which begins where recovery found the last verified head,
and compares. So no fault elsewhere in the process can make the node sign two histories.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chain.errors import UnsoundHead
from chain.merkle.head import TreeHead
from chain.merkle.merkle import CompactRange


class SignedTree:
    """The tree behind the newest head that was signed, as its compact range."""

    __slots__ = ("_origin", "_tree")

    def __init__(self, origin: str, size: int = 0, nodes: Sequence[bytes] = ()) -> None:
        self._origin = origin
        self._tree = CompactRange.from_nodes(size, nodes)

    @property
    def size(self) -> int:
        """Entries so far."""
        return self._tree.size

    @property
    def nodes(self) -> tuple[bytes, ...]:
        """Its compact range."""
        return tuple(self._tree.nodes)

    def extend(self, leaf_hashes: Iterable[bytes]) -> None:
        """Add the entries that follow."""
        for leaf in leaf_hashes:
            self._tree.append(leaf)

    def sign_text(self, claimed: bytes) -> bytes:
        """The text to be signed: ``claimed``, when it is the head of this very tree.

        Raises :class:`UnsoundHead`; then nothing may be signed any more.
        """
        own = TreeHead(self._origin, self._tree.size, self._tree.root()).text()
        if own != claimed:
            raise UnsoundHead(_shown(own), _shown(claimed))
        return own


def _shown(text: bytes) -> str:
    return " ".join(text.decode("utf-8", "replace").split("\n")).strip()
