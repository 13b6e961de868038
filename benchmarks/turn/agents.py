"""Agents with the whole pipeline, or a part of it, at work on the node of the benchmarks; timed by its own ledger."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.node import WAIT_S
from benchmarks.turn.loops import Bench
from benchmarks.turn.server import AGENT_MODEL

TEXT = "Call act as often as it is needed, then say that all is done."
_NUMBERS = itertools.count()


@dataclass(slots=True)
class Turn:
    """What the ledger says of one turn, in microseconds since the epoch; ``stages``: what each took, in seconds."""

    began_us: int = 0
    ended_us: int = 0
    asked_us: list[int] = field(default_factory=list)
    stages: dict[str, float] = field(default_factory=dict)

    @property
    def took_s(self) -> float:
        return (self.ended_us - self.began_us) / 1e6

    @property
    def steps_s(self) -> list[float]:
        """From one question to the next: an answer, a call, and what is thought between."""
        return [(then - first) / 1e6 for first, then in itertools.pairwise(self.asked_us)]


@dataclass(frozen=True, slots=True)
class Agents:
    """``names`` of agents whose model wants ``rounds`` calls of each turn."""

    bench: Bench
    names: Sequence[str]

    @classmethod
    def spawn(
        cls, bench: Bench, count: int, rounds: int, pause_ms: int = 0, without: Sequence[str] = ()
    ) -> Agents:
        """So many, in shared cells; ``without``: stages that are left out."""
        first = next(_NUMBERS)
        names = [f"agent-{first}-{number}" for number in range(count)]
        config = {
            "execution": {"max_tool_rounds": max(1, rounds), "total_timeout_secs": int(WAIT_S)},
            "pipeline": {"skip_stages": list(without)},
        }
        told = {
            "behaviour": "agent",
            "provider": "bench",
            "model": AGENT_MODEL.format(pause_ms, rounds),
            "tools": ["act"],
            "config": config,
        }
        bench.node.post("/spawn", [{"name": name, **told} for name in names], 16)
        return cls(bench, names)

    def work(self) -> list[Turn]:
        """A turn of each, all at once, in a session of its own; as the ledger has them."""
        node, session = self.bench.node, f"s{next(_NUMBERS)}"
        node.journal.new()
        said = {"text": TEXT, "session": session, "wait_s": WAIT_S}
        answers = node.post("/send", [{"target": name, **said} for name in self.names])
        if failed := [answer for answer in answers if answer["status"] != "ok"]:
            raise RuntimeError(f"an agent failed: {failed[0]['reply']}")
        turns = {answer["turn"] for answer in answers}
        node.client.log(limit=1)  # waits until all of it is on the disk
        return list(self._told(turns).values())

    def _told(self, turns: set[str]) -> dict[str, Turn]:
        found: dict[str, Turn] = defaultdict(Turn)
        for record in self.bench.node.journal.new():
            body, time_us = record.body, record.entry.time_us
            turn = body.get("turn") if body else None
            if turn not in turns:
                continue
            match record.entry.kind:
                case "turn.started":
                    found[turn].began_us = time_us
                case "model.asked":
                    found[turn].asked_us.append(time_us)
                case "turn.ended":
                    found[turn].ended_us = time_us
                    found[turn].stages = {name: us / 1e6 for name, _, _, us in json.loads(body["stages"])}
        return found


def rate_of(turns: Sequence[Turn]) -> float:
    """Seconds for one step of all agents together, while all are at work: in the middle half of their steps."""
    asked = sorted(time_us for turn in turns for time_us in turn.asked_us)
    begin, end = len(asked) // 4, len(asked) * 3 // 4
    return (asked[end] - asked[begin]) / 1e6 / (end - begin)


def medians(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """By name, the median over all rows."""
    return {name: median(row[name] for row in rows) for name in rows[0]}
