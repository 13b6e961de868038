"""A bundle: entries of a ledger with everything that their verification needs, in one file.

A *full* bundle holds every entry up to its head, a *partial* one some entries, each with its inclusion proof, and every
change of keys. Both are read front to back, one record at a time, each length bounded before anything is fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from reprlib import repr as brief
from typing import Any, BinaryIO

import msgpack

from chain.disk import Disk
from chain.entry.entry import MAX_BODY_BYTES, SALT_BYTES
from chain.errors import BundleError
from chain.merkle.head import MAX_SIZE
from chain.merkle.merkle import HASH_BYTES
from chain.notes.note import MAX_NOTE_BYTES
from chain.tiles.tile_store import MAX_VKEYS_BYTES

MAGIC = b"WEFTBND\x01"
FORMAT = 1
MAX_HEADER_BYTES = 4096
MAX_RECORD_BYTES = MAX_BODY_BYTES + 64 * 1024
MAX_PROOF_HASHES = 64
_LENGTH_BYTES = 4
_CHUNK_BYTES = 2**18


@dataclass(frozen=True, slots=True)
class BundleHead:
    """What stands before the records: whose ledger, its head, the keys it claims. ``whole``: a full bundle."""

    origin: str
    size: int
    whole: bool
    count: int
    note: bytes
    vkeys: bytes


@dataclass(frozen=True, slots=True)
class BundleRecord:
    """One entry. ``salt`` and ``body`` are None once erased, ``proof`` is empty in a full bundle."""

    leaf: bytes
    salt: bytes | None
    body: bytes | None
    proof: tuple[bytes, ...]


def write_bundle(out: BinaryIO, head: BundleHead, records: Iterable[BundleRecord]) -> None:
    """Write a bundle; there must be ``head.count`` records. Raises BundleError, OSError."""
    digest = sha256()

    def put(*parts: bytes) -> None:
        for part in parts:
            digest.update(part)
            out.write(part)

    kind = "full" if head.whole else "partial"
    header = {"count": head.count, "format": FORMAT, "kind": kind, "origin": head.origin, "size": head.size}
    put(MAGIC)
    for block in (msgpack.packb(header), head.note, head.vkeys):
        put(len(block).to_bytes(_LENGTH_BYTES, "big"), block)
    count = 0
    for record in records:
        data = msgpack.packb([record.leaf, record.salt, record.body, list(record.proof)])
        put(len(data).to_bytes(_LENGTH_BYTES, "big"), data)
        count += 1
    if count != head.count:
        raise BundleError(f"{count} records were written, {head.count} announced")
    out.write(digest.digest())


class BundleReader:
    """The bundle in ``path``. Raises BundleError, OSError. ``done`` is how many bytes were read so far."""

    def __init__(self, path: Path, disk: Disk | None = None) -> None:
        self._disk = disk or Disk()
        self._handle = self._disk.open_to_read(path)
        self._digest = sha256()
        self._buffer, self._used, self._fetched = b"", 0, 0
        self.total = self._disk.size(path)
        try:
            self.head = self._read_head()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._disk.close(self._handle)

    @property
    def done(self) -> int:
        return self._fetched - (len(self._buffer) - self._used)

    def records(self) -> Iterator[BundleRecord]:
        """Every record; that nothing follows, and the checksum, are known only when the last one was taken."""
        for number in range(self.head.count):
            yield self._record(number)
        expected = self._digest.digest()
        if self._take(len(expected), "the checksum") != expected:
            raise BundleError("its checksum is not that of its bytes")
        if self.done != self.total or self._disk.read_open(self._handle, self._fetched, 1):
            raise BundleError("it goes on behind its checksum")

    def _record(self, number: int) -> BundleRecord:
        match self._unpack(self._block(MAX_RECORD_BYTES, f"record {number}"), f"record {number}"):
            case [bytes() as leaf, bytes() as salt, bytes() as body, [*proof]] if len(salt) == SALT_BYTES:
                pass
            case [bytes() as leaf, None as salt, None as body, [*proof]]:
                pass
            case _:
                raise BundleError(f"record {number} is not of the form [leaf, salt, body, [hash, ...]]")
        wrong = any(type(item) is not bytes or len(item) != HASH_BYTES for item in proof)
        if wrong or len(proof) > MAX_PROOF_HASHES or (proof and self.head.whole):
            raise BundleError(f"record {number} has a proof that does not belong there")
        return BundleRecord(leaf, salt, body, tuple(proof))

    def _read_head(self) -> BundleHead:
        magic = self._take(len(MAGIC), "its first bytes")
        if magic != MAGIC:
            raise BundleError(f"it begins with {magic.hex()}, a bundle with {MAGIC.hex()}")
        header = self._unpack(self._block(MAX_HEADER_BYTES, "the header"), "the header")
        if type(header) is dict and list(header) != sorted(map(str, header)):
            raise BundleError("its header is not canonical: its keys are not in order")
        format = header.get("format") if type(header) is dict else None
        if format != FORMAT or type(format) is not int:
            raise BundleError(f"it has format {brief(format)}, this version of weftos reads format {FORMAT}")
        note = self._block(MAX_NOTE_BYTES, "the checkpoint")
        vkeys = self._block(MAX_VKEYS_BYTES, "the keys")
        match header:
            case {"origin": str() as origin, "size": int() as size, "kind": "full" | "partial" as kind,
                  "count": int() as count} if len(header) == 5 and type(size) is type(count) is int:  # fmt: skip
                head = BundleHead(origin, size, kind == "full", count, note, vkeys)
            case _:
                raise BundleError("its header has other fields than a bundle's")
        if not 0 <= count <= size <= MAX_SIZE or (head.whole and count != size):
            raise BundleError(f"its header announces {count} records of {size} entries")
        if count * _LENGTH_BYTES > self.total:
            raise BundleError(f"its header announces {count} records, it has {self.total} bytes")
        return head

    def _unpack(self, data: bytes, what: str) -> Any:
        try:
            value = msgpack.unpackb(data, strict_map_key=True)
            again = msgpack.packb(value)
        except (ValueError, msgpack.UnpackException, TypeError, RecursionError, OverflowError) as error:
            raise BundleError(f"{what} is not msgpack: {type(error).__name__}") from error
        if again != data:
            raise BundleError(f"{what} is not canonical: it encodes again to other bytes")
        return value

    def _block(self, limit: int, what: str) -> bytes:
        length = int.from_bytes(self._take(_LENGTH_BYTES, what), "big")
        if length > limit:
            raise BundleError(f"{what} would have {length} bytes, limit {limit}")
        return self._take(length, what)

    def _take(self, length: int, what: str) -> bytes:
        while len(self._buffer) - self._used < length:
            more = self._disk.read_open(self._handle, self._fetched, _CHUNK_BYTES)
            if not more:
                raise BundleError(f"it ends within {what}")
            self._buffer, self._used = self._buffer[self._used :] + more, 0
            self._fetched += len(more)
        data = self._buffer[self._used : self._used + length]
        self._used += length
        if what != "the checksum":
            self._digest.update(data)
        return data
