"""The tamper walk over the archive's database: each byte of its headers and of the headers of its blocks, and others.

Each change is looked at in a child process, since a file in that state may take DuckDB's process down, which is a
finding for nobody. A change that is not found must mean nothing: then every row of every table must read as it did.

    python -m tests.prove.tamper_db [--quick] [--seed SEED]
"""

from __future__ import annotations

import multiprocessing
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from chain.archive.check import check_database
from chain.archive.file import connect
from chain.keys.keys import create_keys, load_keys
from chain.keys.rotation import KeyPair
from chain.ledger.ledger import Draft
from chain.state.history import History
from tests.chain.twins.archives import append, archive_of
from tests.patience import HANG_S
from tests.prove.progress import follow
from tests.prove.walks import PARALLEL, run_alone, say_found

ENTRIES = 200
HEADER_BYTES = 4096
HEADERS = 3
BLOCK_BYTES = 2**18
BLOCK_HEADER_BYTES = 8
PLACES = 2_000
QUICK_STEP = 61
PARTS = 32


@dataclass(frozen=True, slots=True)
class Change:
    """The byte at ``at`` is turned by ``turned``; ``kind`` is the row of the table it counts in."""

    kind: str
    at: int
    turned: int


@dataclass(frozen=True, slots=True)
class Intact:
    """A data directory whose database verifies; ``rows``: the digest of all its rows."""

    data: Path
    pair: KeyPair
    leaves: tuple[bytes, ...]
    rows: bytes


def make(data: Path) -> Intact:
    """A ledger with bodies of all shapes, and its archive."""
    data.mkdir()
    create_keys(data / "keys")
    drafts = [
        Draft(
            "message.dead", {"id": str(number), "to": f"/user/{number % 5}", "why": "w" * number}, number % 7
        )
        for number in range(ENTRIES - 2)
    ]
    drafts.append(Draft("message.dropped", {"id": b"\x00\xff", "n": [1.5, None, {"ü": "\x00"}]}, 0))
    drafts.append(Draft("erase", {"ranges": [[3, 4]], "by": "operator", "reason": "asked"}, 0))
    append(data, *drafts)
    path = archive_of(data)
    leaves = tuple(record.leaf_hash for record in History(data).entries())
    intact = Intact(data, load_keys(data / "keys").pair, leaves, rows_of(path))
    assert check_database(path, intact.pair, iter(leaves)) == []
    return intact


def rows_of(path: Path) -> bytes:
    """A digest of every row of every table."""
    digest = sha256()
    with connect(path, read_only=True) as database:
        for (name,) in database.execute(
            "SELECT table_name FROM duckdb_tables() WHERE NOT internal ORDER BY table_name"
        ).fetchall():
            digest.update(f"{name}{sorted(map(repr, database.execute(f'FROM {name}').fetchall()))}".encode())
    return digest.digest()


def changes(path: Path, step: int, dice: random.Random) -> Iterator[Change]:
    """Every ``step``-th byte of the headers, and places in stretches of the same length from begin to end."""
    size = path.stat().st_size
    blocks = range(HEADERS * HEADER_BYTES, size, BLOCK_BYTES)
    heads = [block + at for block in blocks for at in range(BLOCK_HEADER_BYTES)]
    count = PLACES // (1 if step == 1 else QUICK_STEP // 2)
    stretch = (size - blocks.start) // count
    places = {
        "file header": range(0, blocks.start, step),
        "block header": heads,
        "anywhere": [blocks.start + number * stretch + dice.randrange(stretch) for number in range(count)],
    }
    for kind, where in places.items():
        for at in where:
            yield Change(kind, at, dice.randrange(1, 256))


def missed(intact: Intact, path: Path, change: Change) -> str:
    """``found``, ``meaningless``, or what went wrong, for ``path``, which is a copy of the database."""
    turn(path, change)
    try:
        if check_database(path, intact.pair, iter(intact.leaves)):
            return "found"
        return "meaningless" if rows_of(path) == intact.rows else "not found"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        turn(path, change)


def turn(path: Path, change: Change) -> None:
    with open(path, "r+b") as file:
        file.seek(change.at)
        before = file.read(1)[0]
        file.seek(change.at)
        file.write(bytes([before ^ change.turned]))


def _look(intact: Intact, path: Path, todo: list[Change], told: Connection) -> None:
    for change in todo:
        told.send(missed(intact, path, change))


def _part(intact: Intact, part: int, every: list[Change]) -> list[tuple[Change, str]]:
    """What came of every ``PARTS``-th change from ``part`` on; a child that dies is replaced by another."""
    todo = every[part::PARTS]
    verdicts: list[str] = []
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="wtd-") as place:
        while len(verdicts) < len(todo):
            path = Path(shutil.copy(intact.data / "archive" / "audit.duckdb", place))
            ours, theirs = context.Pipe(duplex=False)
            child = context.Process(target=_look, args=(intact, path, todo[len(verdicts) :], theirs))
            child.start()
            theirs.close()
            try:
                while len(verdicts) < len(todo):
                    if not ours.poll(HANG_S):
                        child.kill()
                        verdicts.append(f"no answer within {HANG_S:.0f} s")
                        break
                    verdicts.append(ours.recv())
            except EOFError:
                child.join()
                verdicts.append(f"died of signal {-(child.exitcode or 0)}")
            child.join()
            ours.close()
    return list(zip(todo, verdicts, strict=True))


def prove_tampering_db(console: Console, seed: str, quick: bool) -> bool:
    """The walk, over all of the headers or some; prints the table."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="wtd-") as place:
        intact = make(Path(place) / "data")
        every = list(
            changes(intact.data / "archive" / "audit.duckdb", QUICK_STEP if quick else 1, random.Random(seed))
        )
        with ThreadPoolExecutor(PARALLEL) as pool:
            tasks = pool.map(lambda part: _part(intact, part, every), range(PARTS))
            done = [
                one
                for part in follow(console, "the database, parts of the walk", PARTS, tasks)
                for one in part
            ]
    table = Table("changed in the database", "changes", "found", "meaningless", box=box.SIMPLE_HEAD)
    counts = Counter((change.kind, verdict) for change, verdict in done)
    for kind in dict.fromkeys(change.kind for change, _ in done):
        total = sum(count for (of, _), count in counts.items() if of == kind)
        table.add_row(kind, f"{total:,}", f"{counts[kind, 'found']:,}", f"{counts[kind, 'meaningless']:,}")
    console.print(table)
    wrong = [
        f"{change.kind}, byte {change.at}, turned by {change.turned}: {verdict}"
        for change, verdict in done
        if verdict not in ("found", "meaningless")
    ]
    console.print(f"  {len(done):,} changes, {time.monotonic() - started:.0f} s", highlight=False)
    return say_found(console, wrong, "every change of the database is found, or means nothing")


if __name__ == "__main__":
    sys.exit(run_alone(prove_tampering_db, __doc__, "some bytes"))
