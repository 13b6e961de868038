"""Ledgers that an archive has read, and what tests do to its database."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import duckdb

from chain.archive.archive import Archive
from chain.keys.keys import load_keys
from chain.ledger.ledger import Draft, Ledger, StateChange, Tuning


def append(data: Path, *drafts: Draft | list[Draft | StateChange], **options: Any) -> None:
    """What a node does: open, commit each draft (or list of records) in a group of its own, stop cleanly."""

    async def run() -> None:
        ledger = open_ledger(data, **options)
        for one in drafts:
            await ledger.commit(one if isinstance(one, list) else [one], durable=True).durable()
        await ledger.close()

    asyncio.run(run())


def open_ledger(data: Path, **options: Any) -> Ledger:
    """Started, in the running loop. Its clock goes on where nobody has been before."""
    clock = itertools.count(1_700_000_000_000_000 + 1_000_000 * sum(1 for _ in (data / "journal").glob("*")))
    keys = load_keys(data / "keys")
    ledger = Ledger.open(data, keys, now_us=lambda: next(clock), tuning=Tuning(**options))
    ledger.start(asyncio.get_running_loop())
    return ledger


def load_all(archive: Archive) -> int:
    """Update until nothing more comes."""
    loaded = -1
    while archive.size > loaded:
        loaded = archive.size
        archive.update()
    return archive.size


def archive_of(data: Path) -> Path:
    """The database of the whole ledger, closed."""
    path = data / "archive" / "audit.duckdb"
    archive = Archive(path, data)
    archive.open()
    load_all(archive)
    archive.close()
    return path


def meddle(path: Path, *statements: str) -> None:
    """Change the database as somebody would who has the file."""
    with duckdb.connect(str(path)) as database:
        for statement in statements:
            database.execute(statement).fetchall()
