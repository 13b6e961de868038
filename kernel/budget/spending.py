"""What questions have cost for each sender and in each tier, today and this month, and how much that may come to. Pure.

Theory of operation. A cap holds for a **scope**: the questions of one sender, or those to the models of one tier. What
a question may cost is taken off both of its scopes before it is put, and what it did cost takes the place of that. It
counts in the day and the month (UTC) in which it was put, whenever it is answered: so a day never comes to more than
its cap, but for what a server counts beyond what was asked of it. Days are those of the ledger's time, which never
falls: a clock that is set back opens no day again.

Each scope keeps the day and the month it was used in last. Of scopes beyond a bound the further ones share one, so that
whoever makes up senders gets nothing by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

from kernel.operations.rights.money import in_units

MOST_SCOPES = 20_000
DAY_US = 86_400 * 1_000_000
LAST_DAY = 2_932_896
"""Of the year 9999."""
OTHERS = "sender (others)"
"""The scope of all senders beyond the bound."""


def day_of(time_us: int) -> int:
    """Days since 1970, UTC."""
    return time_us // DAY_US


def month_of(day: int) -> int:
    """Months since the year 0."""
    date = datetime.fromtimestamp(day * 86_400, UTC)
    return date.year * 12 + date.month - 1


@dataclass(frozen=True, slots=True)
class Cap:
    """Millionths for a day and for a month, UTC; None: no limit."""

    daily: int | None = None
    monthly: int | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What a scope has spent or reserved on the ``day`` it was used last, and in that day's month."""

    day: int
    today: int
    month: int

    def on(self, day: int) -> Spent:
        """As it stands on a later day."""
        if day <= self.day:
            return self
        return Spent(day, 0, self.month if month_of(day) == month_of(self.day) else 0)

    def plus(self, amount: int, day: int) -> Spent:
        """With what a question of that day costs more, or less; nothing of it counts on a later day, or month."""
        if day == self.day:
            return replace(self, today=max(0, self.today + amount), month=max(0, self.month + amount))
        same_month = month_of(day) == month_of(self.day)
        return replace(self, month=max(0, self.month + amount)) if same_month else self


NOTHING_SPENT = Spent(0, 0, 0)


class Spending:
    """By scope, what was spent. Kept and read back as rows."""

    def __init__(self) -> None:
        self._spent: dict[str, Spent] = {}
        self._month = 0

    def __iter__(self) -> Iterator[tuple[str, Spent]]:
        return iter(self._spent.items())

    def __len__(self) -> int:
        return len(self._spent)

    def of(self, scope: str, day: int) -> Spent:
        """How a scope stands on that day."""
        return self._spent.get(scope, NOTHING_SPENT).on(day)

    def named(self, scope: str) -> str:
        """The scope that counts for this one: itself, where it is there or there is room for it."""
        full = len(self._spent) >= MOST_SCOPES and scope not in self._spent
        return OTHERS if full and scope.startswith("sender ") else scope

    def use(self, scope: str, amount: int, day: int) -> None:
        """A question of that day takes so much more, or less."""
        self._forget_months_before(day)
        before = self._spent.get(scope)
        self._spent[scope] = (Spent(day, 0, 0) if before is None else before.on(day)).plus(amount, day)

    def _forget_months_before(self, day: int) -> None:
        month = month_of(day)
        if month > self._month:
            self._month = month
            kept = {scope: spent for scope, spent in self._spent.items() if month_of(spent.day) >= month}
            self._spent = kept

    def hold(self, scope: str, spent: Spent) -> None:
        """As it was kept. Raises ValueError."""
        if scope in self._spent or min(spent.day, spent.today, spent.month) < 0 or spent.day > LAST_DAY:
            raise ValueError(f"{scope[:80]} has spent less than nothing, twice, or on no day")
        self._spent[scope] = spent
        self._month = max(self._month, month_of(spent.day))


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope that a question counts in, by its ``name``, and its cap."""

    name: str
    cap: Cap


@dataclass(frozen=True, slots=True)
class CostCaps:
    """``tiers``: by name, what all who ask may spend together on the models of a tier. ``senders``: by sender, or a
    glob of them, what each of these may spend; the longest that fits counts. ``tier_of``: of each model,
    ``provider/model``.
    """

    tiers: Mapping[str, Cap] = field(default_factory=dict)
    senders: Mapping[str, Cap] = field(default_factory=dict)
    tier_of: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.tiers or self.senders)

    def scopes(self, sender: str, model: str) -> tuple[Scope, ...]:
        """What a question of ``sender`` (empty: the node's own word) to ``model`` counts in."""
        names = f"tier {self.tier_of.get(model, '')}", *([f"sender {sender}"] if sender else ())
        return tuple(Scope(name, cap) for name in names if (cap := self.cap(name)) is not None)

    def cap(self, scope: str) -> Cap | None:
        """What a scope is held to now; None for nothing."""
        kind, _, name = scope.partition(" ")
        if kind == "tier":
            return self.tiers.get(name)
        globs = [each for each in self.senders if each == name or fnmatchcase(name, each)]
        if not globs:
            return None
        return self.senders[name if name in globs else min(globs, key=lambda each: (-len(each), each))]


@dataclass(frozen=True, slots=True)
class Room:
    """What is ``left`` of the tightest cap of a scope, which is ``most`` a ``period`` (day or month)."""

    scope: str
    left: int
    most: int
    period: str
    again: str

    @property
    def words(self) -> str:
        """Which cap that is, and when there is more."""
        return (
            f"{self.scope} may cost {in_units(self.most)} a {self.period}, {in_units(max(0, self.left))} of it left "
            f"until {self.again} UTC"
        )


def room(spending: Spending, scope: Scope, day: int, back: tuple[int, int] = (0, 0)) -> Room | None:
    """The tightest cap of a scope on that day; None where it has none. ``back``: an amount that is given back before,
    and the day to which it counts.
    """
    name = spending.named(scope.name)
    amount, of = back
    spent = spending.of(name, day).plus(-amount, of)
    rooms = []
    if scope.cap.daily is not None:
        rooms.append(Room(name, scope.cap.daily - spent.today, scope.cap.daily, "day", _date(day + 1)))
    if scope.cap.monthly is not None:
        left, until = scope.cap.monthly - spent.month, _date(_next_month(day))
        rooms.append(Room(name, left, scope.cap.monthly, "month", until))
    return min(rooms, key=lambda each: each.left, default=None)


def _next_month(day: int) -> int:
    first = datetime.fromtimestamp(day * 86_400, UTC).replace(day=1)
    return int((first + timedelta(days=32)).replace(day=1).timestamp()) // 86_400


def _date(day: int) -> str:
    return datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m-%d 00:00")
