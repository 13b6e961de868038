"""What a run sees of the tests of supervision: it is recorded, or held against what is recorded.

A run of whole files is held against it, such as that of ``make test``; one of single tests says nothing of the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.supervision_conformance import Outcome, record, wanted

OPTION = "--record-supervision"


def differences(seen: Mapping[str, Outcome], recorded: Mapping[str, Outcome]) -> list[str]:
    """A line for each test that went otherwise than is recorded, of the files of which any was seen."""
    files = {name.partition("::")[0] for name in seen}
    names = {*seen, *(name for name in recorded if name.partition("::")[0] in files)}
    return [
        f"{name}: seen {seen.get(name)}, recorded {recorded.get(name)}"
        for name in sorted(names)
        if seen.get(name) != recorded.get(name)
    ]


class Seen:
    """The part of a run that gathers the reports: that of the process where they all come together."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._seen: dict[str, Outcome] = {}
        self._stale: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition("[")[0]
        if not (report.skipped or (report.when == "call" and report.passed)):
            return
        outcome = self._seen.setdefault(name, {"passed": 0, "skipped": {}})
        if report.passed:
            outcome["passed"] += 1
        else:
            why = _why(report)
            outcome["skipped"][why] = outcome["skipped"].get(why, 0) + 1

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """A run in which a test fails says so by itself, and has not seen all."""
        target: str | None = self._config.getoption(OPTION)
        if exitstatus != pytest.ExitCode.OK or not (target or _is_whole(self._config)):
            return
        names = {name for names in wanted().values() for name in names}
        seen = {name: self._seen[name] for name in sorted(names & self._seen.keys())}
        if target:
            Path(target).write_text(json.dumps(seen))
            return
        recorded = {name: each for made in record().values() for name, each in made["results"].items()}
        self._stale = differences(seen, recorded)
        if self._stale:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._stale:
            terminalreporter.section("docs/supervision-conformance.md is stale", red=True)
            terminalreporter.write_line("run python -m tools.supervision_conformance")
            for line in self._stale:
                terminalreporter.write_line(line)


def _why(report: pytest.TestReport) -> str:
    """Of one that was skipped; of one that was expected to fail, and did, what was said of that."""
    where_and_why = report.longrepr
    if isinstance(where_and_why, tuple | list):
        return str(where_and_why[-1]).removeprefix("Skipped: ")
    return str(getattr(report, "wasxfail", ""))


def _is_whole(config: pytest.Config) -> bool:
    """Whether it runs all tests of each file that it runs any of."""
    option = config.option
    chosen = option.keyword or option.deselect or getattr(option, "lf", False) or option.collectonly
    return (
        not chosen
        and option.markexpr in ("", "not slow", "slow")
        and not any("::" in each for each in config.args)
    )
