"""What h11 is given, by clients and servers alike: a little at a time, and no head that takes it long. Pure.

It handles all that it has in one go, and its pattern for a header line takes time with the square of a run of blanks:
20 s for 64 KiB (h11 0.16).
"""

from __future__ import annotations

import re

FED_BYTES = 1024
MOST_BLANKS = 256
_BLANKS = b" " * MOST_BLANKS
_TAB_IS_BLANK = bytes.maketrans(b"\t", b" ")
_END_OF_HEAD = re.compile(rb"\n\r?\n")


def head_has_blanks(unread: bytes) -> bool:
    """Whether the head at the beginning of ``unread``, or what has come of it, has a run of ``MOST_BLANKS`` blanks."""
    head = unread.translate(_TAB_IS_BLANK)
    end = _END_OF_HEAD.search(head)
    return head.find(_BLANKS, 0, end.start() if end else len(head)) >= 0
