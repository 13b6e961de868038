from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from chain.disk import Disk
from chain.vectors.vectors import EXACT_DOCUMENTS, FIRST_CAPACITY, VectorError, VectorIndex, directory_of
from tests.patience import HANG_S
from tests.places import ROOT

DIMENSIONS = 16
SAVER = ROOT / "tests/chain/twins/vector_saver.py"


@cache
def row_of(document: int) -> np.ndarray:
    return np.random.default_rng(document).standard_normal(DIMENSIONS)


def rows_of(documents: range | list[int]) -> np.ndarray:
    """A direction of its own for each document."""
    return np.array([row_of(document) for document in documents], np.float32).reshape(-1, DIMENSIONS)


def hash_of(document: int) -> bytes:
    return document.to_bytes(32, "big")


def put(index: VectorIndex, documents: range | list[int]) -> None:
    index.put(list(documents), [hash_of(document) for document in documents], rows_of(documents))


def opened(path: Path, embedder: str = "test", dimensions: int = DIMENSIONS) -> VectorIndex:
    index = VectorIndex(path, embedder, dimensions)
    index.open()
    return index


def reopened(index: VectorIndex, path: Path) -> VectorIndex:
    index.close()
    return opened(path)


def exact(documents: range | list[int], query: np.ndarray, k: int) -> list[int]:
    rows = rows_of(documents)
    near = rows @ query / np.linalg.norm(rows, axis=1)
    return [list(documents)[at] for at in np.argsort(-near)[:k]]


def found(index: VectorIndex, query: np.ndarray, k: int, allowed: list[int] | None = None) -> list[int]:
    numbers = None if allowed is None else np.array(allowed, np.int64)
    return [document for document, _ in index.search(query, k, numbers)]


def test_the_nearest_come_first_with_their_similarity(tmp_path: Path) -> None:
    index = opened(tmp_path)
    put(index, range(300))
    (best, similarity), *others = index.search(rows_of([42])[0] * 7, 5)
    assert best == 42
    assert similarity == pytest.approx(1.0, abs=1e-5)
    assert [best, *(document for document, _ in others)] == exact(range(300), rows_of([42])[0], 5)


def test_equal_vectors_fall_by_document(tmp_path: Path) -> None:
    index = opened(tmp_path)
    same = np.ones((4, DIMENSIONS), np.float32)
    index.put([9, 3, 30, 7], [hash_of(n) for n in (9, 3, 30, 7)], same)
    assert found(index, same[0], 3) == [3, 7, 9]


def test_it_grows_beyond_its_capacity_and_finds_by_the_graph(tmp_path: Path) -> None:
    index = opened(tmp_path)
    total = 3 * FIRST_CAPACITY
    assert total > EXACT_DOCUMENTS
    for start in range(0, total, 256):
        put(index, range(start, start + 256))
    assert len(index) == total
    queries = [5, 700, 1500, 3000]
    hits = sum(
        len(set(found(index, rows_of([q])[0], 10)) & set(exact(range(total), rows_of([q])[0], 10)))
        for q in queries
    )
    assert hits >= 0.9 * 10 * len(queries)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> VectorIndex:
    index = opened(tmp_path_factory.mktemp("many"))
    put(index, range(6000))
    return index


@pytest.mark.parametrize("every", [1, 2, 50, 1500])
def test_a_filter_finds_only_what_is_allowed_however_few(many: VectorIndex, every: int) -> None:
    allowed = list(range(0, 6000, every))
    query = rows_of([123])[0]
    expected = exact(allowed, query, 10)
    got = found(many, query, 10, allowed)
    assert set(got) <= set(allowed)
    assert len(got) == min(10, len(allowed))
    assert len(set(got) & set(expected)) >= 0.8 * len(expected)


def test_a_filter_against_the_query_is_still_answered(tmp_path: Path) -> None:
    """The allowed documents are all on the other side: masking what the graph finds near leaves nothing."""
    index = opened(tmp_path)
    away = np.random.default_rng(1).standard_normal((6000, DIMENSIONS)).astype(np.float32)
    away[:, 0] = np.where(np.arange(6000) < 2500, -9, 9)
    index.put(range(6000), [hash_of(n) for n in range(6000)], away)
    query = np.eye(1, DIMENSIONS, dtype=np.float32)[0]
    got = found(index, query, 10, list(range(2500)))
    assert len(got) == 10
    assert max(got) < 2500


def test_a_removed_document_is_not_found_and_its_vector_is_forgotten(tmp_path: Path) -> None:
    index = opened(tmp_path)
    put(index, range(20))
    vector = index.kept.vectors([index.kept.row_of(hash_of(7))])[0].tobytes()
    index.remove(7)
    assert 7 not in found(index, rows_of([7])[0], 20)
    assert hash_of(7) not in index.kept
    assert vector not in (tmp_path / "kept.vec").read_bytes()
    index.remove(7)
    index.save()
    assert 7 not in reopened(index, tmp_path).documents()


def test_two_documents_with_one_text_share_a_vector_until_both_are_gone(tmp_path: Path) -> None:
    index = opened(tmp_path)
    row = rows_of([1])
    index.put([1, 2], [hash_of(1)] * 2, np.concatenate((row, row)))
    index.remove(1)
    assert found(index, row[0], 5) == [2]
    index.remove(2)
    assert len(index.kept) == 0


def test_a_changed_document_is_found_by_its_new_vector_alone(tmp_path: Path) -> None:
    index = opened(tmp_path)
    put(index, range(3))
    index.put([1], [hash_of(99)], -rows_of([1]))
    assert index.hash_of(1) == hash_of(99)
    assert found(index, -rows_of([1])[0], 1) == [1]
    assert index.search(rows_of([1])[0], 3)[-1][0] == 1


def test_replaced_documents_do_not_let_it_grow(tmp_path: Path) -> None:
    index = opened(tmp_path)
    for turn in range(40):
        index.put(
            list(range(100)), [hash_of(1000 * turn + n) for n in range(100)], rows_of(range(turn, turn + 100))
        )
    size = index.graph_bytes
    index.save()
    assert len(index) == 100
    assert size < 2 * FIRST_CAPACITY * (DIMENSIONS * 4 + 200)
    again = reopened(index, tmp_path)
    put(again, range(100, 200))
    assert found(again, rows_of([150])[0], 1) == [150]
    assert again.search(rows_of([39])[0], 1)[0][0] in (0, 39)


def test_what_was_saved_is_there_again_and_can_be_changed(tmp_path: Path) -> None:
    index = opened(tmp_path)
    put(index, range(50))
    index.remove(49)
    index.save()
    assert index.unsaved == 0
    again = reopened(index, tmp_path)
    assert again.rebuilt is None
    assert sorted(again.documents()) == list(range(49))
    put(again, range(49, 60))
    assert found(again, rows_of([55])[0], 1) == [55]
    assert found(again, rows_of([12])[0], 1) == [12]


def test_what_was_not_saved_needs_no_new_vectors(tmp_path: Path) -> None:
    index = opened(tmp_path)
    put(index, range(10))
    index.save()
    put(index, range(10, 15))
    again = reopened(index, tmp_path)
    assert len(again) == 10
    again.put_kept(list(range(10, 15)), [hash_of(n) for n in range(10, 15)])
    assert found(again, rows_of([12])[0], 1) == [12]
    with pytest.raises(VectorError, match="1 of 1 vectors are not kept"):
        again.put_kept([77], [hash_of(77)])


def damage_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def stale(path: Path) -> None:
    """A graph of an older save under the name of the newest."""
    older = VectorIndex(path.parent / "older", "test", DIMENSIONS)
    older.open()
    put(older, range(5))
    older.save()
    older.close()
    name = path.name.split("-")[0]
    path.write_bytes(next((path.parent / "older").glob(f"{name}*")).read_bytes())


@pytest.mark.parametrize("spoil", [damage_byte, cut_short, Path.unlink, stale])
@pytest.mark.parametrize("which", ["graph-*.hnsw", "labels-*.bin"])
def test_spoiled_files_are_named_and_the_index_is_built_again_from_kept_vectors(
    tmp_path: Path, which: str, spoil: Callable[[Path], None]
) -> None:
    index = opened(tmp_path)
    put(index, range(40))
    index.save()
    index.close()
    (path,) = tmp_path.glob(which)
    spoil(path)
    again = opened(tmp_path)
    assert again.rebuilt is not None
    assert which.split("-")[0] in again.rebuilt
    assert len(again) == 0
    again.put_kept(list(range(40)), [hash_of(n) for n in range(40)])
    assert found(again, rows_of([8])[0], 1) == [8]
    again.save()
    assert reopened(again, tmp_path).rebuilt is None


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff\x00", b"[1]\nabc", b'{"format": 1}\n' + b"0" * 64])
def test_a_spoiled_list_of_files_is_named(tmp_path: Path, content: bytes) -> None:
    index = opened(tmp_path)
    put(index, range(5))
    index.save()
    index.close()
    (tmp_path / "index.json").write_bytes(content)
    again = opened(tmp_path)
    assert again.rebuilt == "index.json is damaged: its last line is not the hash of its first"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index.json", "kept.vec"]


@pytest.mark.parametrize(
    ("embedder", "dimensions", "words"),
    [("other", DIMENSIONS, "embedder 'test', this one 'other'"), ("test", 32, "dimensions 16, this one 32")],
)
def test_the_index_of_another_embedder_or_dimension_is_named_and_not_used(
    tmp_path: Path, embedder: str, dimensions: int, words: str
) -> None:
    index = opened(tmp_path)
    put(index, range(5))
    index.save()
    index.close()
    again = opened(tmp_path, embedder, dimensions)
    assert again.rebuilt is not None
    assert words in again.rebuilt
    assert len(again) == len(again.kept) == 0


def test_a_foreign_file_in_place_of_kept_vectors_is_named_and_refilled_from_the_graph(tmp_path: Path) -> None:
    index = opened(tmp_path)
    put(index, range(30))
    index.save()
    index.close()
    (tmp_path / "kept.vec").write_bytes(b"GIF89a" * 500)
    again = opened(tmp_path)
    assert again.rebuilt == "kept.vec: not of the format 'weftos-vectors 1'"
    assert len(again) == len(again.kept) == 30
    assert found(again, rows_of([4])[0], 3) == exact(range(30), rows_of([4])[0], 3)


def test_a_damaged_kept_vector_is_dropped_alone(tmp_path: Path) -> None:
    index = opened(tmp_path)
    put(index, range(30))
    index.close()
    path = tmp_path / "kept.vec"
    content = bytearray(path.read_bytes())
    content[content.index(hash_of(11)) + 40] ^= 1
    path.write_bytes(content)
    again = opened(tmp_path)
    assert again.rebuilt == "kept.vec: 1 rows were damaged"
    assert hash_of(11) not in again.kept
    assert len(again.kept) == 29
    put(again, [11])
    assert len(again.kept) == 30


@pytest.mark.parametrize("torn", [1, 30, 64, 65, 100, 1000])
def test_a_torn_file_of_kept_vectors_loses_what_was_cut_and_nothing_else(tmp_path: Path, torn: int) -> None:
    index = opened(tmp_path)
    put(index, range(30))
    index.close()
    os.truncate(tmp_path / "kept.vec", torn)
    again = opened(tmp_path)
    assert len(again.kept) == max(0, (torn - 64) // 100)
    put(again, range(30))
    assert len(reopened(again, tmp_path).kept) == 30


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (np.full((2, DIMENSIONS), np.nan, np.float32), "not finite"),
        (np.full((2, DIMENSIONS), np.inf, np.float32), "not finite"),
        (np.ones((2, DIMENSIONS + 1), np.float32), r"shape \(2, 17\), expected \(2, 16\)"),
        (np.ones((1, DIMENSIONS), np.float32), r"shape \(1, 16\), expected \(2, 16\)"),
    ],
)
def test_vectors_that_are_none_are_refused_and_change_nothing(
    tmp_path: Path, rows: np.ndarray, words: str
) -> None:
    index = opened(tmp_path)
    put(index, [1])
    with pytest.raises(VectorError, match=words):
        index.put([1, 2], [hash_of(5), hash_of(6)], rows)
    assert index.hash_of(1) == hash_of(1)
    assert len(index.kept) == 1
    with pytest.raises(VectorError):
        index.search(rows[0][:DIMENSIONS] * np.float32(np.nan), 3)


def test_clearing_keeps_the_vectors_unless_told_otherwise(tmp_path: Path) -> None:
    index = opened(tmp_path)
    put(index, range(5))
    index.clear()
    assert (len(index), len(index.kept)) == (0, 5)
    index.put_kept([0, 1], [hash_of(0), hash_of(1)])
    index.forget_unused()
    assert len(index.kept) == 2
    index.clear(forget=True)
    assert len(reopened(index, tmp_path).kept) == 0


class FailingDisk(Disk):
    """Every write fails, as on a full disk."""

    def write(self, handle: int, offset: int, data: bytes) -> None:
        raise OSError(28, "No space left on device")


def test_a_save_that_fails_leaves_the_one_before(tmp_path: Path) -> None:
    index = opened(tmp_path)
    put(index, range(5))
    index.save()
    index.close()
    full = VectorIndex(tmp_path, "test", DIMENSIONS, FailingDisk())
    full.open()
    put(full, range(5, 9))
    with pytest.raises(OSError, match="No space left"):
        full.save()
    assert full.unsaved == 4
    again = reopened(full, tmp_path)
    assert again.rebuilt is None
    assert len(again) == 5


def test_killed_while_saving_it_has_the_save_before_or_the_new_one(tmp_path: Path) -> None:
    saved = 0
    for kill in range(6):
        with subprocess.Popen(
            [sys.executable, str(SAVER), str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            opening = process.stdout.readline().split()
            assert len(opening) == 2, f"it was rebuilt: {opening}"
            assert int(opening[1]) in (saved, saved + 50)
            saved = int(opening[1])
            for _ in range(1 + kill % 3):
                assert process.stdout.readline().startswith("saving")
                saved += 50
            saved -= 50
            process.send_signal(signal.SIGKILL)
            process.wait(HANG_S)
            later = [line for line in process.stdout if line.startswith("saving")]
            saved += 50 * len(later)
    index = opened(tmp_path)
    assert index.rebuilt is None
    assert len(index) in (saved, saved + 50)
    queries = [1, 60, len(index) - 1]
    assert all(hash_of(document) in index.kept for document in queries)


def test_each_embedder_has_a_folder_of_its_own() -> None:
    names = ["lexical-384-v1", "a/b", "a_b", "../../etc", "ü" * 300, ".", ""]
    folders = [directory_of(name) for name in names]
    assert len(set(folders)) == len(names)
    assert all(folder == os.path.basename(folder) and not folder.startswith(".") for folder in folders)


def test_what_is_saved_is_for_its_owner_alone(tmp_path: Path) -> None:
    index = opened(tmp_path / "vectors")
    put(index, range(5))
    index.save()
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "vectors").iterdir()}
    assert set(modes.values()) == {0o600}
    assert json.loads((tmp_path / "vectors" / "index.json").read_text().splitlines()[0])["generation"] == 1
