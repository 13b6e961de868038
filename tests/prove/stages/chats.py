"""Proof: messages of chats while node and cells are killed: between acceptance, the start of the session, its turn and
the answer. Whoever sends repeats what was not acknowledged under the same id, as a channel does. Each id is one
message, each message is answered once, and nothing is a dead letter.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from rich.console import Console

from chain.disk import Disk
from chain.entry.reader import EntryRecord, read_records
from tests.patience import HANG_S
from tests.prove.house import House, proven
from tests.prove.processes import kill
from tests.prove.progress import Steps
from tests.prove.report import Findings, check_ledger
from weftos import Client, WeftosError

BLOWS, QUICK_BLOWS = 24, 6
SENDERS = 3
MOST_LATE_S = 0.3
_LIMITS = "\n[limits]\nsession_idle_s = 1\n"


@dataclass(frozen=True, slots=True)
class Said:
    """A message: its id in the channel, its chat (new, or one that may run or sleep), and what it asks."""

    ident: str
    chat: str
    text: str


def prove_chats(console: Console, seed: str, quick: bool) -> bool:
    """True when everything held."""
    house, chance, blows = House("c"), random.Random(seed), QUICK_BLOWS if quick else BLOWS
    house.prepare()
    with (house.node / "weftos.toml").open("a") as file:
        file.write(_LIMITS)

    def proof() -> bool:
        findings = Findings()
        house.up("--engine", "local")
        with house.client() as node:
            node.spawn("ada", provider="offline")
        said: list[Said] = []
        unanswered: list[str] = []
        with Steps(console, "chats under kills", blows) as steps:
            for blow in range(blows):
                batch = [
                    Said(f"{blow}-{n}", ("42", f"new{blow}", "43")[n % 3], f"what is {blow}*{n}")
                    for n in range(SENDERS)
                ]
                said += batch
                _strike(
                    house, batch, "cell" if chance.random() < 0.3 else "node", chance.uniform(0, MOST_LATE_S)
                )
                with house.client() as node:
                    for each in batch:
                        if (status := _send(node, each, HANG_S)) != "ok":
                            unanswered.append(f"{each.ident}: {status}")
                steps.reach(blow + 1)
        house.down()
        findings.check("whoever asks again is answered", unanswered)
        _judge(house, said, findings)
        check_ledger(house, findings)
        findings.print(console)
        return not findings.bad

    return proven(console, house, proof)


def _strike(house: House, batch: list[Said], what: str, after_s: float) -> None:
    """Have them sent at once, and end node or cell meanwhile."""

    def send(each: Said) -> None:
        with suppress(WeftosError), house.client() as node:
            _send(node, each, None)

    with house.client() as node:
        cells = {row["os_pid"] for row in node.ps() if row["cell"]}
    senders = [threading.Thread(target=send, args=(each,)) for each in batch]
    for sender in senders:
        sender.start()
    time.sleep(after_s)
    if what == "node":
        kill(house.run.leader)
    else:
        for pid in cells:
            with suppress(ProcessLookupError):
                kill(pid)
    for sender in senders:
        sender.join()
    if what == "node":
        house.up("--engine", "local")


def _send(node: Client, each: Said, wait_s: float | None) -> str:
    """How it ended, as far as that is waited for."""
    answer = node.send(
        "ada", each.text, channel="telegram", chat=each.chat, id=each.ident, user="bob", wait_s=wait_s
    )
    return str(answer.get("status", ""))


def _judge(house: House, said: list[Said], findings: Findings) -> None:
    accepted: dict[str, list[str]] = {}
    ended: Counter[str] = Counter()
    dead: list[str] = []
    slots: Counter[str] = Counter()
    for record in read_records(house.node / "journal", Disk()):
        if not isinstance(record, EntryRecord) or record.erased:
            continue
        kind, body = record.entry.kind, record.body
        if kind == "message.accepted" and body["inbound"]:
            accepted.setdefault(json.loads(body["inbound"])["id"], []).append(body["id"])
        elif kind == "turn.ended":
            ended[body["turn"]] += body["status"] == "ok"
        elif kind == "message.dead":
            dead.append(str(body))
        elif kind == "process.spawned":
            slots[body["address"]] += 1
    findings.check(
        "each id is one message", [each.ident for each in said if len(accepted.get(each.ident, ())) != 1]
    )
    turns = {ident: f"t{ids[0][1:]}" for ident, ids in accepted.items()}
    findings.check(
        "each message is answered once", [ident for ident, turn in turns.items() if ended[turn] != 1]
    )
    findings.check("no message is a dead letter", dead)
    findings.check("each chat has one slot", [address for address, count in slots.items() if count != 1])
    findings.figure("messages of chats", len(said))
