"""The book of accounts of a node: what each was granted, and where that is.

Theory of operation. An account belongs to an *address*, so a restart begins with what is left, and so does a process
that crashes again and again. It has a line for each resource that it limits. What a process uses is charged to the
nearest account at or above it that has such a line; a process below with an account of its own got that out of the
line above, where it counts as **handed**. So at all times, for each line,

    granted = spent + reserved + handed + left

and what is below an account can never use more than it was granted. When an account is closed, what it has spent is
spent of the one above, and the rest goes back there. Who asks pays too: beside the account of the process that acts
stands that of the one whose message it handles, unless the first came out of the second.

What is used at once is spent at once. Memory is not used up but held: of it ``spent`` is what processes hold now, which
is nothing of the account above when one is closed, and of who asks. A question to a model is reserved before it is put,
at most what it can use, in tokens and in money, and settled by what it did use, once. Only there ``left`` can fall
below 0, since a model counts its tokens itself, and where something is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import get_args

from kernel.budget.reservation import Reservation
from kernel.budget.spending import Spending
from kernel.model.address import ancestors, is_below
from kernel.operations.rights.budgets import Budget, OnExhausted, Resource

RESOURCES: tuple[Resource, ...] = get_args(Resource)
WARN_PERCENT = 80
LEVELS = (WARN_PERCENT, 100)


@dataclass(frozen=True, slots=True)
class Line:
    """One resource of an account."""

    granted: int
    spent: int = 0
    reserved: int = 0
    handed: int = 0

    @property
    def left(self) -> int:
        return self.granted - self.in_use

    @property
    def percent(self) -> int:
        """How much of it is spent, rounded down."""
        return 100 * self.spent // max(1, self.granted)

    def spend(self, amount: int) -> Line:
        return replace(self, spent=self.spent + amount)

    def reserve(self, amount: int) -> Line:
        return replace(self, reserved=self.reserved + amount)

    def settle(self, reserved: int, spent: int) -> Line:
        """``spent`` of what was ``reserved``; the rest is left again."""
        return replace(self, reserved=self.reserved - reserved, spent=self.spent + spent)

    def hand(self, amount: int) -> Line:
        return replace(self, handed=self.handed + amount)

    def take_back(self, handed: int, spent: int) -> Line:
        """What was ``handed`` comes back, less what was ``spent`` of it."""
        return replace(self, handed=self.handed - handed, spent=self.spent + spent)

    def grant(self, amount: int) -> Line:
        return replace(self, granted=self.granted + amount)

    @property
    def in_use(self) -> int:
        """What it cannot be less than: spent, reserved or handed."""
        return self.spent + self.reserved + self.handed


@dataclass(slots=True)
class Account:
    """``told``: of each line how many percent of it somebody was told of last."""

    address: str
    then: OnExhausted
    lines: dict[Resource, Line]
    told: dict[Resource, int] = field(default_factory=dict)


class Book:
    """All accounts. ``due``: lines of which more is spent than somebody was told of, in the order in which it was.
    ``held``: of what memory a process holds, by its address, whose account that is of, and how much. ``spending``: what
    counts towards caps of cost.
    """

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.reservations: dict[tuple[str, str], Reservation] = {}
        self.due: dict[tuple[str, Resource], None] = {}
        self.held: dict[str, tuple[str, int]] = {}
        self.spending = Spending()
        self._of_turn: dict[str, dict[str, None]] = {}

    # -- looking -------------------------------------------------------------------------------------------------

    def nearest(self, address: str, resource: Resource) -> Account | None:
        """The account that what ``address`` uses comes out of."""
        if not self.accounts:
            return None
        for at in (address, *ancestors(address)):
            account = self.accounts.get(at)
            if account is not None and resource in account.lines:
                return account
        return None

    def payers(self, address: str, sender: str, resource: Resource) -> list[Account]:
        """Whose accounts pay for what the process at ``address`` does for ``sender``: both; of two of which one came
        out of the other that one alone, since what it spends is spent of the other.
        """
        if not self.accounts:
            return []
        own = self.nearest(address, resource)
        asks = sender.startswith("/") and "@" not in sender
        theirs = self.nearest(sender, resource) if asks else None
        found = [each for each in (own, theirs) if each is not None]
        if len(found) < 2 or own is theirs:
            return found[:1]
        lower = [each for each in found if any(is_below(each.address, other.address) for other in found)]
        return lower or found

    def line(self, account: str, resource: Resource) -> Line | None:
        kept = self.accounts.get(account)
        return None if kept is None else kept.lines.get(resource)

    # -- opening and closing -------------------------------------------------------------------------------------

    def sources(self, parent: str, budget: Budget) -> dict[tuple[str, Resource], int]:
        """Of which accounts how much would be handed to a new one below ``parent``."""
        found = (
            (self.nearest(parent, resource), resource, most) for resource, most in budget.amounts().items()
        )
        return {(above.address, resource): most for above, resource, most in found if above is not None}

    def open(self, address: str, budget: Budget) -> None:
        """A new account, out of those above it: of what is left there at most."""
        self.close(address)
        lines: dict[Resource, Line] = {}
        for resource, amount in budget.amounts().items():
            above = self.nearest(address, resource)
            if above is not None:
                amount = max(0, min(amount, above.lines[resource].left))
                above.lines[resource] = above.lines[resource].hand(amount)
            lines[resource] = Line(amount)
        self.accounts[address] = Account(address, budget.then, lines)

    def close(self, address: str) -> None:
        """What was spent is so of the accounts above, the rest is theirs again. Those below are closed before."""
        account = self.accounts.get(address)
        if account is None:
            return
        for resource in list(account.lines):
            self._take_out(account, resource)
        del self.accounts[address]

    def _take_out(self, account: Account, resource: Resource) -> None:
        """A line goes: what was spent is so of the one above, which has handed from now on what this one had."""
        address = account.address
        for key, kept in list(self.reservations.items()):
            for name, accounts, amount in kept.parts:
                if name == resource and address in accounts:
                    self._leave(key, account, resource, amount)
        if resource == "memory_bytes":
            for each in [each for each, (of, _) in self.held.items() if of == address]:
                self.hold_now(each, address, 0)
        line = account.lines.pop(resource)
        account.told.pop(resource, None)
        self.due.pop((address, resource), None)
        above = self.nearest(address, resource)
        if above is not None:
            taken = above.lines[resource].take_back(line.granted, line.spent)
            above.lines[resource] = taken.hand(line.handed)
            self._look(above, resource)

    def _leave(self, key: tuple[str, str], account: Account, resource: Resource, amount: int) -> None:
        """A line goes while so much is reserved of it: nobody knows what that will come to, so all of it."""
        account.lines[resource] = account.lines[resource].settle(amount, amount)
        gone = account.address, resource
        self.reservations[key] = self.reservations[key].of_those(lambda *pays: pays != gone)

    def _put_in(self, account: Account, resource: Resource, amount: int) -> None:
        """A line comes between those above and those below it, which have from now on what they have out of it."""
        handed = handed_below(self, account.address, resource)
        above = self.nearest(account.address, resource)
        if above is not None:
            amount = min(amount, handed + above.lines[resource].left)
        amount = max(amount, handed)
        if above is not None:
            above.lines[resource] = above.lines[resource].hand(amount - handed)
        account.lines[resource] = Line(amount, handed=handed)
        self._look(account, resource)

    def change(self, address: str, then: OnExhausted, granted: Mapping[Resource, int]) -> None:
        """An account has these lines from now on, and each so much, or what of it is in use, where that is more."""
        account = self.accounts.setdefault(address, Account(address, then, {}))
        account.then = then
        for resource in [each for each in account.lines if each not in granted]:
            self._take_out(account, resource)
        for resource, amount in granted.items():
            if resource in account.lines:
                self.grant(address, resource, amount - account.lines[resource].granted)
            else:
                self._put_in(account, resource, amount)
        if not account.lines:
            del self.accounts[address]

    def grant(self, address: str, resource: Resource, amount: int) -> None:
        """``amount`` more, out of the account above, or less, of what is left."""
        account = self.accounts.get(address)
        if account is None or resource not in account.lines:
            return
        amount = max(amount, min(0, -account.lines[resource].left))
        above = self.nearest(ancestors(address)[0], resource)
        if above is not None:
            amount = min(amount, max(0, above.lines[resource].left))
            above.lines[resource] = above.lines[resource].hand(amount)
        line = account.lines[resource] = account.lines[resource].grant(amount)
        if account.told.get(resource, 0) > line.percent:
            account.told[resource] = level(account, resource)
        self._look(account, resource)

    # -- using ---------------------------------------------------------------------------------------------------

    def spend(self, accounts: list[Account], resource: Resource, amount: int = 1) -> None:
        for account in accounts:
            account.lines[resource] = account.lines[resource].spend(amount)
            self._look(account, resource)

    def hold_now(self, address: str, of: str, amount: int) -> None:
        """The process at ``address`` holds so much memory, of that account, in the place of what it held. Who is told
        of a level again has to have fallen below it.
        """
        before, held = self.held.pop(address, (of, 0))
        if before != of:
            self._hold(before, -held)
            held = 0
        if self.line(of, "memory_bytes") is None:
            return
        if amount:
            self.held[address] = of, amount
        self._hold(of, amount - held)

    def let_go(self, address: str) -> None:
        """The process at ``address`` has exited."""
        if address in self.held:
            self.hold_now(address, self.held[address][0], 0)

    def _hold(self, of: str, more: int) -> None:
        account = self.accounts[of]
        account.lines["memory_bytes"] = account.lines["memory_bytes"].spend(more)
        before = account.told.get("memory_bytes", 0)
        account.told["memory_bytes"] = min(before, level(account, "memory_bytes"))
        self._look(account, "memory_bytes")

    def reserve(self, wanted: Reservation) -> None:
        """Of accounts that are there; in the place of what was reserved for the same question."""
        self.settle(wanted.turn, wanted.ordinal, {})
        there = self._of_those_there(wanted)
        if not (there.accounts or there.payers or there.scopes or wanted.last):
            return
        for scope in there.scopes:
            self.spending.use(scope, there.money, there.day)
        for resource, accounts, amount in there.parts:
            for each in accounts:
                lines = self.accounts[each].lines
                lines[resource] = lines[resource].reserve(amount)
        self.reservations[wanted.turn, wanted.ordinal] = there
        self._of_turn.setdefault(wanted.turn, {})[wanted.ordinal] = None

    def _of_those_there(self, wanted: Reservation) -> Reservation:
        return wanted.of_those(lambda each, resource: self.line(each, resource) is not None)

    def settle(self, turn: str, ordinal: str, spent: Mapping[Resource, int]) -> None:
        """A question has come to so much of each resource."""
        kept = self.reservations.pop((turn, ordinal), None)
        if kept is None:
            return
        ordinals = self._of_turn[turn]
        del ordinals[ordinal]
        if not ordinals:
            del self._of_turn[turn]
        for scope in kept.scopes:
            self.spending.use(scope, spent.get("money", 0) - kept.money, kept.day)
        for resource, accounts, amount in kept.parts:
            for each in accounts:
                account = self.accounts[each]
                account.lines[resource] = account.lines[resource].settle(amount, spent.get(resource, 0))
                self._look(account, resource)

    def settle_turn(self, turn: str) -> None:
        """Nobody hears any more what its open questions have come to: all that was reserved is spent."""
        for ordinal in list(self._of_turn.get(turn, ())):
            kept = self.reservations[turn, ordinal]
            self.settle(turn, ordinal, {resource: amount for resource, _, amount in kept.parts})

    # -- as it was kept ------------------------------------------------------------------------------------------

    def hold(self, account: Account) -> None:
        """An account as it was. Raises ValueError."""
        unknown = [each for each in (*account.lines, *account.told) if each not in RESOURCES]
        if unknown or account.then not in get_args(OnExhausted) or account.address in self.accounts:
            raise ValueError(f"{account.address} has an account of {unknown}, {account.then!r}, or two")
        self.accounts[account.address] = account
        for resource in account.lines:
            self._look(account, resource)

    def hold_memory(self, address: str, of: str, amount: int) -> None:
        """What a process held, which is counted where it is. Raises ValueError."""
        if self.line(of, "memory_bytes") is None or address in self.held:
            raise ValueError(f"{address} holds memory of an account that is not there, or twice")
        self.held[address] = of, amount

    def hold_reservation(self, kept: Reservation) -> None:
        """A reservation as it was: it is counted where it was made. Raises ValueError."""
        if self._of_those_there(kept) != kept:
            raise ValueError(
                f"question {kept.ordinal} of {kept.turn} has something of an account that is not there"
            )
        self.reservations[kept.turn, kept.ordinal] = kept
        self._of_turn.setdefault(kept.turn, {})[kept.ordinal] = None

    # -- telling -------------------------------------------------------------------------------------------------

    def _look(self, account: Account, resource: Resource) -> None:
        if level(account, resource) > account.told.get(resource, 0):
            self.due[account.address, resource] = None
        else:
            self.due.pop((account.address, resource), None)

    def tell(self, address: str, resource: Resource, percent: int) -> None:
        """Somebody was told that so much of a line is spent."""
        self.due.pop((address, resource), None)
        account = self.accounts.get(address)
        if account is not None and resource in account.lines:
            account.told[resource] = percent


def level(account: Account, resource: Resource) -> int:
    """The highest of :data:`LEVELS` that what is spent has come to."""
    return level_at(account.lines[resource].percent)


def level_at(percent: int) -> int:
    """The same of so many in a hundred."""
    return max((each for each in LEVELS if each <= percent), default=0)


def handed_below(book: Book, address: str, resource: Resource) -> int:
    """What those below ``address`` were granted that have nobody's account between it and them."""
    above = book.nearest(ancestors(address)[0], resource)
    return sum(
        account.lines[resource].granted
        for account in book.accounts.values()
        if resource in account.lines
        and is_below(account.address, address)
        and book.nearest(ancestors(account.address)[0], resource) is above
    )


def lines_of(book: Book, address: str) -> Mapping[Resource, Account]:
    """By resource, the account that ``address`` draws on."""
    found = ((resource, book.nearest(address, resource)) for resource in RESOURCES)
    return {resource: account for resource, account in found if account is not None}
