"""Model calls: what is recorded of them, what is replayed, and what a hostile answer comes to."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from chain.errors import LedgerUnavailable
from chain.ledger.ledger import Draft, Ticket
from kernel.bounds import Bounds
from kernel.helper.helper import Answered, HelperLost, HelperRefused
from kernel.helper.helpers import HelperNotice
from kernel.syscall.models import conversations
from kernel.values import canonical, sha256_hex
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import LIMIT_S, Twin, answer_of


def hash_of(messages: list[Any]) -> str:
    return sha256(b"".join(sha256(canonical(one).encode()).digest() for one in messages)).hexdigest()


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def turn_of_ada(twin: Twin, **fields: Any) -> Any:
    await twin.spawn("ada", **fields)
    await twin.send("ada")
    return await twin.delivery()


def test_only_what_is_new_is_recorded_and_the_whole_can_be_put_together_again(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        messages = [user("a" * 2000)]
        for round_ in range(4):
            twin.ask_model(at, list(messages), round_)
            await twin.result()
            messages += [{"role": "assistant", "content": "hello"}, user(f"more {round_}")]
        asked = {r.entry.seq: r.body for r in await twin.entries("model.asked")}
        assert sum(len(body["new"]) for body in asked.values()) < 3000

        def whole(seq: int) -> list[Any]:
            body = asked[seq]
            before = whole(body["prefix_of"])[: body["prefix_count"]] if body["prefix_of"] >= 0 else []
            new: list[Any] = json.loads(body["new"])
            return before + new

        assert whole(max(asked)) == messages[:-2]

    on_twin(tmp_path, body)


def test_tools_become_schemas_and_those_not_held_are_left_out(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin, tools=("calculator",))
        twin.ask_model(at, [user("?")], tools=["calculator", "pay", "no_such_tool"])
        await twin.result()
        assert [tool["name"] for tool in twin.gateway.asked[0]["tools"]] == ["calculator"]
        assert twin.gateway.asked[0]["tools"][0]["parameters"]["required"] == ["expression"]

    on_twin(tmp_path, body)


def test_a_question_lost_with_the_gateway_is_asked_again(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        tries = []

        def once(request: dict[str, Any]) -> dict[str, Any]:
            tries.append(request)
            if len(tries) == 1:
                raise HelperLost("gateway died")
            return answer_of("here I am")

        twin.gateway.answer = once
        twin.ask_model(at, [user("?")])
        assert (await twin.result())["text"] == "here I am"
        assert len(await twin.entries("model.asked")) == 1

    on_twin(tmp_path, body)


def test_a_refusal_of_the_gateway_is_an_answer_with_status_error(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)

        def refuse(request: dict[str, Any]) -> dict[str, Any]:
            raise HelperRefused("no such provider")

        twin.gateway.answer = refuse
        twin.ask_model(at, [user("?")])
        outcome = await twin.result()
        assert outcome["status"] == "error"
        assert "no such provider" in outcome["text"]

    on_twin(tmp_path, body)


def test_hostile_answers_are_refused_by_name(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        hostile: list[Any] = [
            {},
            {**answer_of("x"), "tool_calls": [{"id": "1"}]},
            {**answer_of("x"), "tool_calls": 5},
            {**answer_of("x"), "input_tokens": "many"},
            answer_of("x" * 600_000),
            None,
        ]

        def always(answer: Any) -> Callable[[dict[str, Any]], Any]:
            return lambda request: answer

        for round_, answer in enumerate(hostile):
            twin.gateway.answer = always(answer)
            twin.ask_model(at, [user("?")], round_)
            outcome = await twin.result()
            assert outcome["status"] == "error", answer
        twin.gateway.answer = lambda request: {**answer_of("\ud800 ok"), "tool_calls": []}
        twin.ask_model(at, [user("?")], len(hostile))
        assert (await twin.result())["text"] == "? ok"

    on_twin(tmp_path, body)


def test_a_request_that_is_too_large_is_refused_and_the_refusal_is_recorded(tmp_path: Path) -> None:
    """Else a resumed turn would get another answer under another limit. The size is that in UTF-8, as in a frame."""

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.ask_model(at, [user("\u20ac" * 400)])
        outcome = await twin.result()
        assert outcome["status"] == "error"
        assert "model request of 1279 bytes, limit 1000" in outcome["text"]
        assert not twin.gateway.asked
        assert [record.body["new"] for record in await twin.entries("model.asked")] == ["[]"]

    async def larger(twin: Twin) -> None:
        at = await twin.delivery()
        twin.ask_model(at, [user("\u20ac" * 400)])
        assert "limit 1000" in (await twin.result())["text"]
        assert not twin.gateway.asked

    on_twin(tmp_path, body, bounds=Bounds(model_request_bytes=1000))
    on_twin(tmp_path, larger)


def test_a_message_that_is_no_json_is_refused_and_refused_again_when_the_turn_resumes(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        for _ in range(2):
            twin.ask_model(at, [{"role": "user", "content": float("nan")}])
            outcome = await twin.result()
            assert (outcome["status"], "not expressible as JSON" in outcome["text"]) == ("error", True)
            twin.crash(at)
            at = await twin.delivery()
        assert len(await twin.entries("model.asked")) == 1

    on_twin(tmp_path, body)


def test_a_cancelled_turn_cancels_its_question(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        never = asyncio.Event()

        async def wait() -> dict[str, Any]:
            await never.wait()
            return answer_of("")

        twin.gateway.answer = lambda request: wait()
        twin.ask_model(at, [user("?")])
        process = twin.kernel.live.get(at.pid)
        assert process is not None
        await asyncio.sleep(0)
        twin.kernel.turns.cut_short(process, "cancelled", "enough")
        assert f"{at.turn}:0.0" in twin.gateway.cancelled

    on_twin(tmp_path, body)


def test_tokens_reach_whoever_watches_the_message(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        queue = twin.kernel.watchers.watch(mail.id)
        at = await twin.delivery()
        go = asyncio.Event()

        async def slowly() -> dict[str, Any]:
            await go.wait()
            return answer_of("hello")

        twin.gateway.answer = lambda request: slowly()
        twin.ask_model(at, [user("?")])
        twin.say(HelperNotice("gateway", "delta", {"stream_id": f"{at.turn}:0.0", "text": "hel"}))
        go.set()
        await twin.result()
        twin.finish(at, "hello")
        await twin.end_of(mail)
        events = []
        while not queue.empty():
            events.append(queue.get_nowait())
        assert [event["event"] for event in events] == ["delta", "end"]

    on_twin(tmp_path, body)


def test_a_request_of_too_many_messages_is_refused_and_nothing_of_it_kept(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.ask_model(at, [{}] * 300_000)
        result = await twin.result()
        assert result["text"] == "model request of 300000 messages, limit 1024"
        assert twin.gateway.asked == []
        assert twin.kernel.model_calls.conversations.bytes == 0

    on_twin(tmp_path, body)


def test_what_is_remembered_of_sessions_is_bounded_and_the_oldest_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(twin: Twin) -> None:
        calls = twin.kernel.model_calls
        kept = calls.conversations
        for number in range(5):
            await twin.spawn(f"a{number}")
            await twin.send(f"a{number}")
            twin.ask_model(await twin.delivery(), [user("x")] * 10)
            await twin.result()
        assert [address for address, _ in kept] == ["/user/a3", "/user/a4"]
        assert kept.bytes == 2 * 10 * 36
        calls.forget("/user/a3", "main")
        assert kept.bytes == 10 * 36

    monkeypatch.setattr(conversations, "REMEMBERED_BYTES", 25 * 36)
    on_twin(tmp_path, body)


def test_a_long_request_lets_the_rest_of_the_loop_go_first(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        messages = [user("x" * 4000)] * 200
        turns = 0

        def count() -> None:
            nonlocal turns
            turns += 1
            if not twin.gateway.asked:
                asyncio.get_running_loop().call_soon(count)

        twin.ask_model(at, messages)
        count()
        assert (await twin.result())["status"] == "ok"
        assert turns >= 10
        assert twin.gateway.asked[0]["messages"] == messages
        (asked,) = await twin.entries("model.asked")
        assert asked.body["messages_hash"] == hash_of(messages)
        assert asked.body["request_hash"] == sha256_hex(
            canonical({"messages": hash_of(messages), "tools": [], "provider": "", "model": ""})
        )

    on_twin(tmp_path, body)


def test_a_long_request_of_a_turn_that_ends_meanwhile_is_not_made(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.ask_model(at, [user("x" * 4000)] * 200)
        twin.finish(at)
        await twin.send("ada", "next")
        following = await twin.delivery()
        twin.ask_model(following, [user("x" * 4000)] * 200)  # begun later, so it ends later
        await twin.result()
        assert len(twin.gateway.asked) == 1
        assert [record.body["turn"] for record in await twin.entries("model.asked")] == [following.turn]

    on_twin(tmp_path, body)


def test_an_answer_that_comes_with_the_end_of_its_turn_is_recorded_and_goes_nowhere(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        failed: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failed.append(context))
        at = await turn_of_ada(twin)

        async def last_words() -> dict[str, Any]:
            coming: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

            def come() -> None:  # and the end comes between the answer and whoever waits for it
                coming.set_result(answer_of("late"))
                twin.finish(at)

            asyncio.get_running_loop().call_soon(come)
            return await coming

        twin.gateway.answer = lambda request: last_words()
        twin.ask_model(at, [user("?")])
        await twin.send("ada", "next")
        following = await twin.delivery()
        twin.gateway.answer = lambda request: answer_of("in time")
        twin.ask_model(following, [user("?")])
        assert (await twin.result())["text"] == "in time"
        gc.collect()
        assert failed == []

    on_twin(tmp_path, body)


def test_a_question_and_its_answer_go_on_in_the_turn_of_the_loop_that_hears_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        asked: list[Answered] = []

        def ask(request: dict[str, Any], answered: Answered) -> Callable[[], None]:
            asked.append(answered)
            return lambda: None

        monkeypatch.setattr(twin.gateway, "ask", ask)
        twin.ask_model(at, [user("?")])
        [answered] = asked
        answered(answer_of("hello"), None)
        assert twin.cells.results.get_nowait()[3]["text"] == "hello"

    on_twin(tmp_path, body)


def test_of_a_question_that_nobody_answers_in_time_the_answer_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        forgotten: list[str] = []
        asked: list[Answered] = []

        def ask(request: dict[str, Any], answered: Answered) -> Callable[[], None]:
            asked.append(answered)
            return lambda: forgotten.append(request["stream_id"])

        monkeypatch.setattr(twin.gateway, "ask", ask)
        twin.ask_model(at, [user("?")])
        outcome = await twin.result()
        assert outcome["text"] == "the model could not be asked: no answer within 0.01 s"
        assert forgotten == twin.gateway.cancelled == [f"{at.turn}:0.0"]
        asked[0](answer_of("late"), None)
        assert twin.cells.results.empty() and len(await twin.entries("model.answered")) == 1

    on_twin(tmp_path, body, bounds=Bounds(model_timeout_s=0.01))


def test_a_gateway_that_lacks_messages_of_a_whole_question_is_not_asked_for_ever(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.gateway.answer = lambda request: {"status": "lost"}
        twin.ask_model(at, [user("?")])
        outcome = await twin.result()
        assert outcome["status"] == "error" and "malformed" in outcome["text"]
        assert len(twin.gateway.asked) == 1

    on_twin(tmp_path, body)


def test_an_answer_that_waits_for_the_ledger_goes_with_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body(twin: Twin) -> None:
        failed: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failed.append(context))
        at = await turn_of_ada(twin)
        asked: list[Answered] = []

        def ask(request: dict[str, Any], answered: Answered) -> Callable[[], None]:
            asked.append(answered)
            return lambda: None

        def refuse(*_: Any, **__: Any) -> Ticket:
            raise LedgerUnavailable("not now")

        monkeypatch.setattr(twin.gateway, "ask", ask)
        twin.ask_model(at, [user("?")])
        recorder = twin.kernel.recorder
        with monkeypatch.context() as patched:
            patched.setattr(twin.ledger, "commit", refuse)
            asked[0](answer_of("late"), None)
        assert recorder.waiting == 1
        again = asyncio.Event()
        recorder.when_writable("behind it", again.set)
        twin.ledger.commit([Draft("message.refused", {"to": "/a", "sender": "operator", "why": "x"})])
        await twin.ledger.barrier()  # whoever waits goes on in the next round of the loop
        twin.finish(at)
        await asyncio.wait_for(again.wait(), LIMIT_S)
        assert failed == [] and await twin.entries("model.answered") == []

    on_twin(tmp_path, body)
