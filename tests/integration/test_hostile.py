"""A live node among enemies: at its sockets, in its cells, in its messages. Each is refused by name."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest

from kernel.operations.rights.budgets import Budget
from tests.integration.effects import Effects
from tests.integration.live_node import WAIT_S, Json, LiveNode, alive, until
from weftos import Client, WeftosError

EXTRA = "[limits]\nmailbox_messages = 3\n"


@pytest.fixture(scope="module", autouse=True)
def hanging(node: LiveNode) -> Iterator[list[WeftosError]]:
    """A spawn whose constructor hangs, begun before everything else: its ten seconds pass meanwhile."""
    refusals: list[WeftosError] = []

    def spawn() -> None:
        with Client(node.data) as client:
            try:
                client.spawn("hanging", behaviour="start_hangs", restart="temporary")
            except WeftosError as error:
                refusals.append(error)

    thread = threading.Thread(target=spawn)
    thread.start()
    yield refusals
    thread.join(WAIT_S)
    assert not thread.is_alive()


@pytest.fixture(autouse=True)
def lives_on(node: LiveNode) -> Iterator[None]:
    """Whatever a test did, the same node process still works afterwards."""
    before = node.os_pid
    yield
    assert node.api.status()["os_pid"] == before
    assert node.running


def dial(node: LiveNode, name: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(WAIT_S)
    connection.connect(str(Path(node.api.status()["runtime"]) / name))
    return connection


def frame(boot: int, value: object) -> bytes:
    payload: bytes = msgpack.packb(value)
    return len(payload).to_bytes(4, "big") + boot.to_bytes(8, "big") + payload


def boot_of(node: LiveNode) -> int:
    return int(node.api.status()["boot"], 16)


def is_closed(connection: socket.socket) -> bool:
    """Whether the other end closes without an answer."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def refusals(node: LiveNode) -> list[str]:
    return [line["event"] for line in node.log_lines() if "visitor at the door for cells" in line["event"]]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (lambda boot: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "announced"),
        (lambda boot: b"\xff" * 64, "announced"),
        (lambda boot: (16 * 2**20).to_bytes(4, "big") + boot.to_bytes(8, "big"), "limit 4096"),
        (lambda boot: frame(boot - 1, ["hello", "x" * 32, os.getpid(), 1]), "this is boot"),
        (lambda boot: frame(boot, ["hello", "x" * 32, os.getpid(), 1]), "not expected"),
        (lambda boot: frame(boot, ["started", 7]), "not a hello"),
        (lambda boot: frame(boot, {"hello": 1}), "not a hello"),
        (lambda boot: (3).to_bytes(4, "big") + boot.to_bytes(8, "big") + b"\xc1\xc1\xc1", "not msgpack"),
    ],
    ids=["http", "noise", "oversized", "old boot", "made-up token", "no hello", "no list", "no msgpack"],
)
def test_nobody_gets_in_at_the_cells_door(node: LiveNode, said: object, words: str) -> None:
    before = len(refusals(node))
    with dial(node, "cells.sock") as connection:
        connection.sendall(said(boot_of(node)))  # type: ignore[operator]  # one of the callables above
        assert is_closed(connection)
    until(lambda: len(refusals(node)) > before, "the refusal is in the log")
    assert words in refusals(node)[-1]


def test_a_token_that_a_cell_has_used_opens_nothing(node: LiveNode) -> None:
    node.api.spawn("thief", behaviour="traitor", restart="temporary")
    token = node.api.send("thief", "token", wait_s=WAIT_S)["reply"]
    with dial(node, "cells.sock") as connection:
        connection.sendall(frame(boot_of(node), ["hello", token, os.getpid(), 1]))
        assert is_closed(connection)
    until(lambda: "stale, used before, or made up" in "\n".join(refusals(node)), "the refusal is in the log")
    assert node.row("thief")["state"] == "running"


def test_a_crowd_at_the_door_does_not_keep_a_new_cell_out(node: LiveNode) -> None:
    with contextlib.ExitStack() as crowd:
        for _ in range(100):
            crowd.enter_context(dial(node, "cells.sock"))
    node.api.spawn("late", isolation="dedicated")
    assert "391" in node.api.send("late", "what is 17*23", wait_s=WAIT_S)["reply"]


@pytest.mark.parametrize(
    "lie",
    [
        ["done", 1, "t", {"reply": "x"}],
        ["call", 999_999, "t", 0, 0, "tool", {"name": "calculator", "arguments": "{}"}],
        ["call", "me", "another turn", 0, 0, "now", {}],
        ["call", "me", "me", -1, 0, "now", {}],
        ["started", "me"],
        ["exited", 2, "normal"],
        ["reboot"],
        ["log", "me", 7],
        [],
        {"a": 1},
    ],
    ids=lambda lie: json.dumps(lie)[:30],
)
def test_a_cell_that_lies_is_killed_and_its_message_kept(node: LiveNode, lie: object) -> None:
    name = f"liar-{uuid.uuid4().hex[:6]}"
    node.api.spawn(name, behaviour="traitor", restart="temporary")
    cell, bystander = node.row(name), node.row("user")
    message = node.api.send(name, json.dumps(lie))["message"]
    letters = until(
        lambda: [letter for letter in node.api.deadletters() if letter["id"] == message],
        "its message is dead",
    )
    assert name in letters[0]["why"]
    assert node.row("user")["pid"] == bystander["pid"]
    [exit] = [entry for entry in node.entries("process.exited") if entry["pid"] == cell["pid"]]
    assert exit["reason"] in ("crash", "cell_lost")
    until(lambda: not alive(cell["os_pid"]), "its cell is gone")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x00\xff" * 5000,
        b"GET /v1/status HTTP/1.1\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        b'POST /v1/send HTTP/1.1\r\nHost: w\r\nContent-Length: 5\r\nContent-Type: application/json\r\n\r\n{"a":',
        b"POST /v1/send HTTP/1.1\r\nHost: w\r\nContent-Length: 999999999999\r\nContent-Type: application/json\r\n\r\n{",
        b"DELETE /v1/processes HTTP/1.1\r\nHost: w\r\n\r\n",
        b"GET /v1/../../etc/passwd HTTP/1.1\r\nHost: w\r\n\r\n",
    ],
    ids=["noise", "large header", "cut json", "endless body", "method", "path"],
)
def test_the_control_socket_refuses_what_it_does_not_know(node: LiveNode, request_bytes: bytes) -> None:
    with dial(node, "control.sock") as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request_bytes)
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            answer = connection.recv(65536)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer


@contextlib.contextmanager
def refused(code: str, *words: str) -> Iterator[None]:
    """The block is refused by the node with this code and these words."""
    with pytest.raises(WeftosError) as caught:
        yield
    assert caught.value.code == code, str(caught.value)
    assert [word for word in words if word not in str(caught.value)] == [], str(caught.value)


def test_messages_to_nobody_and_to_the_stopped_are_refused(node: LiveNode) -> None:
    spawned = node.api.spawn("sleeper")
    node.api.stop("sleeper")
    dead = len(node.api.deadletters())
    with refused("refused", "/user/sleeper is stopped", "weftos start"):
        node.api.send("sleeper", "hello")
    with refused("not_found", "no process 99999"):
        node.api.send(99999, "hello")
    with refused("not_found", "no process named nobody"):
        node.api.send("nobody", "hello")
    with refused("refused", "supervisor"):
        node.api.send("/user", "hello")
    node.api.start("/user/sleeper")
    with refused("not_found", "its successor at /user/sleeper is"):
        node.api.send(spawned["pid"], "hello")
    assert len(node.api.deadletters()) == dead
    whys = [entry["why"] for entry in node.entries("message.refused")]
    assert any("is stopped" in why for why in whys)


def test_a_full_mailbox_is_an_error_to_the_sender(node: LiveNode, effects: Effects) -> None:
    node.api.spawn("full", behaviour="planner", tools=["look"])
    effects.hold("full")
    call = json.dumps([["look", {"port": effects.port, "effect": "full"}]])
    sent = [node.api.send("full", call)["message"] for _ in range(3)]
    effects.await_count("full")
    with refused("busy", "mailbox of /user/full is full", "limit 3"):
        node.api.send("full", call)
    effects.release("full")
    until(lambda: node.row("full")["mailbox"] == 0, "all that was accepted is handled")
    assert len(set(sent)) == 3


def test_a_message_over_the_limit_is_refused(node: LiveNode) -> None:
    node.api.spawn("reader")
    with refused("invalid", "limit 262144"):
        node.api.send("reader", "x" * 262_145)


@pytest.mark.parametrize("framing", ["Content-Length: 1073741824", "Transfer-Encoding: chunked"])
def test_a_message_of_a_gigabyte_is_refused_long_before_it_was_read(node: LiveNode, framing: str) -> None:
    piece = b"x" * 65536
    piece = b"%x\r\n%s\r\n" % (len(piece), piece) if "chunked" in framing else piece
    sent = 0
    with dial(node, "control.sock") as connection:
        head = f"POST /v1/send HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\n{framing}\r\n\r\n"
        connection.sendall(head.encode())
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while sent < 2**30 and not select.select([connection], [], [], 0)[0]:
                connection.sendall(piece)
                sent += len(piece)
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413") and sent < 2**24, sent


@pytest.mark.parametrize("supervisor", ["own", "/user/own"])
def test_a_supervisor_that_would_be_its_own_is_refused(node: LiveNode, supervisor: str) -> None:
    with refused("not_found", "own"):
        node.api.spawn("own", supervisor=True, under=supervisor)
    assert not [row for row in node.api.ps(all=True) if row["name"] == "own"]


def test_an_agent_makes_no_supervisors_however_it_asks(node: LiveNode) -> None:
    node.api.spawn("bomber", behaviour="planner", tools=["spawn_agent"])
    asked: list[Json] = [
        {"supervisor": True},
        {"strategy": "one_for_one"},
        {"behaviour": "supervisor"},
        {"type": "supervisor"},
    ]
    results = node.plan(
        "bomber", *(("spawn_agent", {"name": f"s{n}", **more}) for n, more in enumerate(asked))
    )
    assert [result["status"] for result in results] == ["error"] * len(asked), results
    assert not [row for row in node.api.ps(all=True) if row["address"].startswith("/user/bomber/")]


def test_an_agent_that_multiplies_without_end_is_ended_by_its_budget(node: LiveNode) -> None:
    budget = Budget(tool_calls=40, then="stop")
    node.api.spawn("rabbit", behaviour="multiplier", tools=["spawn_agent"], budget=budget)
    node.api.send("rabbit", "100000")
    until(lambda: node.api.inspect("/user/rabbit")["slot"] == "stopped", "it is ended")
    made = [row for row in node.api.ps(all=True) if row["address"].startswith("/user/rabbit/")]
    assert 0 < len(made) <= 40
    spent = [entry for entry in node.entries("budget.warned") if entry["percent"] == 100]
    assert [entry["address"] for entry in spent] == ["/user/rabbit"]


def test_bytes_that_are_no_text_are_refused_where_they_enter(node: LiveNode) -> None:
    node.api.spawn("scribe")
    sent = node.cli("send", "scribe", "\udcff")  # what Python makes of the byte ff in argv, and back
    assert (sent.returncode, "'\\udcff' is no character" in sent.stderr) == (1, True), sent.stderr
    with dial(node, "control.sock") as connection:
        body = b'{"target": "scribe", "text": "what is 17*23 \\ud800", "session": "s", "wait_s": 600}'
        head = f"POST /v1/send HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        connection.sendall(head.encode() + b"\r\nConnection: close\r\n\r\n" + body)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200")


def test_asks_that_would_wait_for_each_other_are_refused(node: LiveNode) -> None:
    for name in ("a1", "b1", "c1"):
        node.api.spawn(name, behaviour="planner", tools=["ask"])

    def ask(target: str, then: str) -> str:
        return json.dumps([["ask", {"to": target, "text": then}]])

    answer = node.api.send("a1", ask("b1", ask("c1", ask("a1", "[]"))), wait_s=WAIT_S)
    assert answer["status"] == "ok"
    reply = answer["reply"]
    assert "would wait for itself: /user/c1 -> /user/a1 -> /user/b1 -> /user/c1" in reply
    [alone] = node.plan("a1", ("ask", {"to": "a1", "text": "[]"}))
    assert (alone["status"], "would wait for itself" in alone["text"]) == ("error", True)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("calculator", "x", 10_000_000), "262144"),
        (("calculator", " ", 300_000), "262144"),
        (("calculator", "[", 100_000), ""),
        (("calculator", '{"expression": "9**9**9**9"}'), ""),
        (("file_read", {"path": "../../../../etc/passwd"}), ""),
        (("file_read", {"path": "/etc/passwd"}), ""),
        (("no\x1b[31m_tool", {}), "there is no tool"),
    ],
    ids=["10 MB", "blanks", "deep", "tower", "up", "absolute", "escape"],
)
def test_a_hostile_call_is_refused_as_data(node: LiveNode, call: tuple[object, ...], words: str) -> None:
    name = f"caller-{uuid.uuid4().hex[:6]}"
    node.api.spawn(name, behaviour="planner", tools=["calculator", "file_read"])
    [made] = node.plan(name, call)
    assert made["status"] in ("error", "denied"), made
    assert words in made["text"]
    assert len(made["text"]) < 2000
    assert node.row(name)["restarts"] == 0


def test_a_tool_that_ends_its_process_is_lost_after_three_attempts(node: LiveNode) -> None:
    node.api.spawn("miner", behaviour="planner", tools=["dies", "worker_pid"])
    lost, after = node.plan("miner", ("dies", {}), ("worker_pid", {}))
    assert (lost["status"], "not known to be done" in lost["text"]) == ("lost", True), lost
    attempts = [entry["attempt"] for entry in node.entries("tool.intent") if entry["tool"] == "dies"]
    assert attempts == [1, 2, 3]
    assert after["status"] == "ok"


def test_a_tool_that_hangs_is_ended_in_time_and_one_that_floods_is_cut(node: LiveNode) -> None:
    node.api.spawn("patient", behaviour="planner", tools=["hangs", "floods", "worker_pid"])
    before, late, flood, after = node.plan(
        "patient", ("worker_pid", {}), ("hangs", {}), ("floods", {}), ("worker_pid", {})
    )
    assert late["status"] == "timeout"
    assert (flood["status"], flood["truncated"], len(flood["text"])) == ("ok", True, 65536)
    assert after["text"] != before["text"]
    until(lambda: before["text"] not in [line.split()[0] for line in node.left(node.os_pid)], "it is gone")


def test_a_cancelled_turn_ends_at_once_and_its_call_is_in_doubt(node: LiveNode, effects: Effects) -> None:
    node.api.spawn("hasty", behaviour="planner", tools=["count"])
    effects.hold("cancelled")
    call = json.dumps([["count", {"port": effects.port, "effect": "cancelled"}]])
    message = node.api.send("hasty", call)["message"]
    effects.await_count("cancelled")
    node.api.cancel("hasty")
    [end] = until(lambda: node.ended(message), "the turn ends")
    assert end["status"] == "cancelled"
    assert node.plan("hasty") == []
    effects.release("cancelled")

    def outcome() -> list[str]:
        return [entry["status"] for entry in node.entries("tool.outcome") if entry["turn"] == end["turn"]]

    until(outcome, "the outcome is in the ledger")
    assert outcome() == ["in_doubt"]
    node.api.doubts.resolve(f"{end['turn']}:0.0", "done")
    assert effects.count("cancelled") == 1
    with refused("not_found", "no open turn"):
        node.api.cancel("hasty")


def test_what_a_tool_says_is_shown_and_not_obeyed(node: LiveNode) -> None:
    node.api.spawn("quoter", behaviour="planner", tools=["hostile"])
    sent = node.cli("send", "quoter", '[["hostile", {}]]', "--wait")
    assert sent.returncode == 0
    [entry] = [entry for entry in node.entries("tool.outcome") if entry["tool"] == "hostile"]
    assert "\x1b]0;owned\x07" in entry["result"]
    for words in (
        ("chain", "show", str(entry["seq"])),
        ("chain", "why", str(entry["seq"])),
        ("inspect", "quoter"),
    ):
        done = node.cli(*words)
        assert done.returncode == 0, done.stderr
        assert not [mark for mark in ("\x1b", "\x07", "\u202e") if mark in done.stdout + done.stderr]


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("broken", "this import fails"),
        ("exiting", "SystemExit"),
        ("start_raises", "no such start"),
    ],
)
def test_a_behaviour_that_does_not_start_is_refused_with_its_reason(
    node: LiveNode, behaviour: str, words: str
) -> None:
    with refused("refused", f"/user/{behaviour} did not start", words):
        node.api.spawn(behaviour, behaviour=behaviour)
    assert f"/user/{behaviour}" not in [row["address"] for row in node.api.ps()]
    assert len(node.logged("process did not start", words)) == 1


def test_a_behaviour_that_raises_crashes_its_process_and_its_message_is_poison_in_the_end(
    node: LiveNode,
) -> None:
    node.api.spawn("raises", behaviour="raises")
    message = node.api.send("raises", "always")["message"]
    [letter] = until(
        lambda: [letter for letter in node.api.deadletters() if letter["id"] == message], "it is poison"
    )
    assert "poison: 5 incarnations crashed" in letter["why"]
    crash = node.logged("process crashed")[0]
    assert not any(
        "always" in str(value) for value in crash.values()
    )  # it quotes the message, and nobody erases logs
    until(
        lambda: "always" in json.dumps(node.api.log(kind="process.exited")["rows"]),
        "the crash is in the archive",
    )
    assert node.row("raises")["slot"] in ("running", "restarting", "parked")


def test_a_spawn_cannot_name_code_or_show_the_nodes_files(node: LiveNode) -> None:
    with refused("invalid", "not configured"):
        node.api.spawn("x", behaviour="os:system")
    with refused("invalid", "no tool"):
        node.api.spawn("x", tools=["probe_tools:count"])
    with refused("refused", "the node's own files"):
        node.api.spawn("x", workspace=str(node.data / "keys"))
    with refused("invalid", "provider"):
        node.api.spawn("x", provider="nobody")
    for name in ("../x", "a/b", "7", "a" * 65, "", "x@y", "\x1b"):
        with refused("invalid"):
            node.api.spawn(name)


def test_a_start_that_hangs_is_ended_after_ten_seconds(node: LiveNode, hanging: list[WeftosError]) -> None:
    until(lambda: hanging, "the spawn is refused")
    assert hanging[0].code == "refused"
    assert "/user/hanging did not start: timeout" in str(hanging[0])
    assert "/user/hanging" not in [row["address"] for row in node.api.ps()]
