"""Which tests go to one worker of pytest-xdist together.

By a scheduler of our own, and not by ``--dist loadgroup``: that writes the group into the id of a test where pytest 9.2
does not read it any more, and then shares out each test by itself without a word. The largest sets go first, so that
single tests are left for the end, when one worker would wait for the other.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
NODES = "tests/integration/"
RAY = "ray"
ONE_READING = "tests/test_object_graph.py"  # of all sources, and each of its tests looks at it


class NodesTogether(LoadScopeScheduling):
    """Every other test is shared out by itself."""

    def _split_scope(self, nodeid: str) -> str:
        return set_of(nodeid)


def set_of(nodeid: str) -> str:
    """The tests of one set run in one worker, one after the other."""
    path = nodeid.partition("::")[0]
    if not path.startswith((NODES, ONE_READING)):
        return nodeid
    return RAY if _is_on_ray(path) else path


@cache
def _is_on_ray(path: str) -> bool:
    return "pytest.mark.ray" in (ROOT / path).read_text(encoding="utf-8")
