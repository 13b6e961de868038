"""Real processes on a real disk: killed with SIGKILL while they append, and refused by the disk."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

from chain.disk import Disk
from chain.entry.reader import EntryRecord, read_records
from chain.keys.keys import VKEYS_FILE
from chain.verify.verify import verify
from tests.chain.twins.ledgers import KEYS
from tests.patience import HANG_S
from tests.places import ROOT

KILLS = 8


def make_vkeys(directory: Path) -> None:
    (directory / "keys").mkdir()
    (directory / "keys" / VKEYS_FILE).write_text(f"{KEYS.ed25519.text}\n{KEYS.mldsa.text}\n")


def append_and_die(directory: Path, lines: int) -> list[int]:
    """Run the writer until it has said so many lines, kill it, return every seq it acknowledged."""
    command = [sys.executable, "-m", "tests.chain.twins.durable_writer", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as child:
        assert child.stdout is not None
        try:
            said = [child.stdout.readline() for _ in range(lines)]
        finally:
            child.kill()
        said += child.stdout.readlines()
    assert said[0] == b"open\n", said
    return [int(line) for line in said[1:] if line.endswith(b"\n")]


def test_what_was_acknowledged_survives_any_number_of_kills_and_the_ledger_verifies(tmp_path: Path) -> None:
    make_vkeys(tmp_path)
    dice = random.Random(20260)
    acknowledged: list[int] = []
    for _ in range(KILLS):
        acknowledged += append_and_die(tmp_path, dice.randrange(2, 400))
        report = verify(tmp_path)
        assert report.findings == [] and report.entries > max(acknowledged)
    assert len(acknowledged) > KILLS
    records = [
        record for record in read_records(tmp_path / "journal", Disk()) if isinstance(record, EntryRecord)
    ]
    assert [record.entry.seq for record in records] == list(range(len(records)))
    assert all(record.body["why"] == f"w{record.entry.seq}" for record in records)
    assert set(acknowledged) <= {record.entry.seq for record in records}


def test_verification_beside_a_running_writer_finds_nothing_wrong(tmp_path: Path) -> None:
    make_vkeys(tmp_path)
    command = [sys.executable, "-m", "tests.chain.twins.durable_writer", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == b"open\n"
            for _ in range(10):
                said = [child.stdout.readline() for _ in range(120)]
                report = verify(tmp_path)
                assert report.findings == [] and report.entries > int(said[-1])
        finally:
            child.kill()


def test_a_file_that_may_not_grow_makes_the_ledger_read_only_and_nothing_is_lost_when_it_may_again(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "tests.chain.twins.limited_writer", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=HANG_S, check=True)
    said = json.loads(run.stdout)
    assert "File too large" in said["error"] and said["error"] == said["read_only"]
    assert said["acknowledged"] > 10 and said["size"] == said["acknowledged"] + 3
    records = [record for record in read_records(tmp_path / "journal") if isinstance(record, EntryRecord)]
    assert [record.body["why"] for record in records] == [f"w{seq}" for seq in range(said["size"])]
