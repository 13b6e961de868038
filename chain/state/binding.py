"""What of the journal and the snapshot the node's keys vouch for: everything, or from where on not.

Theory of operation. Each frame is signed (``chain.entry.frame``), and the checksums of frames and segments are one
chain, so one signature decides: when the *last* frame of the journal is signed by the keys in force, so is every byte
before it, back to the snapshot, whose own digest is signed by both keys (``chain.state.snapshot``). Only when that
signature is not good are the others looked at, to name the first group that is not the node's. Pure but for reading the
files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from chain.disk import Disk
from chain.entry.entry import decode_body, decode_entry
from chain.entry.frame import (
    CHECKSUM_BYTES,
    SEGMENT_HEADER_BYTES,
    BadFrame,
    FormatError,
    Frame,
    decode_segment_header,
    frame_statement,
    segment_name,
)
from chain.entry.reader import Position, segment_names
from chain.entry.record import RawEntry, RecordError, StateRecord, decode_payload
from chain.entry.segment_file import SegmentFile
from chain.errors import ChainError, EntryError, NoteError, RotationError
from chain.keys.keys import Keys
from chain.keys.rotation import KIND as ROTATED
from chain.keys.rotation import KeyHistory, KeyPair
from chain.notes.note import VerifierKey, join_note, parse, verify, verify_ed25519
from chain.state.snapshot import SNAPSHOT_FILE, SignedSnapshot, snapshot_statement

RECORDS_SHOWN = 5
_KEY_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Unbound:
    """Something that decides or is remembered and that no key of the node vouches for. ``where`` says where it stands,
    ``what`` what it is; ``group`` is -1 for the snapshot.
    """

    where: str
    what: str
    group: int = -1

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class SignedFrame(Protocol):
    """What is known of a frame, however it was read."""

    @property
    def group(self) -> int: ...

    @property
    def digest(self) -> bytes: ...

    @property
    def signature(self) -> bytes: ...


def unbound(
    snapshot: SignedSnapshot | None,
    last: SignedFrame | None,
    keys: Sequence[KeyPair],
    origin: str,
    first: Callable[[], Unbound | None],
    others: Sequence[KeyPair] = (),
) -> list[Unbound]:
    """What none of ``keys`` has signed of a state: its ``snapshot``, and its journal by the ``last`` frame.

    ``first()`` finds the first group that is not signed, and is asked only when the last one is not. ``others``: as in
    :func:`check_snapshot`. A start refuses what is found here, a verification reports it.
    """
    fault = check_snapshot(snapshot, keys, others) if snapshot else None
    found = [fault] if fault else []
    if last is not None and not any(is_signed(last, origin, pair.ed25519) for pair in keys):
        group = first()
        found += [group] if group else []
    return found


def is_signed(frame: SignedFrame, origin: str, key: VerifierKey) -> bool:
    """Whether ``frame`` bears the signature of the Ed25519 key ``key``."""
    text = frame_statement(origin, frame.group, frame.digest)
    return bool(frame.signature) and verify_ed25519(key.public_key, text, frame.signature)


def last_frame(directory: Path, disk: Disk, start: Position, origin: str) -> Frame | None:
    """The last whole frame of ``origin`` behind ``start``, without its payload; None when there is none. Raises
    OSError.
    """
    last = None
    for _, _, frame in frames(directory, disk, start, origin):
        last = frame
    return replace(last, payload=b"") if last else None


def find_unbound(directory: Path, disk: Disk, start: Position, history: KeyHistory) -> Unbound | None:
    """The first group that the node's keys did not sign, when its last one is not signed as it must be. ``history``
    follows the changes of keys from ``start`` on. None when the keys that the journal leads to have signed. Raises
    OSError.
    """
    name, offset, group = "", 0, -1
    pair: KeyPair | None = history.current
    for name, offset, frame in frames(directory, disk, start, history.origin):
        _follow(history, frame)
        group = frame.group
        signers = [pair, *reversed(history.pairs)] if pair else history.pairs
        pair = next((each for each in signers if is_signed(frame, history.origin, each.ed25519)), None)
        if pair is None:
            return Unbound(f"journal/{name}, byte {offset}, group {group}", _unsigned(frame), group)
    if pair == history.current:
        return None
    what = "it is signed by keys that were no longer in force"
    return Unbound(f"journal/{name}, byte {offset}, group {group}", what, group)


def _follow(history: KeyHistory, frame: Frame) -> None:
    """Follow the change of keys in ``frame``, if there is one. One that is none is for others to name."""
    if ROTATED.encode() not in frame.payload:
        return
    try:
        for record in decode_payload(frame.payload)[0]:
            entry = decode_entry(record.leaf) if isinstance(record, RawEntry) else None
            if isinstance(record, RawEntry) and entry is not None and entry.kind == ROTATED and record.body:
                history.rotated(entry.seq, decode_body(record.body))
    except (RecordError, EntryError, RotationError):
        return


def check_snapshot(
    found: SignedSnapshot, pairs: Sequence[KeyPair], others: Sequence[KeyPair] = ()
) -> Unbound | None:
    """What is wrong with the signatures under a snapshot, which one of ``pairs`` must have made. Those of ``others``,
    the node's other keys, must be right where they are there.
    """
    where = f"snapshot/{SNAPSHOT_FILE}"
    if found.note is None:
        what = "no key has signed it: it was changed, or was written by a version of weftos that did not sign state"
        return Unbound(where, what)
    snapshot = found.snapshot
    try:
        note = parse(found.note)
        if note.text != snapshot_statement(snapshot.origin, snapshot.group, found.digest):
            raise NoteError("the signatures beside it are of another one")
        ids = {line.key_id for line in note.signatures}
        pair = next((pair for pair in pairs if pair.ed25519.key_id in ids), pairs[0])
        there = [key for pair in others for key in pair.both if key.key_id in ids]
        verify(found.note, [*pair.both, *(key for key in there if key not in pair.both)])
    except ChainError as error:
        return Unbound(where, f"it is not signed by the keys in force: {error}")
    return None


def snapshot_note(keys: Sequence[Keys], group: int, digest: bytes) -> bytes:
    """The note of a snapshot, signed by each of ``keys`` (the ones in force, and those that will be)."""
    text = snapshot_statement(keys[0].origin, group, digest)
    lines = [line for each in keys for line in (each.ed25519_line(text), each.mldsa_line(text))]
    return join_note(text, *lines)


def frames(directory: Path, disk: Disk, start: Position, origin: str) -> Iterator[tuple[str, int, Frame]]:
    """File, offset and frame behind ``start``, up to where the checksums no longer fit: what is behind that, no reader
    hands out. Raises OSError.
    """
    group, checksum = start.group, start.checksum
    for name in segment_names(directory, disk):
        if name < segment_name(group):
            continue
        with SegmentFile(directory / name, disk) as segment:
            begin = segment.read(0, SEGMENT_HEADER_BYTES)
            try:
                header, at = decode_segment_header(begin)
            except FormatError:
                return
            if (header.first_group, header.previous, header.origin) != (group, checksum, origin):
                return
            checksum = begin[at - CHECKSUM_BYTES : at]
            while at < segment.end:
                frame = segment.frame(at, group, checksum, header.format)
                if isinstance(frame, BadFrame):
                    return
                yield name, at, frame
                group, checksum, at = frame.group + 1, frame.checksum, frame.end


def _unsigned(frame: Frame) -> str:
    how = (
        "is not what a key of this node has signed"
        if frame.signature
        else "bears no signature, as versions of weftos wrote it that did not sign state"
    )
    return f"{how}; it holds {held(frame.payload)}"


def held(payload: bytes) -> str:
    """In words, which records a payload has: state by table and key, entries by their number."""
    try:
        records, _ = decode_payload(payload)
    except RecordError as error:
        return f"no records ({error})"
    changes = [record for record in records if isinstance(record, StateRecord)]
    named = [f"{record.table} {record.key[:_KEY_SHOWN]!r}" for record in changes[:RECORDS_SHOWN]]
    if len(changes) > RECORDS_SHOWN:
        named.append(f"{len(changes) - RECORDS_SHOWN} more")
    state = f"state records {', '.join(named)}" if named else "no state record (any more)"
    return f"{state}, and {len(records) - len(changes)} others"
