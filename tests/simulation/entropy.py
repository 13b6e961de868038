"""Randomness and time that no seed decides: whoever of ours asks for them while a run goes on is told of.

What depends on the order of hashes shows otherwise: by two runs of a seed under two PYTHONHASHSEEDs, which must come to
the same bytes.
"""

from __future__ import annotations

import os
import random
import secrets
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

OURS = ("kernel.", "chain.", "mesh.", "cognition.", "weftos.")
SOURCES: tuple[tuple[ModuleType, tuple[str, ...]], ...] = (
    (time, ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")),
    (os, ("urandom", "getrandom", "getpid")),
    (uuid, ("uuid1", "uuid4")),
    (secrets, ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "choice")),
    (random, ("random", "uniform", "randrange", "randint", "choice", "choices", "sample", "shuffle", "getrandbits")),
)  # fmt: skip


@contextmanager
def no_hidden_entropy(found: Callable[[str], None]) -> Iterator[None]:
    """``found`` is called with words for each time that ours asks one of :data:`SOURCES`."""
    before = [(module, name, getattr(module, name)) for module, names in SOURCES for name in names]
    for module, name, source in before:
        setattr(module, name, _told(module, name, source, found))
    try:
        yield
    finally:
        for module, name, source in before:
            setattr(module, name, source)


def _told(module: ModuleType, name: str, source: Any, found: Callable[[str], None]) -> Callable[..., Any]:
    def asked(*args: Any, **words: Any) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.startswith(OURS):
            found(f"{caller} asks {module.__name__}.{name}, which no seed decides")
        return source(*args, **words)

    return asked
