"""What speaks for an order in a text that is to be data, each by a name. Pure.

They are about a clause and the one before it: which kinds of words of :mod:`cognition.guard.lexicon` meet there.
"""

from __future__ import annotations

from collections.abc import Iterator

from cognition.guard.clauses import CLAUSE_WORDS, Clause
from cognition.guard.lexicon import (
    ABOVE,
    ACT,
    AGENT,
    ALL,
    APPROVED,
    BIND,
    DATA,
    DECODE,
    DO_IT,
    DROP,
    ENDED,
    FREE,
    GATE,
    GREET,
    HIDE,
    INNER,
    LIMIT,
    MUST,
    NO,
    ORIGIN,
    OUGHT,
    PLACE,
    POWER,
    PRIOR,
    REVEAL,
    RULE,
    SECRET,
    SELF,
    TALK,
    TURN,
    USER,
    WHOLE,
    YOUR,
)  # fmt: skip

SHORT = 1 << 62
"""Beside the bits of a clause that is a name and a colon, as it were."""
_OF_SOMETHING = frozenset(["of", "in", "for", "on", "about", "from", "that", "with", "which"])
_POINTING = frozenset({"these", "those", "such", "silly"})
REACH = 7
"""How many words lie between two that belong together, at most."""
_OTHERS = frozenset({"its", "his", "her", "their", "and", "or"})
_ASKING = frozenset(["how", "why", "what", "who", "which", "is", "are"])
_MAKING = frozenset(
    "write say post send answer state email list copy share what how does do which make let was tell".split()  # noqa: SIM905
)
"""What shows something only when it is said what: who writes a system prompt makes one."""


def signals_of(clause: Clause, before: int) -> Iterator[str]:
    """Those of a clause; ``before``: the bits of the one before it."""
    here, near = clause.all, clause.all | before
    if here & DROP:
        yield from _dropped(clause)
    if here & REVEAL and (here & ABOVE or (here & (RULE | INNER) and _asks_for_rules(clause))):
        yield "shows_rules"
    if here & BIND and here & SELF and (near & (WHOLE | REVEAL | DROP) or clause.end == "?"):
        yield "told_out"
    if here & BIND and here & SELF:
        yield "told_before"
    if here & RULE and _names_rules(clause):
        yield "your_rules"
    if here & SECRET and here & (ACT | REVEAL) and (here & HIDE or not here & NO):
        yield "secret"
        if near & (AGENT | HIDE | DROP | WHOLE | PLACE | FREE | TURN | DECODE):
            yield "secret_out"
    if near & AGENT and here & (ACT | REVEAL | DROP):
        if _spoken_to(clause, before):
            yield "to_the_agent"
            if near & (USER | SECRET | HIDE | RULE | DROP | PLACE):
                yield "agent_and_user"
        elif here & AGENT and here & MUST:
            yield "agent_may"
        if (here & GREET and here & AGENT) or before & GREET:
            yield "agent_called"
    if here & AGENT and here & OUGHT and _agent_ought(clause):
        yield "agent_ought"
    if here & HIDE:
        yield "hides"
        if near & (USER | AGENT | APPROVED):
            yield "hides_from_user"
    if here & FREE:
        yield "free"
        if near & (SELF | TURN | AGENT):
            yield "free_self"
    if here & TURN:
        yield "turn"
        if near & (FREE | RULE | BIND):
            yield "turn_of_rules"
    if here & APPROVED and near & (USER | AGENT | POWER):
        yield "approved"
        if near & (AGENT | HIDE | DROP | DO_IT):
            yield "approved_act"
    if here & (RULE | LIMIT | GATE) and here & (NO | ENDED | DROP):
        yield from _without_rules(clause)
    if here & RULE and here & YOUR and _names_prompt(clause):
        yield "your_prompt"
    if here & ORIGIN:
        yield "origin"
        if near & (REVEAL | DROP | NO | ENDED | WHOLE | FREE):
            yield "origin_act"
    if here & ACT and here & DATA and here & PLACE:
        yield "data_out"
    if here & SECRET and here & ALL and here & (ACT | REVEAL):
        yield "all_secrets"
    if here & DECODE:
        yield "decode"
        if here & SECRET:
            yield "secret_apart"
    if here & DO_IT:
        yield "do_it"
    if here & POWER and near & (TURN | FREE | RULE | BIND | APPROVED) and near & (REVEAL | DROP | ACT):
        yield "power"
    if here & USER and here & ACT and here & (YOUR | SECRET | HIDE | MUST):
        yield "acts_on_user"
    if here & TALK:
        yield "talk"
    if not here & BIND and (clause.words[0] in _ASKING or clause.end == "?"):
        yield "asks"


def disguised_order(clause: Clause, before: int) -> bool:
    """Whether a clause that was disguised gives orders: there is no other reason to disguise them."""
    here = clause.all | before
    return bool(
        (here & DROP and here & (RULE | USER | PRIOR))
        or (here & (ACT | REVEAL) and here & (SECRET | RULE | USER | AGENT | FREE | PLACE))
        or here & FREE
        or (here & TURN and here & (RULE | AGENT | YOUR))
    )


def _dropped(clause: Clause) -> Iterator[str]:
    bits, words = clause.bits, clause.words
    for at, bit in enumerate(bits):
        if not bit & DROP:
            continue
        between = 0
        for place in range(at + 1, min(at + 1 + REACH, len(bits))):
            if words[place] in _OTHERS:
                break
            between |= bits[place]
            if bits[place] & RULE:
                general = between & ALL and (place + 1 == len(bits) or words[place + 1] not in _OF_SOMETHING)
                yield (
                    ("override_quoted" if clause.quoted and not clause.all & (ACT | USER) else "override")
                    if between & (PRIOR | YOUR | POWER) or general
                    else "drops_rules"
                )
                return
            if bits[place] & (USER | BIND) and place <= at + 4:
                yield "drops_user"
                return
        for place in range(max(0, at - 4), at):
            if bits[place] & RULE and any(
                each & (PRIOR | YOUR | ALL) for each in bits[max(0, place - 3) : place]
            ):
                yield "override"
                return


def _agent_ought(clause: Clause) -> bool:
    """An agent is said to have to do something, but for to ask."""
    named = -CLAUSE_WORDS
    for at, bit in enumerate(clause.bits):
        if bit & OUGHT and at - named <= REACH + 1 and clause.words[at + 1 : at + 2] != ["ask"]:
            return True
        if bit & AGENT:
            named = at
    return False


def _without_rules(clause: Clause) -> Iterator[str]:
    """Rules, limits or confirmations are said not to be, or to be over."""
    bits = clause.bits
    for at, bit in enumerate(bits):
        if not bit & (RULE | LIMIT | GATE):
            continue
        before = bits[max(0, at - 5) : at]
        behind = bits[at + 1 : at + 5]
        gone = any(each & NO for each in before) or any(each & ENDED for each in behind)
        if bit & GATE and (gone or any(each & DROP for each in before)):
            yield "no_gate"
            return
        if bit & (RULE | LIMIT) and gone:
            yield "no_rules"
            return


_PROMPTS = frozenset(
    [
        "prompt",
        "prompts",
        "systemprompt",
        "instructions",
        "instruction",
        "guidelines",
        "anweisungen",
        "instrucciones",
        "consignes",
        "istruzioni",
        "instrucoes",
        "instrukcje",
    ]
)


def _names_prompt(clause: Clause) -> bool:
    """Whether the reader's own prompt is spoken of."""
    return any(
        word in _PROMPTS and any(bit & YOUR for bit in clause.bits[max(0, at - 3) : at])
        for at, word in enumerate(clause.words)
    )


def _names_rules(clause: Clause) -> bool:
    """Whether rules are spoken of as those of the reader."""
    return any(
        bit & RULE and (clause.bits[at - 1] & YOUR or clause.words[at - 1] in _POINTING)
        for at, bit in enumerate(clause.bits)
        if at
    )


def _spoken_to(clause: Clause, before: int) -> bool:
    """An agent is meant to do something: it is told to, or called by its name before."""
    here, bits = clause.all, clause.bits
    if here & AGENT and here & (OUGHT | GREET):
        return True
    if before & AGENT and before & (GREET | SHORT):
        return True
    return bool(len(bits) > 1 and bits[0] & AGENT and bits[1] & (ACT | DROP | REVEAL))


def _asks_for_rules(clause: Clause) -> bool:
    """Something is to be shown, and it is *your*, or the hidden, instructions."""
    asked, sort = -REACH - 2, 0
    for at, bit in enumerate(clause.bits):
        if bit & INNER and sort and any(each & YOUR for each in clause.bits[max(0, at - 2) : at]):
            return True
        if bit & RULE and at - asked <= REACH + 1:
            span = slice(max(0, at - 3), at)
            if any(each & sort for each in clause.bits[span]):
                return True
            if (
                clause.all & AGENT
                and clause.all & OUGHT
                and any(word in _OTHERS for word in clause.words[span])
            ):
                return True
        if bit & REVEAL:
            making = clause.words[at] in _MAKING
            if not (making and sort & PRIOR and at - asked <= REACH):
                asked, sort = at, YOUR if making else YOUR | PRIOR | POWER
    return False
