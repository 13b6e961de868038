"""What the node publishes is, byte for byte, what somebody else writes who has only docs/ledger-format.md."""

import base64
from hashlib import sha256
from pathlib import Path

import pytest

from chain.keys.keys import Keys
from chain.state.history import History
from tests.chain.twins import published
from tests.chain.twins.ledgers import KEYS, fill
from tests.chain.twins.published import FIRST, Item, Published
from tests.chain.twins.sceptic import ask, isolated_packages
from tests.chain.twins.verdicts import verify_says


def again(data: Path) -> Published:
    """The ledger in the data directory ``data``, as the second writer holds it."""
    items = [Item(record.leaf, record.salt, record.body_bytes) for record in History(data).entries()]
    return Published([FIRST], items)


@pytest.mark.parametrize("groups", [1, 40, 85, 86, 200])
def test_a_node_publishes_the_files_of_the_page(tmp_path: Path, groups: int) -> None:
    fill(tmp_path, groups)
    made = again(tmp_path)
    size = len(made.items)
    assert size >= 3 * groups
    folder = tmp_path / "ledger"
    for name, data in published.tile_files(made.items, [size]).items():
        path = folder / name
        found = path.read_bytes() if path.exists() else joined(path.parent)
        assert found == data, name
    assert (folder / "vkeys").read_text() == f"{KEYS.ed25519.text}\n{KEYS.mldsa.text}\n"
    root = published.tree_hash(made.hashes)
    text = f"{KEYS.origin}\n{size}\n{base64.b64encode(root).decode()}\n\n"
    assert (folder / "checkpoint").read_text().startswith(text)


def joined(pieces: Path) -> bytes:
    """The bodies of a partial bundle, from its pieces."""
    data, at = b"", 0
    while found := sorted(pieces.glob(f"{at:03}-*")):
        data, at = data + found[-1].read_bytes(), int(found[-1].name[-3:])
    return data


def test_the_second_writers_keys_and_entries_are_the_nodes(tmp_path: Path) -> None:
    """The same seeds have the same name and verifier keys; and an entry the same bytes."""
    from chain.entry.entry import decode_body, decode_entry, encode_body, encode_entry

    keys = Keys(sha256(b"ed25519first").digest(), sha256(b"ml-dsa-65first").digest())
    assert (keys.origin, *(key.text for key in keys.pair.both)) == (FIRST.origin, *FIRST.vkeys)
    for item in published.ledger(30, erased=[(2, 3)]).items:
        assert encode_entry(decode_entry(item.leaf)) == item.leaf
        assert item.body is None or encode_body(decode_body(item.body)) == item.body


def test_what_a_node_publishes_is_verified_by_all(tmp_path: Path) -> None:
    fill(tmp_path, 100)
    packages = isolated_packages(tmp_path / "packages")
    vkeys = (KEYS.ed25519.text, KEYS.mldsa.text)
    assert ask(packages, tmp_path / "ledger", vkeys).verified
    assert verify_says(tmp_path / "ledger", vkeys)
