from __future__ import annotations

import asyncio
import contextlib
import itertools
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from chain.archive import archive as module
from chain.archive import source as archive_source
from chain.archive.archive import Archive, ArchiveBusy, ArchiveUnavailable
from chain.disk import Disk
from chain.entry.reader import EntryRecord, JournalReader, ReadGroup
from chain.errors import DamageError
from chain.keys.keys import create_keys, load_keys
from chain.ledger.ledger import Draft, Ledger, Tuning
from tests.patience import HANG_S

Node = Callable[..., None]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    create_keys(directory / "keys")
    return directory


def append(data: Path, *drafts: Draft, **options: Any) -> None:
    """What a node does: open, commit each draft in a group of its own, stop cleanly."""

    async def run() -> None:
        clock = itertools.count(1_700_000_000_000_000)
        keys = load_keys(data / "keys")
        ledger = Ledger.open(data, keys, now_us=lambda: next(clock), tuning=Tuning(**options))
        ledger.start(asyncio.get_running_loop())
        for draft in drafts:
            await ledger.commit([draft], durable=True).durable()
        await ledger.close()

    asyncio.run(run())


def drafts(count: int, **fields: Any) -> list[Draft]:
    return [Draft(**{"kind": "message.dead", "body": {"id": str(n), "to": "/user/a", "why": "w"}, **fields})
            for n in range(count)]  # fmt: skip


@pytest.fixture
def archive(data: Path) -> Iterator[Archive]:
    held = Archive(data / "archive" / "audit.duckdb", data)
    held.open()
    yield held
    held.close()


def seqs(rows: list[dict[str, Any]]) -> list[int]:
    return [row["seq"] for row in rows]


def test_entries_arrive_with_every_field(data: Path, archive: Archive) -> None:
    body = {"id": "m\x00ü", "list": [1, {"b": b"\x01\xff"}], "none": None}
    append(data, Draft("tool.intent", body, pid=7, subject="t1", trace=bytes(range(16)), cause=-1))
    assert archive.update() == 1
    (row,) = archive.log()
    assert {key: row[key] for key in ("seq", "pid", "count", "kind", "subject", "cause")} == {
        "seq": 0, "pid": 7, "count": 0, "kind": "tool.intent", "subject": "t1", "cause": -1}  # fmt: skip
    assert row["trace"] == bytes(range(16)).hex()
    assert row["node"] == load_keys(data / "keys").origin
    assert row["time_us"] >= 1_700_000_000_000_000
    assert row["body"] == {"id": "m\x00ü", "list": [1, {"b": "01ff"}], "none": None}


def test_it_follows_a_journal_that_grows_over_several_segments(data: Path, archive: Archive) -> None:
    assert archive.update() == 0
    append(data, *drafts(5), segment_bytes=1024)
    assert archive.update() == 5
    append(data, *drafts(5), segment_bytes=1024)
    assert archive.update() == 10
    assert len(list((data / "journal").iterdir())) > 2
    assert seqs(archive.log(limit=100)) == list(range(10))
    assert archive.rebuilt is None


def test_nothing_beyond_what_is_durable_is_loaded(data: Path, archive: Archive) -> None:
    append(data, *drafts(5))
    assert archive.update(3) == 3
    assert archive.update(5) == 5


def test_a_long_journal_is_loaded_in_several_updates(
    data: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_source, "BATCH_ENTRIES", 2)
    monkeypatch.setattr(archive_source, "UPDATE_ENTRIES", 4)
    append(data, *drafts(9))
    assert [archive.update() for _ in range(4)] == [4, 8, 9, 9]
    assert seqs(archive.log()) == list(range(9))


def test_questions_by_pid_kind_noun_limit_and_place(data: Path, archive: Archive) -> None:
    append(
        data, *drafts(3, pid=1), *drafts(3, pid=2, kind="tool.intent"), *drafts(1, pid=2, kind="turn.ended")
    )
    archive.update()
    assert seqs(archive.log(pid=2)) == [3, 4, 5, 6]
    assert seqs(archive.log(kind="tool")) == [3, 4, 5]
    assert seqs(archive.log(kind="tool.intent", limit=2)) == [4, 5]
    assert seqs(archive.log(before=4, limit=2)) == [2, 3]
    assert (
        archive.log(pid=2**70)
        == archive.log(kind="' OR true --")
        == archive.log(kind="too")
        == archive.log(before=0)
        == []
    )
    assert seqs(archive.log(limit=-5)) == [6]


def test_an_answer_is_bounded_in_bytes_and_holds_at_least_the_newest(
    data: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(data, *drafts(4, body={"text": "x" * 3000}))
    archive.update()
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 8000)
    assert seqs(archive.log()) == [2, 3]
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 10)
    assert seqs(archive.log()) == [3]


def test_an_archive_goes_on_where_it_was_after_a_restart(data: Path, archive: Archive) -> None:
    append(data, *drafts(4))
    archive.update()
    archive.close()
    append(data, *drafts(2))
    archive.open()
    assert archive.size == 4
    assert archive.update() == 6
    assert seqs(archive.log()) == list(range(6))
    assert archive.rebuilt is None


def _garbage(path: Path) -> None:
    path.write_bytes(b"not a database" * 1000)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[9000] ^= 1
    path.write_bytes(data)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _foreign_tables(path: Path) -> None:
    path.unlink()
    with duckdb.connect(str(path)) as other:
        other.execute("CREATE TABLE entries (seq BIGINT); CREATE TABLE mine (x INT)").fetchall()


def _other_format(path: Path) -> None:
    with duckdb.connect(str(path)) as other:
        other.execute("UPDATE position SET format = 'weftos-archive 99'").fetchall()


def _half_made(path: Path) -> None:
    """Killed between the two statements that say what it is and where it stands."""
    with duckdb.connect(str(path)) as other:
        other.execute("DELETE FROM position").fetchall()
        other.execute("INSERT INTO position (format) VALUES (?)", [module.FORMAT]).fetchall()


def _other_types(path: Path) -> None:
    with duckdb.connect(str(path)) as other:
        other.execute("ALTER TABLE position ALTER byte TYPE VARCHAR").fetchall()


HARMS = [_garbage, _empty, _flipped, _cut, _foreign_tables, _other_format, _half_made, _other_types]


@pytest.mark.parametrize("harm", HARMS)
def test_a_database_that_is_damaged_or_foreign_is_built_again(
    data: Path, archive: Archive, harm: Callable[[Path], None]
) -> None:
    append(data, *drafts(4))
    archive.update()
    archive.close()
    harm(data / "archive" / "audit.duckdb")
    archive.open()
    assert archive.rebuilt
    assert archive.update() == 4
    assert seqs(archive.log()) == [0, 1, 2, 3]


def test_damage_that_only_a_question_finds_is_mended_before_the_answer(data: Path, archive: Archive) -> None:
    append(data, *drafts(4))
    archive.update()
    archive.close()
    with duckdb.connect(str(data / "archive" / "audit.duckdb")) as other:
        other.execute("UPDATE entries SET body = NULL; DROP TABLE entries").fetchall()
        other.execute("CREATE VIEW entries AS SELECT *, error('gone') AS body FROM (SELECT 0 AS seq, 0 AS time_us, "
                      "'' AS node, 0 AS pid, 0 AS count, '' AS kind, '' AS subject, '' AS trace, 0 AS cause, "
                      "''::BLOB AS commitment, ''::BLOB AS leaf_hash, ''::BLOB AS salt, ''::BLOB AS body_bytes)"
                      ).fetchall()  # fmt: skip
    archive.open()
    assert seqs(archive.log()) == [0, 1, 2, 3]
    assert archive.rebuilt is not None


def test_an_archive_of_another_journal_is_built_again(tmp_path: Path, data: Path, archive: Archive) -> None:
    append(data, *drafts(4))
    archive.update()
    other = tmp_path / "other"
    other.mkdir()
    create_keys(other / "keys")
    append(other, *drafts(9))
    shutil.rmtree(data / "journal")
    shutil.copytree(other / "journal", data / "journal")
    assert archive.update() == 9
    assert {row["node"] for row in archive.log()} == {load_keys(other / "keys").origin}
    assert archive.rebuilt is not None


def test_an_archive_that_is_ahead_of_a_journal_set_back_is_built_again(data: Path, archive: Archive) -> None:
    append(data, *drafts(2))
    shutil.copytree(data / "journal", data / "earlier")
    append(data, *drafts(3))
    assert archive.update() == 5
    shutil.rmtree(data / "journal")
    (data / "earlier").rename(data / "journal")
    assert archive.update() == 2
    assert seqs(archive.log()) == [0, 1]


def test_a_garbled_write_ahead_log_loses_no_entry(data: Path, archive: Archive) -> None:
    append(data, *drafts(4))
    archive.update()
    archive.close()
    (data / "archive" / "audit.duckdb.wal").write_bytes(b"x" * 5000)
    archive.open()
    assert archive.update() == 4
    assert seqs(archive.log()) == [0, 1, 2, 3]


def test_a_torn_last_frame_is_left_for_later(data: Path, archive: Archive) -> None:
    append(data, *drafts(3))
    third = next(group for group in JournalReader(data / "journal", Disk()).groups() if _holds(group, 2))
    segment = data / "journal" / third.file
    whole = segment.read_bytes()
    segment.write_bytes(whole[: third.offset + 100])
    loaded = archive.update()
    segment.write_bytes(whole)
    assert (loaded, archive.update()) == (2, 3)
    assert archive.rebuilt is None


def _holds(group: ReadGroup, seq: int) -> bool:
    return any(isinstance(record, EntryRecord) and record.entry.seq == seq for record in group.records)


def test_damage_in_the_journal_itself_is_an_error_and_no_endless_rebuilding(
    data: Path, archive: Archive
) -> None:
    append(data, *drafts(3))
    segment = sorted((data / "journal").iterdir())[0]
    content = bytearray(segment.read_bytes())
    content[300] ^= 1
    segment.write_bytes(content)
    with pytest.raises(DamageError):
        archive.update()
    assert archive.log() == []


def test_no_statement_reaches_another_file_or_changes_the_configuration(
    tmp_path: Path, archive: Archive
) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    database = archive._database
    assert database is not None
    for statement in (
        f"SELECT * FROM read_csv('{secret}')",
        f"COPY entries TO '{tmp_path / 'out.csv'}'",
        f"ATTACH '{tmp_path / 'other.duckdb'}'",
        f"EXPORT DATABASE '{tmp_path / 'dump'}'",
        "INSTALL httpfs",
        "LOAD httpfs",
    ):
        with pytest.raises(duckdb.PermissionException):
            database.execute(statement).fetchall()
    for setting in ("enable_external_access = true", "lock_configuration = false", "memory_limit = '64GB'"):
        with pytest.raises(duckdb.InvalidInputException, match="locked"):
            database.execute(f"SET {setting}").fetchall()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "secret.csv"]


def test_a_file_open_in_another_process_is_named_and_not_deleted(data: Path, archive: Archive) -> None:
    append(data, *drafts(2))
    archive.update()
    archive.close()
    path = data / "archive" / "audit.duckdb"
    code = (
        f"import duckdb, sys; c = duckdb.connect({str(path)!r}); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(ArchiveBusy, match="another process"):
            archive.open()
        holder.communicate(timeout=HANG_S)
    archive.open()
    assert archive.size == 2


def test_a_closed_archive_says_so(data: Path) -> None:
    with pytest.raises(ArchiveUnavailable, match="not open"):
        Archive(data / "archive" / "audit.duckdb", data).log()


@contextlib.contextmanager
def full_disk(room: int) -> Iterator[None]:
    """No file grows beyond ``room`` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 4096, 12_288, 20_000])  # for nothing; the header; the file; some tables
def test_an_archive_that_could_not_be_made_anew_is_made_when_there_is_room(
    data: Path, archive: Archive, room: int
) -> None:
    append(data, *drafts(4))
    archive.update()
    with full_disk(room):
        for work in (lambda: archive.rebuild("a test"), archive.update, archive.log):
            with pytest.raises(ArchiveUnavailable, match="cannot be made"):
                work()
    assert archive.update() == 4
    assert seqs(archive.log()) == [0, 1, 2, 3]
    assert archive.query("SELECT count(*) FROM entries", 1).rows == [[4]]


def test_an_archive_that_could_not_be_opened_again_is_opened_later(
    data: Path, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(data, *drafts(4))
    archive.update()

    def given_up() -> None:
        raise duckdb.FatalException("a test")

    def refused(path: Path | None) -> duckdb.DuckDBPyConnection:
        raise duckdb.IOException(f"Could not set lock on {path}")

    with monkeypatch.context() as patched, pytest.raises(ArchiveUnavailable, match="Could not set lock"):
        patched.setattr(module, "connect", refused)
        archive.ask(given_up)
    assert seqs(archive.log()) == [0, 1, 2, 3]
    assert archive.rebuilt is None


def test_the_files_of_an_archive_that_is_built_again_are_gone_for_good(data: Path) -> None:
    """No power cut may bring back what they held of entries that were erased since."""
    path = data / "archive" / "audit.duckdb"
    gone_at_sync: list[bool] = []

    class Watching(Disk):
        def sync_directory(self, directory: Path) -> None:
            if directory == path.parent:
                gone_at_sync.append(not path.exists())
            super().sync_directory(directory)

    held = Archive(path, data, Watching())
    held.open()
    held.rebuild("a test")
    held.close()
    assert gone_at_sync == [True]


def test_what_is_about_a_message_is_found_by_subject_or_turn_and_by_nothing_else(
    data: Path, archive: Archive
) -> None:
    exited = {"address": "/a", "pid": 7, "reason": "crash", "detail": "d"}
    about: dict[str, Any] = {
        "kinds": ["message.dead", "process.exited"],
        "subjects": ["m2", "t2"],
        "turn": "t2",
    }
    append(
        data,
        *drafts(1, subject="m1"),
        *drafts(1, subject="m2"),
        Draft("process.exited", {**exited, "turn": "t2"}, 7),
        Draft("process.exited", {**exited, "turn": "t3"}, 7),
        Draft("message.replayed", {"id": "m2", "to": "/a", "as": "m9"}, subject="m2"),
        *drafts(1, subject="m2"),
    )
    archive.update()
    assert seqs(archive.about(**about, since=-1, limit=10)) == [1, 2, 5]
    assert seqs(archive.about(**about, since=2, limit=10)) == [2, 5]
    assert seqs(archive.about(**about, since=-1, limit=1)) == [5]
    assert archive.about([], [], "", since=-1, limit=10) == []
