"""What the node keeps for others, in all, and how much of it there may be: each of these has a bound and an eviction.

``mail``: nothing goes; what does not fit is refused to its sender. ``sessions``: the one that was added to longest
ago goes, whole, unless its turn is open. ``dead letters``: the oldest is dropped, on the record. ``open turns``: what
their calls hold is needed until they end, so a turn that would hold more is ended with an error. ``asked``: so are
calls without an answer. ``doubts``: nothing goes; while there are as many, no tool runs that may leave another.
``counters``: the number of its next entry is held for each process that runs and for the newest PIDs. ``logs``: all
files of the node's logs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kernel.budget.account import Book
from kernel.kernel import Kernel
from kernel.operations.node import MoneyTotals
from kernel.operations.rights.money import in_units


def totals(kernel: Kernel) -> dict[str, Any]:
    """Everything but the logs: counts and bytes, as ``N of LIMIT``."""
    state, bounds = kernel.state, kernel.env.bounds
    pairs = {
        "mail_bytes": (state.mail_bytes, bounds.mail_bytes),
        "sessions": (len(state.sessions), bounds.sessions),
        "sessions_bytes": (state.sessions.bytes, bounds.sessions_bytes),
        "dead_letters": (len(state.dead), bounds.dead_letters),
        "dead_letters_bytes": (state.dead_bytes, bounds.dead_letters_bytes),
        "open_turns_bytes": (state.kept_bytes, bounds.turns_bytes),
        "asked_bytes": (kernel.live.asked.bytes, bounds.all_asked_bytes),
        "doubts": (state.intents.doubts_count, bounds.doubts),
        "doubts_bytes": (state.intents.doubts_bytes, bounds.doubts_bytes),
    }
    return {
        **{name: f"{held} of {limit}" for name, (held, limit) in pairs.items()},
        "sessions_evicted": kernel.turns.histories.evicted,
        "counters": kernel.recorder.ledger.counters,
    }


def money(book: Book) -> MoneyTotals:
    """What was handed from one account to another is in the one that has it now."""
    lines = [line for each in book.accounts.values() if (line := each.lines.get("money")) is not None]
    return {
        "accounts": len(lines),
        "granted": in_units(sum(line.granted - line.handed for line in lines)),
        "spent": in_units(sum(line.spent for line in lines)),
        "reserved": in_units(sum(line.reserved for line in lines)),
        "left": in_units(sum(line.left for line in lines)),
    }


def log_bytes(logs: Path) -> int:
    """What the files in ``logs`` come to. Blocks; one that is renamed meanwhile counts as nothing."""
    total = 0
    with os.scandir(logs) as entries:
        for entry in entries:
            try:
                total += (
                    entry.stat(follow_symlinks=False).st_size if entry.is_file(follow_symlinks=False) else 0
                )
            except FileNotFoundError:
                continue
    return total
