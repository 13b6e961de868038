"""Model calls as syscalls: recorded, replayed, streamed to whoever watches.

What is recorded of a question is the hash of the whole request and only what is new in it: ``prefix_of`` names the
entry of an earlier question in the same session, ``prefix_count`` how many of the recorded messages up to there this
one begins with, and ``new`` holds the rest. So a turn's share of the ledger grows with what is said, not its square.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any, Protocol

from chain.errors import LedgerUnavailable
from chain.ledger.ledger import PREVIOUS, Draft
from kernel.bounds import Bounds
from kernel.errors import Invalid, fault_of
from kernel.helper.helper import HelperLost, HelperRefused
from kernel.helper.helpers import HelperNotice
from kernel.message.watch import Watchers
from kernel.process.live import LiveProcess
from kernel.slices.turns import Call, Turn
from kernel.state.recorder import Recorder
from kernel.syscall.model_question import (
    Question,
    Resolved,
    asked_names,
    read_question,
    refused_question,
    request_of,
    resolve,
)
from kernel.syscall.model_request import RequestText, common_messages
from kernel.toolbox.registry import Registry
from kernel.turn.divergence import shown
from kernel.turn.turns import Turns
from kernel.values import canonical, clean, cut_bytes

log = logging.getLogger(__name__)
REMEMBERED_SESSIONS = 5_000
REMEMBERED_BYTES = 16 * 2**20
_DONE = object()
ATTEMPTS = 5


class Gateway(Protocol):
    """The gateway, as the node sees it. Both raise HelperLost while it is down."""

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]: ...

    def cancel(self, stream: str) -> None: ...

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
        bounds: Bounds,
    ) -> None:
        self._recorder = recorder
        self._turns = turns
        self._registry = registry
        self._gateway = gateway
        self._watchers = watchers
        self._bounds = bounds
        self._last: dict[tuple[str, str], tuple[int, bytes]] = {}
        self._remembered_bytes = 0
        self._preparing: set[asyncio.Task[None]] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._messages: dict[str, str] = {}

    def asked(self, process: LiveProcess, turn: Turn, ordinal: str, args: dict[str, Any]) -> None:
        """A cell asks a model. Everything in ``args`` is hostile. Raises LedgerUnavailable."""
        try:
            text = request_of(args, self._bounds.model_messages)
            steps = text.steps()
            if next(steps, _DONE) is not _DONE:
                process.asked.discard(ordinal)
                process.prepared.add(ordinal)
                work = self._prepare(process, turn, ordinal, args, text, steps)
                task = asyncio.get_running_loop().create_task(work)
                self._preparing.add(task)
                task.add_done_callback(self._preparing.discard)
                return
            question = read_question(args, text)
        except Invalid as error:
            question = refused_question(str(error))
        self._prepared(process, turn, ordinal, question)

    async def _prepare(
        self,
        process: LiveProcess,
        turn: Turn,
        ordinal: str,
        args: dict[str, Any],
        text: RequestText,
        steps: Iterator[None],
    ) -> None:
        """The rest of a long request, a slice a turn of the loop."""
        try:
            for _ in steps:
                await asyncio.sleep(0)
                if not self._turns.asks(process, turn, ordinal):
                    return
            question = read_question(args, text)
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
                process.asked.discard(ordinal)
                process.prepared.add(ordinal)
                await self._recorder.writable()

    def _prepared(self, process: LiveProcess, turn: Turn, ordinal: str, question: Question) -> None:
        call = turn.calls.get(ordinal)
        if call is not None and call.call_hash != question.call_hash:
            self._turns.diverge(process, turn, call, shown("model", "", question.told or question.fault))
        elif call is not None and call.outcome is not None:
            self._answer(turn, call)
        elif question.fault:
            self._refuse(process, turn, ordinal, question, question.fault)
        elif question.bytes > self._bounds.model_request_bytes:
            why = f"model request of {question.bytes} bytes, limit {self._bounds.model_request_bytes}"
            self._refuse(process, turn, ordinal, question, why)
        else:
            self._put(process, turn, ordinal, question)

    def _refuse(self, process: LiveProcess, turn: Turn, ordinal: str, question: Question, why: str) -> None:
        """A refusal is an answer like any other: recorded, so that a resumed turn gets it again."""
        asked = self._asked_draft(process, turn, ordinal, question, self._resolve(process, question))
        asked.body |= {"new": "[]", "truncated": True}
        self._recorder.commit([asked, _answered_draft(process.pid, turn, ordinal, _error(why), PREVIOUS)])
        self._answer(turn, turn.calls[ordinal])

    def _put(self, process: LiveProcess, turn: Turn, ordinal: str, question: Question) -> None:
        """Ask, unless the question is under way. It may be resolved to something else than it was in another boot; then
        that is recorded.
        """
        stream = f"{turn.id}:{ordinal}"
        if stream in self._running:
            return
        resolved, call = self._resolve(process, question), turn.calls.get(ordinal)
        if call is None or call.name != resolved.name:
            self._record_question(process, turn, ordinal, question, resolved)
        provider, model = asked_names(question)
        request = {
            "messages": question.args["messages"],
            "tools": resolved.tools,
            "provider": provider,
            "model": model,
        }
        task = asyncio.get_running_loop().create_task(self._ask(process.pid, turn, ordinal, request, stream))
        self._running[stream] = task
        self._messages[stream] = turn.mail.id

    def _over(self, stream: str, task: asyncio.Task[None] | None) -> None:
        if self._running.get(stream) is task:
            del self._running[stream], self._messages[stream]

    def _resolve(self, process: LiveProcess, question: Question) -> Resolved:
        return resolve(
            question, process.rights, self._registry, self._gateway.resolve(*asked_names(question))
        )

    def _record_question(
        self, process: LiveProcess, turn: Turn, ordinal: str, question: Question, resolved: Resolved
    ) -> None:
        key = (turn.address, turn.mail.session)
        before, known = self._last.get(key, (-1, b""))
        count = common_messages(known, question.digests)
        new, cut = cut_bytes("[" + ",".join(question.messages[count:]) + "]", self._bounds.body_bytes // 2)
        draft = self._asked_draft(process, turn, ordinal, question, resolved)
        draft.body |= {
            "prefix_of": before if count else -1,
            "prefix_count": count,
            "new": new,
            "truncated": cut,
        }
        seq = self._recorder.commit([draft]).entries[0].entry.seq
        self._remember(key, seq, question.digests)

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
            "prefix_of": -1,
            "prefix_count": 0,
        }
        return Draft("model.asked", body, process.pid, turn.id, turn.mail.trace, turn.started_seq)

    def _remember(self, key: tuple[str, str], seq: int, digests: bytes) -> None:
        """What a session asked last; the sessions that asked longest ago are forgotten, and say all of it again."""
        self.forget(*key)
        self._last[key] = (seq, digests)
        self._remembered_bytes += len(digests)
        while len(self._last) > REMEMBERED_SESSIONS or self._remembered_bytes > REMEMBERED_BYTES:
            self.forget(*next(iter(self._last)))

    async def _ask(self, pid: int, turn: Turn, ordinal: str, request: dict[str, Any], stream: str) -> None:
        try:
            await self._answered(pid, turn, ordinal, request, stream)
        finally:
            self._over(stream, asyncio.current_task())

    async def _answered(
        self, pid: int, turn: Turn, ordinal: str, request: dict[str, Any], stream: str
    ) -> None:
        schemas = []
        for name in request["tools"]:
            declared = self._registry[name].declaration
            schemas.append(
                {"name": name, "description": declared.description, "parameters": declared.parameters}
            )
        question = {**request, "tools": schemas, "stream_id": stream}
        try:
            answer = await self._ask_gateway(question)
        except Exception as error:  # the boundary: whoever asked is answered, whatever it was
            log.error("a question of %s to a model failed: %s", turn.id, fault_of(error))
            answer = _error(f"the node failed at this question ({type(error).__name__})")
        call = turn.calls[ordinal]
        draft = _answered_draft(pid, turn, ordinal, answer, call.seq)
        await self._recorder.committed([draft])
        if call.outcome is not None:  # else the turn has ended meanwhile, and nobody waits
            self._answer(turn, call)

    async def _ask_gateway(self, question: dict[str, Any]) -> dict[str, Any]:
        """Ask until it answers. A question lost with the gateway is asked again: it changes nothing but the bill."""
        why = ""
        for attempt in range(ATTEMPTS):
            try:
                async with asyncio.timeout(self._bounds.model_timeout_s):
                    answer = await self._gateway.ask(question)
                return self._checked_answer(answer)
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
        return {
            "status": "error",
            "text": f"the model could not be asked: {cut_bytes(why, 2000)[0]}",
            "tool_calls": [],
            "input_tokens": 0,
            "output_tokens": 0,
        }

    def _checked_answer(self, answer: Any) -> dict[str, Any]:
        """A gateway's answer within bounds: what a provider says is hostile, and the gateway only carries it."""
        try:
            calls = [
                {
                    "id": clean(str(item["id"]))[:128],
                    "name": clean(str(item["name"]))[:128],
                    "arguments": clean(str(item["arguments"])),
                }
                for item in answer["tool_calls"][: self._bounds.calls_per_round]
            ]
            checked = {
                "status": "ok" if answer["status"] == "ok" else "error",
                "text": clean(str(answer["text"])),
                "tool_calls": calls,
                "input_tokens": max(0, min(int(answer["input_tokens"]), 2**53)),
                "output_tokens": max(0, min(int(answer["output_tokens"]), 2**53)),
            }
        except (KeyError, TypeError, ValueError) as error:
            raise Invalid(f"the gateway's answer is malformed: {type(error).__name__}") from error
        size = len(canonical(checked).encode())
        if size > self._bounds.model_answer_bytes:
            raise Invalid(f"the model's answer has {size} bytes, limit {self._bounds.model_answer_bytes}")
        return checked

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

    def forget(self, address: str, session: str) -> None:
        """The next question of a session says all that it holds: what was asked before may be erased."""
        _, digests = self._last.pop((address, session), (-1, b""))
        self._remembered_bytes -= len(digests)

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


def _answered_draft(pid: int, turn: Turn, ordinal: str, answer: dict[str, Any], cause: int) -> Draft:
    body = {
        "turn": turn.id,
        "ordinal": ordinal,
        "status": answer["status"],
        "answer": canonical({"text": answer["text"], "tool_calls": answer["tool_calls"]}),
        "input_tokens": answer["input_tokens"],
        "output_tokens": answer["output_tokens"],
    }
    return Draft("model.answered", body, pid, turn.id, turn.mail.trace, cause)


def _error(text: str) -> dict[str, Any]:
    return {"status": "error", "text": text, "tool_calls": [], "input_tokens": 0, "output_tokens": 0}
