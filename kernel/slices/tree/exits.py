"""How an incarnation ended, and what the next one is told of it."""

from __future__ import annotations

from dataclasses import dataclass

from kernel.abi import LastExit
from kernel.model.states import CELL_LOST, exit_kind
from kernel.values import cut_bytes

DETAIL_BYTES = 1000
WITH_ITS_NODE = "it ran when its node ended"


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of the incarnation ``pid``. ``reason`` empty: none was seen, or what was said of it has been erased;
    ``time_us`` 0: not recorded.
    """

    pid: int = 0
    reason: str = ""
    detail: str = ""
    time_us: int = 0

    @property
    def text(self) -> str:
        """As ``ps`` and ``inspect`` show it."""
        return ": ".join(filter(None, (f"PID {self.pid}", self.reason, self.detail))) if self.reason else ""


NEVER = Exit()


def read_exit(text: str) -> Exit:
    """What earlier versions kept: :attr:`Exit.text`."""
    who, _, said = text.partition(": ")
    number = who.removeprefix("PID ")
    reason, _, detail = said.partition(": ")
    return Exit(int(number), reason, detail) if reason and number.isdecimal() else NEVER


def told_of(end: Exit, pid: int, restarts: int) -> LastExit | None:
    """How the incarnation before the next one ended, of which ``end`` is the last end that was seen, and ``pid`` the
    last that ran; None when there was none, or it is not known any more.

    Of one that has run and whose end nobody recorded it is known that it did not outlive its node.
    """
    if pid > end.pid:
        return LastExit(exit_kind(CELL_LOST), CELL_LOST, WITH_ITS_NODE, 0.0, restarts)
    if not end.reason:
        return None
    detail, _ = cut_bytes(end.detail, DETAIL_BYTES)
    return LastExit(exit_kind(end.reason), end.reason, detail, end.time_us / 1e6, restarts)
