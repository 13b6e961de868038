"""What is outside the node, outlives it, and bears witness: effects, what clients and workers were told, and how.

Everything random in the surroundings comes from ``chance``. Whatever must never be is said to :meth:`World.broken`,
and ends the run.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.simulation.ledger import SimulatedLedger
from tests.simulation.rare import RARE


class Broken(AssertionError):
    """Something happened that must never."""


@dataclass
class HandedOver:
    """One attempt at a call, as the worker had it. ``end``: under way, answered, lost."""

    call: str
    tool: str
    intent: int
    boot: int
    effect_id: str
    effects: int = 0
    end: str = "under way"


@dataclass
class Sent:
    """A message of a client. ``acknowledged``: it was told that the node has it."""

    id: str
    text: str
    acknowledged: bool = False


@dataclass
class World:
    """``attempts`` by call (``turn:ordinal``), of tools with effects. ``words``: how often a person had a call made
    again; ``policies``: how often it had been made when a boot ended whose policy was to make it again; ``retried``:
    the tools for which that is the policy of this boot; ``probed``: how often it had been made when a probe said that
    it had not landed. ``effect_ids``: the call that has it. ``refused``: calls that were waiting for a worker when
    somebody ended their process. ``keyed``: by key, the target and the message that a client was
    told of. ``causes``: by PID, how the surroundings ended it; ``placed``: the PIDs that cells
    were given; ``seen``: how often each of :data:`tests.simulation.rare.RARE` was reached; ``looks``: how often the
    state was looked at before a commit.
    """

    chance: Random
    faults: list[str] = field(default_factory=list)
    boot: int = 0
    attempts: dict[str, list[HandedOver]] = field(default_factory=dict)
    words: dict[str, int] = field(default_factory=dict)
    policies: dict[str, int] = field(default_factory=dict)
    retried: frozenset[str] = frozenset()
    probed: dict[str, int] = field(default_factory=dict)
    effect_ids: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    sent: dict[str, Sent] = field(default_factory=dict)
    keyed: dict[str, tuple[str, str]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    causes: dict[int, set[str]] = field(default_factory=dict)
    placed: set[int] = field(default_factory=set)
    seen: Counter[str] = field(default_factory=Counter)
    looks: int = 0

    def saw(self, rare: str) -> None:
        """A rare state was reached; KeyError when nobody has declared it."""
        assert RARE[rare].kind == "", rare
        self.seen[rare] += 1

    def cause(self, pid: int, reason: str) -> None:
        """The surroundings have ended that process so."""
        self.causes.setdefault(pid, set()).add(reason)

    def forget_unseen(self, reserved: int) -> None:
        """A node boots, and its disk has PIDs below that as ``reserved``: the others nobody had seen when the boot
        before it ended, as nobody hears of a node before its boot is on the disk.
        """
        self.placed = {pid for pid in self.placed if pid < reserved}

    def broken(self, what: str) -> None:
        self.faults.append(what)

    def delay_s(self) -> float:
        """How long something outside takes: nothing, a moment, or a while."""
        kind = self.chance.random()
        if kind < 0.3:
            return 0.0
        return self.chance.expovariate(200.0) if kind < 0.8 else self.chance.uniform(0.02, 1.0)

    # -- workers ---------------------------------------------------------------------------------------------------

    def hand_over(self, ledger: SimulatedLedger, body: dict[str, Any], seq: int) -> HandedOver:
        """A worker is handed a call with effects: by then its intent is on the disk, and nobody has made it."""
        call = f"{body['turn']}:{body['ordinal']}"
        held = ledger.kept.entries
        if seq >= len(held) or held[seq][0].kind != "tool.intent" or held[seq][1] != body:
            self.broken(f"{call} was handed over and its intent {seq} is not on the disk")
        if self.effect_ids.setdefault(body["effect_id"], call) != call:
            self.broken(f"{call} has the effect id of {self.effect_ids[body['effect_id']]}")
        before = self.attempts.setdefault(call, [])
        if before and before[0].effect_id != body["effect_id"]:
            self.broken(f"{call} is made again with another effect id")
        for one in before:
            if one.end == "under way":
                self.broken(f"{call} is made twice at once")
            elif one.end == "answered" and one.boot == self.boot:
                self.broken(f"{call} is made again after it was answered")
        by_policy = len(before) if body["tool"] in self.retried else self.policies.get(call, 0)
        if len(before) > max(self.words.get(call, 0), by_policy, self.probed.get(call, 0)):
            self.broken(
                f"{call} is made a {len(before) + 1}. time, and no policy and no person had it made again"
            )
        if call in self.refused:
            self.broken(f"{call} is made, and its process was ended before it was handed over")
        attempt = HandedOver(call, body["tool"], seq, self.boot, body["effect_id"])
        before.append(attempt)
        return attempt

    def probe(self, effect_id: str) -> bool:
        """Whether the effect of that id has landed. Nobody is at it."""
        call = self.effect_ids[effect_id]
        attempts = self.attempts[call]
        if any(one.end == "under way" for one in attempts):
            self.broken(f"{call} is under way, and its probe is asked")
        if any(one.effects for one in attempts):
            return True
        self.probed[call] = len(attempts)
        return False

    def died(self, recorded: Collection[str], *, forgets: bool) -> None:
        """The node is gone, and its workers with it; what it ``forgets`` was not on the disk. ``recorded``: the calls
        whose outcomes are.
        """
        self.boot += 1
        if forgets:
            self.refused.clear()
        for call, attempts in self.attempts.items():
            if call in recorded:
                continue
            for one in attempts:
                one.end = "lost"
            if attempts[-1].tool in self.retried:
                self.policies[call] = len(attempts)

    # -- clients ---------------------------------------------------------------------------------------------------

    def acknowledge(self, sent: Sent) -> None:
        """A client hears that the node has its message."""
        sent.acknowledged = True
        self.sent[sent.id] = sent

    def answered(self, key: str, to: str, ident: str) -> None:
        """A client hears as which message what it sent under a key is there: always the same, which is on the disk."""
        before = self.keyed.setdefault(key, (to, ident))
        if before != (to, ident):
            self.broken(f"{ident} to {to} was sent under {key}, as was {before[1]} to {before[0]}")

    def told(self, sent: Sent, end: dict[str, Any], recorded: tuple[str, str] | None) -> None:
        """A client hears of the end of its message: only once, and what is on the disk."""
        if recorded != (end["status"], end["reply"]):
            self.broken(f"{sent.id} was told {end}, and the disk has {recorded}")


def plan_of(text: str) -> dict[str, Any]:
    """What a message asks its receiver to do."""
    plan: dict[str, Any] = json.loads(text)
    return plan
