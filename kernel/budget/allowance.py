"""What may be used of a budget now: whether a tool is called, a message sent, how long an answer may be, and what is
said of it beside a question.

A question to a model says how much it reads; how much is written in answer is clamped, so that both fit into what is
left. Of an account that is to ``wrap_up``, a **landing** is kept: five in a hundred, or what another question as long
as this one needs, whichever is more. The question that would begin it is the last of its turn: no tools are offered
with it, and all that is left may go into its answer.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from kernel.budget.account import RESOURCES, Account, Book
from kernel.operations.rights.budgets import Resource

LANDING_PART = 20
LEAST_OUTPUT = 64
LANDING_OUTPUT = 256
MOST_OUTPUT = 16_384
"""Tokens of one answer, where there is a budget of them."""
_BYTES_A_TOKEN = 3
_BESIDE = 80  # what a model reads beside the words, and the note of what is left


@dataclass(frozen=True, slots=True)
class Allowance:
    """``accounts`` that pay; ``tokens`` to reserve of each, of them ``input``; ``last``: without tools, and no other
    question follows in its turn. ``note``: what its model is told of what is left. ``why``: it may not be put;
    ``short``: whose tokens are too few for it.
    """

    accounts: tuple[str, ...] = ()
    tokens: int = 0
    input: int = 0
    last: bool = False
    note: str = ""
    why: str = ""
    short: str = ""

    @property
    def output(self) -> int:
        """Tokens of the answer at most, 0 for no limit."""
        return self.tokens - self.input


FREE = Allowance()


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
    account = exhausted(book, address, sender, "tool_calls")
    if account is not None:
        return f"{_used_up(account, 'tool_calls')}; answer from what is known"
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


def question(book: Book, address: str, sender: str, size_bytes: int, landed: bool) -> Allowance:
    """What a question of that size may use. ``landed``: the last one of its turn was put already."""
    if not book.accounts:
        return FREE
    over = exhausted(book, address, sender, "time_ms")
    if over is not None:
        return Allowance(why=f"budget: {_used_up(over, 'time_ms')}")
    found = _wraps_up(book, address, sender)
    if found is not None and landed:
        return Allowance(why=f"budget: {_used_up(*found)}, and the last answer was given")
    payers = book.payers(address, sender, "tokens")
    last = found is not None
    allowed = _of_tokens(payers, tokens_in(size_bytes), last, landed) if payers else Allowance(last=last)
    return allowed if allowed.why else replace(allowed, note=_left(book, address, sender, allowed))


def _left(book: Book, address: str, sender: str, allowed: Allowance) -> str:
    """What is left of each resource that is limited, before this question; empty where none is."""
    said = []
    for resource in RESOURCES:
        payers = book.payers(address, "" if resource == "messages" else sender, resource)
        if payers:
            line = min((account.lines[resource] for account in payers), key=lambda line: line.left)
            said.append(f"{max(0, line.left)} of {line.granted} {resource.replace('_', ' ')}")
    if not said:
        return ""
    most = f" This answer may have {allowed.output} tokens." if allowed.output else ""
    last = " It is the last one: no tool is called after it." if allowed.last else ""
    return f"[budget] Left: {', '.join(said)}.{most}{last}"


def _of_tokens(payers: Collection[Account], reads: int, last: bool, landed: bool) -> Allowance:
    names = tuple(account.address for account in payers)
    scarce = min(payers, key=lambda account: account.lines["tokens"].left - _landing(account, reads))
    beyond = scarce.lines["tokens"].left - _landing(scarce, reads) - reads
    if not last and beyond >= LEAST_OUTPUT:
        return Allowance(names, reads + min(beyond, MOST_OUTPUT), reads)
    if landed:
        return Allowance(why=f"budget: {_used_up(scarce, 'tokens')}, and the last answer was given")
    least = min(account.lines["tokens"].left for account in payers)
    if least - reads < LEAST_OUTPUT:
        return Allowance(
            why=f"budget: {scarce.address} has {least} of {scarce.lines['tokens'].granted} tokens left, and this "
            f"question alone is about {reads}",
            short=scarce.address,
        )
    return Allowance(names, reads + min(least - reads, MOST_OUTPUT), reads, True)


def _landing(account: Account, reads: int) -> int:
    if account.then != "wrap_up":
        return 0
    return max(account.lines["tokens"].granted // LANDING_PART, reads + LANDING_OUTPUT)


def _wraps_up(book: Book, address: str, sender: str) -> tuple[Account, Resource] | None:
    """The account that is to wrap up, and of what it has nothing left: of messages it is who sends that pays, alone."""
    paid_by: tuple[tuple[Resource, str], ...] = (("tool_calls", sender), ("messages", ""), ("tokens", sender))
    for resource, asks in paid_by:
        account = exhausted(book, address, asks, resource)
        if account is not None and account.then == "wrap_up":
            return account, resource
    return None


def _used_up(account: Account, resource: Resource) -> str:
    granted = account.lines[resource].granted
    return f"{account.address} has used up its {granted} {resource.replace('_', ' ')}"
