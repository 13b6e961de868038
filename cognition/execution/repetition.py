"""A model that makes the same call again and again is told so, then refused, then stopped. Pure.

The same call: the same tool with the same arguments, of which the result was the same as before. One whose result has
changed has got somewhere, and is counted anew. So two calls in turns count only when the arguments of each repeat too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from kernel.abi import ToolCall, ToolResult

WARN, REFUSE, END = 3, 5, 8
UNKNOWN_END = 3
Verdict = Literal["run", "warn", "refuse", "end"]


@dataclass(frozen=True, slots=True)
class Repetition:
    """What a turn has called so far. ``counts``: by call, how often in a row with the same result, and that result;
    ``unknown``: how many calls named no tool that was offered.
    """

    counts: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    unknown: int = 0

    def times(self, call: ToolCall) -> int:
        """How often it was made already, in a row with the same result."""
        return self.counts.get(key_of(call), (0, ""))[0]

    def judge(self, call: ToolCall, beside: int = 0) -> Verdict:
        """What is to become of it, if it is made now. ``beside``: how often it is made with this one, before it."""
        time = self.times(call) + beside + 1
        if time >= END:
            return "end"
        if time >= REFUSE:
            return "refuse"
        return "warn" if time >= WARN else "run"

    def made(self, call: ToolCall, result: ToolResult) -> Repetition:
        """With a call and what came of it."""
        key, told = key_of(call), f"{result.status}\0{result.text}"
        before, same = self.counts.get(key, (0, told))
        count = before + 1 if same == told else 1
        return replace(self, counts={**self.counts, key: (count, told)})

    def refused(self, call: ToolCall) -> Repetition:
        """With a call that was not made for its repetition."""
        key = key_of(call)
        before, same = self.counts.get(key, (0, ""))
        return replace(self, counts={**self.counts, key: (before + 1, same)})

    def unknown_tool(self) -> Repetition:
        """With a call of a tool that was not offered."""
        return replace(self, unknown=self.unknown + 1)

    @property
    def lost(self) -> bool:
        """Whether so many tools were called that there are not, that the turn is to end."""
        return self.unknown >= UNKNOWN_END


def key_of(call: ToolCall) -> str:
    """The same for calls that mean the same."""
    try:
        arguments = json.dumps(json.loads(call.arguments), sort_keys=True)
    except (ValueError, RecursionError):
        arguments = call.arguments
    return f"{call.name}\0{arguments}"


def warning(times: int) -> str:
    """What a model is told beside the result of a call that it makes for the ``times``-th time."""
    return (
        f"\n[note of the node: this call has now been made {times} times with the same arguments and the same result; "
        f"at the {REFUSE}th it is refused]"
    )


def refusal(times: int) -> str:
    """What a model is told in place of a result."""
    return (
        f"not run: it was made {times - 1} times with the same arguments and the same result. Take another way, or "
        f"answer with what is known; at the {END}th the turn ends"
    )
