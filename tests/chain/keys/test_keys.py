"""Keys are made once, are private, and are never made anew where some should be."""

import base64
import os
import stat
from hashlib import sha256
from pathlib import Path

import pytest

from chain.errors import KeyFileError, VerifierKeyError
from chain.keys.keys import ED25519_FILE, ML_DSA_65_FILE, VKEYS_FILE, Keys, create_keys, load_keys, load_vkeys
from chain.notes.note import VerifierKey, join_note, verify

TEXT = b"some.log\n0\nAAAA\n"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    create_keys(tmp_path / "keys")
    return tmp_path / "keys"


def test_keys_come_back_as_they_were_made(tmp_path: Path) -> None:
    made = create_keys(tmp_path / "keys")
    loaded = load_keys(tmp_path / "keys")
    assert loaded.origin == made.origin
    assert (loaded.ed25519, loaded.mldsa) == (made.ed25519, made.mldsa)
    note = join_note(TEXT, loaded.ed25519_line(TEXT), loaded.mldsa_line(TEXT))
    assert verify(note, [made.ed25519, made.mldsa]).text == TEXT


def test_two_nodes_have_two_names(tmp_path: Path) -> None:
    assert create_keys(tmp_path / "one").origin != create_keys(tmp_path / "two").origin


def test_the_origin_is_the_fingerprint_of_the_first_key() -> None:
    keys = Keys(b"e" * 32, b"m" * 32)
    kind, _, fingerprint = keys.origin.partition("-")
    assert kind == "weftos"
    padded = fingerprint.upper() + "=" * (-len(fingerprint) % 8)
    assert base64.b32decode(padded) == sha256(keys.ed25519.public_key).digest()[:16]
    assert keys.ed25519.name == keys.mldsa.name == keys.origin
    assert Keys(b"e" * 32, b"x" * 32).origin == keys.origin


def test_the_files_are_private_and_nothing_else_is_left(tmp_path: Path, directory: Path) -> None:
    assert [path.name for path in tmp_path.iterdir()] == ["keys"]
    assert {path.name for path in directory.iterdir()} == {ED25519_FILE, ML_DSA_65_FILE, VKEYS_FILE}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
    assert len(base64.b64decode((directory / ED25519_FILE).read_bytes())) == 32
    lines = (directory / VKEYS_FILE).read_text().splitlines()
    assert [VerifierKey.parse(line).text for line in lines] == lines


def test_files_are_private_under_any_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        create_keys(tmp_path / "keys")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "keys").iterdir()} == {0o600}
    load_keys(tmp_path / "keys")


def test_existing_keys_are_never_replaced(tmp_path: Path, directory: Path) -> None:
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(KeyFileError, match="keys that exist are never replaced"):
        create_keys(directory)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["keys"]


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(KeyFileError, match=r"cannot make keys in .*/nowhere/keys: No such file or directory"):
        create_keys(tmp_path / "nowhere" / "keys")


@pytest.mark.parametrize("name", [ED25519_FILE, ML_DSA_65_FILE, VKEYS_FILE])
def test_a_missing_file_is_named_and_not_made(directory: Path, name: str) -> None:
    (directory / name).unlink()
    with pytest.raises(KeyFileError, match=rf"{name} is missing: restore it from a copy.*no new identity"):
        load_keys(directory)
    assert not (directory / name).exists()


@pytest.mark.parametrize("name", [ED25519_FILE, ML_DSA_65_FILE])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610])
def test_a_secret_that_others_could_read_is_refused(directory: Path, name: str, mode: int) -> None:
    (directory / name).chmod(mode)
    with pytest.raises(KeyFileError, match=rf"{name} has mode {mode:04o}, must be 0600.*chmod 600"):
        load_keys(directory)


@pytest.mark.parametrize("name", [ED25519_FILE, ML_DSA_65_FILE, VKEYS_FILE])
def test_something_else_in_a_files_place_is_refused(directory: Path, tmp_path: Path, name: str) -> None:
    target = tmp_path / "elsewhere"
    (directory / name).rename(target)
    (directory / name).symlink_to(target)
    with pytest.raises(KeyFileError, match=rf"cannot read .*{name}"):
        load_keys(directory)
    (directory / name).unlink()
    (directory / name).mkdir(mode=0o700)
    with pytest.raises(KeyFileError, match=rf"{name} is not a regular file"):
        load_keys(directory)
    (directory / name).rmdir()
    os.mkfifo(directory / name, 0o600)
    with pytest.raises(KeyFileError, match=rf"{name} is not a regular file"):
        load_keys(directory)


@pytest.mark.parametrize("content", [b"", b"\n", b"!" * 44 + b"\n", base64.b64encode(b"x" * 31) + b"\n"])
def test_a_file_that_holds_no_key_is_refused(directory: Path, content: bytes) -> None:
    (directory / ML_DSA_65_FILE).write_bytes(content)
    with pytest.raises(KeyFileError, match=rf"{ML_DSA_65_FILE} does not hold a key"):
        load_keys(directory)


def test_every_cut_off_secret_is_refused(directory: Path) -> None:
    whole = (directory / ED25519_FILE).read_bytes()
    for end in range(len(whole)):
        (directory / ED25519_FILE).write_bytes(whole[:end])
        with pytest.raises(KeyFileError, match="does not hold a key"):
            load_keys(directory)


@pytest.mark.parametrize("name", [ED25519_FILE, ML_DSA_65_FILE, VKEYS_FILE])
def test_files_of_two_nodes_are_told_apart(tmp_path: Path, directory: Path, name: str) -> None:
    create_keys(tmp_path / "other")
    (directory / name).write_bytes((tmp_path / "other" / name).read_bytes())
    with pytest.raises(KeyFileError, match="files of two nodes are mixed"):
        load_keys(directory)


def test_public_keys_are_read_without_the_secret_ones(directory: Path) -> None:
    keys = load_keys(directory)
    (directory / ED25519_FILE).unlink()
    (directory / ML_DSA_65_FILE).unlink()
    assert load_vkeys(directory) == (keys.ed25519, keys.mldsa)


def test_doubtful_public_keys_are_refused(tmp_path: Path, directory: Path) -> None:
    path = directory / VKEYS_FILE
    first, second = path.read_text().splitlines()
    stranger = create_keys(tmp_path / "other")
    named_wrong = VerifierKey(
        stranger.origin, load_vkeys(directory)[0].type, load_vkeys(directory)[0].public_key
    )
    for text, words in [
        (first, "must hold one Ed25519 and one ML-DSA-65"),
        (f"{second}\n{first}\n", "must hold one Ed25519 and one ML-DSA-65"),
        (f"{first}\n{stranger.mldsa.text}\n", "restore it from a copy"),
        (f"{named_wrong.text}\n{stranger.mldsa.text}\n", "its Ed25519 key belongs to"),
        ("caf\u00e9\n", "not ASCII"),
    ]:
        path.write_text(text, encoding="utf-8")
        with pytest.raises(KeyFileError, match=words):
            load_vkeys(directory)
    path.write_text(first[:-1] + "\n" + second)
    with pytest.raises(VerifierKeyError):
        load_vkeys(directory)


def test_secrets_are_not_shown(directory: Path) -> None:
    keys = load_keys(directory)
    secrets = [(directory / name).read_text().strip() for name in (ED25519_FILE, ML_DSA_65_FILE)]
    shown = f"{keys!r} {keys} {keys.ed25519!r}"
    assert keys.origin in shown
    for secret in secrets:
        assert secret not in shown
        assert repr(base64.b64decode(secret)) not in shown
