"""How long it takes until who was killed runs again, and until a cell that somebody holds is found, by the ledger."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.patience import HANG_S
from tests.prove.house import House, ProofError
from tests.prove.processes import kill
from weftos import WeftosError

POLL_S = 0.05
CONNECTED = "03"
QUIET_S = 1.1
"""Between two kills: a little more than the period of the agents' supervisor, after which a restart is immediate."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What was measured so often, beside which load."""

    what: str
    load: str
    count: int
    p50_s: float
    p99_s: float
    max_s: float


def measured(what: str, load: str, took_s: Sequence[float]) -> Timing:
    """By nearest rank: below a hundred the 99th percentile is the longest."""
    ranked = sorted(took_s)
    at = (max(0, -(-len(ranked) * share // 100) - 1) for share in (50, 99))
    p50_s, p99_s = (ranked[place] for place in at)
    return Timing(what, load, len(ranked), p50_s, p99_s, ranked[-1])


class Ends:
    """When processes started and exited, by the entries that say so. A thread of its own reads them."""

    def __init__(self, house: House) -> None:
        self._times: dict[str, list[int]] = {"process.started": [], "process.exited": []}
        self._node = house.client()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for event in self._node.events(follow=True):
                if event["kind"] in self._times:
                    self._times[event["kind"]].append(event["time_us"])
        except WeftosError:
            return  # the node has ended

    def after(self, kind: str, since_us: int, count: int) -> list[int]:
        """The first ``count`` of a kind since then, in microseconds since 1970, once there are so many."""

        def found() -> list[int]:
            return [time_us for time_us in self._times[kind] if time_us >= since_us]

        until(lambda: len(found()) >= count, f"{count} times {kind}")
        return found()[:count]


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + HANG_S
    while not holds():
        if time.monotonic() > deadline:
            raise ProofError(f"waited {HANG_S:g} s for {what}")
        time.sleep(POLL_S)


class Stopwatch:
    """Kills the cell of some agents, or has one of them hold it, and waits until all of them run again."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._node = house.client()
        self._ends = Ends(house)

    def killed(self, agents: Sequence[str]) -> float:
        """Seconds from the kill of the cell that most of these agents are in until all that were in it run again. It is
        killed when all cells are there, the spare one too.
        """
        time.sleep(QUIET_S)
        until(self._all_cells_are_there, "all cells to be there")
        rows = self._rows(agents)
        [(cell, _)] = Counter(os_pid for _, os_pid in rows.values()).most_common(1)
        before = {name: row for name, row in rows.items() if row[1] == cell}
        since_us = time.time_ns() // 1000
        kill(cell)
        started_us = self._ends.after("process.started", since_us, len(before))
        self._back(before)
        return (max(started_us) - since_us) / 1e6

    def _all_cells_are_there(self) -> bool:
        """Whether each has dialled in, by what the system says of the node's socket (proc_pid_net(5))."""
        status = self._node.status()
        entrance = f"{status['runtime']}/cells.sock"
        lines = (line.split() for line in Path("/proc/net/unix").read_text().splitlines())
        connected = sum(line[-1] == entrance and line[5] == CONNECTED for line in lines)
        return connected == status["cells"]

    def held(self, agents: Sequence[str]) -> float:
        """Seconds from when one of them held their cell until the node knew it."""
        rows = self._rows(agents)
        before = {name: row for name, row in rows.items() if row[1] == rows[agents[0]][1]}
        since = Path(self._house.data, f"held-{time.monotonic_ns()}")
        self._node.send(agents[0], json.dumps({"hold": str(since)}))
        until(lambda: since.exists() and bool(since.read_text()), f"{agents[0]} to hold its cell")
        since_us = int(since.read_text())
        found_us = self._ends.after("process.exited", since_us, 1)
        self._back(before)
        return (found_us[0] - since_us) / 1e6

    def _rows(self, agents: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Of each agent its PID and that of its cell, once all of them run."""
        wanted, found = set(agents), dict[str, tuple[int, int]]()

        def all_run() -> bool:
            rows = [row for row in self._node.ps() if row["name"] in wanted and row["state"] == "running"]
            found.update({row["name"]: (row["pid"], row["os_pid"]) for row in rows})
            return len(rows) == len(wanted)

        until(all_run, f"{len(wanted)} agents to run")
        return {name: found[name] for name in agents}

    def _back(self, before: dict[str, tuple[int, int]]) -> None:
        """Wait until the successors of all run."""

        def all_are_back() -> bool:
            now = self._rows(list(before))
            return all(now[name][0] > pid for name, (pid, _) in before.items())

        until(all_are_back, f"{len(before)} agents to be back")
