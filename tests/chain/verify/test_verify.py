from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chain.disk import Disk
from chain.entry.entry import Entry, commit_body, decode_entry, encode_body, encode_entry
from chain.entry.frame import NO_CHECKSUM, encode_frame
from chain.entry.reader import JournalReader
from chain.entry.record import EntryRecord, RawEntry, decode_payload, encode_entry_record, encode_payload
from chain.errors import VerifierKeyError
from chain.keys.keys import VKEYS_FILE
from chain.merkle.head import parse_head
from chain.notes.note import parse
from chain.verify.verify import Report, verify
from tests.chain.twins.forger import NO_SIGNATURE, Sealed, put_together, taken_apart
from tests.chain.twins.ledgers import KEYS, OTHER_KEYS, abandon, draft, fill, open_ledger
from weftos.cli.chain.coverage import coverage

VKEYS = (KEYS.ed25519.text, KEYS.mldsa.text)


def make(directory: Path, runs: int = 1, groups: int = 3) -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "keys").mkdir()
    (directory / "keys" / VKEYS_FILE).write_text("".join(f"{key}\n" for key in VKEYS))
    for _ in range(runs):
        fill(directory, groups, per_group=2)
    return directory


def ledger_files(directory: Path) -> list[Path]:
    return sorted(
        [
            *(directory / "journal").iterdir(),
            *(directory / "heads").iterdir(),
            directory / "keys" / VKEYS_FILE,
        ]
    )


def entry_spans(directory: Path) -> dict[Path, list[tuple[int, int, int]]]:
    """Of each segment, where the record of each entry lies: first byte, end, seq."""
    spans: dict[Path, list[tuple[int, int, int]]] = {}
    for path in sorted((directory / "journal").iterdir()):
        data = path.read_bytes()
        spans[path] = []
        for group in JournalReader(directory / "journal", Disk()).groups():
            for record in group.records if group.file == path.name else ():
                if isinstance(record, EntryRecord):
                    assert record.salt is not None and record.body_bytes is not None
                    encoded = encode_entry_record(record.leaf, record.salt, record.body_bytes)
                    at = data.index(encoded)
                    spans[path].append((at, at + len(encoded), record.entry.seq))
    return spans


def test_an_untouched_ledger_verifies_and_the_report_says_what_was_measured(tmp_path: Path) -> None:
    make(tmp_path, runs=2)
    report = verify(tmp_path, VKEYS)
    assert report.findings == []
    assert (report.origin, report.entries, report.size, report.full_size, report.provisional) == (
        KEYS.origin,
        12,
        12,
        12,
        0,
    )
    assert (report.torn_bytes, report.closed, report.pinned) == (0, True, True)
    assert not verify(tmp_path).pinned


def test_progress_ends_at_the_whole(tmp_path: Path) -> None:
    make(tmp_path, runs=2)
    seen: list[tuple[int, int]] = []
    verify(tmp_path, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] == sum(path.stat().st_size for path in (tmp_path / "journal").iterdir())


def test_every_flipped_byte_is_found_and_one_inside_an_entry_is_laid_to_that_entry(tmp_path: Path) -> None:
    make(tmp_path, runs=2, groups=2)
    spans = entry_spans(tmp_path)
    assert sum(map(len, spans.values())) == 8
    for path in ledger_files(tmp_path):
        content = path.read_bytes()
        inside = {at for start, end, _ in spans.get(path, ()) for at in range(start, end)}
        for at in range(len(content)):
            if at % (29 if at in inside else 211 if at > 400 else 17):  # make prove changes every one
                continue
            changed = bytearray(content)
            changed[at] ^= (0x01, 0x80, 0x04)[at // 3 % 3]
            path.write_bytes(changed)
            report = verify(tmp_path, VKEYS)
            assert report.findings, (path.name, at)
            seqs = {seq for start, end, seq in spans.get(path, ()) if start <= at < end}
            if seqs:
                assert {finding.seq for finding in report.findings} == seqs, (path.name, at, report.findings)
        path.write_bytes(content)


def test_every_byte_of_a_ledger_that_was_not_stopped_is_covered_too(tmp_path: Path) -> None:
    make(tmp_path, groups=2)
    drop_closing_frame(tmp_path)
    clean = verify(tmp_path)
    assert clean.findings == [] and not clean.closed
    path = next((tmp_path / "journal").iterdir())
    content = path.read_bytes()
    for at in range(0, len(content), 23):
        changed = bytearray(content)
        changed[at] ^= 0x40
        path.write_bytes(changed)
        assert verify(tmp_path).findings, at


def frames(path: Path) -> list[Sealed]:
    return taken_apart(path.read_bytes())[1]


def rebuild(path: Path, kept: list[Sealed]) -> None:
    """Write the segment anew with other payloads and right checksums, as a forger would."""
    path.write_bytes(put_together(taken_apart(path.read_bytes())[0], kept))


def drop_closing_frame(directory: Path) -> None:
    path = next((directory / "journal").iterdir())
    rebuild(path, frames(path)[:-1])


def forge(directory: Path, seq: int, *, relink: bool) -> None:
    """Give entry ``seq`` another body and the commitment to it; with ``relink`` also mend every hash link behind it."""
    path = next((directory / "journal").iterdir())
    sealed = frames(path)
    previous: bytes | None = None
    for index, frame in enumerate(sealed):
        records, note = decode_payload(frame.payload)
        if not any(isinstance(record, RawEntry) for record in records):
            continue
        encoded = []
        for record in records:
            if not isinstance(record, RawEntry):
                continue
            assert record.salt is not None and record.body is not None
            entry, body = decode_entry(record.leaf), record.body
            values = {name: getattr(entry, name) for name in Entry.__slots__}
            if previous is not None and relink:
                values["previous"] = previous
            if entry.seq == seq:
                body = encode_body({"to": "/user/a", "sender": "operator", "why": "forged"})
                values["commitment"] = commit_body(record.salt, body)
            leaf = encode_entry(Entry(**values))
            from chain.merkle.merkle import leaf_hash

            previous = leaf_hash(leaf)
            encoded.append(encode_entry_record(leaf, record.salt, body))
        sealed[index] = frame.with_payload(encode_payload(encoded, note))
    rebuild(path, sealed)


def test_a_forged_entry_with_right_checksums_is_named(tmp_path: Path) -> None:
    make(tmp_path, groups=3)
    forge(tmp_path, 2, relink=False)
    report = verify(tmp_path)
    assert {finding.seq for finding in report.findings if finding.seq >= 0} == {2}


def test_a_history_rewritten_with_all_its_links_contradicts_the_signed_heads(tmp_path: Path) -> None:
    make(tmp_path, groups=3)
    forge(tmp_path, 2, relink=True)
    report = verify(tmp_path)
    assert any(finding.kind == "root" for finding in report.findings)
    assert any("heads/" in finding.where for finding in report.findings)


def test_a_truncated_journal_is_noticed_wherever_it_ends(tmp_path: Path) -> None:
    make(tmp_path, groups=2)
    path = next((tmp_path / "journal").iterdir())
    content = path.read_bytes()
    rebuild(path, frames(path)[:2])
    entries_end = path.stat().st_size
    for size in range(0, len(content) - 1, 41):
        path.write_bytes(content[:size])
        report = verify(tmp_path)
        if size < entries_end:
            assert any(finding.kind == "truncated" for finding in report.findings), size
        else:
            assert not report.closed and (
                report.torn_bytes > 0 or size in {len(content), entries_end} or report.findings
            )
    path.unlink()
    assert [finding.kind for finding in verify(tmp_path).findings if finding.kind == "truncated"]


def test_an_incomplete_last_frame_after_a_crash_is_an_unacknowledged_tail(tmp_path: Path) -> None:
    make(tmp_path)
    abandon(open_ledger(tmp_path))
    path = sorted((tmp_path / "journal").iterdir())[-1]
    frame, _ = encode_frame(int(path.stem, 16), b"payload", NO_CHECKSUM, lambda digest: NO_SIGNATURE)
    with path.open("ab") as file:
        file.write(frame[:30])
    report = verify(tmp_path)
    assert (report.findings, report.torn_bytes, report.closed) == ([], 30, False)


def test_anything_behind_a_clean_stop_is_a_finding(tmp_path: Path) -> None:
    make(tmp_path)
    path = next((tmp_path / "journal").iterdir())
    for extra in (b"W", b"WFRM" + bytes(60)):
        content = path.read_bytes()
        with path.open("ab") as file:
            file.write(extra)
        assert verify(tmp_path).findings
        path.write_bytes(content)


def test_missing_heads_and_strange_files_are_findings(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "journal" / "notes.txt").write_text("x")
    assert [finding.kind for finding in verify(tmp_path).findings] == ["file"]
    (tmp_path / "journal" / "notes.txt").unlink()
    shutil.rmtree(tmp_path / "heads")
    assert [finding.where for finding in verify(tmp_path).findings] == ["heads/"]


def test_slots_older_than_the_journal_are_those_of_a_copy_and_said(tmp_path: Path) -> None:
    """In the order of the page, `heads/` first: the node goes on while the rest is copied."""
    make(tmp_path, runs=2, groups=1)
    shutil.copytree(tmp_path / "heads", tmp_path / "copied")
    fill(tmp_path, 2, per_group=2)
    shutil.rmtree(tmp_path / "heads")
    (tmp_path / "copied").rename(tmp_path / "heads")
    report = verify(tmp_path, VKEYS)
    assert (report.findings, report.slots, report.full_size) == ([], 4, 8)
    assert parse_head(parse(report.note).text).size == 8
    said = [row.why for row in coverage(report, local=True) if "heads/" in row.what]
    assert said == [
        "heads/ covers 4 entries, a full head in the journal 8: so it is in a copy of a node that ran"
    ]
    (tmp_path / "heads" / "b.note").unlink()
    assert [finding.where for finding in verify(tmp_path, VKEYS).findings] == ["heads/"]


def test_a_missing_segment_is_a_finding_that_names_the_entries(tmp_path: Path) -> None:
    make(tmp_path, runs=3, groups=1)
    sorted((tmp_path / "journal").iterdir())[1].unlink()
    lost = [finding for finding in verify(tmp_path).findings if finding.kind == "lost"]
    assert [finding.expected for finding in lost] == ["entries 2 to 3"]


def test_another_nodes_key_does_not_verify_this_ledger(tmp_path: Path) -> None:
    make(tmp_path)
    report = verify(tmp_path, [OTHER_KEYS.ed25519.text, OTHER_KEYS.mldsa.text])
    assert report.pinned and any(finding.kind == "keys" for finding in report.findings)
    with pytest.raises(VerifierKeyError):
        verify(tmp_path, [VKEYS[0][:-1]])


def test_calls_without_an_outcome_are_reported_as_open_and_are_no_finding(tmp_path: Path) -> None:
    import asyncio

    from chain.ledger.ledger import Draft

    make(tmp_path, groups=1)

    async def run() -> None:
        ledger = open_ledger(tmp_path)
        ledger.start(asyncio.get_running_loop())
        for ordinal in ("0.0", "0.1"):
            ledger.commit([Draft("tool.intent", {"turn": "t1", "ordinal": ordinal})])
        ledger.commit([Draft("tool.outcome", {"turn": "t1", "ordinal": "0.0"}), draft(1)])
        await ledger.close()

    asyncio.run(run())
    report: Report = verify(tmp_path)
    assert (report.findings, report.open_calls) == ([], [3])
