"""What was asked of a node and what came of it, in a file that :mod:`tests.prove.chaos.checker` reads."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from weftos import WeftosError

REFUSALS = frozenset({"not_found", "refused", "busy", "invalid", "conflict", "too_large"})
"""Codes of errors after which it is known that nothing was done. ``not_running`` is none: what was asked again may have
been done the first time."""

T = TypeVar("T")


class Unknown(Exception):
    """Whether it was done is not known."""


class History:
    """Lines in the order in which things were asked and answered, from several threads."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()
        self._tally: dict[tuple[str, str], int] = {}

    def write(self, f: str, op: str, kind: str, **more: Any) -> None:
        with self._lock:
            line = {"time": time.time_ns(), "f": f, "op": op, "type": kind, **more}
            self._file.write(json.dumps(line) + "\n")
            self._tally[f, kind] = self._tally.get((f, kind), 0) + 1

    def tally(self) -> dict[tuple[str, str], int]:
        """How many there are of each function and type."""
        with self._lock:
            return dict(self._tally)

    def attempt(
        self, f: str, op: str, act: Callable[[], T], told: Callable[[T], dict[str, Any]], **more: Any
    ) -> T | None:
        """Do it once, on record: what came, None when it was surely not done. ``told``: what is recorded of it. Raises
        Unknown.
        """
        self.write(f, op, "invoke", **more)
        try:
            answer = act()
        except WeftosError as error:
            refused = error.code in REFUSALS
            self.write(f, op, "fail" if refused else "info", why=f"{error.code}: {error}"[:300])
            if refused:
                return None
            raise Unknown(str(error)) from error
        self.write(f, op, "ok", **told(answer))
        return answer
