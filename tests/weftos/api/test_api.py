"""The control API and its client, against an in-memory twin of the kernel, on a real Unix socket."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from kernel.errors import Invalid, KernelError, MailboxFull, NotFound, TimedOut, Unavailable
from kernel.helper.os_session import directory_mark
from kernel.operations.spawning import SpawnAllRequest, SpawnRequest
from tests.descriptors import refusals_at_once
from tests.integration.live_node import until
from tests.patience import HANG_S
from tests.weftos.twins.control_twin import BOOTED, Twin, served
from weftos import Client, WeftosError
from weftos.api.api import MAX_BODY_BYTES
from weftos.api.listener import Listener
from weftos.api.openapi import document


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[Twin, Path]]:
    """One served twin for all tests of this file that do not stop it."""
    twin = Twin()
    with served(twin) as data:
        yield twin, data


@pytest.fixture
def twin(service: tuple[Twin, Path]) -> Twin:
    service[0].__init__()  # type: ignore[misc]  # as good as new, for each test
    return service[0]


@pytest.fixture
def data(twin: Twin, service: tuple[Twin, Path]) -> Path:
    return service[1]


@pytest.fixture
def node(data: Path) -> Iterator[Client]:
    with Client(data) as client:
        yield client


def raw(data: Path) -> httpx.Client:
    return httpx.Client(
        transport=httpx.HTTPTransport(uds=str(data / "control.sock"), verify=False),
        base_url="http://weftos",
        timeout=HANG_S,
    )


def test_the_socket_is_the_owners_alone(data: Path) -> None:
    assert stat.S_IMODE((data / "control.sock").stat().st_mode) == 0o600


def test_a_stopped_listener_leaves_no_socket(twin: Twin, data: Path) -> None:
    async def start_and_stop() -> list[bool]:
        listener = Listener(twin, path)
        await listener.start()
        seen = [path.exists()]
        await listener.stop()
        return [*seen, path.exists()]

    path = data / "other.sock"
    assert asyncio.run(start_and_stop()) == [True, False]


def test_a_listener_stops_when_it_is_told_and_not_at_its_next_tick(
    twin: Twin, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start_and_stop() -> None:
        listener = Listener(twin, data / "other.sock")
        await listener.start()
        async with asyncio.timeout(HANG_S):
            await listener.stop()

    monkeypatch.setattr("weftos.api.listener.DATE_S", 100 * HANG_S)
    asyncio.run(start_and_stop())


def test_no_descriptor_for_who_calls_is_said_once(
    twin: Twin, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def called() -> int:
        listener = Listener(twin, data / "other.sock")
        await listener.start()
        try:
            return await refusals_at_once(str(data / "other.sock"), monkeypatch)
        finally:
            await listener.stop()

    assert asyncio.run(called()) == 1


def test_spawn_carries_every_field_and_the_operator(node: Client, twin: Twin) -> None:
    answer = node.spawn(
        "ada",
        behaviour="agent",
        under="/user/team",
        tools=["calculator"],
        restart="transient",
        isolation="dedicated",
        provider="offline",
        model="m",
        system_prompt="be brief",
        workspace="w",
    )
    assert answer == {"address": "/user/team/ada", "pid": 40, "name": "ada"}
    operator, request = twin.calls[-1][1:]
    assert operator == {"uid": os.getuid(), "os_pid": os.getpid()}
    assert request == SpawnRequest(
        name="ada",
        under="/user/team",
        tools=("calculator",),
        restart="transient",
        isolation="dedicated",
        provider="offline",
        model="m",
        system_prompt="be brief",
        workspace="w",
    )


def test_a_supervisor_has_an_intensity_and_a_strategy(node: Client, twin: Twin) -> None:
    node.spawn("team", supervisor=True, intensity=(3, 10), strategy="one_for_all")
    assert twin.calls[-1][2] == SpawnRequest(
        name="team", supervisor=True, intensity=(3, 10), strategy="one_for_all"
    )


def test_many_spawns_are_one_request(node: Client, twin: Twin) -> None:
    workers = [SpawnRequest("w", tools=["calculator"], intensity=None), SpawnRequest("team", supervisor=True)]
    assert node.spawn_all(workers, count=2) == {"spawned": [], "failed": []}
    told = (replace(workers[0], tools=("calculator",)), workers[1])
    assert twin.calls[-1][2] == SpawnAllRequest(told, count=2)


@pytest.mark.parametrize(
    "body, words",
    [
        ({"spawns": []}, "spawns: .*at least 1 item"),
        ({"spawns": [{"name": "a", "colour": "red"}]}, r"spawns\.0\.colour"),
        ({"spawns": [{"behaviour": "agent"}]}, r"spawns\.0\.name: missing"),
        ({"spawns": [{"name": "a"}], "count": 0}, "count: .*greater than or equal to 1"),
        ({"spawns": [{"name": "a"}, {"name": "b"}], "count": 1000}, "2000 children in one request"),
        ({"spawns": [{"name": ""}]}, "name is empty"),
    ],
)
def test_a_request_of_many_is_looked_through(data: Path, body: Any, words: str) -> None:
    with raw(data) as http:
        answer = http.post("/v1/spawn-all", json=body)
    assert answer.status_code == 422 and re.search(words, answer.json()["error"]["message"])


def test_default_tools_and_no_tools_are_different_requests(node: Client, twin: Twin) -> None:
    node.spawn("default")
    node.spawn("bare", tools=[])
    assert [call[2].tools for call in twin.calls] == [None, ()]


def test_targets_texts_and_ids_arrive_as_they_were_given(node: Client, twin: Twin) -> None:
    twin.names = {"/user/a b?&/ü": 5}
    hostile = "line\n\x1b[31m‮ [link=x]é"
    node.send("/user/a b?&/ü", hostile, session="s")
    assert twin.calls[-1][2:] == ("/user/a b?&/ü", hostile, "s", None)
    assert node.inspect("/user/a b?&/ü")["pid"] == 5
    node.deadletter("../d/1?x")
    assert twin.calls[-1] == ("deadletter", "../d/1?x")
    node.replay("d/1")
    assert [call[2] for call in twin.calls[-1:]] == ["d/1"]


def test_process_commands_reach_the_kernel(node: Client, twin: Twin) -> None:
    twin.names = {"42": 42}
    node.cancel(42)
    node.stop("42")
    node.kill(42, signal="kill", why="too slow")
    node.remove("42")
    node.remove("/user/x", recursive=True)
    node.start("/user/x")
    node.doubts.resolve("q", "done")
    node.logs(42, limit=3)
    node.log(pid=42, kind="tool.intent", limit=5)
    assert [(call[0], *call[2:]) if isinstance(call[1], dict) else call for call in twin.calls] == [
        ("cancel", "42", "", ""),
        ("stop", "42", ""),
        ("kill", "42", "too slow", "kill"),
        ("remove", "42", False),
        ("remove", "/user/x", True),
        ("start", "/user/x"),
        ("resolve", "q", "done"),
        ("logs", "42", 3),
        ("log", 42, "tool.intent", 5),
    ]


def test_send_waits_for_the_reply(node: Client) -> None:
    assert node.send("x", "hello", wait_s=5)["reply"] == "HELLO"


@pytest.mark.parametrize("blanks", [0, 500_000])
def test_what_nobody_waits_for_any_more_is_given_up(
    node: Client, data: Path, twin: Twin, blanks: int
) -> None:
    body = b'{"target": "x", "text": "nobody ever answers", "wait_s": 86400}' + b" " * blanks
    head = (
        b"POST /v1/send HTTP/1.1\r\nhost: w\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    )
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(data / "control.sock"))
        connection.sendall(head % len(body) + body)
        until(lambda: any(call[0] == "send" for call in twin.calls), "the send is heard")
        assert ("given up", "x") not in twin.calls
    until(lambda: ("given up", "x") in twin.calls, "it is given up")


def test_a_request_with_a_great_many_faults_is_refused_for_one(data: Path, twin: Twin) -> None:
    with raw(data) as http:
        many = http.post("/v1/spawn", json={"name": "x", "tools": [1] * 200_000}).json()["error"]["message"]
        assert "tools" in many and ";" not in many
        many = http.post("/v1/spawn", json={"name": "x", "tools": ["a"] * 101}).json()["error"]["message"]
        assert "at most 100" in many
        wide = http.post("/v1/spawn", json={str(number): 1 for number in range(50_000)}).json()
        assert wide["error"]["message"] == "the body has 50000 fields: no request has so many"


def test_a_listing_longer_than_one_slice_is_whole(node: Client, twin: Twin) -> None:
    twin.names = {f"p{number}": number for number in range(600)}
    assert [row["pid"] for row in node.ps()] == list(range(600))
    assert [row["pid"] for row in node.ps(limit=300)] == list(range(300))
    twin.names = {f"p{number}": number for number in range(256)}
    assert [row["pid"] for row in node.ps()] == list(range(256))
    twin.names = {}
    assert node.ps(all=True) == []
    assert twin.calls == [
        ("ps", False, "", 256), ("ps", False, "/user/p255", 256), ("ps", False, "/user/p511", 256),
        ("ps", False, "", 256), ("ps", False, "/user/p255", 44),
        ("ps", False, "", 256), ("ps", False, "/user/p255", 256),
        ("ps", True, "", 256),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("failure", "code", "status"),
    [
        (NotFound("no such thing"), "not_found", 404),
        (MailboxFull("mailbox holds 1000 of 1000 messages"), "busy", 429),
        (TimedOut("late"), "timeout", 504),
        (Unavailable("no archive"), "unavailable", 503),
        (KernelError("odd"), "invalid", 422),
    ],
)
def test_kernel_errors_keep_their_code_and_words(
    node: Client, data: Path, twin: Twin, failure: KernelError, code: str, status: int
) -> None:
    twin.failure = failure
    with pytest.raises(WeftosError) as caught:
        node.status()
    assert (caught.value.code, caught.value.message) == (code, str(failure))
    with raw(data) as http:
        assert http.get("/v1/status").status_code == status


def test_a_fault_of_ours_is_an_error_and_the_node_lives_on(node: Client, twin: Twin) -> None:
    twin.failure = ZeroDivisionError("secret detail")
    with pytest.raises(WeftosError) as caught:
        node.status()
    assert caught.value.code == "internal"
    assert "ZeroDivisionError" in str(caught.value)
    assert "secret detail" not in str(caught.value)
    twin.failure = None
    assert node.status()["name"] == "twin"


def test_a_stream_comes_line_by_line_and_ends(node: Client, twin: Twin) -> None:
    twin.names = {"ada": 4}
    events = list(node.watch("ada", "one two", session="s"))
    assert [event["event"] for event in events] == ["accepted", "delta", "delta", "reply"]
    assert list(node.events()) == [BOOTED]


def test_an_error_before_or_inside_a_stream_is_raised(node: Client, twin: Twin) -> None:
    with pytest.raises(WeftosError, match="there is no process ada") as caught:
        list(node.watch("ada", "hi"))
    assert caught.value.code == "not_found"
    twin.names = {"ada": 4}
    seen = []
    with pytest.raises(WeftosError, match="gateway is not there"):
        for event in node.watch("ada", "then break"):
            seen.append(event["event"])
    assert seen == ["accepted", "delta", "delta"]


def test_a_follower_that_leaves_ends_its_stream_in_the_node(node: Client, twin: Twin) -> None:
    following = node.events(follow=True)
    assert next(following)["seq"] == 0
    assert not twin.stream_closed.is_set()
    following.close()
    assert twin.stream_closed.wait(HANG_S)


def test_who_comes_again_for_the_events_of_a_turn_says_what_he_has_seen(twin: Twin, data: Path) -> None:
    with raw(data) as http:
        head = {"last-event-id": "t7/4", "accept": "text/event-stream"}
        answer = http.get("/v1/turns/t7/events", headers=head)
        assert answer.headers["content-type"].startswith("text/event-stream")
        first, second, _ = answer.text.split("\n\n")
        assert first.splitlines()[:2] == ["id: t7/0", "event: llm_token"]
        assert json.loads(first.splitlines()[2].removeprefix("data: "))["data"] == {"text": "a\nb"}
        assert second.splitlines()[0] == "event: lost", "which has no id: it is none of the turn"
        assert twin.calls == [("events", "t7", 0, True, "t7/4")]
        lines = http.get("/v1/turns/t7/events", params={"start": 3}).text.splitlines()
        assert [json.loads(line)["offset"] for line in lines] == [3, 4]
        for wrong in ("garbage", "t8/4", "t7/-1", "t7/" + "9" * 40, "x" * 500):
            refused = http.get("/v1/turns/t7/events", headers={"last-event-id": wrong})
            assert refused.status_code == 422 and "last_event_id" in refused.json()["error"]["message"]
        twin.failure = NotFound("nothing is kept")
        broken = http.get("/v1/turns/t7/events", headers={"accept": "text/event-stream"}).text
        assert 'event: fault\ndata: {"error":{"code":"not_found"' in broken


def test_a_node_that_stops_ends_open_streams(twin: Twin) -> None:
    with served(twin) as data:
        client = Client(data)
        following = client.events(follow=True)
        next(following)
    assert twin.stream_closed.wait(HANG_S)
    with pytest.raises(WeftosError, match="the node is stopping"):
        list(following)
    client.close()


def refused(data: Path, path: str, body: Any) -> str:
    with raw(data) as http:
        answer = http.post(path, json=body)
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == "invalid"
    return str(answer.json()["error"]["message"])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            {"name": "a", "restart": "sometimes"},
            ["restart", "'permanent', 'transient' or 'temporary'", "'sometimes'"],
        ),
        ({"name": "a", "behavior": "agent"}, ["behavior", "did you mean behaviour"]),
        ({"name": "a", "import": "os:system"}, ["import", "no such field"]),
        ({}, ["name", "missing"]),
        ({"name": ""}, ["name is empty"]),
        ({"name": "a", "intensity": [5, 60]}, ["--supervisor"]),
        ({"name": "a", "strategy": "one_for_all"}, ["strategy", "--supervisor"]),
        ({"name": "a", "supervisor": True, "intensity": [-1, 60]}, ["-1/60"]),
        ({"name": "a", "supervisor": True, "tools": ["x"]}, ["leave out tools"]),
        ({"name": "a", "budget": {"tokens": True}}, ["budget.tokens"]),
        ({"name": "a", "budget": {"tool_calls": "5"}}, ["budget.tool_calls"]),
        ({"name": "a", "budget": {"time_ms": 5.0}}, ["budget.time_ms"]),
    ],
)
def test_a_wrong_spawn_says_what_is_wrong(data: Path, twin: Twin, body: Any, words: list[str]) -> None:
    message = refused(data, "/v1/spawn", body)
    assert [word for word in words if word not in message] == []
    assert twin.calls == []


def test_other_wrong_requests_say_what_is_wrong(data: Path, twin: Twin) -> None:
    assert "signal" in refused(data, "/v1/kill", {"target": "1", "signal": "hup"})
    assert "wait_s" in refused(data, "/v1/send", {"target": "1", "text": "x", "wait_s": -1})
    for amount in (True, "5", 5.0):
        grant = {"target": "1", "resource": "tokens", "amount": amount}
        assert "amount" in refused(data, "/v1/budget/grant", grant)
    assert "resolution" in refused(data, "/v1/doubts/1/resolve", {"resolution": "maybe"})
    assert "decision" in refused(data, "/v1/divergences/t1/decide", {"decision": "maybe"})
    with raw(data) as http:
        assert (
            "not JSON"
            in http.post("/v1/kill", content=b"{", headers={"content-type": "application/json"}).json()[
                "error"
            ]["message"]
        )
        assert "limit" in http.get("/v1/log?limit=1000000").json()["error"]["message"]
        unknown = http.get("/v1/nothing")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")
    assert twin.calls == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "the body: missing, and it is needed"),
        (b"null", "the body: Input should be a valid dictionary"),
        (b"{", "the body is not JSON: Expecting property name"),
        (b"[]", "the body: Input should be a valid dictionary"),
        (b'{"target":"\xff"}', "the body cannot be read: it is not UTF-8 text (byte 11)"),
        (b"[" * 100_000, "the body cannot be read: it is nested too deeply"),
        (b'{"wait_s":' + b"9" * 5_000 + b"}", "the body cannot be read: a number in it has too many digits"),
    ],
    ids=["none", "null", "cut", "list", "latin-1", "deep", "long number"],
)
def test_a_body_that_cannot_be_read_is_told_why(data: Path, twin: Twin, body: bytes, words: str) -> None:
    with raw(data) as http:
        answer = http.post("/v1/send", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid")
    assert words in answer.json()["error"]["message"]
    assert twin.calls == []


def test_the_node_serves_the_document_of_its_operations(data: Path) -> None:
    with raw(data) as http:
        assert http.get("/openapi.json").json() == json.loads(json.dumps(document()))


@pytest.mark.parametrize("declared", [True, False])
def test_an_oversized_body_is_refused_and_the_node_lives_on(data: Path, twin: Twin, declared: bool) -> None:
    body = json.dumps({"target": "1", "text": "x" * MAX_BODY_BYTES}).encode()
    pieces = (body[at : at + 65536] for at in range(0, len(body), 65536))
    with raw(data) as http:
        answer = http.post("/v1/send", content=body if declared else pieces)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
        assert str(MAX_BODY_BYTES) in answer.json()["error"]["message"]
        assert http.get("/v1/status").status_code == 200
    assert twin.calls == [("status",)]


def test_another_user_is_refused(twin: Twin) -> None:
    with served(twin, uid=os.getuid() + 1) as data, Client(data) as client:
        with pytest.raises(WeftosError, match=f"you are user {os.getuid()}") as caught:
            client.status()
        assert caught.value.code == "refused"
    assert twin.calls == []


def test_garbage_on_the_socket_does_not_end_the_node(node: Client, data: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(str(data / "control.sock"))
        stranger.sendall(b"\x00\xff garbage\r\n\r\n")
        assert stranger.recv(100).startswith(b"HTTP/1.1 400")
    assert node.status()["name"] == "twin"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"GET /v1/status HTTP/1.1\r\nhost: w\r\na:" + b"\t " * 128 + b"\0\r\n\r\n", "a run of 256 blanks"),
        (
            b"POST /v1/send HTTP/1.1\r\nhost: w\r\ntransfer-encoding: chunked\r\n\r\n1;"
            + b" " * 5000
            + b"\n\r\n",
            "a line of the chunked body",
        ),
    ],
)
def test_what_takes_the_parser_long_is_not_parsed(node: Client, data: Path, said: bytes, words: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(HANG_S)
        connection.connect(str(data / "control.sock"))
        connection.sendall(said)
        answer = b"".join(iter(lambda: connection.recv(65_536), b"")).decode()
    assert answer.startswith("HTTP/1.1 400 ") and words in answer
    assert node.status()


def test_without_a_node_the_error_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(WeftosError, match=f"weftos up --data {tmp_path}") as caught:
        Client(tmp_path)
    assert caught.value.code == "not_running"
    record = {"runtime": str(tmp_path), "directory": directory_mark(tmp_path)}
    (tmp_path / "boot.json").write_text(json.dumps(record))
    with Client(tmp_path) as client, pytest.raises(WeftosError) as caught:
        client.status()
    assert caught.value.code == "not_running"


def test_a_copied_data_directory_does_not_lead_to_the_node_on_the_original(
    data: Path, node: Client, tmp_path: Path
) -> None:
    shutil.copy(data / "boot.json", tmp_path)
    with pytest.raises(WeftosError, match=f"no node runs on {tmp_path}"):
        Client(tmp_path)
    assert node.status()["name"] == "twin"


def test_what_is_no_text_is_refused_before_it_is_sent(node: Client) -> None:
    wrong: tuple[Callable[[], object], ...] = (
        lambda: node.send("ada", "caf\udce9"),
        lambda: node.inspect("caf\udce9"),
    )
    for said in wrong:
        with pytest.raises(WeftosError, match="UTF-8") as caught:
            said()
        assert caught.value.code == "invalid"


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_certificates_are_nothing_to_a_client_of_a_unix_socket(
    twin: Twin, data: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setattr("ssl.SSLContext.load_verify_locations", None)
    with Client(data) as node:
        assert node.status()["name"] == "twin"


def test_an_unreadable_boot_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "boot.json").write_text("[]")
    with pytest.raises(WeftosError, match=r"boot\.json"):
        Client(tmp_path)


def test_a_socket_path_that_is_too_long_is_refused_with_its_length(twin: Twin, tmp_path: Path) -> None:
    path = tmp_path / ("x" * 120) / "control.sock"
    with pytest.raises(Invalid, match=rf"{len(str(path))} bytes, the limit is 107"):
        asyncio.run(Listener(twin, path).start())


def test_shutdown_is_answered(node: Client, twin: Twin) -> None:
    node.shutdown()
    assert twin.stopping.is_set()
