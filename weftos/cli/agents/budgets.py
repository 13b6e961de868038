"""Commands about budgets, and the option that says one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from kernel.operations.rights.budgets import Budget, Resource, read_budget, shown
from weftos.cli.terminal.named_values import named_values
from weftos.cli.terminal.options import AsJson, Data, Looked, Target, client, group, listed
from weftos.cli.terminal.output import Output

budget = group("What processes may use up.")

_AMOUNTS = ("granted", "spent", "reserved", "handed", "left")
_FIELDS = ("account", "resource", *_AMOUNTS, "then")


def read_amounts(words: Sequence[str] | None) -> Budget | None:
    """The budget in options NAME=AMOUNT. Raises BadParameter."""
    if not words:
        return None
    try:
        return read_budget(named_values(words, "NAME=AMOUNT", _read))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--budget'") from None


@budget.command("show")
def show(target: Looked, data: Data = None, as_json: AsJson = False) -> None:
    """Show the accounts that what a process uses comes out of."""
    with client(data) as node:
        _show(Output(as_json), node.budgets.show(target))


@budget.command("caps")
def caps(data: Data = None, as_json: AsJson = False) -> None:
    """Show what questions have cost today and this month, for each sender and tier that has a cap of it."""
    with client(data) as node:
        found = node.budgets.caps()
    columns = ("SCOPE", "TODAY", "A DAY", "THIS MONTH", "A MONTH")
    listed(Output(as_json), found, columns, _of_cap, "nothing was asked under a cap", keys=1)


def _of_cap(row: Any) -> list[str]:
    amounts = [row[name] for name in ("today", "daily", "month", "monthly")]
    return [row["scope"], *("any" if each is None else shown("money", each) for each in amounts)]


@budget.command("grant")
def grant(
    target: Target,
    resource: Annotated[Resource, typer.Argument(help="What it is to have more of.")],
    amount: Annotated[str, typer.Argument(metavar="AMOUNT", help="How much more; of money such as 0.25.")],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Give a process more of what it has a budget of, out of the account above it where there is one."""
    try:
        more = read_budget({resource: _read(resource, amount)})
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'AMOUNT'") from None
    with client(data) as node:
        _show(Output(as_json), node.budgets.grant(target, resource=resource, amount=more.amounts()[resource]))


def _read(name: str, value: str) -> int | str:
    """An amount as a budget says it: money is text."""
    return int(value) if value.isascii() and value.isdigit() and name != "money" else value


def _show(out: Output, lines: Sequence[Any]) -> None:
    columns = tuple(field.upper() for field in _FIELDS)
    listed(out, lines, columns, _cells, "it has no limit", keys=2)


def _cells(row: Any) -> list[str]:
    amounts = [shown(row["resource"], row[field]) for field in _AMOUNTS]
    return [row["account"], row["resource"], *amounts, row["then"]]
