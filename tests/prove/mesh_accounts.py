"""What the journals of several nodes say of the messages between them, held against each other and the world outside.

A message of this proof is known by its effect, ``ID.HOP``, which stands in its text. So what one node says it sent and
what another says it accepted are told apart from the nodes' own numbers, which are under test.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chain.disk import Disk
from chain.entry.reader import EntryRecord, read_records


@dataclass(slots=True)
class NodeAccounts:
    """One journal. Messages by id; ``effect_of`` says which effect a message is for, empty for an answer."""

    name: str
    origin: str = ""
    effect_of: dict[str, str] = field(default_factory=dict)
    sent: dict[str, dict[str, Any]] = field(default_factory=dict)
    accepted: dict[str, dict[str, Any]] = field(default_factory=dict)
    ends: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    asks: dict[tuple[str, str], int] = field(default_factory=dict)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    noconnection: int = 0
    timeouts: int = 0
    peers_lost: int = 0
    _turns: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, body: dict[str, Any]) -> None:
        match kind:
            case "node.booted":
                self.origin = body["origin"]
            case "message.sent" | "message.accepted":
                (self.sent if kind == "message.sent" else self.accepted)[body["id"]] = body
                self.effect_of[body["id"]] = "" if body.get("answers") else _effect(body["text"])
            case "message.acknowledged":
                self.ends[body["id"]].append("acknowledged")
            case "message.dead":
                self.ends[body["id"]].append(f"dead: {body['why']}")
            case "turn.started":
                self._turns[body["turn"]] = body["message"]
            case "turn.ended" if body["status"] in ("ok", "error", "cancelled"):
                self.ends[self._turns[body["turn"]]].append(body["status"])
            case "tool.intent" if body["tool"] == "ask":
                self.asks[body["turn"], body["ordinal"]] = 1
            case "tool.outcome" if body["tool"] == "ask":
                self.outcomes[body["turn"], body["ordinal"]] += 1
                self.noconnection += "noconnection" in body["result"]
                self.timeouts += body["status"] == "timeout"
            case "peer.down":
                self.peers_lost += 1


def read_node(name: str, data: Path) -> NodeAccounts:
    """The accounts of one node, from its files."""
    accounts = NodeAccounts(name)
    for record in read_records(data / "journal", Disk()):
        if isinstance(record, EntryRecord):
            accounts.add(record.entry.kind, record.body)
    return accounts


def _effect(text: str) -> str:
    work = json.loads(text)
    return f"{work['id']}.{work['hop']}"


class Cluster:
    """The accounts of all nodes, and the questions that only all of them together can answer."""

    def __init__(self, nodes: Mapping[str, NodeAccounts]) -> None:
        self.nodes = nodes
        self._names = {node.origin: node.name for node in nodes.values()}
        self.accepted: Counter[str] = Counter()
        for node in nodes.values():
            self.accepted.update(node.effect_of[ident] for ident in node.accepted)

    def unended(self) -> Iterator[str]:
        """Messages without an end, or with more than one."""
        for node in self.nodes.values():
            for ident in (*node.accepted, *node.sent):
                if len(node.ends[ident]) != 1:
                    yield f"{node.name}: {ident} ({node.effect_of[ident]}) ended {node.ends[ident]}"

    def doubled(self) -> Iterator[str]:
        """Messages that were accepted more than once, anywhere."""
        for effect, times in self.accepted.items():
            if times > 1:
                yield f"the message for {effect} was accepted {times} times"

    def untrue(self) -> Iterator[str]:
        """Ends at a sender that its receiver's journal contradicts."""
        for node in self.nodes.values():
            for ident, end in ((ident, node.ends[ident]) for ident in node.sent if node.effect_of[ident]):
                effect = node.effect_of[ident]
                times = self.accepted[effect]
                if end == ["acknowledged"] and times != 1:
                    yield f"{node.name}: {ident} ({effect}) was acknowledged and accepted {times} times"
                elif end and end[0].startswith("dead") and "maybe" not in end[0] and times:
                    yield f"{node.name}: {ident} ({effect}) is {end[0]!r}, and was accepted"

    def disordered(self) -> Iterator[str]:
        """Messages of one sender to one receiver that were accepted in another order than they were sent in."""
        sent = {
            effect: (node.name, int(ident[1:]))
            for node in self.nodes.values()
            for ident in node.sent
            if (effect := node.effect_of[ident])
        }
        last: dict[tuple[str, str, str], int] = {}
        for node in self.nodes.values():
            for ident, body in node.accepted.items():
                effect = node.effect_of[ident]
                if "@" not in body["sender"] or effect not in sent:
                    continue
                sender, number = sent[effect]
                lane = (body["sender"], node.name, body["to"])
                if number <= last.get(lane, -1):
                    yield f"{node.name}: {effect} from {sender} as {number}, after {last[lane]}"
                last[lane] = number

    def asked_twice(self) -> Iterator[str]:
        """Asks with no outcome, or with more than one."""
        for node in self.nodes.values():
            for call in node.asks:
                if node.outcomes[call] != 1:
                    yield f"{node.name}: ask {call} has {node.outcomes[call]} outcomes"

    def unexplained(self, counts: Counter[str]) -> Iterator[str]:
        """Effects that no accepted message led to, and messages that ended well without their effect."""
        for effect in counts:
            if not self.accepted[effect]:
                yield f"effect {effect} happened, and no node accepted its message"
        for node in self.nodes.values():
            for ident in node.accepted:
                effect = node.effect_of[ident]
                if node.ends[ident] == ["ok"] and counts[effect] != 1:
                    yield f"{node.name}: {ident} ended ok, and its effect {effect} happened {counts[effect]} times"
