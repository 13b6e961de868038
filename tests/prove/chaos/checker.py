"""Was everything kept that was promised? Judges what was seen from outside alone: python checker.py DIRECTORY

``history.jsonl``: what clients asked, an object a line with ``op``, ``f``, ``type``, as in Jepsen: invoke, then ok (it
was done), fail (it was not) or info (nobody knows; it may be asked again). ``f``: send (``route``: who handles it, in
order; ok: acknowledged), answer (``status``), cancel and stop (of ``agent``), start, decide (``word`` on the ``effect``
of a call in doubt), kill. ``effects.jsonl``: what happened, ``effect`` OP.HOP with its ``id``; OP.HOP.refused: that hop
was told that the next cannot be had. ``doubts.jsonl``, ``deadletters.jsonl``: dumps. Status 1, a line for each breach.
"""

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]
HOP = re.compile(r'"id": ?"([^"]+)", ?"hop": ?(\d+)')


class Seen:
    """``soft``: agents that were stopped, or turns of them cancelled. ``open``: ops that a call in doubt holds."""

    def __init__(self, history: Rows, effects: Rows, doubts: Rows, letters: Rows) -> None:
        self.history, self.effects = history, effects
        self.ops: dict[tuple[str, str], Rows] = defaultdict(list)
        for event in history:
            self.ops[event["f"], event["op"]].append(event)
        self.soft = {event.get("agent") for event in history if event["f"] in ("cancel", "stop")}
        undecided = {json.loads(doubt["arguments"])["effect"] for doubt in doubts}
        self.open = {effect.split(".")[0] for effect in undecided} | {doubt["id"] for doubt in doubts}
        self.lost = {event["effect"] for event in history if event.get("word") == "lost"} | undecided
        self.counts = Counter(effect["effect"] for effect in effects)
        told = ((HOP.search(letter["text"]), letter["reason"]) for letter in letters)
        self.dead = {".".join(found.groups()): reason for found, reason in told if found}

    def breaches(self) -> Iterator[str]:
        yield from (f"{effect} happened {n} times" for effect, n in self.counts.items() if n > 1)
        if len({effect["id"] for effect in self.effects}) != len(self.effects):
            yield "two effects have one id"
        for (f, op), events in self.ops.items():
            types = [event["type"] for event in events]
            if set(types[::2]) != {"invoke"} or "invoke" in types[1::2]:
                yield f"{f} {op}: {', '.join(types)} is no history"
            if types[-1] not in ("ok", "fail") and op not in self.open:
                yield f"{f} {op} is unresolved"
            if f == "send" and "ok" in types:
                yield from self._kept(op, events[0]["route"], events[0].get("final", False))
        yield from self._invented()
        yield from self._ended()

    def _status(self, op: str) -> str:
        ends = [event["status"] for event in self.ops.get(("answer", op), ()) if event["type"] == "ok"]
        return ends[0] if len(set(ends)) == 1 else " and ".join(ends)

    def _kept(self, op: str, route: list[str], final: bool) -> Iterator[str]:
        """What was acknowledged is answered, with the effect of each hop that nobody interfered with."""
        soft = set() if final else self.soft
        status = self._status(op)
        if not status and op not in self.open:
            yield f"{op} was acknowledged and is missing"
        if status not in ("", "ok", "dead") and route[0] not in soft:
            yield f"{op} ended as {status}, and nobody had interfered"
        if status == "dead" and f"{op}.0" not in self.dead:
            yield f"{op} is said to be dead, and is no dead letter"
        for hop, agent in enumerate(route if status in ("ok", "dead") else ()):
            name = f"{op}.{hop}"
            if agent in soft:
                return
            if name in self.dead:
                if self.dead[name] != "poison":
                    yield f"{name} is a dead letter ({self.dead[name]}), and nobody had interfered"
                return
            if not self.counts[name] and name not in self.lost:
                yield f"{name} did not happen"
            if self.counts[f"{name}.refused"]:
                return

    def _invented(self) -> Iterator[str]:
        for effect in self.counts:
            op, hop = effect.split(".")[:2]
            events = self.ops.get(("send", op), [{"route": (), "type": ""}])
            if int(hop) >= len(events[0]["route"]) or events[-1]["type"] == "fail":
                yield f"{effect} happened, and nobody asked for it, or was refused"

    def _ended(self) -> Iterator[str]:
        """After the last blow all is answered."""
        last = max((n for n, event in enumerate(self.history) if event["f"] == "kill"), default=-1)
        final = {event["op"] for event in self.history[last + 1 :] if event.get("final")}
        yield from (f"{op}, asked last, is not answered" for op in final if self._status(op) != "ok")
        yield from () if final else ("nothing was asked after the last blow",)


if __name__ == "__main__":
    place, names = Path(sys.argv[1]), ("history", "effects", "doubts", "deadletters")
    read = [[json.loads(line) for line in (place / f"{name}.jsonl").open()] for name in names]
    found = list(Seen(*read).breaches())
    print(*found, sep="\n", end="\n" * bool(found))
    sys.exit(bool(found))
