"""What the scripted model server says, in the wire format of each kind of provider. Standard library only.

An answer of a script has, beside what ``model_server.py`` says of it, some of these keys:
  finish           why it ends, in the provider's own word
  usage            [read, written] in place of what is counted
  reports          {"type", "message"}: an error, told inside the stream after the text
  thinks           text that the model thinks before it answers
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class WireFormat:
    """``pieces``: those of a stream, each as it is written; ``error``: the body of an answer with another status."""

    whole: Callable[[Json, Json], Json]
    pieces: Callable[[Json, Json], Iterator[bytes]]
    error: Callable[[str, str], Json]
    content_type: str = "text/event-stream; charset=utf-8"


def said_text(answer: Json) -> str:
    return "x" * answer["big_bytes"] if "big_bytes" in answer else str(answer.get("text", ""))


def words_of(answer: Json) -> list[str]:
    """With the blank behind each but the last."""
    words = said_text(answer).split(" ")
    return [word + (" " if number + 1 < len(words) else "") for number, word in enumerate(words) if word]


def arguments_of(call: Json) -> str:
    arguments = call["arguments"]
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def counts(answer: Json) -> tuple[int, int, int]:
    read, written = answer.get("usage", (10, len(said_text(answer).split())))
    return read, written, answer.get("cached_tokens", 0)


def event(told: Json, named: bool = True) -> bytes:
    """A server-sent event; its name is its type, where it has one."""
    name = f"event: {told['type']}\n" if named else ""
    return f"{name}data: {json.dumps(told)}\n\n".encode()


# -- OpenAI's responses ----------------------------------------------------------------------------------------------


def response(answer: Json, body: Json) -> Json:
    content = [{"type": "output_text", "text": said_text(answer), "annotations": []}]
    output: list[Json] = [{"type": "reasoning", "id": "rs_1", "summary": []}] if answer.get("thinks") else []
    if said_text(answer):
        output.append({"type": "message", "id": "msg_1", "role": "assistant", "content": content})
    for number, call in enumerate(answer.get("tool_calls", ())):
        ident = call.get("id", f"call_{number}")
        function = {"name": call["name"], "arguments": arguments_of(call)}
        output.append({"type": "function_call", "id": f"fc_{number}", "call_id": ident, **function})
    read, written, cached = counts(answer)
    finish = answer.get("finish")
    return {
        "id": "resp_1",
        "object": "response",
        "model": body["model"],
        "status": "incomplete" if finish else "completed",
        "incomplete_details": {"reason": finish} if finish else None,
        "error": None,
        "output": output,
        "usage": {
            "input_tokens": read,
            "input_tokens_details": {"cached_tokens": cached},
            "output_tokens": written,
            "total_tokens": read + written,
        },
    }


def response_events(answer: Json, body: Json) -> Iterator[bytes]:
    whole = response(answer, body)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    yield event({"type": "response.created", "response": begun})
    yield event({"type": "response.in_progress", "response": begun})
    for place, item in enumerate(whole["output"]):
        at = {"output_index": place, "item_id": item["id"]}
        opening = {**item, "content": []} if item["type"] == "message" else {**item, "arguments": ""}
        yield event({"type": "response.output_item.added", "output_index": place, "item": opening})
        if item["type"] == "message":
            part = {**at, "content_index": 0}
            yield event({"type": "response.content_part.added", **part, "part": {"type": "output_text"}})
            for word in words_of(answer):
                yield event({"type": "response.output_text.delta", **part, "delta": word})
            yield event({"type": "response.output_text.done", **part, "text": said_text(answer)})
        elif item["type"] == "function_call":
            for half in halves(item["arguments"]):
                yield event({"type": "response.function_call_arguments.delta", **at, "delta": half})
            done = {**at, "arguments": item["arguments"]}
            yield event({"type": "response.function_call_arguments.done", **done})
        yield event({"type": "response.output_item.done", "output_index": place, "item": item})
    if "reports" in answer:
        told = answer["reports"]
        failed = {**whole, "status": "failed", "error": {"code": told["type"], "message": told["message"]}}
        yield event({"type": "response.failed", "response": failed})
    else:
        yield event({"type": f"response.{whole['status']}", "response": whole})


def openai_error(kind: str, words: str) -> Json:
    return {"error": {"message": words, "type": kind, "param": None, "code": kind or None}}


# -- Anthropic -------------------------------------------------------------------------------------------------------


def anthropic_usage(answer: Json) -> Json:
    read, written, cached = counts(answer)
    return {
        "input_tokens": read - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": written,
    }


def anthropic_message(answer: Json, body: Json) -> Json:
    blocks: list[Json] = []
    if answer.get("thinks"):
        blocks.append({"type": "thinking", "thinking": answer["thinks"], "signature": "EqQB"})
    if said_text(answer):
        blocks.append({"type": "text", "text": said_text(answer)})
    for number, call in enumerate(answer.get("tool_calls", ())):
        given = call["arguments"]
        given = json.loads(given) if isinstance(given, str) else given
        ident = call.get("id", f"toolu_{number}")
        blocks.append({"type": "tool_use", "id": ident, "name": call["name"], "input": given})
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": blocks,
        "stop_reason": answer.get("finish", "tool_use" if answer.get("tool_calls") else "end_turn"),
        "stop_sequence": None,
        "usage": anthropic_usage(answer),
    }


def anthropic_events(answer: Json, body: Json) -> Iterator[bytes]:
    pieces = {"tool_calls": [{**call, "arguments": {}} for call in answer.get("tool_calls", ())]}
    whole = anthropic_message({**answer, **pieces}, body)
    usage = {**whole["usage"], "output_tokens": 1}
    begun = {**whole, "content": [], "stop_reason": None, "usage": usage}
    yield event({"type": "message_start", "message": begun})
    yield event({"type": "ping"})
    calls = iter(answer.get("tool_calls", ()))
    for index, block in enumerate(whole["content"]):
        at = {"index": index}
        empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}}.get(block["type"], {})
        yield event({"type": "content_block_start", **at, "content_block": {**block, **empty}})
        for delta in anthropic_deltas(answer, block, calls):
            yield event({"type": "content_block_delta", **at, "delta": delta})
        yield event({"type": "content_block_stop", **at})
    if "reports" in answer:
        yield event({"type": "error", "error": answer["reports"]})
        return
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    spent = {"output_tokens": whole["usage"]["output_tokens"]}
    yield event({"type": "message_delta", "delta": ended, "usage": spent})
    yield event({"type": "message_stop"})


def anthropic_deltas(answer: Json, block: Json, calls: Iterator[Json]) -> Iterator[Json]:
    match block["type"]:
        case "thinking":
            yield {"type": "thinking_delta", "thinking": answer["thinks"]}
            yield {"type": "signature_delta", "signature": "EqQB"}
        case "text":
            for word in words_of(answer):
                yield {"type": "text_delta", "text": word}
        case _:
            yield {"type": "input_json_delta", "partial_json": ""}
            for half in halves(arguments_of(next(calls))):
                yield {"type": "input_json_delta", "partial_json": half}


def anthropic_error(kind: str, words: str) -> Json:
    return {
        "type": "error",
        "error": {"type": kind or "invalid_request_error", "message": words},
        "request_id": "req_1",
    }


# -- Ollama ----------------------------------------------------------------------------------------------------------


def ollama_chat(answer: Json, body: Json) -> Json:
    calls = [
        {"function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in answer.get("tool_calls", ())
    ]
    return ollama_line(body, said_text(answer), calls) | ollama_end(answer)


def ollama_line(body: Json, content: str, calls: list[Json] | None = None) -> Json:
    message = {"role": "assistant", "content": content} | ({"tool_calls": calls} if calls else {})
    return {
        "model": body["model"],
        "created_at": "2026-11-25T00:00:00Z",
        "message": message,
        "done": False,
    }


def ollama_end(answer: Json) -> Json:
    read, written, _ = counts(answer)
    ended = {"done": True, "done_reason": answer.get("finish", "stop"), "total_duration": 5}
    return ended | {"prompt_eval_count": read, "eval_count": written}


def ollama_lines(answer: Json, body: Json) -> Iterator[bytes]:
    if answer.get("thinks"):
        thought = ollama_line(body, "")
        thought["message"]["thinking"] = answer["thinks"]
        yield json.dumps(thought).encode() + b"\n"
    for word in words_of(answer):
        yield json.dumps(ollama_line(body, word)).encode() + b"\n"
    for call in ollama_chat(answer, body)["message"].get("tool_calls", ()):
        yield json.dumps(ollama_line(body, "", [call])).encode() + b"\n"
    if "reports" in answer:
        yield json.dumps({"error": answer["reports"]["message"]}).encode() + b"\n"
        return
    yield json.dumps(ollama_line(body, "") | ollama_end(answer)).encode() + b"\n"


FORMATS = {
    "/responses": WireFormat(response, response_events, openai_error),
    "/messages": WireFormat(anthropic_message, anthropic_events, anthropic_error),
    "/api/chat": WireFormat(
        ollama_chat, ollama_lines, lambda kind, words: {"error": words}, "application/x-ndjson"
    ),
}
"""By the end of the path; all other paths are chat completions."""
