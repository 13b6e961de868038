"""Whether what an application declares of budgets fits together: a child's comes out of its supervisor's. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kernel.model.address import ancestors
from kernel.operations.rights.budgets import Budget, Resource, said_of, shown


class Share(NamedTuple):
    """What is declared at ``address`` is to have ``budget``, each of so ``many``."""

    address: str
    many: int
    budget: Budget | None


def budget_faults(declared: Iterable[Share]) -> Iterator[tuple[str, str]]:
    """Each address whose budget has less of something than what is declared below it is to have, and that in words.
    Parents come before their children.
    """
    had: dict[str, dict[Resource, int]] = {}
    promised: Counter[tuple[str, Resource]] = Counter()
    for address, many, budget in declared:
        had[address] = {} if budget is None else budget.amounts()
        for resource, amount in had[address].items():
            above = next((each for each in ancestors(address) if resource in had.get(each, ())), None)
            if above is not None:
                promised[above, resource] += many * amount
    for (address, resource), amount in promised.items():
        if amount > had[address][resource]:
            yield (
                address,
                f"{address}: budget: it has {shown(resource, had[address][resource])} {said_of(resource)}, and what is "
                f"declared below it is to have {shown(resource, amount)}",
            )
