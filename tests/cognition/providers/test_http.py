"""The HTTP client against a server in the same loop, which says byte by byte what it likes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import select
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cognition.providers.http.connection import (
    EVENTS_AT_ONCE,
    BrokenError,
    CertificateError,
    ConnectError,
    HttpBounds,
    HttpError,
    SilenceError,
)
from cognition.providers.http.server import AddressInfo, HttpServer, dial, tls_context
from tests.patience import HANG_S
from tests.servers.certificates import certificates

BOUNDS = HttpBounds()
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ngood"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
MIB = 2**20
Say = Callable[[asyncio.StreamWriter, int], Awaitable[None]]


@dataclass
class Heard:
    """What the server has of us: heads and bodies of requests, connections, and how many of these have ended."""

    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0
    ended: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/"


@asynccontextmanager
async def server(say: Say, tls: ssl.SSLContext | None = None) -> AsyncIterator[Heard]:
    """A server that calls ``say`` with the number of the request, once it has read it."""
    heard = Heard()
    talks: set[asyncio.Task[None]] = set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        heard.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                heard.heads.append(head)
                heard.bodies.append(await reader.readexactly(length))
                await say(writer, len(heard.heads))
        heard.ended += 1
        writer.transport.abort()

    listening = await asyncio.start_server(talk, "127.0.0.1", 0, ssl=tls)
    heard.port = listening.sockets[0].getsockname()[1]
    try:
        yield heard
    finally:
        listening.close()
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(HANG_S):
        while not true():
            await asyncio.sleep(0.005)


async def ask(http: HttpServer, body: bytes = b"question") -> bytes:
    """The whole body of an answer."""
    parts = []
    async with http.post("/chat", (("x-name", "value"),), body) as response:
        while part := await response.read():
            parts.append(part)
    return b"".join(parts)


def run(
    say: Say, client: Callable[[HttpServer, Heard], Awaitable[Any]], bounds: HttpBounds = BOUNDS
) -> Heard:
    async def both() -> Heard:
        async with asyncio.timeout(HANG_S), server(say) as heard:
            http = HttpServer(heard.url, bounds)
            await client(http, heard)
            http.close()
            return heard

    return asyncio.run(both())


async def say_whole(writer: asyncio.StreamWriter, _: int) -> None:
    writer.write(WHOLE)


def piece(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


# -- an exchange ------------------------------------------------------------------------------------------------------


def test_what_is_asked_and_what_is_answered() -> None:
    async def client(http: HttpServer, heard: Heard) -> None:
        async with http.post("/chat", (("x-name", "value"),), b"question") as response:
            assert response.status == 418
            assert response.headers == {"x-kind": "Pot", "content-length": "3"}
            assert await response.read() == b"tea"
            assert await response.read() == b""
            assert await response.read() == b""
        assert heard.heads[0].splitlines()[:4] == [
            b"POST /v1/chat HTTP/1.1",
            b"host: 127.0.0.1:%d" % heard.port,
            b"content-length: 8",
            b"x-name: value",
        ]
        assert heard.bodies == [b"question"]

    async def say(writer: asyncio.StreamWriter, _: int) -> None:
        writer.write(b"HTTP/1.1 418 A Teapot\r\nX-Kind: Pot\r\nContent-Length: 3\r\n\r\ntea")

    run(say, client)


@pytest.mark.parametrize(
    "answer",
    [
        WHOLE,
        CHUNKED + piece(b"go") + piece(b"od") + LAST,
        CHUNKED + piece(b"good") + b"0\r\nx-trailer: y\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + WHOLE,
    ],
)
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_answers_in_whatever_pieces_leave_their_connection_of_use(answer: bytes, step: int) -> None:
    async def say(writer: asyncio.StreamWriter, _: int) -> None:
        for at in range(0, len(answer), step):
            writer.write(answer[at : at + step])
            await asyncio.sleep(0)

    async def client(http: HttpServer, heard: Heard) -> None:
        for _ in range(3):
            assert await ask(http, b"x" * MIB) == b"good"
        assert list(map(len, heard.bodies)) == [MIB] * 3

    assert run(say, client).connections == 1


def test_an_answer_that_ends_with_its_connection_is_whole_and_the_next_has_another() -> None:
    async def say(writer: asyncio.StreamWriter, _: int) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\ngood")
        writer.close()

    async def client(http: HttpServer, heard: Heard) -> None:
        assert [await ask(http), await ask(http)] == [b"good", b"good"]

    assert run(say, client).connections == 2


def test_many_at_once_each_get_their_own_answer() -> None:
    async def say(writer: asyncio.StreamWriter, number: int) -> None:
        await asyncio.sleep(0.001 * (number % 7))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n" + told.bodies[number - 1])

    told: Heard

    async def client(http: HttpServer, heard: Heard) -> None:
        nonlocal told
        told = heard
        questions = [b"%04d" % number for number in range(100)]
        assert await asyncio.gather(*(ask(http, question) for question in questions)) == questions

    run(say, client)


# -- connections that are kept -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pause_s", [0.0, 0.05])
def test_a_reader_who_stops_at_the_last_piece_leaves_the_connection_of_use(pause_s: float) -> None:
    async def say(writer: asyncio.StreamWriter, _: int) -> None:
        writer.write(CHUNKED + piece(b"[DONE]"))
        await asyncio.sleep(pause_s)
        writer.write(LAST)
        said.set()

    said = asyncio.Event()

    async def client(http: HttpServer, heard: Heard) -> None:
        for _ in range(3):
            said.clear()
            async with http.post("/chat", (), b"") as response:
                assert await response.read() == b"[DONE]"
            await said.wait()
            await until(lambda: http._kept)

    assert run(say, client, replace(BOUNDS, rest_s=HANG_S)).connections == 1


def test_an_answer_with_a_long_rest_is_not_waited_for() -> None:
    async def say(writer: asyncio.StreamWriter, _: int) -> None:
        writer.write(CHUNKED + piece(b"[DONE]"))
        await writer.drain()
        while True:
            writer.write(piece(b"more"))
            await writer.drain()

    async def client(http: HttpServer, heard: Heard) -> None:
        async with http.post("/chat", (), b"") as response:
            await response.read()
        await until(lambda: heard.ended)

    run(say, client, replace(BOUNDS, rest_s=HANG_S))


def test_nor_is_a_rest_that_does_not_come() -> None:
    async def say(writer: asyncio.StreamWriter, _: int) -> None:
        writer.write(CHUNKED + piece(b"[DONE]"))

    async def client(http: HttpServer, heard: Heard) -> None:
        async with http.post("/chat", (), b"") as response:
            await response.read()
        await until(lambda: heard.ended)

    run(say, client, replace(BOUNDS, rest_s=0.05))


@pytest.mark.parametrize("more", [WHOLE, b"x", b"\r\n"])
def test_what_comes_unasked_ends_a_kept_connection_and_answers_nothing(more: bytes) -> None:
    async def say(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(WHOLE)
        if number == 1:
            await writer.drain()
            await asyncio.sleep(0.02)
            writer.write(more)

    async def client(http: HttpServer, heard: Heard) -> None:
        assert await ask(http) == b"good"
        await until(lambda: heard.ended)
        assert await ask(http) == b"good"

    assert run(say, client).connections == 2


def test_so_does_what_comes_with_the_answer_before() -> None:
    async def say(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(WHOLE + WHOLE.replace(b"good", b"evil") if number == 1 else WHOLE)

    async def client(http: HttpServer, heard: Heard) -> None:
        assert [await ask(http), await ask(http)] == [b"good", b"good"]

    assert run(say, client).connections == 2


def test_nor_does_what_came_unasked_and_was_not_read_yet_answer_anything() -> None:
    writers: list[asyncio.StreamWriter] = []

    async def say(writer: asyncio.StreamWriter, _: int) -> None:
        writers.append(writer)
        writer.write(WHOLE)

    async def client(http: HttpServer, heard: Heard) -> None:
        assert await ask(http) == b"good"
        os.write(writers[0].get_extra_info("socket").fileno(), WHOLE.replace(b"good", b"evil"))
        mine = http._kept[0]._transport.get_extra_info("socket")
        assert select.select([mine], [], [], HANG_S)[0]  # it has come, and the loop has not turned
        assert await ask(http) == b"good"
        await until(lambda: heard.ended)

    assert run(say, client).connections == 2


def test_a_kept_connection_that_the_server_ends_is_not_asked() -> None:
    async def say(writer: asyncio.StreamWriter, _: int) -> None:
        writer.write(WHOLE)
        await writer.drain()
        writer.close()

    async def client(http: HttpServer, heard: Heard) -> None:
        for _ in range(3):
            assert await ask(http) == b"good"
            await until(lambda: heard.ended == len(heard.heads) and not http._kept)

    assert run(say, client).connections == 3


def test_no_more_are_kept_than_allowed_and_none_for_ever() -> None:
    async def client(http: HttpServer, heard: Heard) -> None:
        await asyncio.gather(*(ask(http) for _ in range(5)))
        await until(lambda: heard.ended >= 3)
        await until(lambda: heard.ended == 5)
        assert await ask(http) == b"good"

    async def say(writer: asyncio.StreamWriter, number: int) -> None:
        if number == 5:
            together.set()
        await together.wait()
        writer.write(WHOLE)

    together = asyncio.Event()
    assert run(say, client, replace(BOUNDS, kept=2, kept_s=0.3, rest_s=10 * HANG_S)).connections == 6


# -- servers that are not well -----------------------------------------------------------------------------------------

FLOODS = {
    "headers": (b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 1000),
    "a line": (b"HTTP/1.1 200 OK\r\na: ", b"b" * 65536),
    "a name": (b"HTTP/1.1 200 OK\r\n", b"b" * 65536),
    "a reason": (b"HTTP/1.1 200 ", b"b" * 65536),
    "nonsense": (b"", b"\0" * 65536),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "interim headers": (b"", b"HTTP/1.1 102 Processing\r\n" + b"a: b\r\n" * 1000 + b"\r\n"),
    "trailers": (CHUNKED + LAST.removesuffix(b"\r\n"), b"a: b\r\n" * 1000),
    "an extension of a chunk": (CHUNKED + b"2;", b"a" * 65536),
    "small chunks": (CHUNKED, b"1;" + b"a" * 900 + b"\r\n:\r\n"),
    "another protocol": (b"HTTP/1.1 101 Switch\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", b"a" * 65536),
}


@pytest.mark.parametrize("what", FLOODS)
def test_a_flood_outside_a_body_ends_the_connection(what: str) -> None:
    begin, more = FLOODS[what]

    async def say(writer: asyncio.StreamWriter, _: int) -> None:
        writer.write(begin)
        while True:
            writer.write(more)
            await writer.drain()

    async def client(http: HttpServer, heard: Heard) -> None:
        with pytest.raises(BrokenError):
            await ask(http)
        await until(lambda: heard.ended)

    run(say, client)


@pytest.mark.parametrize("blanks", [b" " * 256, b"\t " * 128])
@pytest.mark.parametrize("step", [1, 200, 65_536])
def test_a_head_with_a_long_run_of_blanks_is_not_parsed(blanks: bytes, step: int) -> None:
    async def say(writer: asyncio.StreamWriter, _: int) -> None:
        head = b"HTTP/1.1 200 OK\r\na:" + blanks + b"\0\r\n\r\n"
        for start in range(0, len(head), step):
            writer.write(head[start : start + step])
            await asyncio.sleep(0)

    async def client(http: HttpServer, heard: Heard) -> None:
        with pytest.raises(BrokenError, match="run of 256 blanks"):
            await ask(http)

    run(say, client)


def test_blanks_in_a_body_are_data_and_a_line_of_them_is_refused() -> None:
    blanks = b" " * 5000

    async def say(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(CHUNKED + piece(blanks) + (LAST if number == 1 else b"1;" + blanks + b"\n\r\n"))

    async def client(http: HttpServer, heard: Heard) -> None:
        assert await ask(http) == blanks
        with pytest.raises(BrokenError, match="a line of its chunked body"):
            await ask(http)

    run(say, client)


def test_others_have_their_turn_while_what_has_come_is_read() -> None:
    chunks = 800

    async def say(writer: asyncio.StreamWriter, _: int) -> None:
        writer.write(CHUNKED + piece(b":") * chunks + LAST)

    async def client(http: HttpServer, heard: Heard) -> None:
        rounds = 0

        async def count() -> None:
            nonlocal rounds
            while True:
                await asyncio.sleep(0)
                rounds += 1

        async with http.post("/chat", (), b"question") as response:
            await asyncio.sleep(0.2)  # that it lies here; did it come bit by bit, there were more rounds yet
            counting = asyncio.create_task(count())
            while await response.read():
                pass
            counting.cancel()
        assert rounds > chunks // EVENTS_AT_ONCE // 2

    run(say, client)


def test_a_body_is_taken_no_faster_than_it_is_read() -> None:
    size = 64 * MIB
    sending: asyncio.WriteTransport | None = None

    async def say(writer: asyncio.StreamWriter, _: int) -> None:
        nonlocal sending
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        writer.write(b"x" * size)
        sending = writer.transport

    async def client(http: HttpServer, heard: Heard) -> None:
        async with http.post("/chat", (), b"") as response:
            await until(lambda: sending is not None)
            assert sending is not None
            left, still = sending.get_write_buffer_size(), 0
            while still < 20:
                await asyncio.sleep(0.01)
                still = still + 1 if sending.get_write_buffer_size() == left else 0
                left = sending.get_write_buffer_size()
            assert left > size / 2  # what the kernel holds of it is a few megabytes
            got = 0
            while part := await response.read():
                got += len(part)
            assert got == size

    run(say, client)


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200", CHUNKED, CHUNKED + piece(b"some")])
def test_a_silent_server_is_told_from_a_broken_one(begin: bytes) -> None:
    async def say_nothing(writer: asyncio.StreamWriter, _: int) -> None:
        writer.write(begin)

    async def say_goodbye(writer: asyncio.StreamWriter, _: int) -> None:
        writer.write(begin)
        await writer.drain()
        writer.close()

    async def silent(http: HttpServer, heard: Heard) -> None:
        with pytest.raises(SilenceError, match=r"nothing came for 0\.1 s"):
            await ask(http)
        await until(lambda: heard.ended)

    async def broken(http: HttpServer, heard: Heard) -> None:
        with pytest.raises(BrokenError, match=r"closed|without sending complete"):
            await ask(http)

    run(say_nothing, silent, replace(BOUNDS, idle_s=0.1))
    run(say_goodbye, broken)


def test_a_reader_who_takes_his_time_is_no_silence() -> None:
    async def say(writer: asyncio.StreamWriter, _: int) -> None:
        writer.write(CHUNKED + piece(b"first"))
        await read.wait()
        writer.write(piece(b"second") + LAST)

    read = asyncio.Event()

    async def client(http: HttpServer, heard: Heard) -> None:
        async with http.post("/chat", (), b"") as response:
            assert await response.read() == b"first"
            loop = asyncio.get_running_loop()
            now_s = loop.time
            loop.time = lambda: now_s() + 2 * idle_s  # type: ignore[method-assign]  # he takes it without a wait
            for _ in range(3):  # a timer that ran meanwhile would be due
                await asyncio.sleep(0)
            read.set()
            assert await response.read() == b"second"

    idle_s = HANG_S / 10
    run(say, client, replace(BOUNDS, idle_s=idle_s))


@pytest.mark.parametrize("begin", [b"", CHUNKED + piece(b"some")])
def test_a_cancelled_question_ends_its_connection_and_no_other(begin: bytes) -> None:
    async def say(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(begin if number == 1 else WHOLE)

    async def client(http: HttpServer, heard: Heard) -> None:
        asking = asyncio.ensure_future(ask(http))
        await until(lambda: heard.heads)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: heard.ended)
        assert await ask(http) == await ask(http) == b"good"

    assert run(say, client).connections == 2


def test_wherever_a_question_is_cancelled_no_socket_is_left() -> None:
    async def client(http: HttpServer, heard: Heard) -> None:
        gc.disable()  # which would close what was forgotten
        try:
            for steps in range(60):
                asking = asyncio.ensure_future(ask(http))
                for _ in range(steps):
                    await asyncio.sleep(0)
                asking.cancel()
                await asyncio.wait([asking])
                http.close()
            await until(lambda: not connected(heard.port))
        finally:
            gc.enable()

    run(say_whole, client)


def connected(port: int) -> list[int]:
    """The sockets of this process that are connected to a port."""
    found = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"):
                with socket.socket(fileno=os.dup(fd)) as mine:
                    found += [fd] if mine.family == socket.AF_INET and mine.getpeername()[1] == port else []
    return found


# -- connecting --------------------------------------------------------------------------------------------------------


def refusal(url: str, bounds: HttpBounds = BOUNDS, tls: ssl.SSLContext | None = None) -> HttpError:
    async def refused() -> HttpError:
        with pytest.raises(HttpError) as caught:
            await ask(HttpServer(url, bounds, tls))
        return caught.value

    return asyncio.run(refused())


def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        error = refusal(f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert isinstance(error, ConnectError) and "Connect call failed" in str(error)


def address_of(taking: socket.socket) -> AddressInfo:
    return socket.AF_INET, socket.SOCK_STREAM, 0, "", taking.getsockname()


def listening(backlog: int) -> socket.socket:
    taking = socket.socket()
    taking.bind(("127.0.0.1", 0))
    taking.listen(backlog)
    return taking


@pytest.mark.parametrize("first", ["refuses", "is silent"])
def test_the_next_address_is_tried(first: str) -> None:
    async def run() -> None:
        with listening(0) as bad, listening(5) as good, contextlib.ExitStack() as stack:
            theirs = address_of(bad)
            if first == "refuses":
                bad.close()
            else:
                for _ in range(4):  # those who wait to be taken; of the others the kernel takes no notice
                    waiting = stack.enter_context(socket.socket())
                    waiting.setblocking(False)
                    waiting.connect_ex(bad.getsockname())
            async with asyncio.timeout(HANG_S):
                with await dial([theirs, theirs, address_of(good)]) as connected_to:
                    assert connected_to.getpeername() == good.getsockname()

    asyncio.run(run())


def test_no_such_host() -> None:
    assert isinstance(refusal("http://nowhere.invalid"), ConnectError)


def test_a_name_that_is_slow_to_resolve_keeps_no_other_server_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looking_up, answered = threading.Semaphore(0), threading.Event()
    real = socket.getaddrinfo

    def slow(host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0) -> Any:
        if host != "slow.example" or flags:
            return real(host, port, family, type, proto, flags)
        looking_up.release()
        answered.wait(HANG_S)
        raise socket.gaierror(socket.EAI_AGAIN, "no server answers")

    monkeypatch.setattr(socket, "getaddrinfo", slow)

    async def client(http: HttpServer, heard: Heard) -> None:
        away = HttpServer("http://slow.example/v1", BOUNDS)
        asked = [asyncio.create_task(ask(away)) for _ in range(100)]
        await asyncio.to_thread(looking_up.acquire)
        try:
            assert await ask(http) == b"good"
            assert not any(task.done() for task in asked)
        finally:
            answered.set()
        refused = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(error) for error in refused} == {ConnectError}
        assert not looking_up.acquire(blocking=False)

    run(say_whole, client, replace(BOUNDS, connect_s=10 * HANG_S))


def test_a_server_that_takes_the_call_and_says_no_more() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        bounds = replace(BOUNDS, connect_s=0.1)
        error = refusal(f"https://127.0.0.1:{mute.getsockname()[1]}", bounds, tls_context({}))
    assert isinstance(error, ConnectError) and "within 0.1 s" in str(error)


def test_https_is_never_spoken_without_tls() -> None:
    with pytest.raises(ValueError, match="needs a TLS context"):
        HttpServer("https://127.0.0.1", BOUNDS)


def ask_over_tls(shown: Path, tls: ssl.SSLContext) -> bytes:
    """What a server answers that shows that certificate."""

    async def both() -> bytes:
        theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        theirs.load_cert_chain(shown)
        async with asyncio.timeout(HANG_S), server(say_whole, theirs) as heard:
            http = HttpServer(heard.url.replace("http:", "https:"), BOUNDS, tls)
            answers = [await ask(http) for _ in range(2)]
            assert heard.connections == 1
            http.close()
            return answers[0]

    return asyncio.run(both())


def test_whom_to_believe_over_tls(tmp_path: Path) -> None:
    good, wrong = certificates(tmp_path), certificates(tmp_path, "127.0.0.2")
    believing = tls_context({"SSL_CERT_FILE": str(good.authority)})
    assert ask_over_tls(good.server, believing) == b"good"
    with pytest.raises(CertificateError, match="unable to get local issuer"):
        ask_over_tls(good.server, tls_context({}))
    with pytest.raises(CertificateError, match=r"not valid for '127\.0\.0\.1'"):
        ask_over_tls(wrong.server, tls_context({"SSL_CERT_FILE": str(wrong.authority)}))


def test_a_server_that_does_not_speak_tls_is_no_wrong_certificate() -> None:
    async def both() -> None:
        async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad\r\n\r\n")
            await reader.read()
            writer.close()

        async with await asyncio.start_server(say, "127.0.0.1", 0) as plain:
            url = f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}"
            with pytest.raises(ConnectError, match=r"(?i)ssl"):
                await ask(HttpServer(url, BOUNDS, tls_context({})))

    asyncio.run(both())


def test_certificates_that_are_none_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(OSError, match=r"(?i)certificate"):
        tls_context({"SSL_CERT_FILE": str(tmp_path / "empty.pem")})
    with pytest.raises(FileNotFoundError):
        tls_context({"SSL_CERT_FILE": str(tmp_path / "nosuch.pem")})
