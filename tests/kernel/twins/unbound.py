"""Imported by a nursery: what it bears from then on does not die with it by itself, as when it is ended before its
newborn has asked for that.
"""

from __future__ import annotations

from kernel.helper import nursery
from tests.kernel.twins.nursery_node import main as main

nursery.die_with_parent = lambda: None  # type: ignore[attr-defined]  # by the name it calls
