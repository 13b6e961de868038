"""Model calls as syscalls: recorded, replayed, streamed to whoever watches.

A question is told in terms of what is known already (:mod:`kernel.cell.conversation`), by a cell to the node, by the
node in its ledger and to the gateway; only what is new is read, hashed, recorded and sent on. The node keeps digests
alone. Where it needs a text that it was not told (its session was forgotten, the gateway has lost it), it wants the
call once more, whole, and the cell that waits for the outcome has it.

What is recorded is the hash of the whole request and what is new in it: ``prefix_of`` names the entry of an earlier
question in the same session, ``pieces`` how this one is put together of the messages of that and of ``new``. So a
turn's share of the ledger grows with what is said, not its square. What a tool gave stands in its outcome; ``results``
says where, and ``new`` lacks it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import Any

from chain.errors import LedgerUnavailable
from chain.ledger.ledger import PREVIOUS, Draft, Ticket
from kernel.abi import ErrorKind
from kernel.bounds import Bounds
from kernel.budget.allowance import FREE, MOST_OUTPUT, Allowance, put_again, put_as_before
from kernel.budget.allowance import Asked as Priced
from kernel.budget.allowance import question as allowed
from kernel.budget.spending import day_of
from kernel.cell.conversation import Pieces, new_places, pieces_of
from kernel.cell.protocol import NO_OPTIONS, ModelQuestion
from kernel.errors import Invalid, fault_of
from kernel.helper.helpers import HelperNotice
from kernel.message.turn_feed import TurnFeed
from kernel.message.watch import Watchers
from kernel.policy.pipeline import Policy
from kernel.policy.proposal import AskModel
from kernel.policy.terms import Terms
from kernel.process.live import LiveProcess
from kernel.process.process_signals import SlotGone
from kernel.slices.turns import Call, Turn
from kernel.state.after_durable import AfterDurable
from kernel.state.recorder import Recorder
from kernel.syscall.models.asking import Asking, Gateway, Stage
from kernel.syscall.models.conversations import Asked, Conversations
from kernel.syscall.models.loading import LOADING
from kernel.syscall.models.model_answer import AskedOf, answered_draft, error_answer, recorded_answer
from kernel.syscall.models.model_options import check_options, told_options
from kernel.syscall.models.model_question import (
    Base,
    Question,
    Reading,
    Resolved,
    asked_names,
    read_question,
    refused_question,
    resolve,
)
from kernel.syscall.models.model_sections import shown_sections
from kernel.toolbox.registry import Registry
from kernel.turn.divergence import shown
from kernel.turn.partial_answers import PartialAnswers
from kernel.turn.turn_signals import TimeOver
from kernel.turn.turns import Turns
from kernel.values import canonical

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Running:
    """A question that is put to a model, and the message that its turn handles. ``aside``: see
    :class:`kernel.abi.ModelRequest`.
    """

    asking: Asking
    message: str
    aside: bool


class ModelCalls:
    """Takes ``model`` syscalls; answers through :meth:`Turns.answer`."""

    def __init__(
        self,
        recorder: Recorder,
        turns: Turns,
        registry: Registry,
        gateway: Gateway,
        watchers: Watchers,
        feed: TurnFeed,
        policy: Policy,
        bounds: Bounds,
        terms: Terms,
        partial: PartialAnswers,
    ) -> None:
        self._recorder = recorder
        self._partial = partial
        self._turns = turns
        self._registry = registry
        self._gateway = gateway
        self._watchers = watchers
        self._feed = feed
        self._policy = policy
        self._bounds = bounds
        self._terms = terms
        self.conversations = Conversations()
        self._preparing: set[asyncio.Task[None]] = set()
        self._running: dict[str, Running] = {}
        self._after = AfterDurable(recorder.ledger)

    def asked(self, process: LiveProcess, turn: Turn, ordinal: str, asked: ModelQuestion) -> None:
        """A cell asks a model. Everything in ``asked`` is hostile. Raises LedgerUnavailable."""
        process.prepared.discard(ordinal)
        bounds = self._bounds
        reading = read_question(asked, self._base(turn), bounds.model_messages, bounds.model_request_bytes)
        try:
            check_options(asked.options, bounds)
            next(reading)
        except StopIteration as done:
            question = done.value
        except Invalid as error:
            question = refused_question(str(error))
        else:
            _not_compared(process, ordinal)
            task = asyncio.get_running_loop().create_task(self._prepare(process, turn, ordinal, reading))
            self._preparing.add(task)
            task.add_done_callback(self._preparing.discard)
            return
        self._prepared(process, turn, ordinal, question)

    def _base(self, turn: Turn) -> Base:
        key = (turn.address, turn.mail.session)
        return Base(self.conversations.last(key).messages, self._recorder.state.sessions.get(key))

    async def _prepare(
        self,
        process: LiveProcess,
        turn: Turn,
        ordinal: str,
        reading: Reading,
    ) -> None:
        """The rest of a long request, a slice a turn of the loop."""
        question: Question | None
        try:
            while True:
                await asyncio.sleep(0)
                if not self._turns.asks(process, turn, ordinal):
                    return
                next(reading)
        except StopIteration as done:
            question = done.value
        except Invalid as error:
            question = refused_question(str(error))
        except Exception as error:  # the boundary: whoever asked is answered, whatever it was
            log.error("a model request of %s failed: %s", turn.id, fault_of(error))
            question = refused_question(f"the node failed at this request ({type(error).__name__})")
        while self._turns.asks(process, turn, ordinal):
            process.prepared.discard(ordinal)
            process.asked.add(ordinal)
            try:
                self._prepared(process, turn, ordinal, question)
                return
            except LedgerUnavailable:
                _not_compared(process, ordinal)
                await self._recorder.writable()

    def _prepared(self, process: LiveProcess, turn: Turn, ordinal: str, question: Question | None) -> None:
        call = turn.calls.get(ordinal)
        if question is None or not (question.whole or call is None or call.call_hash == question.call_hash):
            _not_compared(process, ordinal)
            self._turns.want_whole(turn, ordinal)
        elif call is not None and not _same(call, question):
            self._turns.diverge(process, turn, call, shown("model", "", question.told or question.fault))
        elif call is not None and call.outcome is not None:
            self.conversations.heard((turn.address, turn.mail.session), question.messages)
            self._answer(turn, call)
        elif question.fault:
            self._refuse(process, turn, ordinal, question, question.fault, "invalid")
        else:
            resolved = self._resolve(process, question)
            allowance = self._allowance(turn, ordinal, question, resolved)
            if allowance.last:
                resolved = resolved.alone
            if why := self._refusal(process, turn, question, resolved, allowance):
                kind: ErrorKind = "refused"
                if allowance.why:
                    kind = "capped" if allowance.capped else "budget"
                self._refuse(process, turn, ordinal, question, why, kind)
                if allowance.short is not None:
                    self._turns.too_little(*allowance.short)
            else:
                self._put(process, turn, ordinal, question, resolved, allowance)

    def _allowance(self, turn: Turn, ordinal: str, question: Question, resolved: Resolved) -> Allowance:
        """What it may use; of one that was put already, what was reserved for it then."""
        accounts, call = self._recorder.state.accounts, turn.calls.get(ordinal)
        asked = self._priced(turn, question, resolved)
        kept = accounts.book.reservations.get((turn.id, ordinal))
        if kept is not None:
            now = resolved.alone if kept.last else resolved
            same = call is not None and call.name == now.name
            return put_as_before(kept) if same else put_again(accounts.book, kept, asked)
        if call is not None:  # it was put before there was a budget
            return FREE
        landed = turn.id in accounts.landed
        return allowed(accounts.book, turn.address, turn.mail.payer, question.bytes, landed, asked)

    def _priced(self, turn: Turn, question: Question, resolved: Resolved) -> Priced:
        name, wanted = f"{resolved.provider}/{resolved.model}", question.asked.options or NO_OPTIONS
        price = self._gateway.price(resolved.provider, resolved.model)
        most = min(wanted.max_tokens or MOST_OUTPUT, MOST_OUTPUT)
        if not self._terms.caps:
            return Priced(name, price, most)
        day = day_of(self._recorder.ledger.now_us())
        return Priced(name, price, most, self._terms.caps.scopes(turn.mail.who, name), day)

    def _refusal(
        self,
        process: LiveProcess,
        turn: Turn,
        question: Question,
        resolved: Resolved,
        allowance: Allowance,
    ) -> str:
        """Why it may not be asked; empty when it may."""
        if process.time.over:
            return process.time.over
        tools = tuple(resolved.tools)
        asked = AskModel(resolved.provider, resolved.model, tools, question.bytes, allowance.why)
        verdict = self._policy.judge(process.asker(turn), asked)
        return "" if verdict.decision == "allow" else "; ".join(verdict.reasons)

    def _refuse(
        self,
        process: LiveProcess,
        turn: Turn,
        ordinal: str,
        question: Question,
        why: str,
        kind: ErrorKind,
    ) -> None:
        """A refusal is an answer like any other: recorded, so that a resumed turn gets it again."""
        resolved = self._resolve(process, question)
        asked = self._asked_draft(process, turn, ordinal, question, resolved)
        asked.body |= {"new": "[]", "truncated": True}
        answer, of = error_answer(why, kind), self._asked_of(resolved)
        self._recorder.commit([asked, answered_draft(process.pid, turn, ordinal, answer, PREVIOUS, of)])
        self._answer(turn, turn.calls[ordinal])

    def _asked_of(self, resolved: Resolved) -> AskedOf:
        price = self._gateway.price(resolved.provider, resolved.model)
        return AskedOf(resolved.provider, resolved.model, price)

    def _put(
        self,
        process: LiveProcess,
        turn: Turn,
        ordinal: str,
        question: Question,
        resolved: Resolved,
        allowance: Allowance,
    ) -> None:
        """Ask, unless the question is under way. It may be resolved to something else than it was in another boot; then
        that is recorded.
        """
        if not self._turns.hold(process, turn, ordinal, question.cost_bytes):
            return
        stream = f"{turn.id}:{ordinal}"
        if stream in self._running:
            self._put_again(turn, ordinal, question)
            return
        key, call, once = (turn.address, turn.mail.session), turn.calls.get(ordinal), question.once
        recorded: Ticket | None = None
        if call is None or call.name != resolved.name:
            pieces = pieces_of(self.conversations.last(key).on_record.digests, question.messages.digests)
            said = [place for place in new_places(pieces) if place in once]
            if any(place not in question.said for place in new_places(pieces)):
                self._turns.want_whole(turn, ordinal)
                return
            recorded = self._record_question(process, turn, ordinal, question, resolved, pieces, allowance)
        else:
            self.conversations.heard(key, question.messages)
            said = list(once)
        provider, model = asked_names(question)
        request: dict[str, Any] = {
            "digests": question.messages.digests,
            "said": [[place, once[place]] for place in said],
            "tools": _schemas(self._registry, resolved.tools),
            "provider": provider,
            "model": model,
            "stream_id": stream,
            "asker": turn.address,
            **told_options(question.asked.options, allowance.output),
        }
        if allowance.note:
            request["note"] = allowance.note
        asking = Asking(
            self._gateway,
            request,
            once if question.whole else None,
            self._bounds,
            partial(self._turns.want_whole, turn, ordinal),
            partial(self._answered, process.pid, turn, ordinal, self._asked_of(resolved)),
            partial(self._feed.void, turn.id, ordinal, "attempt"),
            partial(self._turns.stands, turn),
        )
        options = question.asked.options or NO_OPTIONS
        self._running[stream] = Running(asking, turn.mail.id, options.aside)
        begin = partial(self._begin, stream, asking, options.after_ms / 1000)
        if allowance.payers or allowance.scopes:  # nobody is paid for what may be lost with the node
            self._after.do(begin, recorded)
        else:
            begin()

    def _begin(self, stream: str, asking: Asking, after_s: float) -> None:
        """Put it, unless its turn has ended meanwhile."""
        running = self._running.get(stream)
        if running is not None and running.asking is asking:
            asking.begin_after(after_s)

    def _put_again(self, turn: Turn, ordinal: str, question: Question) -> None:
        """It is under way; maybe it waits for all of its messages."""
        asking = self._running[f"{turn.id}:{ordinal}"].asking
        if not asking.wants_whole:
            return
        if question.whole:
            asking.told(question.once)
        else:
            self._turns.want_whole(turn, ordinal)

    def _resolve(self, process: LiveProcess, question: Question) -> Resolved:
        return resolve(
            question, process.rights, self._registry, self._gateway.resolve(*asked_names(question))
        )

    def _record_question(
        self,
        process: LiveProcess,
        turn: Turn,
        ordinal: str,
        question: Question,
        resolved: Resolved,
        pieces: Pieces,
        allowance: Allowance,
    ) -> Ticket:
        """``pieces``: how it is told in terms of the newest question of its session."""
        key = (turn.address, turn.mail.session)
        last, places = self.conversations.last(key), list(new_places(pieces))
        results = question.results(places, turn.calls.values())
        new, cut = question.new_text(places, results, self._bounds.body_bytes // 2)
        count = len(question.messages) - len(places)
        draft = self._asked_draft(process, turn, ordinal, question, resolved)
        draft.body |= {
            "prefix_of": last.seq if count else -1,
            "prefix_count": count,
            "pieces": canonical(pieces),
            "new": new,
            "results": canonical(
                [[at, *results[place]] for at, place in enumerate(places) if place in results]
            ),
            "truncated": cut,
        }
        records = [draft, *_reserved(draft, turn, ordinal, allowance)]
        ticket = self._recorder.commit(records)
        seq = ticket.entries[0].entry.seq
        self.conversations.remember(key, Asked(question.messages, seq, last.links + 1 if count else 0))
        return ticket

    def _asked_draft(
        self, process: LiveProcess, turn: Turn, ordinal: str, question: Question, resolved: Resolved
    ) -> Draft:
        body = {
            "turn": turn.id,
            "ordinal": ordinal,
            "call_hash": question.call_hash,
            "provider": resolved.provider,
            "model": resolved.model,
            "tools": resolved.tools,
            "asked": question.told,
            "request_hash": question.request_hash,
            "messages_hash": question.messages.hash,
            "prefix_of": -1,
            "prefix_count": 0,
            "pieces": "[]",
            "results": "[]",
            "sections": shown_sections(question.asked.sections),
        }
        return Draft("model.asked", body, process.pid, turn.id, turn.mail.trace, turn.started_seq)

    def _answered(self, pid: int, turn: Turn, ordinal: str, of: AskedOf, answer: dict[str, Any]) -> None:
        """Record what came of a question, in this very turn of the loop if the ledger takes it, and tell it."""
        stream, call = f"{turn.id}:{ordinal}", turn.calls[ordinal]
        kept = self._recorder.state.accounts.book.reservations.get((turn.id, ordinal))
        draft = answered_draft(pid, turn, ordinal, answer, call.seq, of, kept)

        self._feed.settle(turn.id, ordinal)

        def record() -> None:
            if stream not in self._running:  # its turn has ended since the ledger takes records again
                return
            try:
                self._recorder.commit([draft])
            except LedgerUnavailable:
                raise
            except Exception:
                del self._running[stream]
                self._partial.whole(stream)
                raise
            del self._running[stream]
            self._partial.whole(stream)
            if call.outcome is not None:  # else the turn has ended meanwhile, and nobody waits
                self._answer(turn, call)

        self._recorder.until_writable(("answered", stream), record)

    def _answer(self, turn: Turn, call: Call) -> None:
        assert call.outcome is not None
        self._turns.answer(turn, call.ordinal, recorded_answer(call.outcome))

    def failed(self, process: LiveProcess, turn: Turn, ordinal: str, why: str) -> None:
        """The node itself failed at a call that is not recorded: its outcome is an error."""
        if ordinal not in turn.calls:
            self._refuse(process, turn, ordinal, refused_question(why), why, "invalid")

    def noticed(self, notice: HelperNotice) -> None:
        """What the gateway says of a question: tokens, for whoever watches, and whether it waits for others."""
        stream, args = notice.args.get("stream_id"), notice.args
        if notice.helper != "gateway" or not isinstance(stream, str):
            return
        running = self._running.get(stream)
        if running is None:
            return
        if notice.op == "slot":
            running.asking.queued(waits=args.get("waits") is True)
        elif notice.op == "delta" and not running.aside:
            self._shown(stream, running, args)

    def _shown(self, stream: str, running: Running, args: dict[str, Any]) -> None:
        turn, _, ordinal = stream.partition(":")
        if args.get("reset"):
            self._partial.whole(stream)
            self._feed.void(turn, ordinal, "attempt")
            self._watchers.emit(running.message, {"event": "delta", "reset": True})
        else:
            text = str(args.get("text", ""))
            self._partial.said(stream, text)
            self._feed.said(turn, ordinal, text)
            self._watchers.emit(running.message, {"event": "delta", "text": text})

    def slot_gone(self, gone: SlotGone) -> None:
        """Another process of its name begins anew."""
        self.conversations.forget_all(gone.slot.address)

    def forget(self, address: str, session: str) -> None:
        """The next question of a session says all that it holds: what was asked before may be erased."""
        self.conversations.forget((address, session))
        self._gateway.forget()

    def under_way(self, turn: str) -> list[str]:
        """The ordinals of the questions of a turn that are put to a model."""
        begin = f"{turn}:"
        return [stream.removeprefix(begin) for stream in self._running if stream.startswith(begin)]

    def stage(self, turn: str, ordinal: str) -> Stage | None:
        """What a question waits for that is put to a model there, or will be; None: there is none."""
        running = self._running.get(f"{turn}:{ordinal}")
        return None if running is None else running.asking.stage

    def stop(self, turn: str) -> None:
        """The turn is over: what is still being asked for it is not wanted."""
        for ordinal in self.under_way(turn):
            stream = f"{turn}:{ordinal}"
            self._gateway.cancel(stream)
            self._stop(stream)

    def time_over(self, said: TimeOver) -> None:
        """A turn has no time left: what it asks is answered with that."""
        for ordinal in self.under_way(said.turn):
            self._running[f"{said.turn}:{ordinal}"].asking.give_up(said.why)

    def _stop(self, stream: str) -> None:
        self._running.pop(stream).asking.stop()
        self._feed.settle(*stream.split(":"))
        self._partial.whole(stream)
        self._recorder.not_any_more(("answered", stream))

    async def close(self) -> None:
        for stream in list(self._running):
            self._stop(stream)
        tasks = list(self._preparing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _schemas(registry: Registry, tools: list[str]) -> list[dict[str, Any]]:
    declared = [registry[name].declaration if name in registry else LOADING for name in tools]
    return [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in declared
    ]


def _reserved(asked: Draft, turn: Turn, ordinal: str, allowance: Allowance) -> list[Draft]:
    """What keeps tokens and money for a question in the entry before; nothing where there is no budget."""
    if not (allowance.accounts or allowance.payers or allowance.scopes or allowance.note):
        return []
    body = {
        "turn": turn.id,
        "ordinal": ordinal,
        "accounts": list(allowance.accounts),
        "tokens": allowance.tokens,
        "input": allowance.input,
        "payers": list(allowance.payers),
        "money": allowance.money,
        "input_price": allowance.price.input,
        "output_price": allowance.price.output,
        "cached_price": allowance.price.cached,
        "scopes": list(allowance.scopes),
        "day": allowance.day,
        "last": allowance.last,
        "note": allowance.note,
    }
    return [Draft("budget.reserved", body, asked.pid, turn.id, turn.mail.trace, PREVIOUS)]


def _not_compared(process: LiveProcess, ordinal: str) -> None:
    """Its call has yet to be compared with the record, and is not answered from it before that."""
    process.asked.discard(ordinal)
    process.prepared.add(ordinal)


def _same(call: Call, question: Question) -> bool:
    """Whether a question is the recorded one. Builds before conversations by reference hashed the texts themselves."""
    if call.call_hash == question.call_hash:
        return True
    return not question.fault and call.call_hash == question.former_call_hash
