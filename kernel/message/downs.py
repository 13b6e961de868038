"""What a monitor ends with: one message of kind ``down`` in the mailbox of whoever set it.

The message and the end of the monitor are one unit of records, so neither is there without the other. Its sender,
session, trace and rights are those of the turn that set the monitor: a DOWN is handled for whom that turn was, and with
no more. It is taken whatever else waits: room for it was asked for when the monitor was set
(:mod:`kernel.policy.limits.monitors`).
"""

from __future__ import annotations

import asyncio
from itertools import islice

from chain.ledger.ledger import PREVIOUS, Draft
from kernel.message.message_signals import MessageArrived
from kernel.message.messaging import Messaging, Outgoing
from kernel.model.states import NOCONNECTION
from kernel.process.process_signals import ProcessExited
from kernel.slices.mailboxes import DOWN
from kernel.slices.monitors import Monitor
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit
from kernel.values import canonical

AT_ONCE = 50  # between two rounds of the event loop: the end of one that thousands watch does not hold it up


class Downs:
    """Tells them: those that are due by the record, and those whose end no record of this node says."""

    def __init__(self, recorder: Recorder, messaging: Messaging) -> None:
        self._recorder = recorder
        self._messaging = messaging
        self._monitors = recorder.state.monitors
        # Reasons, by the references of monitors that are not due by the record.
        self._ended: dict[str, str] = {}

    def recover(self) -> None:
        """What the last boot's monitors watched has ended with that boot, or nobody knows whether it has."""
        self._ended |= {ref: NOCONNECTION for ref, monitor in self._monitors.items() if not monitor.reason}
        self._tell()

    def exited(self, said: ProcessExited) -> None:
        """A process of this node has ended, on record or about to be."""
        self._tell()

    def end(self, ref: str, reason: str) -> None:
        """What a monitor watches has ended, and no record of this node says so."""
        self._ended[ref] = reason
        self._tell()

    def tell(self, unit: Unit, monitor: Monitor, reason: str) -> None:
        """Add the records that end a monitor."""
        told = {
            "ref": monitor.ref,
            "target": monitor.target,
            "address": monitor.address,
            "pid": monitor.pid,
            "node": monitor.peer,
            "reason": reason,
        }
        out = Outgoing(
            sender=monitor.sender,
            target=monitor.watcher,
            text=canonical(told),
            session=monitor.session,
            trace=monitor.trace,
            cause=monitor.seq,
            rights=monitor.rights,
            kind=DOWN,
        )
        accepted = self._messaging.accept(unit, out, monitor.watcher)
        body = {"ref": monitor.ref, "watcher": monitor.watcher, "message": accepted.id, "reason": reason}
        unit.add(Draft("monitor.down", body, 0, monitor.turn, monitor.trace, PREVIOUS))
        unit.say(MessageArrived(monitor.watcher))

    def _tell(self) -> None:
        """Some of them now, and the rest in the next rounds of the loop; while the ledger takes nothing, later."""
        if self._recorder.is_behind:  # an exit may be among what waits
            self._recorder.when_writable("downs", self._tell)
        else:
            self._recorder.until_writable("downs", self._tell_some)

    def _tell_some(self) -> None:
        monitors = self._monitors
        self._ended = {ref: reason for ref, reason in self._ended.items() if ref in monitors}
        ends = {ref: monitors[ref].reason for ref in islice(monitors.due, AT_ONCE)}
        ends |= dict(islice(self._ended.items(), AT_ONCE - len(ends)))
        if not ends:
            return
        unit = self._recorder.unit()
        for ref, reason in ends.items():
            self.tell(unit, monitors[ref], reason)
        self._recorder.commit(unit)
        asyncio.get_running_loop().call_soon(self._tell)
