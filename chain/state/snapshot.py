"""The snapshot: what the journal's older segments came to, so that they need not be kept.

``snapshot/state.ws`` stands for everything before group ``group``: where the sequence stood there, the newest value of
the state records that are kept one by one, and the bytes of the node's state, which only the kernel can read. A new
one is written beside it, read back, synced and put in its place; so there is a whole one at any moment, and a reader
that has opened the old one goes on reading that.

The node signs the digest at its end with both keys. The signatures lie beside it, as a note that is named after the
digest (``snapshot/<32 hexadecimal digits>.note``) and was there before the snapshot got its name. They are never
published: who had them and guessed at the state could tell whether the guess was right.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import Any

import msgpack

from chain.disk import Disk
from chain.entry.record import RecordError, StateRecord, encode_state_record, shape_record
from chain.errors import DamageError, ForeignDataError
from chain.journal.reserve import RESERVE_BYTES
from chain.merkle.merkle import CompactRange
from chain.notes.note import MAX_NOTE_BYTES

SNAPSHOT_FILE = "state.ws"
MAGIC = b"WEFTSNP\x01"
FORMAT = 1
MAX_HEADER_BYTES = 256 * 2**20
MAX_RECORD_BYTES = 2 * 2**20

NEW = "next.new"
"""What was written beside the snapshot, to take its place."""
SPARE_BYTES = RESERVE_BYTES
"""As much stays free beside it, for the journal: a snapshot can wait."""
_NEW_NOTE = "note.new"
_NOTE = re.compile(r"[0-9a-f]{32}\.note").fullmatch
_LENGTH = Struct(">I")
_LONG = Struct(">Q")
_DIGEST_BYTES = 32
_FRAME_BYTES = len(MAGIC) + _LENGTH.size + 2 * _LONG.size + _DIGEST_BYTES
_CHUNK_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything before group ``group``, without the records (see :func:`snapshot_records`).

    checksum: of the frame (or segment header) before that group; seq: how many entries came before; last_hash: the
    newest one's leaf hash, and time_us its time; counts: for each pid the number of its next entry; nodes: the compact
    range of the leaves; note: the newest head in the journal then; rotations: how many keys were rotated; state: the
    kernel's.
    """

    origin: str
    group: int
    checksum: bytes
    seq: int
    last_hash: bytes
    time_us: int
    counts: dict[int, int]
    nodes: tuple[bytes, ...]
    note: bytes
    rotations: int
    state: bytes

    def tree(self) -> CompactRange:
        """The tree over the entries it covers."""
        return CompactRange.from_nodes(self.seq, self.nodes)


_HEADER_FIELDS = [field.name for field in fields(Snapshot) if field.name != "state"]


def snapshot_statement(origin: str, group: int, digest: bytes) -> bytes:
    """What both keys sign of the snapshot before ``group`` whose bytes have that SHA-256."""
    return f"weftos/snapshot/1\n{origin}\n{group}\n{digest.hex()}\n".encode()


def note_name(digest: bytes) -> str:
    """The file name of the signatures under the snapshot with that digest."""
    return f"{digest.hex()[:32]}.note"


def write_snapshot(
    directory: Path, disk: Disk, snapshot: Snapshot, records: Iterable[StateRecord], most_bytes: int = 0
) -> bytes:
    """Write ``snapshot`` beside the one in ``directory`` (``snapshot/``, made when it is not there); its digest, to be
    signed and then handed to :func:`place_snapshot`.

    ``records`` is taken one by one, each key once, none deleted; ``most_bytes``: what they come to at most, if that is
    known. There must be room for all of it before anything is written. On the disk when this returns. Raises OSError,
    DamageError when what was written does not read back; :func:`discard_snapshot` removes what it left.
    """
    disk.make_directory(directory)
    header: dict[str, Any] = {"format": FORMAT, **asdict(snapshot)}
    del header["state"]
    packed: bytes = msgpack.packb(header)
    new = directory / NEW
    most_bytes += len(packed) + len(snapshot.state) + _FRAME_BYTES
    if disk.free(directory) < most_bytes + SPARE_BYTES:
        wanted = f"up to {most_bytes:,} bytes, and {SPARE_BYTES:,} that stay free for the journal: make room"
        raise OSError(errno.ENOSPC, f"there is no room on the disk for a snapshot, {wanted}", str(new))
    handle = disk.create(new)
    try:
        disk.allocate(handle, most_bytes)
        out = _Output(disk, handle)
        out.put(MAGIC, _LENGTH.pack(len(packed)), packed)
        count_at, count = out.size, 0
        out.put(_LONG.pack(0))
        for record in records:
            encoded = encode_state_record(record.table, record.key, record.value)
            out.put(_LENGTH.pack(len(encoded)), encoded)
            count += 1
        out.put(_LONG.pack(len(snapshot.state)), snapshot.state)
        out.flush()
        disk.write(handle, count_at, _LONG.pack(count))
        digest, made, counted = sha256(), sha256(), b""
        behind = count_at + _LONG.size
        for first, end in ((0, count_at), (count_at, behind), (behind, out.size)):
            for at in range(first, end, _CHUNK_BYTES):
                data = disk.read_open(handle, at, min(_CHUNK_BYTES, end - at))
                digest.update(data)
                if at == count_at:
                    counted, data = data, _LONG.pack(0)
                made.update(data)
        if (made.digest(), counted) != (out.digest, _LONG.pack(count)):  # only what was made is signed
            raise DamageError(_name(new), 0, -1, "what was written is not what reads back")
        out.put(digest.digest())
        out.flush()
        disk.truncate(handle, out.size)
        disk.sync(handle)
    finally:
        disk.close(handle)
    if _load(new, disk) != (snapshot, digest.digest()):
        raise DamageError(_name(new), 0, -1, "what was written is not what reads back")
    return digest.digest()


def record_bytes(record: StateRecord) -> int:
    """How much a record takes in a snapshot."""
    return _LENGTH.size + len(encode_state_record(record.table, record.key, record.value))


def discard_snapshot(directory: Path, disk: Disk) -> None:
    """Remove what was written beside and has not taken its place. Raises OSError."""
    if NEW in disk.names(directory):
        disk.remove(directory / NEW)


def place_snapshot(
    directory: Path, disk: Disk, digest: bytes, note: bytes, placed: Callable[[], None] = lambda: None
) -> None:
    """Put the snapshot that was written beside in the place of the one before; ``note`` has the signatures under
    ``digest``, which it must have. On the disk when this returns; ``placed`` is called once it has the place, whatever
    fails then. Raises OSError.
    """
    sign_snapshot(directory, disk, digest, note)
    disk.rename(directory / NEW, directory / SNAPSHOT_FILE)
    placed()
    disk.sync_directory(directory)
    for name in disk.names(directory):
        if is_note(name) and name != note_name(digest):
            disk.remove(directory / name)


def sign_snapshot(directory: Path, disk: Disk, digest: bytes, note: bytes) -> None:
    """Lay the signatures ``note`` beside the snapshot with that digest. On the disk when this returns. Raises
    OSError.
    """
    handle = disk.create(directory / _NEW_NOTE)
    try:
        disk.write(handle, 0, note)
        disk.sync(handle)
    finally:
        disk.close(handle)
    disk.rename(directory / _NEW_NOTE, directory / note_name(digest))
    disk.sync_directory(directory)


def is_note(name: str) -> bool:
    """Whether a file in ``snapshot/`` is one of signatures, by its name."""
    return _NOTE(name) is not None


def read_snapshot(directory: Path, disk: Disk) -> Snapshot | None:
    """The snapshot in ``directory``, all of it checked but its signatures; None when there is none.

    Raises DamageError, ForeignDataError (of a later format), OSError.
    """
    found = read_signed(directory, disk)
    return found.snapshot if found else None


@dataclass(frozen=True, slots=True)
class SignedSnapshot:
    """A snapshot as it was read, the digest of its bytes, and the note that lay beside it (None: there was none)."""

    snapshot: Snapshot
    digest: bytes
    note: bytes | None


def read_signed(directory: Path, disk: Disk) -> SignedSnapshot | None:
    """As :func:`read_snapshot`, with the signatures, which are not checked here."""
    if SNAPSHOT_FILE not in disk.names(directory):
        return None
    snapshot, digest = _load(directory / SNAPSHOT_FILE, disk)
    name = note_name(digest)
    there = name in disk.names(directory)
    return SignedSnapshot(
        snapshot, digest, disk.read_at(directory / name, 0, MAX_NOTE_BYTES + 1) if there else None
    )


def snapshot_digest(directory: Path, disk: Disk) -> bytes:
    """What the snapshot in ``directory`` says at its end that its digest is, empty without one; nothing is checked.
    Raises OSError.
    """
    path = directory / SNAPSHOT_FILE
    try:
        return disk.read_at(path, max(0, disk.size(path) - _DIGEST_BYTES), _DIGEST_BYTES)
    except FileNotFoundError:
        return b""


def covered_entries(directory: Path, disk: Disk, name: str = SNAPSHOT_FILE) -> int:
    """How many entries the snapshot ``name`` in ``directory`` covers, by its header; 0 when there is none. Nothing else
    of it is checked. Raises DamageError, ForeignDataError, OSError.
    """
    if name not in disk.names(directory):
        return 0
    source = _Input(directory / name, disk)
    try:
        return int(_read_header(source)["seq"])
    finally:
        source.close()


def snapshot_records(directory: Path, disk: Disk, digest: bytes = b"") -> Iterator[StateRecord]:
    """The records kept in the snapshot of ``directory``, which must have ``digest`` if given; none when there is none.

    Raises DamageError, at the latest behind the last one: until then they are not known to be right.
    """
    if SNAPSHOT_FILE not in disk.names(directory):
        return
    source = _Input(directory / SNAPSHOT_FILE, disk)
    try:
        _read_header(source)
        yield from _read_records(source)
        if source.finish() != digest and digest:
            raise source.damage("it is not the one that was read before")
    finally:
        source.close()


def _load(path: Path, disk: Disk) -> tuple[Snapshot, bytes]:
    source = _Input(path, disk)
    try:
        header = _read_header(source)
        for _ in _read_records(source):
            pass
        state = source.take(source.number(_LONG, source.left, "the state"))
        digest = source.finish()
    finally:
        source.close()
    return Snapshot(**header, state=state), digest


def _read_header(source: _Input) -> dict[str, Any]:
    if source.take(len(MAGIC)) != MAGIC:
        raise source.damage("does not begin as a snapshot does")
    packed = source.take(source.number(_LENGTH, MAX_HEADER_BYTES, "the header"))
    try:
        header = msgpack.unpackb(packed, strict_map_key=False)
    except (ValueError, msgpack.UnpackException, TypeError, RecursionError) as error:
        raise source.damage(f"its header is not msgpack: {type(error).__name__}") from error
    format = header.pop("format", None) if type(header) is dict else None
    if type(format) is int and format > FORMAT:
        raise ForeignDataError(f"{source.name} has format {format}, this version knows {FORMAT}")
    if type(format) is not int or format != FORMAT or {*header} != {*_HEADER_FIELDS}:
        raise source.damage("its header has other fields than a snapshot's")
    if not _well_typed(header):
        raise source.damage("a field of its header is out of range")
    return {**header, "nodes": tuple(header["nodes"])}


def _well_typed(header: dict[str, Any]) -> bool:
    numbers = [header[name] for name in ("group", "seq", "time_us", "rotations")]
    counts, nodes = header["counts"], header["nodes"]
    return (
        type(header["origin"]) is str
        and type(header["note"]) is bytes
        and all(type(number) is int and number >= 0 for number in numbers)
        and all(_is_digest(header[name]) for name in ("checksum", "last_hash"))
        and type(counts) is dict
        and all(type(number) is int and number >= 0 for item in counts.items() for number in item)
        and type(nodes) is list
        and len(nodes) == header["seq"].bit_count()
        and all(map(_is_digest, nodes))
    )


def _is_digest(value: object) -> bool:
    return type(value) is bytes and len(value) == _DIGEST_BYTES


def _read_records(source: _Input) -> Iterator[StateRecord]:
    for _ in range(source.number(_LONG, source.left, "the number of records")):
        encoded = source.take(source.number(_LENGTH, MAX_RECORD_BYTES, "a record"))
        try:
            record = shape_record(msgpack.unpackb(encoded))
        except (RecordError, ValueError, msgpack.UnpackException, TypeError, RecursionError) as error:
            raise source.damage(f"a record cannot be read: {error}") from error
        if not isinstance(record, StateRecord) or record.value is None:
            raise source.damage("holds a record that is no state record with a value")
        yield record


class _Output:
    """Appends to a new file in large writes."""

    def __init__(self, disk: Disk, handle: int) -> None:
        self._disk = disk
        self._handle = handle
        self._parts: list[bytes] = []
        self._waiting = 0
        self._digest = sha256()
        self.size = 0

    @property
    def digest(self) -> bytes:
        """Of all that was put so far."""
        return self._digest.digest()

    def put(self, *parts: bytes) -> None:
        for part in parts:
            self._parts.append(part)
            self._digest.update(part)
            self._waiting += len(part)
            self.size += len(part)
        if self._waiting >= _CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        data = b"".join(self._parts)
        self._disk.write(self._handle, self.size - self._waiting, data)
        self._parts, self._waiting = [], 0


class _Input:
    """Reads a file front to back, hashing as it goes. Everything that it lacks or has too much is damage."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self.name = _name(path)
        self._disk = disk
        self._handle = disk.open_to_read(path)
        self._buffer = b""
        self._used = 0
        self._fetched = 0
        self._digest = sha256()
        self.left = max(0, disk.size(path) - _DIGEST_BYTES)

    def close(self) -> None:
        self._disk.close(self._handle)

    def take(self, length: int) -> bytes:
        """The next ``length`` bytes."""
        if length > self.left:
            raise self.damage(f"{length} bytes should follow, it has {self.left}")
        data = self._fetch(length)
        self.left -= length
        self._digest.update(data)
        return data

    def number(self, form: Struct, limit: int, what: str) -> int:
        """The next integer, at most ``limit``; ``what`` names what it counts."""
        value: int = form.unpack(self.take(form.size))[0]
        if value > limit:
            raise self.damage(f"{what} would be {value}, limit {limit}")
        return value

    def finish(self) -> bytes:
        """Read to the end, which must be the checksum of all before; that checksum."""
        while self.left:
            self.take(min(self.left, _CHUNK_BYTES))
        if self._fetch(_DIGEST_BYTES) != self._digest.digest():
            raise self.damage("its checksum is wrong")
        return self._digest.digest()

    def _fetch(self, length: int) -> bytes:
        while len(self._buffer) - self._used < length:
            wanted = max(_CHUNK_BYTES, length - (len(self._buffer) - self._used))
            more = self._disk.read_open(self._handle, self._fetched, wanted)
            if not more:
                raise self.damage("ends too early")
            self._buffer, self._used = self._buffer[self._used :] + more, 0
            self._fetched += len(more)
        at, self._used = self._used, self._used + length
        return self._buffer[at : self._used]

    def damage(self, what: str) -> DamageError:
        return DamageError(self.name, self._fetched - (len(self._buffer) - self._used), -1, what)


def _name(path: Path) -> str:
    return f"snapshot/{path.name}"
