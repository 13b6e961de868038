"""The sceptic's script verifies what is intact and refuses what is not, and agrees with ``weftos chain verify`` on all
of it; nothing of ours is in its reach.
"""

import os
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import pytest

from tests.chain.twins import damage, published
from tests.chain.twins.damage import SIZE
from tests.chain.twins.published import FIRST, SECOND, STRANGER, THIRD, Signer
from tests.chain.twins.sceptic import SCRIPT, Sceptic, ask, isolated_packages, run_isolated
from tests.chain.twins.verdicts import verify_says

FULL = dict(damage.damaged_bundles(partial=False))
PARTIAL = dict(damage.damaged_bundles(partial=True))
FILES = dict(damage.damaged_files())
PARTIALS = dict(damage.damaged_partials())
SIGNED = dict(damage.signed_anew())


class Verified(Protocol):
    """Whether a ledger is verified under these keys, and continues the head in ``seen``."""

    def __call__(self, ledger: Path, vkeys: tuple[str, ...], seen: Path | None = None) -> bool: ...


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return isolated_packages(tmp_path_factory.mktemp("sceptic") / "packages")


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return damage.intact().write_tiles(tmp_path_factory.mktemp("intact") / "ledger")


@pytest.fixture(scope="module")
def sceptic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sceptic]:
    with Sceptic(tmp_path_factory.mktemp("asked")) as sceptic:
        yield sceptic


@pytest.fixture
def verified(sceptic: Sceptic) -> Verified:
    """Whether a ledger is verified: by the script and by weftos alike."""

    def both(ledger: Path, vkeys: tuple[str, ...], seen: Path | None = None) -> bool:
        verdict = sceptic.ask(ledger, vkeys, seen)
        assert verdict.verified is verify_says(ledger, vkeys, seen), verdict.output
        return verdict.verified

    return both


def test_the_script_is_short() -> None:
    assert len(SCRIPT.read_text().splitlines()) <= 450


@pytest.mark.parametrize("name", ["msgpack", "chain", "weftos", "numpy"])
def test_nothing_of_ours_is_in_its_reach(packages: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "attempt.py").write_text(f"import {name}\n")
    assert f"No module named '{name}'" in run_isolated(packages, [str(tmp_path / "attempt.py")]).stderr


def test_there_are_at_least_fifty_damaged_ledgers() -> None:
    assert len(FULL) + len(PARTIAL) + len(FILES) + len(SIGNED) >= 50


@pytest.mark.parametrize("size", [0, 1, 2, 255, 256, 257, 513])
@pytest.mark.parametrize("signers", [(FIRST,), (FIRST, SECOND, THIRD)], ids=["one key", "rotated"])
def test_an_intact_ledger_is_verified(
    verified: Verified, tmp_path: Path, size: int, signers: tuple[Signer, ...]
) -> None:
    made = published.ledger(size, signers, [(1, 1), (3, 4)] if size > 20 else [])
    keys = (*signers[0].vkeys,)
    folder = made.write_tiles(tmp_path / "ledger", [1, 2, 100, 256, 300])
    (tmp_path / "full.bundle").write_bytes(made.bundle())
    (tmp_path / "partial.bundle").write_bytes(
        made.bundle({0, size // 2, size - 1, size - 2} if size > 2 else [])
    )
    for ledger in (folder, tmp_path / "full.bundle", tmp_path / "partial.bundle"):
        assert verified(ledger, keys)


def test_an_erased_body_is_no_finding_when_a_partial_bundle_has_the_erasure(
    verified: Verified, tmp_path: Path
) -> None:
    made = damage.intact()
    for seqs, good in (({41, SIZE - 2}, True), ({41, SIZE - 1}, False)):
        (tmp_path / "bundle").write_bytes(made.bundle(seqs))
        assert verified(tmp_path / "bundle", FIRST.vkeys) is good


@pytest.mark.parametrize(
    ("vkeys", "words"),
    [
        (FIRST.vkeys, "verified"),
        (THIRD.vkeys, "verified"),
        ((*FIRST.vkeys, *THIRD.vkeys), "verified"),
        (SECOND.vkeys, "verified"),
        ((*FIRST.vkeys, *STRANGER.vkeys), "is not the ledger's"),
        (STRANGER.vkeys, "is not the ledger's"),
        (FIRST.vkeys[:1], "give both keys"),
        (FIRST.vkeys[1:], "give both keys"),
        ((FIRST.vkeys[0][:-1],), "a part of the line is missing"),
        ((FIRST.vkeys[0][:-4],), "copy the whole line"),
        ((), "UNPINNED"),
    ],
)
def test_the_keys_that_are_given_must_be_the_ledgers(
    sceptic: Sceptic, intact: Path, vkeys: tuple[str, ...], words: str
) -> None:
    verdict = sceptic.ask(intact, vkeys)
    assert verdict.verified is (words in ("verified", "UNPINNED"))
    assert words.replace("is not the ledger's", "is not the ledger's") in verdict.output


def test_a_head_seen_earlier_must_be_continued(verified: Verified, intact: Path, tmp_path: Path) -> None:
    made = damage.intact()
    other = published.ledger(SIZE, (FIRST, SECOND, THIRD), [(40, 41)])
    for seen, good in (
        (made.checkpoint(), True),
        (made.checkpoint(0), True),
        (made.checkpoint(1), True),
        (made.checkpoint(90), True),
        (made.checkpoint(200), True),
        (other.checkpoint(), False),
        (published.ledger(SIZE + 9, (FIRST, SECOND, THIRD)).checkpoint(), False),
        (published.ledger(50, (STRANGER,)).checkpoint(), False),
        (published.note(made.head_text(90), STRANGER), False),
        (b"nothing", False),
    ):
        (tmp_path / "seen").write_bytes(seen)
        assert verified(intact, FIRST.vkeys, tmp_path / "seen") is good


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_folder_is_refused(verified: Verified, intact: Path, tmp_path: Path, name: str) -> None:
    folder = shutil.copytree(intact, tmp_path / "ledger")
    FILES[name](folder)
    assert not verified(folder, FIRST.vkeys)


@pytest.mark.parametrize("name", PARTIALS)
def test_a_damaged_tile_of_an_older_checkpoint_is_named(tmp_path: Path, name: str) -> None:
    """By ``weftos chain verify``; the script reads what the newest head needs. Whoever has the older one refuses it."""
    folder = damage.intact().write_tiles(tmp_path / "ledger", damage.EARLIER)
    assert verify_says(folder, FIRST.vkeys)
    PARTIALS[name](folder)
    assert not verify_says(folder, FIRST.vkeys)


@pytest.mark.parametrize("name", SIGNED)
def test_what_a_node_must_not_sign_is_refused_although_it_did(
    verified: Verified, tmp_path: Path, name: str
) -> None:
    made = SIGNED[name]
    assert not verified(made.write_tiles(tmp_path / "ledger"), FIRST.vkeys)
    (tmp_path / "bundle").write_bytes(made.bundle())
    assert not verified(tmp_path / "bundle", FIRST.vkeys)


@pytest.mark.parametrize("pieces", ["[[]]", "[[0]]", '[["0","1"]]', "[null]", "[1.0]", "1", "[" * 100_000])
def test_a_request_whose_pieces_are_none_is_named_in_a_ledger_that_is_sound(
    verified: Verified, sceptic: Sceptic, tmp_path: Path, pieces: str
) -> None:
    made = published.Published([FIRST])
    told = {"prefix_of": -1, "prefix_count": 0, "new": "[{}]", "truncated": False}
    made.add("model.asked", {**told, "pieces": pieces, "messages_hash": "0" * 64})
    folder = made.write_tiles(tmp_path / "ledger")
    assert verified(folder, FIRST.vkeys)
    assert "put together: 0 of 1; not as they were hashed: [0]" in sceptic.ask(folder, FIRST.vkeys).output


@pytest.mark.parametrize(
    ("results", "found"),
    [
        ("[[0,0,3]]", "1 of 1"),
        ("[[0,1,3]]", "0 of 1"),  # that entry is not here
        ("[[0,0,2]]", "0 of 1; not as they were hashed: [1]"),
        ("[[1,0,3]]", "0 of 1; not as they were hashed: [1]"),
        ("[[0,0,3],[0,0,3]]", "0 of 1; not as they were hashed: [1]"),
        ("[[0,[],3]]", "0 of 1; not as they were hashed: [1]"),
        ("[[0,0]]", "0 of 1; not as they were hashed: [1]"),
        ("[" * 100_000, "0 of 1; not as they were hashed: [1]"),
    ],
)
def test_a_request_is_put_together_of_what_tools_gave_too(
    verified: Verified, sceptic: Sceptic, tmp_path: Path, results: str, found: str
) -> None:
    made, digest = published.Published([FIRST]), sha256(b'{"content":"yes"}').digest()
    made.add("tool.outcome", {"result": "yes, and more"})
    told = {
        "prefix_of": -1,
        "prefix_count": 0,
        "new": '[{"content":""}]',
        "truncated": False,
        "pieces": "[1]",
    }
    made.add("model.asked", {**told, "results": results, "messages_hash": sha256(digest).hexdigest()})
    folder = made.write_tiles(tmp_path / "ledger")
    assert verified(folder, FIRST.vkeys)
    assert f"put together: {found}\n" in sceptic.ask(folder, FIRST.vkeys).output


def test_the_newest_that_tools_gave_are_kept_by_what_they_hold(sceptic: Sceptic, tmp_path: Path) -> None:
    """Many short ones may come before one is asked with; of long ones, and of what is no text, no more than so much."""
    made, digest = published.Published([FIRST]), sha256(b'{"content":"yes"}').digest()
    told = {"prefix_of": -1, "prefix_count": 0, "truncated": False, "pieces": "[1]"}
    told |= {"new": '[{"content":""}]', "results": "[[0,0,3]]", "messages_hash": sha256(digest).hexdigest()}
    made.add("tool.outcome", {"result": "yes, and more"})
    for _ in range(600):
        made.add("tool.outcome", {"result": "no"})
    made.add("model.asked", told)
    for _ in range(65):
        made.add("tool.outcome", {"result": "n" * (2**20 - 2**10)})
    made.add("model.asked", told)
    no_text = made.add("tool.outcome", {"result": ["y", "e", "s"]})
    made.add("model.asked", {**told, "results": f"[[0,{no_text},3]]"})
    folder = made.write_tiles(tmp_path / "ledger")
    assert "put together: 1 of 3\n" in sceptic.ask(folder, FIRST.vkeys).output


def test_a_request_of_more_messages_than_any_node_takes_is_not_put_together(
    verified: Verified, sceptic: Sceptic, tmp_path: Path
) -> None:
    """The digests of ten thousand are held, and a few bytes could ask for each."""
    made, digest = published.Published([FIRST]), sha256(b"{}").digest()
    first = {"prefix_of": -1, "prefix_count": 0, "new": "[{}]", "truncated": False, "pieces": "[1]"}
    made.add("model.asked", {**first, "messages_hash": sha256(digest).hexdigest()})
    more = {"prefix_of": 0, "prefix_count": 3000, "new": "[]", "pieces": str([[0, 1]] * 3000)}
    made.add("model.asked", {**first, **more, "messages_hash": sha256(digest * 3000).hexdigest()})
    folder = made.write_tiles(tmp_path / "ledger")
    assert verified(folder, FIRST.vkeys)
    assert "put together: 1 of 2; not as they were hashed: [1]" in sceptic.ask(folder, FIRST.vkeys).output


@pytest.mark.parametrize("name", FULL)
def test_a_damaged_full_bundle_is_refused(verified: Verified, tmp_path: Path, name: str) -> None:
    (tmp_path / "bundle").write_bytes(FULL[name])
    assert not verified(tmp_path / "bundle", FIRST.vkeys)


@pytest.mark.parametrize("name", PARTIAL)
def test_a_damaged_partial_bundle_is_refused(verified: Verified, tmp_path: Path, name: str) -> None:
    (tmp_path / "bundle").write_bytes(PARTIAL[name])
    assert not verified(tmp_path / "bundle", FIRST.vkeys)


def test_a_partial_bundle_is_held_to_what_its_entries_say_of_those_left_out(
    verified: Verified, tmp_path: Path
) -> None:
    """A counter may skip as many as are missing, and no more."""
    made = published.ledger(9)
    made.add("message.refused", {"to": "", "sender": "", "why": ""}, 1, count=5)
    for seqs, good in (({0, 9}, True), ({1, 2, 3, 4, 5, 6, 7, 8, 9}, False)):
        (tmp_path / "bundle").write_bytes(made.bundle(seqs))
        assert verified(tmp_path / "bundle", FIRST.vkeys) is good


def test_a_partial_bundle_cannot_show_that_it_continues_another_head(packages: Path, tmp_path: Path) -> None:
    made = damage.intact()
    (tmp_path / "bundle").write_bytes(made.bundle([0]))
    for size, good in ((SIZE, True), (200, False)):
        (tmp_path / "seen").write_bytes(made.checkpoint(size))
        assert ask(packages, tmp_path / "bundle", FIRST.vkeys, tmp_path / "seen").verified is good


def test_a_folder_that_was_copied_while_the_node_went_on_is_verified(
    verified: Verified, tmp_path: Path
) -> None:
    later = published.ledger(600)
    folder = later.write_tiles(tmp_path / "ledger", [100, 530])
    for size in (600, 530, 512):
        (folder / "checkpoint").write_bytes(later.checkpoint(size))
        assert verified(folder, FIRST.vkeys), size
    (folder / "checkpoint").write_bytes(later.checkpoint(100))
    assert verified(folder, FIRST.vkeys)


def test_a_folder_that_claims_all_entries_there_can_be_is_refused_at_once(
    verified: Verified, tmp_path: Path
) -> None:
    assert not verified(damage.write_huge_claim(tmp_path / "ledger"), FIRST.vkeys)


def test_no_file_of_a_folder_makes_it_wait(verified: Verified, intact: Path, tmp_path: Path) -> None:
    for name in ("checkpoint", "vkeys", "tile/0/000", "tile/bodies/000", "tile/entries/000"):
        folder = shutil.copytree(intact, tmp_path / name.replace("/", "-"))
        (folder / name).unlink()
        os.mkfifo(folder / name)
        assert not verified(folder, FIRST.vkeys)


def test_a_folder_may_lie_about_its_sizes(verified: Verified, intact: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(intact, tmp_path / "ledger")
    for name in ("checkpoint", "tile/entries/000", "tile/bodies/000"):
        with (folder / name).open("r+b") as file:
            file.truncate(2**40)
        assert not verified(folder, FIRST.vkeys)


def test_what_is_not_there_is_refused(verified: Verified, tmp_path: Path) -> None:
    assert not verified(tmp_path, FIRST.vkeys)
    assert not verified(tmp_path / "nothing", FIRST.vkeys)
