"""One connection to a server: an exchange after the other, in HTTP/1.1, and nothing between them.

What bytes mean says h11, which touches no socket; here are the socket and the clock. The server is not trusted:

- A head, a line of a chunked body and what frames a body are bounded. A body is taken from the socket no faster than
  somebody reads it; how large it may become the reader decides.
- h11 is given a little at a time, and nothing that takes it long (:mod:`cognition.providers.http.fed_to_h11`).
- A kept connection on which anything comes unasked is closed at once, and before a question is sent the socket itself
  is looked at, so that no answer lies in wait for a question.
- An exchange that does not end in good order, cancelled or failed, ends its connection.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from dataclasses import dataclass

import h11

from cognition.providers.http.fed_to_h11 import FED_BYTES, MOST_BLANKS, head_has_blanks

EVENTS_AT_ONCE = 16
"""Of one answer, between two rounds of the event loop."""


class HttpError(Exception):
    """An exchange failed. The text may hold words of the server."""


class ConnectError(HttpError):
    """There was no connection."""


class CertificateError(HttpError):
    """The server does not prove by its certificate who it is."""


class SilenceError(HttpError):
    """For ``idle_s`` nothing came."""


class BrokenError(HttpError):
    """The connection ended too early, or what came is no HTTP."""


@dataclass(frozen=True, slots=True)
class HttpBounds:
    """What a server may make us hold or wait for.

    ``interim``: answers of status 1xx before the one that counts. ``line_bytes``: a line of a chunked body.
    ``framing_bytes``: what comes beside the data of a body. ``ahead_bytes``: of a body, before it is read.
    ``rest_bytes``, ``rest_s``: what an answer whose reader is content may still bring for its connection to be kept.
    ``kept``: connections without a question, each for ``kept_s``.
    """

    head_bytes: int = 64 * 2**10
    interim: int = 16
    line_bytes: int = 1024
    framing_bytes: int = 4 * 2**20
    ahead_bytes: int = 256 * 2**10
    rest_bytes: int = 16 * 2**10
    rest_s: float = 1.0
    kept: int = 64
    kept_s: float = 30.0
    connect_s: float = 5.0
    idle_s: float = 120.0


class _Patience:
    """Says ``over`` once nothing was heard for so long. One timer for many pieces: it may ring too early."""

    def __init__(self, over: Callable[[], None]) -> None:
        self._over = over
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._heard_s = 0.0
        self.seconds = 0.0

    def begin(self, seconds: float) -> None:
        self.stop()
        self.heard()
        self.seconds = seconds
        self._timer = self._loop.call_later(seconds, self._ring)

    def heard(self) -> None:
        self._heard_s = self._loop.time()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        left_s = self._heard_s + self.seconds - self._loop.time()
        if left_s > 0:
            self._timer = self._loop.call_later(left_s, self._ring)
        else:
            self._over()


class Connection(asyncio.Protocol):
    """See the module's words. ``changed`` is told when it can be used again, or never again."""

    def __init__(self, bounds: HttpBounds, changed: Callable[[Connection], None]) -> None:
        self._bounds = bounds
        self._changed = changed
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=bounds.head_bytes)
        self._transport: asyncio.Transport
        self._patience = _Patience(self._silent)
        self._reader: asyncio.Future[None] | None = None
        self._unfed = bytearray()
        self._ended = False  # after what is unfed
        self._events = 0
        self._framing = 0
        self._ahead = 0
        self._rest: int | None = None  # bytes that may come while nobody reads; None: somebody does
        self._failure: HttpError | None = None
        self._closed = False

    @property
    def usable(self) -> bool:
        """Whether a question can be sent."""
        return not self._closed and self._http.our_state is h11.IDLE

    @property
    def quiet(self) -> bool:
        """Whether nothing has come that was not read yet, also no end."""
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not poll.poll(0)

    def send(self, request: h11.Request, body: bytes) -> None:
        """Begin an exchange."""
        self._rest = None
        self._ahead = self._framing = 0
        head = self._http.send(request) or b""
        self._http.send(h11.Data(body))
        self._http.send(h11.EndOfMessage())
        self._transport.write(head + body)
        self._patience.begin(self._bounds.idle_s)

    async def head(self) -> h11.Response:
        """The head of the answer. Raises HttpError."""
        for _ in range(self._bounds.interim + 1):
            event = await self._event()
            if isinstance(event, h11.Response):
                return event
        raise BrokenError(f"it sent more than {self._bounds.interim} interim answers")

    async def read(self) -> bytes:
        """The next piece of the body, nothing at its end. Raises HttpError."""
        if self._http.their_state is not h11.SEND_BODY:
            return b""
        event = await self._event()
        return bytes(event.data) if isinstance(event, h11.Data) else b""

    def leave(self) -> None:
        """The reader has what it wanted: take the rest of the answer, if it is short, and keep nobody waiting."""
        self._rest = self._bounds.rest_bytes
        self._patience.begin(self._bounds.rest_s)
        self._transport.resume_reading()
        self._settle()

    def abort(self) -> None:
        """End it, whatever is under way."""
        self._closed = True
        self._patience.stop()
        self._transport.abort()

    # -- what asyncio says --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._patience.heard()
        if self._rest is None:
            self._take(data)
            if self._ahead > self._bounds.ahead_bytes:
                self._transport.pause_reading()
        elif len(data) > self._rest:
            self.abort()
        else:
            self._rest -= len(data)
            self._unfed += data
            self._settle()

    def eof_received(self) -> None:
        if self._rest is None:
            self._ended = True
            self._take(b"")
        else:
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._closed = True
        self._patience.stop()
        self._fail(BrokenError(str(error) if error else "it was closed before the answer was complete"))
        self._changed(self)

    # -- between the two ----------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        self._ahead += len(data)
        self._unfed += data
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _fail(self, failure: HttpError) -> None:
        self._failure = self._failure or failure
        self._wake()

    async def _event(self) -> h11.Event:
        begun = self._http.their_state is not h11.SEND_RESPONSE
        self._events += 1
        if self._events % EVENTS_AT_ONCE == 0:
            await asyncio.sleep(0)
        while True:
            try:
                event = self._next()
            except h11.RemoteProtocolError as error:
                closed = self._http.trailing_data == (b"", True)
                words = "it was closed before there was an answer" if closed and not begun else str(error)
                raise BrokenError(words) from error
            if isinstance(event, h11.Event):
                return event
            await self._more()

    def _next(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        """What h11 makes of the next bytes. Raises BrokenError for what it is not given, h11.RemoteProtocolError."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._unfed:
                self._feed()
            elif self._ended:
                self._ended = False
                self._http.receive_data(b"")
            else:
                break
        if isinstance(event, h11.Data):
            self._framing -= len(event.data)
        return event

    def _feed(self) -> None:
        """Give h11 the next piece; all that it has before is the beginning of a head, or of a line of a body."""
        piece = bytes(self._unfed[:FED_BYTES])
        del self._unfed[:FED_BYTES]
        begun = self._http.trailing_data[0]
        if self._http.their_state is h11.SEND_RESPONSE:
            if head_has_blanks(begun + piece):
                raise BrokenError(f"its head has a run of {MOST_BLANKS} blanks")
        else:
            if len(begun) > self._bounds.line_bytes:
                raise BrokenError(f"a line of its chunked body has more than {self._bounds.line_bytes} bytes")
            self._framing += len(piece)
            if self._framing > self._bounds.framing_bytes:
                raise BrokenError(f"there are more than {self._bounds.framing_bytes} bytes around its body")
        self._http.receive_data(piece)

    async def _more(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._ahead > self._bounds.ahead_bytes:
            self._transport.resume_reading()
        self._ahead = 0
        self._patience.heard()
        self._reader = asyncio.get_running_loop().create_future()
        try:
            await self._reader
        finally:
            self._reader = None

    def _settle(self) -> None:
        """If the answer is over, be of use again, or end."""
        try:
            for _ in range(EVENTS_AT_ONCE):
                if self._http.their_state is not h11.SEND_BODY:
                    break
                if self._next() is h11.NEED_DATA:
                    return
            self._http.start_next_cycle()
        except (h11.ProtocolError, BrokenError):
            self.abort()
            return
        if self._unfed or self._ended or self._http.trailing_data != (b"", False):  # more came, or the end
            self.abort()
            return
        self._rest = 0
        self._patience.begin(self._bounds.kept_s)
        self._changed(self)

    def _silent(self) -> None:
        if self._rest is None and self._reader is None:  # it was we who did not listen
            self._patience.begin(self._patience.seconds)
            return
        self._fail(SilenceError(f"nothing came for {self._patience.seconds:g} s"))
        self.abort()
