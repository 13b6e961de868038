"""The ledger at length: heads, verification and proofs at 10 k, 100 k and 1 M entries, and what they take on the disk.

Built once for all: one commit is a group of 64 entries, as a busy node makes them; closed cleanly, published whole.
"""

from __future__ import annotations

import asyncio
import resource
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from benchmarks.bench_append import BODY
from benchmarks.conftest import Report
from benchmarks.floors import Floor, time_each
from chain.keys.keys import create_keys, load_keys
from chain.ledger.ledger import Draft, Ledger
from chain.merkle.proof import verify_inclusion
from chain.merkle.tree import inclusion_path
from chain.tiles.tile_store import TileStore
from chain.verify.verify import verify
from chain.verify.verify_tiles import verify_tiles
from kernel.upkeep.loop_lag import LoopLag

GROUP = 64
SIZES = (10_000, 100_000, 1_000_000)
RATE_PER_S = 1_000
PROOFS = 200


@dataclass(frozen=True, slots=True)
class Built:
    """A closed ledger of ``size`` entries, and what making it took."""

    data: Path
    size: int
    seconds: float


async def build(data: Path, size: int) -> float:
    """Fill a new ledger; seconds until the last entry was durable."""
    keys = create_keys(data / "keys")
    ledger = Ledger.open(data, keys, now_us=lambda: time.time_ns() // 1000)
    ledger.start(asyncio.get_running_loop())
    started = time.perf_counter()
    for first in range(0, size, GROUP):
        drafts = [
            Draft("tool.proposed", BODY, 17, "calculator", bytes(16)) for _ in range(min(GROUP, size - first))
        ]
        await ledger.commit(drafts, durable=True).durable()
    took = time.perf_counter() - started
    await ledger.close()
    return took


@pytest.fixture(scope="module")
def ledgers() -> Iterator[dict[int, Built]]:
    with tempfile.TemporaryDirectory(prefix="wb-", dir="/tmp") as directory:
        built = {}
        for size in SIZES:
            data = Path(directory) / str(size)
            data.mkdir()
            built[size] = Built(data, size, asyncio.run(build(data, size)))
        yield built


def hashing_floor(size: int) -> Floor:
    """What hashing alone takes: as many leaves, bodies and tree nodes."""
    leaf, body = bytes(200), bytes(330)

    def hash_all() -> None:
        for _ in range(10_000):
            sha256(leaf).digest()
            sha256(body).digest()
            sha256(leaf[:65]).digest()

    return Floor(f"hashing of {size:,} leaves, bodies, nodes", min(time_each(hash_all, 3)) * size / 10_000)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("size", SIZES)
def test_verify(ledgers: dict[int, Built], report: Report, size: int) -> None:
    data = ledgers[size].data
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    found = verify(data)
    took = time.perf_counter() - started
    assert found.entries == size and not found.findings
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    aim = "under 6 s" if size == 1_000_000 else ""
    report(f"verify of {size:,} entries ({grown:.0f} MiB more)", [took], [hashing_floor(size)], aim=aim)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("size", SIZES)
def test_verify_published(ledgers: dict[int, Built], report: Report, size: int) -> None:
    started = time.perf_counter()
    found = verify_tiles(ledgers[size].data / "ledger")
    took = time.perf_counter() - started
    assert found.entries == size and not found.findings
    report(f"verify of {size:,} published entries", [took], [hashing_floor(size)])


@pytest.mark.parametrize("part", ["made", "checked"])
@pytest.mark.parametrize("size", SIZES)
def test_proof(ledgers: dict[int, Built], report: Report, size: int, part: str) -> None:
    """Made from the published tiles and checked; each for another entry, nothing kept in between."""
    folder = ledgers[size].data / "ledger"
    root = TileStore(folder).root(size)
    made: list[float] = []
    checked: list[float] = []
    for number in range(PROOFS):
        index = number * 7919 % size
        started = time.perf_counter()
        store = TileStore(folder)
        path = inclusion_path(store.node, index, size)
        made.append(time.perf_counter() - started)
        leaf_hash = store.node(0, index)
        started = time.perf_counter()
        verify_inclusion(index=index, size=size, leaf_hash=leaf_hash, proof=path, root=root)
        checked.append(time.perf_counter() - started)
    one = min(time_each(lambda: sha256(bytes(65)).digest(), 1000))
    hashes = Floor(f"{len(path)} hashes", one * len(path))
    took, aim = {"made": (made, "under 5 ms"), "checked": (checked, "under 1 ms")}[part]
    report(f"inclusion proof at {size:,} entries, {part}", took, [hashes], aim=aim * (size == 1_000_000))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("size", SIZES)
def test_recovery(ledgers: dict[int, Built], report: Report, size: int) -> None:
    """Opening the ledger again, its journal whole (no snapshot)."""
    data = ledgers[size].data
    keys = load_keys(data / "keys")
    started = time.perf_counter()
    ledger = Ledger.open(data, keys, now_us=lambda: time.time_ns() // 1000)
    took = time.perf_counter() - started
    assert ledger.size == size
    journal = sum(file.stat().st_size for file in (data / "journal").iterdir())
    published = sum(file.stat().st_size for file in (data / "ledger").rglob("*") if file.is_file())
    per_million = 1_000_000 / size / 2**20
    label = (
        f"recovery of {size:,} entries (a million: journal {journal * per_million:.0f} MiB, "
        f"published {published * per_million:.0f} MiB)"
    )
    report(label, [took], [hashing_floor(size)])


@pytest.mark.parametrize("size", SIZES)
def test_fill(ledgers: dict[int, Built], report: Report, size: int) -> None:
    """Entries a second, in groups of 64, one sync each."""
    each = ledgers[size].seconds / size
    report(f"fill to {size:,} entries, groups of {GROUP}", [each], [hashing_floor(1)], unit="rate")


def test_append_to_full_head(report: Report) -> None:
    """At a thousand entries a second: from the commit to a stored head with both signatures that covers it."""
    with tempfile.TemporaryDirectory(prefix="wb-", dir="/tmp") as directory:
        took, lag_ms, signing = asyncio.run(_to_full_head(Path(directory)))
    report("append to full head, 1,000 a second", took, [signing], aim="p99 under 50 ms", lag_ms=lag_ms)


async def _to_full_head(data: Path) -> tuple[list[float], float, Floor]:
    keys = create_keys(data / "keys")
    ledger = Ledger.open(data, keys, now_us=lambda: time.time_ns() // 1000)
    ledger.start(asyncio.get_running_loop())
    lag = LoopLag()
    lag.start()
    waiting: list[tuple[int, float]] = []
    took: list[float] = []
    begun = time.perf_counter()
    sent = 0
    while sent < 5 * RATE_PER_S or waiting:
        now = time.perf_counter()
        while sent < min(5 * RATE_PER_S, (now - begun) * RATE_PER_S):
            ticket = ledger.commit((Draft("tool.proposed", BODY, 17),), durable=True)
            waiting.append((ticket.entries[0].entry.seq, time.perf_counter()))
            sent += 1
        covered = ledger.full_size
        while waiting and waiting[0][0] < covered:
            took.append(time.perf_counter() - waiting.pop(0)[1])
        await asyncio.sleep(0.0005)
    lag.stop()
    await ledger.close()
    signing = Floor("one ML-DSA-65 signature", sorted(time_each(lambda: keys.sign_mldsa(b"text"), 50))[25])
    return took[RATE_PER_S // 2 :], lag.p99_ms(), signing
