"""The segments of a journal as they stand at one moment, for whoever reads longer than a running node keeps them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from chain.disk import Disk
from chain.entry.frame import segment_name
from chain.entry.reader import segment_names
from chain.entry.segment_file import SegmentFile

_HELD = 256  # descriptors


class Segments:
    """Those in ``directory`` from the one of ``group`` on, in order. They are open at once, up to 256 of them: a node
    that drops them meanwhile takes nothing away. To be closed.

    ``all_names``: of every segment that is there; ``bytes``: of those from ``group`` on. Raises OSError.
    """

    def __init__(self, directory: Path, disk: Disk, group: int) -> None:
        self.all_names = segment_names(directory, disk)
        names = [name for name in self.all_names if name >= segment_name(group)]
        self.bytes = sum(disk.size(directory / name) for name in names)
        self._directory = directory
        self._disk = disk
        self._left = deque(names)
        self._open: deque[SegmentFile] = deque()
        try:
            self._open_more()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Segments:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Give up the descriptors."""
        while self._open:
            self._open.popleft().close()

    def __iter__(self) -> Iterator[tuple[SegmentFile, bool]]:
        """Each one, once, and whether it is the last."""
        while self._open:
            with self._open.popleft() as segment:
                yield segment, not (self._open or self._left)
            self._open_more()

    def _open_more(self) -> None:
        while self._left and len(self._open) < _HELD:
            self._open.append(SegmentFile(self._directory / self._left.popleft(), self._disk))
