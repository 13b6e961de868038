"""Real nodes for the tests of this directory, each ended and looked after when its tests are over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.effects import Effects
from tests.integration.live_node import KEY_VARIABLE, LiveNode
from tests.integration.scripts import models as scripted_models
from tests.own_code import own_code
from tests.places import ROOT
from tests.servers.processes import ModelServer, model_server
from tests.sharing import RAY, set_of

PLUGINS = own_code(Path(__file__).with_name("plugins"))
BEHAVIOURS = own_code(ROOT / "tests" / "behaviours")
NodeMaker = Callable[..., LiveNode]


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """With a failure, show what its nodes say."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]  # pluggy's result
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, LiveNode):
                report.sections.append((f"node of {name}", value.explain()))


@pytest.fixture(scope="session")
def effects() -> Iterator[Effects]:
    effects = Effects()
    yield effects
    effects.close()


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory, effects: Effects) -> Iterator[ModelServer]:
    with model_server(tmp_path_factory.mktemp("models"), scripted_models(effects)) as server:
        yield server


@pytest.fixture(scope="session")
def new_node(models: ModelServer) -> Iterator[NodeMaker]:
    """Makes nodes that are configured for these tests. At the end of the run nothing of any of them may be left."""
    nodes: list[LiveNode] = []

    def make(engine: str = "local", extra: str = "") -> LiveNode:
        nodes.append(LiveNode(engine, _configuration(models.base_url) + extra))
        return nodes[-1]

    yield make
    orphans = [orphan for node in nodes for orphan in node.end()]
    assert not orphans, f"processes outlived their node: {orphans}"


@pytest.fixture(scope="module")
def node(new_node: NodeMaker, request: pytest.FixtureRequest) -> Iterator[LiveNode]:
    """The node of one module, on the local engine; ``EXTRA`` of the module is added to its configuration."""
    node = new_node(extra=getattr(request.module, "EXTRA", ""))
    node.up()
    node.archive_answers()
    yield node
    _look_after(node)


@pytest.fixture
def fresh(new_node: NodeMaker) -> Iterator[LiveNode]:
    """A node of one test, which starts it itself."""
    node = new_node()
    yield node
    if node.running:
        _look_after(node)


class RayNode:
    """The node on a real Ray, from the first test that asks for it to the last of those that run together: an idle
    Ray takes a tenth of a core from the other tests.
    """

    def __init__(self, new_node: NodeMaker) -> None:
        self._new_node = new_node
        self._node: LiveNode | None = None

    def up(self) -> LiveNode:
        if self._node is None:
            self._node = self._new_node("ray")
            self._node.up()
        return self._node

    def end(self) -> None:
        if self._node is not None:
            _look_after(self._node)
            self._node = None


_RAY = pytest.StashKey[RayNode]()


@pytest.fixture(scope="session")
def rays(new_node: NodeMaker, request: pytest.FixtureRequest) -> Iterator[RayNode]:
    rays = request.config.stash[_RAY] = RayNode(new_node)
    yield rays
    rays.end()


@pytest.fixture(scope="module")
def ray_node(rays: RayNode) -> LiveNode:
    return rays.up()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    together = nextitem is not None and set_of(nextitem.nodeid) == RAY
    if _RAY in item.config.stash and not together:
        item.config.stash[_RAY].end()


def _look_after(node: LiveNode) -> None:
    """It still answers, stops cleanly, leaves no process, and its ledger verifies."""
    assert node.api.status()["read_only"] is None
    node.verify()
    node.down()


def _configuration(base_url: str) -> str:
    tools = "".join(
        f'[tools.{name}]\nimport = "probe_tools:{name}"\npython_path = ["{PLUGINS}"]\n'
        for name in (
            "count",
            "look",
            "hostile",
            "worker_pid",
            "dies",
            "hangs",
            "breeds",
            "floods",
            "prowls",
            "besieges",
            "daemonises",
        )
    )
    imports = {
        "planner": ("probe_behaviours:Planner", PLUGINS, "shared"),
        "watcher": ("probe_behaviours:Watcher", PLUGINS, "shared"),
        "multiplier": ("probe_behaviours:Multiplier", PLUGINS, "shared"),
        "linker": ("probe_behaviours:Linker", PLUGINS, "shared"),
        "gated": ("probe_behaviours:Gated", PLUGINS, "dedicated"),
        "holds": ("probe_behaviours:Holds", PLUGINS, "shared"),
        "stumbles": ("stumbles:Stumbles", PLUGINS, "dedicated"),
        "supervised": ("supervised:Supervised", PLUGINS, "shared"),
        "modules": ("probe_behaviours:Modules", PLUGINS, "dedicated"),
        "remembers": ("probe_behaviours:Remembers", PLUGINS, "dedicated"),
        "raises": ("probe_behaviours:Raises", PLUGINS, "dedicated"),
        "raises_shared": ("probe_behaviours:Raises", PLUGINS, "shared"),
        "traitor": ("probe_behaviours:Traitor", PLUGINS, "dedicated"),
        "daemoniser": ("probe_behaviours:Daemoniser", PLUGINS, "dedicated"),
        "prowler": ("probe_behaviours:Prowler", PLUGINS, "dedicated"),
        "besieger": ("probe_behaviours:Besieger", PLUGINS, "dedicated"),
        "broken": ("broken_import:Anything", BEHAVIOURS, "dedicated"),
        "exiting": ("exiting_import:Anything", BEHAVIOURS, "dedicated"),
        "start_raises": ("cell_behaviours:StartRaises", BEHAVIOURS, "dedicated"),
        "start_hangs": ("cell_behaviours:StartHangs", BEHAVIOURS, "dedicated"),
        "blocks": ("cell_behaviours:Blocks", BEHAVIOURS, "dedicated"),
    }
    behaviours = "".join(
        f'[behaviours.{name}]\nimport = "{where}"\npython_path = ["{path}"]\nisolation = "{isolation}"\n'
        for name, (where, path, isolation) in imports.items()
    )
    provider = f'kind = "openai"\nbase_url = "{base_url}"\napi_key_env = "{KEY_VARIABLE}"\n'
    ways = {"scripted": "", "whole": "stream = false\n", "single": "parallel = 1\n"}
    providers = "".join(f"[providers.{name}]\n{provider}{way}" for name, way in ways.items())
    return f"{providers}{tools}{behaviours}"
