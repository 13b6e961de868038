"""A node attached to a Ray cluster of three raylets that it does not own; one of them is killed, cells are stopped."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.cells.engines.engine import EngineError
from kernel.cells.engines.engine_ray import RayEngine, SharedRay
from kernel.helper.helper import HelperCommand
from kernel.helper.os_processes import read_processes
from kernel.helper.os_session import session_members
from kernel.operations.processes import Inspected
from tests.own_code import own_code
from tests.patience import HANG_S
from tests.places import ROOT
from weftos.client.client import Client

pytestmark = [pytest.mark.ray, pytest.mark.slow]
WAIT_S = HANG_S
BEHAVIOURS = own_code(ROOT / "tests" / "behaviours")
CONFIG = f"""
[node]
reconcile_s = 0.5
[behaviours.steps]
import = "cell_behaviours:Steps"
python_path = ["{BEHAVIOURS}"]
[behaviours.echo]
import = "cell_behaviours:Echo"
python_path = ["{BEHAVIOURS}"]
"""


def wait_until(holds: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + WAIT_S
    while not (found := holds()):
        assert time.monotonic() < deadline, f"still not so after {WAIT_S:g} s: {what}"
        time.sleep(0.02)
    return found


class Cluster:
    """The three raylets, and the nodes that a test attaches to them."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "ray").mkdir(mode=0o700)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.integration.raylets", str(place / "ray")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(place / "raylets.log").open("wb"),
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            start_new_session=True,
        )
        assert self.process.stdout is not None
        facts = json.loads(self.process.stdout.readline() or (place / "raylets.log").read_text())
        self.address: str = facts["address"]
        self.raylets: list[int] = facts["raylets"]

    def up(self, name: str) -> dict[str, Any]:
        """Start a node; ``name`` is its data directory below the place."""
        data = self.place / name
        if not data.exists():
            self.weftos("init", str(data))
            (data / "weftos.toml").write_text(CONFIG)
        token = str(self.place / "ray" / "token")
        words = ("up", "--detach", "--json", "--ray-address", self.address, "--ray-token", token)
        ready: dict[str, Any] = json.loads(self.weftos(*words, "--data", str(data)))
        return ready

    def weftos(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "weftos", *words],
            text=True,
            capture_output=True,
            timeout=HANG_S,
            env={**os.environ, "XDG_RUNTIME_DIR": str(self.place)},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def client(self, name: str) -> Client:
        return Client(self.place / name, timeout_s=WAIT_S)

    def raylet_of(self, os_pid: int) -> int:
        """The raylet that a cell is a child of."""
        return read_processes()[os_pid].parent

    def end(self) -> list[int]:
        """End everything; what of the nodes' sessions was left."""
        left = []
        for data in self.place.glob("*/boot.json"):
            self.weftos("down", "--data", str(data.parent))
            leader = json.loads(data.read_text())["session_leader"]
            left += session_members(leader)
        for pid in session_members(self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        return left


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    place = Path(tempfile.mkdtemp(prefix="ws"))
    cluster = Cluster(place)
    try:
        yield cluster
    finally:
        left = cluster.end()
        for log in (
            place / "raylets.log",
            *place.glob("*/logs/placer.log"),
            *place.glob("*/logs/node.jsonl"),
        ):
            print(f"--- {log}\n{log.read_text()[-4000:]}")
        shutil.rmtree(place)
    assert not left


@pytest.fixture(scope="module")
def one(cluster: Cluster) -> Iterator[Client]:
    cluster.up("one")
    with cluster.client("one") as client:
        yield client


def os_pids(client: Client) -> dict[str, int]:
    """The operating system's process of each user process that has one, by name."""
    return {row["name"]: row["os_pid"] for row in client.ps() if row["behaviour"] and row["os_pid"]}


def test_cells_run_in_the_cluster_and_not_below_the_node(cluster: Cluster, one: Client) -> None:
    for name in ("a", "b", "c", "d"):
        one.spawn(name, behaviour="echo", isolation="dedicated")
        assert one.send(name, "hi", wait_s=WAIT_S)["reply"] == f"{name}: hi"
    raylets = {cluster.raylet_of(pid) for pid in os_pids(one).values()}
    assert raylets <= set(cluster.raylets)
    assert len(raylets) > 1


def test_a_killed_raylet_costs_its_cells_and_their_agents_finish_elsewhere(
    cluster: Cluster, one: Client
) -> None:
    names: list[str] = []
    homes: dict[str, int] = {}
    while len(names) < 4 or not set(cluster.raylets[1:]) & set(
        homes.values()
    ):  # Ray puts them where it likes
        assert len(names) < 16, homes
        names.append(f"s{len(names)}")
        one.spawn(names[-1], behaviour="steps", isolation="dedicated")
        before = {row["name"]: row for row in one.ps()}
        homes = {name: cluster.raylet_of(before[name]["os_pid"]) for name in names}
    victim = next(raylet for raylet in cluster.raylets[1:] if raylet in homes.values())
    replies: queue.Queue[tuple[str, Any]] = queue.Queue()

    def ask(name: str) -> None:
        with cluster.client("one") as client:
            replies.put((name, client.send(name, "20", wait_s=WAIT_S)))

    threads = [threading.Thread(target=ask, args=(name,)) for name in names]
    begun = len(one.log(kind="turn.started", limit=50)["rows"])
    for thread in threads:
        thread.start()
    wait_until(
        lambda: len(one.log(kind="turn.started", limit=50)["rows"]) == begun + len(names), "each has its turn"
    )
    os.kill(victim, signal.SIGKILL)
    for thread in threads:
        thread.join()
    assert {name: answer["reply"] for name, answer in (replies.get() for _ in names)} == dict.fromkeys(
        names, "took 20 steps"
    )
    lost = {name for name in names if homes[name] == victim}

    def anew() -> dict[str, Any]:
        rows = {row["name"]: row for row in one.ps()}
        there = all(
            rows[name]["pid"] != before[name]["pid"] and rows[name]["state"] == "running" for name in lost
        )
        return rows if there else {}

    after = wait_until(anew, "all that were lost run again")  # also those that had replied before the kill
    assert {name for name in names if after[name]["pid"] != before[name]["pid"]} == lost
    assert victim not in {cluster.raylet_of(after[name]["os_pid"]) for name in names}
    reasons = {row["body"]["reason"] for row in one.log(kind="process.exited", limit=50)["rows"]}
    assert reasons == {"cell_lost"}


def test_two_nodes_share_the_cluster_and_a_killed_one_takes_its_own_cells_alone(
    cluster: Cluster, one: Client
) -> None:
    one.spawn("stays", behaviour="echo", isolation="dedicated")
    ready = cluster.up("two")
    with cluster.client("two") as two:
        two.spawn("goes", behaviour="echo", isolation="dedicated")
        cell = os_pids(two)["goes"]
    stays = os_pids(one)["stays"]
    os.kill(ready["os_pid"], signal.SIGKILL)
    wait_until(
        lambda: not (cell in (rows := read_processes()) and rows[cell].alive), "the cell ends by itself"
    )
    assert os_pids(one)["stays"] == stays
    cluster.up("two")
    with cluster.client("two") as two:
        assert two.send("goes", "hi", wait_s=WAIT_S)["reply"] == "goes: hi"
    assert one.send("stays", "hi", wait_s=WAIT_S)["reply"] == "stays: hi"
    assert os_pids(one)["stays"] == stays


def test_a_stopped_cell_is_lost_within_its_lease_and_its_agent_comes_back(one: Client) -> None:
    one.spawn("frozen", behaviour="echo", isolation="dedicated")
    before = one.inspect("frozen")
    os.kill(os_pids(one)["frozen"], signal.SIGSTOP)
    wait_until(lambda: one.inspect("frozen")["pid"] != before["pid"], "it is started anew")
    assert one.send("frozen", "hi", wait_s=WAIT_S)["reply"] == "frozen: hi"
    wait_until(lambda: _is_gone(before, one), "the stopped one is gone")


ORPHANS = """
import sys, time, ray
ray.init(address=sys.argv[1], namespace=sys.argv[2], log_to_driver=False, logging_level="ERROR")
class Orphan:
    def ready(self): return True
make = ray.remote(num_cpus=0)(Orphan).options
mine = make(name=sys.argv[3], lifetime="detached").remote()
other = make(name=sys.argv[3], namespace="of somebody else", lifetime="detached").remote()
try:
    while ray.get(mine.ready.remote()):
        time.sleep(0.05)
except ray.exceptions.RayActorError:
    pass
ray.get(other.ready.remote())
ray.kill(other)
print("the other one answers")
"""


def test_an_actor_in_the_nodes_name_that_is_none_of_its_cells_is_ended(cluster: Cluster, one: Client) -> None:
    status = one.status()
    name = f"{status['boot']}-c99999-1"
    done = subprocess.run(
        [sys.executable, "-P", "-c", ORPHANS, cluster.address, str(status["origin"]), name],
        text=True,
        capture_output=True,
        timeout=HANG_S,
        env={
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(cluster.place / "ray" / "token"),
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        },
    )
    assert (done.returncode, done.stdout) == (0, "the other one answers\n"), done.stderr

    def repaired() -> set[tuple[str, str]]:  # the archive is told later
        rows = one.log(kind="node.reconciled", limit=50)["rows"]
        return {(row["body"]["what"], row["body"]["of"]) for row in rows}

    wait_until(lambda: ("orphan cell", name) in repaired(), "it is on record")
    wait_until(lambda: not one.check()["differences"], "everything agrees")


def _is_gone(before: Inspected, client: Client) -> bool:
    rows = read_processes()
    return before["os_pid"] not in rows or not rows[before["os_pid"]].alive


@pytest.mark.parametrize(
    ("token", "words"),
    [("missing", "No such file or directory"), ("foreign", "Failed to connect to Ray cluster")],
)
def test_without_the_clusters_token_nothing_is_attached_to(cluster: Cluster, token: str, words: str) -> None:
    path = cluster.place / f"{token}.token"
    if token == "foreign":
        path.touch(mode=0o600)
        path.write_text("0" * 64)
    told = asyncio.run(attach(cluster, path))
    assert f"cannot attach to Ray at {cluster.address}" in told
    assert words in told
    if token == "foreign":
        assert "InvalidAuthToken" in (cluster.place / "attach.log").read_text()


async def attach(cluster: Cluster, token: Path) -> str:
    """What the engine says when it is opened with that token."""
    place = cluster.place
    argv = [sys.executable, "-P", "-m", "kernel.cells.engines.placer"]
    command = HelperCommand("placer", argv, {"PATH": os.environ["PATH"]}, place, place / "attach.log")
    engine = RayEngine(command, 1, {}, place / "none", SharedRay(cluster.address, token, "tests"))
    with pytest.raises(EngineError) as refused:
        await engine.open(lambda why: None, lambda cell, why, used_ms: None)
    await engine.close()
    return str(refused.value)
