"""Partial tiles: one of each size that a checkpoint had stays until its tile is full, as C2SP tlog-tiles wants it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from chain.entry.entry import MAX_LEAF_BYTES
from chain.keys.keys import Keys, create_keys
from chain.ledger.ledger import Ledger, Tuning
from chain.merkle.merkle import leaf_hash, next_level, root
from chain.state.history import History
from chain.tiles.tile_layout import Layout
from chain.tiles.tile_paths import (
    WIDTH,
    entry_bundle,
    hash_tile,
    partials,
    superseded,
    tiles_of,
)
from chain.tiles.tile_store import TileStore
from chain.verify.verify_tiles import verify_tiles
from tests.chain.twins.ledgers import KEYS, Clock, draft
from tests.chain.twins.publishing_child import SIZES
from tests.patience import HANG_S
from tests.places import ROOT

STEPS = (3, 10, 10, 250, 256, 257, 300, 511, 512, 700, 701, 1023, 1025, 1290)


def opened(data: Path, keys: Keys) -> Ledger:
    return Ledger.open(data, keys, now_us=Clock(), tuning=Tuning(publish_s=60.0))


def foreign_root(ledger: Path, size: int) -> bytes:
    """The root over ``size`` leaves, by a client that knows C2SP's paths alone: a file of just the width it needs, or
    the full one. The leaves of the entry bundles must be those of the hash tiles, and each level that of the one below.
    """

    def fetched(path: str, full: str, items: int) -> list[bytes]:
        file = ledger / path
        data = (file if file.is_file() else ledger / full).read_bytes()
        if full.startswith("tile/entries"):
            return _leaves(data)[:items]
        return [data[at : at + 32] for at in range(0, items * 32, 32)]

    row: list[bytes] = []
    for number in range(-(-size // WIDTH)):
        width = min(WIDTH, size - number * WIDTH)
        leaves = fetched(entry_bundle(number, width), entry_bundle(number), width)
        hashes = fetched(hash_tile(0, number, width), hash_tile(0, number), width)
        assert [*map(leaf_hash, leaves)] == hashes
        row += hashes
    found = root(row)
    for level, number, width in tiles_of(size):
        if level:
            hashes = fetched(hash_tile(level, number, width), hash_tile(level, number), width)
            assert hashes == [_top(row[at * WIDTH : (at + 1) * WIDTH]) for at in range(len(row) // WIDTH)]
    return found


def _leaves(data: bytes) -> list[bytes]:
    leaves, at = [], 0
    while at < len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        leaves.append(data[at + 2 : end])
        at = end
    assert all(0 < len(leaf) <= MAX_LEAF_BYTES for leaf in leaves)
    return leaves


def _top(row: list[bytes]) -> bytes:
    while len(row) > 1:
        row = next_level(row)
    return row[0]


def folders(ledger: Path) -> set[str]:
    return {str(path.relative_to(ledger)) for path in ledger.rglob("*.p")}


def of_tiles_that_are_not_full(size: int) -> set[str]:
    layout = Layout()
    list(layout.extend((b"", bytes(32), None, None) for _ in range(size)))
    return {output.path.rpartition("/")[0] for output in layout.finish()}


def agrees(data: Path, size: int, keys: Keys) -> None:
    """The whole published ledger verifies under its keys, and is of ``size``."""
    report = verify_tiles(data / "ledger", [keys.ed25519.text, keys.mldsa.text])
    assert not report.findings and report.entries == size


def test_a_client_with_any_older_checkpoint_finds_what_it_needs(tmp_path: Path) -> None:
    keys = create_keys(tmp_path / "keys")
    ledger = tmp_path / "ledger"

    async def run() -> None:
        log = opened(tmp_path, keys)
        log.start(asyncio.get_running_loop())
        for step, size in enumerate(STEPS):
            log.commit([draft(at) for at in range(log.next_seq, size)])
            await log.publish()
            hashes = [leaf_hash(record.leaf) for record in History(tmp_path).entries()]
            for older in STEPS[: step + 1]:
                assert foreign_root(ledger, older) == root(hashes[:older]), (size, older)
            before = STEPS[step - 1] if step else 0
            full_now = of_tiles_that_are_not_full(before) - of_tiles_that_are_not_full(size)
            assert folders(ledger) == of_tiles_that_are_not_full(size) | full_now
            await asyncio.to_thread(agrees, tmp_path, size, keys)
            if size in (257, 701):  # and nothing is forgotten at a stop
                await log.close()
                log = opened(tmp_path, keys)
                log.start(asyncio.get_running_loop())
        await log.close()

    asyncio.run(run())


def test_what_a_stop_has_left_of_a_full_tile_goes_with_the_next_publication(tmp_path: Path) -> None:
    keys = create_keys(tmp_path / "keys")

    async def run(*sizes: int) -> None:
        log = opened(tmp_path, keys)
        log.start(asyncio.get_running_loop())
        for size in sizes:
            log.commit([draft(at) for at in range(log.next_seq, size)])
            await log.publish()
        await log.close()

    asyncio.run(run(100, 300))
    assert partials(entry_bundle(0)) in folders(tmp_path / "ledger")
    stranger = tmp_path / "ledger" / partials(hash_tile(0, 0)) / "a person's own"
    stranger.write_text("kept")
    asyncio.run(run(301))
    assert folders(tmp_path / "ledger") == of_tiles_that_are_not_full(301) | {partials(hash_tile(0, 0))}
    assert [*stranger.parent.iterdir()] == [stranger]
    agrees(tmp_path, 301, keys)


def test_a_kill_at_any_operation_of_the_publisher_loses_no_size_and_leaves_nothing(tmp_path: Path) -> None:
    numbers = range(0, 60, 5)
    child = [sys.executable, "-m", "tests.chain.twins.publishing_child", str(tmp_path), *map(str, numbers)]
    said = subprocess.run(
        child, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=HANG_S, check=True
    ).stdout
    seen = {int(line.split()[0]): [int(size) for size in line.split()[1:]] for line in said.splitlines()}
    assert [*seen] == [*numbers]
    assert {len(sizes) for sizes in seen.values()} == {len(SIZES) - 2, len(SIZES) - 1, len(SIZES)}
    for number, sizes in seen.items():
        data = tmp_path / str(number)
        asyncio.run(_goes_on(data))
        hashes = [leaf_hash(record.leaf) for record in History(data).entries()]
        for size in sizes:
            assert foreign_root(data / "ledger", size) == root(hashes[:size]), (number, size)
        store = TileStore(data / "ledger")
        agrees(data, store.size, KEYS)
        assert folders(data / "ledger") == of_tiles_that_are_not_full(store.size)
        assert not [*(data / "ledger").rglob("*.new")]


async def _goes_on(data: Path) -> None:
    """Two publications more, neither of which fills a tile."""
    ledger = opened(data, KEYS)
    ledger.start(asyncio.get_running_loop())
    for _ in range(2):
        ledger.commit([draft(ledger.next_seq)])
        await ledger.publish()
    await ledger.close()


@pytest.mark.parametrize("full", [0, 1, 255, 256, 999, 1000, 1001, 70_000])
def test_what_is_superseded_is_looked_for_in_few_directories(full: int) -> None:
    """However many tiles there are: a thousand to a directory."""
    last = {partials(path(full - 1)) for path in (entry_bundle, lambda n: hash_tile(0, n))} if full else set()
    next_ones = {partials(entry_bundle(full)), partials(hash_tile(0, full))}
    there = last | next_ones
    listed = []

    def names(path: str) -> list[str]:
        listed.append(path)
        return [folder.rpartition("/")[2] for folder in there if folder.rpartition("/")[0] == path]

    assert set(superseded(full * WIDTH + 17, names)) == last
    assert len(listed) <= 3 * (full // 1000 + 1) + 2
