"""A behaviour of your own: one decorated class. The node runs it in a cell.

It needs no files, network or clock of its own: it asks ``sys``, where the node decides, records, then acts. The same
message brings the same calls, so after a crash the next incarnation gets the recorded results back and goes on.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from weftos import behaviour

if TYPE_CHECKING:
    from kernel.abi import Message, ProcessInfo, Syscalls


@behaviour
class Surveyor:
    """Answers the name of a directory of its workspace with the number of words in each file there."""

    def __init__(self, info: ProcessInfo) -> None:
        self._name = info.name

    async def handle(self, message: Message, sys: Syscalls) -> str:
        """One message, one survey."""
        directory = message.text.strip() or "."
        listing = await sys.call_tool("file_list", {"path": directory})
        if listing.status != "ok":
            return f"{self._name} cannot look there: {listing.text}"
        lines = []
        for name in (
            line.partition("  ")[0] for line in listing.text.splitlines() if line.endswith(" bytes")
        ):
            text = await sys.call_tool("file_read", {"path": f"{directory}/{name}"})
            count = await sys.call_tool("word_count", {"text": text.text})
            lines.append(
                f"{name}: {json.loads(count.text)['words']}" if count.status == "ok" else f"{name}: ?"
            )
        return "\n".join(lines) or "no files there"
