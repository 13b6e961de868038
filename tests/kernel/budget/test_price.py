"""Money is counted in whole millionths: what was reserved is never less than what comes of it."""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.budget.price import NOTHING, Price
from kernel.operations.rights.money import MONEY_MOST, in_units, millionths

prices = st.builds(Price, *(st.integers(0, 10**9) for _ in range(3)))
tokens = st.integers(0, 10**7)


@given(st.integers(0, MONEY_MOST))
def test_an_amount_that_is_written_is_read_as_itself(amount: int) -> None:
    assert millionths(in_units(amount)) == amount
    assert Decimal(in_units(amount)) * 10**6 == amount


@pytest.mark.parametrize(
    ("text", "amount"), [("0.25", 250_000), ("3", 3_000_000), ("0.000001", 1), ("00.10", 100_000)]
)
def test_decimal_text_is_millionths(text: str, amount: int) -> None:
    assert millionths(text) == amount


@pytest.mark.parametrize(
    "text", ["", ".5", "1.", "-1", "+1", "1,5", "1_000", " 1", "1e3", "0.1234567", "١", 1, 0.5, None]
)
def test_what_is_no_amount_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="is no amount of money"):
        millionths(text)


def test_what_is_owed_is_shown_as_such() -> None:
    assert in_units(-1_500_000) == "-1.5"


@given(prices, tokens, tokens, tokens)
def test_an_answer_costs_what_decimals_say_rounded_up_once(
    price: Price, read: int, out: int, kept: int
) -> None:
    kept = min(read, kept)
    exact = (
        Decimal(read - kept) * price.input + Decimal(kept) * price.cached + Decimal(out) * price.output
    ) / 10**6
    assert price.of(read, out, kept) == int(exact.to_integral_value(ROUND_CEILING))


@given(prices, tokens, tokens, tokens, tokens, tokens)
def test_no_answer_within_its_bounds_costs_more_than_the_most(
    price: Price, read: int, out: int, less_read: int, less_out: int, kept: int
) -> None:
    assert price.of(min(read, less_read), min(out, less_out), kept) <= price.most(read, out)


@given(prices, st.integers(-100, 10**12), tokens, st.integers(1, 10**6))
def test_the_longest_answer_that_money_affords_is_the_longest(
    price: Price, money: int, read: int, most: int
) -> None:
    longest = price.affords(money, read, most)
    if longest < 0:
        assert price.most(read, 0) > money
        return
    assert price.most(read, longest) <= money
    assert longest == most or price.most(read, longest + 1) > money


def test_what_a_provider_says_beyond_reason_is_still_a_number_of_the_ledger() -> None:
    assert Price(MONEY_MOST, MONEY_MOST, 0).of(2**53, 2**53) == MONEY_MOST
    assert NOTHING.of(2**53, 2**53) == 0
