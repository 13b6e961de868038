"""The cases of supervision on a real node with the local engine."""

from __future__ import annotations

import pytest

from tests.integration.cases_of_doors import *  # noqa: F403
from tests.integration.live_node import LiveNode
from tests.integration.real_world import RealWorld
from tests.kernel.supervision.conformance.cases import *  # noqa: F403
from tests.kernel.supervision.conformance.cases_of_significant_children import *  # noqa: F403
from tests.kernel.supervision.conformance.cases_of_specs import *  # noqa: F403
from tests.kernel.supervision.conformance.cases_of_starts import *  # noqa: F403


@pytest.fixture
def world(node: LiveNode) -> RealWorld:
    return RealWorld(node)
