"""The cases run on the process tree on twins; tests/integration/test_supervision.py runs them on a real node."""

import pytest

from tests.kernel.supervision.conformance.world import MemoryWorld


@pytest.fixture
def world() -> MemoryWorld:
    return MemoryWorld()
