"""Caps of cost: days and months, who a question counts for, and that no scope comes to more than its cap."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.budget import spending as module
from kernel.budget.account import Book
from kernel.budget.allowance import Asked, question
from kernel.budget.price import NOTHING, Price
from kernel.budget.reservation import Reservation
from kernel.budget.spending import OTHERS, Cap, CostCaps, Scope, Spending, day_of, month_of, room

PRICE = Price(2_000_000, 10_000_000)


def day(text: str) -> int:
    return day_of(int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1e6))


@pytest.mark.parametrize(
    ("at", "today", "month"),
    [
        ("2026-11-26T00:00:00", 70, 70),
        ("2026-11-26T23:59:59.999999", 70, 70),
        ("2026-11-27T00:00:00", 0, 70),
        ("2026-11-30T23:59:59", 0, 70),
        ("2026-12-01T00:00:00", 0, 0),
        ("2027-11-26T12:00:00", 0, 0),
    ],
)
def test_a_day_and_a_month_end_at_midnight_utc(at: str, today: int, month: int) -> None:
    spending = Spending()
    spending.use("tier free", 70, day("2026-11-26T12:00:00"))
    spent = spending.of("tier free", day(at))
    assert (spent.today, spent.month) == (today, month)


@pytest.mark.parametrize(
    ("answered", "now", "today", "month"),
    [
        ("2026-11-26", "2026-11-26", 30, 30),
        ("2026-11-27", "2026-11-27", 5, 35),
        ("2026-12-01", "2026-12-01", 5, 5),
    ],
)
def test_what_a_question_cost_counts_where_it_was_put(
    answered: str, now: str, today: int, month: int
) -> None:
    """100 were reserved on the 26th, and 30 it cost; in the mean time another question, of 5, may have opened a day."""
    spending, put = Spending(), day("2026-11-26")
    spending.use("a", 100, put)
    if answered != "2026-11-26":
        spending.use("a", 5, day(answered))
    spending.use("a", 30 - 100, put)
    assert (spending.of("a", day(now)).today, spending.of("a", day(now)).month) == (today, month)


def test_an_entry_of_an_earlier_day_opens_no_day_again() -> None:
    spending = Spending()
    spending.use("a", 5, day("2026-11-27"))
    spending.use("a", 3, day("2026-11-26"))
    assert spending.of("a", day("2026-11-26")) == spending.of("a", day("2026-11-27"))
    assert spending.of("a", day("2026-11-27")).today == 5 and spending.of("a", day("2026-11-27")).month == 8


CAPS = CostCaps(
    {"premium": Cap(5, None)},
    {"*": Cap(1), "/user/*": Cap(2), "/user/bob": Cap(3), "tele*": Cap(4)},
    {"p/large": "premium", "p/small": "free"},
)


@pytest.mark.parametrize(
    ("sender", "model", "found"),
    [
        ("/user/bob", "p/large", [("tier premium", 5), ("sender /user/bob", 3)]),
        ("/user/eve", "p/small", [("sender /user/eve", 2)]),
        ("operator", "q/none", [("sender operator", 1)]),
        ("telegram:1", "p/large", [("tier premium", 5), ("sender telegram:1", 4)]),
        ("tele\n\x00*[", "p/small", [("sender tele\n\x00*[", 4)]),
    ],
)
def test_a_question_counts_for_its_tier_and_its_sender(
    sender: str, model: str, found: list[tuple[str, int]]
) -> None:
    assert [(each.name, each.cap.daily) for each in CAPS.scopes(sender, model)] == found
    assert not CostCaps() and CAPS


def test_the_tighter_of_day_and_month_counts_and_says_when_there_is_more() -> None:
    spending, today = Spending(), day("2026-12-31")
    spending.use("tier free", 3_000_000, day("2026-12-30"))
    spending.use("tier free", 1_000_000, today)
    found = room(spending, Scope("tier free", Cap(2_000_000, 4_500_000)), today)
    assert found is not None and (found.left, found.period) == (500_000, "month")
    assert found.words == "tier free may cost 4.5 a month, 0.5 of it left until 2027-01-01 00:00 UTC"
    daily = room(spending, Scope("tier free", Cap(2_000_000)), today)
    assert daily is not None and daily.words.endswith("2 a day, 1 of it left until 2027-01-01 00:00 UTC")
    assert room(spending, Scope("tier free", Cap()), today) is None


def test_senders_that_are_made_up_share_one_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SCOPES", 100)
    spending, today = Spending(), day("2026-11-26")
    for number in range(100_000):
        spending.use(spending.named(f"sender {number}"), 1, today)
    assert len(spending) == 101 and spending.of(OTHERS, today).today == 99_900
    assert spending.named("sender 7") == "sender 7" and spending.named("tier free") == "tier free"
    spending.use("sender 7", 1, day("2026-12-01"))
    assert len(spending) == 1


def asked(cap: Cap, price: Price | None = PRICE, most: int = 1_000) -> Asked:
    return Asked("p/m", price, most, (Scope("tier free", cap),), 20_000)


@pytest.mark.parametrize(
    ("given", "capped", "words"),
    [
        (asked(Cap(1_000_000)), False, ""),
        (asked(Cap()), False, ""),
        (asked(Cap(0), NOTHING), False, ""),
        (asked(Cap(10_000)), True, "cap: tier free may cost 0.01 a day, 0.01 of it left until 2024-10-05"),
        (asked(Cap(None, 10_000)), True, "a month"),
        (asked(Cap(10_000), most=16), False, ""),
        (asked(Cap(1_000_000), None), True, "tier free has a cap of cost, and nothing says what p/m costs"),
    ],
)
def test_a_question_is_put_when_its_caps_afford_the_whole_answer(
    given: Asked, capped: bool, words: str
) -> None:
    allowed = question(Book(), "/user/a", "operator", 300, False, given)
    assert allowed.capped == capped == bool(allowed.why) and words in allowed.why
    if not capped and given.price != NOTHING and given.scopes[0].cap != Cap():
        assert allowed.scopes == ("tier free",) and allowed.money == PRICE.most(allowed.input, given.most)


@given(st.lists(st.tuples(st.integers(1, 4_000), st.integers(0, 3), st.booleans()), max_size=40))
def test_no_day_comes_to_more_than_its_cap(questions: list[tuple[int, int, bool]]) -> None:
    """Whatever is put side by side, answered, or lost with its turn; and what was kept is read back."""
    book, cap, settled = Book(), Cap(60_000, 150_000), 0
    for number, (most, later, lost) in enumerate(questions):
        now = 20_000 + later + number // 10
        wanted = Asked("p/m", PRICE, most, (Scope("tier free", cap),), now)
        allowed = question(book, "/user/a", "operator", 300, False, wanted)
        if allowed.why:
            continue
        kept = Reservation(f"t{number}", "0.0", (), allowed.tokens, allowed.input, price=PRICE, money=allowed.money,
                           scopes=allowed.scopes, day=allowed.day)  # fmt: skip
        book.reserve(kept)
        spent = book.spending.of("tier free", now)
        assert spent.today <= 60_000 and spent.month <= 150_000
        if lost:
            book.settle_turn(kept.turn)
        elif number % 3:
            settled += 1
            book.settle(kept.turn, kept.ordinal, {"money": kept.money // 2})
    again = Spending()
    for scope, spent in book.spending:
        again.hold(scope, spent)
    assert list(again) == list(book.spending)
    for turn, ordinal in list(book.reservations):
        book.settle(turn, ordinal, {})
    assert not book.reservations


def test_what_was_kept_wrongly_is_refused() -> None:
    spending = Spending()
    spending.use("a", 1, 20_000)
    for scope, spent in list(spending):
        with pytest.raises(ValueError, match="twice"):
            spending.hold(scope, spent)
    with pytest.raises(ValueError, match="on no day"):
        spending.hold("b", module.Spent(10**9, 0, 0))


def test_months_are_counted_through() -> None:
    assert month_of(day("2027-01-01")) - month_of(day("2026-12-31")) == 1
