"""What every test run has in common: a user of its own, Ctrl-C for the processes it starts, who shares a real node, the
closing count of tests, and of those on a real Ray.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

import chain.aio
from tests import supervision_seen
from tests.lent_contexts import LentContext
from tests.patience import TEST_S
from tests.sharing import NodesTogether
from tests.taken import taken

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    said = "write what came of the tests of supervision to a file (tools/supervision_conformance.py)"
    parser.addoption(supervision_seen.OPTION, metavar="FILE", help=said)


def pytest_configure(config: pytest.Config) -> None:
    """A run in the background of a shell has Ctrl-C ignored, and so would have what it starts. While tests are
    collected all that is made stays: the collector of garbage finds nothing.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()
    if not hasattr(config, "workerinput"):  # of pytest-xdist, whose reports come together elsewhere
        config.pluginmanager.register(supervision_seen.Seen(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_S))


def pytest_collection_finish() -> None:
    """The tests stay until the end: no collection of garbage has to look through all that they are made of."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """A file of real nodes goes to one worker whole, as its tests share a node; so do all files of the one real Ray."""
    return NodesTogether(config, log)


@pytest.fixture(scope="session", autouse=True)
def configuration_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What a verification remembers is not to end up with whoever runs the tests, nor to be as wide as their screen."""
    directory = tmp_path_factory.mktemp("config")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(directory))
        patch.delenv("COLUMNS", raising=False)
        yield directory


@pytest.fixture(scope="session", autouse=True)
def contexts_are_lent() -> Iterator[None]:
    """No ledger that is closed waits until the kernel has forgotten how it synced."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain.aio, "_Context", LentContext)
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    made = [
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
    ]
    calls = [report for report in made if report.when == "call" and not report.skipped]
    real_ray = sum("ray" in report.keywords for report in calls)
    terminalreporter.write_line(f"tests run: {len(calls)}, of these on a real Ray: {real_ray}")
    spans = ((report.nodeid, "ray" in report.keywords, report.duration) for report in made)
    terminalreporter.write_line(f"what took long, each process counted: {taken(spans)}")
