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
import json
import logging
from typing import Any, Protocol

from chain.errors import LedgerUnavailable
from chain.ledger.ledger import PREVIOUS, Draft
from kernel.bounds import Bounds
from kernel.cell.conversation import Pieces, new_places, pieces_of
from kernel.cell.protocol import ModelQuestion
from kernel.errors import Invalid, fault_of
from kernel.helper.helper import HelperLost, HelperRefused
from kernel.helper.helpers import HelperNotice
from kernel.message.watch import Watchers
from kernel.policy.pipeline import Policy
from kernel.policy.proposal import AskModel
from kernel.process.live import LiveProcess
from kernel.process.process_signals import SlotGone
from kernel.slices.turns import Call, Turn
from kernel.state.recorder import Recorder
from kernel.syscall.conversations import Asked, Conversations
from kernel.syscall.model_answer import answered_draft, checked_answer, error_answer
from kernel.syscall.model_question import (
    Base,
    Question,
    Reading,
    Resolved,
    Said,
    asked_names,
    read_question,
    refused_question,
    resolve,
)
from kernel.toolbox.registry import Registry
from kernel.turn.divergence import shown
from kernel.turn.turns import Turns
from kernel.values import canonical, cut_bytes

log = logging.getLogger(__name__)
ATTEMPTS = 5
LOST = "lost"


class Gateway(Protocol):
    """The gateway, as the node sees it."""

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """``digests`` are those of all messages, ``said`` the place and the message of some. The status of the answer
        is ``lost`` when there are others among them that the gateway does not have. Raises HelperLost while it is down,
        HelperRefused.
        """

    def cancel(self, stream: str) -> None: ...

    def forget(self) -> None:
        """What it was told is to be erased."""

    def resolve(self, provider: str, model: str) -> tuple[str, str]:
        """Who will answer: the configured defaults in place of an empty provider or model."""


class ModelCalls:
    """Takes ``model`` syscalls; answers through :meth:`Turns.answer`."""

    def __init__(
        self,
        recorder: Recorder,
        turns: Turns,
        registry: Registry,
        gateway: Gateway,
        watchers: Watchers,
        policy: Policy,
        bounds: Bounds,
    ) -> None:
        self._recorder = recorder
        self._turns = turns
        self._registry = registry
        self._gateway = gateway
        self._watchers = watchers
        self._policy = policy
        self._bounds = bounds
        self.conversations = Conversations()
        self._preparing: set[asyncio.Task[None]] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._messages: dict[str, str] = {}
        self._wanted: dict[str, asyncio.Future[Said]] = {}

    def asked(self, process: LiveProcess, turn: Turn, ordinal: str, asked: ModelQuestion) -> None:
        """A cell asks a model. Everything in ``asked`` is hostile. Raises LedgerUnavailable."""
        process.prepared.discard(ordinal)
        bounds = self._bounds
        reading = read_question(asked, self._base(turn), bounds.model_messages, bounds.model_request_bytes)
        try:
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
            self._refuse(process, turn, ordinal, question, question.fault)
        else:
            resolved = self._resolve(process, question)
            if why := self._refusal(process, turn, question, resolved):
                self._refuse(process, turn, ordinal, question, why)
            else:
                self._put(process, turn, ordinal, question, resolved)

    def _refusal(self, process: LiveProcess, turn: Turn, question: Question, resolved: Resolved) -> str:
        """Why it may not be asked; empty when it may."""
        asked = AskModel(resolved.provider, resolved.model, tuple(resolved.tools), question.bytes)
        verdict = self._policy.judge(process.asker(turn), asked)
        return "" if verdict.decision == "allow" else "; ".join(verdict.reasons)

    def _refuse(self, process: LiveProcess, turn: Turn, ordinal: str, question: Question, why: str) -> None:
        """A refusal is an answer like any other: recorded, so that a resumed turn gets it again."""
        asked = self._asked_draft(process, turn, ordinal, question, self._resolve(process, question))
        asked.body |= {"new": "[]", "truncated": True}
        self._recorder.commit(
            [asked, answered_draft(process.pid, turn, ordinal, error_answer(why), PREVIOUS)]
        )
        self._answer(turn, turn.calls[ordinal])

    def _put(
        self, process: LiveProcess, turn: Turn, ordinal: str, question: Question, resolved: Resolved
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
        if call is None or call.name != resolved.name:
            pieces = pieces_of(self.conversations.last(key).on_record.digests, question.messages.digests)
            said = [place for place in new_places(pieces) if place in once]
            if any(place not in question.said for place in new_places(pieces)):
                self._turns.want_whole(turn, ordinal)
                return
            self._record_question(process, turn, ordinal, question, resolved, pieces)
        else:
            self.conversations.heard(key, question.messages)
            said = list(once)
        provider, model = asked_names(question)
        request = {
            "digests": question.messages.digests,
            "said": [[place, once[place]] for place in said],
            "tools": resolved.tools,
            "provider": provider,
            "model": model,
        }
        work = self._ask(process.pid, turn, ordinal, request, once if question.whole else None)
        task = asyncio.get_running_loop().create_task(work)
        self._running[stream] = task
        self._messages[stream] = turn.mail.id

    def _put_again(self, turn: Turn, ordinal: str, question: Question) -> None:
        """It is under way; maybe it waits for all of its messages."""
        wanted = self._wanted.get(f"{turn.id}:{ordinal}")
        if wanted is None or wanted.done():
            return
        if question.whole:
            wanted.set_result(question.once)
        else:
            self._turns.want_whole(turn, ordinal)

    def _over(self, stream: str, task: asyncio.Task[None] | None) -> None:
        if self._running.get(stream) is task:
            del self._running[stream], self._messages[stream]

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
    ) -> None:
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
        seq = self._recorder.commit([draft]).entries[0].entry.seq
        self.conversations.remember(key, Asked(question.messages, seq, last.links + 1 if count else 0))

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
        }
        return Draft("model.asked", body, process.pid, turn.id, turn.mail.trace, turn.started_seq)

    async def _ask(
        self, pid: int, turn: Turn, ordinal: str, request: dict[str, Any], whole: Said | None
    ) -> None:
        """``whole``: all of its messages, each once, when they are here."""
        task = asyncio.current_task()
        try:
            await self._answered(pid, turn, ordinal, request, whole)
        finally:
            self._over(f"{turn.id}:{ordinal}", task)

    async def _answered(
        self, pid: int, turn: Turn, ordinal: str, request: dict[str, Any], whole: Said | None
    ) -> None:
        schemas = []
        for name in request["tools"]:
            declared = self._registry[name].declaration
            schemas.append(
                {"name": name, "description": declared.description, "parameters": declared.parameters}
            )
        question = {**request, "tools": schemas, "stream_id": f"{turn.id}:{ordinal}"}
        try:
            answer = await self._ask_gateway(turn, ordinal, question, whole)
        except Exception as error:  # the boundary: whoever asked is answered, whatever it was
            log.error("a question of %s to a model failed: %s", turn.id, fault_of(error))
            answer = error_answer(f"the node failed at this question ({type(error).__name__})")
        call = turn.calls[ordinal]
        draft = answered_draft(pid, turn, ordinal, answer, call.seq)
        await self._recorder.committed([draft])
        if call.outcome is not None:  # else the turn has ended meanwhile, and nobody waits
            self._answer(turn, call)

    async def _ask_gateway(
        self, turn: Turn, ordinal: str, question: dict[str, Any], whole: Said | None
    ) -> dict[str, Any]:
        """Ask until it answers. A question lost with the gateway is asked again: it changes nothing but the bill."""
        why = ""
        for attempt in range(ATTEMPTS):
            try:
                async with asyncio.timeout(self._bounds.model_timeout_s):
                    answer = await self._gateway.ask(question)
                if answer == {"status": LOST}:
                    whole = await self._whole(turn, ordinal) if whole is None else whole
                    question = {**question, "said": [list(one) for one in whole.items()]}
                    async with asyncio.timeout(self._bounds.model_timeout_s):
                        answer = await self._gateway.ask(question)
                return checked_answer(answer, self._bounds)
            except HelperLost as error:
                why = str(error)
                await asyncio.sleep(0.2 * 2**attempt)
            except (HelperRefused, Invalid) as error:
                why = str(error)
                break
            except TimeoutError:
                self._gateway.cancel(question["stream_id"])
                why = f"no answer within {self._bounds.model_timeout_s:g} s"
                break
        return error_answer(f"the model could not be asked: {cut_bytes(why, 2000)[0]}")

    async def _whole(self, turn: Turn, ordinal: str) -> Said:
        """All messages of a question, from whoever runs the turn."""
        stream = f"{turn.id}:{ordinal}"
        wanted: asyncio.Future[Said] = asyncio.get_running_loop().create_future()
        self._wanted[stream] = wanted
        try:
            self._turns.want_whole(turn, ordinal)
            return await wanted
        finally:
            del self._wanted[stream]

    def _answer(self, turn: Turn, call: Call) -> None:
        assert call.outcome is not None
        answer = json.loads(call.outcome["answer"])
        tokens = call.outcome["tokens"]
        outcome = {
            "status": call.outcome["status"],
            **answer,
            "input_tokens": tokens[0],
            "output_tokens": tokens[1],
        }
        self._turns.answer(turn, call.ordinal, outcome)

    def failed(self, process: LiveProcess, turn: Turn, ordinal: str, why: str) -> None:
        """The node itself failed at a call that is not recorded: its outcome is an error."""
        if ordinal not in turn.calls:
            self._refuse(process, turn, ordinal, refused_question(why), why)

    def noticed(self, notice: HelperNotice) -> None:
        """Tokens from the gateway, for whoever watches."""
        stream, args = notice.args.get("stream_id"), notice.args
        if notice.helper != "gateway" or notice.op != "delta" or not isinstance(stream, str):
            return
        message = self._messages.get(stream)
        if message is not None:
            shown = {"reset": True} if args.get("reset") else {"text": str(args.get("text", ""))}
            self._watchers.emit(message, {"event": "delta", **shown})

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

    def stop(self, turn: str) -> None:
        """The turn is over: what is still being asked for it is not wanted."""
        for ordinal in self.under_way(turn):
            stream = f"{turn}:{ordinal}"
            self._gateway.cancel(stream)
            self._running.pop(stream).cancel()
            self._messages.pop(stream, None)

    async def close(self) -> None:
        tasks = [*self._preparing, *self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _not_compared(process: LiveProcess, ordinal: str) -> None:
    """Its call has yet to be compared with the record, and is not answered from it before that."""
    process.asked.discard(ordinal)
    process.prepared.add(ordinal)


def _same(call: Call, question: Question) -> bool:
    """Whether a question is the recorded one. Builds before conversations by reference hashed the texts themselves."""
    if call.call_hash == question.call_hash:
        return True
    return not question.fault and call.call_hash == question.former_call_hash
