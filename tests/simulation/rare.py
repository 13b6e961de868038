"""States that are rare, that have gone wrong before or could, and that a run of many seeds must therefore reach.

Each is declared once, in :data:`RARE`. Some are read from what is on the disks (``entry``), some at a crash
(:func:`at_crash`), the others are said by whoever brings them about, with :meth:`World.saw`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kernel.model.states import NOCONNECTION
from kernel.peer.outboxes import MAYBE

Body = Mapping[str, Any]


class Rare(NamedTuple):
    """One of them. ``nodes``: how many it takes; ``kind`` and ``of``: the entry that tells of it."""

    what: str
    nodes: int = 1
    kind: str = ""
    of: Callable[[Body], bool] = lambda body: True


RARE: Mapping[str, Rare] = {
    "crash-before-hand-over": Rare("node crash between an intent on the disk and its hand-over to a worker"),
    "crash-before-effect": Rare("node crash between hand-over and effect"),
    "crash-after-effect": Rare("node crash between an effect and its answer"),
    "crash-before-outcome": Rare("node crash between an answer and its outcome on the disk"),
    "crash-in-turn": Rare("node crash between a recorded outcome and the end of its turn"),
    "crash-untold": Rare("node crash with a group on the disk of which nobody was told"),
    "crash-unwritten": Rare("node crash with records that no disk has"),
    "crash-refused": Rare("node crash while the disk refuses"),
    "crash-in-boot": Rare("node crash while it boots"),
    "crash-in-restart": Rare("node crash in the middle of a restart of several"),
    "crash-in-back-off": Rare("node crash while a child waits for its restart"),
    "crash-in-stop": Rare("node crash while a process has yet to end"),
    "kill-awaiting": Rare("kill of a process that awaits a person"),
    "kill-starting": Rare("kill of a process that has not started yet"),
    "kill-queued": Rare("kill with a call that waits for a worker"),
    "kill-under-way": Rare("kill with a call under way at a worker"),
    "kill-refused": Rare("kill while the disk refuses"),
    "stop-in-restart": Rare("stop of a child in the middle of a restart of several"),
    "cancel-awaiting": Rare("cancel of a turn that awaits a person"),
    "cancel-recovering": Rare("cancel of a turn that is being resumed"),
    "cancel-refused": Rare("cancel while the disk refuses"),
    "cell-with-call": Rare("cell lost with a call under way at a worker"),
    "cell-in-recovery": Rare("cell lost with a turn that is being resumed"),
    "suspect-found": Rare("cell lost with the last of those who may have taken it down"),
    "isolated": Rare("start of a process in a cell of its own, since it has taken two down"),
    "silent-to-cell": Rare("message of the node to a cell lost with its link"),
    "silent-from-cell": Rare("message of a cell to the node lost with its link"),
    "resolve-refused": Rare("word of a person on a doubt, on a disk that refuses"),
    "exceeded": Rare("child parked by its restart intensity", 1, "process.slot",
                     lambda body: body["state"] == "parked"),
    "gave-up": Rare("supervisor that has ended by its restart intensity"),
    "poison": Rare("message that its receiver died of too often", 1, "turn.ended",
                   lambda body: body["status"] == "poison"),
    "sent-again": Rare("dead letter that is sent again", 1, "message.replayed"),
    "gave-way": Rare("publication that gave way to a newer one", 1, "message.dead",
                     lambda body: body.get("reason") == "gave_way"),
    "overflow": Rare("publication for which its subscriber had no room", 1, "message.dead",
                     lambda body: body.get("reason") == "overflow" and "its spec" not in body["why"]),
    "overflow-direct": Rare("message for which its receiver had no room and wanted it accepted", 1, "message.dead",
                            lambda body: body.get("reason") == "overflow" and "its spec" in body["why"]),
    "key-again": Rare("message sent again under its key"),
    "expired": Rare("message that expired before it was delivered", 1, "message.dead",
                    lambda body: body["why"].startswith("expired")),
    "paused": Rare("process paused by its budget", 1, "process.suspended"),
    "spent": Rare("process ended by its budget, for good or until a person looks", 1, "process.exited",
                  lambda body: body["reason"] == "budget"),
    "probed": Rare("doubt that a probe has closed", 1, "tool.probed"),
    "unmade": Rare("intent that nobody has carried out, taken back at a boot", 1, "tool.resolved",
                   lambda body: body["by"].startswith("node: it had not begun")),
    "monitor-told": Rare("monitor of a process of this node told", 1, "monitor.down"),
    "wire-lost": Rare("link lost with something on its way", 2),
    "wire-maybe": Rare("message to another node given up that may have come", 2, "message.dead",
                       lambda body: MAYBE in body["why"]),
    "wire-unanswered": Rare("question to another node that is given up", 2, "message.unanswered"),
    "wire-refused": Rare("message that another node refused", 2, "message.refused"),
    "wire-monitor": Rare("monitor told that it has lost the other node", 2, "monitor.down",
                         lambda body: body["reason"] == NOCONNECTION),
}  # fmt: skip


def of_entries(entries: Iterable[tuple[Any, Body]]) -> Counter[str]:
    """How often each of those was reached that entries tell of."""
    told = [(name, rare) for name, rare in RARE.items() if rare.kind]
    seen: Counter[str] = Counter()
    for entry, body in entries:
        seen.update(name for name, rare in told if rare.kind == entry.kind and rare.of(body))
    return seen


def unseen(seen: Mapping[str, int], nodes: Iterable[int]) -> list[str]:
    """The names of those that were never reached, by runs of so many nodes."""
    most = max(nodes, default=0)
    return [name for name, rare in RARE.items() if rare.nodes <= most and not seen.get(name)]
