"""Each kind of provider against a real server process that speaks its wire format, well and badly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from cognition.errors import ProviderError, TransientProviderError
from cognition.providers import anthropic, ollama, openai_compatible, openai_responses
from cognition.providers.base import OfferedTool, ProviderBounds, Question
from cognition.providers.served.dialect import Dialect
from cognition.providers.served.retry import ONCE, RetryPolicy
from cognition.providers.served.served import Served
from cognition.providers.served.settings import ServerSettings
from kernel.abi import ModelAnswer, ToolCall
from tests.cognition.providers.test_openai_compatible import Screen
from tests.patience import HANG_S
from tests.servers.processes import ModelServer, model_server

KEY = "sk-very-secret-0123456789"
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
TOOL = OfferedTool("add", "Adds.", {"type": "object"})
QUESTION = Question(({"role": "user", "content": "hi"},), (TOOL,))
QUICK = RetryPolicy(attempts=3, base_s=0.01)


@dataclass(frozen=True)
class Kind:
    """``path``: that a question goes to. ``header``: of the key. ``limit``: the word for an answer that was cut."""

    dialect: Dialect
    path: str
    header: tuple[str, str]
    limit: str
    cached: int = 6

    def url(self, server: ModelServer) -> str:
        return server.base_url.removesuffix("/v1") if self.dialect.lines else server.base_url


BEARER = ("authorization", f"Bearer {KEY}")
KINDS: Mapping[str, Kind] = {
    "openai": Kind(openai_compatible.CHAT, "/v1/chat/completions", BEARER, "length"),
    "openai_responses": Kind(openai_responses.RESPONSES, "/v1/responses", BEARER, "max_output_tokens"),
    "anthropic": Kind(anthropic.dialect("http://host/v1"), "/v1/messages", ("x-api-key", KEY), "max_tokens"),
    "ollama": Kind(ollama.CHAT, "/api/chat", BEARER, "length", cached=0),
}
EACH = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
BOTH = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def ask(
    kind: Kind,
    server: ModelServer,
    question: Question = QUESTION,
    *,
    stream: bool = True,
    screen: Screen | None = None,
    policy: RetryPolicy = ONCE,
    bounds: ProviderBounds | None = None,
) -> ModelAnswer:
    async def run() -> ModelAnswer:
        settings = ServerSettings("local", kind.url(server), "m1", "MY_KEY", stream)
        served = Served(kind.dialect, settings, KEY, policy, bounds)
        try:
            return await served.ask(question, screen or Screen())
        finally:
            await served.close()

    return asyncio.run(run())


def answered(kind: Kind, directory: Path, answer: dict[str, Any], **how: Any) -> ModelAnswer:
    with model_server(directory, {"answers": [answer], "after": "last"}) as server:
        return ask(kind, server, **how)


def refused(kind: Kind, directory: Path, answer: dict[str, Any], **how: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        answered(kind, directory, answer, **how)
    text = str(caught.value)
    assert len(text) < 1000 and KEY not in text
    return caught.value


def each_refused(kind: Kind, directory: Path, answers: list[dict[str, Any]]) -> list[ProviderError]:
    """The errors of one question after the other, at one server."""
    errors = []
    with model_server(directory, {"answers": answers}) as server:
        for _ in answers:
            with pytest.raises(ProviderError) as caught:
                ask(kind, server)
            errors.append(caught.value)
    return errors


# -- what is well ----------------------------------------------------------------------------------------------------


@EACH
@BOTH
def test_an_answer_comes_whole_and_is_shown_as_it_comes(kind: Kind, stream: bool, tmp_path: Path) -> None:
    screen = Screen()
    answer = {"text": "The answer is 42.", "cached_tokens": 6, "thinks": "Let me see."}
    with model_server(tmp_path, {"answers": [answer]}) as server:
        told = ask(kind, server, stream=stream, screen=screen)
        assert told == ModelAnswer("ok", "The answer is 42.", (), 10, 4, kind.cached, stop_reason="stop")
        assert (screen.text, screen.resets) == ("The answer is 42.", 0)
        [asked] = server.requests()
    assert asked["path"] == kind.path
    assert asked["headers"][kind.header[0]] == kind.header[1]
    assert (asked["body"]["model"], asked["body"]["stream"]) == ("m1", stream)
    assert KEY not in json.dumps(asked["body"])


@EACH
@BOTH
def test_calls_of_tools_are_put_together_of_their_pieces(kind: Kind, stream: bool, tmp_path: Path) -> None:
    given = {"a": "é 1", "b": [1, {"c": None}]}
    calls = [{"name": "add", "arguments": given, "id": "c-1"}, {"name": "add", "arguments": {}, "id": "c-2"}]
    told = answered(kind, tmp_path, {"text": "So:", "tool_calls": calls}, stream=stream)
    assert told.text == "So:"
    assert [(call.name, json.loads(call.arguments)) for call in told.tool_calls] == [
        ("add", given),
        ("add", {}),
    ]
    if kind.dialect.lines:  # it has no ids
        assert [call.id for call in told.tool_calls] == ["call_0", "call_1"]
    else:
        assert [call.id for call in told.tool_calls] == ["c-1", "c-2"]
    assert told.stop_reason == "tool_calls"


@EACH
@BOTH
def test_an_answer_that_was_cut_by_its_limit_says_so(kind: Kind, stream: bool, tmp_path: Path) -> None:
    told = answered(kind, tmp_path, {"text": "and so", "finish": kind.limit}, stream=stream)
    assert (told.text, told.stop_reason) == ("and so", "length")


@pytest.mark.parametrize(
    ("name", "finish"),
    [("openai", "content_filter"), ("openai_responses", "content_filter"), ("anthropic", "refusal")],
)
@BOTH
def test_an_answer_that_was_cut_for_its_contents_says_so(
    name: str, finish: str, stream: bool, tmp_path: Path
) -> None:
    told = answered(KINDS[name], tmp_path, {"text": "I", "finish": finish}, stream=stream)
    assert (told.text, told.stop_reason) == ("I", "content_filter")


@EACH
@BOTH
def test_an_empty_answer_is_an_answer(kind: Kind, stream: bool, tmp_path: Path) -> None:
    told = answered(kind, tmp_path, {"text": ""}, stream=stream)
    assert (told.status, told.text, told.tool_calls) == ("ok", "", ())


@EACH
@BOTH
def test_counts_that_are_none_are_none(kind: Kind, stream: bool, tmp_path: Path) -> None:
    told = answered(kind, tmp_path, {"text": "x", "usage": [-1, -1]}, stream=stream)
    assert told.text == "x"
    assert told.input_tokens == 0 and told.cached_tokens == 0
    assert told.output_tokens in (0, 1)  # Anthropic has said 1 when the answer began


@EACH
def test_one_stands_in_for_another_that_does_not_stream_though_asked_to(kind: Kind, tmp_path: Path) -> None:
    with model_server(tmp_path, {"answers": [{"text": "at once"}]}) as server:
        whole = ask(kind, server, stream=False)
    formats = {"raw": json.dumps(_whole_of(kind)), "content_type": "application/json"}
    screen = Screen()
    assert answered(kind, tmp_path, formats, screen=screen) == whole
    assert screen.text == "at once"


def _whole_of(kind: Kind) -> dict[str, Any]:
    from tests.servers.dialects import FORMATS
    from tests.servers.model_server import CHAT

    spoken = next((FORMATS[end] for end in FORMATS if kind.path.endswith(end)), CHAT)
    return spoken.whole({"text": "at once"}, {"model": "m1"})


# -- what is bad -----------------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("what", ["text", "raw"])
def test_a_stream_that_is_cut_is_asked_again_and_what_was_shown_is_void(
    kind: Kind, what: str, tmp_path: Path
) -> None:
    cut: dict[str, Any] = {"text": "one two three four five six", "cut_after": 4}
    if what == "raw":  # in the middle of an object
        cut = {"raw": '{"message":{"con' if kind.dialect.lines else 'data: {"type":"respon'}
    screen = Screen()
    with model_server(tmp_path, {"answers": [{"text": "whole", "faults": [cut]}]}) as server:
        assert ask(kind, server, policy=QUICK, screen=screen).text == "whole"
        assert screen.text == "whole"
        assert len(server.requests()) == 2


@EACH
def test_a_cut_is_a_fault_of_the_way(kind: Kind, tmp_path: Path) -> None:
    error = refused(kind, tmp_path, {"text": "one two three four", "cut_after": 3})
    assert error.kind == "transport" and isinstance(error, TransientProviderError)


@EACH
@BOTH
def test_garbage_is_named(kind: Kind, stream: bool, tmp_path: Path) -> None:
    garbage = "{nonsense}\n" if kind.dialect.lines or not stream else "data: {nonsense}\n\n"
    error = refused(kind, tmp_path, {"raw": garbage}, stream=stream)
    assert "not JSON" in str(error) and error.kind == "invalid"


@EACH
def test_what_is_of_another_shape_is_named(kind: Kind, tmp_path: Path) -> None:
    shapes = ("[]", '{"x": 1}', "7", '{"choices": 7, "output": 7, "content": 7, "message": 7}')
    answers = [{"raw": raw, "content_type": "application/json"} for raw in shapes]
    for error in each_refused(kind, tmp_path, answers):
        assert error.kind == "invalid" and not isinstance(error, TransientProviderError)


@EACH
def test_ten_megabytes_in_one_line_are_refused(kind: Kind, tmp_path: Path) -> None:
    assert "of more than 1048576 bytes" in str(refused(kind, tmp_path, {"endless": "line"}))


@EACH
@BOTH
def test_ten_megabytes_of_answer_are_refused(kind: Kind, stream: bool, tmp_path: Path) -> None:
    assert "more than" in str(refused(kind, tmp_path, {"big_bytes": 10_000_000}, stream=stream))


@EACH
@BOTH
def test_five_hundred_calls_at_once_are_refused(kind: Kind, stream: bool, tmp_path: Path) -> None:
    calls = [{"name": "add", "arguments": {}} for _ in range(500)]
    error = refused(kind, tmp_path, {"tool_calls": calls}, stream=stream)
    assert "more than 64 tool calls" in str(error) and error.kind == "invalid"


@EACH
def test_a_redirect_is_not_followed(kind: Kind, tmp_path: Path) -> None:
    away = {"status": 307, "location": "http://127.0.0.1:1/steal"}
    assert "not followed" in str(refused(kind, tmp_path, away))


@EACH
def test_silence_is_ended(kind: Kind, tmp_path: Path) -> None:
    error = refused(kind, tmp_path, {"endless": "silence"}, bounds=ProviderBounds(idle_s=0.2, total_s=HANG_S))
    assert "silent for 0.2 s" in str(error) and error.kind == "timeout"


@EACH
def test_an_answer_without_end_is_ended(kind: Kind, tmp_path: Path) -> None:
    bounds = ProviderBounds(total_s=0.5, event_bytes=2**30, wire_bytes=2**30)
    error = refused(kind, tmp_path, {"endless": "comments"}, bounds=bounds)
    assert error.kind in ("timeout", "invalid")  # a comment is no line of Ollama's


@EACH
def test_a_key_that_a_server_echoes_reaches_nobody(kind: Kind, tmp_path: Path) -> None:
    assert "[key]" in str(refused(kind, tmp_path, {"status": 400, "error": f"not for {KEY}"}))
    screen = Screen()
    told = answered(kind, tmp_path, {"text": f"it is {KEY} indeed"}, screen=screen)
    assert told.text == screen.text == "it is [key] indeed"
    reported = {"text": "so", "reports": {"type": "api_error", "message": f"at {KEY}"}}
    assert "[key]" in str(refused(kind, tmp_path, reported))


# -- errors and their kinds ------------------------------------------------------------------------------------------

SAID = {
    "too long": (
        {"status": 400, "error": "This model's maximum context length is 8192 tokens."},
        "context_overflow",
    ),
    "Anthropic's too long": (
        {"status": 400, "error": "prompt is too long: 210000 tokens"},
        "context_overflow",
    ),
    "llama.cpp's": (
        {"status": 400, "error": "the request exceeds the available context size"},
        "context_overflow",
    ),
    "contents": ({"status": 400, "error": "triggering our content management policy"}, "content_refused"),
    "no such model": ({"status": 404, "error": "no such model"}, "invalid"),
    "bad request": ({"status": 400, "error": "temperature is not supported"}, "invalid"),
    "no key": ({"status": 401, "error": "who are you?"}, "auth"),
    "not allowed": ({"status": 403, "error": "no"}, "auth"),
    "too many": ({"status": 429, "error": "slow down"}, "rate_limited"),
    "out of order": ({"status": 500, "error": "oops"}, "server"),
    "overloaded": ({"status": 529, "error": "Overloaded"}, "server"),
    "gateway": ({"status": 504, "error": "late"}, "timeout"),
}
PASSING = {"rate_limited", "server", "timeout"}


@EACH
def test_what_a_server_says_of_an_error_has_a_kind(kind: Kind, tmp_path: Path) -> None:
    errors = each_refused(kind, tmp_path, [answer for answer, _ in SAID.values()])
    assert [error.kind for error in errors] == [expected for _, expected in SAID.values()]
    for error in errors:
        assert isinstance(error, TransientProviderError) is (error.kind in PASSING)


WORDS = {
    "openai": [
        (400, "context_length_exceeded", "context_overflow"),
        (429, "insufficient_quota", "auth"),
        (400, "content_policy_violation", "content_refused"),
    ],
    "openai_responses": [
        (400, "invalid_prompt", "content_refused"),
        (429, "rate_limit_exceeded", "rate_limited"),
    ],
    "anthropic": [
        (529, "overloaded_error", "server"),
        (413, "request_too_large", "context_overflow"),
        (400, "invalid_request_error", "invalid"),
        (402, "billing_error", "auth"),
        (403, "permission_error", "auth"),
        (429, "rate_limit_error", "rate_limited"),
        (500, "api_error", "server"),
        (504, "timeout_error", "timeout"),
    ],
}


@pytest.mark.parametrize("name", WORDS)
def test_a_providers_own_word_says_the_kind(name: str, tmp_path: Path) -> None:
    answers = [{"status": status, "error_type": word} for status, word, _ in WORDS[name]]
    errors = each_refused(KINDS[name], tmp_path, answers)
    assert [error.kind for error in errors] == [expected for _, _, expected in WORDS[name]]


@pytest.mark.parametrize(
    ("name", "word", "expected"),
    [
        ("openai", "server_error", "server"),
        ("openai_responses", "rate_limit_exceeded", "rate_limited"),
        ("anthropic", "overloaded_error", "server"),
        ("ollama", "", "invalid"),
    ],
)
def test_an_error_in_the_middle_of_a_stream_has_a_kind_and_voids_what_was_shown(
    name: str, word: str, expected: str, tmp_path: Path
) -> None:
    screen = Screen()
    reports = {"type": word, "message": "out of breath"}
    error = refused(KINDS[name], tmp_path, {"text": "half of", "reports": reports}, screen=screen)
    assert "out of breath" in str(error) and error.kind == expected and error.begun
    assert (screen.text, screen.resets) == ("", 1)


@EACH
def test_how_long_a_server_wants_to_be_left_alone_is_told(kind: Kind, tmp_path: Path) -> None:
    far = formatdate(1_900_000_007, usegmt=True)
    heads = [{"Retry-After": "7"}, {"Retry-After-Ms": "7000"}, {"Retry-After": far}, {"Retry-After": "soon"}]
    errors = each_refused(kind, tmp_path, [{"status": 429, "headers": head} for head in heads])
    seconds, milliseconds, date, nothing = (error.retry_after_s for error in errors)
    assert (seconds, milliseconds, date, nothing) == (7, 7, 86_400, None)  # no longer than a day


@EACH
def test_a_question_that_is_to_be_asked_once_is(kind: Kind, tmp_path: Path) -> None:
    with model_server(tmp_path, {"answers": [{"status": 503}, {"text": "now"}]}) as server:
        with pytest.raises(TransientProviderError):
            ask(kind, server, replace(QUESTION, retry=False), policy=QUICK)
        assert len(server.requests()) == 1
        assert ask(kind, server, policy=QUICK).text == "now"


@EACH
def test_a_limit_that_a_server_tells_holds_the_next_question_back_until_there_is_room(
    kind: Kind, tmp_path: Path
) -> None:
    names = (
        ("anthropic-ratelimit-requests-{}",)
        if kind.path.endswith("messages")
        else ("x-ratelimit-{}-requests",)
    )
    said = {"limit": "10", "remaining": "0", "reset": "1s"}
    heads = {name.format(word): value for name in names for word, value in said.items()}
    screens = Screen(), Screen()

    async def run(url: str) -> None:
        served = Served(kind.dialect, ServerSettings("local", url, "m1"), "", ONCE)
        for screen in screens:
            await served.ask(QUESTION, screen)
        await served.close()

    with model_server(tmp_path, {"answers": [{"text": "a", "headers": heads}, {"text": "b"}]}) as server:
        asyncio.run(run(kind.url(server)))
    assert [screen.waits for screen in screens] == [[], [True, False]]


# -- what is asked ---------------------------------------------------------------------------------------------------

DRAWN = replace(QUESTION, temperature=1.5, top_p=0.5, top_k=7, max_tokens=9, output_schema=SCHEMA)


def sent(kind: Kind, question: Question) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(kind.dialect.body(question, "m1", True))
    return body


def test_each_is_told_how_to_draw_in_its_own_words_and_what_it_does_not_take_is_left_out() -> None:
    chat, responses, claude, local = (sent(kind, DRAWN) for kind in KINDS.values())
    for told in (chat, responses):
        assert (told["temperature"], told["top_p"]) == (1.5, 0.5) and "top_k" not in told
    assert (chat["max_tokens"], responses["max_output_tokens"], claude["max_tokens"]) == (9, 16, 9)
    assert (claude["temperature"], claude["top_k"]) == (1.0, 7) and "top_p" not in claude
    assert sent(KINDS["anthropic"], replace(DRAWN, temperature=None))["top_p"] == 0.5
    assert local["options"] == {"temperature": 1.5, "top_p": 0.5, "top_k": 7, "num_predict": 9}


def test_nothing_is_said_of_what_nobody_has_said() -> None:
    for name, kind in KINDS.items():
        told = sent(kind, QUESTION)
        assert not {"temperature", "top_p", "top_k", "options", "format", "response_format"} & told.keys()
        assert ("max_tokens" in told) is (name == "anthropic")


def test_openai_itself_is_told_the_limit_by_its_newer_name_and_its_thinking_models_nothing_of_drawing() -> (
    None
):
    told = json.loads(openai_compatible.OPENAIS_CHAT.body(DRAWN, "gpt-4o", True))
    assert told["max_completion_tokens"] == 9 and "max_tokens" not in told and told["temperature"] == 1.5
    for model in ("o3-mini", "gpt-5"):
        thinks = json.loads(openai_compatible.OPENAIS_CHAT.body(DRAWN, model, True))
        assert not {"temperature", "top_p"} & thinks.keys()
    assert openai_compatible.is_openai("https://api.openai.com/v1")
    assert not openai_compatible.is_openai("http://[")


def test_a_schema_goes_into_the_mode_that_a_provider_has() -> None:
    strict = {**SCHEMA, "additionalProperties": False}
    for schema, held in ((SCHEMA, False), (strict, True)):
        chat, responses, _, local = (
            sent(kind, replace(DRAWN, output_schema=schema)) for kind in KINDS.values()
        )
        named = {"name": "answer", "schema": schema, "strict": held}
        assert chat["response_format"] == {"type": "json_schema", "json_schema": named}
        assert responses["text"] == {"format": {"type": "json_schema", **named}}
        assert local["format"] == schema


@BOTH
@pytest.mark.parametrize("tools", [(), (TOOL,)], ids=["alone", "beside tools"])
def test_anthropic_gives_an_answer_by_a_schema_as_the_arguments_of_a_tool(
    stream: bool, tools: tuple[OfferedTool, ...], tmp_path: Path
) -> None:
    kind, screen = KINDS["anthropic"], Screen()
    call = {"name": anthropic.ANSWER_TOOL, "arguments": {"age": 7}}
    question = replace(QUESTION, output_schema=SCHEMA, tools=tools)
    with model_server(tmp_path, {"answers": [{"tool_calls": [call]}]}) as server:
        told = ask(kind, server, question, stream=stream, screen=screen)
        body = server.requests()[0]["body"]
    assert json.loads(told.text) == json.loads(screen.text) == {"age": 7}
    assert (told.tool_calls, told.stop_reason) == ((), "stop")
    assert body["tools"][-1]["input_schema"] == SCHEMA
    alone = {"type": "tool", "name": anthropic.ANSWER_TOOL}
    assert body["tool_choice"] == ({"type": "any"} if tools else alone)


def test_a_tool_of_the_name_that_the_answer_has_is_refused() -> None:
    mine = OfferedTool(anthropic.ANSWER_TOOL, "", {})
    with pytest.raises(ProviderError, match="no tool may be named final_answer"):
        sent(KINDS["anthropic"], replace(QUESTION, tools=(mine,)))


def call_of(ident: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}


TALK: tuple[dict[str, Any], ...] = (
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "add"},
    {
        "role": "assistant",
        "content": "So: ",
        "tool_calls": [call_of("a:1", "add", '{"x": 1}'), call_of("b", "add", "{")],
    },
    {"role": "tool", "tool_call_id": "a:1", "name": "add", "content": "2"},
    {"role": "tool", "tool_call_id": "b", "name": "add", "content": "", "status": "error"},
    {"role": "user", "content": "and?"},
)
KEPT = {"cache_control": {"type": "ephemeral"}}


def test_anthropic_is_told_a_conversation_in_blocks_and_turns_and_what_stays_the_same() -> None:
    body = sent(KINDS["anthropic"], Question(TALK, (TOOL,), note="[budget] Left: 1"))
    assert body["system"] == [{"type": "text", "text": "Be brief.", **KEPT}]
    assert body["tools"] == [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}]
    first, calls, results = body["messages"]
    assert first == {"role": "user", "content": [{"type": "text", "text": "add"}]}
    assert calls["role"] == "assistant"
    assert calls["content"] == [
        {"type": "text", "text": "So:"},
        {"type": "tool_use", "id": "a_1", "name": "add", "input": {"x": 1}},
        {"type": "tool_use", "id": "b", "name": "add", "input": {}},
    ]
    assert results["content"] == [
        {"type": "tool_result", "tool_use_id": "a_1", "content": "2"},
        {"type": "tool_result", "tool_use_id": "b", "content": "The call ended with status error: "},
        {"type": "text", "text": "and?", **KEPT},
        {"type": "text", "text": "[budget] Left: 1"},
    ]


def test_what_a_question_begins_with_is_the_same_bytes_from_round_to_round() -> None:
    """A provider keeps it by them; the marks of what is kept are no part of it."""
    for kind in KINDS.values():
        one = sent(kind, Question(TALK[:2], (TOOL,), note="[budget] Left: 2"))
        two = sent(kind, Question(TALK, (TOOL,), note="[budget] Left: 1"))
        for told in (one, two):
            for turn in told.get("messages", ()):
                for block in turn["content"] if isinstance(turn["content"], list) else ():
                    block.pop("cache_control", None)
        said = "input" if "input" in one else "messages"
        before = one[said][:-1] if kind is not KINDS["anthropic"] else []
        assert two[said][: len(before)] == before
        assert one.get("system") == two.get("system") and one["tools"] == two["tools"]


def test_anthropic_is_told_first_what_a_user_says() -> None:
    body = sent(
        KINDS["anthropic"],
        Question(({"role": "assistant", "content": "hm"}, {"role": "system", "content": "x"})),
    )
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    empty = sent(KINDS["anthropic"], Question(({"role": "user", "content": " "},), (TOOL,)))
    assert empty["messages"] == [] and "system" not in empty and empty["tools"][0]["cache_control"]


def test_responses_are_told_a_conversation_in_items() -> None:
    body = sent(KINDS["openai_responses"], Question(TALK, (TOOL,)))
    assert body["store"] is False
    assert body["input"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "add"},
        {"role": "assistant", "content": "So: "},
        {"type": "function_call", "call_id": "a:1", "name": "add", "arguments": '{"x": 1}'},
        {"type": "function_call", "call_id": "b", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a:1", "output": "2"},
        {"type": "function_call_output", "call_id": "b", "output": "The call ended with status error: "},
        {"role": "user", "content": "and?"},
    ]
    assert body["tools"][0]["name"] == "add"


def test_ollama_is_told_arguments_as_objects_and_results_by_name() -> None:
    body = sent(KINDS["ollama"], Question(TALK, (TOOL,)))
    assert body["messages"][2]["tool_calls"] == [
        {"function": {"name": "add", "arguments": {"x": 1}}},
        {"function": {"name": "add", "arguments": {}}},
    ]
    assert body["messages"][3] == {"role": "tool", "content": "2", "tool_name": "add"}
    assert body["tools"][0]["function"]["name"] == "add"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("https://api.anthropic.com", "/v1/messages"),
        ("https://api.anthropic.com/", "/v1/messages"),
        ("http://proxy/v1/", "/messages"),
        ("http://proxy/anthropic", "/v1/messages"),
    ],
)
def test_anthropics_address_may_end_in_v1_or_not(url: str, path: str) -> None:
    assert anthropic.dialect(url).path == path


def test_a_streamed_call_whose_arguments_come_in_no_piece_has_those_it_began_with(tmp_path: Path) -> None:
    block = {"type": "tool_use", "id": "t", "name": "add", "input": {"x": 1}}
    events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]
    raw = "".join(f"event: x\ndata: {json.dumps(one)}\n\n" for one in events)
    told = answered(KINDS["anthropic"], tmp_path, {"raw": raw})
    assert told.tool_calls == (ToolCall("add", '{"x": 1}', "t"),)
    assert (told.input_tokens, told.output_tokens) == (3, 2)


@pytest.mark.parametrize(
    ("name", "events", "words"),
    [
        (
            "anthropic",
            [{"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta"}}],
            "not begun",
        ),
        (
            "anthropic",
            [{"type": "content_block_start", "content_block": {"type": "text"}}],
            "without its number",
        ),
        ("anthropic", [{"type": "message_start", "message": []}], "not an object"),
        (
            "openai_responses",
            [{"type": "response.function_call_arguments.delta", "output_index": 0}],
            "not begun",
        ),
        (
            "openai_responses",
            [{"type": "response.output_item.added", "item": {"type": "function_call"}}],
            "its place",
        ),
        ("openai_responses", [{"type": "response.completed"}], "not an object"),
        ("ollama", [{"message": {"tool_calls": 7}}], "not a list"),
        ("ollama", [{"message": "hm"}], "no message"),
    ],
)
def test_a_stream_that_makes_no_sense_is_named(
    name: str, events: list[dict[str, Any]], words: str, tmp_path: Path
) -> None:
    kind = KINDS[name]
    each = "{}\n" if kind.dialect.lines else "data: {}\n\n"
    raw = "".join(each.replace("{}", json.dumps(one)) for one in events)
    error = refused(kind, tmp_path, {"raw": raw})
    assert words in str(error) and error.kind == "invalid"
