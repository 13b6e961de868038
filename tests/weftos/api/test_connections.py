"""Half-sent requests, however many, keep nobody out of the control API."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tests.weftos.twins.control_twin import Twin, served
from weftos import Client, WeftosError
from weftos.api.connections import OWN_PROCESSES, UNKNOWN, ConnectionLimits, Connections, caller_of

SMALL = ConnectionLimits(total=8, per_caller=4, reserved=2)
HALF_A_HEADER = b"GET /v1/status HTTP/1.1\r\nHost: w"
HALF_A_BODY = (
    b"POST /v1/send HTTP/1.1\r\nHost: w\r\nContent-Length: 50\r\nContent-Type: application/json\r\n\r\n{"
)


def test_who_waits_longest_gives_way_to_a_newcomer_of_the_same_caller() -> None:
    held = Connections(SMALL)
    assert [held.admit(key, "a", key).admitted for key in range(4)] == [True] * 4
    held.busy(0)
    assert held.admit(4, "a", 4).closes == 1
    assert len(held) == 4


def test_a_caller_whose_connections_are_all_busy_gets_no_more_and_the_others_do() -> None:
    held = Connections(SMALL)
    for key in range(4):
        held.admit(key, "a", key)
        held.busy(key)
    refused = held.admit(4, "a", 4)
    assert not refused.admitted
    assert "this caller has 4 connections, limit 4: end some" in refused.why
    assert held.admit(5, "b", 5).admitted


def test_of_all_callers_the_one_who_has_most_gives_way() -> None:
    held = Connections(SMALL)
    for key, caller in enumerate("aaabbcde"):
        assert held.admit(key, caller, key).admitted
    assert held.admit(8, "f", 8).closes == 0


def test_the_last_places_are_for_who_has_none() -> None:
    held = Connections(SMALL)
    for key, caller in enumerate("aaabbb"):
        held.admit(key, caller, key)
        held.busy(key)
    assert not held.admit(6, "a", 6).admitted
    assert held.admit(7, "c", 7).admitted
    held.busy(7)
    assert held.admit(8, "d", 8).admitted
    held.busy(8)
    assert "8 connections are busy, limit 8" in held.admit(9, "e", 9).why


def test_who_waits_again_gives_way_again_and_who_left_makes_room() -> None:
    held = Connections(ConnectionLimits(total=2, per_caller=2, reserved=0))
    for key in (0, 1):
        held.admit(key, key, 0)
        held.busy(key)
    assert not held.admit(2, 2, 1).admitted
    held.waits(1, 2)
    assert held.admit(3, 3, 3).closes == 1
    held.leave(0)
    assert held.admit(4, 4, 4).closes is None


@contextlib.contextmanager
def said(data: Path, text: bytes) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(HANG_S)
        connection.connect(str(data / "control.sock"))
        with contextlib.suppress(
            ConnectionError
        ):  # refused already, having been slow: what it was told can be read
            connection.sendall(text)
        yield connection


def heard(connection: socket.socket) -> bytes:
    """All that comes until the other side closes, which has perhaps not read everything."""
    pieces = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            pieces += piece
    return pieces


@pytest.mark.parametrize("half", [b"", HALF_A_HEADER, HALF_A_BODY])
def test_five_hundred_half_sent_requests_keep_nobody_out(half: bytes) -> None:
    with served(Twin()) as data, contextlib.ExitStack() as stack:
        for _ in range(500):
            with contextlib.suppress(ConnectionError):
                stack.enter_context(said(data, half))
        with Client(data) as node:
            assert node.status()["name"]


@pytest.mark.parametrize("half", [b"", HALF_A_HEADER, HALF_A_BODY])
def test_what_does_not_come_whole_in_time_is_refused(half: bytes) -> None:
    with (
        served(Twin(), limits=ConnectionLimits(header_s=0.1, request_s=0.2)) as data,
        said(data, half) as connection,
    ):
        assert heard(connection).startswith(b"HTTP/1.1 408 Request Timeout")


def test_a_drop_now_and_then_buys_no_time() -> None:
    with (
        served(Twin(), limits=ConnectionLimits(header_s=0.5)) as data,
        said(data, HALF_A_HEADER) as connection,
    ):
        connection.settimeout(0.02)
        answer = None
        while answer is None:  # ends at the deadline, or never
            with contextlib.suppress(ConnectionError):  # it has been answered and closed since the last look
                connection.sendall(b"x")
            with contextlib.suppress(TimeoutError):
                answer = connection.recv(4096)
        assert answer.startswith(b"HTTP/1.1 408")


def test_a_second_request_that_stays_half_is_refused_in_time_too() -> None:
    header_s, answers = 0.05, b""
    while not answers.startswith(
        b"HTTP/1.1 200 OK"
    ):  # else the machine stood still before the first was sent
        header_s *= 2
        with (
            served(Twin(), limits=ConnectionLimits(header_s=header_s)) as data,
            said(data, HALF_A_HEADER + b"\r\n\r\n" + HALF_A_HEADER) as connection,
        ):
            answers = heard(connection)
    assert b"HTTP/1.1 408 Request Timeout" in answers


def test_a_caller_with_too_many_streams_is_told_so_and_another_comes_in() -> None:
    with served(Twin(), limits=SMALL) as data, contextlib.ExitStack() as stack:
        streams = [stack.enter_context(Client(data)).events(follow=True) for _ in range(4)]
        for stream in streams:
            next(stream)
        with (
            Client(data) as node,
            pytest.raises(WeftosError, match="this caller has 4 connections") as caught,
        ):
            node.status()
        assert caught.value.code == "busy"
        argv = [
            sys.executable,
            "-P",
            "-c",
            "import sys, weftos; print(weftos.Client(sys.argv[1]).status()['name'])",
        ]
        other = subprocess.run([*argv, str(data)], capture_output=True, text=True, timeout=HANG_S)
        assert other.stdout, other.stderr


TREE = {70: 60, 60: 50, 50: 1, 40: 30, 80: 79}  # 50 is the node, 79 is gone


@pytest.mark.parametrize(
    ("os_pid", "caller"),
    [
        (70, OWN_PROCESSES),
        (60, OWN_PROCESSES),
        (50, 50),
        (40, UNKNOWN),
        (79, UNKNOWN),
        (80, UNKNOWN),
        (1, 1),
        (0, 0),
    ],
)
def test_who_cannot_be_traced_is_no_caller_of_his_own(os_pid: int, caller: object) -> None:
    assert caller_of(os_pid, 50, TREE.get) == caller


def test_a_caller_that_cannot_be_looked_up_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(os_pid: int) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("weftos.api.listener.read_process", refuse)
    with served(Twin()) as data, Client(data) as node:
        assert node.status()["name"]


def test_a_long_line_of_forebears_makes_no_caller() -> None:
    assert caller_of(1000, 50, lambda os_pid: os_pid - 1) == UNKNOWN
    assert caller_of(60, 0, lambda os_pid: os_pid - 1) == 60
