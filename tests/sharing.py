"""Which tests go to one worker of pytest-xdist together.

By a scheduler of our own, and not by ``--dist loadgroup``: that writes the group into the id of a test where pytest 9.2
does not read it any more, and then shares out each test by itself without a word. The largest sets go first, so that
single tests are left for the end, when one worker would wait for the other.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).parents[1]
NODES = "tests/integration/"
RAY = "ray"
ONE_READING = "tests/test_object_graph.py"  # of all sources, and each of its tests looks at it


class NodesTogether(LoadScopeScheduling):
    """Every other test is shared out by itself.

    What a worker has done is forgotten: the scheduler counts, at each end of a test, through all the sets that it has
    ever given to that worker, which are some thousands here.
    """

    def _split_scope(self, nodeid: str) -> str:
        return set_of(nodeid)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        given, done = self.assigned_work[node], set_of(self.registered_collections[node][item_index])
        if all(given[done].values()):
            del given[done]


def set_of(nodeid: str) -> str:
    """The tests of one set run in one worker, one after the other."""
    path = nodeid.partition("::")[0]
    if not path.startswith((NODES, ONE_READING)):
        return nodeid
    return RAY if _is_on_ray(path) else path


@cache
def _is_on_ray(path: str) -> bool:
    return "pytest.mark.ray" in (ROOT / path).read_text(encoding="utf-8")
