"""What whoever hands out a ledger might try: a part that is not looked at, or takes for ever; and a node that runs."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgpack
import pytest

from chain.disk import Disk
from chain.entry.entry import decode_entry
from chain.entry.frame import NO_CHECKSUM, SegmentHeader, encode_frame, encode_segment_header, frame_statement
from chain.entry.record import Unreadable, salvage_payload
from chain.errors import DamageError, EntryError
from chain.merkle.merkle import leaf_hash
from chain.verify.verify import verify
from chain.verify.verify_bundle import verify_bundle
from chain.verify.verify_tiles import verify_tiles
from tests.chain.twins.ledgers import KEYS, draft, fill, open_ledger
from tests.chain.twins.published import FIRST, Published, ledger

KEY = FIRST.vkeys


def grown(word: str, count: int, common: int = 0) -> Published:
    made = Published([FIRST])
    for number in range(count):
        made.add("message.refused", {"why": f"{word if number >= common else ''}{number}"})
    return made


def checkpoint(size: int) -> bytes:
    """One that nobody signed."""
    root, line = base64.b64encode(bytes(32)), base64.b64encode(bytes(68))
    note = f"{FIRST.origin}\n{size}\n{root.decode()}\n\n— {FIRST.origin} {line.decode()}\n"
    return note.encode()


def bundle(path: Path, kind: str, records: list[list[Any]]) -> Path:
    """A bundle with a right checksum, signed by nobody."""
    size = len(records)
    header = {"count": size, "format": 1, "kind": kind, "origin": FIRST.origin, "size": size}
    blocks = [msgpack.packb(header), checkpoint(size), ledger(1).vkeys, *map(msgpack.packb, records)]
    data = b"WEFTBND\x01" + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)
    path.write_bytes(data + sha256(data).digest())
    return path


def test_a_fork_is_refused_although_the_part_that_was_seen_is_not_read(tmp_path: Path) -> None:
    honest, forged = grown("honest", 600), grown("forged", 600, common=50)
    seen = honest.checkpoint(200)
    honest.write_tiles(tmp_path / "honest")
    forged.write_tiles(tmp_path / "forged")
    assert verify_tiles(tmp_path / "honest", KEY, seen=[seen], start=512).findings == []
    assert "rolled back" in {
        finding.kind for finding in verify_tiles(tmp_path / "forged", KEY, seen=[seen], start=512).findings
    }
    shutil.copy(tmp_path / "honest" / "tile" / "0" / "000", tmp_path / "forged" / "tile" / "0" / "000")
    assert verify_tiles(tmp_path / "forged", KEY, seen=[seen], start=512).findings != []


@pytest.mark.parametrize("trace", ["", [], {}, "x" * 16, [None] * 16], ids=repr)
def test_a_field_of_the_right_length_and_another_type_is_refused(trace: object) -> None:
    made = ledger(2)
    made.add("message.refused", {"why": "x"}, 0, trace=trace)
    with pytest.raises(EntryError, match="trace is"):
        decode_entry(made.items[2].leaf)


def test_many_calls_that_lack_their_outcomes_take_no_more_time_each(tmp_path: Path) -> None:
    count, previous, records = 12_000, bytes(32), []
    for seq in range(2 * count):
        body, salt = msgpack.packb({"ordinal": seq, "turn": "t"}), bytes(32)
        kind, cause = ("tool.intent", -1) if seq < count else ("tool.outcome", 2 * count - 1 - seq)
        fields = [
            1,
            seq,
            1,
            FIRST.origin,
            0,
            seq,
            kind,
            "",
            b"",
            cause,
            sha256(salt + body).digest(),
            previous,
        ]
        leaf = msgpack.packb(fields)
        previous = leaf_hash(leaf)
        records.append([leaf, salt, body, []] if seq < count else [leaf, None, None, []])
    report = verify_bundle(bundle(tmp_path / "calls.bundle", "full", records), KEY)
    assert report.erased == count and report.open_calls == []
    assert report.findings != []


def test_findings_are_bounded_and_so_is_the_reading(tmp_path: Path) -> None:
    rubbish = bundle(tmp_path / "many.bundle", "partial", [[b"", None, None, []]] * 100_000)
    report = verify_bundle(rubbish, KEY)
    assert 1_000 <= len(report.findings) < 1_100
    folder, one = tmp_path / "farm", ledger(1)
    one.write_tiles(folder)
    (folder / "checkpoint").write_bytes(checkpoint(2**62))
    leaf = one.items[0].leaf
    for kind, item in (("entries", len(leaf).to_bytes(2, "big") + leaf), ("bodies", bytes(4))):
        place = folder / "tile" / kind
        shutil.rmtree(place)
        place.mkdir()
        (place / "000").write_bytes(item * 256)
        for number in range(1_000):
            os.symlink(".", place / f"x{number:03}")
            if number:
                os.symlink("000", place / f"{number:03}")
    assert verify_tiles(folder, KEY).findings != []


def test_a_damaged_frame_made_to_be_searched_is_given_up(tmp_path: Path) -> None:
    payload = b"\x92" + b"\x94\x01" * 200_000 + b"\xc1"
    assert any(isinstance(item, Unreadable) for item in salvage_payload(payload))
    header = encode_segment_header(SegmentHeader(0, NO_CHECKSUM, KEYS.origin))
    frame, _ = encode_frame(0, payload, header[-32:], _sign)
    for name in ("journal", "keys"):
        (tmp_path / name).mkdir()
    (tmp_path / "keys" / "vkeys.txt").write_bytes(KEYS.pair.text.encode())
    (tmp_path / "journal" / "0000000000000000.wj").write_bytes(header + frame[:-1] + bytes([frame[-1] ^ 1]))
    assert verify(tmp_path, KEYS.pair.text.split()).findings != []


DEEP = b"\x91" * 1000 + b"\xc0"  # a list in a list in a list: more than Python can print


def test_what_is_nested_too_deep_to_be_printed_is_refused(tmp_path: Path) -> None:
    made = ledger(20)
    made.items[10] = replace(made.items[10], leaf=b"\x9c" + DEEP + b"\x01" * 11)
    (tmp_path / "bundle").write_bytes(made.bundle())
    made.write_tiles(tmp_path / "ledger")
    for report in (verify_bundle(tmp_path / "bundle", KEY), verify_tiles(tmp_path / "ledger", KEY)):
        assert 10 in {finding.seq for finding in report.findings}


def _sign(digest: bytes) -> bytes:
    return KEYS.sign_ed25519(frame_statement(KEYS.origin, 0, digest))


def test_a_journal_with_a_record_nested_too_deep_to_be_printed_is_refused(tmp_path: Path) -> None:
    header = encode_segment_header(SegmentHeader(0, NO_CHECKSUM, KEYS.origin))
    frame, _ = encode_frame(0, b"\x92" + DEEP + b"\xc0", header[-32:], _sign)
    for name in ("journal", "keys"):
        (tmp_path / name).mkdir()
    (tmp_path / "keys" / "vkeys.txt").write_bytes(KEYS.pair.text.encode())
    (tmp_path / "journal" / "0000000000000000.wj").write_bytes(header + frame)
    findings = verify(tmp_path, KEYS.pair.text.split()).findings
    assert any("no record of the journal" in finding.found for finding in findings)
    with pytest.raises(DamageError, match="no record of the journal"):
        open_ledger(tmp_path)


@pytest.mark.parametrize("at", ["keys/vkeys.txt", "heads", "ledger/vkeys", "snapshot/state.ws", "journal"])
def test_a_node_that_stops_while_it_is_verified_is_no_damage(tmp_path: Path, at: str) -> None:
    fill(tmp_path, 3)
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "vkeys.txt").write_bytes(KEYS.pair.text.encode())

    async def run() -> None:
        ledger = open_ledger(tmp_path)
        loop = asyncio.get_running_loop()
        ledger.start(loop)
        await ledger.commit([draft(ledger.next_seq)], durable=True).durable()

        async def stop() -> None:
            await ledger.commit([draft(ledger.next_seq)], durable=True).durable()
            await ledger.close()

        class Stopping(Disk):
            stopped = False

            def _look(self, path: Path) -> None:
                if str(path).endswith(at) and not self.stopped:
                    self.stopped = True
                    asyncio.run_coroutine_threadsafe(stop(), loop).result()

            def read_at(self, path: Path, offset: int, length: int) -> bytes:
                try:
                    return super().read_at(path, offset, length)
                finally:
                    self._look(path)

            def names(self, directory: Path) -> list[str]:
                found = super().names(directory)
                self._look(directory)
                return found

        disk = Stopping()
        report = await asyncio.to_thread(lambda: verify(tmp_path, KEYS.pair.text.split(), disk=disk))
        assert disk.stopped and report.findings == []

    asyncio.run(run())
