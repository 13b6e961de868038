"""Proof (d): three nodes, thirty agents, wires that are cut and nodes that are killed. Every message is answered for.

Each node runs ten couriers (``plugins/courier.py``). A client beside each node sends messages with random routes over
all nodes, and writes down what was accepted. At random moments a node is killed with SIGKILL and booted again, or a
wire between two nodes is cut, frozen, or carries one way only before it is cut. At the end the journals of all nodes,
the clients' own books and the count of effects outside are held against each other.
"""

from __future__ import annotations

import json
import os
import random
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.patience import HANG_S
from tests.prove.effects import EffectServer, effect_server
from tests.prove.house import PLUGINS, House, ProofError, proven
from tests.prove.mesh_accounts import Cluster, read_node
from tests.prove.processes import kill
from tests.prove.report import Findings, check_ledger
from tests.prove.wires import Wire, Wires
from weftos import Client, WeftosError

NAMES = ("n1", "n2", "n3")
AGENTS = 10
TOOLS = ["count_effect", "send_message", "ask"]
DELAY_S = 0.01
DEADLINE_S = 8.0
DRAIN_S = HANG_S
POLL_S = 0.1
MAX_IN_FLIGHT = 60
LONG_S, QUICK_S = 120.0, 60.0
DURATIONS_S = {"cut": (0.1, 3.0), "freeze": (1.0, 7.0), "deaf": (0.3, 4.0)}


@dataclass(slots=True)
class Post:
    """One node and its house. ``port`` is where it listens; others reach it over ``wires``."""

    name: str
    port: int
    house: House
    origin: str = ""


@dataclass(slots=True)
class Book:
    """What the clients were told: own id, node, and the id that the node gave."""

    path: Path
    lines: list[tuple[str, str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, ident: str, node: str, message: str) -> None:
        with self.lock, self.path.open("ab") as file:
            self.lines.append((ident, node, message))
            file.write(json.dumps([ident, node, message]).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


@dataclass(slots=True)
class Blows:
    """What befalls the cluster, one blow at a time."""

    chance: random.Random
    posts: list[Post]
    wires: Wires
    pairs: dict[tuple[str, str], Wire]
    counts: Counter[str]

    def strike(self) -> str:
        """One blow, over when this returns: what it was."""
        kind = self.chance.choice(("kill", "cut", "freeze", "deaf", "deaf"))
        self.counts[kind] += 1
        if kind == "kill":
            return self._kill(self.chance.choice(self.posts))
        pair = self.chance.choice(sorted(self.pairs))
        wire = self.pairs[pair]
        duration_s = self.chance.uniform(*DURATIONS_S[kind])
        if kind == "cut":
            self.wires.cut(wire)
        elif kind == "freeze":
            self.wires.freeze(wire)
        else:
            self.wires.deafen(wire, self.chance.randrange(2))
        time.sleep(duration_s)
        if kind == "deaf":  # what was held back is lost: answers to messages that were taken, among others
            self.wires.cut(wire)
        self.wires.mend(wire)
        return f"{kind} {pair[0]}-{pair[1]} for {duration_s:.1f} s"

    def _kill(self, post: Post) -> str:
        old = post.house.run
        old.hold()
        kill(old.leader)
        post.house.up()
        left = old.left()
        old.close()
        if left:
            raise ProofError(f"{post.name} was killed and booted again, and left {left}")
        return f"kill {post.name}"

    def mend(self) -> None:
        """Let every wire through."""
        for wire in self.pairs.values():
            self.wires.mend(wire)


def prove_mesh(console: Console, seed: str, seconds: float) -> bool:
    """Run for ``seconds`` and judge. True when everything held."""
    posts = [Post(name, _free_port(), House(name)) for name in NAMES]
    place = posts[0].house.data
    findings = Findings()
    incidents: Counter[str] = Counter()

    def proof() -> bool:
        with effect_server(place / "effects.log", DELAY_S) as effects, Wires() as wires:
            book = Book(place / "book.jsonl")
            blows = Blows(random.Random(f"{seed} kills"), posts, wires, _build(posts, wires), incidents)
            _campaign(console, blows, effects, book, (seed, seconds))
            _judge(posts, effects, book, findings)
        for post in posts:
            check_ledger(post.house, findings)
        _print(console, incidents, findings)
        return not findings.bad

    for post in posts:
        proof = partial(proven, console, post.house, proof)
    return proof()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _build(posts: list[Post], wires: Wires) -> dict[tuple[str, str], Wire]:
    """Three nodes that know each other; of each two the first calls the second, over a wire of its own."""
    for post in posts:
        post.house.prepare()
        post.origin = post.house.cli("node", "id", "--data", str(post.house.node))["origin"]
    pairs: dict[tuple[str, str], Wire] = {}
    for number, post in enumerate(posts):
        lines = [
            f'[node]\nname = "{post.name}"\nengine = "local"\n',
            f'[mesh]\nlisten = "127.0.0.1:{post.port}"\ndeadline_s = {DEADLINE_S}\n',
            f'[behaviours.courier]\nimport = "courier:Courier"\npython_path = ["{PLUGINS}"]\nisolation = "shared"\n',
        ]
        for place, other in enumerate(posts):
            if other is not post:
                lines.append(f'[peers.{other.name}]\norigin = "{other.origin}"\ntools = {TOOLS}\n')
                if number < place:
                    wire = pairs[post.name, other.name] = wires.lay(other.port)
                    lines.append(f'address = "127.0.0.1:{wire.port}"\n')
        with (post.house.node / "weftos.toml").open("a") as file:
            file.write("\n".join(lines))
    for post in posts:
        post.house.up()
        with post.house.client() as node:
            node.spawn("couriers", supervisor=True, intensity=(1000, 1.0))
            for agent in range(AGENTS):
                node.spawn(f"{post.name}a{agent}", under="/user/couriers", behaviour="courier", tools=TOOLS)
    return pairs


def _campaign(
    console: Console, blows: Blows, effects: EffectServer, book: Book, plan: tuple[str, float]
) -> None:
    """Clients and blows side by side, then quiet until nothing is in flight, then down. ``plan``: seed, seconds."""
    seed, seconds = plan
    posts = blows.posts
    stopping = threading.Event()
    threads = [
        *(threading.Thread(target=_send, args=(post, effects.port, book, seed, stopping)) for post in posts),
        threading.Thread(target=_settle, args=(posts, effects, stopping)),
    ]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            time.sleep(blows.chance.uniform(1.0, 4.0))
            what = blows.strike()
            left_s = max(0.0, end - time.monotonic())
            console.print(f"{left_s:5.0f} s left  {what}", highlight=False)
    finally:
        blows.mend()
        stopping.set()
        for thread in threads:
            thread.join()
    _drain(posts, effects)
    for post in posts:
        post.house.down()


def _send(post: Post, port: int, book: Book, seed: str, stopping: threading.Event) -> None:
    """The client beside a node. A message whose connection broke is not sent again."""
    chance = random.Random(f"{seed} {post.name}")
    number = 0
    while not stopping.is_set():
        try:
            with post.house.client() as node:
                while not stopping.is_set():
                    number += 1
                    ident = f"{post.name}-{number}"
                    target, text = _work(chance, ident, port)
                    answer = node.send(target, text, session=f"s{number % 5}")
                    book.write(ident, post.name, answer["message"])
                    stopping.wait(chance.uniform(0.02, 0.12))
                    while number % 10 == 0 and _is_full(node) and not stopping.is_set():
                        stopping.wait(0.2)
        except WeftosError:
            stopping.wait(0.1)


def _is_full(node: Client) -> bool:
    """Whether the node has enough to do. Asks that meet head-on hold agents up until one of them times out."""
    return bool(node.status()["messages"]["in_flight"] > MAX_IN_FLIGHT)


def _work(chance: random.Random, ident: str, port: int) -> tuple[str, str]:
    """A random route over all nodes: its first target, and the message."""

    def agent() -> str:
        name = chance.choice(NAMES)
        return f"{name}a{chance.randrange(AGENTS)}@{name}"

    route = [(agent(), "ask" if chance.random() < 0.2 else "send") for _ in range(chance.randrange(4))]
    return agent(), json.dumps({"id": ident, "hop": 0, "port": port, "route": route})


def _settle(posts: list[Post], effects: EffectServer, stopping: threading.Event) -> None:
    while not stopping.is_set():
        for post in posts:
            _settle_node(post, effects)
        stopping.wait(0.5)


def _settle_node(post: Post, effects: EffectServer) -> None:
    """Resolve what is in doubt, as a person would: by asking the world outside whether it was done."""
    try:
        with post.house.client() as node:
            for doubt in node.doubts.list():
                effect = json.loads(doubt["arguments"])["effect"]
                node.doubts.resolve(doubt["id"], "done" if effects.counts([effect])[effect] else "retry")
    except WeftosError:
        return  # it was killed meanwhile; the doubt is still there when it is back


def _drain(posts: list[Post], effects: EffectServer) -> None:
    """Wait until every node has nothing in flight; its own balance must be even."""
    deadline = time.monotonic() + DRAIN_S
    while True:
        counts = {}
        for post in posts:
            _settle_node(post, effects)
            with post.house.client() as node:
                counts[post.name] = node.status()["messages"]
        if not any(count["in_flight"] for count in counts.values()):
            break
        if time.monotonic() > deadline:
            raise ProofError(f"not drained after {DRAIN_S:g} s: {counts}")
        time.sleep(POLL_S)
    for name, count in counts.items():
        if count["accepted"] != count["acknowledged"] + count["dead"] + count["dropped"]:
            raise ProofError(f"the balance of {name} is not even: {count}")


def _judge(posts: list[Post], effects: EffectServer, book: Book, findings: Findings) -> None:
    counts = Counter(effects.log.read_text().split())
    nodes = {post.name: read_node(post.name, post.house.node) for post in posts}
    cluster = Cluster(nodes)
    findings.figure("messages accepted from the clients", len(book.lines))
    findings.figure("messages sent between nodes", sum(len(node.sent) for node in nodes.values()))
    findings.figure("messages taken by a node", sum(len(node.accepted) for node in nodes.values()))
    findings.figure("effects counted outside", sum(counts.values()))
    findings.figure("asks", sum(len(node.asks) for node in nodes.values()))
    findings.figure("asks ended by noconnection", sum(node.noconnection for node in nodes.values()))
    findings.figure("asks ended by their timeout", sum(node.timeouts for node in nodes.values()))
    findings.figure("peers declared lost", sum(node.peers_lost for node in nodes.values()))
    ends = [end for node in nodes.values() for ended in node.ends.values() for end in ended]
    findings.figure("dead letters", sum(end.startswith("dead") for end in ends))
    findings.figure("of these maybe delivered", sum("maybe" in end for end in ends))
    findings.check(
        "0 effects doubled", [f"{effect} happened {n} times" for effect, n in counts.items() if n > 1]
    )
    findings.check("no message accepted twice, on any node", cluster.doubled())
    findings.check("every message acknowledged or dead-lettered, once", cluster.unended())
    findings.check("what a sender says of a message is true at its receiver", cluster.untrue())
    findings.check("order kept per sender and receiver", cluster.disordered())
    findings.check("every ask ended once", cluster.asked_twice())
    findings.check("effects and messages agree", cluster.unexplained(counts))
    findings.check("what a client was told was accepted is in the journal", _missing(cluster, book))


def _missing(cluster: Cluster, book: Book) -> list[str]:
    return [
        f"{ident}: {message} is not in the journal of {node}"
        for ident, node, message in book.lines
        if cluster.nodes[node].effect_of.get(message) != f"{ident}.0"
    ]


def _print(console: Console, incidents: Counter[str], findings: Findings) -> None:
    table = Table(title=f"{len(NAMES)} nodes, {len(NAMES) * AGENTS} agents")
    table.add_column("blow")
    table.add_column("times", justify="right")
    for what, times in sorted(incidents.items()):
        table.add_row(what, str(times))
    console.print(table)
    findings.print(console)
