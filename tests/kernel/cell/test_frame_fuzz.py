"""The fuzz of ``make prove PART=frames``, in small: the same node, the same frames, fewer of them."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest

from tests.prove.frames import KINDS, Fuzz

FRAMES = 1_000


@pytest.mark.parametrize("fuzz", KINDS.values(), ids=KINDS)
def test_hostile_frames_leave_no_traceback_no_hang_and_no_memory(fuzz: Fuzz) -> None:
    with tempfile.TemporaryDirectory(prefix="wf") as place:  # short: a socket lies in it
        done = asyncio.run(fuzz(Path(place), FRAMES, "quick", lambda frames: None))
    assert done.frames >= FRAMES
    assert done.links > 10
    assert done.faults == ()
    assert done.held
