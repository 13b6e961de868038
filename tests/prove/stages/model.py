"""The model of the walk, as a process of its own: ``python -m tests.prove.stages.model LOG WIRES``.

It wants the calls of :mod:`tests.prove.stages.places`, and says beside each how often it was asked for that round: so
an answer that is asked for once more is another answer. A line of ``LOG`` for each question says of which case and
round it was, and when it came. It prints its port, and ends with its standard input.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.prove.stages.places import ROUNDS, question, reply_of, tool_of
from tests.prove.stages.plugins.tripwires import Tripwires
from tests.servers.model_server import Handler, Json, Scripts, exit_with_stdin

ID = "step"
MIDDLE = 4
"""So many pieces of a stream have gone when it is in its middle."""


class Walk(Scripts):
    """Which answer a question gets, and a book of them all. Safe for threads."""

    def __init__(self, log: Path, wires: Tripwires) -> None:
        super().__init__({"models": {}})
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._wires = wires
        self._lock = threading.Lock()
        self._times: Counter[tuple[str, int]] = Counter()

    def next(self, request: Json) -> Json:
        """The answer; before it whoever is to be killed is."""
        case, round_ = place_of(request["body"]["messages"])
        row = {"case": case, "round": round_, "time_us": time.time_ns() // 1000}
        with self._lock:
            self._times[case, round_] += 1
            times = self._times[case, round_]
            os.write(self._log, json.dumps(row).encode() + b"\n")
        asked, answering = question(round_)
        self._wires.stand(case, asked)
        if round_ == len(ROUNDS):
            return {"text": reply_of(case), "middle": (case, answering)}
        calls = [
            {
                "name": tool_of(round_, index),
                "arguments": {"step": f"{case}.{round_}.{index}", "asked": times},
                "id": f"{ID}-{round_}-{index}",
            }
            for index in range(ROUNDS[round_])
        ]
        return {
            "text": f"On with round {round_} of {case}.",
            "tool_calls": calls,
            "middle": (case, answering),
        }

    def in_the_middle(self, middle: tuple[str, str]) -> None:
        self._wires.stand(*middle)


def place_of(messages: Sequence[dict[str, Any]]) -> tuple[str, int]:
    """The case, and how many rounds of calls stand behind its message. What the node notes between is none."""
    case, rounds = "", 0
    for message in messages:
        text = str(message.get("content") or "")
        if message["role"] == "user" and text.startswith("walk "):
            case, rounds = text.split()[1], 0
        elif any(call["id"].startswith(ID) for call in message.get("tool_calls") or ()):
            rounds += 1
    return case, rounds


class WalkHandler(Handler):
    """Stops in the middle of a stream."""

    walk: Walk

    def _stream(self, answer: Json, body: Json) -> None:
        self._pieces, self._middle = 0, answer["middle"]
        super()._stream(answer, body)

    def _chunk(self, data: bytes) -> None:
        if self._pieces == MIDDLE:
            self.walk.in_the_middle(self._middle)
        self._pieces += 1
        super()._chunk(data)


def main() -> None:
    log, wires = map(Path, sys.argv[1:])
    WalkHandler.walk = WalkHandler.scripts = Walk(log, Tripwires(wires))
    server = ThreadingHTTPServer(("127.0.0.1", 0), WalkHandler)
    server.daemon_threads = True
    threading.Thread(target=exit_with_stdin, daemon=True).start()
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
