"""Proofs that travel: receipt files, consistency proofs, exports; made from the files and checked without them."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chain.disk import Disk
from chain.entry.draft import Draft
from chain.entry.entry import decode_entry
from chain.keys.keys import Keys, create_keys, load_keys
from chain.keys.rotation import rotation_body
from chain.ledger.ledger import Ledger
from chain.merkle.head import parse_head
from chain.merkle.proof import verify_consistency
from chain.notes.note import VerifierKey, verify
from chain.proofs.tlog_proof import TlogProof
from chain.tiles.bundle import BundleReader, BundleRecord
from chain.tiles.erasure import erase_bodies
from chain.tiles.tile_store import TileStore
from tests.patience import HANG_S
from tests.places import ROOT
from tests.weftos.cli.test_cli import SHOWN, Shell
from tests.weftos.twins.audited_ledger import START_US, STEP_US, write_many, write_story
from weftos.audit.auditor import Auditor
from weftos.audit.tree import LedgerTree
from weftos.cli.chain.proofs import consistency
from weftos.cli.terminal.new_file import new_file
from weftos.errors import WeftosError

SCEPTIC = ROOT / "tools" / "verify_weftos.py"


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The story published, in the journal alone, and with its first part in tiles alone; and a longer ledger."""
    found = {
        lies: tmp_path_factory.mktemp(lies) / "data" for lies in ("published", "journal", "both", "long")
    }
    for lies in ("published", "journal"):
        write_story(found[lies])
    write_story(found["both"], dropped=9)
    write_many(found["long"], 700)
    shutil.rmtree(found["journal"] / "ledger")
    return found


@pytest.fixture
def shell(
    stories: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    return Shell(shutil.copytree(stories["published"], tmp_path / "data"), monkeypatch, capsys)


def run_once(data: Path, work: Callable[[Ledger], object]) -> None:
    """The node runs once more, does ``work`` and stops."""

    async def run() -> None:
        late = START_US + 100 * STEP_US
        keys = load_keys(data / "keys")
        ledger = Ledger.open(data, keys, now_us=lambda: late)
        ledger.start(asyncio.get_running_loop())
        done = work(ledger)
        if asyncio.iscoroutine(done):
            await done
        await ledger.close()

    asyncio.run(run())


def rotate_keys(data: Path) -> None:
    """The node changes its keys, as entry 18."""
    old = load_keys(data / "keys")
    new = Keys(b"n" * 32, b"w" * 32, old.pairs)
    run_once(data, lambda ledger: ledger.rotate(new, rotation_body(old, new, 1, "a test")))
    (data / "keys" / "vkeys.txt").write_text("".join(pair.text for pair in new.pairs))


def keys_of(shell: Shell, file: Path) -> str:
    """The node's verifier keys in a file, as somebody else keeps them."""
    file.write_text(shell.run("chain", "key", "--all")[1])
    return str(file)


@pytest.mark.parametrize("lies", ["published", "journal", "both"])
def test_a_receipt_is_checked_where_there_is_no_ledger(
    lies: str,
    stories: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shell = Shell(shutil.copytree(stories[lies], tmp_path / "data"), monkeypatch, capsys)
    keys = keys_of(shell, tmp_path / "keys")
    for seq in range(18):
        made = shell.json("chain", "receipt", str(seq), "-o", str(tmp_path / f"{seq}"), "--with-body")
        assert (made["seq"], made["size"]) == (seq, 18)
        assert stat.S_IMODE((tmp_path / f"{seq}").stat().st_mode) == 0o600
    rows = {row["seq"]: row for row in shell.json("chain", "log")["rows"]}
    shutil.rmtree(shell.data)
    for seq in range(18):
        found = shell.json("chain", "check", str(tmp_path / f"{seq}"), "--key", keys)
        assert found["ok"] is True
        assert {name: found[name] for name in rows[seq]} == rows[seq]
    status, out, _ = shell.run("chain", "check", str(tmp_path / "9"), "--key", keys)
    assert status == 0
    assert SHOWN in out and "\x1b" not in out
    assert "proven: entry 9 is in the ledger of 18 entries" in out


def test_without_the_body_a_receipt_shows_only_that_the_entry_is_there(shell: Shell, tmp_path: Path) -> None:
    keys = keys_of(shell, tmp_path / "keys")
    shell.json("chain", "receipt", "13", "-o", str(tmp_path / "r"))
    assert b"MILK" not in base64.b64decode((tmp_path / "r").read_bytes().split()[2])
    found = shell.json("chain", "check", str(tmp_path / "r"), "--key", keys)
    assert (found["kind"], found["body"]) == ("turn.ended", None)
    _, out, _ = shell.run("chain", "check", str(tmp_path / "r"), "--key", keys)
    assert "its body is not in the file" in out


def test_a_changed_receipt_one_key_or_other_keys_exit_1(shell: Shell, tmp_path: Path) -> None:
    keys = keys_of(shell, tmp_path / "keys")
    file = tmp_path / "r"
    shell.json("chain", "receipt", "9", "-o", str(file), "--with-body")
    ed25519, ml_dsa = Path(keys).read_text().split()
    assert shell.run("chain", "check", str(file), "--key", ed25519, "--key", ml_dsa)[0] == 0
    for one, missing in ((ed25519, "ML-DSA-65"), (ml_dsa, "Ed25519")):
        status, out, _ = shell.run("chain", "check", str(file), "--key", one)
        assert status == 1
        assert f"NOT PROVEN: its checkpoint bears no {missing} signature" in out
    stranger = create_keys(tmp_path / "stranger")
    (tmp_path / "others").write_text(stranger.pair.text)
    assert shell.run("chain", "check", str(file), "--key", str(tmp_path / "others"))[0] == 1
    content = file.read_bytes()
    proof = TlogProof.decode(content)
    other = next(item for item in proof.hashes)
    for changed in (
        content.replace(b"index 9", b"index 8"),
        content.replace(base64.b64encode(other), base64.b64encode(bytes(32))),
        content.replace(b"\n18\n", b"\n19\n"),
        content[:-2],
        b"",
        bytes(4 * 2**20),
    ):
        assert changed != content
        file.write_bytes(changed)
        status, out, err = shell.run("chain", "check", str(file), "--key", keys, "--json")
        assert (status, json.loads(out)["ok"], err) == (1, False, "")


def test_check_says_what_is_wrong_with_the_question(shell: Shell, tmp_path: Path) -> None:
    status, _, err = shell.run("chain", "check", str(tmp_path / "nothing"), "--key", "nonsense")
    assert (status, err[:8]) == (1, "weftos: ")
    keys = keys_of(shell, tmp_path / "keys")
    status, _, err = shell.run("chain", "check", str(tmp_path / "nothing"), "--key", keys)
    assert (status, "No such file" in err) == (1, True)
    assert shell.run("chain", "check", str(tmp_path / "nothing"))[0] == 2


def test_a_receipt_after_a_change_of_keys_needs_the_keys_that_signed_it(shell: Shell, tmp_path: Path) -> None:
    first = tmp_path / "first"
    first.write_text(shell.run("chain", "key")[1])
    shell.json("chain", "receipt", "9", "-o", str(tmp_path / "early"))

    rotate_keys(shell.data)
    keys_of(shell, tmp_path / "all")
    (tmp_path / "new").write_text(shell.run("chain", "key")[1])
    shell.json("chain", "receipt", "9", "-o", str(tmp_path / "late"))
    passes = {
        (name, pinned): shell.run("chain", "check", str(tmp_path / name), "--key", str(tmp_path / pinned))[0]
        == 0
        for name in ("early", "late")
        for pinned in ("first", "new", "all")
    }
    assert passes == {
        ("early", "first"): True, ("early", "new"): False, ("early", "all"): True,
        ("late", "first"): False, ("late", "new"): True, ("late", "all"): True,
    }  # fmt: skip


def test_no_file_is_replaced_unasked_and_none_left_half_written(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "taken"
    file.write_text("mine")
    for command in (["receipt", "3"], ["prove", "3", "5"], ["export"]):
        status, _, err = shell.run("chain", *command, "-o", str(file))
        assert (status, "is there already" in err) == (1, True), command
        assert file.read_text() == "mine"
        assert shell.run("chain", *command, "-o", str(file), "--force")[0] == 0
        assert file.read_text() != "mine"
        file.write_text("mine")
    assert shell.run("chain", "receipt", "99", "-o", str(tmp_path / "no"))[0] == 1
    assert shell.run("chain", "export", str(tmp_path / "no"), "--since", "never")[0] == 1
    assert shell.run("chain", "export", str(tmp_path / "no"), "--pid", "carol")[0] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "taken"]


def test_a_file_that_came_meanwhile_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with pytest.raises(WeftosError, match="is there already"), new_file(target, force=False) as file:
        file.write(b"ours")
        target.write_bytes(b"theirs")
    assert target.read_bytes() == b"theirs"
    with pytest.raises(ValueError, match="on purpose"), new_file(target, force=True) as file:
        file.write(b"half")
        raise ValueError("on purpose")
    assert target.read_bytes() == b"theirs"
    assert list(tmp_path.iterdir()) == [target]


def test_an_entry_that_is_not_under_both_signatures_has_no_receipt_yet(shell: Shell, tmp_path: Path) -> None:
    for folder in ("ledger", "heads"):
        shutil.rmtree(shell.data / folder)
    status, _, err = shell.run("chain", "receipt", "9", "-o", str(tmp_path / "r"))
    assert status == 1
    assert "entry 9 is not under both signatures yet" in err


def test_no_receipt_is_made_of_tiles_that_do_not_lead_to_the_signed_root(
    shell: Shell, tmp_path: Path
) -> None:
    tile = shell.data / "ledger" / "tile" / "0" / "000.p" / "18"
    content = bytearray(tile.read_bytes())
    content[3 * 32] ^= 1
    tile.write_bytes(content)
    status, _, err = shell.run("chain", "receipt", "9", "-o", str(tmp_path / "r"))
    assert status == 1
    assert "leads to root" in err
    assert not (tmp_path / "r").exists()


class CountingStore(TileStore):
    """Counts the nodes it is asked for."""

    asked = 0

    def node(self, level: int, index: int) -> bytes:
        CountingStore.asked += 1
        return super().node(level, index)


def test_a_proof_takes_a_logarithmic_number_of_reads(
    stories: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("chain.state.history.TileStore", CountingStore)
    CountingStore.asked = 0
    shell = Shell(stories["long"], monkeypatch, capsys)
    shell.json("chain", "receipt", "333", "-o", str(tmp_path / "r"))
    assert 8 <= CountingStore.asked <= 20
    keys = keys_of(shell, tmp_path / "keys")
    assert shell.json("chain", "check", str(tmp_path / "r"), "--key", keys)["seq"] == 333


@pytest.mark.parametrize("lies", ["published", "journal", "both"])
def test_a_consistency_proof_holds_for_every_pair_of_sizes(lies: str, stories: dict[str, Path]) -> None:
    tree = LedgerTree(Auditor(stories[lies]))
    kept = {9, 18} if lies == "both" else {18}
    roots: dict[int, str] = {}
    for size1 in range(19):
        for size2 in range(size1, 19):
            found = consistency(tree, size1, size2)
            roots.setdefault(size1, found["root1"])
            assert found["root1"] == roots[size1]
            decoded = [base64.b64decode(item) for item in found["proof"]]
            ends = [base64.b64decode(found[name]) for name in ("root1", "root2")]
            verify_consistency(size1=size1, size2=size2, root1=ends[0], root2=ends[1], proof=decoded)
            assert (found["head2"] is not None) is (size2 in kept)
    assert len(set(roots.values())) == 19


def test_prove_writes_what_a_stranger_can_check(shell: Shell, tmp_path: Path) -> None:
    status, out, _ = shell.run("chain", "prove", "5", "18", "-o", str(tmp_path / "p"))
    assert status == 0
    assert "the first 5 entries of weftos-" in out and "no head of this size is kept" in out
    found: dict[str, Any] = json.loads((tmp_path / "p").read_text())
    assert stat.S_IMODE((tmp_path / "p").stat().st_mode) == 0o600
    assert (found["format"], found["size1"], found["size2"], found["head1"]) == (1, 5, 18, None)
    keys = [VerifierKey.parse(text) for text in shell.run("chain", "key")[1].split()]
    head = parse_head(verify(found["head2"].encode(), keys).text)
    assert (head.size, base64.b64encode(head.root).decode()) == (18, found["root2"])
    assert shell.json("chain", "prove", "5", "18") == found
    for sizes in (("6", "5"), ("0", "19")):
        status, _, err = shell.run("chain", "prove", *sizes)
        assert (status, "the ledger holds 18 entries" in err) == (1, True)


def test_a_head_that_the_entries_do_not_lead_to_is_not_proved(shell: Shell, tmp_path: Path) -> None:
    """Whoever changes tiles does not get a proof that speaks for them."""
    tile = shell.data / "ledger" / "tile" / "0" / "000.p" / "18"
    content = bytearray(tile.read_bytes())
    content[3 * 32] ^= 1
    tile.write_bytes(content)
    status, _, err = shell.run("chain", "prove", "5", "18")
    assert status == 1
    assert "the head of 18 entries says root" in err


def test_rows_are_exported_a_line_each(shell: Shell, tmp_path: Path) -> None:
    done = shell.json("chain", "export", str(tmp_path / "all"))
    assert (done["entries"], done["format"]) == (18, "jsonl")
    rows = [json.loads(line) for line in (tmp_path / "all").read_text().splitlines()]
    assert rows == shell.json("chain", "log")["rows"]
    assert stat.S_IMODE((tmp_path / "all").stat().st_mode) == 0o600
    for filters, wanted in (
        (["--from", "3", "--to", "5"], [3, 4, 5]),
        (["--kind", "tool.verdict"], [7, 11]),
        (["--from", "8", "--address", "bob"], [16, 17]),
        (["--to", "0"], [0]),
        (["--from", "18"], []),
    ):
        shell.json("chain", "export", "-o", str(tmp_path / "some"), "--force", *filters)
        assert [json.loads(line)["seq"] for line in (tmp_path / "some").read_text().splitlines()] == wanted
    assert shell.run("chain", "export")[0] == 2
    assert shell.run("chain", "export", "a", "-o", "b")[0] == 2


def sceptic(shell: Shell, bundle: Path) -> subprocess.CompletedProcess[str]:
    """What the script that knows nothing of weftos says of a bundle, under the node's first keys."""
    keys = shell.run("chain", "key", "--all")[1].split()[:2]
    given = [word for key in keys for word in ("--key", key)]
    argv = [sys.executable, "-I", str(SCEPTIC), "--bundle", str(bundle), *given]
    return subprocess.run(argv, capture_output=True, text=True, timeout=HANG_S)


def records_of(bundle: Path) -> list[BundleRecord]:
    reader = BundleReader(bundle)
    try:
        return list(reader.records())
    finally:
        reader.close()


@pytest.mark.parametrize("lies", ["published", "journal", "both"])
def test_a_bundle_of_all_or_of_some_convinces_a_sceptic(
    lies: str,
    stories: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shell = Shell(shutil.copytree(stories[lies], tmp_path / "data"), monkeypatch, capsys)
    whole, some = tmp_path / "whole", tmp_path / "some"
    done = shell.json("chain", "export", str(whole), "--format", "bundle")
    assert (done["kind"], done["entries"], done["size"], done["left_out"]) == ("full", 18, 18, 0)
    assert stat.S_IMODE(whole.stat().st_mode) == 0o600
    done = shell.json("chain", "export", str(some), "--format", "bundle", "--kind", "tool.verdict")
    assert (done["kind"], done["entries"]) == ("partial", 2)
    assert [decode_entry(record.leaf).seq for record in records_of(some)] == [7, 11]
    assert all(record.proof for record in records_of(some))
    for bundle in (whole, some):
        said = sceptic(shell, bundle)
        assert (said.returncode, "verified" in said.stdout) == (0, True), said.stdout + said.stderr
        assert ("requests to models put together: 1 of 1\n" in said.stdout) == (bundle is whole)
        content = bytearray(bundle.read_bytes())
        content[-100] ^= 1
        bundle.write_bytes(content)
        assert sceptic(shell, bundle).returncode == 1


def test_an_empty_selection_is_a_bundle_of_nothing(shell: Shell, tmp_path: Path) -> None:
    done = shell.json("chain", "export", str(tmp_path / "b"), "--format", "bundle", "--kind", "erase")
    assert (done["kind"], done["entries"]) == ("partial", 0)
    assert records_of(tmp_path / "b") == []


def test_a_partial_bundle_holds_every_change_of_keys(shell: Shell, tmp_path: Path) -> None:
    rotate_keys(shell.data)
    done = shell.json("chain", "export", str(tmp_path / "b"), "--format", "bundle", "--to", "3")
    assert (done["entries"], done["size"]) == (5, 19)
    assert [decode_entry(record.leaf).seq for record in records_of(tmp_path / "b")] == [0, 1, 2, 3, 18]
    said = sceptic(shell, tmp_path / "b")
    assert said.returncode == 0, said.stdout + said.stderr


def test_with_an_erased_entry_goes_what_says_who_erased_it(
    stories: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shell = Shell(shutil.copytree(stories["both"], tmp_path / "data"), monkeypatch, capsys)
    body = {"ranges": [[2, 3]], "by": "operator", "reason": "asked for"}
    run_once(shell.data, lambda ledger: ledger.commit([Draft("erase", body)]))
    assert erase_bodies(shell.data / "ledger", Disk(), [(2, 3)]) == 2
    for first, wanted in (("2", [2, 3, 4, 18]), ("4", [4])):
        file = tmp_path / first
        shell.json("chain", "export", str(file), "--format", "bundle", "--from", first, "--to", "4")
        assert [decode_entry(record.leaf).seq for record in records_of(file)] == wanted
        said = sceptic(shell, file)
        assert said.returncode == 0, said.stdout + said.stderr


def test_without_a_full_head_there_is_no_bundle(shell: Shell, tmp_path: Path) -> None:
    for folder in ("ledger", "heads"):
        shutil.rmtree(shell.data / folder)
    status, _, err = shell.run("chain", "export", str(tmp_path / "b"), "--format", "bundle")
    assert (status, "nothing is under both signatures yet" in err) == (1, True)
    assert not (tmp_path / "b").exists()


def test_verify_from_an_entry_on_says_so_and_remembers_nothing(
    shell: Shell, stories: dict[str, Path], tmp_path: Path
) -> None:
    folder = shutil.copytree(stories["long"] / "ledger", tmp_path / "copy")
    bodies = sorted((folder / "tile" / "bodies").glob("000*"))[0]
    damaged = bytearray(bodies.read_bytes())
    damaged[40] ^= 1
    bodies.write_bytes(damaged)
    status, out, _ = shell.run("chain", "verify", "--tiles", str(folder), "--from", "512")
    assert status == 0
    assert "verified: entries 512 to 699 are whole" in out and "those before were not read" in out
    assert shell.json("chain", "verify", "--tiles", str(folder), "--from", "512")["remembered"] is False
    assert shell.run("chain", "verify", "--tiles", str(folder))[0] == 1
