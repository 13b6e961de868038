"""Questions told in terms of others: to the node, in the ledger and to the gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from kernel.bounds import Bounds
from kernel.cell.conversation import Conversation, digest_of, list_hash
from kernel.cell.protocol import ModelQuestion, Terms
from kernel.helper.helper import HelperLost
from kernel.syscall.models import conversations
from kernel.syscall.models.conversations import Messages, ReadMessages
from kernel.values import call_hash, canonical
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Delivery, Twin, answer_of
from weftos.audit.questions import Questions

SYSTEM = {"role": "system", "content": "be brief"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


async def turn_of_ada(twin: Twin) -> Delivery:
    await twin.spawn("ada")
    await twin.send("ada")
    return await twin.delivery()


async def ask(twin: Twin, at: Delivery, cell: Conversation, messages: Sequence[Any], round_: int = 0) -> Any:
    """Ask, and be answered; what was told."""
    told = twin.tell_model(at, cell, list(messages), round_)
    assert (await twin.result())["status"] == "ok"
    assert twin.gateway.asked[-1]["messages"] == list(messages)
    return told


async def requests(twin: Twin) -> list[list[Any]]:
    """What the ledger says that models were asked, each request whole and held to its hashes."""
    questions = Questions()
    return [questions.read(record) for record in await twin.entries("model.asked")]


def test_a_round_costs_what_is_new_in_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        messages = [SYSTEM, user("x" * 5000)]
        asked = []
        for round_ in range(4):
            told = await ask(twin, at, cell, messages, round_)
            asked.append(list(messages))
            assert len(told.messages) == 2
            messages += [said("hello"), user(f"more {round_}")]
        assert twin.gateway.told == [[0, 1], [2, 3], [4, 5], [6, 7]]
        assert await requests(twin) == asked
        bodies = [record.body for record in await twin.entries("model.asked")]
        assert [body["pieces"] for body in bodies] == ["[2]", "[[0,2],2]", "[[0,4],2]", "[[0,6],2]"]
        assert [len(json.loads(body["new"])) for body in bodies] == [2, 2, 2, 2]

    on_twin(tmp_path, body)


def test_the_next_turn_goes_on_from_its_history(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at, history = await turn_of_ada(twin), list[Any]()
        for turn in range(3):
            cell = Conversation(at.history)
            assert at.history == history
            told = await ask(twin, at, cell, [SYSTEM, *at.history, user(f"q{turn}")])
            assert list(told.messages) == [SYSTEM, user(f"q{turn}")]
            new = [user(f"q{turn}"), said(f"reply {turn}")]
            history += new
            twin.finish(at, remember=new)
            await twin.send("ada")
            at = await twin.delivery()
        assert twin.gateway.told == [[0, 1], [2, 3], [4, 5]]
        bodies = [record.body for record in await twin.entries("model.asked")]
        assert [body["pieces"] for body in bodies] == ["[2]", "[[0,2],2]", "[[0,4],2]"]
        assert not twin.cells.wanted_whole.qsize()
        assert [len(request) for request in await requests(twin)] == [2, 4, 6]

    on_twin(tmp_path, body)


def test_a_window_that_slides_is_a_cut_and_no_new_text(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        talk = [message for n in range(10) for message in (user(f"q{n}" + "x" * 500), said(f"a{n}"))]
        await ask(twin, at, cell, [SYSTEM, *talk])
        told = await ask(twin, at, cell, [SYSTEM, *talk[6:], user("next")], 1)
        assert told == ModelQuestion((user("next"),), terms=told.terms)
        assert told.terms is not None and told.terms.pieces == [[0, 1], [7, 21], 1]
        summed = [SYSTEM, user("in short"), *talk[12:], user("next"), said("and"), user("so")]
        told = await ask(twin, at, cell, summed, 2)
        assert told.terms is not None and told.terms.pieces == [[0, 1], 1, [7, 16], 2]
        assert await requests(twin) == [
            [SYSTEM, *talk], [SYSTEM, *talk[6:], user("next")], summed
        ]  # fmt: skip
        assert sum(len(record.body["new"]) for record in (await twin.entries("model.asked"))[1:]) < 400

    on_twin(tmp_path, body)


def test_a_node_that_does_not_know_the_beginning_wants_the_call_whole(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        first, second = [SYSTEM, user("one")], [SYSTEM, user("one"), said("hello"), user("two")]
        await ask(twin, at, cell, first)
        twin.kernel.model_calls.conversations.forget(("/user/ada", "main"))
        told = twin.tell_model(at, cell, second, 1)
        assert told.terms is not None and told.terms.pieces == [[0, 2], 2]
        assert await twin.wanted_whole() == "1.0"
        assert len(await twin.entries("model.asked")) == 1
        twin.ask_model(at, second, 1)
        assert (await twin.result())["status"] == "ok"
        assert await requests(twin) == [first, second]

    on_twin(tmp_path, body)


@pytest.mark.parametrize(
    ("prefix", "pieces"),
    [([1, "00"], [[0, 1]]), ([2, ""], [[0, 2], 1]), ([-1, ""], []), ([10**9, ""], [])],
)
def test_a_beginning_that_is_another_is_not_believed(tmp_path: Path, prefix: Any, pieces: Any) -> None:
    async def body(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        await ask(twin, at, cell, [SYSTEM, user("one")])

        class Liar(Conversation):
            def told(self, messages: list[Any]) -> tuple[list[Any], Terms]:
                return messages, Terms(prefix[0], prefix[1], pieces)

        twin.tell_model(at, Liar([]), [user("two")], 1)
        assert await twin.wanted_whole() == "1.0"

    on_twin(tmp_path, body)


def test_pieces_that_are_none_are_refused_and_so_are_too_many_messages(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        await ask(twin, at, cell, [SYSTEM, user("one")])
        terms = cell.told([SYSTEM, user("one")])[1] or Terms(0, "", [])

        class Liar(Conversation):
            def told(self, messages: list[Any]) -> tuple[list[Any], Terms]:
                return [], replace(terms, pieces=messages)

        for round_, (pieces, words) in enumerate(
            [([[0, 3]], "not put together: [0, 3]"), ([[0, 2]] * 600, "1200 messages, limit 1024")], 1
        ):
            twin.tell_model(at, Liar([]), pieces, round_)
            assert words in (await twin.result())["text"]
        assert len(twin.gateway.asked) == 1

    on_twin(tmp_path, body)


def test_a_message_with_keys_that_are_no_text_is_refused(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        at = await twin.delivery()
        twin.ask_model(at, [{"role": "user", "content": "hi", "extra": {9: "a", 10: "b"}}])
        answer = await twin.result()
        assert answer["status"] == "error" and "a key in a message is no text" in answer["text"]

    on_twin(tmp_path, body)


def test_a_gateway_that_lost_it_is_told_all_of_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        first = [SYSTEM, user("one")]
        await ask(twin, at, cell, first)
        twin.gateway.forget()
        second = [*first, said("hello"), user("two")]
        twin.tell_model(at, cell, second, 1)
        assert await twin.wanted_whole() == "1.0"
        twin.tell_model(at, cell, second, 1)  # it does not say all, and is asked again
        assert await twin.wanted_whole() == "1.0"
        twin.ask_model(at, second, 1)
        assert (await twin.result())["status"] == "ok"
        assert twin.gateway.told == [[0, 1], [2, 3], [0, 1, 2, 3]]
        assert await requests(twin) == [first, second]

    on_twin(tmp_path, body)


def test_a_whole_question_is_told_again_without_its_cell(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        await ask(twin, at, cell, [SYSTEM, user("one")])
        twin.gateway.forget()
        twin.ask_model(at, [SYSTEM, user("one"), user("two")], 1)
        assert (await twin.result())["status"] == "ok"
        assert twin.gateway.told == [[0, 1], [2], [0, 1, 2]]

    on_twin(tmp_path, body)


def test_a_question_that_waits_for_its_text_gets_it_from_the_next_incarnation(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        first = [SYSTEM, user("one")]
        await ask(twin, at, cell, first)
        twin.gateway.forget()
        second = [*first, said("hello"), user("two")]
        twin.tell_model(at, cell, second, 1)
        await twin.wanted_whole()
        twin.crash(at)
        at, cell = await twin.delivery(), Conversation([])
        twin.tell_model(at, cell, first)
        assert (await twin.result())["text"] == "hello"
        twin.tell_model(at, cell, second, 1)
        assert await twin.wanted_whole() == "1.0"
        twin.ask_model(at, second, 1)
        assert (await twin.result())["status"] == "ok"
        assert len(await twin.entries("model.asked")) == 2

    on_twin(tmp_path, body)


def test_a_call_that_is_wanted_whole_is_not_answered_before_it_is_compared(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        first, second = [SYSTEM, user("one")], [SYSTEM, user("one"), user("two")]
        await ask(twin, at, cell, first)
        go = asyncio.Event()

        async def slowly() -> dict[str, Any]:
            await go.wait()
            return answer_of("late")

        twin.gateway.answer = lambda request: slowly()
        twin.tell_model(at, cell, second, 1)
        await asyncio.sleep(0)
        twin.crash(at)
        at, cell = await twin.delivery(), Conversation([])
        twin.tell_model(at, cell, first)
        assert (await twin.result())["text"] == "hello"
        twin.tell_model(at, cell, [*first, user("else")], 1)
        assert await twin.wanted_whole() == "1.0"
        go.set()
        while len(await twin.entries("model.answered")) < 2:
            await asyncio.sleep(0)
        assert twin.cells.results.empty()
        twin.ask_model(at, second, 1)
        assert (await twin.result())["text"] == "late"

    on_twin(tmp_path, body)


def test_a_turn_that_ends_while_its_text_is_wanted_leaves_nothing(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        await ask(twin, at, cell, [SYSTEM, user("one")])
        twin.gateway.forget()
        twin.tell_model(at, cell, [SYSTEM, user("one"), user("two")], 1)
        await twin.wanted_whole()
        twin.finish(at)
        await twin.send("ada", "next")
        await ask(twin, await twin.delivery(), Conversation([]), [SYSTEM, user("next")])
        assert twin.kernel.model_calls._running == {}

    on_twin(tmp_path, body)


def test_a_gateway_that_died_under_way_is_told_all_of_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        first = [SYSTEM, user("one")]
        await ask(twin, at, cell, first)
        tries = []

        def once(request: dict[str, Any]) -> dict[str, Any]:
            tries.append(request)
            if len(tries) == 1:
                twin.gateway.forget()
                raise HelperLost("gateway died")
            return answer_of("here I am")

        twin.gateway.answer = once
        twin.tell_model(at, cell, [*first, user("two")], 1)
        assert await twin.wanted_whole() == "1.0"
        twin.ask_model(at, [*first, user("two")], 1)
        assert (await twin.result())["text"] == "here I am"
        assert len(await twin.entries("model.asked")) == 2

    on_twin(tmp_path, body)


def test_a_turn_resumed_after_a_restart_is_answered_from_the_record_and_goes_on(tmp_path: Path) -> None:
    first, second = [SYSTEM, user("one")], [SYSTEM, user("one"), said("hello"), user("two")]
    third = [*second, said("hello"), user("three")]

    async def before(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        await ask(twin, at, cell, first)
        await ask(twin, at, cell, second, 1)

    async def after(twin: Twin) -> None:
        at, cell = await twin.delivery(), Conversation([])
        for round_, messages in enumerate((first, second)):
            told = twin.tell_model(at, cell, messages, round_)
            assert (await twin.result())["text"] == "hello"
            assert len(told.messages) == 2
        assert twin.gateway.asked == []
        twin.tell_model(at, cell, third, 2)
        assert await twin.wanted_whole() == "2.0"
        twin.ask_model(at, third, 2)
        assert (await twin.result())["status"] == "ok"
        assert await requests(twin) == [first, second, third]
        assert [record.body["prefix_of"] for record in await twin.entries("model.asked")][2] == -1

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_a_turn_that_was_opened_by_an_older_build_is_answered_from_its_record(tmp_path: Path) -> None:
    """It hashed the text of all messages."""
    history = [user("q0"), said("a0")]
    first = [SYSTEM, *history, user("one")]
    args = {"messages": first, "tools": [], "provider": "", "model": ""}

    async def before(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.finish(at, remember=history)
        await twin.send("ada")
        at = await twin.delivery()
        calls = twin.kernel.model_calls
        draft = calls._asked_draft

        def former(*args_: Any) -> Any:
            drafted = draft(*args_)
            drafted.body["call_hash"] = call_hash("model", canonical(args))
            return drafted

        calls._asked_draft = former  # type: ignore[method-assign, assignment]
        twin.ask_model(at, first)
        await twin.result()

    async def after(twin: Twin) -> None:
        at = await twin.delivery()
        twin.tell_model(at, Conversation(at.history), first)
        assert (await twin.result())["text"] == "hello"
        assert twin.gateway.asked == []
        twin.crash(at)
        at = await twin.delivery()
        twin.ask_model(at, [*first[:-1], user("two")])
        assert (await twin.entries("turn.diverged"))[0].body["turn"] == at.turn

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_a_question_that_diverges_is_wanted_whole_before_it_is_said_to(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        first = [SYSTEM, user("one")]
        await ask(twin, at, cell, first)
        await ask(twin, at, cell, [*first, user("two")], 1)
        twin.crash(at)
        at, cell = await twin.delivery(), Conversation([])
        await ask_recorded(twin, at, cell, first)
        twin.tell_model(at, cell, [*first, user("else")], 1)
        assert await twin.wanted_whole() == "1.0"
        twin.ask_model(at, [*first, user("else")], 1)
        (diverged,) = await twin.entries("turn.diverged")
        assert json.loads(json.loads(diverged.body["asked"])["arguments"])["last"] == canonical(user("else"))

    on_twin(tmp_path, body)


async def ask_recorded(twin: Twin, at: Delivery, cell: Conversation, messages: list[Any]) -> None:
    twin.tell_model(at, cell, messages)
    assert (await twin.result())["text"] == "hello"


def test_the_ledger_says_all_of_it_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        messages, asked = [SYSTEM], list[Any]()
        for round_ in range(5):
            messages.append(user(f"more {round_}"))
            asked.append(list(messages))
            twin.tell_model(at, cell, list(messages), round_)
            if round_ == 3:
                assert await twin.wanted_whole() == "3.0"
                twin.ask_model(at, list(messages), round_)
            await twin.result()
        bodies = [record.body for record in await twin.entries("model.asked")]
        assert [body["prefix_of"] >= 0 for body in bodies] == [False, True, True, False, True]
        assert await requests(twin) == asked

    monkeypatch.setattr(conversations, "MOST_LINKS", 2)
    on_twin(tmp_path, body)


def test_what_was_erased_is_asked_for_anew(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        await ask(twin, at, cell, [SYSTEM, user("one")])
        twin.kernel.model_calls.forget("/user/ada", "main")
        twin.tell_model(at, cell, [SYSTEM, user("one"), user("two")], 1)
        assert await twin.wanted_whole() == "1.0"
        twin.ask_model(at, [SYSTEM, user("one"), user("two")], 1)
        await twin.result()
        assert [record.body["prefix_of"] for record in await twin.entries("model.asked")] == [-1, -1]
        assert twin.gateway.told == [[0, 1], [0, 1, 2]]

    on_twin(tmp_path, body)


def test_a_long_history_is_read_in_slices_and_once(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        history = [user(f"{number}" + "x" * 4000) for number in range(150)]
        twin.finish(at, remember=history)
        for turn in range(2):
            await twin.send("ada")
            at = await twin.delivery()
            twin.tell_model(at, Conversation(at.history), [SYSTEM, *at.history, user("?")])
            assert bool(twin.kernel.model_calls._preparing) == (turn == 0)
            assert (await twin.result())["status"] == "ok"
            assert twin.gateway.asked[-1]["messages"] == [SYSTEM, *history, user("?")]
            twin.finish(at)
        assert twin.gateway.told[1] == []

    on_twin(tmp_path, body)


def test_the_bound_on_bytes_is_on_the_whole_request(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at, cell = await turn_of_ada(twin), Conversation([])
        messages = [user("x" * 500)]
        await ask(twin, at, cell, messages)
        twin.tell_model(at, cell, [*messages, user("y" * 500)], 1)
        whole = canonical(
            {"messages": [*messages, user("y" * 500)], "tools": [], "provider": "", "model": ""}
        )
        assert f"model request of {len(whole)} bytes, limit 1000" in (await twin.result())["text"]

    on_twin(tmp_path, body, bounds=Bounds(model_request_bytes=1000))


def test_a_record_that_is_named_again_and_again_is_not_read_as_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.finish(at, remember=[user("x" * 500_000)])
        await twin.send("ada")
        at = await twin.delivery()
        terms = Conversation(at.history).told([*at.history, user("?")])[1] or Terms(0, "", [])

        class Greedy(Conversation):
            def told(self, messages: list[Any]) -> tuple[list[Any], Terms]:
                return [], replace(terms, pieces=[[0, 1]] * 1000)

        before = ReadMessages.read

        def counted(self: ReadMessages, messages: Sequence[Any]) -> Iterator[None]:
            read.extend(messages)
            return before(self, messages)

        monkeypatch.setattr(ReadMessages, "read", counted)
        twin.tell_model(at, Greedy([]), [])
        assert "bytes, limit 8388608" in (await twin.result())["text"]

    on_twin(tmp_path, body)
    assert len(read) == 1


def test_another_process_of_a_removed_ones_name_goes_on_from_nothing(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        for _ in range(2):
            await twin.spawn("ada")
            mail = await twin.send("ada")
            at = await twin.delivery()
            twin.ask_model(at, [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}])
            await twin.result()
            twin.finish(at)
            await twin.end_of(mail)
            twin.kernel.processes.stop("/user/ada")
            while twin.kernel.live.at("/user/ada") is not None:
                await asyncio.sleep(0)
            await twin.kernel.processes.remove("/user/ada", True)
            assert not list(twin.kernel.model_calls.conversations)
            assert not twin.kernel.model_calls.conversations.bytes
        asked = [record.body for record in await twin.entries("model.asked")]
        assert [(body["prefix_of"], body["pieces"]) for body in asked] == [(-1, "[2]")] * 2

    on_twin(tmp_path, body)


class Naming(Conversation):
    """Of a cell that puts its questions together of records alone."""

    def __init__(self, history: list[Any], pieces: list[Any]) -> None:
        super().__init__(history)
        self._terms = Terms(len(history), list_hash(self._read(history, [])), pieces)

    def told(self, messages: list[Any]) -> tuple[list[Any], Terms]:
        return messages, self._terms


async def turn_with(twin: Twin, history: list[Any]) -> Delivery:
    at = await turn_of_ada(twin)
    twin.finish(at, remember=history)
    await twin.send("ada")
    return await twin.delivery()


def test_the_gateway_is_told_a_record_once_however_often_it_is_named(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_with(twin, [user("one"), user("two")])
        cell, whole = Naming(at.history, [[1, 2], [0, 1]] * 3), [user("two"), user("one")] * 3
        twin.tell_model(at, cell, [])
        assert (await twin.result())["status"] == "ok"
        twin.gateway.forget()
        twin.tell_model(at, cell, [], 1)
        assert (await twin.result())["status"] == "ok"
        assert twin.gateway.told == [[0, 1], [], [0, 1]]
        assert [asked["messages"] for asked in twin.gateway.asked] == [whole] * 2
        assert await requests(twin) == [whole] * 2

    on_twin(tmp_path, body)


def test_a_question_costs_what_it_comes_to_in_whatever_terms_it_was_told(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_with(twin, [user("x" * 1000)])

        async def never() -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

        twin.gateway.answer = lambda request: never()
        cell = Naming(at.history, [[0, 1]] * 8)
        for round_ in range(3):
            twin.tell_model(at, cell, [], round_)
            await asyncio.sleep(0.01)
        (_, end) = await twin.entries("turn.ended")
        assert "the calls of this turn without an answer have" in end.body["reply"]
        assert len(await twin.entries("model.asked")) == 2
        assert twin.kernel.live.asked.bytes == 0

    on_twin(tmp_path, body, bounds=Bounds(asked_bytes=25_000, model_request_bytes=10_000))


def test_what_is_known_of_a_session_is_its_newest_question() -> None:
    kept, digests = conversations.Conversations(), sha256(b"a").digest() + digest_of("b")
    known = Messages(digests)
    known.sizes.extend([1, 1])
    kept.remember(("a", "s"), conversations.Asked(known, 7))
    beginning = known.beginning(1, sha256(digests[:32]).hexdigest())
    assert beginning is not None
    kept.heard(("a", "s"), beginning)
    assert kept.last(("a", "s")).seq == 7
    other = Messages(digests[32:])
    other.sizes.append(1)
    kept.heard(("a", "s"), other)
    assert (kept.last(("a", "s")).seq, len(kept.last(("a", "s")).on_record)) == (-1, 0)
