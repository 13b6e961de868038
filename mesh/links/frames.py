"""The frames of a session, and how a long message is cut into them.

A frame, big-endian, is one ZeroMQ message part::

    version u8 | kind u8 | number u64 | body

======  =========  ===========================================================================
kind    name       body
======  =========  ===========================================================================
1       HANDSHAKE  a Noise handshake message; numbers 0, 1, 2 over both sides
2       SEALED     one Noise transport message; each side numbers its own from 0, rising by one
3       RESET      empty, number 0: "I have no session with you". Ends a session, proves nothing
======  =========  ===========================================================================

The header is not encrypted. It need not be: version and kind must be what the session's state expects, and the
number must be the session's own count, which is also Noise's nonce; a changed header is a broken session.

Inside the cipher the first byte says what the rest is:

====  =======  ================================================================================
byte  name     the rest
====  =======  ================================================================================
0     WHOLE    a message of at most ``PART_BYTES``; may come between the parts of a longer one
1     PART     exactly ``PART_BYTES`` of a longer message, more follows
2     END      its last 1 to ``PART_BYTES`` bytes; the message is ``PART_BYTES`` to 16 MiB long
3     CONTROL  a msgpack map of the session itself (enter, welcome, refused, close)
====  =======  ================================================================================

No length is announced, so none can be lied about: a receiver holds what has arrived, at most one unfinished
message a session, and every session's share counts against one budget.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from mesh.bounds import MAX_MESSAGE_BYTES, ReassemblyBudget
from mesh.errors import MessageTooLarge, SessionBroken

PROTOCOL_VERSION = 1
HANDSHAKE, SEALED, RESET = 1, 2, 3
WHOLE, PART, END, CONTROL = 0, 1, 2, 3
KINDS = frozenset((HANDSHAKE, SEALED, RESET))

_HEADER = struct.Struct(">BBQ")
HEADER_BYTES = _HEADER.size
MAX_BODY_BYTES = 65_535
MAX_FRAME_BYTES = HEADER_BYTES + MAX_BODY_BYTES
PART_BYTES = MAX_BODY_BYTES - 16 - 1
"""What one frame carries of a message: the longest Noise message less its tag and our first byte."""

RESET_FRAME = _HEADER.pack(PROTOCOL_VERSION, RESET, 0)
_FLAGS = [bytes((flag,)) for flag in (WHOLE, PART, END, CONTROL)]


def pack_frame(kind: int, number: int, body: bytes) -> bytes:
    """One frame of this protocol's version."""
    return _HEADER.pack(PROTOCOL_VERSION, kind, number) + body


def unpack_frame(frame: bytes) -> tuple[int, int, bytes]:
    """Kind, number and body. Raises :class:`SessionBroken` (frame.size, frame.version, frame.kind)."""
    if not HEADER_BYTES <= len(frame) <= MAX_FRAME_BYTES:
        raise SessionBroken(
            "frame.size", f"frame of {len(frame)} bytes, it has {HEADER_BYTES} to {MAX_FRAME_BYTES}"
        )
    version, kind, number = _HEADER.unpack_from(frame)
    if version != PROTOCOL_VERSION:
        raise SessionBroken(
            "frame.version",
            f"the peer speaks mesh protocol {version}, this node {PROTOCOL_VERSION}: upgrade the older one",
        )
    if kind not in KINDS:
        raise SessionBroken("frame.kind", f"frame of kind {kind}, known are 1 to 3")
    return kind, number, frame[HEADER_BYTES:]


def cut(message: bytes) -> Iterator[bytes]:
    """The plaintexts that carry ``message``, in order. Raises :class:`MessageTooLarge` before the first."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise MessageTooLarge(len(message), MAX_MESSAGE_BYTES)
    return _cut(message)


def _cut(message: bytes) -> Iterator[bytes]:
    if len(message) <= PART_BYTES:
        yield _FLAGS[WHOLE] + message
        return
    last = (len(message) - 1) // PART_BYTES * PART_BYTES
    for at in range(0, last, PART_BYTES):
        yield _FLAGS[PART] + message[at : at + PART_BYTES]
    yield _FLAGS[END] + message[last:]


class Reassembly:
    """The one unfinished message of a session. Raises :class:`SessionBroken`; of no use afterwards but to
    :meth:`drop`.
    """

    __slots__ = ("_budget", "_held_bytes", "_parts")

    def __init__(self, budget: ReassemblyBudget) -> None:
        self._budget = budget
        self._parts: list[bytes] = []
        self._held_bytes = 0

    def add(self, flag: int, data: bytes) -> bytes | None:
        """Take a part or an end; the whole message when this ends it."""
        if flag == PART and len(data) != PART_BYTES:
            raise SessionBroken("chunk.size", f"a part of {len(data)} bytes, each has {PART_BYTES}")
        if flag == END and not (self._parts and data):
            raise SessionBroken("chunk.order", "the end of a message that was not begun, or an empty end")
        more = 1 if flag == PART else 0  # after a part comes at least one more byte
        if self._held_bytes + len(data) + more > MAX_MESSAGE_BYTES:
            raise SessionBroken("chunk.total", f"a message of over {MAX_MESSAGE_BYTES} bytes")
        if flag == END:
            message = b"".join((*self._parts, data))
            self.drop()
            return message
        if not self._budget.take(len(data)):
            raise SessionBroken(
                "chunk.budget", f"unfinished messages of all peers hold {self._budget.limit_bytes} bytes"
            )
        self._parts.append(data)
        self._held_bytes += len(data)
        return None

    def drop(self) -> None:
        """Forget the unfinished message and free its share of the budget."""
        self._budget.give_back(self._held_bytes)
        self._parts, self._held_bytes = [], 0
