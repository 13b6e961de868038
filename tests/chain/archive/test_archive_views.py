"""The archive's views over a ledger with one of each thing, and every query of the page about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chain.archive.archive import Archive
from chain.archive.views import VIEWS
from chain.keys.keys import create_keys
from chain.ledger.ledger import Draft
from tests.chain.twins.archives import append, archive_of, load_all, meddle
from tests.chain.twins.ledgers import whole
from tests.places import ROOT

PAGE = ROOT / "docs" / "audit-sql.md"
PID = 7


def draft(kind: str, cause: int = -1, by: int = PID, /, **fields: Any) -> Draft:
    """An entry of the process ``by``, with every field that its kind has."""
    return whole(kind, fields, by, "", b"", cause)


def call(ordinal: str, **fields: Any) -> dict[str, Any]:
    return {"turn": "t1", "ordinal": ordinal, "tool": "http_post", **fields}


LIFE = [
    draft("operator.command", -1, 0, uid=1000, os_pid=4, operation="spawn", arguments="{}"),
    draft("process.spawned", 0, 0, address="/user/ada", parent="/user", spec='{"behaviour": "agent"}'),
    draft("process.started", 1, 0, address="/user/ada", pid=PID, cell="c1"),
    draft("model.asked", turn="t1", ordinal="0.0", provider="acme", model="small-1"),
    draft("model.answered", 3, turn="t1", ordinal="0.0", status="ok", input_tokens=1000, output_tokens=10),
    draft("tool.proposed", 4, **call("0.1"), arguments='{"to": "x"}'),
    draft("tool.verdict", 5, **call("0.1"), decision="allow", reasons=[]),
    draft("tool.intent", 5, **call("0.1"), effects="external", attempt=1),
    draft("tool.outcome", 7, **call("0.1"), status="in_doubt", result="unknown", attempt=1),
    draft("tool.resolved", 8, 0, **call("0.1"), resolution="retry", by="operator"),
    draft("tool.intent", 5, **call("0.1"), effects="external", attempt=2),
    draft("tool.outcome", 10, **call("0.1"), status="in_doubt", result="unknown", attempt=2),
    draft("tool.resolved", 11, 0, **call("0.1"), resolution="done", by="operator"),
    draft("tool.outcome", 10, **call("0.1"), status="ok", result="done", attempt=2),
    draft("tool.proposed", 4, **call("0.2"), arguments="{}"),
    draft("tool.verdict", 14, **call("0.2"), decision="deny", reasons=["no right", "too late"]),
    draft("message.refused", to="/user/bob", sender="/user/ada", why="no such process"),
    draft("peer.refused", -1, 0, who="198.51.100.7", why="not in the allow list", more=0),
    draft("process.exited", -1, 0, address="/user/ada", pid=PID, reason="crash", detail="boom"),
    draft("process.started", -1, 0, address="/kernel/gateway", pid=3, cell="helper"),
    draft("model.asked", -1, 9, turn="t2", ordinal="0.0", provider="acme", model="large-1"),
    draft("model.answered", 20, 9, turn="t2", ordinal="0.0", status="error", input_tokens=0, output_tokens=0),
    draft("model.asked", -1, 9, turn="t2", ordinal="1.0", provider="acme", model="large-1"),
    draft("erase", -1, 0, ranges=[[24, 24]], by="operator", reason="asked"),
    draft("tool.proposed", **call("0.3"), arguments="secret"),
    draft("tool.proposed", **call("0.4"), arguments='{"to": "y"}'),
    draft("tool.intent", 25, **call("0.4"), effects="external", attempt=1),
    draft("tool.outcome", 26, **call("0.4"), status="timeout", result="no answer", attempt=1),
    draft("turn.decided", turn="t1", ordinal="0.4", decision="accept", by="operator"),
    draft("tool.proposed", **call("0.4"), arguments='{"to": "z"}'),
    draft("tool.intent", 29, **call("0.4"), effects="external", attempt=1),
    draft("tool.outcome", 30, **call("0.4"), status="ok", result="done", attempt=1),
]  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("views") / "data"
    directory.mkdir()
    create_keys(directory / "keys")
    append(directory, *LIFE)
    meddle(archive_of(directory), "UPDATE entries SET body = NULL, salt = NULL WHERE seq = 24")
    return directory


@pytest.fixture
def archive(data: Path) -> Iterator[Archive]:
    held = Archive(data / "archive" / "audit.duckdb", data)
    held.open()
    load_all(held)
    yield held
    held.close()


def table(archive: Archive, sql: str) -> list[dict[str, Any]]:
    answer = archive.query(sql, 100)
    return [dict(zip((name for name, _ in answer.columns), row, strict=True)) for row in answer.rows]


def some(row: dict[str, Any], *names: str) -> list[Any]:
    return [row[name] for name in names]


def test_a_tool_call_is_one_row_with_what_became_of_it(archive: Archive) -> None:
    done, denied, erased, *_ = table(archive, "FROM tool_calls ORDER BY seq")
    assert done == {
        "seq": 5, "time": done["time"], "pid": PID, "turn": "t1", "ordinal": "0.1", "tool": "http_post",
        "arguments": '{"to": "x"}', "decision": "allow", "reasons": "[]", "effects": "external", "attempts": 2,
        "intent_seq": 10, "status": "ok", "result": "done", "outcome_seq": 13, "took_ms": done["took_ms"],
        "resolution": "done",
    }  # fmt: skip
    assert done["time"].startswith("2023-11-14 22:13:20")
    assert done["took_ms"] == pytest.approx(0.008)
    names = ("seq", "decision", "reasons", "attempts", "status", "intent_seq")
    assert some(denied, *names) == [14, "deny", '["no right","too late"]', 0, None, None]
    assert some(erased, "seq", "pid", "tool", "decision") == [24, PID, None, None]


def test_a_call_that_a_person_let_a_turn_forget_keeps_what_became_of_it(archive: Archive) -> None:
    forgotten, present = table(archive, "FROM tool_calls WHERE ordinal = '0.4' ORDER BY seq")
    names = ("seq", "attempts", "intent_seq", "status", "result", "outcome_seq")
    assert some(forgotten, *names) == [25, 1, 26, "timeout", "no answer", 27]
    assert some(present, *names) == [29, 1, 30, "ok", "done", 31]


def test_a_process_is_one_row_from_its_start_to_its_end(archive: Archive) -> None:
    ada, gateway = table(archive, "FROM processes ORDER BY seq")
    names = (
        "pid",
        "address",
        "parent",
        "behaviour",
        "cell",
        "seq",
        "reason",
        "detail",
        "exit_seq",
        "spawned_seq",
    )
    assert some(ada, *names) == [PID, "/user/ada", "/user", "agent", "c1", 2, "crash", "boom", 18, 1]
    assert ada["ran_s"] == pytest.approx(16e-6)
    assert some(gateway, *names) == [3, "/kernel/gateway", None, None, "helper", 19, None, None, None, None]


def test_denials_are_of_calls_messages_and_peers(archive: Archive) -> None:
    rows = table(archive, "FROM denials ORDER BY seq")
    assert [some(row, "seq", "what", "subject", "decision", "why") for row in rows] == [
        [15, "tool call", "http_post", "deny", "no right; too late"],
        [16, "message", "/user/ada to /user/bob", "refused", "no such process"],
        [17, "peer", "198.51.100.7", "refused", "not in the allow list"],
    ]


def test_each_doubt_has_the_decision_that_followed_it(archive: Archive) -> None:
    rows = table(archive, "FROM doubts ORDER BY seq")
    names = ("seq", "attempt", "intent_seq", "open", "resolution", "decided_by", "resolved_seq")
    assert [some(row, *names) for row in rows] == [
        [8, 1, 7, False, "retry", "operator", 9],
        [11, 2, 10, False, "done", "operator", 12],
    ]


def test_a_doubt_that_nobody_has_decided_is_open(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    create_keys(tmp_path / "data" / "keys")
    append(tmp_path / "data", *LIFE[:9])
    archive = Archive(archive_of(tmp_path / "data"), tmp_path / "data")
    archive.open()
    (row,) = table(archive, "FROM doubts")
    archive.close()
    assert some(row, "open", "resolution", "resolved") == [True, None, None]


def test_costs_are_tokens_by_model_and_process(archive: Archive) -> None:
    rows = table(archive, "FROM costs ORDER BY pid")
    names = ("provider", "model", "pid", "address", "calls", "errors", "input_tokens", "output_tokens")
    assert [some(row, *names) for row in rows] == [
        ["acme", "small-1", PID, "/user/ada", 1, 0, 1000, 10],
        ["acme", "large-1", 9, None, 2, 1, 0, 0],
    ]
    waiting = table(archive, "FROM model_calls WHERE status IS NULL")
    assert [some(row, "seq", "answered_seq", "took_ms") for row in waiting] == [[22, None, None]]


QUERIES = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("sql", QUERIES, ids=lambda sql: sql.partition("\n")[0][:60])
def test_every_query_of_the_page_finds_something(archive: Archive, sql: str) -> None:
    assert table(archive, sql)


def test_the_page_describes_every_view_and_each_of_its_columns(archive: Archive) -> None:
    page = PAGE.read_text()
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##)", page, re.DOTALL | re.MULTILINE))
    assert list(sections) == list(VIEWS)
    for name, text in sections.items():
        columns = {row["column_name"] for row in table(archive, f"DESCRIBE {name}")}
        assert columns - set(re.findall(r"`(\w+)`", text)) == set(), name
    assert len(QUERIES) >= len(VIEWS)
