"""Another budget is declared for what is there: what it has then, and what is refused in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.budget.account import Book, Line
from kernel.budget.changed import amounts, change_in_words, less, may_change, relined
from kernel.errors import Refused
from kernel.operations.rights.budgets import MOST, Budget, OnExhausted, Resource
from tests.kernel.twins.books import faults

SHOP, CLERK = "/user/shop", "/user/shop/clerk"
numbers = st.none() | st.integers(1, 20)
thens: st.SearchStrategy[OnExhausted] = st.sampled_from(["refuse", "stop"])
budgets = st.none() | st.builds(
    Budget,
    tokens=st.integers(1, 20),
    tool_calls=numbers,
    money=st.none() | st.sampled_from(["1", "0.50", "0.5"]),
    then=thens,
)


def book_of(*opened: tuple[str, Budget], spent: int = 0) -> Book:
    book = Book()
    for address, budget in opened:
        book.open(address, budget)
    if spent:
        book.spend(book.payers(SHOP, "", "tokens"), "tokens", spent)
    return book


def changed(book: Book, address: str, before: Budget | None, after: Budget | None) -> Book:
    lines = relined(book, address, before, after)
    book.change(address, "refuse", lines)
    assert list(faults(book)) == []
    assert (
        {name: line.granted for name, line in book.accounts[address].lines.items()} == lines
        if lines
        else True
    )
    return book


def test_what_a_person_granted_beside_stays() -> None:
    book = book_of((SHOP, Budget(tokens=100)))
    book.grant(SHOP, "tokens", 7)
    more = changed(book, SHOP, Budget(tokens=100), Budget(tokens=150)).line(SHOP, "tokens")
    assert more == Line(157)
    less_ = changed(book, SHOP, Budget(tokens=150), Budget(tokens=20)).line(SHOP, "tokens")
    assert less_ == Line(27)


def test_it_shrinks_to_what_is_in_use_at_least_and_what_is_over_is_told() -> None:
    book = book_of((SHOP, Budget(tokens=100)), (CLERK, Budget(tokens=30)), spent=40)
    assert changed(book, SHOP, Budget(tokens=100), Budget(tokens=10)).line(SHOP, "tokens") == Line(
        70, spent=40, handed=30
    )
    assert not book.due
    changed(book, CLERK, Budget(tokens=30), Budget(tokens=5))
    changed(book, SHOP, Budget(tokens=10), Budget(tokens=1))
    assert book.line(SHOP, "tokens") == Line(61, spent=40, handed=5)
    changed(book, CLERK, Budget(tokens=5), None)
    changed(book, SHOP, Budget(tokens=61), Budget(tokens=1))
    assert book.line(SHOP, "tokens") == Line(40, spent=40) and list(book.due) == [(SHOP, "tokens")]


def test_a_line_that_goes_leaves_to_the_one_above_what_it_spent_and_handed() -> None:
    top = "/user/shop", Budget(tokens=100)
    book = book_of(top, (CLERK, Budget(tokens=50)), (f"{CLERK}/kid", Budget(tokens=20)))
    book.spend(book.payers(CLERK, "", "tokens"), "tokens", 10)
    changed(book, CLERK, Budget(tokens=50), None)
    assert CLERK not in book.accounts
    assert book.line(SHOP, "tokens") == Line(100, spent=10, handed=20)


def test_a_new_line_comes_between() -> None:
    book = book_of((SHOP, Budget(tokens=100)), (f"{CLERK}/kid", Budget(tokens=20)))
    changed(book, CLERK, None, Budget(tokens=50))
    assert book.line(CLERK, "tokens") == Line(50, handed=20) and book.line(SHOP, "tokens") == Line(
        100, handed=50
    )
    alone = changed(book_of((CLERK, Budget(tokens=20))), SHOP, None, Budget(tokens=30))
    assert alone.line(SHOP, "tokens") == Line(30, handed=20)


@pytest.mark.parametrize(
    ("address", "before", "after", "words"),
    [
        (CLERK, Budget(tokens=20), Budget(tokens=101), "/user/shop has 80 tokens left, and cannot give 81"),
        (SHOP, Budget(tokens=100), Budget(tokens=MOST), None),
        (f"{CLERK}/kid", None, Budget(tokens=21), "/user/shop/clerk has 20 tokens left, and cannot give 21"),
        (
            "/user",
            None,
            Budget(tokens=99),
            "processes below /user have 100 tokens already: declare at least that",
        ),
        (
            SHOP,
            Budget(tokens=100),
            Budget(tokens=100, cpu_ms=1),
            "cpu_ms are for what is made anew: replace it",
        ),
    ],
)
def test_what_cannot_be_given_is_refused(
    address: str, before: Budget | None, after: Budget, words: str | None
) -> None:
    book = book_of((SHOP, Budget(tokens=100)), (CLERK, Budget(tokens=20)))
    if words is None:
        assert relined(book, address, before, after) == {"tokens": MOST}
        book.grant(address, "tokens", 1)
        words = "would have"
    with pytest.raises(Refused, match=words):
        relined(book, address, before, after)


@given(budgets, budgets)
def test_what_takes_comes_before_what_gives(before: Budget | None, after: Budget | None) -> None:
    between = less(before, after)
    old, mid, new = amounts(before), amounts(between), amounts(after)
    assert mid == {name: min(old[name], new[name]) for name in old.keys() & new.keys()}
    assert between is None or (before is not None and between.then == before.then)
    assert less(between, after) == between and less(before, between) == between


def test_what_changes_is_said_in_words() -> None:
    use: Callable[..., dict[Resource, int]] = dict
    before = Budget(tokens=100, money="1", then="refuse")
    assert change_in_words(before, Budget(tokens=50, money="1.50", then="stop"), use(tokens=70)) == (
        "tokens 100 to 50 (70 are in use and stay), money 1 to 1.5, then refuse to stop"
    )
    assert (
        change_in_words(before, Budget(tokens=50, money="1", then="refuse"), use(tokens=50))
        == "tokens 100 to 50"
    )
    assert change_in_words(before, None, use()) == "tokens 100 to no limit, money 1 to no limit"
    assert change_in_words(None, Budget(messages=2), use()) == "messages no limit to 2"


def test_what_is_measured_is_given_to_nothing_that_is_there() -> None:
    assert may_change(Budget(cpu_ms=5), Budget(cpu_ms=9, tokens=1)) and may_change(Budget(cpu_ms=5), None)
    assert not may_change(None, Budget(cpu_ms=5)) and not may_change(Budget(tokens=5), Budget(memory_bytes=9))
