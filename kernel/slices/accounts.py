"""Accounts of budgets, as the journal tells them.

Theory of operation. :mod:`kernel.budget.account` has the rules; here stands which entry means what. Hardly any entry is
written for them: an allowed ``tool.verdict`` is a tool call, a message that an agent had accepted is a message, what an
account pays follows from where it stands. A question alone has a record of its own beside it, ``budget.reserved``,
which ``model.answered`` settles, or the end of its turn; and what can only be measured is told by ``budget.used``
(processor time) and ``budget.held`` (memory).

The time of a turn runs from ``turn.started`` to its end, or that of the incarnation; while a node is down none does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kernel.budget.account import Account, Book, Line
from kernel.budget.price import Price
from kernel.budget.reservation import Reservation
from kernel.budget.spending import Spent
from kernel.model.address import ancestors
from kernel.model.rows import as_list, as_number, as_rows, as_text, made, row
from kernel.model.spec import ProcessSpec
from kernel.operations.rights.budgets import Resource
from kernel.slice import Handler, Slice, Told
from kernel.slices.mailboxes import MESSAGE, PUBLICATION, turn_id
from kernel.slices.turns import Turn, Turns

_BYTES_A_TOKEN = 3
_PRICES = "input_price", "output_price", "cached_price"


@dataclass(frozen=True, slots=True)
class Clock:
    """The time of an open turn of ``address`` runs since ``since_us``, at the cost of ``accounts``."""

    turn: str
    address: str
    accounts: tuple[str, ...]
    since_us: int


class Accounts(Slice):
    """The book, the clocks of turns, and the turns whose last question was put (``landed``)."""

    NAME = "accounts"
    FORMAT = 4
    MIGRATIONS = {  # noqa: RUF012
        0: lambda rows: [[], [], [], []],
        1: lambda rows: _with_money(*rows),
        2: lambda rows: [*rows, []],
        3: lambda rows: [*_without_scopes(*rows), []],
    }

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.book = Book()
        self.landed: dict[str, None] = {}
        self._clocks: dict[str, Clock] = {}
        self._turn_at: dict[str, str] = {}

    def hears(self) -> Mapping[str, Handler]:
        return {
            "node.booted": self._booted,
            "process.spawned": self._spawned,
            "process.slot": self._slot,
            "process.exited": self._exited,
            "message.accepted": self._sent,
            "message.sent": self._sent,
            "message.dead": lambda told: self._over(turn_id(told.body["id"]), told),
            "turn.started": self._started,
            "turn.ended": lambda told: self._over(told.body["turn"], told),
            "tool.verdict": self._judged,
            "model.answered": self._answered,
            "budget.reserved": self._reserved,
            "budget.used": self._measured,
            "budget.held": lambda told: self.book.hold_now(
                told.body["address"], told.body["account"], told.body["amount"]
            ),
            "budget.granted": self._granted,
            "budget.changed": self._changed,
            "budget.warned": lambda told: self.book.tell(
                told.body["address"], told.body["resource"], told.body["percent"]
            ),
        }

    # -- accounts ------------------------------------------------------------------------------------------------

    def _spawned(self, told: Told) -> None:
        spec = ProcessSpec.from_json(told.body["spec"])
        if spec.budget is not None:
            self.book.open(told.body["address"], spec.budget)

    def _slot(self, told: Told) -> None:
        if told.body["state"] == "removed" and self.book.accounts:
            self.book.close(told.body["address"])

    def _granted(self, told: Told) -> None:
        self.book.grant(told.body["address"], told.body["resource"], told.body["amount"])

    def _changed(self, told: Told) -> None:
        lines = zip(told.body["resources"], told.body["amounts"], strict=False)
        self.book.change(told.body["address"], told.body["then"], dict(lines))

    # -- what is used --------------------------------------------------------------------------------------------

    def _judged(self, told: Told) -> None:
        if self.book.accounts and told.body["decision"] == "allow":
            turn = self._turns.get(told.body["turn"])
            if turn is not None:
                self.book.spend(self._payers(turn, "tool_calls"), "tool_calls")

    def _payers(self, turn: Turn, resource: Resource) -> list[Account]:
        return self.book.payers(turn.address, turn.mail.payer, resource)

    def _sent(self, told: Told) -> None:
        """Who sends pays: no person does, also not when they send a dead letter of somebody again; and what the node
        brings, an end or an answer, is no message of anybody's.
        """
        body = told.body
        if self.book.accounts and told.pid and body["rights"] is not None:
            mine = body["sender"].startswith("/") and "@" not in body["sender"]
            if mine and body.get("kind", MESSAGE) in (MESSAGE, PUBLICATION) and not body.get("answers"):
                self.book.spend(self.book.payers(body["sender"], "", "messages"), "messages")

    def _reserved(self, told: Told) -> None:
        body = told.body
        if body["turn"] not in self._turns:
            return
        self.book.reserve(
            Reservation(
                body["turn"],
                body["ordinal"],
                tuple(body["accounts"]),
                body["tokens"],
                body["input"],
                body["last"],
                tuple(body.get("payers", ())),
                body.get("money", 0),
                Price(*(body.get(name, 0) for name in _PRICES)),
                tuple(body.get("scopes", ())),
                body.get("day", 0),
            )
        )
        if body["last"]:
            self.landed[body["turn"]] = None

    def _answered(self, told: Told) -> None:
        key = told.body["turn"], told.body["ordinal"]
        kept = self.book.reservations.get(key)
        if kept is not None:
            self.book.settle(*key, settled(told.body, kept))

    def _measured(self, told: Told) -> None:
        resource = told.body["resource"]
        self.book.spend(self._who_pays(told.body["accounts"], resource), resource, told.body["amount"])

    # -- the time of turns ---------------------------------------------------------------------------------------

    def _started(self, told: Told) -> None:
        turn = self._turns.get(told.body["turn"])
        if turn is None or not self.book.accounts:
            return
        self._stop(turn.id, told.time_us)
        accounts = tuple(account.address for account in self._payers(turn, "time_ms"))
        if accounts:
            self._clocks[turn.id] = Clock(turn.id, turn.address, accounts, told.time_us)
            self._turn_at[turn.address] = turn.id

    def _exited(self, told: Told) -> None:
        self.book.let_go(told.body["address"])
        turn = self._turn_at.get(told.body["address"])
        if turn is not None:
            self._stop(turn, told.time_us)

    def _over(self, turn: str, told: Told) -> None:
        self._stop(turn, told.time_us)
        self.book.settle_turn(turn)
        self.landed.pop(turn, None)

    def _booted(self, told: Told) -> None:
        """Whatever ran has ended with the node, nobody knows when: its time is not counted, and it holds nothing."""
        self._clocks.clear()
        self._turn_at.clear()
        for address in list(self.book.held):
            self.book.let_go(address)

    def _stop(self, turn: str, time_us: int) -> None:
        clock = self._clocks.pop(turn, None)
        if clock is None:
            return
        self._turn_at.pop(clock.address, None)
        used_ms = max(0, time_us - clock.since_us) // 1000
        self.book.spend(self._who_pays(clock.accounts, "time_ms"), "time_ms", used_ms)

    def _who_pays(self, accounts: Iterable[str], resource: Resource) -> list[Account]:
        """These accounts; in the place of one that was closed meanwhile the one that it came out of. None of them pays
        beside one that came out of it.
        """
        found = {
            account.address: account
            for each in accounts
            if (account := self.book.nearest(each, resource)) is not None
        }
        below = {above for address in found for above in ancestors(address)}
        return [account for address, account in found.items() if address not in below]

    # -- rows ----------------------------------------------------------------------------------------------------

    def rows(self) -> Any:
        book = self.book
        return [
            [
                [
                    account.address,
                    account.then,
                    [[resource, *row(line)] for resource, line in account.lines.items()],
                    [[resource, percent] for resource, percent in account.told.items()],
                ]
                for account in book.accounts.values()
            ],
            [row(kept) for kept in book.reservations.values()],
            [row(clock) for clock in self._clocks.values()],
            list(self.landed),
            [[address, *held] for address, held in self.book.held.items()],
            [[scope, *row(spent)] for scope, spent in self.book.spending],
        ]

    def restore(self, rows: Any) -> None:
        accounts, reservations, clocks, landed, held, spending = as_list(rows)
        for scope, *spent in as_rows(spending):
            self.book.spending.hold(as_text(scope), made(Spent, spent))
        for address, then, lines, told in as_rows(accounts):
            self.book.hold(
                Account(
                    as_text(address),
                    then,
                    {resource: made(Line, line) for resource, *line in as_rows(lines)},
                    {resource: as_number(percent) for resource, percent in as_rows(told)},
                )
            )
        for kept in as_rows(reservations):
            self.book.hold_reservation(made(Reservation, kept))
        for each in as_rows(clocks):
            clock = self._clocks[each[0]] = made(Clock, each)
            self._turn_at[clock.address] = clock.turn
        for address, of, amount in as_rows(held):
            self.book.hold_memory(as_text(address), as_text(of), as_number(amount))
        self.landed = dict.fromkeys(map(as_text, as_list(landed)))


def _with_money(accounts: Any, reservations: Any, *others: Any) -> list[Any]:
    """Rows as they were before questions were paid for."""
    return [accounts, [[*kept, [], 0, [0, 0, 0]] for kept in reservations], *others]


def _without_scopes(accounts: Any, reservations: Any, *others: Any) -> list[Any]:
    """Rows as they were before there were caps of cost."""
    return [accounts, [[*kept, [], 0] for kept in reservations], *others]


def settled(body: Mapping[str, Any], kept: Reservation) -> dict[Resource, int]:
    """What an answer came to, of its entry. Of a server that does not count, about how much."""
    read, written = body["input_tokens"], body["output_tokens"]
    if not (read or written) and body["status"] == "ok":
        read, written = kept.input, len(json.dumps(body["answer"])) // _BYTES_A_TOKEN
    money = kept.price.of(read, written, body.get("cached_tokens", 0))
    return {"tokens": read + written, "money": money}
