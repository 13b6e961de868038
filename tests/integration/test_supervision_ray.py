"""The cases of supervision on a node whose cells are actors of a real Ray; ``make prove PART=slow`` runs them."""

from __future__ import annotations

import pytest

from tests.integration.cases_of_doors import *  # noqa: F403
from tests.integration.live_node import LiveNode
from tests.integration.real_world import RealWorld
from tests.kernel.supervision.conformance.cases import *  # noqa: F403
from tests.kernel.supervision.conformance.cases_of_significant_children import *  # noqa: F403
from tests.kernel.supervision.conformance.cases_of_specs import *  # noqa: F403
from tests.kernel.supervision.conformance.cases_of_starts import *  # noqa: F403

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture
def world(ray_node: LiveNode) -> RealWorld:
    return RealWorld(ray_node)
