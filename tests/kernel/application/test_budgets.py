"""What an application declares of budgets fits together, or every place is named where it does not."""

from __future__ import annotations

from kernel.application.budgets import Share, budget_faults
from kernel.operations.rights.budgets import Budget


def test_what_is_declared_below_a_budget_is_no_more_than_it_has_together() -> None:
    declared = [
        Share("/user/shop", 1, Budget(tokens=100, money="1")),
        Share("/user/shop/clerk", 1, Budget(tokens=40)),
        Share("/user/shop/back", 1, None),
        Share("/user/shop/back/packer", 3, Budget(tokens=20, tool_calls=9)),
        Share("/user/shop/back/none", 0, Budget(tokens=2**50)),
    ]
    assert list(budget_faults(declared)) == []
    declared[3] = Share("/user/shop/back/packer", 4, Budget(tokens=20, money="0.3"))
    assert list(budget_faults(declared)) == [
        (
            "/user/shop",
            "/user/shop: budget: it has 100 tokens, and what is declared below it is to have 120",
        ),
        (
            "/user/shop",
            "/user/shop: budget: it has 1 units of money, and what is declared below it is to have 1.2",
        ),
    ]


def test_what_is_below_a_child_is_that_childs_to_give() -> None:
    declared = [
        Share("/user/shop", 1, Budget(tokens=100)),
        Share("/user/shop/back", 1, Budget(tokens=60)),
        Share("/user/shop/back/packer", 2, Budget(tokens=40)),
    ]
    [(address, why)] = budget_faults(declared)
    assert address == "/user/shop/back" and why.endswith(
        "it has 60 tokens, and what is declared below it is to have 80"
    )
