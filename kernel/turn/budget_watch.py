"""Tells of budgets that are nearly, or wholly, used up: the process, the agent above it, and the ledger.

What is due stands in the book (:mod:`kernel.budget.account`); ``budget.warned`` takes it away, in one unit with the
messages, which are of kind ``budget``. So each is told once, whenever the node dies. When all of one is spent, a
process whose budget says ``pause`` is suspended in the same unit, and one whose budget says ``stop`` is stopped by its
supervisor; or it ends for the logical reason ``budget``, now and whenever it is started with nothing left, where its
``on_logical`` says something else than a restart.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import islice
from typing import NamedTuple

from chain.ledger.ledger import Draft
from kernel.budget.account import WARN_PERCENT, Account, level, level_at
from kernel.errors import KernelError
from kernel.message.message_signals import MessageArrived
from kernel.message.messaging import Messaging, Outgoing
from kernel.model.address import parent
from kernel.model.commands import Command
from kernel.model.states import BUDGET as BUDGET_SPENT
from kernel.model.states import shutdown_because
from kernel.operations.rights.budgets import PAUSED_BY, Resource, said_of
from kernel.process.processes import Processes, suspension
from kernel.slices.mailboxes import BUDGET
from kernel.slices.tree.slots import Slot
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit
from kernel.supervision.reducer import SlotState
from kernel.values import canonical

AT_ONCE = 50
SESSION = "main"
NO_TRACE = bytes(16)
ENDED = shutdown_because("budget")
_GRAINS, _STEPS = 100, 20
_MOST_PAYERS = 10  # for whom one process may work in turn before some of it is written all the same


class Use(NamedTuple):
    """Whose processor time was measured, of which incarnation, and whose accounts pay it."""

    address: str
    pid: int
    accounts: tuple[str, ...]


class BudgetWatch:
    """Writes what is due, and stops what has nothing left."""

    def __init__(self, recorder: Recorder, messaging: Messaging, processes: Processes) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._messaging = messaging
        self._processes = processes
        # What is not written yet of each that runs.
        self._measured: dict[int, dict[Use, int]] = {}

    def recover(self) -> None:
        """What the last boot had told of, and did not come to stop."""
        for account in list(self._state.accounts.book.accounts.values()):
            for resource, percent in account.told.items():
                if percent == 100:
                    self._stop(account, resource, -1)
        self.look()

    def running(self, address: str) -> None:
        """A process was started. One that ends for its budget does so again while that is spent."""
        account, slot = self._state.accounts.book.accounts.get(address), self._state.slots.get(address)
        if account is None or slot is None or slot.spec.on_logical == "restart":
            return
        for resource, percent in account.told.items():
            if percent == 100:
                self._stop(account, resource, -1)

    def look(self) -> None:
        """Tell what is due; while the ledger takes nothing, later."""
        self._recorder.until_writable("budgets", self._tell)

    def short(self, address: str, resource: Resource) -> None:
        """Tokens, or money, that do not suffice for a question are never spent to the last. So those of an account that
        is to pause or stop its process count as used up then, if it has been warned: of what is not nearly spent, a
        question may be too long for once.
        """
        self._recorder.until_writable(f"{resource} of {address}", partial(self._use_up, address, resource))

    def used(self, address: str, pid: int, cpu_ms: int, last: bool = False) -> None:
        """A process has used so much processor time more. It is written when it comes to a hundredth of who pays it,
        and at the end of the process (``last``): what is less waits for more, and is lost with the node.
        """
        book = self._state.accounts.book
        turn = self._state.turns.at(address) if book.accounts else None
        payers = book.payers(address, "" if turn is None else turn.mail.payer, "cpu_ms")
        if payers and cpu_ms:
            use = Use(address, pid, tuple(account.address for account in payers))
            measured = self._measured.setdefault(pid, {})
            measured[use] = measured.get(use, 0) + cpu_ms
            least = min(account.lines["cpu_ms"].granted for account in payers) // _GRAINS
            if measured[use] >= least or len(measured) > _MOST_PAYERS:
                self._write_soon(use)
        if last:
            for use in list(self._measured.get(pid, ())):
                self._write_soon(use)

    def _write_soon(self, use: Use) -> None:
        self._recorder.until_writable(("used", use), partial(self._write_use, use))

    def _write_use(self, use: Use) -> None:
        measured = self._measured.get(use.pid, {})
        if use in measured:
            body = {"address": use.address, "resource": "cpu_ms", "accounts": list(use.accounts)}
            self._recorder.commit([Draft("budget.used", {**body, "amount": measured[use]}, use.pid, "")])
            del measured[use]
            if not measured:
                del self._measured[use.pid]
            self.look()

    def holds(self, address: str, pid: int, memory_bytes: int) -> None:
        """A process holds so much memory. It is written when it is another level of its account that somebody is told
        of, or another twentieth of it.
        """
        book, slot = self._state.accounts.book, self._state.slots.get(address)
        account = book.nearest(address, "memory_bytes")
        if account is None or slot is None or not _holds(slot, pid) or not memory_bytes:
            return
        line, (_, held) = account.lines["memory_bytes"], book.held.get(address, ("", 0))
        then = line.spend(memory_bytes - held)
        same = level_at(then.percent) == level(account, "memory_bytes")
        if not same or abs(memory_bytes - held) * _STEPS >= line.granted:
            write = partial(self._write_hold, address, pid, account.address, memory_bytes)
            self._recorder.until_writable(("holds", address), write)

    def _write_hold(self, address: str, pid: int, of: str, memory_bytes: int) -> None:
        slot = self._state.slots.get(address)
        if slot is not None and _holds(slot, pid):
            body = {"address": address, "resource": "memory_bytes", "account": of, "amount": memory_bytes}
            self._recorder.commit([Draft("budget.held", body, pid, "")])
            self.look()

    def _use_up(self, address: str, resource: Resource) -> None:
        book = self._state.accounts.book
        account = book.accounts.get(address)
        if account is None or account.then not in ("pause", "stop") or account.told.get(resource) == 100:
            return
        if resource not in account.lines or level(account, resource) < WARN_PERCENT:
            return
        unit = self._recorder.unit()
        seq = self._warn(unit, account, resource, 100)
        self._recorder.commit(unit)
        self._stop(account, resource, seq)

    def _tell(self) -> None:
        book = self._state.accounts.book
        due = [(book.accounts[address], resource) for address, resource in islice(book.due, AT_ONCE)]
        if not due:
            return
        unit = self._recorder.unit()
        warned = [self._warn(unit, each, resource, level(each, resource)) for each, resource in due]
        self._recorder.commit(unit)
        for (account, resource), seq in zip(due, warned, strict=True):
            if account.told.get(resource) == 100:
                self._stop(account, resource, seq)
        if book.due:
            asyncio.get_running_loop().call_soon(self.look)

    def _warn(self, unit: Unit, account: Account, resource: Resource, percent: int) -> int:
        """The number of the entry that says so."""
        line, address = account.lines[resource], account.address
        said = {"address": address, "resource": resource, "percent": percent}
        said |= {"spent": line.spent, "granted": line.granted}
        cause = unit.next_seq
        unit.add(Draft("budget.warned", said, 0, ""))
        slot = self._state.slots.get(address)
        pauses = account.then == "pause" and percent == 100 and slot is not None and not slot.suspended
        if pauses and not _suspends(unit, address):
            unit.add(suspension("process.suspended", address, Command(cause, PAUSED_BY)))
        above = self._state.slots.worker_above(parent(address))
        for to in (address,) if above is None else (address, above.address):
            told = self._state.slots.get(to)
            if told is None or told.spec.type != "worker" or self._state.slots.down(to) is not None:
                continue
            out = Outgoing(
                sender=address,
                target=to,
                text=canonical({**said, "then": account.then, "left": line.left}),
                session=SESSION,
                trace=NO_TRACE,
                cause=cause,
                rights=frozenset(),
                kind=BUDGET,
            )
            self._messaging.accept(unit, out, to)
            unit.say(MessageArrived(to))
        return cause

    def _stop(self, account: Account, resource: Resource, warned: int) -> None:
        """``warned``: the entry that is the cause, -1 when it is one of an earlier boot."""
        slot = self._state.slots.get(account.address)
        if account.then != "stop" or slot is None or slot.state in (SlotState.STOPPED, SlotState.PARKED):
            return
        spent = f"its budget of {said_of(resource)}"
        if slot.spec.on_logical != "restart":
            self._processes.end_for(account.address, BUDGET_SPENT, f"{spent} is spent", warned)
            return
        try:
            self._processes.stop(account.address, Command(warned, spent), ENDED)
        except KernelError:  # what it is below is down already, or about to be
            return


def _holds(slot: Slot, pid: int) -> bool:
    """Whether that incarnation may hold anything: it is the last one there, and its end is not on record."""
    return slot.pid == pid != slot.last_exit.pid


def _suspends(unit: Unit, address: str) -> bool:
    """Whether what ``unit`` has by now does, for another resource."""
    drafts = (record for record in unit.records if isinstance(record, Draft))
    return any(draft.kind == "process.suspended" and draft.body["address"] == address for draft in drafts)
