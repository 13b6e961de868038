"""Whether a book of accounts adds up."""

from __future__ import annotations

from collections.abc import Iterator

from kernel.budget.account import Book
from kernel.model.address import ancestors


def faults(book: Book) -> Iterator[str]:
    """Where the book does not add up."""
    reserved: dict[tuple[str, str], int] = {}
    for kept in book.reservations.values():
        for resource, accounts, amount in kept.parts:
            for each in accounts:
                reserved[each, resource] = reserved.get((each, resource), 0) + amount
    handed: dict[tuple[str, str], int] = {}
    for account in book.accounts.values():
        for resource, line in account.lines.items():
            above = book.nearest(ancestors(account.address)[0], resource)
            if above is not None:
                key = above.address, resource
                handed[key] = handed.get(key, 0) + line.granted
    for account in book.accounts.values():
        for resource, line in account.lines.items():
            expected = {
                "handed": handed.get((account.address, resource), 0),
                "reserved": reserved.get((account.address, resource), 0),
            }
            if resource == "memory_bytes":
                expected["spent"] = sum(amount for of, amount in book.held.values() if of == account.address)
            if any(getattr(line, name) != amount for name, amount in expected.items()) or line.spent < 0:
                yield f"{account.address} {resource}: {line}, but {expected}"
