"""Quotes as syscalls: whether caps of cost leave room for a question, before a model is chosen.

A quote is recorded, so that a resumed turn chooses as before. It also counts how often just these models were asked of:
models that take turns go by that. The count is kept in memory, and begins anew with the node.
"""

from __future__ import annotations

from collections import OrderedDict

from chain.ledger.ledger import Draft
from kernel.abi import Quote
from kernel.budget.allowance import MOST_OUTPUT, Asked, capped, tokens_in
from kernel.budget.spending import day_of
from kernel.cell.protocol import Quoting
from kernel.errors import Invalid
from kernel.policy.terms import Terms
from kernel.process.live import LiveProcess
from kernel.slices.turns import Turn
from kernel.state.recorder import Recorder
from kernel.syscall.models.asking import Gateway
from kernel.syscall.models.model_question import MODEL_CHARS, PROVIDER_CHARS
from kernel.turn.divergence import shown
from kernel.turn.turns import Turns
from kernel.values import call_hash, canonical, clean

MOST_MODELS = 1024
MOST_COUNTED = 256
"""So many different lists of models are counted; of those beyond the one that was asked of longest ago is forgotten."""
MOST_TOKENS = 2**31 - 1


class Quotes:
    """Takes these syscalls; answers through :meth:`Turns.answer`."""

    def __init__(self, recorder: Recorder, turns: Turns, gateway: Gateway, terms: Terms) -> None:
        self._recorder = recorder
        self._turns = turns
        self._gateway = gateway
        self._terms = terms
        self._numbers: OrderedDict[tuple[str, ...], int] = OrderedDict()

    def asked(self, process: LiveProcess, turn: Turn, ordinal: str, args: Quoting) -> None:
        """A cell wants to choose a model. Raises LedgerUnavailable, and Invalid for what is no list of models."""
        models = _checked(args)
        hashed = call_hash("quote", canonical([list(models), args.tokens, args.answer]))
        recorded = turn.calls.get(ordinal)
        if recorded is not None and recorded.call_hash != hashed:
            self._turns.diverge(process, turn, recorded, shown("quote", ", ".join(models), ""))
            return
        if recorded is None:
            body = {
                "turn": turn.id,
                "ordinal": ordinal,
                "call_hash": hashed,
                "models": list(models),
                "tokens": args.tokens,
                "answer": args.answer,
                "against": [self._against(turn, model, args) for model in models],
                "number": self._next(models),
            }
            draft = Draft("model.quoted", body, process.pid, turn.id, turn.mail.trace, turn.started_seq)
            self._recorder.commit([draft])
        outcome = turn.calls[ordinal].outcome
        assert outcome is not None
        self._turns.answer(turn, ordinal, Quote(tuple(outcome["against"]), outcome["number"]))

    def _against(self, turn: Turn, model: str, args: Quoting) -> str:
        scopes = self._terms.caps.scopes(turn.mail.who, model)
        if not scopes:
            return ""
        provider, _, name = model.partition("/")
        most, day = min(args.answer or MOST_OUTPUT, MOST_OUTPUT), day_of(self._recorder.ledger.now_us())
        asked = Asked(model, self._gateway.price(provider, name), most, scopes, day)
        return capped(self._recorder.state.accounts.book, tokens_in(4 * args.tokens), asked)

    def _next(self, models: tuple[str, ...]) -> int:
        number = self._numbers.pop(models, 0)
        self._numbers[models] = number + 1
        if len(self._numbers) > MOST_COUNTED:
            self._numbers.popitem(last=False)
        return number


def _checked(args: Quoting) -> tuple[str, ...]:
    if len(args.models) > MOST_MODELS:
        raise Invalid(f"quote of {len(args.models)} models, limit {MOST_MODELS}")
    for name, tokens in (("tokens", args.tokens), ("answer", args.answer)):
        if not 0 <= tokens <= MOST_TOKENS:
            raise Invalid(f"{name} of a quote is {tokens}, must be from 0 to {MOST_TOKENS}")
    return tuple(clean(model)[: PROVIDER_CHARS + MODEL_CHARS + 1] for model in args.models)
