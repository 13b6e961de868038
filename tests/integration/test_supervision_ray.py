"""The cases of supervision on a node whose cells are actors of a real Ray; ``make prove PART=slow`` runs them."""

from __future__ import annotations

import pytest

from tests.integration.live_node import LiveNode
from tests.integration.test_supervision import RealWorld
from tests.kernel.supervision.conformance.cases import *  # noqa: F403

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture
def world(ray_node: LiveNode) -> RealWorld:
    return RealWorld(ray_node)
