"""Whether the state in a data directory says what the entries say that made it: for an auditor, without a node."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from chain.disk import Disk
from chain.history import History
from chain.reader import replay_group
from chain.snapshot import read_signed
from kernel.agreement import DocumentCheck
from kernel.bounds import Bounds
from kernel.recorder import replay_into
from kernel.state import State
from kernel.state_snapshot import restore_state
from weftos.accepting import contradictions


def check_state(data: Path, disk: Disk | None = None) -> list[str]:
    """What is contradicted, in words; empty when nothing is. Raises ChainError, OSError."""
    disk = disk or Disk()
    bounds = Bounds()
    state = State(bounds.session_records, bounds.session_bytes)
    found = read_signed(data / "snapshot", disk)
    if found is not None and found.snapshot.state:
        restore_state(state, found.snapshot.state)
    documents = DocumentCheck()
    for group in History(data, disk).journal().groups():
        for record in replay_group(group, partial(replay_into, state)):
            documents(record)
    return [*map(str, contradictions(data, state, documents.found, disk))]
