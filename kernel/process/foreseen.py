"""What the end of a supervisor, which ends by itself and takes its time, will make of slots: recorded when it begins.

A node that is killed before it has ended then begins with what the end would have left. Until it has, the slots are as
they were: who is below watches, is sent to and comes back as ever. An end that comes to nothing all the same, as
somebody kills what is ending and it is brought back, is recorded so.
"""

from __future__ import annotations

from kernel.clock import Clock
from kernel.model.address import name_of
from kernel.model.address import parent as parent_of
from kernel.model.states import SHUTDOWN
from kernel.process.live import LiveTable, Supervisors
from kernel.process.slots.slot_writer import SlotWriter
from kernel.slices.tree.slots import Slot, Slots
from kernel.supervision.reducer import Exited, SlotChanged, SlotState, step


class ForeseenEnds:
    """Addresses of supervisors which still run, and whose slots will be stopped by their ends, as is recorded."""

    def __init__(
        self, supervisors: Supervisors, live: LiveTable, slots: Slots, writer: SlotWriter, clock: Clock
    ) -> None:
        self._supervisors = supervisors
        self._live = live
        self._slots = slots
        self._writer = writer
        self._clock = clock
        self._stopped: set[str] = set()

    def begun(self, address: str) -> None:
        """The supervisor at ``address`` has begun to end by itself: that it will be stopped is recorded, and the
        same of those above that will end with it.
        """
        stopped: list[Slot] = []
        while (slot := self._slots.get(address)) is not None and self._is_stopped_by_its_end(address):
            if address not in self._stopped:
                self._stopped.add(address)
                stopped.append(slot)
            address = parent_of(address)
            if not self._will_close(address):
                break
        self._writer.foresee(stopped, stops=True)

    def look(self, address: str) -> None:
        """Something is new to the supervisor at ``address``: it may be about to end, with some that have begun to, or
        not any more.
        """
        if address in self._stopped:
            self._go_on(address)
        elif self._stopped and self._will_close(address):
            self.begun(address)

    def _is_stopped_by_its_end(self, address: str) -> bool:
        process, supervisor = self._live.at(address), self._supervisors.get(parent_of(address))
        if process is None or supervisor is None:
            return False
        ended = Exited(name_of(address), process.pid, SHUTDOWN)
        _, effects = step(supervisor, ended, self._clock.now_s(), 0.0)
        changes = [effect for effect in effects if isinstance(effect, SlotChanged)]
        return any((change.id, change.state) == (ended.id, SlotState.STOPPED) for change in changes)

    def _will_close(self, address: str) -> bool:
        """Whether the supervisor at ``address``, which goes on, will end with those below it that have begun to."""
        supervisor = self._supervisors.get(address)
        if supervisor is None or supervisor.closing is not None or supervisor.flags.auto_shutdown == "never":
            return False
        for below in self._stopped:
            process = self._live.at(below)
            if process is not None and parent_of(below) == address:
                ended = Exited(name_of(below), process.pid, SHUTDOWN)
                supervisor, _ = step(supervisor, ended, self._clock.now_s(), 0.0)
        return supervisor.closing is not None

    def ends(self, address: str) -> None:
        """What ran at ``address`` has ended, and its supervisor is about to know: where that ends too, it begins again
        with that.
        """
        slot = self._slots.get(address)
        if address in self._stopped and slot is not None and self._is_closing(parent_of(address)):
            self._stopped.discard(address)
            self._writer.foresee([slot], stops=False)

    def over(self, address: str) -> None:
        """What ran at ``address`` has ended, and its supervisor knows, or it will come back or be stopped by a person:
        those above that go on are not stopped.
        """
        self._stopped.discard(address)
        self._go_on(parent_of(address))

    def _go_on(self, address: str) -> None:
        """The supervisor at ``address`` and those above may not end after all: that is recorded."""
        slots: list[Slot] = []
        while address in self._stopped and not self._is_closing(address) and not self._will_close(address):
            self._stopped.discard(address)
            slots += filter(None, [self._slots.get(address)])
            address = parent_of(address)
        self._writer.foresee(slots, stops=False)

    def _is_closing(self, address: str) -> bool:
        supervisor = self._supervisors.get(address)
        return supervisor is None or supervisor.closing is not None
