"""The book of accounts adds up, whatever happens, and nobody uses more than all above granted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kernel.budget.account import Account, Book, Line, level
from kernel.budget.price import Price
from kernel.budget.reservation import Reservation
from kernel.model.address import ancestors, is_below
from kernel.operations.rights.budgets import Budget, OnExhausted, Resource, read_budget
from kernel.operations.rights.money import in_units
from tests.kernel.twins.books import faults

ADDRESSES = ["/user/a", "/user/a/b", "/user/a/b/c", "/user/a/d", "/user/e"]
PRICE = Price(2_500_000, 700_001, 30_000)
resources = st.sampled_from(["tool_calls", "tokens", "money"])
granted = st.sampled_from(["tool_calls", "tokens", "money", "memory_bytes"])
addresses = st.sampled_from(ADDRESSES)
amounts = st.integers(1, 200)


class Ledger(RuleBasedStateMachine):
    """The book beside a slow and obvious account of it: each amount that was granted from outside, and each that was
    spent, by where it was.
    """

    def __init__(self) -> None:
        super().__init__()
        self.book = Book()
        self.outside: dict[tuple[str, Resource], int] = {}
        self.spent: dict[tuple[str, Resource], int] = {}
        self.holds: dict[str, tuple[str, int]] = {}
        self.number = 0

    def _root(self, address: str, resource: Resource) -> bool:
        return self.book.nearest(ancestors(address)[0], resource) is None

    @rule(
        address=addresses,
        calls=st.none() | amounts,
        tokens=st.none() | amounts,
        money=st.none() | st.integers(1, 900),
        memory=st.none() | amounts,
    )
    def open(
        self, address: str, calls: int | None, tokens: int | None, money: int | None, memory: int | None
    ) -> None:
        if (calls, tokens, money, memory) == (None, None, None, None) or address in self.book.accounts:
            return
        if any(is_below(each, address) for each in self.book.accounts):
            return  # a process is made before what is below it
        budget = Budget(tool_calls=calls, tokens=tokens, money=None if money is None else in_units(money))
        for resource, amount in budget.amounts().items():
            if self._root(address, resource):
                self.outside[address, resource] = amount
        self.book.open(address, budget)

    @rule(address=addresses)
    def close(self, address: str) -> None:
        for each in reversed(ADDRESSES):
            if each == address or is_below(each, address):
                self._close(each)

    def _close(self, address: str) -> None:
        account = self.book.accounts.get(address)
        if account is None:
            return
        held = {"tokens": 0, "money": 0}
        for kept in self.book.reservations.values():
            for resource, accounts, amount in kept.parts:
                held[resource] += amount if address in accounts else 0
        gone_with_it = list(account.lines)
        self.book.close(address)
        for resource in gone_with_it:
            above = self.book.nearest(address, resource)
            gone = self.spent.pop((address, resource), 0)
            gone += held.get(resource, 0)
            if resource == "memory_bytes":
                self.holds = {each: kept for each, kept in self.holds.items() if kept[0] != address}
            if above is None:
                self.outside.pop((address, resource), None)
            elif resource != "memory_bytes":
                key = above.address, resource
                self.spent[key] = self.spent.get(key, 0) + gone

    @rule(address=addresses, resource=granted, amount=amounts)
    def grant(self, address: str, resource: Resource, amount: int) -> None:
        line = self.book.line(address, resource)
        if line is not None and self._root(address, resource):
            self.outside[address, resource] += amount
        self.book.grant(address, resource, amount)

    @rule(
        address=addresses,
        then=st.sampled_from(["refuse", "stop"]),
        wanted=st.dictionaries(granted, st.integers(0, 300), max_size=3),
    )
    def change(self, address: str, then: OnExhausted, wanted: dict[Resource, int]) -> None:
        account = self.book.accounts.get(address)
        before = {} if account is None else dict(account.lines)
        reserved = {resource: line.reserved for resource, line in before.items()}
        self.book.change(address, then, wanted)
        after = self.book.accounts[address].lines if wanted else {}
        assert after.keys() == wanted.keys()
        for resource, line in after.items():
            had = before.get(resource)
            least = line.handed if had is None else min(had.in_use, had.granted)
            assert line.granted >= min(least, wanted[resource])
            if self._root(address, resource):
                assert line.granted == max(wanted[resource], least)
            if resource not in before:
                assert line == Line(line.granted, handed=line.handed)
        for resource in before.keys() - wanted.keys():
            above = self.book.nearest(address, resource)
            gone = self.spent.pop((address, resource), 0) + reserved[resource]
            if resource == "memory_bytes":
                self.holds = {each: kept for each, kept in self.holds.items() if kept[0] != address}
            elif above is not None:
                self.spent[above.address, resource] = self.spent.get((above.address, resource), 0) + gone
        for account in self.book.accounts.values():
            for resource, line in account.lines.items():
                self.outside.pop((account.address, resource), None)
                if self._root(account.address, resource):
                    self.outside[account.address, resource] = line.granted
        for resource in before.keys() - wanted.keys():
            self.outside.pop((address, resource), None)

    @rule(address=addresses, sender=addresses, resource=resources)
    def spend(self, address: str, sender: str, resource: Resource) -> None:
        payers = self.book.payers(address, sender, resource)
        if all(account.lines[resource].left >= 1 for account in payers):
            self.book.spend(payers, resource)
            for account in payers:
                key = account.address, resource
                self.spent[key] = self.spent.get(key, 0) + 1

    @rule(address=addresses, amount=st.integers(0, 300))
    def holds_now(self, address: str, amount: int) -> None:
        account = self.book.nearest(address, "memory_bytes")
        if account is not None:
            self.holds[address] = account.address, amount
            self.book.hold_now(address, account.address, amount)

    @rule(address=addresses)
    def exits(self, address: str) -> None:
        self.holds.pop(address, None)
        self.book.let_go(address)

    @rule(address=addresses, sender=addresses, tokens=amounts)
    def reserve(self, address: str, sender: str, tokens: int) -> None:
        accounts = self.book.payers(address, sender, "tokens")
        payers = self.book.payers(address, sender, "money")
        money = PRICE.most(tokens // 2, tokens - tokens // 2)
        fits = all(account.lines["tokens"].left >= tokens for account in accounts)
        fits = fits and all(account.lines["money"].left >= money for account in payers)
        if fits and (accounts or payers):
            self.number += 1
            whose = [tuple(account.address for account in paying) for paying in (accounts, payers)]
            self.book.reserve(
                Reservation(
                    "t", str(self.number), whose[0], tokens, tokens // 2, False, whose[1], money, PRICE
                )
            )

    @rule(part=st.integers(0, 100), cached=st.integers(0, 100), turn=st.booleans())
    def settle(self, part: int, cached: int, turn: bool) -> None:
        kept = next(iter(self.book.reservations.values()), None)
        if kept is None:
            return
        read, written = kept.input * part // 100, (kept.tokens - kept.input) * part // 100
        money = kept.price.of(read, written, read * cached // 100)
        used: dict[Resource, int] = {"tokens": read + written, "money": money}
        ends = list(self.book.reservations.values()) if turn else [kept]
        for each in ends:
            for resource, accounts, amount in each.parts:
                for account in accounts:
                    spent = amount if turn else used[resource]
                    self.spent[account, resource] = self.spent.get((account, resource), 0) + spent
        if turn:
            self.book.settle_turn("t")
        else:
            self.book.settle("t", kept.ordinal, used)
        for each in ends:  # each is settled once
            self.book.settle(each.turn, each.ordinal, {"tokens": 50, "money": 50})
        self.book.settle_turn("gone")

    @rule()
    def tell(self) -> None:
        for address, resource in list(self.book.due):
            self.book.tell(address, resource, level(self.book.accounts[address], resource))

    @invariant()
    def adds_up(self) -> None:
        assert list(faults(self.book)) == []
        for account in self.book.accounts.values():
            for resource, line in account.lines.items():
                assert line.granted == line.spent + line.reserved + line.handed + line.left
                if resource == "memory_bytes":
                    held = sum(amount for of, amount in self.holds.values() if of == account.address)
                    assert line.spent == held
                    continue
                assert line.left >= 0
                assert line.spent == self.spent.get((account.address, resource), 0)
        for (address, resource), amount in self.outside.items():
            kept = self.book.line(address, resource)
            assert kept is not None and kept.granted == amount

    @invariant()
    def is_the_same_when_it_is_held_anew(self) -> None:
        again = Book()
        for account in self.book.accounts.values():
            again.hold(Account(account.address, account.then, dict(account.lines), dict(account.told)))
        for kept in self.book.reservations.values():
            again.hold_reservation(kept)
        for address, held in self.book.held.items():
            again.hold_memory(address, *held)
        assert again.due.keys() == self.book.due.keys()
        assert list(faults(again)) == []


TestLedger = Ledger.TestCase


def told(book: Book) -> list[Any]:
    return [(address, resource) for address, resource in book.due]


def test_what_is_below_an_account_cannot_use_more_than_it_whatever_its_own_words() -> None:
    book = Book()
    book.open("/user/a", Budget(tool_calls=10))
    book.open("/user/a/b", Budget(tool_calls=8))
    book.open("/user/a/c", Budget(tool_calls=8))
    assert [book.line(each, "tool_calls") for each in ("/user/a", "/user/a/b", "/user/a/c")] == [
        Line(10, handed=10),
        Line(8),
        Line(2),
    ]


def test_a_closed_account_gives_back_what_it_has_not_spent() -> None:
    book = Book()
    book.open("/user/a", Budget(tool_calls=10))
    for _ in range(3):  # a child that comes again under its name does not begin anew with the parent's
        book.open("/user/a/b", Budget(tool_calls=2))
        book.spend(book.payers("/user/a/b", "operator", "tool_calls"), "tool_calls", 2)
        book.close("/user/a/b")
    assert book.line("/user/a", "tool_calls") == Line(10, spent=6)


def test_who_asks_pays_beside_who_acts_unless_one_came_out_of_the_other() -> None:
    book = Book()
    for address in ("/user/a", "/user/e"):
        book.open(address, Budget(tool_calls=10))
    book.open("/user/a/b", Budget(tool_calls=5))

    def pay(address: str, sender: str) -> list[str]:
        return [account.address for account in book.payers(address, sender, "tool_calls")]

    assert pay("/user/a/b", "operator") == ["/user/a/b"]
    assert pay("/user/a/b", "/user/e") == ["/user/a/b", "/user/e"]
    assert pay("/user/a/b", "/user/a") == ["/user/a/b"]
    assert pay("/user/a", "/user/a/b") == ["/user/a/b"]
    assert pay("/user/a/x", "/user/a") == ["/user/a"]
    assert pay("/user/x", "/user/e/y") == ["/user/e"]
    assert pay("/user/x", "/user/e@weftos-1") == []


def test_what_is_due_no_more_since_more_was_granted_is_not_told() -> None:
    book = Book()
    book.open("/user/a", Budget(tool_calls=1))
    book.spend(book.payers("/user/a", "operator", "tool_calls"), "tool_calls")
    assert told(book) == [("/user/a", "tool_calls")]
    book.grant("/user/a", "tool_calls", 9)
    assert told(book) == []


def test_each_level_is_due_once_and_again_when_more_is_granted() -> None:
    book = Book()
    book.open("/user/a", Budget(tool_calls=10))
    payers = book.payers("/user/a", "operator", "tool_calls")
    book.spend(payers, "tool_calls", 7)
    assert told(book) == []
    book.spend(payers, "tool_calls", 1)
    assert told(book) == [("/user/a", "tool_calls")]
    book.tell("/user/a", "tool_calls", 80)
    book.spend(payers, "tool_calls", 1)
    assert told(book) == []
    book.spend(payers, "tool_calls", 1)
    assert told(book) == [("/user/a", "tool_calls")]
    book.tell("/user/a", "tool_calls", 100)
    book.grant("/user/a", "tool_calls", 10)
    book.spend(payers, "tool_calls", 6)
    assert told(book) == [("/user/a", "tool_calls")]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (5, "is a map"),
        ({"tols": 5}, "no field 'tols'"),
        ({"tool_calls": 0}, "tool_calls is 0"),
        ({"tokens": True}, "tokens is True"),
        ({"tokens": 2.5}, "tokens is 2.5"),
        ({"messages": 2**60}, "must be a whole number"),
        ({"then": "refuse"}, "it limits nothing"),
        ({"money": 5}, "5 is no amount of money: write it as text"),
        ({"money": 0.5}, "0.5 is no amount of money"),
        ({"money": "1e3"}, "'1e3' is no amount of money"),
        ({"money": "0.0000001"}, "at most six digits behind its point"),
        ({"money": "0.000000"}, "money is 0, must be more"),
        ({"money": "9999999999"}, "is more money than"),
        ({"tokens": 5, "then": "pray"}, "then is 'pray', none of wrap_up"),
    ],
)
def test_every_wrong_budget_is_named(value: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_budget(value)
