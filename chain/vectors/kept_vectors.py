"""The vectors of one embedder, kept by the hash of what was embedded: a rebuilt index need not ask for them again.

One file: a header, then rows of equal size, ``[hash 32 bytes][checksum 4][vector, float32 little-endian]``. A row is
its own commit: one that is torn, was flipped, or holds a number that is none, fails its check at opening and is free
again. So nothing has to be synced, and no crash can leave a vector that was not put there. A file of
another embedder or dimension, or of another format, is thrown away as a whole.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

_MAGIC = b"weftos-vectors 1"
_HEADER = struct.Struct("<16sI32s12x")
_HASH_BYTES = 32
_PREFIX = struct.Struct("<32sI")
_GROW_ROWS = 1024
_NO_HASH = bytes(_HASH_BYTES)


class KeptVectors:
    """The open file. For one thread. ``dropped`` says in words what was thrown away at opening, or is empty."""

    def __init__(self, path: Path, embedder: str, dimensions: int) -> None:
        self._path = path
        self._dimensions = dimensions
        self._header = _HEADER.pack(_MAGIC, dimensions, sha256(embedder.encode()).digest())
        self._row = np.dtype([("hash", "V32"), ("check", "<u4"), ("vector", "<f4", (dimensions,))])
        self._rows: dict[bytes, int] = {}
        self._free: list[int] = []
        self._capacity = 0
        self._file = -1
        self._map: Matrix = np.zeros((0, dimensions), np.float32)
        self.dropped = ""

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, text_hash: bytes) -> bool:
        return text_hash in self._rows

    def open(self) -> None:
        """Open or create the file and check every row. Raises OSError."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(self._file).st_size
        found = os.pread(self._file, len(self._header), 0)
        if found != self._header:
            if size:
                self.dropped = f"{self._path.name}: {_difference(found, self._header)}"
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, self._header, 0)
            size = len(self._header)
        self._capacity = (size - len(self._header)) // self._row.itemsize
        self._remap()
        self._load()

    def close(self) -> None:
        self._map = np.zeros((0, self._dimensions), np.float32)
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def clear(self) -> None:
        """Forget every vector. Raises OSError."""
        os.ftruncate(self._file, len(self._header))
        self._rows.clear()
        self._free.clear()
        self._capacity = 0
        self._remap()

    def row_of(self, text_hash: bytes) -> int:
        """Where the vector of ``text_hash`` is, for :meth:`vectors`; -1 when it is not kept."""
        return self._rows.get(text_hash, -1)

    def vectors(self, rows: Sequence[int] | Rows) -> Matrix:
        """A copy of these rows, in order."""
        return np.asarray(self._map[np.asarray(rows, np.int64)])

    def put(self, text_hash: bytes, vector: Matrix) -> int:
        """Keep ``vector`` (float32, of length 1); its row. Raises OSError."""
        if text_hash in self._rows:
            return self._rows[text_hash]
        if not self._free:
            self._grow()
        row = self._free.pop()
        data = np.ascontiguousarray(vector, "<f4").tobytes()
        os.pwrite(self._file, _PREFIX.pack(text_hash, _check(text_hash, data)) + data, self._offset(row))
        self._rows[text_hash] = row
        return row

    def forget(self, text_hash: bytes) -> None:
        """Overwrite the vector with zeros, if it is kept. Raises OSError."""
        row = self._rows.pop(text_hash, None)
        if row is not None:
            os.pwrite(self._file, bytes(self._row.itemsize), self._offset(row))
            self._free.append(row)

    def hashes(self) -> list[bytes]:
        """The hashes of all that is kept."""
        return list(self._rows)

    def _offset(self, row: int) -> int:
        return len(self._header) + row * self._row.itemsize

    def _grow(self) -> None:
        added = max(_GROW_ROWS, self._capacity // 4)
        os.ftruncate(self._file, self._offset(self._capacity + added))
        self._free += range(self._capacity + added - 1, self._capacity - 1, -1)
        self._capacity += added
        self._remap()

    def _remap(self) -> None:
        if self._capacity == 0:
            self._map = np.zeros((0, self._dimensions), np.float32)
            return
        shape = (self._capacity,)
        mapped = np.memmap(self._path, self._row, "r", len(self._header), shape)
        self._map = mapped["vector"]

    def _load(self) -> None:
        broken = 0
        for row in range(self._capacity - 1, -1, -1):
            data = os.pread(self._file, self._row.itemsize, self._offset(row))
            text_hash, check = _PREFIX.unpack_from(data)
            if text_hash == _NO_HASH and check == 0:
                self._free.append(row)
                continue
            if check != _check(text_hash, data[_PREFIX.size :]) or not np.isfinite(self._map[row]).all():
                broken += 1
                self._free.append(row)
                continue
            self._rows[text_hash] = row
        if broken:
            self.dropped = f"{self._path.name}: {broken} rows were damaged"


def _check(text_hash: bytes, data: bytes) -> int:
    """Never 0, so that a row of zeros is a free one."""
    return zlib.crc32(data, zlib.crc32(text_hash)) or 1


def _difference(found: bytes, wanted: bytes) -> str:
    if len(found) < len(wanted) or found[:16] != wanted[:16]:
        return f"not of the format {_MAGIC.decode()!r}"
    dimensions, ours = _HEADER.unpack(found)[1], _HEADER.unpack(wanted)[1]
    if dimensions != ours:
        return f"of {dimensions} dimensions, this embedder has {ours}"
    return "of another embedder"
