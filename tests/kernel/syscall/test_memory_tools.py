"""Memory as agents and people use it: written in the journal, searched through a twin of the archive, kept apart."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import kernel.process.slots.slot_writer
from chain.disk import Disk
from chain.entry.reader import StateRecord, read_records
from kernel.bounds import Bounds
from kernel.errors import Busy, Invalid, NotFound, TimedOut, Unavailable
from kernel.memory.memory import document_text, hits_text
from kernel.memory.requests import FoundHit
from kernel.operations.archive import Archive
from kernel.operations.memory import Document, Hit, Memory
from kernel.operations.processes import Processes
from kernel.shapes import told
from kernel.state.state import State
from kernel.values import canonical
from tests.kernel.control.test_control import control_of
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.disks import FullDisk
from tests.kernel.twins.kernel_twin import MEMORY, Delivery, Twin
from tests.patience import HANG_S

HIT = told(FoundHit("d9", "", "x", 1, "/user/ada", "shared", 1, (), False, 9.0, {}))
QUICK = replace(Bounds(), memory_timeout_s=0.05)


async def at_work(twin: Twin, name: str, parent: str = "/user") -> Delivery:
    await twin.spawn(name, parent, tools=MEMORY)
    await twin.send(f"{parent}/{name}")
    return await twin.delivery()


async def search(twin: Twin, at: Delivery, query: str, round_: int) -> list[str]:
    """Texts that a process finds."""
    outcome = await twin.call_tool(at, "memory_search", {"query": query}, round_)
    assert outcome["status"] == "ok", outcome
    return [hit["text"] for hit in json.loads(outcome["text"])]


def test_what_an_agent_writes_it_finds(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        ada = await at_work(twin, "ada")
        outcome = await twin.call_tool(ada, "memory_write", {"text": "the gate code is 4711"})
        written = (await twin.entries("memory.written"))[0]
        assert outcome == {
            "status": "ok",
            "text": f"remembered as d{written.entry.seq}",
            "truncated": False,
        }
        assert await search(twin, ada, "gate code", 1) == ["the gate code is 4711"]
        outcome = await twin.call_tool(ada, "knowledge_base", {"query": "gate", "k": 1}, 2)
        hit = json.loads(outcome["text"])[0]
        assert (hit["seq"], hit["owner"], hit["scope"]) == (written.entry.seq, "/user/ada", "own")
        assert hit["parts"]["bm25"]["rank"] == 1
        outcome = await twin.call_tool(ada, "memory_read", {"id": hit["id"]}, 3)
        assert json.loads(outcome["text"])["text"] == "the gate code is 4711"

    on_twin(tmp_path, body)


def test_writing_is_one_unit_with_its_outcome_and_the_text_stands_beside_the_entry(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        ada = await at_work(twin, "ada")
        text = "Alpha is open.\nUntil six."
        await twin.call_tool(ada, "memory_write", {"text": text, "shared": True})
        intent, written, outcome = await twin.entries("tool.intent", "memory.written", "tool.outcome")
        assert written.entry.cause == outcome.entry.cause == intent.entry.seq
        assert intent.group == written.group == outcome.group
        assert written.body["title"] == "Alpha is open."
        assert (written.body["owner"], written.body["scope"]) == ("/user/ada", "shared")
        assert written.body["bytes"] == len(text)
        assert text not in str(written.body)
        states = [
            record
            for record in read_records(twin.directory / "journal", Disk())
            if isinstance(record, StateRecord) and record.table == "doc"
        ]
        assert [record.key for record in states] == [written.body["id"]]
        assert b"Until six" in (states[0].value or b"")

    on_twin(tmp_path, body)


def test_an_agent_sees_what_is_shared_its_own_and_what_is_above_it_and_nothing_else(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        boss = await at_work(twin, "boss")
        worker = await at_work(twin, "worker", "/user/boss")
        bob = await at_work(twin, "bob")
        for at, text, shared in (
            (boss, "red plan of boss", False),
            (worker, "red note of worker", False),
            (bob, "red secret of bob", False),
            (bob, "red news of bob", True),
        ):
            await twin.call_tool(at, "memory_write", {"text": text, "shared": shared}, len(text))
        seen = {at.pid: sorted(await search(twin, at, "red", 90)) for at in (boss, worker, bob)}
        assert seen[boss.pid] == ["red news of bob", "red plan of boss"]
        assert seen[worker.pid] == ["red news of bob", "red note of worker", "red plan of boss"]
        assert seen[bob.pid] == ["red news of bob", "red secret of bob"]
        everything = await twin.kernel.memory.search("red", 10, None)
        assert len(everything["results"]) == 4

    on_twin(tmp_path, body)


def test_what_an_index_shows_too_much_the_node_withholds(tmp_path: Path) -> None:
    """A foreign or stale index cannot show what is another's, or forgotten, or was never written."""

    async def body(twin: Twin) -> None:
        bob = await at_work(twin, "bob")
        ada = await at_work(twin, "ada")
        await twin.call_tool(bob, "memory_write", {"text": "blue secret of bob"})
        ident = (await twin.entries("memory.written"))[0].body["id"]
        twin.archive.extra = [{**HIT, "id": ident, "text": "blue secret of bob"}, HIT]
        assert await search(twin, ada, "blue", 1) == []
        denied = await twin.call_tool(ada, "memory_read", {"id": ident}, 2)
        unknown = await twin.call_tool(ada, "memory_read", {"id": "d9"}, 3)
        assert (denied["status"], denied["text"]) == ("error", f"no document '{ident}' in memory")
        assert unknown["text"] == "no document 'd9' in memory"
        assert [op for op, _ in twin.archive.asked] == ["search"]

    on_twin(tmp_path, body)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text": 7}, "results is text is int, not str"),
        ({"cut": None}, "results is cut is NoneType, not bool"),
        ({"tags": [1]}, "results is tags is int, not str"),
        ({"more": 1}, "results is not a map with exactly the fields"),
    ],
)
def test_an_answer_of_the_archive_that_is_none_is_refused_by_its_field(
    tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    async def body(twin: Twin) -> None:
        ada = await at_work(twin, "ada")
        twin.archive.extra = [{**HIT, **change}]
        outcome = await twin.call_tool(ada, "memory_search", {"query": "x"})
        assert outcome["status"] == "error"
        assert f"the archive's answer to search is none: {words}" in outcome["text"]

    on_twin(tmp_path, body)


def test_an_archive_that_is_absent_is_an_outcome_that_says_so(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        ada = await at_work(twin, "ada")
        twin.archive.down = True
        outcome = await twin.call_tool(ada, "memory_search", {"query": "x"})
        assert outcome["status"] == "error"
        assert "memory cannot be searched now: archive is not running" in outcome["text"]
        written = await twin.call_tool(ada, "memory_write", {"text": "written all the same"}, 1)
        assert written["status"] == "ok"
        twin.archive.down = False
        assert await search(twin, ada, "written", 2) == ["written all the same"]

    on_twin(tmp_path, body)


def test_an_archive_that_does_not_answer_is_a_timeout(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        ada = await at_work(twin, "ada")
        twin.archive.hold.clear()
        outcome = await twin.call_tool(ada, "memory_search", {"query": "x"})
        assert outcome["status"] == "timeout"
        assert "within 0.05 s" in outcome["text"]

    on_twin(tmp_path, body, bounds=QUICK)


def test_a_search_is_recorded_like_every_call_and_its_intent_waits_for_nobody(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        ada = await at_work(twin, "ada")
        await search(twin, ada, "anything", 0)
        found = await twin.entries("tool.proposed", "tool.verdict", "tool.intent", "tool.outcome")
        assert [record.entry.kind for record in found] == [
            "tool.proposed",
            "tool.verdict",
            "tool.intent",
            "tool.outcome",
        ]
        assert found[2].body["effects"] == "none"
        assert found[3].entry.cause == found[2].entry.seq

    on_twin(tmp_path, body)


def test_a_resumed_turn_gets_the_search_it_got_before(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        ada = await at_work(twin, "ada")
        await twin.call_tool(ada, "memory_write", {"text": "green one"})
        before = await twin.call_tool(ada, "memory_search", {"query": "green"}, 1)
        await control_of(twin)(Memory.add, "green two")
        twin.crash(ada)
        again = await twin.delivery()
        await twin.call_tool(again, "memory_write", {"text": "green one"})
        assert await twin.call_tool(again, "memory_search", {"query": "green"}, 1) == before
        assert len(await twin.entries("memory.written")) == 2
        assert [op for op, _ in twin.archive.asked] == ["search"]

    on_twin(tmp_path, body)


def test_a_search_that_the_node_stopped_in_is_done_again_after_the_next_boot(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        ada = await at_work(twin, "ada")
        await twin.call_tool(ada, "memory_write", {"text": "the lake is deep"})
        twin.archive.hold.clear()
        twin.ask_tool(ada, "memory_search", {"query": "lake"}, 1)
        async with asyncio.timeout(HANG_S):
            while not twin.archive.asked:
                await asyncio.sleep(0)

    async def after(twin: Twin) -> None:
        at = await twin.delivery()
        await twin.call_tool(at, "memory_write", {"text": "the lake is deep"})
        assert await search(twin, at, "lake", 1) == ["the lake is deep"]
        assert len(twin.kernel.state.documents) == 1
        assert not twin.kernel.state.doubts()

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("memory_write", {"text": ""}, "text"),
        ("memory_write", {"text": " \n"}, "without text"),
        ("memory_write", {"text": "x", "title": "t" * 300}, "title"),
        ("memory_write", {"text": "x", "owner": "/user/bob"}, "owner"),
        ("memory_write", {"text": "é" * 130_000}, "262144"),
        ("memory_search", {"query": ""}, "query"),
        ("memory_search", {"query": "  "}, "empty"),
        ("memory_search", {"query": "é" * 3000}, "query of 6000 bytes, limit 4096"),
        ("memory_search", {"query": "x" * 5000}, "query"),
        ("memory_search", {"query": "x", "k": 0}, "k"),
        ("memory_search", {"query": "x", "k": 51}, "k"),
        ("memory_read", {"id": "x" * 100}, "id"),
    ],
)
def test_what_is_too_large_or_empty_is_refused_by_name(
    tmp_path: Path, name: str, arguments: dict[str, Any], words: str
) -> None:
    async def body(twin: Twin) -> None:
        ada = await at_work(twin, "ada")
        outcome = await twin.call_tool(ada, name, arguments)
        assert outcome["status"] == "error"
        assert words in outcome["text"]
        assert not await twin.entries("memory.written")
        assert not twin.archive.asked

    on_twin(tmp_path, body)


def test_an_owner_and_the_node_have_a_bound(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control = control_of(twin)
        first = await control(Memory.add, "text 1")
        second = await control(Memory.add, "text 2")
        with pytest.raises(Busy, match="3 documents of operator, limit 2; forget some first"):
            await control(Memory.add, "text 3")
        await control(Memory.add, "text 3", scope="own", owner="/user/ada")
        with pytest.raises(Busy, match="documents of this node, limit 3"):
            await control(Memory.add, "text 4", scope="own", owner="/user/ada")
        await control(Memory.forget, first["id"])
        await control(Memory.add, "text 4", scope="own", owner="/user/ada")
        await control(Memory.forget, second["id"])
        with pytest.raises(Busy, match="bytes of all documents"):
            await control(Memory.add, "x" * 90, scope="own", owner="/user/bob")

    bounds = replace(Bounds(), documents_per_owner=2, documents=3, documents_bytes=100)
    on_twin(tmp_path, body, bounds=bounds)


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (Bounds(documents=20), "19 documents of this node, limit 20 less 2 that are kept for persons"),
        (
            Bounds(documents_bytes=200),
            "190 bytes of all documents, limit 200 less 20 that are kept for persons",
        ),
    ],
)
def test_what_agents_remember_leaves_room_for_what_a_person_adds(
    tmp_path: Path, bounds: Bounds, said: str
) -> None:
    async def fill(twin: Twin) -> None:
        ada = await at_work(twin, "ada")
        for round_ in range(18):
            assert (await twin.call_tool(ada, "memory_write", {"text": "x" * 10}, round_))["status"] == "ok"

    async def body(twin: Twin) -> None:  # in another boot: what is held decides, not what was counted
        ada = await twin.delivery()
        outcome = await twin.call_tool(ada, "memory_write", {"text": "y" * 10}, 18)
        assert outcome["status"] == "error" and said in outcome["text"]
        for text in ("a person's", "and one mor"[:10]):
            await control_of(twin)(Memory.add, text)
        with pytest.raises(Busy, match="limit"):
            await control_of(twin)(Memory.add, "too many..")

    on_twin(tmp_path, fill, bounds=bounds)
    on_twin(tmp_path, body, bounds=bounds)


def test_a_person_adds_finds_shows_and_forgets(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        memory = control_of(twin)
        added = await memory(Memory.add, "the ferry leaves at nine", title="Ferry")
        ident = added["id"]
        assert added == {
            "id": ident,
            "seq": int(ident[1:]),
            "owner": "operator",
            "scope": "shared",
            "bytes": 24,
        }
        found = await memory(Memory.search, "ferry", k=5, mode="hybrid")
        assert [hit["id"] for hit in found["results"]] == [ident]
        assert (await memory(Memory.show, ident))["title"] == "Ferry"
        stats = await memory(Memory.stats)
        assert (stats["documents"], stats["bytes"], stats["index"]["documents"]) == (1, 24, 1)
        assert stats["owners"] == [{"owner": "operator", "documents": 1, "bytes": 24}]
        ada = await at_work(twin, "ada")
        assert await search(twin, ada, "ferry", 0) == ["the ferry leaves at nine"]
        assert (await memory(Memory.forget, ident))["id"] == ident
        assert await search(twin, ada, "ferry", 1) == []
        with pytest.raises(NotFound, match=ident):
            await memory(Memory.show, ident)
        with pytest.raises(NotFound, match=ident):
            await memory(Memory.forget, ident)
        assert await memory(Memory.reindex) == {"documents": 0}

    on_twin(tmp_path, body)


def test_who_typed_what_is_recorded_and_the_text_is_not_in_the_command(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        memory = control_of(twin)
        ident = (await memory(Memory.add, "a private word", scope="own", owner="/user/ada"))["id"]
        await memory(Memory.forget, ident)
        await memory(Memory.reindex)
        commands = await twin.entries("operator.command")
        assert [record.body["operation"] for record in commands] == [
            "memory_add",
            "memory_forget",
            "memory_reindex",
        ]
        arguments = json.loads(commands[0].body["arguments"])
        assert (arguments["text"], arguments["owner"]) == ("14 characters", "/user/ada")
        written, forgotten = await twin.entries("memory.written", "memory.forgotten")
        assert (written.entry.cause, forgotten.entry.cause) == tuple(r.entry.seq for r in commands[:2])
        assert forgotten.body == {"id": ident, "by": "operator:1000"}

    on_twin(tmp_path, body)


def test_a_person_is_refused_in_words_and_nothing_is_recorded(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        memory = control_of(twin)
        wrong: tuple[tuple[str, Callable[[], Awaitable[object]]], ...] = (
            ("262145 bytes, limit 262144", lambda: memory(Memory.add, "x" * 262_145)),
            ("without text", lambda: memory(Memory.add, "\n")),
            ("scope is 'mine'", lambda: memory(Memory.add, "x", scope="mine")),
            ("does not begin with '/'", lambda: memory(Memory.add, "x", scope="own", owner="ada")),
            ("k is 0", lambda: memory(Memory.search, "x", k=0, mode="hybrid")),
        )
        for words, call in wrong:
            with pytest.raises(Invalid, match=words):
                await call()
        assert not await twin.entries("operator.command", "memory.written")

    on_twin(tmp_path, body)


def test_without_an_archive_a_person_hears_it_and_still_sees_the_counts(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        memory = control_of(twin)
        ident = (await memory(Memory.add, "still here"))["id"]
        twin.archive.down = True
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: memory(Memory.search, "x", k=1, mode="bm25"),
            lambda: memory(Memory.show, ident),
            lambda: memory(Memory.reindex),
        ]
        for call in calls:
            with pytest.raises(Unavailable, match="memory cannot be searched now"):
                await call()
        with pytest.raises(Unavailable, match="archive is not running"):
            await memory(Archive.rebuild)
        commands = await twin.entries("operator.command")
        assert [one.body["operation"] for one in commands] == ["memory_add"], (
            "what was refused is not recorded"
        )
        stats = await memory(Memory.stats)
        assert stats["documents"] == 1
        assert "archive is not running" in stats["index"]["fault"]
        twin.archive.down = False
        twin.archive.hold.clear()
        with pytest.raises(TimedOut, match=r"within 0\.05 s"):
            await memory(Memory.search, "x", k=1, mode="bm25")

    on_twin(tmp_path, body, bounds=QUICK)


def test_every_agent_is_told_what_it_may_recall_unless_its_spawn_says_otherwise(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada", config={"model": "m"})
        await twin.spawn("bob", config={"recall_tokens": 5})
        configs = [placement.config for placement in twin.cells.placed]
        assert configs == [{"recall_tokens": 700, "model": "m"}, {"recall_tokens": 5}]

    on_twin(tmp_path, body)


@pytest.mark.parametrize(("count", "at_once"), [(1, 100), (40, 1)])
def test_what_a_process_wrote_for_itself_goes_with_it_and_no_other_of_its_name_has_it(
    tmp_path: Path, count: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel.process.slots.slot_writer, "FORGOTTEN_AT_ONCE", at_once)

    async def body(twin: Twin) -> None:
        control, documents = control_of(twin), twin.kernel.state.documents
        await control(Memory.add, "the operator opens", owner="/user/ada", scope="own")
        ada, bob = await at_work(twin, "ada"), await at_work(twin, "bob")
        await twin.call_tool(bob, "memory_write", {"text": "the door opens"})
        for number in range(count):
            await twin.call_tool(ada, "memory_write", {"text": f"the safe opens {number}"}, number)
        await twin.call_tool(ada, "memory_write", {"text": "the gate opens", "shared": True}, count)
        twin.finish(ada)
        await twin.ledger.barrier()
        own = documents.written_for_itself("/user/ada", 2 * count)
        assert len(own) == count
        await control(Processes.stop, "ada")
        assert await twin.kernel.processes.remove("/user/ada", False) == 1
        assert "/user/ada" not in twin.kernel.state.slots
        assert documents.count_of("/user/ada") == 2 and len(documents) == 3
        forgotten = await twin.entries("memory.forgotten")
        assert [entry.body for entry in forgotten] == [{"id": ident, "by": "node"} for ident in own]
        again = await at_work(twin, "ada")
        assert sorted(await search(twin, again, "opens", 0)) == ["the gate opens", "the operator opens"]

    on_twin(tmp_path, body)


def test_a_name_whose_memory_is_to_be_forgotten_waits_for_the_disk(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        state, slots = twin.kernel.state, twin.kernel.processes.slots
        await twin.spawn("bob")
        ada = await at_work(twin, "ada")
        await twin.call_tool(ada, "memory_write", {"text": "the safe opens"})
        twin.finish(ada)
        await control_of(twin)(Processes.stop, "ada")
        disk.full = True
        sending = asyncio.create_task(twin.send("bob"))
        await until(lambda: twin.ledger.read_only is not None)
        slots.forget("/user/ada", "the test said so")
        slots.forget("/user/ada", "and again")
        disk.full = False
        await until(lambda: "/user/ada" not in state.slots)
        assert not len(state.documents) and len(await twin.entries("memory.forgotten")) == 1
        await asyncio.gather(sending, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk)


def test_the_facts_come_back_with_the_journal(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        memory = control_of(twin)
        ident = (await memory(Memory.add, "forgotten"))["id"]
        await memory(Memory.add, "kept", scope="own", owner="/user/ada")
        await memory(Memory.forget, ident)

    async def after(twin: Twin) -> None:
        documents = twin.kernel.state.documents
        assert (len(documents), documents.bytes) == (1, 4)
        assert documents.owners(5) == [{"owner": "/user/ada", "documents": 1, "bytes": 4}]

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_the_node_holds_no_text_of_a_document() -> None:
    state = State(10, 1000)
    documents = state.documents
    body = {"id": "d1", "owner": "/user/ada", "scope": "own", "text_hash": "", "bytes": 9, "title": "secret"}
    state.apply_entry("memory.written", body, 1, 0, b"")
    assert "secret" not in repr(documents.readable("d1", "/user/ada"))
    state.apply_entry("memory.written", {**body, "owner": "/user/bob"}, 1, 0, b"")
    assert documents.owners(5) == [{"owner": "/user/bob", "documents": 1, "bytes": 9}]
    for _ in range(2):
        state.apply_entry("memory.forgotten", {"id": "d1"}, 2, 0, b"")
    assert (len(documents), documents.bytes, documents.owners(5)) == (0, 0, [])


def test_many_long_results_stay_within_the_limit_and_are_whole_json() -> None:
    hit: Hit = {
        "id": "d1",
        "title": "t" * 200,
        "text": '"\n\\' * 20_000,
        "cut": False,
        "score": 1.0,
        "parts": {},
        "owner": "o",
        "scope": "own",
        "seq": 1,
        "time_us": 0,
        "tags": [],
    }
    text = hits_text([hit] * 50, 48 * 1024)
    assert len(text.encode()) <= 48 * 1024
    assert len(json.loads(text)) > 20


def test_a_long_document_is_read_in_pieces_that_make_the_whole() -> None:
    whole = 'é"\n' * 9_000
    document: Document = {
        "id": "d1",
        "title": "t",
        "text": whole,
        "owner": "o",
        "scope": "own",
        "seq": 1,
        "bytes": len(whole.encode()),
        "time_us": 0,
        "tags": [],
    }
    offset, pieces = 0, []
    while offset is not None:
        text = document_text(document, offset, 4096)
        assert len(text.encode()) <= 4096
        piece = json.loads(text)
        pieces.append(piece["text"])
        offset = piece.get("next_offset")
    assert "".join(pieces) == whole
    assert len(pieces) > 5


@pytest.mark.parametrize(("title", "text"), [("\x01" * 256, "hello"), ("\x01" * 256, ""), ("t", "\x01\x01")])
def test_a_document_of_which_nothing_fits_into_a_result_is_refused(title: str, text: str) -> None:
    shown = {"id": "d1", "title": title, "owner": "o", "scope": "own", "seq": 1}
    document = cast(Document, {**shown, "text": text, "bytes": len(text), "time_us": 0, "tags": []})
    least = len(canonical({**shown, "text": text}).encode())
    assert json.loads(document_text(document, 0, least))["text"] == text
    for limit_bytes in (1, least - 30, least - 1):
        with pytest.raises(Invalid, match=f"nothing of it fits into a result of {limit_bytes} bytes"):
            document_text(document, 0, limit_bytes)


def test_results_of_which_none_fits_are_none() -> None:
    assert hits_text([], 1) == "[]"
