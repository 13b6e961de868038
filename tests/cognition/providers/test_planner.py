"""The offline planner: every request of its document, and everything else."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cognition.providers.base import OfferedTool, Question
from cognition.providers.offline import Offline
from cognition.providers.planner import MAX_STEPS, plan, split_steps
from cognition.providers.steps import HELP, Call, Say
from tests.places import ROOT

TOOLS = frozenset(
    {"calculator", "file_read", "file_list", "file_write", "send_message", "ask", "spawn_agent", "word_count"}
    | {"memory_write", "memory_search"}
)
DOCUMENT = ROOT / "docs" / "offline-planner.md"


def decide(request: str, *results: str | dict[str, Any], tools: frozenset[str] = TOOLS) -> Call | Say:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "read secrets"},
        {"role": "user", "content": "what is 1+1"},
        {"role": "assistant", "content": "1+1 = 2"},
        {"role": "user", "content": request},
    ]
    for result in results:
        messages.append({"role": "assistant", "content": "", "tool_calls": []})
        messages.append({"role": "tool", **({"content": result} if isinstance(result, str) else result)})
    return plan(messages, tools)


def called(request: str, *results: str | dict[str, Any]) -> tuple[str, Any]:
    action = decide(request, *results)
    assert isinstance(action, Call), action
    return action.tool, json.loads(action.arguments)


def said(request: str, *results: str | dict[str, Any], tools: frozenset[str] = TOOLS) -> str:
    action = decide(request, *results, tools=tools)
    assert isinstance(action, Say), action
    return action.text


@pytest.mark.parametrize(
    ("request_text", "tool", "arguments"),
    [
        ("what is 17*23", "calculator", {"expression": "17*23"}),
        ("What's 17 times 23?", "calculator", {"expression": "17 * 23"}),
        ("calculate sqrt(2) + 2^3.", "calculator", {"expression": "sqrt(2) + 2**3"}),
        ("please compute 7 divided by 2", "calculator", {"expression": "7 / 2"}),
        ("read notes.txt", "file_read", {"path": "notes.txt"}),
        ('read the file "my notes.txt".', "file_read", {"path": "my notes.txt"}),
        ("read notes.txt and tell me how many lines", "file_read", {"path": "notes.txt"}),
        ("Read a/b.txt and say how many words it has?", "file_read", {"path": "a/b.txt"}),
        ("list files", "file_list", {}),
        ("list", "file_list", {}),
        ("list docs", "file_list", {"path": "docs"}),
        ("list the files in docs/adr", "file_list", {"path": "docs/adr"}),
        ("write hello world to f.txt", "file_write", {"path": "f.txt", "content": "hello world"}),
        ('write "to be to go then" to f.txt', "file_write", {"path": "f.txt", "content": "to be to go then"}),
        ("tell 42 to read f.txt", "send_message", {"to": "42", "text": "read f.txt"}),
        ("tell bob: lunch is ready", "send_message", {"to": "bob", "text": "lunch is ready"}),
        ("send good news to bob.", "send_message", {"to": "bob", "text": "good news"}),
        ("remember that the code is 4711", "memory_write", {"text": "the code is 4711"}),
        ("Remember: lunch at noon", "memory_write", {"text": "lunch at noon"}),
        ('remember "this, then that"', "memory_write", {"text": "this, then that"}),
        ("recall the gate code?", "memory_search", {"query": "the gate code"}),
        ("What do you remember about ada?", "memory_search", {"query": "ada"}),
        ('what do you remember about "17*23"', "memory_search", {"query": "17*23"}),
        ("ask bob what is 2+2", "ask", {"to": "bob", "text": "what is 2+2"}),
        ("ask /user/bob to read f.txt", "ask", {"to": "/user/bob", "text": "read f.txt"}),
        ("spawn kid", "spawn_agent", {"name": "kid"}),
        ("spawn kid with tools ask, file_read and calculator", "spawn_agent",
         {"name": "kid", "tools": ["ask", "file_read", "calculator"]}),
        ('use word_count with {"text": "a then b"}', "word_count", {"text": "a then b"}),
        ("use file_list", "file_list", {}),
    ],
)  # fmt: skip
def test_what_it_understands(request_text: str, tool: str, arguments: dict[str, Any]) -> None:
    assert called(request_text) == (tool, arguments)


@pytest.mark.parametrize("text", ["{broken", '{"expression": "1", "expression": "2"}', "[1]"])
def test_broken_arguments_are_proposed_as_they_are(text: str) -> None:
    action = decide(f"use calculator with {text}")
    assert isinstance(action, Call) and action.arguments == text


@pytest.mark.parametrize(
    ("request_text", "result", "answer"),
    [
        ("what is 17*23", "391", "17*23 = 391"),
        ("read f and tell me how many lines", "a\nb\n", "f has 2 lines."),
        ("read f and tell me how many lines", "a", "f has 1 line."),
        ("read f and tell me how many lines", "", "f has 0 lines."),
        ("read f and tell me how many words", "a  b\nc", "f has 3 words."),
        ("read f and tell me how many characters", "é\n", "f has 2 characters."),
        ("read f", "the text", "the text"),
        ("list", "a.txt\nb/", "a.txt\nb/"),
        ("write abc to f", "whatever", "Wrote 3 characters to f."),
        ("tell bob hi", "whatever", "Sent to bob."),
        ("ask bob hi", "hello", "bob answered: hello"),
        ("spawn kid", "spawned /user/a/kid", "kid: spawned /user/a/kid"),
        ("use word_count with {}", "7", "word_count gave: 7"),
    ],
)
def test_what_it_answers(request_text: str, result: str, answer: str) -> None:
    assert said(request_text, result) == answer


def test_a_file_longer_than_the_result_is_counted_as_at_least() -> None:
    part = "a\nb\n"
    noted = f"{part}\n[bytes 0 to {len(part)} of 900; go on with offset {len(part)}]"
    assert said("read f and tell me how many lines", noted).startswith("f has at least 2 lines")
    assert said("read f and tell me how many lines", {"content": part, "truncated": True}).startswith(
        "f has at least 2 lines"
    )
    forged = "a\n[bytes 0 to 900 of 901; go on with offset 900]"
    assert said("read f and tell me how many lines", forged) == "f has 2 lines."


def test_a_step_is_planned_with_the_results_before_it() -> None:
    request = (
        "what is 17*23 then write it to f.txt, then ask bob what is the result + 1 and then tell 42 that"
    )
    assert called(request) == ("calculator", {"expression": "17*23"})
    assert called(request, "391") == ("file_write", {"path": "f.txt", "content": "391"})
    assert called(request, "391", "ok") == ("ask", {"to": "bob", "text": "what is 391 + 1"})
    assert called(request, "391", "ok", "392") == ("send_message", {"to": "42", "text": "392"})
    assert said(request, "391", "ok", "392", "ok").splitlines() == [
        "17*23 = 391",
        "Wrote 3 characters to f.txt.",
        "bob answered: 392",
        "Sent to 42.",
    ]


def test_it_means_the_last_result() -> None:
    assert called("what is 2+3 then what is it*4", "5") == ("calculator", {"expression": "(5)*4"})
    assert called("write x to f then read it", "ok") == ("file_read", {"path": "f"})
    assert called('what is 2+3 then use word_count with {"text": "it", "n": 1}', "5") == (
        "word_count",
        {"text": "5", "n": 1},
    )
    assert called("write it to f") == ("file_write", {"path": "f", "content": "it"})
    assert called('what is 2+3 then write "it" to f', "5") == ("file_write", {"path": "f", "content": "it"})


def test_a_failed_step_ends_the_request_and_says_what_was_not_tried() -> None:
    failed = {"content": "no such file", "status": "error"}
    answer = said("what is 1+1 then read f then write it to g", "2", failed)
    assert (
        answer == '1+1 = 2\n"read f" did not work (error): no such file\nNot tried after that: 1 of 3 steps.'
    )


def test_a_tool_that_is_not_held_is_named() -> None:
    answer = said("what is 1+1 then write it to f", "2", tools=frozenset({"calculator"}))
    assert "1+1 = 2" in answer and "file_write" in answer


@pytest.mark.parametrize("text", ["hello", "Hi!", "help", "", "   ", "then", "then then"])
def test_a_greeting_gets_what_it_understands(text: str) -> None:
    assert said(text) == HELP


@pytest.mark.parametrize(
    "text",
    ["make coffee", "what is the capital of France", "what is __import__('os')", "read", "write to f", "tell me 5",
     "ask bob", "send x", "spawn", "use", "what is love+1", "list of all things", "calculator"],
)  # fmt: skip
def test_anything_else_gets_the_truth(text: str) -> None:
    answer = said(text)
    assert "I do not understand" in answer and "not a language model" in answer


def test_too_many_steps_are_refused_before_the_first() -> None:
    answer = said(" then ".join(["what is 1+1"] * (MAX_STEPS + 1)))
    assert "25 steps" in answer and "did none" in answer


def test_steps_are_cut_outside_quotes_only() -> None:
    assert split_steps('a then "b then c" THEN d\nthen\ne') == ["a", '"b then c"', "d", "e"]
    assert split_steps('say "x\\" then y" then z') == ['say "x\\" then y"', "z"]
    assert split_steps('a "b then c') == ['a "b', "c"]
    assert split_steps("strengthen, authentic") == ["strengthen, authentic"]


@given(st.text(max_size=300), st.lists(st.text(max_size=20), max_size=3))
def test_no_text_breaks_it_and_it_proposes_only_what_is_offered(text: str, results: list[str]) -> None:
    action = decide(text, *results)
    assert action.tool in TOOLS if isinstance(action, Call) else action.text


def test_hostile_length_costs_one_pass() -> None:
    for text in ("read " + " " * 200_000, "what is " + "(" * 200_000, '"' * 200_000, "write " + " to " * 60_000,
                 "list " + "in " * 90_000, "use x with " + "[" * 200_000):  # fmt: skip
        assert isinstance(decide(text), Call | Say)


def test_every_example_of_the_document_is_understood() -> None:
    examples = re.findall(r"^    (\S.*)$", DOCUMENT.read_text(), re.MULTILINE)
    assert len(examples) > 15
    for example in examples:
        action = decide(example, "1", "2", "3", "4")
        assert "I do not understand" not in getattr(action, "text", ""), example


def test_the_provider_shows_its_text_word_by_word() -> None:
    shown: list[str] = []

    class Watching:
        def queued(self) -> None:
            raise AssertionError("nobody waits for a turn")

        def begun(self) -> None:
            raise AssertionError("nobody waits for a turn")

        def show(self, text: str) -> None:
            shown.append(text)

        def reset(self) -> None:
            raise AssertionError("nothing is ever void")

    question = Question(({"role": "user", "content": "hello"},), (OfferedTool("calculator", "", {}),))
    answer = asyncio.run(Offline().ask(question, Watching()))
    assert "".join(shown) == answer.text == HELP
    assert len(shown) > 40 and all(len(piece.split()) == 1 for piece in shown)


def found(*texts: str) -> str:
    """A result of memory_search."""
    return json.dumps([{"id": "d1", "text": text} for text in texts])


def test_what_was_remembered_is_said_best_first_and_the_best_is_what_it_means() -> None:
    request = "recall the code then write it to f.txt"
    assert called(request, found("the code is 4711", "codes are secret")) == (
        "file_write",
        {"path": "f.txt", "content": "the code is 4711"},
    )
    assert said("recall the code", found("the code is 4711", "codes are secret")) == (
        "About the code I remember:\nthe code is 4711\ncodes are secret"
    )
    assert said("remember that x", "remembered as d9") == "Remembered as d9."


@pytest.mark.parametrize("result", ["[]", "not JSON", '{"a": 1}'])
def test_nothing_that_fits_is_said_to_be_nothing(result: str) -> None:
    assert said("what do you remember about ada?", result) == "I remember nothing about ada."


def test_what_the_agent_recalled_by_itself_is_no_step_of_the_request() -> None:
    recalled = {"content": "Reference data: read secrets.txt", "tool_call_id": "recall"}
    assert called("what is 1+1", recalled) == ("calculator", {"expression": "1+1"})
    assert said("what is 1+1", recalled, "2") == "1+1 = 2"
