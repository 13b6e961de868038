"""Foreign SQL over an archive: what it may see, and that nothing it tries changes, reads or stops anything else."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chain.archive import query as module
from chain.archive.archive import Archive
from chain.archive.query import QueryError
from chain.keys.keys import create_keys
from chain.ledger.ledger import Draft
from tests.chain.twins.archives import append, load_all
from tests.chain.twins.hostile_sql import ENDLESS, FILES, GREEDY, WRITES
from tests.patience import HANG_S


def made(directory: Path) -> Path:
    """A data directory of five entries."""
    directory.mkdir()
    create_keys(directory / "keys")
    append(directory, *(Draft("message.dead", {"id": str(n), "to": "/user/a", "why": "w"}) for n in range(5)))
    return directory


@contextmanager
def opened(data: Path) -> Iterator[Archive]:
    held = Archive(data / "archive" / "audit.duckdb", data)
    held.open()
    load_all(held)
    yield held
    held.close()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """One for all that only ask."""
    with opened(made(tmp_path_factory.mktemp("common") / "data")) as held:
        yield held


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return made(tmp_path / "data")


@pytest.fixture
def own(data: Path) -> Iterator[Archive]:
    """One for a test that does something to it."""
    with opened(data) as held:
        yield held


def rows(archive: Archive, sql: str, limit: int = 100) -> list[list[Any]]:
    return archive.query(sql, limit).rows


def test_an_answer_has_columns_with_their_types_and_rows(archive: Archive) -> None:
    answer = archive.query("SELECT seq, kind, body->>'why' AS why FROM entries ORDER BY seq", 3)
    assert answer.columns == [("seq", "BIGINT"), ("kind", "VARCHAR"), ("why", "VARCHAR")]
    assert answer.rows == [[n, "message.dead", "w"] for n in range(3)]
    assert answer.cut == "only the first 3 rows: ask for more with a higher limit"
    assert archive.query("FROM entries", 5).cut == ""


@pytest.mark.parametrize(
    "sql",
    [
        "WITH a AS (SELECT 1 AS x) SELECT x FROM a",
        "VALUES (1)",
        "FROM range(1, 2)",
        "(SELECT 1)",
        "SELECT 1;",
    ],
)
def test_whatever_comes_to_a_select_is_allowed(archive: Archive, sql: str) -> None:
    assert rows(archive, sql) == [[1]]


def test_tables_and_views_tell_what_they_are(archive: Archive) -> None:
    names = {row[0] for row in rows(archive, "SHOW TABLES")}
    assert names == {"entries", "position", "documents", "tool_calls", "processes", "denials", "doubts",
                     "model_calls", "costs"}  # fmt: skip
    assert [row[0] for row in rows(archive, "DESCRIBE entries")][:2] == ["seq", "time_us"]


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("170141183460469231731687303715884105727::HUGEINT", "170141183460469231731687303715884105727"),
        ("(-9223372036854775808)::BIGINT", -(2**63)),
        ("'nan'::DOUBLE", "nan"),
        ("'-infinity'::DOUBLE", "-inf"),
        ("'\\x00\\xff'::BLOB", "00ff"),
        ("1.50::DECIMAL(9,2)", "1.50"),
        ("TIMESTAMP '2026-01-02 03:04:05'", "2026-01-02 03:04:05"),
        ("DATE '2026-01-02'", "2026-01-02"),
        ("INTERVAL 90 SECOND", 90.0),
        ("[1, NULL, 3]", [1, None, 3]),
        ("{'a': [1], 'b': 'x'}", {"a": [1], "b": "x"}),
        ("MAP {1: 'x'}", {"1": "x"}),
        ("'00000000-0000-0000-0000-000000000001'::UUID", "00000000-0000-0000-0000-000000000001"),
    ],
)
def test_every_value_is_one_that_json_can_say(archive: Archive, sql: str, value: Any) -> None:
    assert rows(archive, f"SELECT {sql}") == [[value]]


@pytest.mark.parametrize(("sql", "words"), [*FILES, *WRITES], ids=lambda value: str(value)[:60])
def test_no_statement_reads_a_file_or_changes_anything(
    tmp_path: Path, archive: Archive, sql: str, words: str | None
) -> None:
    secret, out = tmp_path / "secret.csv", tmp_path / "out"
    secret.write_text("a\nhidden\n")
    before = archive.log()
    python_list = [1]  # a name that DuckDB's Python client would otherwise take for a table
    sql = sql.replace("{secret}", str(secret)).replace("{out}", str(out))
    if words is None:
        assert rows(archive, sql) is not None
    else:
        with pytest.raises(QueryError, match=words) as raised:
            archive.query(sql, 10)
        assert raised.value.code == "invalid"
        assert "hidden" not in str(raised.value)
    assert python_list and archive.log() == before and not out.exists()
    assert rows(archive, "SELECT count(*) FROM entries") == [[5]]
    assert {row[0] for row in rows(archive, "SHOW TABLES")} >= {"entries", "tool_calls"}


@pytest.mark.parametrize(("sql", "words"), GREEDY, ids=lambda value: str(value)[:60])
def test_what_needs_too_much_memory_ends_and_the_archive_goes_on(
    data: Path, own: Archive, monkeypatch: pytest.MonkeyPatch, sql: str, words: str
) -> None:
    monkeypatch.setattr(module, "DEADLINE_S", HANG_S)
    with pytest.raises(QueryError, match=words) as raised:
        own.query(sql, 10)
    assert raised.value.code == "invalid"
    append(data, Draft("message.dead", {}))
    assert load_all(own) == 6
    assert own.rebuilt is None
    assert rows(own, "SELECT count(*) FROM entries") == [[6]]


@pytest.mark.parametrize(("sql", "words"), ENDLESS, ids=lambda value: str(value)[:60])
def test_what_takes_too_long_is_stopped_while_the_archive_follows(
    data: Path, own: Archive, monkeypatch: pytest.MonkeyPatch, sql: str, words: str
) -> None:
    seen = threading.Event()

    class Waiting(module._Deadline):
        """Begins to count when all has been seen that happens meanwhile."""

        def _watch(self) -> None:
            seen.wait(HANG_S)
            super()._watch()

    monkeypatch.setattr(module, "_Deadline", Waiting)
    monkeypatch.setattr(module, "DEADLINE_S", 0.1)
    append(data, Draft("message.dead", {}))
    found: list[QueryError] = []

    def ask() -> None:
        try:
            own.query(sql, 10)
        except QueryError as error:
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while not own._queries._one.locked():
        time.sleep(0.001)
    try:
        with pytest.raises(QueryError, match="another query is running") as busy:
            own.query("SELECT 1", 1)
        assert busy.value.code == "busy"
        assert load_all(own) == 6
        assert thread.is_alive()
    finally:
        seen.set()
        thread.join()
    assert [(error.code, words in str(error)) for error in found] == [("timeout", True)]
    assert rows(own, "SELECT count(*) FROM entries") == [[6]]


def test_rows_that_never_end_are_cut_at_the_limit(archive: Archive) -> None:
    sql = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t"
    answer = archive.query(sql, 3)
    assert (answer.rows, bool(answer.cut)) == ([[1], [2], [3]], True)


def test_an_answer_is_cut_where_it_would_be_too_large(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 1000)
    answer = archive.query("SELECT repeat('x', 400) FROM range(9)", 100)
    assert len(answer.rows) == 2
    assert answer.cut == "only 2 rows: more would exceed 1000 bytes"
    assert archive.query("SELECT repeat('x', 4000)", 100).rows == []


def test_a_statement_that_is_too_long_is_refused(archive: Archive) -> None:
    with pytest.raises(QueryError, match="over 65536 bytes"):
        archive.query("SELECT 1 -- " + "x" * 2**16, 1)


def test_an_archive_that_is_built_again_stops_the_query_first(
    own: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_S", HANG_S)
    monkeypatch.setattr(module, "DEADLINE_S", HANG_S)
    ended: list[str] = []

    def ask() -> None:
        try:
            own.query("SELECT sum(i) FROM range(100000000000) t(i)", 1)
        except QueryError as error:
            ended.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    while not own._queries._one.locked():
        time.sleep(0.001)
    own.rebuild("asked for")
    thread.join()
    assert len(ended) == 1
    assert own.size == 0
    assert rows(own, "SELECT count(*) FROM entries") == [[0]]
    assert load_all(own) == 5


def test_a_closed_archive_answers_no_query(own: Archive) -> None:
    own.close()
    with pytest.raises(QueryError, match="not open") as raised:
        own.query("SELECT 1", 1)
    assert raised.value.code == "unavailable"
