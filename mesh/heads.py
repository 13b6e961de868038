"""The newest tree head of each peer, kept by this node: whoever shows a smaller one later has lost or hidden entries.

The rules by which :class:`PeerHeads` keeps one:

1. It is a signed note with a good signature of both of the peer's keys, and a tree head of the peer's origin.
2. Its size is not below that of the one kept. Sizes never fall.
3. At the same size it has the same root. Two roots at one size are two histories.

One that breaks 2 or 3 while properly signed is evidence: it is kept beside, once, and never in the other's place.
Whether a larger head *continues* the kept one takes a consistency proof, which is not asked for yet.
"""

from __future__ import annotations

import os
from pathlib import Path

from chain.errors import ChainError
from chain.head import TreeHead, parse_head
from chain.note import VerifierKey, parse, verify
from mesh.errors import MeshFileError, PeerHeadError
from mesh.files import write_private

NOTE_SUFFIX = ".note"
EVIDENCE_SUFFIX = ".evidence.note"
_MAX_KEPT_BYTES = 64 * 1024


class PeerHeads:
    """``<directory>/<origin>.note``, and ``<origin>.evidence.note`` for the first that contradicts one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kept: dict[str, TreeHead] = {}
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def of(self, origin: str) -> TreeHead | None:
        """The head kept of ``origin``. Raises :class:`MeshFileError` when the file is damaged."""
        if origin not in self._kept:
            path = self._directory / (origin + NOTE_SUFFIX)
            try:
                with path.open("rb") as file:
                    self._kept[origin] = parse_head(parse(file.read(_MAX_KEPT_BYTES)).text)
            except FileNotFoundError:
                return None
            except (OSError, ChainError) as error:
                raise MeshFileError(
                    f"{path} cannot be read ({error}): restore it from a copy; without it a fallen size of "
                    f"{origin} goes unnoticed"
                ) from error
        return self._kept[origin]

    def take(self, origin: str, vkeys: tuple[VerifierKey, VerifierKey], note: bytes) -> TreeHead | None:
        """Keep ``note``, on disk when this returns; the head, or None when it is the one that was kept.

        Raises :class:`PeerHeadError`, :class:`MeshFileError`.
        """
        try:
            head = parse_head(verify(note, vkeys).text)
        except ChainError as error:
            raise PeerHeadError(f"head from {origin}: {error}") from error
        if head.origin != origin:
            raise PeerHeadError(f"head from {origin} is of {head.origin:.80}")
        kept = self.of(origin)
        if kept == head:
            return None
        if kept is not None and head.size <= kept.size:
            self._keep_evidence(origin, note)
            if head.size < kept.size:
                raise PeerHeadError(
                    f"head of {origin} has size {head.size}, it gave one of {kept.size} before: "
                    "entries were lost or are hidden (its data was restored from a copy?)"
                )
            raise PeerHeadError(
                f"head of {origin} at size {head.size} has the root {head.root.hex()}, "
                f"before it had {kept.root.hex()}: two histories"
            )
        write_private(self._directory / (origin + NOTE_SUFFIX), note)
        self._kept[origin] = head
        return head

    def _keep_evidence(self, origin: str, note: bytes) -> None:
        path = self._directory / (origin + EVIDENCE_SUFFIX)
        if not os.path.lexists(path):
            write_private(path, note)
