"""Commits that have their place and are not on the disk yet, in order; and who is held up while they are many."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from chain.journal.group import Group
from chain.journal.ticket import Ticket
from chain.keys.keys import Keys

ROOM_BYTES = 8 * 2**20


class Unwritten:
    """``pending``: those that no group has taken yet, for the writer. ``bytes``: of all of them. ``fault`` says why the
    disk takes nothing now, None while it does.
    """

    def __init__(self, fault: Callable[[], str | None]) -> None:
        self.pending: deque[Ticket] = deque()
        self.bytes = 0
        self._fault = fault
        self._tickets: deque[Ticket] = deque()
        self._held_up: deque[Callable[[], None]] = deque()

    @property
    def newest(self) -> Ticket | None:
        return self._tickets[-1] if self._tickets else None

    @property
    def at_rest(self) -> bool:
        """Nothing is on its way to the disk, and all that was is told."""
        return len(self.pending) == len(self._tickets)

    def keys(self) -> tuple[Keys, ...]:
        """Those that changes of keys under way will bring."""
        return tuple([ticket.keys for ticket in self._tickets if ticket.keys is not None])

    def add(self, ticket: Ticket) -> None:
        self._tickets.append(ticket)
        self.bytes += ticket.batch.bytes
        self.pending.append(ticket)

    def written(self, group: Group, taken: list[Ticket]) -> None:
        """The oldest are on the disk: whoever waits for them goes on."""
        for ticket in taken:
            self._tickets.popleft()
            self.bytes -= ticket.batch.bytes
        for ticket in taken:
            ticket.written(group)

    def failed(self, why: str) -> None:
        """None of them can be written now: whoever waits is told."""
        for ticket in self._tickets:
            ticket.failed(why)

    def when_room(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` at once, or, while much waits for a disk that is only slow, when less does: behind those who
        were held up before.
        """
        if self._held_up or not self._has_room():
            self._held_up.append(go_on)
            self.let_on()
        else:
            go_on()

    def let_on(self) -> None:
        """Whoever was held up goes on, as far as there is room."""
        while self._held_up and self._has_room():
            self._held_up.popleft()()

    def _has_room(self) -> bool:
        return self.bytes <= ROOM_BYTES or self._fault() is not None
