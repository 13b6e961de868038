from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from chain.vectors.document import MAX_TEXT_BYTES
from kernel.helper.helper import HelperLost, HelperRefused
from kernel.memory.requests import ReadQuestion, ReindexQuestion, SearchQuestion
from kernel.shapes import told
from tests.integration.live_node import until
from tests.servers.embeddings import EmbeddingServer, embedding_server
from tests.weftos.twins.memory_node import MemoryNode, helper, memory_node

Scenario = Callable[[MemoryNode], Awaitable[None]]


def run(data: Path, scenario: Scenario, *options: str, **more: Any) -> None:
    async def whole() -> None:
        async with memory_node(data, *options, **more) as node:
            await scenario(node)

    asyncio.run(whole())


def with_model(model: str, dimensions: int = 0) -> list[str]:
    options = ["--embedder", "mine", "--embedding-model", model]
    return [*options, "--embedding-dimensions", str(dimensions)] if dimensions else options


def gateway_for(server: EmbeddingServer) -> str:
    table = {"kind": "openai", "base_url": server.base_url, "model": "chat"}
    return json.dumps({"providers": {"mine": table}})


def vectors(data: Path) -> Path:
    return data / "archive" / "vectors"


def test_what_was_just_written_is_found_with_its_parts_and_its_entry(tmp_path: Path) -> None:
    async def scenario(node: MemoryNode) -> None:
        await node.write("The ferry to Holm leaves at nine.", title="Ferry")
        wanted = await node.write("The crane needs a new cable.", title="Crane", scope="shared")
        answer = await node.search("crane cable")
        assert {key: answer[key] for key in ("mode", "degraded", "pending", "embedder")} == {
            "mode": "hybrid", "degraded": "", "pending": 0, "embedder": "lexical-384-v1"}  # fmt: skip
        (result,) = answer["results"]
        assert result["id"] == wanted
        assert f"d{result['seq']}" == wanted
        assert (result["title"], result["text"], result["cut"]) == (
            "Crane",
            "The crane needs a new cable.",
            False,
        )
        assert (result["owner"], result["scope"], result["tags"]) == ("/user/a", "shared", [])
        assert result["time_us"] == 1_700_000_000_000_000 + result["seq"]
        assert result["parts"]["bm25"]["rank"] == result["parts"]["vector"]["rank"] == 1
        assert result["score"] == pytest.approx(2 / 61)

    run(tmp_path, scenario)


def test_each_mode_uses_its_own_part_and_a_misspelt_word_is_found_by_its_pieces(tmp_path: Path) -> None:
    async def scenario(node: MemoryNode) -> None:
        wanted = await node.write("The lighthouse was painted by Rosalind.")
        await node.write("The granary was closed by Leopold.")
        assert await node.found("ligthhouse rosalnid", mode="bm25") == []
        assert (await node.found("ligthhouse rosalnid", mode="vector"))[0] == wanted
        assert (await node.found("ligthhouse rosalnid"))[0] == wanted
        assert await node.found("granary leopold", mode="bm25") != [wanted]
        (result,) = (await node.search("lighthouse", mode="bm25"))["results"]
        assert set(result["parts"]) == {"bm25"}

    run(tmp_path, scenario)


def test_a_reader_finds_what_is_shared_its_own_and_what_is_above_it_and_nothing_else(tmp_path: Path) -> None:
    async def scenario(node: MemoryNode) -> None:
        documents = [(f"pelican {owner} {scope}", owner, scope)
                     for owner in ("/user/a", "/user/a/b", "/user/a/bc", "/user/z", "operator")
                     for scope in ("own", "shared")]  # fmt: skip
        ids = await node.write_all(documents)
        visible = {
            "/user/a/b": {"/user/a", "/user/a/b"},
            "/user/a": {"/user/a"},
            "/user": set(),
            "/user/z/deep/down": {"/user/z"},
            "/": set(),
        }
        for reader, owners in visible.items():
            for mode in ("hybrid", "vector", "bm25"):
                expected = {
                    ident
                    for ident, (_, owner, scope) in zip(ids, documents, strict=True)
                    if scope == "shared" or owner in owners
                }
                assert set(await node.found("pelican", owner=reader, k=50, mode=mode)) == expected
        assert set(await node.found("pelican", k=50)) == set(ids)
        hidden = ids[documents.index(("pelican /user/z own", "/user/z", "own"))]
        for ident in (hidden, "d999999"):
            with pytest.raises(HelperRefused, match=f"ValueError: no document '{ident}'"):
                await node.archive.request("read", told(ReadQuestion(ident, "/user/a")))
        whole = await node.archive.request("read", told(ReadQuestion(hidden, "/user/z")))
        assert whole["text"] == "pelican /user/z own"
        assert (await node.archive.request("read", told(ReadQuestion(hidden))))["owner"] == "/user/z"

    run(tmp_path, scenario)


def test_equal_documents_come_in_the_order_they_were_written_also_after_a_restart(tmp_path: Path) -> None:
    ids: list[str] = []

    async def first(node: MemoryNode) -> None:
        ids.extend(await node.write_all([("the same words", "/user/a", "own")] * 30))
        assert await node.found("same words", k=10) == ids[:10]

    async def second(node: MemoryNode) -> None:
        assert await node.found("same words", k=10) == ids[:10]
        await node.put(ids[2], None)
        assert await node.found("same words", k=3) == [ids[0], ids[1], ids[3]]

    run(tmp_path, first)
    shutil.rmtree(vectors(tmp_path))
    run(tmp_path, second)


def test_a_changed_document_is_found_by_its_new_words_and_a_forgotten_one_by_none(tmp_path: Path) -> None:
    async def scenario(node: MemoryNode) -> None:
        ident = await node.write("barometer in the attic")
        other = await node.write("nothing of that kind")
        await node.write("harpoon in the cellar", ident=ident)
        assert await node.found("barometer", mode="bm25") == []
        assert await node.found("harpoon", k=1) == [ident]
        await node.put(ident, None)
        assert ident not in await node.found("harpoon in the cellar")
        stats = await node.stats()
        assert (stats["documents"], stats["vectors"], stats["kept"]) == (1, 1, 1)
        assert (await node.archive.request("read", told(ReadQuestion(other))))["id"] == other

    run(tmp_path, scenario)


def test_a_document_of_the_largest_size_is_kept_whole_and_shown_cut(tmp_path: Path) -> None:
    text = ("windlass " * (MAX_TEXT_BYTES // 9 + 1))[:MAX_TEXT_BYTES]

    async def scenario(node: MemoryNode) -> None:
        ident = await node.write(text)
        (result,) = (await node.search("windlass"))["results"]
        assert result["id"] == ident
        assert result["cut"]
        assert result["text"] == text[:1000]
        assert (await node.archive.request("read", told(ReadQuestion(ident))))["text"] == text

    run(tmp_path, scenario)


def test_records_that_are_no_documents_or_over_the_limit_are_left_out_and_counted(tmp_path: Path) -> None:
    fields = {"id": "d0", "owner": "/user/a", "scope": "own", "title": "", "seq": 0, "time_us": 1}
    large = [
        msgpack.packb({**fields, "text": "x" * size}) for size in (MAX_TEXT_BYTES + 1, 4 * MAX_TEXT_BYTES)
    ]
    wrong = [b"", b"\xc1", msgpack.packb([1]), msgpack.packb({"id": "d0"}),
             msgpack.packb({**fields, "text": "x", "scope": "everyone"}),
             msgpack.packb({**fields, "text": "x", "id": "d1"}),
             msgpack.packb({**fields, "text": "x", "seq": -1})]  # fmt: skip

    async def scenario(node: MemoryNode) -> None:
        for value in large + wrong:
            await node.put("d0", value)
            assert (await node.stats())["documents"] == 0
        good = await node.write("a good one")
        assert await node.found("good") == [good]
        assert (await node.stats())["skipped"] == len(large) + len(wrong)

    run(tmp_path, scenario)


SEARCH = told(SearchQuestion("x"))
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("search", {}, "exactly the fields query, k, owner, mode, vector"),
    ("search", {**SEARCH, "query": b"x"}, "query is bytes, not str"),
    ("search", {**SEARCH, "query": "x" * 4097}, "a query of 4097 characters, limit 4096 bytes"),
    ("search", {**SEARCH, "query": "ü" * 2049}, "a query of 2049 characters, limit 4096 bytes"),
    ("search", {**SEARCH, "query": "x" * 10_000_000}, "a query of 10000000 characters"),
    ("search", {**SEARCH, "k": 0}, "k must be 1 to 50"),
    ("search", {**SEARCH, "k": 51}, "k must be 1 to 50"),
    ("search", {**SEARCH, "k": True}, "k is bool, not int"),
    ("search", {**SEARCH, "mode": "magic"}, "mode is none of hybrid, vector, bm25"),
    ("search", {**SEARCH, "owner": 7}, "owner is int, not str"),
    ("search", {**SEARCH, "owner": "/" * 1_201}, "owner must be an address"),
    ("search", {**SEARCH, "vector": "abc"}, "vector is str, not bytes"),
    ("read", {"id": 7, "owner": None}, "id is int, not str"),
    ("read", {"id": "d" * 100, "owner": None}, "id must be a document's id"),
    ("reindex", {"fresh": 1}, "fresh is int, not bool"),
    ("stats", {"more": 1}, "exactly the fields"),
]
STRANGE = ["", "…", "\x00 \x1b[31m", "' OR 1=1 --", "a" * 4096, "ﷺ" * 1000, "quotes" * 600]


def test_wrong_requests_are_refused_in_words_and_strange_queries_answered(tmp_path: Path) -> None:
    async def scenario(node: MemoryNode) -> None:
        await node.write("nul \x00 and 'quotes' and \x1b[31m red")
        for op, args, words in WRONG:
            with pytest.raises(HelperRefused, match=words):
                await node.archive.request(op, args)
        for query in STRANGE:
            assert await node.found(query) in ([], ["d0"])
        (result,) = (await node.search("quotes red"))["results"]
        assert result["text"] == "nul \x00 and 'quotes' and \x1b[31m red"

    run(tmp_path, scenario)


def test_fifty_megabytes_are_refused_at_the_link_and_the_memory_lives_on(tmp_path: Path) -> None:
    async def scenario(node: MemoryNode) -> None:
        with pytest.raises(HelperRefused, match=r"frame of 5\d+ bytes, limit 16777216"):
            await node.archive.request("search", told(SearchQuestion("x" * 50_000_000)))
        assert await node.found("x") == []

    run(tmp_path, scenario)


def test_a_killed_archive_has_everything_again_without_being_told(tmp_path: Path) -> None:
    ids: list[str] = []

    async def scenario(node: MemoryNode) -> None:
        for number in range(4):
            ids.append(await node.write(f"note {number} of the flood"))
            again = helper(tmp_path, "archive", ["-m", "weftos.archive", "--data", str(tmp_path)])
            asked = node.archive.request("search", told(SearchQuestion("flood", 50)))
            os.kill(node.archive.os_pid, signal.SIGKILL)
            with pytest.raises(HelperLost):
                await asked
            await node.archive.stop()
            await again.start()
            node.archive = again
            assert sorted(await node.found("flood", k=50)) == sorted(ids)
            stats = await node.settled()
            assert (stats["vectors"], stats["rebuilt"]) == (len(ids), None)
        await node.archive.stop()

    run(tmp_path, scenario)


def spoil_graph(folder: Path) -> None:
    (path,) = folder.glob("graph-*")
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


def cut_graph(folder: Path) -> None:
    (path,) = folder.glob("graph-*")
    os.truncate(path, 1000)


def spoil_list(folder: Path) -> None:
    (folder / "index.json").write_text("{}")


def foreign_kept(folder: Path) -> None:
    (folder / "kept.vec").write_bytes(b"\x7fELF" * 100)


def remove_all(folder: Path) -> None:
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (spoil_graph, "graph-1.hnsw is damaged"),
        pytest.param(cut_graph, "graph-1.hnsw is damaged", marks=pytest.mark.slow),
        (spoil_list, "index.json is damaged"),
        pytest.param(foreign_kept, "kept.vec: not of the format", marks=pytest.mark.slow),
        (remove_all, None),
    ],
)
def test_a_spoiled_index_is_named_and_built_again(
    tmp_path: Path, spoil: Callable[[Path], None], named: str | None
) -> None:
    async def first(node: MemoryNode) -> None:
        await node.write_all([(f"note {n} of the strike", "/user/a", "own") for n in range(20)])
        assert len(await node.found("strike", k=50)) == 20

    async def second(node: MemoryNode) -> None:
        assert len(await node.found("strike", k=50, mode="vector")) == 20
        stats = await node.settled()
        assert (stats["documents"], stats["vectors"], stats["kept"]) == (20, 20, 20)
        assert (stats["rebuilt"] or "").startswith(named or "")
        assert (stats["rebuilt"] is None) == (named is None)

    run(tmp_path, first)
    (folder,) = vectors(tmp_path).iterdir()
    spoil(folder)
    run(tmp_path, second)


def test_a_rebuilt_archive_begins_the_index_anew_and_keeps_its_vectors(tmp_path: Path) -> None:
    async def first(node: MemoryNode) -> None:
        await node.write_all([(f"note {n} of the audit", "/user/a", "own") for n in range(10)])
        await node.settled()

    async def second(node: MemoryNode) -> None:
        assert len(await node.found("audit", k=50)) == 10
        stats = await node.settled()
        assert (stats["documents"], stats["vectors"], stats["rebuilt"]) == (10, 10, None)

    run(tmp_path, first)
    (tmp_path / "archive" / "audit.duckdb").write_bytes(b"no database" * 500)
    run(tmp_path, second)


def test_an_index_that_knows_more_than_the_journal_drops_it(tmp_path: Path) -> None:
    """A journal restored from an older copy: the documents behind it are gone, and their vectors too."""

    async def write(node: MemoryNode) -> None:
        await node.write_all([(f"note {n} of the wedding", "/user/a", "own") for n in range(5)])
        await node.settled()

    async def check(node: MemoryNode) -> None:
        assert len(await node.found("wedding", k=50)) == 5
        stats = await node.settled()
        assert (stats["documents"], stats["vectors"], stats["kept"]) == (5, 5, 5)

    (tmp_path / "data").mkdir()
    run(tmp_path / "data", write)
    for name in ("journal", "keys", "heads", "ledger"):
        shutil.copytree(tmp_path / "data" / name, tmp_path / "copy" / name)
    run(tmp_path / "data", write)
    for name in ("journal", "keys", "heads", "ledger"):
        shutil.rmtree(tmp_path / "data" / name)
        shutil.copytree(tmp_path / "copy" / name, tmp_path / "data" / name)
    run(tmp_path / "data", check)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_reindex_finds_the_same_again(tmp_path: Path, fresh: bool) -> None:
    async def scenario(node: MemoryNode) -> None:
        ids = await node.write_all([(f"note {n} of the regatta", "/user/a", "own") for n in range(700)])
        assert len(await node.found("regatta", k=50)) == 50
        assert await node.archive.request("reindex", told(ReindexQuestion(fresh))) == {"documents": 700}
        stats = await node.settled()
        assert (stats["documents"], stats["vectors"], stats["kept"]) == (700, 700, 700)
        assert await node.found("note 612", k=1) == [ids[612]]

    run(tmp_path, scenario)


PARAPHRASES = [
    ("He purchased an automobile in Leeds.", "who bought a car"),
    ("The physician visited the dwelling at dawn.", "doctor came to a house"),
    ("A large vessel arrived with rope.", "big ship"),
    ("The assembly commences at ten.", "when does the meeting start"),
    ("Her instructor mended the clock.", "teacher fixed it"),
    ("They ran out of funds by Friday.", "no more money"),
]


async def paraphrases_found(node: MemoryNode) -> int:
    """How many queries find, as their first, the document that says the same in other words."""
    rng = random.Random(5)
    others = ["barley grows on the slope", "rain fell over the ridge", "the lamp hums softly", "gulls follow a plough",
              "salt keeps fish for winter", "the bell rang twice", "moss covers old stones"]  # fmt: skip
    texts = [text for text, _ in PARAPHRASES] + others
    rng.shuffle(texts)
    ids = await node.write_all([(text, "/user/a", "own") for text in texts])
    await node.settled()
    hits = 0
    for text, query in PARAPHRASES:
        found = await node.found(query, k=1)
        hits += found == [ids[texts.index(text)]]
    return hits


def test_paraphrases_are_found_with_an_embeddings_server_that_knows_synonyms(tmp_path: Path) -> None:
    async def scenario(node: MemoryNode) -> None:
        assert await paraphrases_found(node) == len(PARAPHRASES)
        answer = await node.search("who bought a car")
        assert (answer["embedder"], answer["degraded"], answer["pending"]) == ("mine/synonyms", "", 0)
        assert (await node.stats())["dimensions"] == 64

    with embedding_server() as server:
        run(tmp_path, scenario, *with_model("synonyms"), gateway_json=gateway_for(server))


def test_paraphrases_are_not_found_by_the_lexical_embedder_which_knows_no_meaning(tmp_path: Path) -> None:
    async def scenario(node: MemoryNode) -> None:
        assert await paraphrases_found(node) <= 1

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("model", "named"),
    [
        ("nan", r"not a finite number \(NaN, infinity\)"),
        pytest.param("huge", "too large for 32 bits", marks=pytest.mark.slow),
        ("ragged", r"has 6[56] dimensions, the first"),
        pytest.param("empty", "gave 0 embeddings for 2 texts", marks=pytest.mark.slow),
    ],
)
def test_an_embedder_that_gives_no_vectors_is_named_and_words_still_find(
    tmp_path: Path, model: str, named: str
) -> None:
    ids: list[str] = []

    async def write(node: MemoryNode) -> None:
        ids[:] = await node.write_all(
            [("the lantern is lit", "/user/a", "own"), ("no light", "/user/a", "own")]
        )

    async def scenario(node: MemoryNode) -> None:
        assert re.search(named, await node.fault())
        answer = await node.search("lantern")
        assert [result["id"] for result in answer["results"]] == ids[:1]
        assert answer["degraded"].startswith("found by words only: ")
        assert answer["pending"] == 2
        assert (await node.stats())["vectors"] == 0

    run(tmp_path, write)  # both are there when the embedder is first asked
    with embedding_server() as server:
        run(tmp_path, scenario, *with_model(model), gateway_json=gateway_for(server))


def test_an_embedder_that_does_not_answer_in_time_is_named_and_words_still_find(tmp_path: Path) -> None:
    async def scenario(node: MemoryNode) -> None:
        ident = await node.write("the lantern is lit")
        assert "mine/slow" in await node.fault()
        answer = await node.search("lantern")
        assert [result["id"] for result in answer["results"]] == [ident]
        assert answer["degraded"].startswith("found by words only: ")

    with embedding_server() as server:
        run(tmp_path, scenario, *with_model("slow"), gateway_json=gateway_for(server), timeout_s=0.5)


def test_without_a_gateway_words_still_find_and_when_it_is_there_the_vectors_come(tmp_path: Path) -> None:
    async def without(node: MemoryNode) -> None:
        await node.write("He purchased an automobile.")
        assert "gateway" in await node.fault()
        assert await node.found("automobile") == ["d0"]

    async def later(node: MemoryNode) -> None:
        stats = await node.settled()
        assert (stats["vectors"], stats["fault"]) == (1, "")
        assert await node.found("bought a car", mode="vector") == ["d0"]

    run(tmp_path, without, *with_model("synonyms"))
    with embedding_server() as server:
        run(tmp_path, later, *with_model("synonyms"), gateway_json=gateway_for(server))


def test_an_embedder_that_changes_its_dimension_is_refused_by_name_and_words_still_find(
    tmp_path: Path,
) -> None:
    async def scenario(node: MemoryNode) -> None:
        await node.write("an old automobile")
        assert (await node.settled())["dimensions"] == 64
        new = await node.write("an upgraded vessel")
        fault = await node.fault()
        assert "answered 96 dimensions, its index has 64" in fault
        assert "weftos memory reindex" in fault
        assert await node.found("upgraded vessel") == [new]
        stats = await node.stats()
        assert (stats["vectors"], stats["pending"], stats["dimensions"]) == (1, 1, 64)

    with embedding_server() as server:
        run(tmp_path, scenario, *with_model("changing"), gateway_json=gateway_for(server))


def test_a_reindex_takes_the_dimension_that_the_embedder_has_now(tmp_path: Path) -> None:
    async def first(node: MemoryNode) -> None:
        await node.write("an upgraded automobile")
        assert (await node.settled())["dimensions"] == 96
        other = await node.write("a small ship")
        assert "answered 64 dimensions" in await node.fault()
        await node.put("d0", None)
        await node.archive.request("reindex", told(ReindexQuestion()))
        stats = await node.settled()
        assert (stats["dimensions"], stats["vectors"], stats["fault"]) == (64, 1, "")
        assert await node.found("boat", mode="vector") == [other]
        assert len(list(vectors(tmp_path).iterdir())) == 1

    with embedding_server() as server:
        run(tmp_path, first, *with_model("changing"), gateway_json=gateway_for(server))


def test_a_dimension_other_than_the_configured_one_is_refused(tmp_path: Path) -> None:
    async def scenario(node: MemoryNode) -> None:
        await node.write("an automobile")
        assert "answered 96 dimensions, its index has 64" in await node.fault()
        assert (await node.stats())["vectors"] == 0

    with embedding_server() as server:
        run(tmp_path, scenario, *with_model("wide", 64), gateway_json=gateway_for(server))


def test_another_embedder_means_another_index_and_no_vector_of_the_old_one_stays(tmp_path: Path) -> None:
    async def write(node: MemoryNode) -> None:
        await node.write("He purchased an automobile.")
        await node.settled()

    async def model(node: MemoryNode) -> None:
        stats = await node.settled()
        assert (stats["embedder"], stats["dimensions"], stats["vectors"]) == ("mine/synonyms", 64, 1)
        assert await node.found("bought a car", mode="vector") == ["d0"]
        (folder,) = vectors(tmp_path).iterdir()
        assert folder.name.startswith("mine_synonyms-")

    async def lexical(node: MemoryNode) -> None:
        assert (await node.settled())["dimensions"] == 384
        assert await node.found("bought a car", mode="vector") == []

    run(tmp_path, write)
    with embedding_server() as server:
        run(tmp_path, model, *with_model("synonyms"), gateway_json=gateway_for(server))
        run(tmp_path, model, *with_model("synonyms"), gateway_json=gateway_for(server))
        assert server.asked()["synonyms"] == 3, (
            "a restart, and a text that is known, ask for nothing but queries"
        )
    run(tmp_path, lexical)


def test_a_vector_given_with_the_query_is_used_and_a_wrong_one_is_named(tmp_path: Path) -> None:
    async def scenario(node: MemoryNode) -> None:
        await node.write("an automobile")
        await node.settled()
        given = np.zeros(64, "<f4")
        given[0] = 1
        assert await node.found("zzz", vector=given.tobytes()) == ["d0"]
        assert "not of little-endian float32" in (await node.search("zzz", vector=b"abc"))["degraded"]
        given[0] = np.nan
        assert "not finite" in (await node.search("zzz", vector=given.tobytes()))["degraded"]

    with embedding_server() as server:
        run(tmp_path, scenario, *with_model("synonyms"), gateway_json=gateway_for(server))


def test_an_embedder_without_a_model_is_refused_at_the_start(tmp_path: Path) -> None:
    async def scenario(node: MemoryNode) -> None:
        with pytest.raises(HelperLost):
            await node.archive.request("stats", {})

    run(tmp_path, scenario, "--embedder", "mine")
    words, log = "the embedder mine needs the name of an embedding model", tmp_path / "archive.log"
    until(lambda: words in log.read_text(), "its log says why")
