"""PIDs: rising, never used twice, not even across a crash.

PIDs are reserved in blocks. What is durable is ``reserved``, the first PID that may never have been used;
after a restart numbering goes on there, and what was left of the last block is not used. The next block is
asked for while a quarter of a block is still left, so that the reservation is on disk long before anybody
sees a PID of it.

    first_pids() -> tuple[Pids, Reserve]                  of a new node
    resume_pids(reserved: int) -> tuple[Pids, Reserve]    after a restart; ``reserved`` as last recorded
    take(pids) -> tuple[Pids, int, Reserve | None]

Reserve(upto): record ``upto`` as reserved. That of first_pids and resume_pids must be durable before the first
take; that of take before any PID of its block is given out.
"""

from __future__ import annotations

from dataclasses import dataclass

ROOT_PID = 1
FIRST_PID = 2  # 0 is the kernel
BLOCK = 1024
MARGIN = BLOCK // 4


@dataclass(frozen=True, slots=True)
class Pids:
    """``next_pid`` comes next; all below ``reserved`` may be used."""

    next_pid: int
    reserved: int


@dataclass(frozen=True, slots=True)
class Reserve:
    """Effect: make it durable that PIDs below ``upto`` may have been used."""

    upto: int


def first_pids() -> tuple[Pids, Reserve]:
    """0 is the kernel and 1 the root supervisor; others begin at 2."""
    return resume_pids(FIRST_PID)


def resume_pids(reserved: int) -> tuple[Pids, Reserve]:
    """Go on where no PID can have been used."""
    if reserved < FIRST_PID:
        raise ValueError(f"reserved is {reserved}, below the first PID {FIRST_PID}")
    upto = reserved + BLOCK
    return Pids(reserved, upto), Reserve(upto)


def take(pids: Pids) -> tuple[Pids, int, Reserve | None]:
    """The next PID, and a reservation when one is due."""
    pid = pids.next_pid
    if pids.reserved - (pid + 1) >= MARGIN:
        return Pids(pid + 1, pids.reserved), pid, None
    upto = pids.reserved + BLOCK
    return Pids(pid + 1, upto), pid, Reserve(upto)
