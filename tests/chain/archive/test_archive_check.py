"""An archive's database alone: that it verifies, and that whatever somebody changes in it is found and named."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chain.archive.archive import Archive
from chain.archive.check import check_database
from chain.archive.file import ArchiveBusy
from chain.archive.rows import body_of, body_text
from chain.archive.views import VIEWS
from chain.audit.findings import Finding
from chain.disk import Disk
from chain.entry.entry import decode_body, encode_body
from chain.keys.key_change import adopt_keys, prepare_keys
from chain.keys.keys import create_keys, load_keys
from chain.keys.rotation import KeyPair, rotation_body
from chain.ledger.ledger import Draft
from chain.state.history import History
from tests.chain.twins.archives import append, archive_of, meddle
from tests.chain.twins.rotating_child import boot
from tests.endless import ENDLESS, put_endless
from tests.patience import HANG_S

COUNT = 12


def said(number: int, text: str = "w") -> Draft:
    return Draft("message.dead", {"id": str(number), "to": "/user/a", "why": f"{text}{number}"}, number % 3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with an archive: one entry has bytes in its body, two are said to be erased."""
    data = tmp_path_factory.mktemp("whole") / "data"
    data.mkdir()
    create_keys(data / "keys")
    drafts = [said(number) for number in range(COUNT - 2)]
    drafts.append(
        Draft("message.dropped", {"id": b"\x00\xff", "n": [1.5, -0.0, 2**63, None, {"ü": "\x00"}]}, 0)
    )
    drafts.append(Draft("erase", {"ranges": [[3, 4]], "by": "operator", "reason": "asked"}, 0))
    append(data, *drafts)
    archive_of(data)
    return data


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "data")
    return tmp_path / "data"


def database(data: Path) -> Path:
    return data / "archive" / "audit.duckdb"


def keys(data: Path) -> KeyPair:
    return load_keys(data / "keys").pair


def check(data: Path, *, with_ledger: bool = False) -> list[Finding]:
    leaves = (record.leaf_hash for record in History(data).entries())
    return check_database(database(data), keys(data), leaves if with_ledger else None)


def told(findings: list[Finding]) -> set[tuple[int, str]]:
    return {(finding.seq, finding.kind) for finding in findings}


def short(value: object) -> str:
    """The name of a test: of sets only the size, as their order changes from process to process."""
    return str(len(value)) if isinstance(value, set) else str(value)[:70]


def test_a_database_verifies_alone_and_against_its_ledger(data: Path) -> None:
    before = database(data).read_bytes()
    assert check(data) == check(data, with_ledger=True) == []
    assert database(data).read_bytes() == before
    assert [path.name for path in (data / "archive").iterdir()] == ["audit.duckdb"]


def test_one_of_an_empty_ledger_verifies(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    create_keys(tmp_path / "data" / "keys")
    append(tmp_path / "data")
    archive_of(tmp_path / "data")
    assert check(tmp_path / "data", with_ledger=True) == []


def test_one_that_is_behind_its_ledger_verifies_up_to_where_it_is(data: Path) -> None:
    append(data, *map(said, range(20, 30)))
    assert check(data, with_ledger=True) == []


def test_bodies_that_were_erased_may_be_missing_where_an_entry_says_so(data: Path) -> None:
    meddle(database(data), "UPDATE entries SET body = NULL, salt = NULL WHERE seq IN (3, 4)")
    assert check(data, with_ledger=True) == []
    meddle(database(data), "UPDATE entries SET body = NULL, salt = NULL WHERE seq = 5")
    assert told(check(data)) == {(5, "erased")}


def rotated(data: Path) -> None:
    """Change the keys, and write on under the new ones."""

    async def run() -> None:
        ledger = boot(data, Disk())
        ledger.start(asyncio.get_running_loop())
        new = prepare_keys(data, ledger.keys, Disk())
        await (await ledger.rotate(new, rotation_body(ledger.keys, new, 1, "a test"))).durable()
        adopt_keys(data, ledger.keys, Disk())
        await ledger.commit([said(30)], durable=True).durable()
        await ledger.close()

    asyncio.run(run())
    archive_of(data)


def test_it_follows_the_keys_from_the_first_ones_through_their_changes(data: Path) -> None:
    first = keys(data)
    rotated(data)
    assert check_database(database(data), first) == []
    assert told(check_database(database(data), keys(data))) == {(COUNT, "rotation")}
    meddle(
        database(data), f"UPDATE entries SET body = NULL, salt = NULL, body_bytes = NULL WHERE seq = {COUNT}"
    )
    assert told(check_database(database(data), first)) == {(COUNT, "erased"), (-1, "head")}


CHANGES = [
    ("UPDATE entries SET kind = 'message.dropped' WHERE seq = 6", {(6, "columns")}),
    ("UPDATE entries SET pid = 77 WHERE seq = 6", {(6, "columns")}),
    ("UPDATE entries SET time_us = time_us + 1 WHERE seq = 6", {(6, "columns")}),
    ("UPDATE entries SET subject = 'x' WHERE seq = 6", {(6, "columns")}),
    ("UPDATE entries SET cause = 2 WHERE seq = 6", {(6, "columns")}),
    ("UPDATE entries SET count = count + 1 WHERE seq = 6", {(6, "columns")}),
    ("UPDATE entries SET node = 'weftos-other' WHERE seq = 6", {(6, "columns")}),
    ("UPDATE entries SET trace = repeat('0', 32) WHERE seq = 6", {(6, "columns")}),
    ("UPDATE entries SET trace = 'zz' WHERE seq = 6", {(6, "entry")}),
    ("UPDATE entries SET kind = 'No kind' WHERE seq = 6", {(6, "entry")}),
    ("UPDATE entries SET body = replace(body, 'w6', 'w7') WHERE seq = 6", {(6, "commitment")}),
    ("UPDATE entries SET body = '[]' WHERE seq = 6", {(6, "body")}),
    ("UPDATE entries SET body = '{\"a\":' || repeat('[', 900) || repeat(']', 900) || '}' WHERE seq = 6",
     {(6, "body")}),
    ("UPDATE entries SET body = NULL WHERE seq = 6", {(6, "body")}),
    ("UPDATE entries SET salt = NULL WHERE seq = 6", {(6, "body")}),
    ("UPDATE entries SET salt = '\\x00'::BLOB WHERE seq = 6", {(6, "commitment")}),
    ("UPDATE entries SET body = '{\"why\": \"x\", ' || body[2:] WHERE seq = 6", {(6, "body")}),
    ("UPDATE entries SET body = replace(body, '00ff', '00fe') WHERE seq = 10", {(10, "body")}),
    ("UPDATE entries SET body_bytes = '\\x80'::BLOB WHERE seq = 10", {(10, "commitment")}),
    ("UPDATE entries SET body_bytes = '\\xff'::BLOB WHERE seq = 10", {(10, "body")}),
    ("UPDATE entries SET body_bytes = NULL WHERE seq = 10", {(10, "commitment")}),
    ("UPDATE entries SET commitment = salt WHERE seq = 6", {(6, "columns"), (6, "commitment")}),
    ("UPDATE entries SET leaf_hash = salt WHERE seq = 6", {(6, "columns"), (7, "columns"), (-1, "root")}),
    ("UPDATE entries SET leaf_hash = '\\x00'::BLOB WHERE seq = 6", {(6, "columns"), (7, "columns"), (-1, "root")}),
    ("UPDATE entries SET seq = 99 WHERE seq = 6", {(6, "missing"), (7, "columns"), (-1, "head")}),
    ("DELETE FROM entries WHERE seq = 6", {(-1, "entries"), (6, "missing"), (7, "columns"), (-1, "head")}),
    ("DELETE FROM entries WHERE seq >= 6", {(-1, "entries"), (6, "missing"), (-1, "head")}),
    ("INSERT INTO entries SELECT * FROM entries WHERE seq = 6", {(-1, "entries"), (6, "seq")}),
    ("DELETE FROM entries", {(-1, "entries"), (0, "missing"), (-1, "head")}),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "found"), CHANGES, ids=short)
def test_a_change_is_found_and_named(data: Path, statement: str, found: set[tuple[int, str]]) -> None:
    meddle(database(data), statement)
    assert told(check(data)) == found


def _forged(data: Path) -> None:
    """A database of another history, made by somebody who has everything but the secret keys."""
    other = data.parent / "other"
    other.mkdir()
    shutil.copytree(data / "keys", other / "keys")
    append(other, *(said(number, "forged ") for number in range(COUNT)))
    archive_of(other)
    shutil.copy(database(other), database(data))


def test_a_whole_other_history_under_the_same_keys_is_found_by_the_ledger_alone(data: Path) -> None:
    _forged(data)
    assert check(data) == []
    assert told(check(data, with_ledger=True)) == {(number, "leaf") for number in range(COUNT)}


def test_rewritten_hashes_are_found_by_the_root(data: Path, whole: Path) -> None:
    """The rows of another history with the heads of this one."""
    heads = f"ATTACH '{database(whole)}' AS true_one (READ_ONLY)"
    _forged(data)
    meddle(
        database(data),
        heads,
        "UPDATE position SET head = t.head, full_head = t.full_head FROM true_one.position t",
    )
    assert told(check(data)) == {(-1, "root")}


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE position SET head = NULL, full_head = NULL", {(-1, "head")}),
        ("UPDATE position SET head = 'x'::BLOB", {(-1, "head")}),
        ("UPDATE position SET full_head = head", {(-1, "head")}),
        ("UPDATE position SET seq = 11", {(-1, "entries"), (-1, "head")}),
        ("UPDATE position SET seq = NULL", {(-1, "position")}),
        ("UPDATE position SET origin = 'weftos-x'", {(-1, "origin")}),
        ("UPDATE position SET format = 'x'", {(-1, "position")}),
        ("DELETE FROM position", {(-1, "position"), (-1, "head")}),
        ("INSERT INTO position SELECT * FROM position", {(-1, "position")}),
        ("CREATE TABLE more (x INT)", {(-1, "table")}),
        ("ALTER TABLE entries ADD COLUMN more INT", {(-1, "table")}),
        ("DROP VIEW denials", {(-1, "view")}),
        ("CREATE OR REPLACE VIEW denials AS SELECT * FROM entries WHERE false", {(-1, "view")}),
        ("CREATE MACRO make_timestamp(x) AS NULL", {(-1, "function")}),
        ("DROP INDEX documents_by_seq", {(-1, "index")}),
    ],
    ids=short,
)  # fmt: skip
def test_what_stands_beside_the_entries_is_held_to_as_well(
    data: Path, statement: str, found: set[tuple[int, str]]
) -> None:
    meddle(database(data), statement)
    assert told(check(data)) == found


def test_the_keys_of_another_node_verify_nothing(data: Path, tmp_path: Path) -> None:
    other = create_keys(tmp_path / "keys").pair
    kinds = {finding.kind for finding in check_database(database(data), other)}
    assert kinds == {"origin", "node", "head"}


@pytest.mark.parametrize("at", [0, 8, 4096, 5000, 12288, 20000, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("harm", ["flip", "cut", "zero"])
def test_damage_of_the_file_is_a_finding(data: Path, at: int | float, harm: str) -> None:
    whole = database(data).read_bytes()
    content = bytearray(whole)
    place = min(int(at * len(content)) if isinstance(at, float) else at, len(content) - 1)
    if harm == "flip":
        content[place] ^= 4
    elif harm == "cut":
        del content[place:]
    else:
        content[place : place + 4096] = bytes(len(content[place : place + 4096]))
    database(data).write_bytes(content)
    findings = check(data)
    assert findings or content == whole
    assert all(finding.kind in ("database", "table", "position") for finding in findings)


def _garbage(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [_garbage, _empty])
def test_what_is_no_database_is_a_finding(data: Path, harm: Callable[[Path], None]) -> None:
    harm(database(data))
    assert check(data) != []


def test_one_that_another_process_has_open_is_busy_by_name(data: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from chain.archive.archive import Archive\n"
        f"archive = Archive(Path({str(database(data))!r}), Path({str(data)!r}))\n"
        "archive.open(); print('open', flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(ArchiveBusy, match=r"audit\.duckdb is open in another process"):
            check(data)
        holder.communicate(timeout=HANG_S)
    assert check(data) == []


def test_one_that_this_process_has_open_is_busy_too(data: Path) -> None:
    archive = Archive(database(data), data)
    archive.open()
    try:
        with pytest.raises(ArchiveBusy, match="open in this process"):
            check(data)
    finally:
        archive.close()


def test_a_file_that_is_not_there_is_no_finding(tmp_path: Path, data: Path) -> None:
    with pytest.raises(FileNotFoundError):
        check_database(tmp_path / "none.duckdb", keys(data))


def test_every_view_is_among_what_is_held_to(data: Path) -> None:
    for name in VIEWS:
        meddle(database(data), f"DROP VIEW IF EXISTS {name} CASCADE")
    assert len([finding for finding in check(data) if finding.kind == "view"]) == len(VIEWS)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text() | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(), VALUES, max_size=5))
def test_a_body_without_bytes_can_be_made_of_its_text_again(body: dict[str, object]) -> None:
    packed = encode_body(body)
    text, complete = body_text(decode_body(packed))
    if complete:
        assert body_of(text) == packed
    else:
        assert _has_bytes(body)


def _has_bytes(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_bytes, value.values()))
    return any(map(_has_bytes, value)) if isinstance(value, list) else isinstance(value, bytes)


@ENDLESS
def test_a_database_that_is_no_file_is_not_waited_for(data: Path, kind: str) -> None:
    put_endless(data / "archive" / "audit.duckdb", kind)
    with pytest.raises(OSError, match="not a regular file"):
        check_database(data / "archive" / "audit.duckdb", load_keys(data / "keys").pairs[0])
