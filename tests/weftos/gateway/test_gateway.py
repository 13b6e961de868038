"""The gateway as a real child process over its link, against a real model server process."""

from __future__ import annotations

import asyncio
import json
import os
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from kernel.helper.helper import Helper, HelperCommand, HelperRefused
from tests.integration.live_node import until
from tests.patience import HANG_S
from tests.places import ROOT
from tests.servers.certificates import certificates
from tests.servers.processes import ModelServer, model_server

BOOT = 0x1234
CHILD = str(ROOT / "tests/weftos/twins/gateway_child.py")
KEY = "sk-very-secret-0123456789"
TOOL = {"name": "calculator", "description": "Adds.", "parameters": {"type": "object"}}


_ASKS_ALL = """
import asyncio, json, sys
from cognition.gateway import Gateway
from weftos.helpers.gateway import build_providers
before = set(sys.modules)
async def ask():
    tables = json.loads(sys.argv[1])
    gateway = Gateway(build_providers(tables, {}), "a", print)
    for name in tables:
        print((await gateway.handle("ask", {"digests": b"", "said": [], "provider": name}))["text"])
    await gateway.close()
asyncio.run(ask())
print(sorted(set(sys.modules) - before))
"""


def said(*messages: dict[str, Any]) -> dict[str, Any]:
    """A question's messages, all of them said."""
    digests = [sha256(json.dumps(message).encode()).digest() for message in messages]
    return {"digests": b"".join(digests), "said": [list(one) for one in enumerate(messages)]}


@dataclass
class Gateway:
    """The node's end of the link: requests, and everything the gateway told unasked."""

    helper: Helper
    log: Path
    notices: list[dict[str, Any]] = field(default_factory=list)
    slots: list[dict[str, Any]] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    queued: asyncio.Event = field(default_factory=asyncio.Event)

    def noticed(self, op: str, args: dict[str, Any]) -> None:
        assert op in ("delta", "slot")
        if op == "slot":
            self.slots.append(args)
            self.queued.set()
            return
        self.notices.append(args)
        self.arrived.set()

    async def ask(self, text: str = "hello", **more: Any) -> dict[str, Any]:
        request = {
            **said({"role": "user", "content": text}),
            "tools": [TOOL],
            "stream_id": "s1",
            **more,
        }
        return await asyncio.wait_for(self.helper.request("ask", request), HANG_S)

    def shown(self) -> str:
        """What a watcher sees in the end."""
        text = ""
        for notice in self.notices:
            text = "" if notice.get("reset") else text + notice["text"]
        return text


def config(server: ModelServer | None = None, **provider: Any) -> dict[str, Any]:
    if server is None:
        return {"default": "offline", "providers": {}}
    table = {
        "kind": "openai",
        "base_url": server.base_url,
        "model": "m1",
        "api_key_env": "TEST_KEY",
        **provider,
    }
    return {"default": "local", "default_model": "", "providers": {"local": table}}


@asynccontextmanager
async def gateway(directory: Path, configuration: dict[str, Any], **variables: str) -> AsyncIterator[Gateway]:
    told = json.dumps({"config": configuration, "keys": {"TEST_KEY": KEY}})
    log = directory / "gateway.log"
    env = {"PATH": os.environ["PATH"], "HTTP_PROXY": "http://127.0.0.1:1", **variables}
    dead = asyncio.get_running_loop().create_future()
    command = HelperCommand("gateway", [sys.executable, "-P", CHILD, told], env, directory, log)
    helper = Helper(command, BOOT, lambda op, args: node.noticed(op, args), dead.set_result)
    node = Gateway(helper, log)
    await helper.start()
    try:
        yield node
    finally:
        await helper.stop()
        await asyncio.wait_for(dead, HANG_S)


@pytest.mark.parametrize("stream", [True, False])
def test_an_answer_comes_whole_and_its_text_is_shown_on_the_way(tmp_path: Path, stream: bool) -> None:
    async def run() -> None:
        with model_server(tmp_path, {"answers": [{"text": "The answer is 42."}]}) as server:
            async with gateway(tmp_path, config(server, stream=stream)) as node:
                answer = await node.ask()
                assert answer == {
                    "status": "ok",
                    "text": "The answer is 42.",
                    "tool_calls": [],
                    "input_tokens": 10,
                    "output_tokens": 4,
                    "cached_tokens": 0,
                    "error_kind": "",
                    "retry_after_s": 0.0,
                    "stop_reason": "stop",
                }
                assert node.shown() == "The answer is 42."
            asked = server.requests()[0]
            assert asked["path"] == "/v1/chat/completions"
            assert asked["headers"]["authorization"] == f"Bearer {KEY}"
            assert asked["body"]["model"] == "m1"
            assert asked["body"]["tools"] == [{"type": "function", "function": TOOL}]

    asyncio.run(run())


def test_text_is_shown_before_the_answer_is_there(tmp_path: Path) -> None:
    async def run() -> None:
        with model_server(tmp_path, {"answers": [{"endless": "text"}]}) as server:
            async with gateway(tmp_path, config(server)) as node:
                asking = asyncio.ensure_future(node.ask())
                await asyncio.wait_for(node.arrived.wait(), HANG_S)
                assert not asking.done()
                assert set(node.shown().split()) == {"more"}
                node.helper.notify("cancel", {"stream_id": "s1"})
                await asking

    asyncio.run(run())


def test_a_note_of_the_node_stands_behind_all_messages_and_is_not_kept_with_them(tmp_path: Path) -> None:
    user, tool = {"role": "user", "content": "hello"}, {"role": "tool", "content": "7", "tool_call_id": "c1"}

    async def run() -> None:
        with model_server(tmp_path, {"answers": [{"text": "yes"}] * 3}) as server:
            async with gateway(tmp_path, config(server)) as node:
                for messages in ((user,), (user, tool)):
                    request = {**said(*messages), "stream_id": "s1", "note": "[budget] Left: 1."}
                    await node.helper.request("ask", request)
                await node.helper.request("ask", {**said(user), "said": [], "stream_id": "s1"})
            first, second, third = (seen["body"]["messages"] for seen in server.requests())
        assert [one["content"] for one in first] == ["hello\n\n[budget] Left: 1."]
        assert [(one["role"], one["content"]) for one in second] == [
            ("user", "hello"),
            ("tool", "7"),
            ("user", "[budget] Left: 1."),
        ]
        assert third == [user]

    asyncio.run(run())


@pytest.mark.parametrize("stream", [True, False])
def test_tool_calls_arrive_as_the_model_wrote_them(tmp_path: Path, stream: bool) -> None:
    calls = [
        {"name": "calculator", "arguments": {"expression": "1+1"}},
        {"name": "nosuch", "arguments": "{broken"},
    ]

    async def run() -> None:
        with model_server(tmp_path, {"answers": [{"text": "Let me see.", "tool_calls": calls}]}) as server:
            async with gateway(tmp_path, config(server, stream=stream)) as node:
                answer = await node.ask()
        assert answer["text"] == "Let me see."
        assert answer["tool_calls"] == [
            {"id": "call_0", "name": "calculator", "arguments": '{"expression": "1+1"}'},
            {"id": "call_1", "name": "nosuch", "arguments": "{broken"},
        ]

    asyncio.run(run())


def test_overload_and_server_faults_are_asked_again(tmp_path: Path) -> None:
    faults = [{"status": 429, "retry_after": 0}, {"status": 500}, {"status": 503}]

    async def run() -> None:
        with model_server(tmp_path, {"answers": [{"text": "at last", "faults": faults}]}) as server:
            async with gateway(tmp_path, config(server)) as node:
                answer = await node.ask()
            assert (answer["status"], answer["text"]) == ("ok", "at last")
            assert len(server.requests()) == 4

    asyncio.run(run())


def test_a_stream_cut_after_text_was_shown_is_asked_again_once_and_the_watcher_told(tmp_path: Path) -> None:
    cut = {"text": "half of an answer", "cut_after": 3}

    async def run() -> None:
        with model_server(tmp_path, {"answers": [{"text": "all of an answer", "faults": [cut]}]}) as server:
            async with gateway(tmp_path, config(server)) as node:
                answer = await node.ask()
                assert answer["text"] == "all of an answer"
                assert {"stream_id": "s1", "reset": True} in node.notices
                assert node.shown() == "all of an answer"

        with model_server(tmp_path, {"answers": [cut], "after": "last"}) as server:
            async with gateway(tmp_path, config(server)) as node:
                answer = await node.ask()
                assert answer["status"] == "error"
                assert "tried 2 times" in answer["text"]
                assert node.shown() == ""
            assert len(server.requests()) == 2

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "more"),
    [
        ({"endless": "text"}, {"uncounted": True}),
        ({"endless": "silence"}, {"uncounted": True}),
        ({"raw": "no JSON", "content_type": "application/json"}, {"uncounted": True}),
        ({"status": 400}, {}),
    ],
    ids=["it had begun", "not a word", "rubbish", "refused"],
)
def test_an_error_says_whether_a_model_may_have_worked_at_it_and_nobody_has_counted(
    tmp_path: Path, answer: dict[str, Any], more: dict[str, Any]
) -> None:
    async def run() -> None:
        with model_server(tmp_path, {"answers": [answer]}) as server:
            async with gateway(tmp_path, config(server, timeout_s=1)) as node:
                came = await node.ask()
        assert came["status"] == "error"
        assert {key: came[key] for key in came if key == "uncounted"} == more

    asyncio.run(run())


def test_a_redirect_is_not_followed_and_the_key_stays(tmp_path: Path) -> None:
    async def run() -> None:
        with model_server(tmp_path, {"answers": [{"text": "stolen"}]}) as thief:
            redirect = {"status": 307, "location": thief.base_url + "/chat/completions"}
            with model_server(tmp_path, {"answers": [redirect]}) as server:
                async with gateway(tmp_path, config(server)) as node:
                    answer = await node.ask()
            assert answer["status"] == "error"
            assert "307" in answer["text"] and "not followed" in answer["text"]
            assert thief.requests() == []

    asyncio.run(run())


def test_no_error_and_no_log_shows_the_key(tmp_path: Path) -> None:
    echo = f"bad key {KEY} " + "x" * 270 + KEY
    answers = [
        {"status": 400, "error": echo},
        {"status": 401, "error": echo},
        {"status": 307, "location": f"http://{KEY}/"},
        {"raw": f'data: {{"error": {{"message": "{echo}"}}}}\n\n'},
        {"status": 500, "error": echo},
        {"raw": "x", "headers": {"Content-Encoding": KEY}},
    ]

    async def run() -> None:
        with model_server(tmp_path, {"answers": answers}) as server:
            async with gateway(tmp_path, config(server)) as node:
                texts = [(await node.ask())["text"] for _ in range(5)]
            assert len(server.requests()) == len(answers)
        until(lambda: "answered 500: bad key [key]" in node.log.read_text(), "it is in the log")
        for text in [*texts, node.log.read_text()]:
            assert KEY not in text and KEY[:12] not in text

    asyncio.run(run())


def test_a_cancelled_question_ends_at_once_and_others_go_on(tmp_path: Path) -> None:
    async def run() -> None:
        with model_server(tmp_path, {"answers": [{"endless": "text"}, {"text": "fine"}]}) as server:
            async with gateway(tmp_path, config(server)) as node:
                endless = asyncio.ensure_future(node.ask())
                await asyncio.wait_for(node.arrived.wait(), HANG_S)
                other = await node.ask(stream_id="s2")
                node.helper.notify("cancel", {"stream_id": "s1"})
                answer = await endless
        assert other["text"] == "fine"
        assert (answer["status"], answer["text"]) == ("error", "cancelled")

    asyncio.run(run())


def test_a_question_that_waits_for_another_is_told_of(tmp_path: Path) -> None:
    async def run() -> None:
        with model_server(tmp_path, {"answers": [{"endless": "text"}, {"text": "fine"}]}) as server:
            async with gateway(tmp_path, config(server, parallel=1)) as node:
                endless = asyncio.ensure_future(node.ask())
                await asyncio.wait_for(node.arrived.wait(), HANG_S)
                other = asyncio.ensure_future(node.ask(stream_id="s2"))
                await asyncio.wait_for(node.queued.wait(), HANG_S)
                assert node.slots == [{"stream_id": "s2", "waits": True}] and not other.done()
                node.helper.notify("cancel", {"stream_id": "s1"})
                assert (await other)["text"] == "fine"
                await endless
        assert node.slots[1:] == [{"stream_id": "s2", "waits": False}]

    asyncio.run(run())


def test_offline_is_always_there_and_streams(tmp_path: Path) -> None:
    async def run() -> None:
        async with gateway(tmp_path, config()) as node:
            for note in ("", "[budget] Left: 5 of 5 tool calls."):
                step = await node.ask("what is 17*23", note=note)
                assert step["tool_calls"] == [
                    {"id": "step_1", "name": "calculator", "arguments": '{"expression": "17*23"}'}
                ]
            words = await node.ask("tell me a joke")
            assert "not a language model" in words["text"]
            assert node.shown() == words["text"]

    asyncio.run(run())


def test_a_wrong_provider_says_what_is_wrong_and_the_others_work(tmp_path: Path) -> None:
    tables = {
        "nokey": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key_env": "ABSENT"},
        "badurl": {"kind": "openai", "base_url": "http://me:secret@host/v1"},
        "typo": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "modell": "x"},
    }

    async def run() -> None:
        async with gateway(tmp_path, {"default": "offline", "providers": tables}) as node:
            said = {name: (await node.ask(provider=name))["text"] for name in [*tables, "nosuch"]}
            assert (await node.ask())["status"] == "ok"
        assert "no ABSENT" in said["nokey"]
        assert "no user or password" in said["badurl"] and "secret" not in said["badurl"]
        assert "providers.typo.modell" in said["typo"]
        assert "'nosuch'" in said["nosuch"] and "offline" in said["nosuch"]

    asyncio.run(run())


def test_over_https_only_a_server_with_a_certificate_is_asked(tmp_path: Path) -> None:
    tls = certificates(tmp_path)

    async def run() -> None:
        with model_server(tmp_path, {"answers": [{"text": "safe and sound"}]}, tls) as server:
            async with gateway(tmp_path, config(server)) as node:
                stranger = await node.ask()
            assert server.requests() == []
            async with gateway(tmp_path, config(server), SSL_CERT_FILE="/nosuch.pem") as node:
                nobody = await node.ask()
                assert (await node.ask(provider="offline"))["status"] == "ok"
            async with gateway(tmp_path, config(server), SSL_CERT_FILE=str(tls.authority)) as node:
                friend = await node.ask()
        assert "certificate is not accepted (unable to get local issuer" in stranger["text"]
        assert "SSL_CERT_FILE" in stranger["text"] and "tried" not in stranger["text"]
        assert "with SSL_CERT_FILE=/nosuch.pem: No such file" in nobody["text"]
        assert (friend["status"], friend["text"]) == ("ok", "safe and sound")

    asyncio.run(run())


def test_the_first_request_loads_nothing_more(tmp_path: Path) -> None:
    """What the gateway needs is there before it has a key: it was loaded by the process that bears it."""
    tls = certificates(tmp_path)
    with model_server(tmp_path, {"answers": [{"text": "words"}], "after": "last"}, tls) as server:
        tables = {"a": {"base_url": server.base_url, "model": "m"}}
        tables["b"] = {**tables["a"], "base_url": server.base_url.replace("127.0.0.1", "localhost")}
        argv = [sys.executable, "-P", "-c", _ASKS_ALL, json.dumps(tables)]
        variables = {"PATH": os.environ["PATH"], "SSL_CERT_FILE": str(tls.authority)}
        done = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=HANG_S, check=True)
    first, second, loaded = done.stdout.splitlines()
    assert first == "words"
    assert "not valid for 'localhost'" in second
    assert loaded == "[]"


def test_what_was_said_once_is_known_until_it_is_to_be_forgotten(tmp_path: Path) -> None:
    first, answer, second = ({"role": role, "content": role} for role in ("system", "assistant", "user"))

    async def run() -> None:
        with model_server(tmp_path, {"answers": [{"text": "hm"}], "after": "last"}) as server:
            async with gateway(tmp_path, config(server)) as node:
                whole = said(first, answer, second)
                news = {**whole, "said": whole["said"][2:]}
                assert (await node.ask(**said(first, answer)))["text"] == "hm"
                assert (await node.ask(**news))["text"] == "hm"
                assert server.requests()[1]["body"]["messages"] == [first, answer, second]
                node.helper.notify("forget", {})
                assert await node.ask(**news) == {"status": "lost"}
                assert (await node.ask(**whole))["text"] == "hm"
                assert len(server.requests()) == 3

    asyncio.run(run())


def test_malformed_requests_are_refused_and_the_gateway_lives(tmp_path: Path) -> None:
    async def run() -> None:
        async with gateway(tmp_path, config()) as node:
            for request, words in (
                ({"digests": b"short"}, "digests must be"),
                ({"digests": bytes(32), "said": "hello"}, "said must be"),
                ({"digests": bytes(32), "said": [[1, {}]]}, "message 1 of 1"),
                ({**said(), "tools": [{"name": "t"}]}, "parameters must be"),
                ({**said(), "model": 7}, "model must be text"),
            ):
                with pytest.raises(HelperRefused, match=words):
                    await node.helper.request("ask", request)
            with pytest.raises(HelperRefused, match="'nosuch'"):
                await node.helper.request("nosuch", {})
            assert (await node.ask())["status"] == "ok"

    asyncio.run(run())


def test_texts_become_vectors_and_what_cannot_is_refused_by_name(tmp_path: Path) -> None:
    async def run() -> None:
        raw = '{"data": [{"index": 1, "embedding": [3, 4]}, {"index": 0, "embedding": [1, 2]}]}'
        with model_server(tmp_path, {"answers": [{"raw": raw}, {"status": 400, "error": "no"}]}) as server:
            async with gateway(tmp_path, config(server)) as node:
                question = {"id": "e1", "provider": "local", "model": "words-1", "texts": ["a", "b"]}
                answer = await node.helper.request("embed", question)
                assert answer == {"count": 2, "dimensions": 2, "data": struct.pack("<4f", 1, 2, 3, 4)}
                for change, words in (
                    ({}, "answered 400: no"),
                    ({"provider": "offline"}, "'offline' makes no embeddings"),
                    ({"provider": "nosuch"}, "'nosuch' is not configured"),
                    ({"texts": []}, "0 texts, must be 1 to 64"),
                    ({"texts": ["x"] * 65}, "65 texts"),
                    ({"texts": "abc"}, "must be a list of texts"),
                    ({"texts": [7]}, "must be a list of texts"),
                ):
                    with pytest.raises(HelperRefused, match=words):
                        await node.helper.request("embed", {**question, **change})
            assert server.requests()[0]["body"]["input"] == ["a", "b"]

    asyncio.run(run())
