"""What somebody with one broken algorithm, or with an old copy and all keys, can make: refused by every verifier.

A broken algorithm is modelled by its key: who can forge Ed25519 signatures has the node's real Ed25519 key and an
ML-DSA-65 key of their own; and the other way round.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chain.twins.published import FIRST, SECOND, STRANGER, Published, Signer, note
from tests.chain.twins.sceptic import Sceptic
from tests.chain.twins.verdicts import verify_says

SIZE = 60
Says = Callable[[Path, tuple[str, ...], Path | None], bool]


@pytest.fixture(scope="module")
def sceptic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sceptic]:
    with Sceptic(tmp_path_factory.mktemp("sceptic")) as sceptic:
        yield sceptic


@pytest.fixture(params=["verify", "sceptic"])
def says(request: pytest.FixtureRequest, sceptic: Sceptic) -> Says:
    """Whether the verifier of this name accepts a ledger."""
    if request.param == "verify":
        return verify_says
    return lambda ledger, vkeys, seen: sceptic.ask(ledger, vkeys, seen).verified


def forger(real: Signer, broken: str) -> Signer:
    """Signs with ``real``'s key of the ``broken`` algorithm and with a key of its own of the other one."""
    made = Signer(b"forger", real.origin)
    if broken == "Ed25519":
        made.ed25519, made.public = real.ed25519, (real.public[0], made.public[1])
    else:
        made.ml_dsa_65, made.public = real.ml_dsa_65, (made.public[0], real.public[1])
    return made


def history(changed: bool = False, signers: tuple[Signer, ...] = (FIRST,)) -> Published:
    """Sixty entries; ``changed``: the same ones, but for what one of them says, all linked and hashed anew."""
    made = Published([signers[0]])
    for seq in range(SIZE):
        if seq == 30 and len(signers) > 1:
            made.rotate(signers[1])
            continue
        why = "never happened" if changed and seq == 20 else f"w{seq}"
        made.add("message.refused", {"to": "/user/a", "sender": "operator", "why": why}, seq % 3)
    return made


@dataclass
class Files:
    """A ledger in all the forms it is handed out in."""

    tiles: Path
    full: Path
    partial: Path

    @classmethod
    def of(cls, made: Published, directory: Path) -> Files:
        files = cls(made.write_tiles(directory / "tiles"), directory / "full", directory / "partial")
        files.full.write_bytes(made.bundle())
        files.partial.write_bytes(made.bundle([0, 20, len(made.items) - 1]))
        return files

    def each(self) -> tuple[Path, Path, Path]:
        return self.tiles, self.full, self.partial


def test_what_nobody_forged_is_verified(says: Says, tmp_path: Path) -> None:
    for number, made in enumerate((history(), history(True), history(signers=(FIRST, SECOND)))):
        (tmp_path / str(number)).mkdir()
        for ledger in Files.of(made, tmp_path / str(number)).each():
            assert says(ledger, FIRST.vkeys, None)


@pytest.mark.parametrize("broken", ["Ed25519", "ML-DSA-65"])
def test_one_broken_algorithm_signs_no_other_history(says: Says, tmp_path: Path, broken: str) -> None:
    """The forger signs a changed history with both keys it has, and says in vkeys what it likes."""
    made = history(True)
    hand = forger(FIRST, broken)
    made.checkpoint = lambda size=None: note(made.head_text(SIZE), hand)  # type: ignore[method-assign]
    for name, signers in (("own keys", [hand]), ("the node's keys", [FIRST])):
        made.signers = signers
        (tmp_path / name).mkdir()
        for ledger in Files.of(made, tmp_path / name).each():
            assert not says(ledger, FIRST.vkeys, None)


@pytest.mark.parametrize("broken", ["Ed25519", "ML-DSA-65"])
def test_nor_does_a_forged_signature_under_the_id_of_the_real_key(
    says: Says, tmp_path: Path, broken: str
) -> None:
    """Both lines are there, with the real keys' ids; one was made with another key."""
    made = history(True)
    hand = forger(FIRST, broken)
    text = made.head_text(SIZE)
    signatures = zip(FIRST.ids, hand.sign(text, b"weftos/head/1"), strict=True)
    lines = [f"— {FIRST.origin} ".encode() + base64.b64encode(id_ + sig) + b"\n" for id_, sig in signatures]
    made.checkpoint = lambda size=None: text + b"\n" + b"".join(lines)  # type: ignore[method-assign]
    for ledger in Files.of(made, tmp_path).each():
        assert not says(ledger, FIRST.vkeys, None)


@pytest.mark.parametrize("broken", ["Ed25519", "ML-DSA-65"])
def test_one_broken_algorithm_changes_no_keys(says: Says, tmp_path: Path, broken: str) -> None:
    """The forger hands over to keys of its own: one of the two old signatures is its own."""
    made = history(True)
    thief = Signer(b"thief", FIRST.origin)
    made.rotate(thief, by=forger(FIRST, broken))
    made.add("message.refused", {"to": "", "sender": "", "why": ""})
    for ledger in Files.of(made, tmp_path).each():
        assert not says(ledger, FIRST.vkeys, None)


def test_keys_that_were_given_up_sign_nothing_any_more(says: Says, tmp_path: Path) -> None:
    """Who finds the old keys makes a history without the change of keys: whoever knows of the change refuses it."""
    true, fork = history(signers=(FIRST, SECOND)), history(True)
    (tmp_path / "seen").write_bytes(true.checkpoint())
    for name, made, verified in (("true", true, True), ("fork", fork, False)):
        (tmp_path / name).mkdir()
        files = Files.of(made, tmp_path / name)
        for ledger in files.each():
            assert says(ledger, SECOND.vkeys, None) is verified
        for ledger in (files.tiles, files.full):
            assert says(ledger, FIRST.vkeys, tmp_path / "seen") is verified


def test_old_keys_sign_no_head_behind_the_change(says: Says, tmp_path: Path) -> None:
    made = history(signers=(FIRST, SECOND))
    made.checkpoint = lambda size=None: note(made.head_text(SIZE), FIRST)  # type: ignore[method-assign]
    for ledger in Files.of(made, tmp_path).each():
        assert not says(ledger, FIRST.vkeys, None)


def test_a_context_signs_nothing_else(says: Says, tmp_path: Path) -> None:
    """ML-DSA signatures of the same text for another use do not count."""
    made = history()
    text = made.head_text(SIZE)
    for context in (b"", b"weftos/rotation/1"):
        signatures = zip(FIRST.ids, FIRST.sign(text, context), strict=True)
        lines = [
            f"— {FIRST.origin} ".encode() + base64.b64encode(id_ + sig) + b"\n" for id_, sig in signatures
        ]
        checkpoint = text + b"\n" + b"".join(lines)
        folder = made.write_tiles(tmp_path / f"tiles{len(context)}", checkpoint=checkpoint)
        assert not says(folder, FIRST.vkeys, None)


@pytest.mark.parametrize("kept", [0, 1], ids=["ML-DSA-65 stripped", "Ed25519 stripped"])
def test_a_stripped_line_is_missed(says: Says, tmp_path: Path, kept: int) -> None:
    made = history()

    def stripped(lines: list[bytes]) -> list[bytes]:
        return [lines[kept]]

    made.checkpoint = lambda size=None: note(made.head_text(SIZE), FIRST, stripped)  # type: ignore[method-assign]
    for ledger in Files.of(made, tmp_path).each():
        assert not says(ledger, FIRST.vkeys, None)


def test_a_history_that_was_signed_anew_with_all_keys_is_noticed_by_who_saw_the_other(
    says: Says, tmp_path: Path
) -> None:
    """Nothing but a head seen earlier tells them apart."""
    (tmp_path / "seen").write_bytes(history().checkpoint(40))
    for name, made, verified in (("same", history(), True), ("changed", history(True), False)):
        folder = made.write_tiles(tmp_path / name)
        (tmp_path / f"{name}.full").write_bytes(made.bundle())
        for ledger in (folder, tmp_path / f"{name}.full"):
            assert says(ledger, FIRST.vkeys, None)
            assert says(ledger, FIRST.vkeys, tmp_path / "seen") is verified


def test_a_rolled_back_copy_and_the_fork_that_grew_from_it_are_noticed(says: Says, tmp_path: Path) -> None:
    """An old copy was restored, and the node ran on from it: the head that was seen is not in either."""
    whole = history()
    (tmp_path / "seen").write_bytes(whole.checkpoint())
    old = whole.copy()
    del old.items[40:]
    old.counts = {0: 14, 1: 13, 2: 13}
    fork = old.copy()
    for number in range(SIZE):
        fork.add(
            "message.refused", {"to": "/user/a", "sender": "operator", "why": f"other {number}"}, number % 3
        )
    grown = whole.copy()
    grown.add("message.refused", {"to": "", "sender": "", "why": ""})
    for name, made, verified in (("old", old, False), ("fork", fork, False), ("grown", grown, True)):
        folder = made.write_tiles(tmp_path / name)
        (tmp_path / f"{name}.full").write_bytes(made.bundle())
        for ledger in (folder, tmp_path / f"{name}.full"):
            assert says(ledger, FIRST.vkeys, None)
            assert says(ledger, FIRST.vkeys, tmp_path / "seen") is verified


def test_a_head_of_somebody_else_is_no_head_that_was_seen(says: Says, tmp_path: Path) -> None:
    folder = history().write_tiles(tmp_path / "tiles")
    (tmp_path / "seen").write_bytes(note(history().head_text(40), STRANGER))
    assert not says(folder, FIRST.vkeys, tmp_path / "seen")
