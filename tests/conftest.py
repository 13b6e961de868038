"""What every test run has in common: the closing count of tests, and of those that used a real Ray."""

from __future__ import annotations

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    calls = [
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call" and not report.skipped
    ]
    real_ray = sum("ray" in report.keywords for report in calls)
    terminalreporter.write_line(f"tests run: {len(calls)}, of these on a real Ray: {real_ray}")
