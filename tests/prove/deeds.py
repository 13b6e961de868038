"""Proof: what a session has done is never lost, and a turn costs no more however many there were before it.

A model that has no memory but what it is shown, behind a server of this process. It does what it is asked to do once,
and says of what was done what the messages before it say: so an effect that no message tells of is done again, or
denied. The session is long, its room small: turns slide out, summaries (which tell of no deed at all) take their place,
the window fills and is compacted; twice the node is killed.

    python tests/prove/run.py --part deeds
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from rich.console import Console

from cognition.history.summary import PROMPT
from tests.integration.live_node import WAIT_S, LiveNode
from tests.prove.report import Findings

TURNS, QUICK_TURNS = 300, 90
GROWTH_TURNS, QUICK_GROWTH_TURNS = 2_000, 400
EACH = 100
"""Turns of which bytes and time are taken together."""
FLAT = 0.2
"""By how much the last of a fitted line may be above the first."""
CONFIGURATION = """
[agent]
context_window = 6_500
[agent.history]
max_tokens = 2_600
[providers.forgetful]
kind = "openai"
base_url = "http://127.0.0.1:{port}/v1"
model = "m"
[model]
default_provider = "forgetful"
"""


class Forgetful:
    """Answers from what it is shown. ``summaries``: how many it was asked for."""

    def __init__(self) -> None:
        self.summaries = 0

    def answer(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """The message of the assistant."""
        if str(messages[0].get("content")).startswith(PROMPT[:60]):
            self.summaries += 1
            return said("They talked about this and that.\nFACT: the user speaks of tasks")
        asked = max(at for at, each in enumerate(messages) if each["role"] == "user" and is_request(each))
        verb, _, name = str(messages[asked]["content"]).partition(" ")
        name = name.split()[0]
        if any(each["role"] == "tool" for each in messages[asked:]):
            return said("It is done.")
        known = f"{name}.txt" in json.dumps(messages[:asked])
        if verb == "do" or (verb == "ensure" and not known):
            arguments = json.dumps({"path": f"{name}.txt", "content": name})
            call = {
                "id": f"call-{name}",
                "type": "function",
                "function": {"name": "file_write", "arguments": arguments},
            }
            return {"role": "assistant", "content": "", "tool_calls": [call]}
        if verb in ("was", "ensure"):
            return said("yes" if known else "no")
        return said("I hear you. " + "Indeed, as you say. " * 12)


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def is_request(message: dict[str, Any]) -> bool:
    """Whether it is of the proof, and not of the node."""
    return str(message.get("content")).split(" ")[0] in ("do", "was", "ensure", "talk")


@contextmanager
def served(model: Forgetful) -> Iterator[int]:
    """The model behind a port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            message = model.answer(body["messages"])
            usage = {"prompt_tokens": len(json.dumps(body)) // 4, "completion_tokens": 9}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            data = json.dumps({"choices": [choice], "usage": usage}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def prove_deeds(console: Console, seed: str, quick: bool) -> bool:
    """Both parts. True when everything held."""
    findings = Findings()
    _never_lost(findings, random.Random(seed), QUICK_TURNS if quick else TURNS)
    _flat(console, findings, QUICK_GROWTH_TURNS if quick else GROWTH_TURNS)
    findings.print(console)
    return not findings.bad


@contextmanager
def _node(model: Forgetful) -> Iterator[LiveNode]:
    with served(model) as port:
        node = LiveNode(configuration=CONFIGURATION.format(port=port))
        try:
            node.up()
            yield node
            node.down()
        finally:
            node.end()


def _never_lost(findings: Findings, chance: random.Random, turns: int) -> None:
    model, done, wrong, answers = Forgetful(), list[str](), list[str](), 0
    with _node(model) as node:
        node.api.spawn("ada", tools=["file_write"])
        for turn in range(turns):
            if turn in (turns // 3, 2 * turns // 3):
                node.kill()
                node.up()
            if turn % 3 == 0:
                done.append(f"task-{turn:03}")
                ask(node, f"do {done[-1]}")
            elif turn % 3 == 1:
                ask(node, f"talk {'about the weather ' * 20}")
            else:
                verb, name = chance.choice(("was", "ensure")), chance.choice([*done, *done, "task-none"])
                verb = "was" if name == "task-none" else verb
                expected = "no" if name == "task-none" else "yes"
                answers += 1
                if (got := ask(node, f"{verb} {name} done?")) != expected:
                    wrong.append(f"turn {turn}, {verb} {name}: {got}")
        writes = Counter(json.loads(each["arguments"])["path"] for each in node.entries("tool.proposed"))
        compactions = [each["state"] for each in node.entries("sys.compaction")]
        memory = node.data / "workspaces" / "user+" / "ada" / "MEMORY.md"
        flushed = memory.read_text().count("the user speaks of tasks") if memory.exists() else 0
    findings.figure("turns, deeds, questions about them", f"{turns}, {len(done)}, {answers}")
    findings.figure(
        "summaries that a model was asked for, and that are done on record",
        f"{model.summaries}, {compactions.count('done')}",
    )
    findings.check("each question about a deed is answered as it was", wrong)
    findings.check("each deed was done once", [f"{name}: {n}" for name, n in writes.items() if n != 1])
    findings.check("all deeds were done", [name for name in done if f"{name}.txt" not in writes])
    findings.check(
        "the session was put into fewer words many times",
        [] if model.summaries >= turns // 40 else ["it was not"],
    )
    findings.check("a fact stands in MEMORY.md once", [] if flushed == 1 else [f"{flushed} times"])


def _flat(console: Console, findings: Findings, turns: int) -> None:
    model, rows = Forgetful(), list[tuple[float, float]]()
    with _node(model) as node:
        node.api.spawn("ada", tools=["file_write"])
        for begin in range(0, turns, EACH):
            before = _spent(node)
            for turn in range(begin, begin + EACH):
                ask(node, f"do task-{turn}" if turn % 10 == 0 else f"talk {'about the weather ' * 20}")
            after = _spent(node)
            rows.append(((after[0] - before[0]) / EACH, (after[1] - before[1]) / EACH))
            console.print(
                f"  turns {begin:5} to {begin + EACH:5}: {rows[-1][0]:8.0f} bytes, {rows[-1][1]:6.2f} ms a turn"
            )
    warm = rows[len(rows) // 10 + 1 :]
    for name, values in (
        ("bytes of ledger", [row[0] for row in warm]),
        ("ms of processor", [row[1] for row in warm]),
    ):
        first, last = fitted(values)
        findings.figure(f"{name} a turn, fitted: at first, at last", f"{first:.1f}, {last:.1f}")
        grew = last > first * (1 + FLAT)
        findings.check(
            f"{name} a turn stay flat over {turns} turns", [f"{first:.1f} to {last:.1f}"] if grew else []
        )


def ask(node: LiveNode, text: str) -> str:
    answer = node.api.send("ada", text, wait_s=WAIT_S)
    assert answer["status"] == "ok", answer
    return str(answer["reply"])


def fitted(values: list[float]) -> tuple[float, float]:
    """The line of least squares through values at equal distances: where it begins, and where it ends."""
    n = len(values)
    middle, mean = (n - 1) / 2, sum(values) / n
    spread = sum((at - middle) ** 2 for at in range(n)) or 1
    slope = sum((at - middle) * (value - mean) for at, value in enumerate(values)) / spread
    return mean - slope * middle, mean + slope * (n - 1 - middle)


def _spent(node: LiveNode) -> tuple[int, float]:
    """Bytes of the ledger, and ms of processor that the node itself has used."""
    size = sum(file.stat().st_size for file in (node.data / "journal").rglob("*") if file.is_file())
    fields = Path(f"/proc/{node.os_pid}/stat").read_text().rpartition(")")[2].split()
    return size, (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")
