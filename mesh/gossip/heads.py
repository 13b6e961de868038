"""The newest tree head of each peer, kept by this node: whoever shows another history later has lost or hidden entries.

The rules by which :class:`PeerHeads` keeps one:

1. It is a signed note with a good signature of both of the peer's keys, and a tree head of the peer's origin.
2. Its size is not below that of the one kept. Sizes never fall.
3. At the same size it has the same root. Two roots at one size are two histories.
4. A larger one takes the place of the one kept only with a proof that it continues it (RFC 6962, section 2.1.2), which
   the peer is asked for. The first of all is believed.
5. What was shown is not taken back: a head waits for its proof until that comes, over links, and those that came after
   it wait behind it, at most MAX_UNPROVED. Rules 2 and 3 hold against the newest that waits.
6. One that a person has decided against is passed over. A peer shows its newest head with each link, and one may be
   on its way while a person decides: it would be the same conflict again.

One that breaks 2, 3 or 4 while properly signed is a *conflict*: both notes are kept in one file, and no further head of
that peer is taken until a person has decided which of the two counts. What was decided stays on the disk. Who decides
between two that came after the one kept has not decided about that one: rule 4 still holds for the one that counts.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from chain.errors import ChainError, ProofError
from chain.merkle.head import TreeHead, parse_head
from chain.merkle.proof import verify_consistency
from chain.notes.note import VerifierKey, parse, verify
from mesh.errors import MeshFileError, PeerHeadError, PeersError
from mesh.files import read_private, write_private

NOTE_SUFFIX = ".note"
CONFLICT_SUFFIX = ".conflict.json"
OLD_EVIDENCE_SUFFIX = ".evidence.note"  # what this node kept when it kept only the second of the two
DECIDED = "decided"
MAX_UNPROVED = 32
MAX_NOTE_BYTES = 64 * 1024
"""Of a head; one with both signatures has 4.7 KB. More is not read again, so it must not be kept."""


@dataclass(frozen=True, slots=True)
class HeadConflict:
    """Two signed heads of one peer of which the second does not continue the first. ``at_us``: when it was shown."""

    kept: str
    shown: str
    why: str
    at_us: int

    @property
    def kept_head(self) -> TreeHead:
        return _head(self.kept)

    @property
    def shown_head(self) -> TreeHead:
        return _head(self.shown)


class HeadConflictError(PeerHeadError):
    """Two signed heads of a peer contradict each other, ``conflict``; both are kept, and a person has to decide."""

    def __init__(self, why: str, conflict: HeadConflict) -> None:
        super().__init__(why)
        self.conflict = conflict


@dataclass(frozen=True, slots=True)
class Wanted:
    """A proof that the tree of ``size1`` entries is the beginning of that of ``size2``."""

    size1: int
    size2: int


@dataclass(slots=True)
class _Unproved:
    """Larger heads that no proof has come for, in the order in which they came. ``asked``: for the first one's.

    ``reported``: that there are too many of them was said.
    """

    shown: deque[tuple[TreeHead, bytes]]
    asked: bool = True
    reported: bool = False

    @property
    def first(self) -> TreeHead:
        return self.shown[0][0]


class PeerHeads:
    """``<directory>/<origin>.note``; ``<origin>.conflict.json`` while a person has not decided about one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._kept: dict[str, TreeHead] = {}
        self._conflicts: dict[str, HeadConflict | None] = {}
        self._unproved: dict[str, _Unproved] = {}
        self._against: dict[str, set[TreeHead]] = {}
        self._changing = threading.RLock()  # heads are taken in a thread, a person decides on the loop
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def of(self, origin: str) -> TreeHead | None:
        """The head kept of ``origin``. Raises :class:`MeshFileError` when the file is damaged."""
        if origin not in self._kept:
            note = self._read(origin, NOTE_SUFFIX)
            if note is None:
                return None
            self._kept[origin] = note[1]
        return self._kept[origin]

    def conflict(self, origin: str) -> HeadConflict | None:
        """What a person has to decide about ``origin``. Raises :class:`MeshFileError` when the file is damaged."""
        if origin not in self._conflicts:
            self._conflicts[origin] = self._read_conflict(origin)
        return self._conflicts[origin]

    def take(
        self, origin: str, vkeys: tuple[VerifierKey, VerifierKey], note: bytes, now_us: int
    ) -> TreeHead | Wanted | None:
        """Keep ``note``, on disk when this returns, and return its head; or the proof that is wanted of it.

        None when nothing is to be done: it is the one that was kept, a proof is on its way, a person has decided
        against it, or has to decide first. Raises :class:`HeadConflictError` once for a conflict,
        :class:`PeerHeadError`, :class:`MeshFileError`.
        """
        with self._changing:
            return self._take(origin, vkeys, note, now_us)

    def _take(
        self, origin: str, vkeys: tuple[VerifierKey, VerifierKey], note: bytes, now_us: int
    ) -> TreeHead | Wanted | None:
        try:
            head = parse_head(verify(note, vkeys).text)
        except ChainError as error:
            raise PeerHeadError(f"head from {origin}: {error}") from error
        if head.origin != origin:
            raise PeerHeadError(f"head from {origin} is of {head.origin:.80}")
        if self.conflict(origin) is not None:
            return None
        kept = self.of(origin)
        if kept is None:
            return self._keep(origin, head, note)
        if head == kept or head in self._decided_against(origin):
            return None
        if head.size <= kept.size:
            raise self._conflict(origin, note, _why(kept, head), now_us)
        unproved = self._unproved.get(origin)
        if unproved is not None:
            return self._take_later(origin, unproved, (head, note), now_us)
        self._unproved[origin] = _Unproved(deque([(head, note)]))
        return Wanted(kept.size, head.size)

    def _take_later(
        self, origin: str, unproved: _Unproved, shown: tuple[TreeHead, bytes], now_us: int
    ) -> Wanted | None:
        """A head, while another one before it waits for its proof; which may have to be asked for again."""
        head, note = shown
        newest, newest_note = unproved.shown[-1]
        if head != newest:
            if head.size <= newest.size:
                raise self._conflict(origin, note, _why(newest, head), now_us, newest_note)
            if len(unproved.shown) < MAX_UNPROVED:
                unproved.shown.append(shown)
            elif not unproved.reported:
                unproved.reported = True
                raise PeerHeadError(
                    f"{origin} has shown {MAX_UNPROVED} heads, and no proof for the first of them"
                )
        if unproved.asked:
            return None
        unproved.asked = True
        return self._first_wanted(origin, unproved)

    def _first_wanted(self, origin: str, unproved: _Unproved) -> Wanted:
        kept = self.of(origin)
        assert kept is not None
        return Wanted(kept.size, unproved.first.size)

    def proved(self, origin: str, wanted: Wanted, hashes: Sequence[bytes], now_us: int) -> TreeHead | None:
        """The peer's proof: keep the head it was asked for, on disk when this returns. None for one not asked for.

        Raises :class:`HeadConflictError` for a proof that does not hold, :class:`MeshFileError`.
        """
        with self._changing:
            return self._proved(origin, wanted, hashes, now_us)

    def _proved(self, origin: str, wanted: Wanted, hashes: Sequence[bytes], now_us: int) -> TreeHead | None:
        kept, unproved = self.of(origin), self._unproved.get(origin)
        if kept is None or unproved is None or not unproved.asked:
            return None
        if wanted != self._first_wanted(origin, unproved):
            return None
        unproved.asked = False
        head, note = unproved.shown[0]
        try:
            verify_consistency(
                size1=kept.size, size2=head.size, root1=kept.root, root2=head.root, proof=hashes
            )
        except ProofError as error:
            why = f"it does not continue the head kept: {error}"
            conflict = self._conflict(origin, note, why, now_us)
            del self._unproved[origin]
            raise conflict from error
        self._keep(origin, head, note)
        unproved.shown.popleft()
        if not unproved.shown:
            del self._unproved[origin]
        return head

    def next_wanted(self, origin: str) -> Wanted | None:
        """After :meth:`proved`: the proof wanted of the head that came meanwhile."""
        with self._changing:
            unproved = self._unproved.get(origin)
            if unproved is None or unproved.asked:
                return None
            unproved.asked = True
            return self._first_wanted(origin, unproved)

    def gave_none(self, origin: str, wanted: Wanted) -> bool:
        """The peer says that there is no proof; whether it was asked for that one. With its next head it is again."""
        with self._changing:
            unproved = self._unproved.get(origin)
            if unproved is None or not unproved.asked or wanted != self._first_wanted(origin, unproved):
                return False
            unproved.asked = False
            return True

    def forget_wanted(self, origin: str) -> None:
        """A proof that was asked for is not waited for any more: with the next head it is asked for again."""
        unproved = self._unproved.get(origin)
        if unproved is not None:
            unproved.asked = False

    def decide(self, origin: str, take: bool, remarks: dict[str, object]) -> TreeHead:
        """A person has decided: the head shown counts from now on (``take``), or the one that was before it.

        When neither is the one kept, the one that counts waits for the proof that it continues that. The other is
        passed over when it is shown again. Both notes stay in ``decided/``, with ``remarks``. Raises
        :class:`PeersError`, :class:`MeshFileError`.
        """
        with self._changing:
            return self._decide(origin, take, remarks)

    def _decide(self, origin: str, take: bool, remarks: dict[str, object]) -> TreeHead:
        conflict = self.conflict(origin)
        if conflict is None:
            raise PeersError(
                f"the heads of {origin} do not contradict each other: there is nothing to decide"
            )
        against = self._decided_against(origin)
        decided = self._directory / DECIDED
        decided.mkdir(mode=0o700, exist_ok=True)
        document = {"version": 1, **asdict(conflict), "counts": "shown" if take else "kept", **remarks}
        write_private(decided / f"{origin}-{conflict.at_us}.json", _json(document))
        counts, other = (conflict.shown, conflict.kept) if take else (conflict.kept, conflict.shown)
        kept, head = self._read(origin, NOTE_SUFFIX), _head(counts)
        waits = kept is not None and conflict.kept != kept[0]
        if not waits:
            self._keep(origin, head, counts.encode())
        for suffix in (CONFLICT_SUFFIX, OLD_EVIDENCE_SUFFIX):
            with suppress(FileNotFoundError):
                os.unlink(self._directory / (origin + suffix))
        self._conflicts[origin] = None
        if take:
            self._unproved.pop(origin, None)
        if waits and origin not in self._unproved:
            self._unproved[origin] = _Unproved(deque([(head, counts.encode())]), asked=False)
        against.add(_head(other))
        return head

    # -- files ---------------------------------------------------------------------------------------------------

    def _keep(self, origin: str, head: TreeHead, note: bytes) -> TreeHead:
        write_private(self._directory / (origin + NOTE_SUFFIX), note)
        self._kept[origin] = head
        return head

    def _conflict(
        self, origin: str, shown: bytes, why: str, now_us: int, before: bytes = b""
    ) -> HeadConflictError:
        """Keep both notes, ``before`` or else the one kept, and ``shown``; the error that says so."""
        kept = self._read(origin, NOTE_SUFFIX)
        assert kept is not None
        conflict = HeadConflict(before.decode() or kept[0], shown.decode(), why, now_us)
        path = self._directory / (origin + CONFLICT_SUFFIX)
        write_private(path, _json({"version": 1, **asdict(conflict)}))
        self._conflicts[origin] = conflict
        self.forget_wanted(origin)  # what waits is asked for again when this is decided
        return HeadConflictError(f"head of {origin}: {why}", conflict)

    def _read(self, origin: str, suffix: str) -> tuple[str, TreeHead] | None:
        """A note and its head."""
        path = self._directory / (origin + suffix)
        try:
            with path.open("rb") as file:
                text = file.read(MAX_NOTE_BYTES).decode()
            return text, _head(text)
        except FileNotFoundError:
            return None
        except (OSError, ChainError, UnicodeDecodeError) as error:
            raise MeshFileError(
                f"{path} cannot be read ({error}): restore it from a copy; without it a fallen size of "
                f"{origin} goes unnoticed"
            ) from error

    def _read_conflict(self, origin: str) -> HeadConflict | None:
        path = self._directory / (origin + CONFLICT_SUFFIX)
        content = read_private(path)
        if content is None:
            return self._old_evidence(origin)
        try:
            document = json.loads(content)
            if document.pop("version") != 1:
                raise ValueError("of another version")
            conflict = HeadConflict(**document)
            _ = conflict.kept_head, conflict.shown_head
            return conflict
        except (ChainError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise MeshFileError(f"{path} is damaged ({error}): restore it from a copy") from error

    def _decided_against(self, origin: str) -> set[TreeHead]:
        if origin not in self._against:
            decided = sorted((self._directory / DECIDED).glob(f"{origin}-*.json"))
            self._against[origin] = set(map(_other_head, decided))
        return self._against[origin]

    def _old_evidence(self, origin: str) -> HeadConflict | None:
        kept, shown = self._read(origin, NOTE_SUFFIX), self._read(origin, OLD_EVIDENCE_SUFFIX)
        if kept is None or shown is None:
            return None
        return HeadConflict(kept[0], shown[0], "an earlier version of this node kept it as evidence", 0)


def _why(kept: TreeHead, shown: TreeHead) -> str:
    if shown.size < kept.size:
        return (
            f"it has size {shown.size}, it gave one of {kept.size} before: "
            "entries were lost or are hidden (its data was restored from a copy?)"
        )
    return f"at size {shown.size} it has the root {shown.root.hex()}, before it had {kept.root.hex()}: two histories"


def _other_head(decided: Path) -> TreeHead:
    """The head that does not count, by what a person decided."""
    try:
        document = json.loads(read_private(decided) or b"")
        return _head(document["kept" if document["counts"] == "shown" else "shown"])
    except (ChainError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MeshFileError(f"{decided} is damaged ({error}): restore it from a copy") from error


def _head(note: str) -> TreeHead:
    return parse_head(parse(note.encode()).text)


def _json(document: dict[str, object]) -> bytes:
    return json.dumps(document, indent=1).encode() + b"\n"
