"""What people may ask of budgets: how they stand, and more of one."""

from __future__ import annotations

from chain.ledger.ledger import Draft
from kernel.budget.account import lines_of
from kernel.budget.spending import Cap, day_of
from kernel.control.asked import Asked
from kernel.errors import NotFound, Refused
from kernel.kernel import Kernel
from kernel.model.address import parent
from kernel.model.commands import Command
from kernel.operations.operation import Handler, Nothing, OfTarget
from kernel.operations.rights.budgets import (
    MOST,
    PAUSED_BY,
    AccountLine,
    Budgets,
    CapRow,
    Grant,
    Resource,
    shown,
)
from kernel.state.recorder import ledger_errors
from kernel.state.state import State

MOST_CAPS = 200


class BudgetControl:
    """Reads the accounts, and gives more."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (Budgets.show.by(self.show), Budgets.caps.by(self.caps), Budgets.grant.by(self.grant))

    async def show(self, asked: Asked, request: OfTarget) -> list[AccountLine]:
        address = self._kernel.messaging.resolve(request.named, beginning=True)
        return account_lines(self._kernel.state, address)

    async def caps(self, asked: Asked, request: Nothing) -> list[CapRow]:
        day, caps = day_of(self._kernel.recorder.ledger.now_us()), self._kernel.env.terms.caps
        rows = []
        for scope, kept in self._kernel.state.accounts.book.spending:
            spent, cap = kept.on(day), caps.cap(scope) or Cap()
            used = max(
                spent.today / max(1, cap.daily) if cap.daily is not None else 0.0,
                spent.month / max(1, cap.monthly) if cap.monthly is not None else 0.0,
            )
            row = CapRow(
                scope=scope, today=spent.today, daily=cap.daily, month=spent.month, monthly=cap.monthly
            )
            rows.append((used, row))
        rows.sort(key=lambda each: (-each[0], each[1]["scope"]))
        return [row for _, row in rows[:MOST_CAPS]]

    async def grant(self, asked: Asked, request: Grant) -> list[AccountLine]:
        """Raises NotFound for a process without such a budget, Refused when the account above has not so much."""
        kernel, resource, amount = self._kernel, request.resource, request.amount
        address, book = kernel.messaging.resolve(request.named), kernel.state.accounts.book
        line = book.line(address, resource)
        if line is None:
            raise NotFound(
                f"{address} has no budget of {resource}; weftos budget show {address} says what there is"
            )
        above = book.nearest(parent(address), resource)
        if above is not None and above.lines[resource].left < amount:
            left = shown(resource, max(0, above.lines[resource].left))
            raise Refused(
                f"{above.address} has {left} {resource} left, and cannot give {shown(resource, amount)}: give it more "
                "first"
            )
        if line.granted + amount > MOST:
            raise Refused(
                f"{address} would have {shown(resource, line.granted + amount)} {resource}, at most "
                f"{shown(resource, MOST)} can be granted"
            )
        seq, trace = asked.record(address=address, resource=resource, amount=amount)
        body = {"address": address, "resource": resource, "amount": amount, "by": asked.by}
        granted = Draft("budget.granted", body, 0, "", trace, seq)
        with ledger_errors():
            if self._is_enough(address, resource, amount):
                command = Command(seq, asked.by)
                await kernel.processes.resume(address, command, granted).durable()
            else:
                await kernel.recorder.commit([granted]).durable()
        return account_lines(kernel.state, address)

    def _is_enough(self, address: str, resource: Resource, amount: int) -> bool:
        """Whether a process that its budget has paused goes on with so much more."""
        state = self._kernel.state
        slot = state.slots.get(address)
        if slot is None or slot.suspended != PAUSED_BY:
            return False
        lines = dict(state.accounts.book.accounts[address].lines)
        lines[resource] = lines[resource].grant(amount)
        return all(line.percent < 100 for line in lines.values())


def account_lines(state: State, address: str) -> list[AccountLine]:
    """What a process draws on."""
    return [
        {
            "account": account.address,
            "resource": resource,
            "granted": (line := account.lines[resource]).granted,
            "spent": line.spent,
            "reserved": line.reserved,
            "handed": line.handed,
            "left": line.left,
            "then": account.then,
        }
        for resource, account in lines_of(state.accounts.book, address).items()
    ]
