"""What must not come of hostile frames: a traceback, a hang, memory. Watched from inside the process under fuzz."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel.upkeep.loop_lag import LoopLag

MEMORY_MIB = 256
"""What the process may grow by, from warm to the end."""


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """How it went. ``faults`` are tracebacks and whatever else must not be; ``grown_mib`` of resident memory."""

    frames: int
    links: int
    faults: tuple[str, ...]
    grown_mib: float
    longest_ms: float

    @property
    def held(self) -> bool:
        return not self.faults and self.grown_mib < MEMORY_MIB


def resident_mib() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Watch(logging.Handler):
    """A context manager around the fuzz; :meth:`warm` once the first frames are through."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.faults: list[str] = []
        self._lag = LoopLag()
        self._warm_mib = resident_mib()

    def __enter__(self) -> Watch:
        asyncio.get_running_loop().set_exception_handler(self._failed)
        logging.getLogger().addHandler(self)
        self._lag.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._lag.stop()
        logging.getLogger().removeHandler(self)

    def warm(self) -> None:
        """What is resident now counts as the beginning."""
        self._lag.stop()  # what this itself takes is no stall of the node
        gc.collect()
        self._warm_mib = resident_mib()
        self._lag.start()

    def emit(self, record: logging.LogRecord) -> None:
        self.faults.append(self.format(record))

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        told = "".join(traceback.format_exception(error)) if error is not None else ""
        self.faults.append(f"{context['message']}\n{told}")

    def result(self, frames: int, links: int) -> Fuzzed:
        self._lag.stop()
        gc.collect()
        grown = resident_mib() - self._warm_mib
        return Fuzzed(frames, links, tuple(self.faults), grown, self._lag.longest_ms())
