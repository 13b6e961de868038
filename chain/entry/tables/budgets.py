"""Kinds of the accounts of budgets."""

from __future__ import annotations

from chain.entry.fields import BOOL, TEXT, TEXTS, WHOLE, WHOLES
from chain.entry.kind import ORDINAL, TURN, kind

BUDGETS = (
    kind(
        "budget.reserved",
        "the question before it may use so much of accounts; its answer settles that, or its turn's end; lazy only "
        "where nobody pays money for it. What is said of money, and of caps, is absent in entries of older builds",
        durable=True,
        turn=TURN,
        ordinal=ORDINAL,
        accounts=(TEXTS, "addresses whose accounts pay the tokens, each the whole"),
        tokens=(WHOLE, "tokens that are reserved, and that it may use where accounts is empty"),
        input=(WHOLE, "how many of them are for what is read, about"),
        payers=(TEXTS, "addresses whose accounts pay the money, each the whole"),
        money=(WHOLE, "money that is reserved, in millionths"),
        input_price=(WHOLE, "what a million tokens cost that are read, in millionths"),
        output_price=(WHOLE, "what a million tokens cost that are written, in millionths"),
        cached_price=(WHOLE, "what a million tokens cost that are read and were kept, in millionths"),
        scopes=(TEXTS, "what of caps of cost the money counts in: sender NAME, tier NAME"),
        day=(WHOLE, "days since 1970 (UTC) of the day that it counts to, 0 where scopes is empty"),
        last=(BOOL, "whether it is the last of its turn, put without tools"),
        note=(TEXT, "what its model was told of what is left, behind all messages"),
    ),
    kind(
        "budget.used",
        "a process has used so much more, as it was measured; of less than a hundredth of an account nothing is said "
        "before it ends",
        address=(TEXT, "address of the process"),
        resource=(TEXT, "cpu_ms"),
        accounts=(TEXTS, "addresses whose accounts pay it, each the whole"),
        amount=(WHOLE, "how much more"),
    ),
    kind(
        "budget.held",
        "a process holds so much at once, as it was measured, until it is said otherwise or the process exits",
        address=(TEXT, "address of the process"),
        resource=(TEXT, "memory_bytes"),
        account=(TEXT, "address whose account it is held of"),
        amount=(WHOLE, "how much it holds"),
    ),
    kind(
        "budget.granted",
        "an account was given more, out of the one above it where there is one",
        durable=True,
        address=(TEXT, "address of the account"),
        resource=(TEXT, "tool_calls, messages, tokens, money, time_ms, cpu_ms or memory_bytes"),
        amount=(WHOLE, "how much more; money in millionths"),
        by=(TEXT, "who gave it"),
    ),
    kind(
        "budget.changed",
        "another budget was declared for a process that is there; beside the process.changed that says it",
        durable=True,
        address=(TEXT, "address of the account"),
        then=(TEXT, "what is done when one is used up: wrap_up, refuse, pause or stop"),
        resources=(TEXTS, "what is limited from now on; what is not among them is limited no more"),
        amounts=(WHOLES, "how much of each is granted from now on; money in millionths"),
    ),
    kind(
        "budget.warned",
        "more than 80, or 100, in a hundred of an account is spent; said once for each, until more is granted",
        address=(TEXT, "address of the account"),
        resource=(TEXT, "tool_calls, messages, tokens, money, time_ms, cpu_ms or memory_bytes"),
        percent=(WHOLE, "80 or 100"),
        spent=(WHOLE, "how much is spent; money in millionths"),
        granted=(WHOLE, "of how much"),
    ),
)
