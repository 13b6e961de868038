"""What a monitor ends with: one message of kind ``down`` in the mailbox of whoever set it. And what a link ends with: a
message of kind ``exit`` for one that traps exits, else the end of that one, unless the first ended in order.

The message and the end of the monitor are one unit of records, so neither is there without the other. Its sender,
session, trace and rights are those of the turn that set the monitor: a DOWN is handled for whom that turn was, and with
no more. It is taken whatever else waits: room for it was asked for when the monitor was set
(:mod:`kernel.policy.limits.monitors`). An exit is told for whom the turn was that had exits trapped.

That a link is carried out is said once its end is written: what it would have ended ends with the node as well, should
that die in between.
"""

from __future__ import annotations

import asyncio
import json
from itertools import islice

from chain.ledger.ledger import PREVIOUS, Draft
from kernel.message.message_signals import LinkBroken, MessageArrived
from kernel.message.messaging import Messaging, Outgoing
from kernel.model.states import NOCONNECTION, is_logical, is_orderly
from kernel.process.process_signals import ProcessExited
from kernel.slices.mailboxes import DOWN, EXIT
from kernel.slices.monitors import Monitor
from kernel.slices.traps import Trap
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
        self._traps = recorder.state.traps
        # Reasons, by the references of monitors that are not due by the record.
        self._ended: dict[str, str] = {}
        # Of the last boot: whom its links bind has ended with that.
        self._former: frozenset[str] = frozenset()

    def recover(self) -> None:
        """What the last boot's monitors watched has ended with that boot, or nobody knows whether it has."""
        self._former = frozenset(self._monitors)
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
        """Add the records that end a monitor, or a link."""
        trap = self._traps.get(monitor.bound()) if monitor.link else None
        if not monitor.link:
            self._accept(unit, monitor, _down(monitor, reason))
        elif trap is not None:
            self._accept(unit, monitor, _exit(monitor, trap, reason))
        else:
            self._end(unit, monitor, "", reason)
            if not is_orderly(reason) and monitor.ref not in self._former:
                unit.say(_broken(monitor, reason))

    def _accept(self, unit: Unit, monitor: Monitor, out: Outgoing) -> None:
        accepted = self._messaging.accept(unit, out, out.target)
        self._end(unit, monitor, accepted.id, json.loads(out.text)["reason"])
        unit.say(MessageArrived(out.target))

    def _end(self, unit: Unit, monitor: Monitor, message: str, reason: str) -> None:
        body = {"ref": monitor.ref, "watcher": monitor.bound(), "message": message, "reason": reason}
        cause = PREVIOUS if message else monitor.seq
        unit.add(Draft("monitor.down", body, 0, monitor.turn, monitor.trace, cause))

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


def _down(monitor: Monitor, reason: str) -> Outgoing:
    told = {
        "ref": monitor.ref,
        "target": monitor.target,
        "address": monitor.address,
        "pid": monitor.pid,
        "node": monitor.peer,
        "reason": reason,
    }
    return Outgoing(
        sender=monitor.sender,
        target=monitor.watcher,
        text=canonical(told),
        session=monitor.session,
        trace=monitor.trace,
        cause=monitor.seq,
        rights=monitor.rights,
        kind=DOWN,
    )


def _exit(monitor: Monitor, trap: Trap, reason: str) -> Outgoing:
    address, pid = _ended(monitor)
    told = {"ref": monitor.ref, "address": address, "pid": pid, "node": monitor.peer, "reason": reason}
    return Outgoing(
        sender=trap.sender,
        target=trap.address,
        text=canonical(told),
        session=trap.session,
        trace=trap.trace,
        cause=monitor.seq,
        rights=trap.rights,
        kind=EXIT,
    )


def _broken(monitor: Monitor, reason: str) -> LinkBroken:
    """A link that binds both is one of two incarnations: it takes no later one along. A peer that lets nobody watch
    says ``refused``, which would be a logical end here.
    """
    carried = NOCONNECTION if monitor.peer and is_logical(reason) else reason
    address, pid = _ended(monitor)
    where = f"{address}@{monitor.peer}" if monitor.peer else f"PID {pid}, {address},"
    return LinkBroken(
        monitor.bound(),
        monitor.pid if monitor.turned else monitor.watcher_pid,
        carried,
        f"{where} ended, and is linked with it",
    )


def _ended(monitor: Monitor) -> tuple[str, int]:
    """Address and PID of the one that the other is told of."""
    return (monitor.watcher, monitor.watcher_pid) if monitor.turned else (monitor.address, monitor.pid)
