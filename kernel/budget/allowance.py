"""What may be used of a budget now: whether a tool is called, a message sent, how long an answer may be, and what is
said of it beside a question.

A question to a model says how much it reads; how much is written in answer is clamped, so that both fit into what is
left of tokens, and what both cost into what is left of money. Of an account that is to ``wrap_up``, a **landing** is
kept: five in a hundred, or what another question as long as this one needs, whichever is more. The question that would
begin it is the last of its turn: no tools are offered with it, and all that is left may go into its answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from kernel.budget.account import RESOURCES, Account, Book
from kernel.budget.price import NOTHING, Price
from kernel.budget.reservation import Reservation
from kernel.budget.spending import Room, Scope, room
from kernel.operations.rights.budgets import Resource, said_of, shown

LANDING_PART = 20
LEAST_OUTPUT = 64
LANDING_OUTPUT = 256
MOST_OUTPUT = 16_384
"""Tokens of one answer, where there is a budget of them or of money, or a cap of cost."""
WHOLE_ANSWER = 4_096
"""A cap has to leave room for an answer as long as that, or as was asked for: it is not made shorter to fit."""
_BYTES_A_TOKEN = 3
_BESIDE = 80  # what a model reads beside the words, and the note of what is left


class Asked(NamedTuple):
    """Whom a question is put to: ``name`` of provider and model, and what that costs, None when nobody has said it.
    ``most``: tokens of the answer, as was asked for. ``scopes``: what of caps it counts in, on that ``day``.
    """

    name: str
    price: Price | None
    most: int = MOST_OUTPUT
    scopes: tuple[Scope, ...] = ()
    day: int = 0


@dataclass(frozen=True, slots=True)
class Allowance:
    """``accounts`` that pay tokens, and ``payers`` of money at ``price``; ``tokens`` and ``money`` to reserve of each,
    ``input`` of the tokens for what it says; ``last``: without tools, and no other question follows in its turn.
    ``note``: what its model is told of what is left. ``why``: it may not be put; ``short``: whose account has too
    little of what for it. ``scopes``: what of caps it counts in, on that ``day``; ``capped``: it is one of these that
    has too little.
    """

    accounts: tuple[str, ...] = ()
    tokens: int = 0
    input: int = 0
    last: bool = False
    note: str = ""
    why: str = ""
    short: tuple[str, Resource] | None = None
    payers: tuple[str, ...] = ()
    money: int = 0
    price: Price = NOTHING
    scopes: tuple[str, ...] = ()
    day: int = 0
    capped: bool = False

    @property
    def output(self) -> int:
        """Tokens of the answer at most, 0 for no limit."""
        return self.tokens - self.input


class _Purse(NamedTuple):
    """An account that pays a question: how long an answer it pays for, at most and while a landing is kept."""

    account: Account
    resource: Resource
    whole: int
    beside_landing: int

    @property
    def left(self) -> str:
        line = self.account.lines[self.resource]
        return f"{shown(self.resource, line.left)} of {_granted(self.account, self.resource)} left"


FREE = Allowance()
_ITS_OWN = ("messages", "memory_bytes")
"""Nobody pays these for whom it works."""


def tokens_in(size_bytes: int) -> int:
    """About how many tokens a question of that size is, rather more than fewer."""
    return size_bytes // _BYTES_A_TOKEN + _BESIDE


def exhausted(book: Book, address: str, sender: str, resource: Resource, need: int = 1) -> Account | None:
    """The account that has not so much left."""
    for account in book.payers(address, sender, resource):
        if account.lines[resource].left < need:
            return account
    return None


def why_no_tool(book: Book, address: str, sender: str) -> str:
    """Why no tool may be called any more; empty when one may."""
    if not book.accounts:
        return ""
    uses: tuple[tuple[Resource, str], ...] = (("tool_calls", sender), *_of_its_cell(sender))
    for resource, asks in uses:
        account = exhausted(book, address, asks, resource)
        if account is not None:
            return f"{_used_up(account, resource)}; answer from what is known"
    found = _wraps_up(book, address, sender)
    return f"{_used_up(*found)}: only an answer is left, without tools" if found is not None else ""


def why_no_message(book: Book, address: str, many: int = 1) -> str:
    """Why the process may not send so many."""
    account = exhausted(book, address, "", "messages", many)
    if account is None:
        return ""
    left = account.lines["messages"].left
    return (
        f"{account.address} has {left} messages left, and this is {many}"
        if left > 0
        else _used_up(account, "messages")
    )


def question(book: Book, address: str, sender: str, size_bytes: int, landed: bool, asked: Asked) -> Allowance:
    """What a question of that size may use. ``landed``: the last one of its turn was put already."""
    if not book.accounts and not asked.scopes:
        return FREE
    over = exhausted(book, address, sender, "time_ms")
    if over is not None:
        return Allowance(why=f"budget: {_used_up(over, 'time_ms')}")
    found = _wraps_up(book, address, sender)
    if found is not None and landed:
        return Allowance(why=f"budget: {_used_up(*found)}, and the last answer was given")
    for resource, asks in _of_its_cell(sender):
        over = exhausted(book, address, asks, resource)
        if over is not None and over.then != "wrap_up":
            return Allowance(why=f"budget: {_used_up(over, resource)}")
    last = found is not None
    allowed = _paid(book, address, sender, tokens_in(size_bytes), last, landed, asked)
    return allowed if allowed.why else replace(allowed, note=_left(book, address, sender, allowed))


def put_again(book: Book, kept: Reservation, asked: Asked) -> Allowance:
    """What a question may use that was put before, maybe to somebody else: as many tokens, at what they cost now."""
    price, money = asked.price, 0
    rooms = _rooms(book, asked, (kept.money, kept.day) if kept.scopes else (0, 0))
    if kept.payers or rooms:
        if price is None:
            return _without_price(book.accounts[kept.payers[0]] if kept.payers else rooms[0], asked)
        money = price.most(kept.input, kept.tokens - kept.input)
    for each in kept.payers:
        account = book.accounts[each]
        left = account.lines["money"].left + kept.money
        if left < money:
            return Allowance(
                why=f"budget: {each} has {shown('money', left)} of {_granted(account, 'money')} left, and this "
                f"question may cost {shown('money', money)}",
                short=(each, "money"),
            )
    for each_room in rooms:
        if money > each_room.left:
            return _capped(each_room, asked, money)
    scopes = tuple(each_room.scope for each_room in rooms)
    return replace(_as_kept(kept, money, price or NOTHING), scopes=scopes, day=asked.day if rooms else 0)


def put_as_before(kept: Reservation) -> Allowance:
    """What a question may use that was put before, to whom it is put now."""
    return _as_kept(kept, kept.money, kept.price)


def _as_kept(kept: Reservation, money: int, price: Price) -> Allowance:
    return Allowance(
        kept.accounts,
        kept.tokens,
        kept.input,
        kept.last,
        payers=kept.payers,
        money=money,
        price=price,
        scopes=kept.scopes,
        day=kept.day,
    )


def _without_price(who: Account | Room, asked: Asked) -> Allowance:
    has = (
        f"{who.address} has a budget of money"
        if isinstance(who, Account)
        else f"{who.scope} has a cap of cost"
    )
    return Allowance(
        why=f"budget: {has}, and nothing says what {asked.name} costs: declare its "
        "price in the node's configuration ([providers.NAME.prices.MODEL], input and output), or ask a model that "
        "has one",
        capped=isinstance(who, Room),
    )


def _rooms(book: Book, asked: Asked, back: tuple[int, int] = (0, 0)) -> list[Room]:
    """What is left of the caps that a question counts in; what costs nothing counts in none."""
    if asked.price == NOTHING:
        return []
    found = (room(book.spending, scope, asked.day, back) for scope in asked.scopes)
    return [each for each in found if each is not None]


def _capped(short: Room, asked: Asked, money: int) -> Allowance:
    return Allowance(
        why=f"cap: {short.words}, and a question to {asked.name} may cost {shown('money', money)}",
        capped=True,
    )


def capped(book: Book, reads: int, asked: Asked) -> str:
    """Why caps leave no room for a question that ``reads`` so many tokens; empty where they do."""
    allowed = _within_caps(_rooms(book, asked), reads, asked)
    return allowed.why if isinstance(allowed, Allowance) else ""


def _within_caps(rooms: list[Room], reads: int, asked: Asked) -> int | Allowance:
    """Tokens of the answer that all caps leave room for, or the refusal."""
    if rooms and asked.price is None:
        return _without_price(rooms[0], asked)
    price, answer = asked.price or NOTHING, asked.most
    for each in rooms:
        pays_for = price.affords(each.left, reads, answer)
        if pays_for < min(asked.most, WHOLE_ANSWER):
            return _capped(each, asked, price.most(reads, min(asked.most, WHOLE_ANSWER)))
        answer = pays_for
    return answer


def _left(book: Book, address: str, sender: str, allowed: Allowance) -> str:
    """What is left of each resource that is limited, before this question; empty where none is."""
    said = []
    for resource in RESOURCES:
        payers = book.payers(address, "" if resource in _ITS_OWN else sender, resource)
        if payers:
            account = min(payers, key=lambda each: each.lines[resource].left)
            left = max(0, account.lines[resource].left)
            said.append(f"{shown(resource, left)} of {_granted(account, resource)}")
    if not said:
        return ""
    most = f" This answer may have {allowed.output} tokens." if allowed.output else ""
    last = " It is the last one: no tool is called after it." if allowed.last else ""
    return f"[budget] Left: {', '.join(said)}.{most}{last}"


def _paid(
    book: Book, address: str, sender: str, reads: int, last: bool, landed: bool, asked: Asked
) -> Allowance:
    """What fits into the tokens and the money of all who pay."""
    tokens, money = (book.payers(address, sender, resource) for resource in ("tokens", "money"))
    if money and asked.price is None:
        return _without_price(money[0], asked)
    rooms = _rooms(book, asked)
    within_caps = _within_caps(rooms, reads, asked)
    if isinstance(within_caps, Allowance):
        return within_caps
    price = asked.price if (money or rooms) and asked.price is not None else NOTHING
    purses = [_of_tokens(account, reads) for account in tokens]
    purses += [_of_money(account, reads, price) for account in money]
    if not purses and not rooms:
        return Allowance(last=last)
    if not purses:
        return _allowed(reads, within_caps, price, rooms, asked, last)
    scarce = min(purses, key=lambda purse: purse.beside_landing)
    if last or scarce.beside_landing < LEAST_OUTPUT:
        if landed:
            return Allowance(
                why=f"budget: {_used_up(scarce.account, scarce.resource)}, and the last answer was given"
            )
        last, scarce = True, min(purses, key=lambda purse: purse.whole)
        if scarce.whole < LEAST_OUTPUT:
            return _too_little(scarce, reads, price)
    answer = min(scarce.whole if last else scarce.beside_landing, within_caps)
    return replace(
        _allowed(reads, answer, price, rooms, asked, last),
        accounts=tuple(account.address for account in tokens),
        payers=tuple(account.address for account in money),
    )


def _allowed(reads: int, answer: int, price: Price, rooms: list[Room], asked: Asked, last: bool) -> Allowance:
    return Allowance(
        (),
        reads + answer,
        reads,
        last,
        money=price.most(reads, answer),
        price=price,
        scopes=tuple(each.scope for each in rooms),
        day=asked.day if rooms else 0,
    )


def _of_tokens(account: Account, reads: int) -> _Purse:
    line, landing = account.lines["tokens"], 0
    if account.then == "wrap_up":
        landing = max(line.granted // LANDING_PART, reads + LANDING_OUTPUT)
    whole = line.left - reads
    return _Purse(account, "tokens", whole, whole - landing)


def _of_money(account: Account, reads: int, price: Price) -> _Purse:
    line, landing = account.lines["money"], 0
    if account.then == "wrap_up" and price != NOTHING:
        landing = max(line.granted // LANDING_PART, price.most(reads, LANDING_OUTPUT))
    whole = price.affords(line.left, reads, MOST_OUTPUT)
    return _Purse(account, "money", whole, price.affords(line.left - landing, reads, MOST_OUTPUT))


def _too_little(purse: _Purse, reads: int, price: Price) -> Allowance:
    needs = f"is about {reads}"
    if purse.resource == "money":
        needs = f"may cost {shown('money', price.most(reads, LEAST_OUTPUT))} with the shortest answer"
    return Allowance(
        why=f"budget: {purse.account.address} has {purse.left}, and this question alone {needs}",
        short=(purse.account.address, purse.resource),
    )


def _wraps_up(book: Book, address: str, sender: str) -> tuple[Account, Resource] | None:
    """The account that is to wrap up, and of what it has nothing left: of messages it is who sends that pays, alone,
    and of memory who holds it.
    """
    paid_by: tuple[tuple[Resource, str], ...] = (
        ("tool_calls", sender),
        ("messages", ""),
        ("tokens", sender),
        ("money", sender),
        *_of_its_cell(sender),
    )
    for resource, asks in paid_by:
        account = exhausted(book, address, asks, resource)
        if account is not None and account.then == "wrap_up":
            return account, resource
    return None


def _of_its_cell(sender: str) -> tuple[tuple[Resource, str], ...]:
    """What is measured in a cell, and who pays it beside the process."""
    return ("cpu_ms", sender), ("memory_bytes", "")


def _used_up(account: Account, resource: Resource) -> str:
    return f"{account.address} has used up its {_granted(account, resource)}"


def _granted(account: Account, resource: Resource) -> str:
    return f"{shown(resource, account.lines[resource].granted)} {said_of(resource)}"
