from __future__ import annotations

import asyncio
import errno
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from chain.archive.archive import Archive, ArchiveUnavailable
from chain.archive.query import DEADLINE_S, Answer
from chain.disk import Disk
from chain.keys.keys import create_keys
from chain.ledger.ledger import Draft, Ledger, StateChange
from chain.vectors.document import Document, encode_document
from kernel.helper.helper import Helper, HelperCommand, HelperLost, HelperRefused
from kernel.memory.requests import LogQuestion, SearchQuestion, SqlAnswer, SqlQuestion, SqlRows
from kernel.shapes import read, told
from tests.chain.twins.hostile_sql import UNSTOPPABLE
from tests.integration.live_node import until
from tests.patience import HANG_S
from weftos.archive.__main__ import SQL_ASKED, STUCK_STATUS, ArchiveService
from weftos.archive.embedder import Embedder
from weftos.archive.memory_index import MemoryIndex

TIMEOUT_S = HANG_S


def node_with_archive(data: Path, scenario: Callable[[Ledger, Helper], Awaitable[None]]) -> int | None:
    """Run ``scenario`` with an open ledger and the real archive process; its exit status."""

    async def run() -> int | None:
        clock = itertools.count(1_700_000_000_000_000)
        keys = create_keys(data / "keys")
        ledger = Ledger.open(data, keys, now_us=lambda: next(clock))
        ledger.start(asyncio.get_running_loop())
        died: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        argv = [sys.executable, "-P", "-m", "weftos.archive", "--data", str(data)]
        environment = {"PATH": os.environ.get("PATH", "")}
        command = HelperCommand("archive", argv, environment, data, data / "archive.log")
        helper = Helper(command, 7, lambda op, args: None, died.set_result)
        await helper.start()
        try:
            await asyncio.wait_for(scenario(ledger, helper), TIMEOUT_S)
        finally:
            await helper.stop()
            await ledger.close()
        return await asyncio.wait_for(died, TIMEOUT_S)

    return asyncio.run(run())


async def append(ledger: Ledger, count: int) -> None:
    body = {"id": "m", "to": "/user/a", "why": "w"}
    for _ in range(count):
        ticket = ledger.commit([Draft("message.dead", body, pid=3)], durable=True)
        await ticket.durable()


def test_the_process_answers_with_what_is_durable_at_that_moment(
    tmp_path: Path,
) -> None:
    async def scenario(ledger: Ledger, helper: Helper) -> None:
        for total in (2, 5):
            await append(ledger, total - ledger.size)
            helper.notify("durable", {"size": ledger.size})
            answer = await helper.request("log", told(LogQuestion(3, 3)))
            assert answer["loaded"] == total
            assert [row["seq"] for row in answer["rows"]] == list(range(max(0, total - 3), total))
            assert answer["rows"][-1]["body"]["to"] == "/user/a"
        assert await helper.request("status", {}) == {"entries": 5, "rebuilt": None, "fault": None}

    node_with_archive(tmp_path, scenario)


def test_it_loads_on_its_own_when_told_that_more_is_durable(tmp_path: Path) -> None:
    async def scenario(ledger: Ledger, helper: Helper) -> None:
        await append(ledger, 3)
        helper.notify("durable", {"size": 3})
        while (await helper.request("status", {}))["entries"] < 3:
            await asyncio.sleep(0)

    node_with_archive(tmp_path, scenario)


WRONG_REQUESTS: list[tuple[str, dict[str, Any], str]] = [
    ("drop", {}, "knows no operation 'drop'"),
    ("log", {**told(LogQuestion()), "pid": "1"}, "pid is str, not int"),
    ("log", {**told(LogQuestion()), "limit": True}, "limit is bool, not int"),
    ("log", {**told(LogQuestion()), "kind": 5}, "kind is int, not str"),
    ("log", {**told(LogQuestion()), "more": 1}, "exactly the fields limit, pid, kind, before"),
    ("sql", {"limit": 1}, "exactly the fields sql, limit"),
    ("sql", {"sql": "SELECT 1", "limit": "x"}, "limit is str, not int"),
    ("sql", {"sql": b"SELECT 1", "limit": 1}, "sql is bytes, not str"),
    ("status", {"more": 1}, "exactly the fields"),
]


def test_a_wrong_request_is_refused_and_the_process_lives_on(tmp_path: Path) -> None:
    async def scenario(ledger: Ledger, helper: Helper) -> None:
        for op, args, words in WRONG_REQUESTS:
            with pytest.raises(HelperRefused, match=words):
                await helper.request(op, args)
            assert (await helper.request("log", told(LogQuestion())))["rows"] == []

    node_with_archive(tmp_path, scenario)


def test_a_damaged_journal_is_reported_and_the_process_lives_on(tmp_path: Path) -> None:
    async def scenario(ledger: Ledger, helper: Helper) -> None:
        await append(ledger, 3)
        segment = sorted((tmp_path / "journal").iterdir())[0]
        content = bytearray(segment.read_bytes())
        content[300] ^= 1
        segment.write_bytes(content)
        with pytest.raises(HelperRefused, match="journal damaged at"):
            await helper.request("log", told(LogQuestion()))
        assert (await helper.request("status", {}))["entries"] == 0
        content[300] ^= 1
        segment.write_bytes(content)
        assert (await helper.request("log", told(LogQuestion())))["loaded"] == 3

    node_with_archive(tmp_path, scenario)


def test_sql_is_asked_over_what_is_durable_at_that_moment(tmp_path: Path) -> None:
    async def scenario(ledger: Ledger, helper: Helper) -> None:
        for total in (2, 5):
            await append(ledger, total - ledger.size)
            helper.notify("durable", {"size": ledger.size})
            answer = await helper.request("sql", told(SqlQuestion("SELECT count(*) AS n FROM entries")))
            assert read(SqlAnswer, answer).found == SqlRows([["n", "BIGINT"]], [[total]], "", total)
        assert (await helper.request("sql", told(SqlQuestion("FROM entries", 2))))["found"]["cut"]

    node_with_archive(tmp_path, scenario)


HOSTILE_SQL = [
    ("DROP TABLE entries", "invalid", "a statement of type DROP is not allowed here"),
    ("SELECT * FROM read_text('/etc/passwd')", "invalid", "file system operations are disabled"),
    ("SELECT range(1000000000)", "invalid", "Out of Memory"),
    ("SELECT sum(i) FROM range(100000000000) t(i)", "timeout", "took longer than 5 s"),
]


def test_hostile_sql_gets_its_answer_in_words_and_the_process_follows_meanwhile(tmp_path: Path) -> None:
    async def scenario(ledger: Ledger, helper: Helper) -> None:
        for number, (sql, code, words) in enumerate(HOSTILE_SQL, 1):
            asked_s = time.monotonic()
            asked = helper.request("sql", told(SqlQuestion(sql)))
            await append(ledger, 3)
            helper.notify("durable", {"size": 3 * number})
            assert len((await helper.request("log", told(LogQuestion())))["rows"]) == 3 * number
            in_time = time.monotonic() < asked_s + DEADLINE_S  # else a slow machine, which shows nothing
            assert code != "timeout" or not asked.done() or not in_time
            error = (await asked)["fault"]
            assert (error["code"], words in error["message"]) == (code, True)
            counted = await helper.request("sql", told(SqlQuestion("SELECT count(*) FROM entries")))
            assert counted["found"]["rows"] == [[3 * number]]
            assert (await helper.request("status", {}))["rebuilt"] is None

    node_with_archive(tmp_path, scenario)


def test_what_a_query_left_no_memory_for_is_done_when_that_is_over(tmp_path: Path) -> None:
    async def run() -> None:
        archive = Archive(tmp_path / "audit.duckdb", tmp_path)
        service = ArchiveService(archive, tmp_path / "vectors", Embedder(), lambda op, args: None)
        query: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        tries: list[int] = []

        def work() -> str:
            tries.append(1)
            if not query.done():
                raise ArchiveUnavailable("out of memory")
            return "done"

        with pytest.raises(ArchiveUnavailable):  # nobody's query is to blame
            await service._in_thread(work)
        service._queries.add(query)
        asked = asyncio.create_task(service._in_thread(work))
        async with asyncio.timeout(HANG_S):
            while len(tries) < 2:
                await asyncio.sleep(0.001)
            query.set_result(None)
            assert await asked == "done"
        assert len(tries) == 3

    asyncio.run(run())


def test_queries_begin_one_behind_the_other_and_few_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        archive = Archive(tmp_path / "audit.duckdb", tmp_path)
        service = ArchiveService(archive, tmp_path / "vectors", Embedder(), lambda op, args: None)
        go_on, begun = threading.Event(), threading.Semaphore(0)

        def query(sql: str, limit: int) -> Answer:
            begun.release()
            go_on.wait(HANG_S)
            return Answer([], [], sql)

        monkeypatch.setattr(archive, "query", query)
        asked = [
            asyncio.create_task(service.handle("sql", told(SqlQuestion(f"{n}")))) for n in range(SQL_ASKED)
        ]
        await asyncio.to_thread(begun.acquire)
        refused = await service.handle("sql", told(SqlQuestion("one more")))
        assert refused["fault"]["code"] == "busy" and "ask again later" in refused["fault"]["message"]
        assert len(service._queries) == 1
        go_on.set()
        assert [answer["found"]["cut"] for answer in await asyncio.gather(*asked)] == [
            f"{n}" for n in range(SQL_ASKED)
        ]
        assert (await service.handle("sql", told(SqlQuestion("again"))))["found"]["cut"] == "again"

    asyncio.run(run())


@pytest.mark.slow
def test_a_statement_that_cannot_be_stopped_ends_the_process_and_loses_nothing(tmp_path: Path) -> None:
    async def scenario(ledger: Ledger, helper: Helper) -> None:
        await append(ledger, 3)
        error = (await helper.request("sql", told(SqlQuestion(UNSTOPPABLE))))["fault"]
        assert (error["code"], error["message"]) == (
            "timeout", "the query could not be stopped in time; the archive starts again")  # fmt: skip
        while helper.alive:
            await asyncio.sleep(0.01)
        again = Helper(helper.command, 7, lambda op, args: None, lambda status: None)
        await again.start()
        counted = await again.request("sql", told(SqlQuestion("SELECT count(*) FROM entries")))
        assert counted["found"]["rows"] == [[3]]
        assert (await again.request("status", {}))["rebuilt"] is None
        await again.stop()

    assert node_with_archive(tmp_path, scenario) == STUCK_STATUS


def test_a_rebuild_leaves_no_byte_of_what_the_files_held(tmp_path: Path) -> None:
    document = Document("d2", "/user/a", "own", "", "the zanzibarwren nests at noon", 2, 1)

    def holding() -> list[str]:
        files = [path for path in (tmp_path / "archive").rglob("*") if path.is_file()]
        return [path.name for path in files if b"zanzibarwren" in path.read_bytes()]

    async def scenario(ledger: Ledger, helper: Helper) -> None:
        await append(ledger, 2)
        body = {"id": "d2", "to": "/user/a", "why": "zanzibarwren"}
        change = StateChange("doc", "d2", encode_document(document))
        await ledger.commit([Draft("message.dead", body), change], durable=True).durable()
        helper.notify("durable", {"size": ledger.size})
        found = await helper.request("search", told(SearchQuestion("zanzibarwren")))
        assert [hit["id"] for hit in found["results"]] == ["d2"]
        vectors = (tmp_path / "archive" / "vectors").glob("*/kept.vec")
        assert holding() and any(any(path.read_bytes()[64:]) for path in vectors)
        journal = sorted((tmp_path / "journal").iterdir())
        kept = [path.read_bytes() for path in journal]
        for path in journal:
            path.write_bytes(b"")
        helper.notify("durable", {"size": 0})
        assert await helper.request("rebuild", {}) == {}
        assert holding() == []
        assert not any(any(path.read_bytes()[64:]) for path in (tmp_path / "archive").rglob("kept.vec"))
        for path, content in zip(journal, kept, strict=True):
            path.write_bytes(content)
        helper.notify("durable", {"size": 3})
        found = await helper.request("search", told(SearchQuestion("zanzibarwren")))
        assert [hit["id"] for hit in found["results"]] == ["d2"]
        status = await helper.request("status", {})
        assert (status["entries"], status["rebuilt"]) == (3, "it was asked for")

    node_with_archive(tmp_path, scenario)


@pytest.mark.parametrize(("owner", "name"), [(Disk, "sync_directory"), (MemoryIndex, "open")])
def test_a_rebuild_that_failed_is_done_when_it_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    sound = getattr(owner, name)

    def failing(self: object, *values: Path) -> None:
        if values in ((), (tmp_path / "archive",)):
            monkeypatch.setattr(owner, name, sound)
            raise OSError(errno.EIO, "Input/output error")
        sound(self, *values)

    async def main() -> None:
        ledger = Ledger.open(tmp_path, create_keys(tmp_path / "keys"), now_us=lambda: 1_700_000_000_000_000)
        ledger.start(asyncio.get_running_loop())
        (tmp_path / "archive").mkdir()
        archive = Archive(tmp_path / "archive/audit.duckdb", tmp_path)
        service = ArchiveService(archive, tmp_path / "archive/vectors", Embedder(), lambda op, args: None)
        await service.open()
        monkeypatch.setattr(owner, name, failing)
        with pytest.raises(OSError, match="Input/output error"):
            await service.handle("rebuild", {})
        assert await service.handle("rebuild", {}) == {}
        assert (await service.handle("search", told(SearchQuestion("x"))))["results"] == []
        assert archive.rebuilt == "it was asked for"
        await service.close()
        await ledger.close()

    asyncio.run(main())


def test_killed_in_the_middle_it_finds_its_place_again(tmp_path: Path) -> None:
    async def scenario(ledger: Ledger, helper: Helper) -> None:
        await append(ledger, 50)
        asked = helper.request("log", told(LogQuestion()))
        os.kill(helper.os_pid, signal.SIGKILL)
        with pytest.raises(HelperLost):
            await asked
        again = Helper(helper.command, 7, lambda op, args: None, lambda status: None)
        await again.start()
        assert (await again.request("log", told(LogQuestion(1000))))["loaded"] == 50
        await again.stop()

    assert node_with_archive(tmp_path, scenario) == -signal.SIGKILL


def test_at_the_end_of_its_link_it_ends_cleanly(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    argv = [sys.executable, "-P", "-m", "weftos.archive", "--data", str(tmp_path), "--boot", "7"]
    with subprocess.Popen([*argv, "--link-fd", str(theirs.fileno())], pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        ours.close()
        assert process.wait(TIMEOUT_S) == 0
    assert sorted(path.name for path in (tmp_path / "archive").iterdir()) == ["audit.duckdb", "vectors"]


def test_without_a_place_for_its_file_it_exits_and_says_why(tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("in the way")

    async def scenario(ledger: Ledger, helper: Helper) -> None:
        with pytest.raises(HelperLost):
            await helper.request("status", {})

    assert node_with_archive(tmp_path, scenario) == 1
    log = tmp_path / "archive.log"
    until(lambda: "archive: [Errno 17] File exists" in log.read_text(), "its log says why")
