"""The table of operations: what each row must say, and that it is the method of whoever asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from kernel.operations.node import Node, Status, Stopping
from kernel.operations.operation import AnyRow, Handler, Limit, Nothing, Noun, Operation, Row, handlers_of
from kernel.operations.processes import Kill, Processes, Signalled
from kernel.operations.table import NOUNS, TABLE

LOOKS_BY_POST = {"applications.plan", "memory.search", "archive.sql", "cluster.monitor"}
"""What changes nothing and is long, or waits: its question is a body."""


def names_of(request: Any) -> set[str]:
    return {field.name for field in fields(request)}


def test_no_two_rows_are_one_operation() -> None:
    assert len({row.name for row in TABLE}) == len({(row.method, row.path) for row in TABLE}) == len(TABLE)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_row_says_everything(row: AnyRow) -> None:
    assert is_dataclass(row.request)
    assert set(row.in_path) <= names_of(row.request)
    assert row.path.startswith("/")
    assert row.says.endswith(".")
    assert (row.method == "POST") == bool(row.recorded) or row.name in LOOKS_BY_POST


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_request_is_frozen(row: AnyRow) -> None:
    assert row.request.__dataclass_params__.frozen  # type: ignore[attr-defined]  # a dataclass: see above


class Heard:
    """An asker that keeps what it was asked, and nothing else."""

    def __init__(self) -> None:
        self.asked: list[tuple[AnyRow, object]] = []

    def ask(self, row: Row[..., Any, Any], request: object) -> Any:
        self.asked.append((row, request))
        return {"stopping": True}

    def stream(self, row: Row[..., Any, Any], request: object) -> Generator[Any, None, None]:
        self.asked.append((row, request))
        yield {"seq": 1}


def test_a_row_is_the_method_of_its_noun() -> None:
    heard = Heard()
    answer: Stopping = Node(heard).shutdown()
    assert answer == {"stopping": True}
    Processes(heard).kill(42, signal="kill")
    assert heard.asked == [(Node.shutdown, Nothing()), (Processes.kill, Kill(42, signal="kill"))]
    assert Kill(42).named == "42"
    assert [event["seq"] for event in Node(heard).events(follow=True)] == [1]
    with pytest.raises(TypeError, match="speed"):
        Processes(heard).kill(42, speed="fast")  # type: ignore[call-arg]  # what mypy sees as well


def test_a_noun_has_its_rows_in_the_order_in_which_they_stand() -> None:
    assert [row.name for row in Processes.rows()][:3] == [
        "processes.ps",
        "processes.inspect",
        "processes.children",
    ]
    assert all(noun.rows() for noun in NOUNS)


class Answers:
    async def kill(self, asked: object, request: Kill) -> Signalled:
        return {"address": request.named, "pid": 1, "signal": request.signal}

    async def status(self, asked: object, request: Nothing) -> Status:
        raise NotImplementedError

    async def events(self, asked: object, request: object) -> AsyncIterator[Any]:
        yield {}


def test_each_row_of_a_table_has_one_handler() -> None:
    answers = Answers()
    kill: Handler = Processes.kill.by(answers.kill)
    status: Handler = Node.status.by(answers.status)
    table = (Processes.kill, Node.status)
    assert handlers_of([(kill,), (status,)], table) == {
        Processes.kill: answers.kill,
        Node.status: answers.status,
    }
    with pytest.raises(LookupError, match=r"nobody answers .*node\.status"):
        handlers_of([(kill,)], table)
    with pytest.raises(LookupError, match=r"processes\.kill.* answered twice"):
        handlers_of([(kill, kill)], table)
    with pytest.raises(LookupError, match="no table"):
        handlers_of([(kill, status)], (Processes.kill,))


def test_a_path_is_filled_in() -> None:
    class Things(Noun):
        one = Operation("GET", "/things/{id:path}/of/{name}", Nothing, Signalled, "One thing.")

    assert Things.one.in_path == ("id", "name")
    assert Things.one.at(str.upper) == "/things/ID/of/NAME"
    assert Things.one.name == "things.one"


def test_a_limit_says_what_is_set_and_no_more() -> None:
    assert Limit(ge=0, max_length=5).given() == {"max_length": 5, "ge": 0}
