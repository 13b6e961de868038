"""A node with plain child processes as cells."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import cases
from benchmarks.conftest import Report
from benchmarks.floors import Echo, interpreter_floor
from benchmarks.node import BenchNode

ENGINE = "local"


def test_mailbox(node: BenchNode, report: Report, echo: Echo) -> None:
    cases.mailbox(node, report, echo)


@pytest.mark.parametrize("what", cases.CALL_KINDS)
def test_tool_call(node: BenchNode, report: Report, echo: Echo, what: Any) -> None:
    cases.tool_call(node, report, echo, what)


@pytest.mark.parametrize("tool", ["look", "act"])
def test_two_hundred_agents(node: BenchNode, report: Report, echo: Echo, tool: str) -> None:
    cases.crowd(node, report, echo, tool, "5,000/s")


def test_cell_killed(node: BenchNode, report: Report, echo: Echo) -> None:
    cases.cell_killed(node, report, [echo.end_of_file_floor(), interpreter_floor()])


def test_spawn_one(node: BenchNode, report: Report) -> None:
    cases.spawn_one(node, report, "shared", [interpreter_floor()])


def test_spawn_many(node: BenchNode, report: Report) -> None:
    cases.spawn_many(node, report, [interpreter_floor()])
