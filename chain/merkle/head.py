"""The tree head: the text of a C2SP checkpoint (c2sp.org/tlog-checkpoint), the one statement a node signs.

Three lines: origin, size in decimal, root in base64. No extension lines.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from chain.errors import HeadError
from chain.merkle.merkle import HASH_BYTES

MAX_SIZE = 2**63 - 1
_ORIGIN = re.compile(r"[!-*,-~]{1,256}").fullmatch
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}").fullmatch


@dataclass(frozen=True, slots=True)
class TreeHead:
    """``origin`` says: my first ``size`` entries have this ``root``."""

    origin: str
    size: int
    root: bytes

    def text(self) -> bytes:
        """The note text, what is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n".encode()


def parse_head(text: bytes) -> TreeHead:
    """The head in a note's ``text``; exactly what :meth:`TreeHead.text` writes. Raises :class:`HeadError`."""
    try:
        lines = text.decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        raise HeadError(f"tree head is not ASCII at byte {error.start}") from error
    if len(lines) != 4 or lines[3]:
        raise HeadError(f"tree head has {len(lines) - 1} lines, must have 3: origin, size, root")
    origin, size, encoded, _ = lines
    if not _ORIGIN(origin):
        raise HeadError(f"tree head has the origin {origin!r:.80}")
    if not _SIZE(size) or int(size) > MAX_SIZE:
        raise HeadError(
            f"tree head has the size {size!r:.40}, must be a plain decimal number up to {MAX_SIZE}"
        )
    try:
        root = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        raise HeadError(f"tree head's root is not base64: {encoded!r:.80}") from error
    head = TreeHead(origin, int(size), root)
    if len(root) != HASH_BYTES or head.text() != text:
        raise HeadError(f"tree head's root is not {HASH_BYTES} bytes in canonical base64: {encoded!r:.80}")
    return head
