"""A scripted model server, as a process of its own on loopback. It has the face of each kind of provider
(``dialects.py``), by the path that is asked; that of an OpenAI-compatible one by all others.

``python -m tests.servers.model_server --port 0 --script FILE`` prints its port as the first line, then serves
until it is killed; with ``--exit-with-stdin`` also until its standard input ends. With ``--tls FILE``, a key and a
certificate, it speaks TLS. Standard library only.

The script is a JSON object: ``answers`` (a list), ``by`` and ``after``. By ``arrival`` (default) the n-th
request gets the n-th answer; by ``round`` a request gets the answer whose number is how many assistant
messages stand behind its newest user message, so that any number of agents can work through the same script
at once. When the list is used up, ``after`` decides: ``last`` repeats the last answer, ``error`` (default) is
a 500.

Or the object is ``{"models": {name: script}}``: a request goes to the script that has the name of its model.

An answer has some of these keys:
  text, words_ms      the text; when streamed, in words, with a pause before each
  tool_calls          list of {"name", "arguments"}; arguments are an object, or text that is sent as it is
  faults              list of answers given first, one a request, before this answer's own turn comes
  status, retry_after, error, location   an HTTP status other than 200, with these headers and error message;
                      error_type: the provider's word for it
  cut_after           end the connection without an end marker after so many stream chunks (or half of a body)
  raw                 text sent as the body instead; with raw_hex, the bytes; content_type and headers apply
  endless             "text": a stream that never ends; "comments": keep-alives for ever;
                      "silence": nothing at all; "line": one line without end
  big_bytes           text of that many bytes
  cached_tokens       how many of the tokens read it says it had kept
  headers             of the head, beside the usual ones

``GET /requests`` gives everything that was asked so far: path, headers (lower case), body, and whether who asked has
``left`` before the end of the answer.
"""

from __future__ import annotations

import argparse
import json
import os
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.servers.dialects import (
    FORMATS,
    WireFormat,
    arguments_of,
    counts,
    event,
    halves,
    openai_error,
    said_text,
    words_of,
)

Json = dict[str, Any]


class Script:
    """Which answer a request gets. Safe for threads."""

    def __init__(self, script: Json) -> None:
        self._answers: list[Json] = script["answers"]
        self._by_round = script.get("by", "arrival") == "round"
        self._repeat = script.get("after", "error") == "last"
        self._lock = threading.Lock()
        self._arrived = 0
        self._faults = [list(answer.get("faults", ())) for answer in self._answers]

    def next(self, request: Json) -> Json:
        with self._lock:
            number = rounds(request["body"]) if self._by_round else self._arrived
            if number >= len(self._answers):
                if not self._repeat:
                    return {"status": 500, "error": f"the script has no answer number {number}"}
                number = len(self._answers) - 1
            if self._faults[number]:
                return dict(self._faults[number].pop(0))
            self._arrived += 1
            return self._answers[number]


def rounds(body: Json) -> int:
    """How many assistant messages stand behind the newest user message; what the node tells of forerunners is none."""
    count = 0
    for message in body.get("messages") or body["input"]:
        role = message.get("role")
        told = any(str(call["id"]).startswith("forerunner-") for call in message.get("tool_calls") or ())
        count = 0 if role == "user" else count + (role == "assistant" and not told)
    return count


class Scripts:
    """One script for all, or one for each model. ``requests`` is everything that was asked, of whichever."""

    def __init__(self, document: Json) -> None:
        self._only = None if "models" in document else Script(document)
        self._models = {name: Script(script) for name, script in document.get("models", {}).items()}
        self.requests: list[Json] = []

    def next(self, request: Json) -> Json:
        self.requests.append(request)
        script = self._only or self._models.get(request["body"]["model"])
        return script.next(request) if script else {"status": 404, "error": "no script for this model"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    scripts: Scripts

    def log_message(self, format: str, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        self._whole(200, json.dumps(self.scripts.requests).encode(), {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = {"path": self.path, "headers": headers, "body": body, "left": False}
        answer = self.scripts.next(request)
        try:
            self._answer(answer, body)
        except (BrokenPipeError, ConnectionResetError):
            request["left"] = self.close_connection = True

    def _answer(self, answer: Json, body: Json) -> None:
        headers = dict(answer.get("headers", {}))
        status = answer.get("status", 200)
        if status != 200:
            if "retry_after" in answer:
                headers["Retry-After"] = str(answer["retry_after"])
            if "location" in answer:
                headers["Location"] = answer["location"]
            told = self._format.error(answer.get("error_type", ""), answer.get("error", "scripted fault"))
            self._whole(status, json.dumps(told).encode(), headers)
        elif "raw" in answer or "raw_hex" in answer:
            data = bytes.fromhex(answer["raw_hex"]) if "raw_hex" in answer else answer["raw"].encode()
            usual = self._format.content_type if body.get("stream") else "application/json"
            self._whole(200, data, headers, answer.get("content_type", usual))
        elif answer.get("endless"):
            self._endless(answer["endless"])
        elif body.get("stream"):
            self._stream(answer, body)
        else:
            data = json.dumps(self._format.whole(answer, body)).encode()
            self._whole(200, data, headers, cut="cut_after" in answer)

    def _whole(
        self, status: int, data: bytes, headers: Json, kind: str = "application/json", cut: bool = False
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if cut else data)
        self.close_connection = self.close_connection or cut

    @property
    def _format(self) -> WireFormat:
        return next((FORMATS[end] for end in FORMATS if self.path.endswith(end)), CHAT)

    def _begin_stream(self, headers: Json) -> None:
        self.send_response(200)
        self.send_header("Content-Type", self._format.content_type)
        self.send_header("Transfer-Encoding", "chunked")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _stream(self, answer: Json, body: Json) -> None:
        self._begin_stream(answer.get("headers", {}))
        for number, piece in enumerate(self._format.pieces(answer, body)):
            if number == answer.get("cut_after"):
                self.close_connection = True
                return
            if answer.get("words_ms"):
                time.sleep(answer["words_ms"] / 1000)
            self._chunk(piece)
        self._chunk(b"")

    def _endless(self, what: str) -> None:
        piece = {
            "text": chat_event(delta({"content": "more "})),
            "comments": b": still here\n\n",
            "line": b"x" * 65536,
            "silence": b"",
        }[what]
        self._begin_stream({})
        while True:
            if piece:
                self._chunk(piece)
            time.sleep(0.0 if what == "line" else 0.001)


def wire_calls(answer: Json) -> list[Json]:
    calls = []
    for index, call in enumerate(answer.get("tool_calls", ())):
        function = {"name": call["name"], "arguments": arguments_of(call)}
        ident = call.get("id", f"call_{index}")
        calls.append({"index": index, "id": ident, "type": "function", "function": function})
    return calls


def completion(answer: Json, body: Json) -> Json:
    calls = wire_calls(answer)
    message: Json = {"role": "assistant", "content": said_text(answer) or None}
    if calls:
        message["tool_calls"] = calls
    finish = answer.get("finish", "tool_calls" if calls else "stop")
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage(answer)}


def usage(answer: Json) -> Json:
    read, written, _ = counts(answer)
    used: Json = {"prompt_tokens": read, "completion_tokens": written}
    if "cached_tokens" in answer:
        used["prompt_tokens_details"] = {"cached_tokens": answer["cached_tokens"]}
    return used


def delta(said: Json, finish: str | None = None) -> Json:
    choice = {"index": 0, "delta": said, "finish_reason": finish}
    return {"object": "chat.completion.chunk", "choices": [choice]}


def stream_chunks(answer: Json, body: Json) -> Iterator[Json]:
    """The chunks of one answer: role, words, tool calls in pieces, the end, usage."""
    yield delta({"role": "assistant", "content": ""})
    for word in words_of(answer):
        yield delta({"content": word})
    calls = wire_calls(answer)
    for call in calls:
        arguments = call["function"]["arguments"]
        opening = {**call, "function": {"name": call["function"]["name"], "arguments": ""}}
        yield delta({"tool_calls": [opening]})
        for piece in halves(arguments):
            yield delta({"tool_calls": [{"index": call["index"], "function": {"arguments": piece}}]})
    if "reports" in answer:
        yield {"error": answer["reports"]}
        return
    yield delta({}, answer.get("finish", "tool_calls" if calls else "stop"))
    if (body.get("stream_options") or {}).get("include_usage"):
        yield {"object": "chat.completion.chunk", "choices": [], "usage": usage(answer)}


def chat_event(told: Json) -> bytes:
    return event(told, named=False)


def chat_events(answer: Json, body: Json) -> Iterator[bytes]:
    yield from map(chat_event, stream_chunks(answer, body))
    yield b"data: [DONE]\n\n"


CHAT = WireFormat(completion, chat_events, openai_error)


def exit_with_stdin() -> None:
    """Nobody is left who could stop this server: stop."""
    while os.read(0, 4096):
        pass
    os._exit(0)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", required=True)
    parser.add_argument("--exit-with-stdin", action="store_true")
    parser.add_argument("--tls", default="")
    arguments = parser.parse_args()
    with open(arguments.script, encoding="utf-8") as file:
        Handler.scripts = Scripts(json.load(file))
    server = ThreadingHTTPServer(("127.0.0.1", arguments.port), Handler)
    server.daemon_threads = True
    if arguments.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(arguments.tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    if arguments.exit_with_stdin:
        threading.Thread(target=exit_with_stdin, daemon=True).start()
    print(server.server_address[1], flush=True)
    server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
