"""What is kept of accounts for a question that is not answered yet. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kernel.budget.price import NOTHING, Price
from kernel.operations.rights.budgets import Resource


@dataclass(frozen=True, slots=True)
class Reservation:
    """What a question may come to: ``tokens`` of ``accounts`` each, ``input`` of them for what it says, and ``money``
    of ``payers`` each, at ``price``. ``last``: of its turn. ``scopes``: where as much money counts towards caps
    (:mod:`kernel.budget.spending`), on that ``day``.
    """

    turn: str
    ordinal: str
    accounts: tuple[str, ...]
    tokens: int
    input: int
    last: bool = False
    payers: tuple[str, ...] = ()
    money: int = 0
    price: Price = NOTHING
    scopes: tuple[str, ...] = ()
    day: int = 0

    @property
    def parts(self) -> tuple[tuple[Resource, tuple[str, ...], int], ...]:
        """By resource, whose accounts hold how much of it each."""
        return ("tokens", self.accounts, self.tokens), ("money", self.payers, self.money)

    def of_those(self, pays: Callable[[str, Resource], bool]) -> Reservation:
        """Of the accounts alone of which ``pays`` is true."""
        accounts = tuple(each for each in self.accounts if pays(each, "tokens"))
        payers = tuple(each for each in self.payers if pays(each, "money"))
        return replace(self, accounts=accounts, payers=payers)
