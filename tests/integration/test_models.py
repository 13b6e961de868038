"""Agents that ask a model server over HTTP, end to end: cell, node, gateway, server, and what a person sees."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.live_node import FILE_TOOLS, WAIT_S, LiveNode, until
from tests.integration.scripts import HOSTILE, WORDS
from tests.servers.processes import ModelServer

OBEYED = ("\x1b", "\x07", "\u202e", "\r")


def asked(models: ModelServer, model: str) -> list[dict[str, Any]]:
    """The bodies of what a model was asked."""
    return [request["body"] for request in models.requests() if request["body"]["model"] == model]


def tool_messages(models: ModelServer, model: str) -> list[str]:
    """What the model was told of its calls, last."""
    return [
        message["content"] for message in asked(models, model)[-1]["messages"] if message["role"] == "tool"
    ]


@pytest.mark.parametrize("provider", ["scripted", "whole"])
def test_an_agent_finishes_a_task_of_five_calls(node: LiveNode, models: ModelServer, provider: str) -> None:
    before = len(asked(models, "five-calls"))
    answer = node.talk(f"five-{provider}", "five-calls", provider=provider, tools=FILE_TOOLS)
    assert (answer["status"], answer["reply"]) == ("ok", WORDS)
    outcomes = [entry for entry in node.entries("tool.outcome") if entry["turn"] == answer["turn"]]
    assert {entry["status"] for entry in outcomes} == {"ok"}
    assert sorted(entry["tool"] for entry in outcomes) == sorted([*FILE_TOOLS, "calculator"])
    requests = asked(models, "five-calls")[before:]
    assert len(requests) == 5
    assert {request.get("stream", False) for request in requests} == {provider == "scripted"}
    told = [message["content"] for message in requests[-1]["messages"] if message["role"] == "tool"]
    assert told[0] == "391"
    assert told[2] == "391\n"


def test_tokens_are_seen_before_the_answer_is_whole(node: LiveNode) -> None:
    node.agent("streamer", "five-calls", FILE_TOOLS)
    told = list(node.api.watch("streamer", "go"))
    kinds = [event["event"] for event in told]
    assert kinds[0] == "accepted"
    assert kinds[-1] == "reply"
    assert kinds.count("tool") == 5
    last_tool = max(number for number, kind in enumerate(kinds) if kind == "tool")
    words = [event["text"] for event in told[last_tool:] if event["event"] == "delta"]
    assert "".join(words) == WORDS == told[-1]["reply"]
    node.agent("rhapsodist", "endless")
    events = node.api.watch("rhapsodist", "go")
    assert next(event for event in events if event["event"] == "delta" and "more" in event["text"])
    node.api.cancel("rhapsodist")
    assert [*events][-1]["status"] == "cancelled"


class Screen:
    """A command on a terminal of its own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def read_until(self, words: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while words not in self.seen:
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"{words!r} never came: {self.seen!r}"
            if select.select([self._descriptor], [], [], left_s)[0]:
                try:
                    self.seen += os.read(self._descriptor, 65536).decode(errors="replace")
                except OSError:  # a terminal without anybody at the other end is an error, not an end of file
                    raise AssertionError(f"{words!r} never came: {self.seen!r}") from None


@contextmanager
def chat(node: LiveNode, target: str) -> Iterator[Screen]:
    ours, theirs = pty.openpty()
    argv = [sys.executable, "-P", "-m", "weftos", "chat", target]
    process = subprocess.Popen(
        argv,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=node.variables(),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that ^C is a signal
    )
    os.close(theirs)
    try:
        yield Screen(ours)
        os.write(ours, b"\x04")
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_person_chats_and_sees_tools_and_tokens(node: LiveNode) -> None:
    node.agent("talker", "five-calls", FILE_TOOLS)
    with chat(node, "talker") as screen:
        screen.read_until("you> ")
        screen.type("go\n")
        screen.read_until("[tool file_write]")
        screen.read_until(WORDS)
        screen.read_until("you> ")
    assert screen.seen.count(WORDS) == 1


def test_ctrl_c_cancels_an_endless_answer_and_the_talk_goes_on(node: LiveNode) -> None:
    node.agent("rambler", "endless")
    with chat(node, "rambler") as screen:
        screen.read_until("you> ")
        screen.type("go\n")
        screen.read_until("more more more")
        screen.type("\x03")
        screen.read_until("cancelled")
        screen.seen = screen.seen.rpartition("cancelled")[2]
        screen.read_until("you> ")
    until(lambda: node.api.inspect("rambler")["turn"] is None, "the turn has ended")
    [turn] = [
        entry for entry in node.entries("turn.ended") if entry["entry_pid"] == node.row("rambler")["pid"]
    ]
    assert turn["status"] == "cancelled"


def test_a_question_behind_another_waits_for_a_slot_of_its_provider(node: LiveNode) -> None:
    node.agent("first", "endless", provider="single")
    node.agent("second", "memory", provider="single")
    node.api.send("first", "go")
    until(lambda: node.entries("model.asked") and _waits(node, "first") == "model", "the first is asked")
    node.api.send("second", "go")
    until(lambda: _waits(node, "second") == "provider_slot", "the second waits for the first")
    assert "provider slot single/memory" in node.command("ps")[1]
    node.api.cancel("first")
    until(lambda: _waits(node, "second") == "message", "the second has been answered")


def _waits(node: LiveNode, name: str) -> str:
    waiting = node.row(name).get("waiting")
    return "" if waiting is None else str(waiting["kind"])


def test_a_terminal_obeys_nothing_that_a_model_says(node: LiveNode) -> None:
    node.agent("hostile", "hostile")
    with chat(node, "hostile") as screen:
        screen.read_until("you> ")
        screen.type("go\n")
        screen.read_until("evil")
        screen.read_until("\\r")
    shown = screen.seen.replace("\r\n", "\n").replace("\x1b[?2004h", "").replace("\x1b[?2004l\r", "")
    assert not [mark for mark in OBEYED if mark in shown], repr(shown)
    assert "[link=file:///etc/passwd]click[/link]" in shown


def test_neither_do_send_and_the_ledgers_log(node: LiveNode) -> None:
    node.agent("hostile-2", "hostile-call")
    sent = node.cli("send", "hostile-2", HOSTILE, "--wait")
    assert (sent.returncode, sent.stdout.strip()) == (0, "I see.")
    node.agent("hostile-3", "hostile")
    sent = node.cli("send", "hostile-3", "go", "--wait")
    assert "[link=file:///etc/passwd]click[/link] [bold]b[/bold]" in sent.stdout
    log = node.cli("chain", "log", "--limit", "60")
    entry = next(entry for entry in node.entries("turn.ended") if entry["reply"] == HOSTILE)
    one = node.cli("chain", "show", str(entry["seq"]))
    assert "click" in one.stdout
    inspected = node.cli("inspect", "hostile-3")
    for done in (sent, log, one, inspected):
        assert done.returncode == 0, done.stderr
        assert not [mark for mark in OBEYED if mark in done.stdout + done.stderr]
    assert HOSTILE in [message["text"] for message in node.entries("message.accepted")]


def test_neither_do_the_node_s_logs(node: LiveNode) -> None:
    node.talk("hostile-4", "500-always")

    def logs() -> str:
        return "".join(path.read_text() for path in (node.data / "logs").iterdir())

    until(lambda: "out of order" in logs(), "it is in the logs")
    assert not [mark for mark in OBEYED if mark in logs()]


@pytest.mark.parametrize(
    ("model", "reply", "requests"),
    [("429", "after the wait", 2), ("500", "after the fault", 2), ("cut", "whole at last", 2)],
)
def test_a_servers_passing_fault_costs_only_time(
    node: LiveNode, models: ModelServer, model: str, reply: str, requests: int
) -> None:
    answer = node.talk(f"fault-{model}", model)
    assert (answer["status"], answer["reply"]) == ("ok", reply)
    assert len(asked(models, model)) == requests


def test_a_server_that_stays_broken_is_an_honest_reply(node: LiveNode) -> None:
    answer = node.talk("fault-500-always", "500-always")
    assert answer["status"] == "error"
    assert "answered 500: out of order" in answer["reply"]
    assert answer["reply"].endswith(f"(tried {', '.join(['scripted/500-always: server'] * 3)})")
    assert node.api.inspect("fault-500-always")["state"] == "running"


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("broken", "not valid JSON: unterminated string"),
        ("json-duplicate", "appears twice"),
        ("json-nan", "NaN"),
        ("json-list", "object"),
        ("schema", "expresion"),
        ("unknown-tool", "there is no tool 'launch_missiles'"),
        ("not-held", "file_write"),
        ("large", "262144"),
    ],
)
def test_a_bad_call_is_refused_in_words_the_model_gets(
    node: LiveNode, models: ModelServer, model: str, words: str
) -> None:
    answer = node.talk(f"bad-{model}", model)
    assert (answer["status"], answer["reply"]) == ("ok", "I see.")
    [told] = tool_messages(models, model)
    assert words.lower() in told.lower()
    [outcome] = [entry for entry in node.entries("tool.outcome") if entry["turn"] == answer["turn"]]
    assert outcome["status"] in ("error", "denied")
    assert [entry for entry in node.entries("tool.intent") if entry["turn"] == answer["turn"]] == []


def test_ten_megabytes_of_arguments_end_the_turn_and_not_the_agent(
    node: LiveNode, models: ModelServer
) -> None:
    answer = node.talk("bad-10-mb", "10-mb")
    assert answer["status"] == "error"
    assert "The model could not be asked" in answer["reply"]
    assert len(answer["reply"]) < 2000
    assert node.api.inspect("bad-10-mb")["restarts"] == 0
    assert len(asked(models, "10-mb")) == 1


def test_a_model_that_says_nothing_is_an_honest_reply(node: LiveNode) -> None:
    answer = node.talk("nothing", "nothing")
    assert (answer["status"], "answered with nothing" in answer["reply"]) == ("error", True)


def test_a_model_that_makes_the_same_call_for_ever_is_stopped(node: LiveNode, models: ModelServer) -> None:
    answer = node.talk("for-ever", "for-ever")
    assert (answer["status"], "calculator was called 8 times" in answer["reply"]) == ("error", True)
    assert len(asked(models, "for-ever")) == 8
    asked_of_ledger = [entry for entry in node.entries("model.asked") if entry["turn"] == answer["turn"]]
    assert max(len(json.dumps(entry)) for entry in asked_of_ledger) < 4096


def test_what_a_spawn_says_of_its_rounds_holds(node: LiveNode, models: ModelServer) -> None:
    before = len(asked(models, "for-ever"))
    said = ["--provider", "scripted", "--model", "for-ever", "--set", "execution.max_tool_rounds=2"]
    assert node.cli("spawn", "brief", *said).returncode == 0
    answer = node.api.send("brief", "go", wait_s=WAIT_S)
    assert (answer["status"], "after 2 rounds" in answer["reply"]) == ("error", True)
    assert len(asked(models, "for-ever")) == before + 3, "and once more, without tools"
    shown = node.cli("trace", "--pid", "brief").stdout
    assert "questions to models: 3" in shown and "calls of tools: 2" in shown and "completion 0.00" in shown


def test_a_model_nobody_serves_is_an_honest_reply(node: LiveNode) -> None:
    answer = node.talk("nobody", "no-such-model")
    assert (answer["status"], "404" in answer["reply"]) == ("error", True)
