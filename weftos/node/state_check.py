"""Whether the state in a data directory says what the entries say that made it: for an auditor, without a node."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from chain.disk import Disk
from chain.entry.reader import replay_group
from chain.errors import ChainError, ReplayError
from chain.state.history import History
from chain.state.snapshot import read_signed
from chain.verify.verify import ATTEMPTS, mark
from kernel.bounds import Bounds
from kernel.state.agreement import DocumentCheck
from kernel.state.recorder import replay_into
from kernel.state.state import State
from kernel.state.state_snapshot import restore_state
from weftos.node.accepting import contradictions


def compare_state(data: Path, disk: Disk | None = None) -> tuple[list[str], str]:
    """As :func:`check_state`, beside a running node: what is contradicted, and why nothing could be compared. What is
    found while the node puts a snapshot in place, and drops what that covers, may be its doing: looked at again.
    """
    disk = disk or Disk()
    for left in reversed(range(ATTEMPTS)):
        before = mark(data, disk)
        found, uncompared = _compared(data, disk)
        if not (found or uncompared) or mark(data, disk) == before:
            break
        if not left:
            return [], f"the node changed it at each of {ATTEMPTS} attempts"
    return found, uncompared


def _compared(data: Path, disk: Disk) -> tuple[list[str], str]:
    try:
        return check_state(data, disk), ""
    except (
        ReplayError,
        OSError,
    ) as error:  # a record that only another version takes; a segment just dropped
        return [], str(error)
    except ChainError as error:
        return [str(error)], ""


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
