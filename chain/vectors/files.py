"""An HNSW graph on disk: saved aside and made valid by one rename; loaded only when it is exactly what was saved.

``index.json`` names the generation that counts; ``graph-N.hnsw`` and ``labels-N.bin`` are that generation. A save
writes the two files of the next one, syncs them, and then replaces ``index.json``, which holds their SHA-256. A crash
before that leaves the old generation; what it had written is removed by :meth:`IndexFiles.sweep`. hnswlib trusts the
bytes it loads, so it never sees a file whose hash is not the one in ``index.json``.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import file_digest, sha256
from pathlib import Path

import hnswlib
import numpy as np
import numpy.typing as npt

from chain.disk import Disk, open_regular

FORMAT = "weftos-vector-index 1"
LABEL = np.dtype([("number", "<i8"), ("document", "<i8"), ("hash", "V32")])
KEPT = "kept.vec"
_INDEX = "index.json"

Labels = npt.NDArray[np.void]


class UnfitIndex(Exception):
    """The files are none that this index may load; the message says why. Handled inside the package."""


@dataclass(frozen=True, slots=True)
class _Saved:
    """What ``index.json`` says. ``following``: the first label that was never used."""

    format: str
    embedder: str
    dimensions: int
    generation: int
    following: int
    graph_sha256: str
    labels_sha256: str


class IndexFiles:
    """The files of the index of ``embedder`` in ``directory``."""

    def __init__(self, directory: Path, embedder: str, dimensions: int, disk: Disk) -> None:
        self._directory = directory
        self._embedder = embedder
        self._dimensions = dimensions
        self._disk = disk
        self._generation = 0

    def read(self, least_capacity: int) -> tuple[hnswlib.Index, Labels, int] | None:
        """The saved graph with room for more, its labels, and the first label never used.

        None when nothing is saved. Raises UnfitIndex.
        """
        try:
            saved = self._read_saved()
            if saved is None:
                return None
            self._generation = saved.generation
            path, labels = self._paths(saved.generation)
            if _digest(path) != saved.graph_sha256:
                raise UnfitIndex(f"{path.name} is damaged: its hash is not the one in {_INDEX}")
            content = self._disk.read(labels)
            if sha256(content).hexdigest() != saved.labels_sha256:
                raise UnfitIndex(f"{labels.name} is damaged: its hash is not the one in {_INDEX}")
            table = np.frombuffer(content, LABEL)
            graph = hnswlib.Index("ip", self._dimensions)
            graph.load_index(str(path), max(least_capacity, 2 * len(table)), allow_replace_deleted=True)
        except (OSError, RuntimeError, ValueError, TypeError) as error:
            raise UnfitIndex(f"the index cannot be read: {error}") from error
        return graph, table, saved.following

    def write(self, graph: hnswlib.Index, labels: Labels, following: int) -> None:
        """Save the next generation. Raises OSError; then the one before still counts."""
        path, beside = self._paths(self._generation + 1)
        size = graph.index_file_size()
        try:
            graph.save_index(str(path))
        except RuntimeError as error:
            raise OSError(f"{path.name} cannot be written: {error}") from error
        if self._disk.size(path) != size:
            raise OSError(f"only {self._disk.size(path)} of {size} bytes of {path.name} could be written")
        path.chmod(0o600)
        self._sync(path)
        content = labels.tobytes()
        self._write(beside, content)
        saved = _Saved(
            FORMAT,
            self._embedder,
            self._dimensions,
            self._generation + 1,
            following,
            _digest(path),
            sha256(content).hexdigest(),
        )
        aside = self._directory / f"{_INDEX}.new"
        line = json.dumps(asdict(saved)).encode()
        self._write(aside, line + b"\n" + sha256(line).hexdigest().encode())
        self._disk.rename(aside, self._directory / _INDEX)
        self._disk.sync_directory(self._directory)
        self._generation += 1
        self.sweep()

    def sweep(self) -> None:
        """Remove what no saved generation needs."""
        needed = {path.name for path in self._paths(self._generation)} | {_INDEX, KEPT}
        for name in self._disk.names(self._directory):
            if name not in needed:
                with suppress(OSError):
                    self._disk.remove(self._directory / name)

    def _read_saved(self) -> _Saved | None:
        try:
            content, _, digest = self._disk.read(self._directory / _INDEX).partition(b"\n")
        except FileNotFoundError:
            return None
        if sha256(content).hexdigest() != digest.decode("ascii", "replace"):
            raise UnfitIndex(f"{_INDEX} is damaged: its last line is not the hash of its first")
        saved = _Saved(**json.loads(content))
        for what, found, wanted in (
            ("format", saved.format, FORMAT),
            ("embedder", saved.embedder, self._embedder),
            ("dimensions", saved.dimensions, self._dimensions),
        ):
            if found != wanted:
                raise UnfitIndex(f"the index has {what} {found!r}, this one {wanted!r}")
        return saved

    def _paths(self, generation: int) -> tuple[Path, Path]:
        return self._directory / f"graph-{generation}.hnsw", self._directory / f"labels-{generation}.bin"

    def _write(self, path: Path, content: bytes) -> None:
        handle = self._disk.create(path)
        try:
            self._disk.write(handle, 0, content)
            self._disk.sync(handle)
        finally:
            self._disk.close(handle)

    def _sync(self, path: Path) -> None:
        handle = self._disk.open(path)
        try:
            self._disk.sync(handle)
        finally:
            self._disk.close(handle)


def _digest(path: Path) -> str:
    with open_regular(path) as file:
        return file_digest(file, "sha256").hexdigest()
