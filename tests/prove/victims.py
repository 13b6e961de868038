"""Who is to be killed: five kinds, and how the process of each is found. By pid and parent, never by pattern alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

from tests.prove.house import House, ProofError
from tests.prove.processes import below, living
from weftos import Client

KINDS = ("node", "placer", "cell", "ray", "helper")
TITLES = {
    "node": "node",
    "placer": "placer",
    "cell": "cell",
    "ray": "gcs, raylet",
    "helper": "helper",
}


@dataclass(frozen=True, slots=True)
class Victim:
    """A process to kill. ``lost`` are the pids that must not be seen any more once the node has recovered."""

    kind: str
    name: str
    os_pid: int
    lost: frozenset[int]


class Choice:
    """Chooses victims; Ray's processes, and the helpers, in turn."""

    def __init__(self, house: House, agents: Sequence[str], chance: random.Random) -> None:
        self._house = house
        self._agents = frozenset(agents)
        self._chance = chance
        self._ray = cycle(("gcs_server", "raylet"))
        self._helpers = cycle(("archive", "gateway"))

    def victim(self, kind: str, node: Client) -> Victim:
        """The next victim of a kind, as the node stands now."""
        helpers = {row["name"]: row["os_pid"] for row in node.status()["helpers"]}
        cells = {row["os_pid"] for row in node.ps() if row["name"] in self._agents}
        placer = helpers["placer"]
        match kind:
            case "node":
                return Victim(kind, "node", self._house.run.leader, frozenset({*helpers.values(), *cells}))
            case "placer":
                return Victim(kind, "placer", placer, frozenset({placer, *cells}))
            case "cell":
                cell = self._chance.choice(sorted(cells))
                return Victim(kind, "cell", cell, frozenset({cell}))
            case "ray":
                name = next(self._ray)
                return Victim(kind, name, _ray_process(placer, name), frozenset({placer, *cells}))
            case "helper":
                name = next(self._helpers)
                return Victim(kind, name, helpers[name], frozenset({helpers[name]}))
        raise ValueError(f"no kind of victim {kind!r}")


def _ray_process(placer: int, name: str) -> int:
    """One of Ray's own processes, directly below the placer."""
    for process in below(placer, living()):
        if process.parent == placer and process.command.split(" ")[0].rsplit("/", 1)[-1] == name:
            return process.pid
    raise ProofError(f"the placer {placer} has no child {name}")
