"""What the end of a supervisor, which ends by itself and takes its time, will make of slots: recorded when it begins.

A node that is killed before it has ended then begins with what the end would have left. Until it has, the slots are as
they were: who is below watches, is sent to and comes back as ever. An end that comes to nothing all the same, as
somebody kills what is ending and it is brought back, is recorded so.
"""

from __future__ import annotations

from collections import Counter

from kernel.clock import Clock
from kernel.model.address import name_of
from kernel.model.address import parent as parent_of
from kernel.model.states import SHUTDOWN
from kernel.process.live import LiveTable, Supervisors
from kernel.process.slots.slot_writer import SlotWriter
from kernel.slices.tree.slots import Slot, Slots
from kernel.supervision.reducer import Exited, SlotChanged, SlotState, step


class ForeseenEnds:
    """Supervisors which still run, and whose slots will be stopped by their ends, as is recorded. How many of them
    count for the one above is kept, since hundreds may end together: to go through them at each end took the loop
    seconds.
    """

    def __init__(
        self, supervisors: Supervisors, live: LiveTable, slots: Slots, writer: SlotWriter, clock: Clock
    ) -> None:
        self._supervisors = supervisors
        self._live = live
        self._slots = slots
        self._writer = writer
        self._clock = clock
        self._stopped: dict[
            str, bool
        ] = {}  # whether the supervisor above ends with it, or with the last like it
        self._counting: Counter[str] = Counter()  # so many of those there are below each

    def begun(self, address: str) -> None:
        """The supervisor at ``address`` has begun to end by itself: that it will be stopped is recorded, and the
        same of those above that will end with it.
        """
        stopped: list[Slot] = []
        while (slot := self._slots.get(address)) is not None and self._is_stopped_by_its_end(address):
            if address not in self._stopped:
                self._put(address)
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

    def respecified(self, address: str) -> None:
        """What is at ``address`` has another spec."""
        slot = self._slots.get(address)
        if address in self._stopped and slot is not None:
            self._take(address)
            if self._is_stopped_by_its_end(address):
                self._put(address)
            else:
                self._writer.foresee([slot], stops=False)

    def _put(self, address: str) -> None:
        child = self._supervisors.child(address)
        self._stopped[address] = child is not None and child.spec.significant
        if self._stopped[address]:
            self._counting[parent_of(address)] += 1

    def _take(self, address: str) -> None:
        self._uncount(address)
        self._stopped.pop(address, None)

    def _uncount(self, address: str) -> None:
        if self._stopped.get(address):
            self._stopped[address], above = False, parent_of(address)
            self._counting[above] -= 1
            if not self._counting[above]:
                del self._counting[above]

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
        supervisor, count = self._supervisors.get(address), self._counting.get(address, 0)
        if supervisor is None or supervisor.closing is not None or not count:
            return False
        mode = supervisor.flags.auto_shutdown
        return mode == "any_significant" or (mode == "all_significant" and count == supervisor.significant)

    def ends(self, address: str) -> None:
        """What ran at ``address`` has ended, and its supervisor is about to know: where that ends too, it begins again
        with that.
        """
        self._uncount(address)  # as its supervisor does, where it is for good
        slot = self._slots.get(address)
        if address in self._stopped and slot is not None and self._is_closing(parent_of(address)):
            self._take(address)
            self._writer.foresee([slot], stops=False)

    def over(self, address: str) -> None:
        """What ran at ``address`` has ended, and its supervisor knows, or it will come back or be stopped by a person:
        those above that go on are not stopped.
        """
        self._take(address)
        self._go_on(parent_of(address))

    def _go_on(self, address: str) -> None:
        """The supervisor at ``address`` and those above may not end after all: that is recorded."""
        slots: list[Slot] = []
        while address in self._stopped and not self._is_closing(address) and not self._will_close(address):
            self._take(address)
            slots += filter(None, [self._slots.get(address)])
            address = parent_of(address)
        self._writer.foresee(slots, stops=False)

    def _is_closing(self, address: str) -> bool:
        supervisor = self._supervisors.get(address)
        return supervisor is None or supervisor.closing is not None
