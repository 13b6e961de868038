"""The framing of every local link: what goes in comes out, and what is not a frame is refused."""

from __future__ import annotations

import asyncio
import gc
import itertools
import socket
import struct
import sys
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.cell.link.frames import (
    CALM_WRITES,
    FOREIGN,
    FRAMES_PER_STEP,
    HEADER_BYTES,
    MAX_FRAME_BYTES,
    STEP_BYTES,
    FrameDecoder,
    FrameError,
    FrameLink,
    LinkBounds,
    Share,
    encode_frame,
)
from tests.patience import HANG_S

BOOT = 0xFEED_0000_0000_0001
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.lists(VALUES, max_size=5), st.data())
def test_values_survive_any_cut_of_the_stream(values: list[Any], data: st.DataObject) -> None:
    stream = b"".join(encode_frame(BOOT, value) for value in values)
    decoder = FrameDecoder(BOOT)
    decoded: list[Any] = []
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        decoded += decoder.feed(stream[:cut])
        stream = stream[cut:]
    assert decoded == values


@pytest.mark.parametrize(
    "value",
    [
        [{} for _ in range(5000)],
        [{"a": {"b": {"c": {"d": {}}}}} for _ in range(1000)],
        [{f"{number:x}": {}} for number in range(5000)],
        [{"role": "user", "content": "x" * 2000} for _ in range(100)],
        ["x" * 1_000_000],
        [float(number) for number in range(5000)],
        [{f"{number:x}": f"{number:o}"} for number in range(200)],
        [[[]] for _ in range(300)],
    ],
)
def test_a_frame_costs_what_it_takes_in_memory(value: Any) -> None:
    decoder = FrameDecoder(BOOT)
    (decoded,) = decoder.feed(encode_frame(BOOT, value))
    left, taken = [decoded], dict[int, int]()
    while left:
        one = left.pop()
        taken[id(one)] = sys.getsizeof(one)
        if isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            left += one
    held = sum(taken.values())
    assert held <= decoder.cost_bytes <= 20 * held


def test_a_frame_of_the_limit_passes_and_one_byte_more_does_not() -> None:
    payload = b"x" * (MAX_FRAME_BYTES - 5)  # msgpack puts five bytes before so long a bin
    frame = encode_frame(BOOT, payload)
    assert len(frame) == HEADER_BYTES + MAX_FRAME_BYTES
    assert list(FrameDecoder(BOOT).feed(frame)) == [payload]
    with pytest.raises(FrameError, match=f"frame of {MAX_FRAME_BYTES + 1} bytes, limit {MAX_FRAME_BYTES}"):
        encode_frame(BOOT, payload + b"x")


def test_an_oversized_frame_is_refused_by_its_header_alone() -> None:
    header = struct.pack(">IQ", MAX_FRAME_BYTES + 1, BOOT)
    with pytest.raises(FrameError, match=f"frame of {MAX_FRAME_BYTES + 1} bytes announced"):
        list(FrameDecoder(BOOT).feed(header))


def test_a_frame_of_another_boot_is_refused_with_both_numbers() -> None:
    with pytest.raises(FrameError, match="frame of boot 0000000000000007, this is boot feed000000000001"):
        list(FrameDecoder(BOOT).feed(encode_frame(7, ["x"])))


@pytest.mark.parametrize(
    "payload",
    [
        b"\xc1",  # never used by msgpack
        b"\x93\x01",  # an array of three with one
        b"\x01\x02",  # two values
        b"\xa2\xff\xfe",  # text that is not UTF-8
        b"\x81\x80\x01",  # a map as the key of a map
        b"\x91" * 5000,  # too deep
        b"\xd4\x05\x00",  # an extension type
        b"",
    ],
)
def test_a_payload_that_is_not_msgpack_is_refused(payload: bytes) -> None:
    frame = struct.pack(">IQ", len(payload), BOOT) + payload
    with pytest.raises(FrameError, match="is refused"):
        list(FrameDecoder(BOOT).feed(frame))


@settings(deadline=None)
@given(st.binary(min_size=HEADER_BYTES, max_size=200))
def test_garbage_is_refused_and_nothing_else_happens(noise: bytes) -> None:
    decoder = FrameDecoder(BOOT)
    if noise[4:12] == struct.pack(">Q", BOOT):
        return
    with pytest.raises(FrameError):
        list(decoder.feed(noise))


class End:
    """One end of a link over a socket pair, with what it heard."""

    def __init__(self, **options: Any) -> None:
        self.heard: list[Any] = []
        self.closes: list[Exception | None] = []
        self.over = asyncio.Event()
        self.link = FrameLink(BOOT, self.hear, self.closed, **options)

    def hear(self, value: Any) -> None:
        self.heard.append(value)
        if value == "refuse":
            raise FrameError("refused by the receiver")

    def closed(self, error: Exception | None) -> None:
        self.closes.append(error)
        self.over.set()

    async def ended(self) -> None:
        await asyncio.wait_for(self.over.wait(), HANG_S)


async def pair(**options: Any) -> tuple[End, socket.socket]:
    ours, theirs = socket.socketpair()
    end = End(**options)
    ours.setblocking(False)
    theirs.setblocking(False)
    await asyncio.get_running_loop().create_connection(lambda: end.link, sock=ours)
    return end, theirs


def test_who_speaks_by_turns_need_not_wait_and_what_many_say_leaves_in_one_write() -> None:
    async def run() -> None:
        end, peer = await pair()
        heard = FrameDecoder(BOOT)

        async def asked() -> None:
            before = len(end.heard)
            peer.send(encode_frame(BOOT, "question"))
            while len(end.heard) == before:
                await asyncio.sleep(0)

        def waiting() -> list[Any]:
            try:
                return list(heard.feed(peer.recv(2**16)))
            except BlockingIOError:
                return []

        for number in range(20):
            await asked()
            end.link.send(number)
            assert waiting() == [number]
        await asked()
        for number in range(100):
            end.link.send(number)
        assert waiting() == [0]
        await asyncio.sleep(0)
        assert waiting() == list(range(1, 100))
        for number in range(CALM_WRITES):  # many spoke: it takes a while to believe that they do no more
            await asked()
            end.link.send(number)
            assert waiting() == []
            await asyncio.sleep(0)
            assert waiting() == [number]
        await asked()
        end.link.send("at once")
        assert waiting() == ["at once"]
        end.link.close()
        peer.close()
        await end.ended()
        assert end.closes == [None]

    asyncio.run(run())


def test_close_sends_what_is_queued_first() -> None:
    async def run() -> None:
        end, peer = await pair()
        end.link.send("last words")
        end.link.close()
        await end.ended()
        assert list(FrameDecoder(BOOT).feed(peer.recv(2**16))) == ["last words"]
        assert peer.recv(1) == b""
        end.link.send("too late")
        assert end.link.closed
        peer.close()

    asyncio.run(run())


def test_a_fault_closes_the_link_once_and_hears_nothing_after_it() -> None:
    async def run() -> None:
        end, peer = await pair()
        peer.send(encode_frame(BOOT, "one") + encode_frame(BOOT, "refuse") + encode_frame(BOOT, "three"))
        await end.ended()
        assert end.heard == ["one", "refuse"]
        assert [str(error) for error in end.closes] == ["refused by the receiver"]
        peer.close()

    asyncio.run(run())


def test_nothing_is_heard_after_the_receiver_has_aborted() -> None:
    async def run() -> None:
        end, peer = await pair()
        end.hear = lambda value: (end.heard.append(value), end.link.abort(FrameError("enough")))  # type: ignore[method-assign,assignment,func-returns-value]
        end.link.hand_over(end.hear, end.closed)
        peer.send(encode_frame(BOOT, 1) + encode_frame(BOOT, 2))
        await end.ended()
        assert end.heard == [1]
        peer.close()

    asyncio.run(run())


def test_a_peer_has_a_small_limit_until_it_is_handed_over() -> None:
    async def run() -> None:
        small, peer = await pair(max_frame_bytes=64)
        peer.send(encode_frame(BOOT, "x" * 100))
        await small.ended()
        assert "limit 64" in str(small.closes[0])
        peer.close()
        large, peer = await pair(max_frame_bytes=64)
        large.link.hand_over(large.hear, large.closed)
        peer.send(encode_frame(BOOT, "x" * 100))
        peer.close()
        await large.ended()
        assert large.heard == ["x" * 100]

    asyncio.run(run())


def test_links_that_hold_the_loop_too_long_are_heard_a_frame_each_and_then_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        share = Share()
        ends = [await pair(share=share) for _ in range(2)]
        for _, peer in ends:
            peer.send(b"".join(encode_frame(BOOT, number) for number in range(5)))
        most = 0
        while any(len(end.heard) < 5 for end, _ in ends):
            before = [len(end.heard) for end, _ in ends]
            await asyncio.sleep(0)
            most = max(most, *(len(end.heard) - had for (end, _), had in zip(ends, before, strict=True)))
        assert most == 1
        assert [end.heard for end, _ in ends] == [[*range(5)]] * 2
        for end, peer in ends:
            peer.close()
            await end.ended()

    monkeypatch.setattr("kernel.cell.link.frames.STEP_S", 0.0)
    asyncio.run(run())


def test_a_long_run_of_frames_lets_the_rest_of_the_loop_have_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kernel.cell.link.frames.STEP_S", HANG_S)

    async def run() -> None:
        end, peer = await pair()
        peer.send(b"".join(encode_frame(BOOT, number) for number in range(FRAMES_PER_STEP * 3)))
        seen: list[int] = []
        while len(end.heard) < FRAMES_PER_STEP * 3:
            await asyncio.sleep(0)
            seen.append(len(end.heard))
        assert {FRAMES_PER_STEP, FRAMES_PER_STEP * 2} <= set(seen)
        peer.send(encode_frame(BOOT, "more"))
        peer.close()
        await end.ended()
        assert end.heard == [*range(FRAMES_PER_STEP * 3), "more"]
        assert end.closes == [None]

    asyncio.run(run())


def test_a_receiver_that_fails_closes_its_link_and_is_reported() -> None:
    async def run() -> None:
        end, peer = await pair()
        reported: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))

        def fail(value: Any) -> None:
            raise LookupError(value)

        end.link.hand_over(fail, end.closed)
        peer.send(encode_frame(BOOT, "x") * 2)
        await end.ended()
        assert [type(error) for error in end.closes] == [LookupError]
        assert [type(context["exception"]) for context in reported] == [LookupError]
        peer.close()

    asyncio.run(run())


MIB = 2**20


def frame_of(payload: bytes) -> bytes:
    return struct.pack(">IQ", len(payload), BOOT) + payload


def test_values_are_bounded_for_foreign_code_and_not_for_our_own() -> None:
    limit = FOREIGN.values
    assert limit is not None
    fits: list[Any] = [[]] * (limit - 1)
    over: list[Any] = [[]] * limit
    assert list(FrameDecoder(BOOT).feed(encode_frame(BOOT, fits))) == [fits]
    with pytest.raises(FrameError, match=f"refused: more than {limit} values"):
        list(FrameDecoder(BOOT).feed(encode_frame(BOOT, over)))
    assert list(FrameDecoder(BOOT, max_values=None).feed(encode_frame(BOOT, over))) == [over]


@pytest.mark.parametrize("small", [b"\x80", b"\x90", b"\xa1x", b"\x91\x01"])
def test_a_refused_frame_is_not_built_and_not_kept(small: bytes) -> None:
    """Of 16 MiB in small values that were objects of 1.2 GB, held by the link's own error."""

    async def run() -> None:
        end, peer = await pair()
        count = 4 * MIB // len(small)
        hostile = frame_of(b"\xdd" + count.to_bytes(4, "big") + small * count)
        gc.collect()
        tracemalloc.start()
        try:
            sending = asyncio.get_running_loop().sock_sendall(peer, hostile)
            await asyncio.gather(sending, return_exceptions=True)
            await end.ended()
            held, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert "more than" in str(end.closes[0])
        assert peak < 3 * len(hostile)
        assert held < len(hostile) / 8
        peer.close()

    asyncio.run(run())


def test_what_the_receiver_refused_is_not_kept_by_its_error() -> None:
    async def run() -> None:
        end, peer = await pair()

        def refuse(value: Any) -> None:
            try:
                raise LookupError(value)
            except LookupError as error:
                raise FrameError("refused") from error

        end.link.hand_over(refuse, end.closed)
        peer.send(encode_frame(BOOT, "secret") + encode_frame(BOOT, "more") + b"half a frame")
        await end.ended()
        error = end.closes[0]
        assert isinstance(error, FrameError)
        assert (error.__traceback__, error.__cause__, error.__context__) == (None, None, None)
        peer.close()

    asyncio.run(run())


def test_a_peer_that_does_not_read_loses_its_link() -> None:
    async def run() -> None:
        end, peer = await pair(bounds=LinkBounds(waiting_bytes=MIB))
        sent = 0
        while not end.link.closed:
            end.link.send(bytes(100_000))
            sent += 100_000
            assert sent < 4 * MIB
        await end.ended()
        assert "it does not read" in str(end.closes[0])
        peer.close()

    asyncio.run(run())


def test_what_this_side_began_is_not_held_against_a_peer_that_is_busy() -> None:
    async def run() -> None:
        end, peer = await pair(bounds=LinkBounds(waiting_bytes=MIB))
        for _ in range(30):
            end.link.send(bytes(100_000), granted=True)
        end.link.send(bytes(100_000))
        assert not end.link.closed
        decoder, heard = FrameDecoder(BOOT), 0
        while heard < 31:
            heard += len(list(decoder.feed(await asyncio.get_running_loop().sock_recv(peer, 2**18))))
        while not end.link.closed:  # what was granted has been read, and counts no more
            assert end.link.buffered_bytes <= MIB
            end.link.send(bytes(100_000))
        peer.close()
        await end.ended()

    asyncio.run(run())


def test_large_frames_are_heard_one_at_a_time() -> None:
    async def run() -> None:
        end, peer = await pair()
        large = bytes(STEP_BYTES)
        loop = asyncio.get_running_loop()
        sending = asyncio.ensure_future(loop.sock_sendall(peer, encode_frame(BOOT, large) * 4))
        seen = [0]
        while len(end.heard) < 4:
            await asyncio.sleep(0)
            seen.append(len(end.heard))
        assert max(after - before for before, after in itertools.pairwise(seen)) == 1
        await sending
        peer.close()
        await end.ended()

    asyncio.run(run())
