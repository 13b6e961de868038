"""What becomes of an account when another budget is declared for its process, which is there. Pure.

What people granted beside stays: a line grows, or shrinks, by what its declaration does. It shrinks to what is in use
at least: spent, reserved, or with processes below. A line that is declared no more is none, and what was spent of it
is so of the account above; a new one comes between that one and those below. Processor time and memory are measured in
cells of their own alone, so what is there is given no budget of these: it is made anew.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernel.budget.account import Book, Line, handed_below
from kernel.errors import Refused
from kernel.model.address import parent
from kernel.operations.rights.budgets import MOST, Budget, Resource, read_budget, said_of, shown

MEASURED: tuple[Resource, ...] = ("cpu_ms", "memory_bytes")


def amounts(budget: Budget | None) -> dict[Resource, int]:
    """What is declared of each resource that is limited."""
    return {} if budget is None else budget.amounts()


def may_change(before: Budget | None, after: Budget | None) -> bool:
    """Whether a process that is there can be given the other budget."""
    return not any(name in MEASURED for name in amounts(after).keys() - amounts(before).keys())


def less(before: Budget | None, after: Budget | None) -> Budget | None:
    """Of both the smaller: what takes something away, before anything is given. None: no budget is left."""
    if before is None or after is None:
        return None
    old, new, told = amounts(before), amounts(after), before.told()
    smaller = {name: told if old[name] <= new[name] else after.told() for name in old.keys() & new.keys()}
    if not smaller:
        return None
    lines = {str(name): said[name] for name, said in smaller.items()}
    return read_budget({**lines, "then": before.then})


def relined(book: Book, address: str, before: Budget | None, after: Budget | None) -> dict[Resource, int]:
    """What is granted of each line from then on. Raises Refused for what cannot be given."""
    account = book.accounts.get(address)
    lines = {} if account is None else account.lines
    old = amounts(before)
    found: dict[Resource, int] = {}
    for resource, amount in amounts(after).items():
        line = lines.get(resource)
        if line is None:
            found[resource] = _new(book, address, resource, amount)
        else:
            found[resource] = _moved(book, address, resource, line, amount - old.get(resource, line.granted))
    return found


def _moved(book: Book, address: str, resource: Resource, line: Line, more: int) -> int:
    """What a line is granted by ``more`` than now, or less."""
    if more < 0:
        return max(line.granted + more, min(line.granted, line.in_use))
    _check_given(book, address, resource, more)
    if line.granted + more > MOST:
        raise Refused(f"budget: {address} would have {shown(resource, line.granted + more)} {resource}")
    return line.granted + more


def _new(book: Book, address: str, resource: Resource, amount: int) -> int:
    handed = handed_below(book, address, resource)
    if resource in MEASURED:
        raise Refused(f"budget: {address} is there, and {resource} are for what is made anew: replace it")
    if amount < handed:
        raise Refused(
            f"budget: processes below {address} have {shown(resource, handed)} {said_of(resource)} already: declare at "
            "least that"
        )
    _check_given(book, address, resource, amount - handed)
    return amount


def _check_given(book: Book, address: str, resource: Resource, more: int) -> None:
    above = book.nearest(parent(address), resource)
    if above is not None and more > 0 and above.lines[resource].left < more:
        left = shown(resource, max(0, above.lines[resource].left))
        raise Refused(
            f"budget: {above.address} has {left} {said_of(resource)} left, and cannot give {shown(resource, more)}"
        )


def change_in_words(before: Budget | None, after: Budget | None, in_use: Mapping[Resource, int]) -> str:
    """What becomes more and what less. ``in_use``: of each line what it cannot fall below."""
    old, new = amounts(before), amounts(after)
    said = []
    for resource in (*old, *(each for each in new if each not in old)):
        if old.get(resource) == new.get(resource):
            continue
        was, will = (
            shown(resource, each[resource]) if resource in each else "no limit" for each in (old, new)
        )
        words = f"{resource} {was} to {will}"
        least = in_use.get(resource, 0)
        if resource in old and resource in new and new[resource] < min(least, old[resource]):
            words += f" ({shown(resource, least)} are in use and stay)"
        said.append(words)
    if before is not None and after is not None and before.then != after.then:
        said.append(f"then {before.then} to {after.then}")
    return ", ".join(said)
