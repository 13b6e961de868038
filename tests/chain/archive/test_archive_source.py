"""An archive of a ledger whose older segments are gone holds what it would hold of the whole journal."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chain.archive import source as archive_source
from chain.archive.archive import Archive
from chain.errors import ChainError, DamageError
from chain.keys.keys import create_keys
from chain.ledger.ledger import Draft, StateChange
from chain.vectors.document import Document, encode_document
from tests.chain.twins.archives import append, load_all, open_ledger
from weftos.helpers.compact import compact

LIMITS = (256, 2**18)


def remembered(number: int) -> StateChange:
    document = Document(f"d{number}", "/user/a", "own", f"note {number}", f"text {number}", number, 1)
    return StateChange("doc", document.id, encode_document(document))


def group(number: int) -> list[Draft | StateChange]:
    """Two entries, a document, and now and then the end of one."""
    said = [Draft("message.dead", {"id": f"{number}.{at}", "to": "/user/a", "why": "w"}, at) for at in (1, 2)]
    gone = [StateChange("doc", f"d{number - 2}", None)] if number % 3 == 0 else []
    return [*said, remembered(number), *gone]


def compacted(data: Path) -> None:
    """Everything so far goes into a snapshot, and the segments away."""

    async def run() -> None:
        ledger = open_ledger(data)
        first = await ledger.upkeep.roll()
        await ledger.publish()
        snapshot = compact(data, ledger.upkeep.segment, LIMITS, ledger.upkeep.snapshot_digest)
        await ledger.upkeep.place_snapshot(first, bytes.fromhex(snapshot["digest"]))
        assert await ledger.upkeep.drop_before(first) > 0
        await ledger.close()

    asyncio.run(run())


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("written")
    create_keys(directory / "keys")
    append(directory, *map(group, range(20)), segment_bytes=4096)
    return directory


@pytest.fixture
def data(written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written, tmp_path / "data")


@pytest.fixture
def archive(data: Path) -> Iterator[Archive]:
    held = Archive(data / "archive" / "audit.duckdb", data)
    held.open()
    yield held
    held.close()


def content(archive: Archive) -> dict[str, list[Any]]:
    """All that is in the tables, but for where in the files it was read."""
    return {
        "entries": archive._run("SELECT * FROM entries ORDER BY seq"),
        "documents": archive._run("SELECT * FROM documents ORDER BY id"),
        "size": archive._run("SELECT seq, last_hash FROM position"),
    }


def of_the_whole(data: Path, tmp_path: Path) -> dict[str, list[Any]]:
    """What an archive holds that reads the ledger as it is now, its journal whole."""
    other = Archive(tmp_path / "whole.duckdb", data)
    other.open()
    load_all(other)
    try:
        return content(other)
    finally:
        other.close()


def test_a_new_archive_takes_tiles_documents_and_journal(
    data: Path, tmp_path: Path, archive: Archive
) -> None:
    whole = of_the_whole(data, tmp_path)
    compacted(data)
    assert load_all(archive) == 40
    assert content(archive) == whole
    assert len(whole["documents"]) == 14
    append(data, group(20))
    assert load_all(archive) == 42
    assert [document[0] for document in content(archive)["documents"]][-1:] == ["d9"]
    assert archive.rebuilt is None


def test_one_that_was_behind_goes_on_through_the_tiles(data: Path, tmp_path: Path, archive: Archive) -> None:
    assert archive.update(11) == 10
    archive.documents.take_changed()
    append(data, *map(group, range(20, 24)))
    whole = of_the_whole(data, tmp_path)
    compacted(data)
    assert load_all(archive) == 48
    assert content(archive) == whole
    everything, changed = archive.documents.take_changed()
    assert everything and len(changed) == len(whole["documents"])
    assert archive.rebuilt is None


def test_one_that_had_read_all_that_is_gone_goes_on_in_the_journal(data: Path, archive: Archive) -> None:
    load_all(archive)
    archive.documents.take_changed()
    compacted(data)
    append(data, group(30))
    assert load_all(archive) == 42
    everything, changed = archive.documents.take_changed()
    assert (everything, changed) == (False, {"d30": 30, "d28": -1})
    assert archive.rebuilt is None


def test_it_goes_on_after_a_stop_at_any_batch(
    data: Path, tmp_path: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = of_the_whole(data, tmp_path)
    compacted(data)
    monkeypatch.setattr(archive_source, "BATCH_ENTRIES", 3)
    monkeypatch.setattr(archive_source, "BATCH_BYTES", 200)
    monkeypatch.setattr(archive_source, "UPDATE_ENTRIES", 4)
    stored, store = [0], Archive._store

    def interrupted(self: Archive, batch: archive_source.Batch) -> None:
        store(self, batch)
        stored[0] += 1
        raise InterruptedError

    monkeypatch.setattr(Archive, "_store", interrupted)
    for _ in range(200):
        archive.close()
        archive.open()
        try:
            before = archive._position
            archive.update()
        except InterruptedError:
            if archive._position == before:
                monkeypatch.setattr(
                    Archive, "_store", store
                )  # the documents come in several batches: no progress yet
                monkeypatch.setattr(archive_source, "BATCH_BYTES", 2**20)
            continue
        if archive._position == before:
            break
    assert stored[0] > 13
    assert content(archive) == whole
    assert archive.rebuilt is None


def test_the_tiles_of_another_node_make_it_begin_again(tmp_path: Path, data: Path, archive: Archive) -> None:
    archive.update(11)
    other = tmp_path / "other"
    other.mkdir()
    create_keys(other / "keys")
    append(other, *map(group, range(9)))
    compacted(other)
    for name in ("journal", "ledger", "snapshot"):
        shutil.rmtree(data / name, ignore_errors=True)
        shutil.copytree(other / name, data / name)
    assert load_all(archive) == 18
    assert archive.rebuilt is not None
    assert "is not the one" in archive.rebuilt


def test_a_ledger_set_back_behind_it_makes_it_begin_again(
    tmp_path: Path, data: Path, archive: Archive
) -> None:
    compacted(data)
    for name in ("journal", "ledger", "snapshot"):
        shutil.copytree(data / name, tmp_path / name)
    append(data, *map(group, range(30, 34)))
    compacted(data)
    assert load_all(archive) == 48
    for name in ("journal", "ledger", "snapshot"):
        shutil.rmtree(data / name)
        (tmp_path / name).rename(data / name)
    assert load_all(archive) == 40
    assert archive.rebuilt is not None


def test_an_archive_of_a_journal_that_is_gone_holds_nothing(data: Path, archive: Archive) -> None:
    load_all(archive)
    for path in (data / "journal").iterdir():
        path.unlink()
    assert load_all(archive) == 0
    assert "is gone" in str(archive.rebuilt)


def test_published_entries_that_are_missing_are_an_error_in_words(data: Path, archive: Archive) -> None:
    compacted(data)
    shutil.rmtree(data / "ledger" / "tile")
    with pytest.raises(ChainError, match="ledger/tile"):
        archive.update()
    assert archive.size == 0


def test_a_damaged_snapshot_is_an_error_and_no_endless_rebuilding(data: Path, archive: Archive) -> None:
    compacted(data)
    path = data / "snapshot" / "state.ws"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamageError, match="snapshot"):
        archive.update()
    assert archive.log() == []
