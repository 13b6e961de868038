"""A live node whose disk refuses to write: it says so, does nothing that has effects, and recovers by itself.

Two kinds of refusal, both real: a limit on the size of files, put on the running process, and a full tmpfs.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.integration.conftest import NodeMaker
from tests.integration.effects import Effects
from tests.integration.live_node import LiveNode, until
from weftos import WeftosError

UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


class Disk(Protocol):
    """Where a node lives, and how it is made to refuse."""

    words: str

    def fill(self, node: LiveNode) -> None: ...

    def free(self, node: LiveNode) -> None: ...


class LimitedFiles:
    """RLIMIT_FSIZE of the node process: no file may grow over what its journal has now."""

    words = "File too large"

    def fill(self, node: LiveNode) -> None:
        size = sum(path.stat().st_size for path in (node.data / "journal").iterdir())
        resource.prlimit(node.os_pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def free(self, node: LiveNode) -> None:
        resource.prlimit(node.os_pid, resource.RLIMIT_FSIZE, UNLIMITED)


class FullTmpfs:
    """A file system of a few megabytes, filled to its last byte by somebody else."""

    words = "No space left on device"

    def fill(self, node: LiveNode) -> None:
        with (node.data.parent / "ballast").open("wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(b"\0" * 4096)
            except OSError as error:
                assert error.errno == errno.ENOSPC

    def free(self, node: LiveNode) -> None:
        (node.data.parent / "ballast").unlink()


@pytest.fixture(scope="module", params=["limit", pytest.param("tmpfs", marks=pytest.mark.slow)])
def housed(request: pytest.FixtureRequest, new_node: NodeMaker) -> Iterator[tuple[LiveNode, Disk]]:
    """A running node with a process ``idle``, and its disk."""
    node = new_node()
    if request.param == "limit":
        node.up()
        node.api.spawn("idle")
        yield node, LimitedFiles()
        node.down()
        return
    with tempfile.TemporaryDirectory(prefix="wt", dir="/tmp") as mount:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", mount], capture_output=True
        )
        if mounted.returncode != 0:
            pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.decode().strip()}")
        try:
            node.data = Path(mount) / "node"
            node.up()
            node.api.spawn("idle")
            yield node, FullTmpfs()
            node.down()
        finally:
            if node.running:
                node.kill()
            for line in node.left():
                os.kill(int(line.split()[0]), 9)
            until(lambda: not node.left(), "nothing holds the file system")
            subprocess.run(["umount", mount], check=True)


def refusal(node: LiveNode) -> str:
    """What the node says to a message that it cannot write down."""
    try:
        node.api.send("idle", "hello")
    except WeftosError as error:
        assert error.code == "unavailable", error
        return str(error)
    return ""


def test_a_disk_that_refuses_stops_effects_and_nothing_else(
    housed: tuple[LiveNode, Disk], effects: Effects
) -> None:
    node, disk = housed
    node.api.spawn("writer", behaviour="planner", tools=["look", "count", "file_write"])
    workspace = Path(node.api.inspect("writer")["spec"]["workspace"])
    held = f"disk-{disk.words}"
    effects.hold(held)
    plan = [
        ["look", {"port": effects.port, "effect": held}],
        ["count", {"port": effects.port, "effect": f"{held}-counted"}],
        ["file_write", {"path": "late.txt", "content": "x"}],
    ]
    accepted = node.api.send("writer", json.dumps(plan))["message"]
    effects.await_count(held)
    disk.fill(node)
    why = until(lambda: refusal(node), "a message is refused")
    assert disk.words in why
    assert disk.words in until(
        lambda: node.api.status()["read_only"] or "", "the node says that it is read-only"
    )
    effects.release(held)
    shown = node.cli("status")
    assert (shown.returncode, "READ-ONLY" in shown.stdout) == (0, True), shown.stderr
    with pytest.raises(WeftosError) as caught:
        node.api.spawn("late")
    assert caught.value.code == "unavailable"
    assert disk.words in str(caught.value)
    assert "/user/late" not in [row["address"] for row in node.api.ps()]
    assert (effects.count(f"{held}-counted"), (workspace / "late.txt").exists()) == (0, False)
    node.verify()

    disk.free(node)
    until(lambda: node.api.status()["read_only"] is None, "the node writes again")
    [end] = until(lambda: node.ended(accepted), "the turn ends")
    results = [result["status"] for result in json.loads(end["reply"])]
    done = [
        "ok" if there else "denied"
        for there in (effects.count(f"{held}-counted"), (workspace / "late.txt").exists())
    ]
    assert results[1:] == done
    recorded = {
        entry["tool"]: entry["status"]
        for entry in node.entries("tool.outcome")
        if entry["turn"] == end["turn"]
    }
    assert [recorded[call[0]] for call in plan] == results
    if isinstance(disk, FullTmpfs):
        full, free = node.entries("node.disk_full"), node.entries("node.disk_free")
        assert full and all(disk.words in entry["why"] for entry in full)
        told = sorted([*full, *free], key=lambda entry: int(entry["seq"]))  # more where a file gave way
        assert ["why" in entry for entry in told] == [True, False] * len(full)
    [after] = node.plan("writer", ("file_write", {"path": "after.txt", "content": "x"}))
    assert after["status"] == "ok"
    assert node.talk("fresh", "memory")["status"] == "ok"


def test_a_node_stopped_while_its_disk_refuses_says_so_and_leaves_nothing_running(
    housed: tuple[LiveNode, Disk],
) -> None:
    node, disk = housed
    disk.fill(node)
    until(lambda: refusal(node), "a message is refused")
    run = node.os_pid
    stopped = node.cli("down")
    assert (stopped.returncode, "has stopped" in stopped.stdout) == (0, True), stopped.stderr
    assert node.left() == []
    assert not list(node.place.glob("weftos-*/"))
    closed = node.verify().closed
    if isinstance(disk, FullTmpfs):
        disk.free(node)
    else:
        assert not closed
        assert len(node.logged("the ledger could not be closed", disk.words)) == 1
    node.up()
    assert node.left(run) == []
    assert node.row("idle")["slot"] == "running"


def test_a_node_killed_while_its_disk_refuses_has_lost_nothing_it_accepted(
    housed: tuple[LiveNode, Disk], effects: Effects
) -> None:
    node, disk = housed
    held = f"kill-{disk.words}"
    effects.hold(held)
    node.api.spawn("looker", behaviour="planner", tools=["look"])
    accepted = node.api.send("looker", json.dumps([["look", {"port": effects.port, "effect": held}]]))[
        "message"
    ]
    effects.await_count(held)
    disk.fill(node)
    until(lambda: refusal(node), "a message is refused")
    node.kill()
    if isinstance(disk, FullTmpfs):
        disk.free(node)  # a limit dies with its process
    node.up()
    effects.release(held)
    until(lambda: node.ended(accepted), "the turn ends")
    tally = node.api.status()["messages"]
    assert (tally["accepted"] - tally["acknowledged"], tally["dead"]) == (0, 0)
