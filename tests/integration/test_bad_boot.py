"""What keeps a node from booting: each gets a clear error, exit status 1, and leaves nothing running."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgpack
import pytest

from chain.disk import Disk
from chain.keys.keys import load_keys
from chain.ledger.ledger import Ledger
from chain.state.history import History
from chain.state.snapshot import read_snapshot, snapshot_records
from chain.verify.verify import verify
from tests.chain.twins.forged_state import LIMITS, sealed
from tests.integration.conftest import NodeMaker
from tests.integration.live_node import BootError, LiveNode
from tests.weftos.twins.strangers import STRANGER, needs_root
from weftos import Client, WeftosError
from weftos.helpers.compact import compact
from weftos.lifecycle.initialise import initialise


@pytest.fixture
def unborn(new_node: NodeMaker) -> LiveNode:
    """A node with a data directory that has never run."""
    node = new_node()
    initialise(node.data)
    return node


def refused(node: LiveNode, code: str, *words: str) -> None:
    """The node does not boot, says ``words``, and leaves neither a process nor a runtime directory."""
    with pytest.raises(BootError) as caught:
        node.up()
    said = caught.value.said
    assert caught.value.status == 1
    assert (said.get("code"), [word for word in words if word not in said.get("error", "")]) == (code, []), (
        said
    )
    assert "Traceback" not in said["error"]
    assert node.left() == []
    assert not list(node.place.glob("weftos-*/"))


def test_a_wrong_configuration_names_every_fault(unborn: LiveNode) -> None:
    unborn.configuration = (
        '[node]\nengin = "local"\n[limits]\nprocesses = -1\n[providers.x]\nkind = "openai"\n'
    )
    refused(unborn, "invalid", "node.engine", "limits.processes", "base_url", "weftos.toml:2")


@pytest.mark.slow
def test_a_configuration_that_is_no_toml_names_the_line(unborn: LiveNode) -> None:
    unborn.configuration = "[node\n"
    refused(unborn, "invalid", "line 1")


def test_a_path_too_long_for_a_socket(unborn: LiveNode) -> None:
    deep = unborn.place / ("x" * 60)
    deep.mkdir()
    unborn.environment["XDG_RUNTIME_DIR"] = str(deep)
    refused(unborn, "invalid", "too long for sockets", "XDG_RUNTIME_DIR")


@pytest.mark.parametrize("part", ["", pytest.param("keys", marks=pytest.mark.slow)])
def test_a_data_or_key_directory_that_others_can_write(unborn: LiveNode, part: str) -> None:
    (unborn.data / part).chmod(0o777)
    refused(unborn, "refused", str(unborn.data / part), "has mode 0777", "chmod go-w")


@needs_root
@pytest.mark.slow
def test_a_configuration_of_another_user(unborn: LiveNode) -> None:
    os.chown(unborn.data / "weftos.toml", STRANGER, STRANGER)
    refused(unborn, "refused", "weftos.toml", f"belongs to user {STRANGER}")
    os.chown(unborn.data / "weftos.toml", 0, 0)
    theirs = unborn.place / "weftos.toml"
    theirs.touch()
    os.chown(theirs, STRANGER, STRANGER)
    refused(unborn, "refused", "weftos.toml", f"belongs to user {STRANGER}")


@pytest.mark.parametrize("section", ["tools", pytest.param("behaviours", marks=pytest.mark.slow)])
def test_code_that_others_can_write(unborn: LiveNode, section: str) -> None:
    (unborn.place / "open" / "mine").mkdir(parents=True)
    (unborn.place / "open" / "mine" / "theirs.py").write_text("open('ran', 'w').close()\n")
    (unborn.place / "open").chmod(0o777)
    unborn.configuration = f'[{section}.x]\nimport = "theirs:X"\npython_path = ["{unborn.place}/open/mine"]\n'
    refused(unborn, "refused", f"{section}.x.python_path: {unborn.place}/open on the way", "mode 0777")


def test_a_second_node_on_the_same_directory(node: LiveNode, new_node: NodeMaker) -> None:
    second = new_node()
    second.data = node.data
    with pytest.raises(BootError) as caught:
        second.up()
    assert caught.value.said["code"] == "conflict"
    assert f"in use by process {node.os_pid}" in caught.value.said["error"]
    assert node.talk("unharmed", "memory")["status"] == "ok"


@pytest.fixture(scope="module")
def life(new_node: NodeMaker) -> Path:
    """A data directory whose node has run and stopped cleanly."""
    node = new_node()
    node.configuration = ""
    node.up()
    node.api.spawn("ada", tools=["calculator"])
    node.api.memory.add("the loom is in room 12")
    node.down()
    return node.data


@pytest.fixture(scope="module")
def other_life(new_node: NodeMaker) -> Path:
    """Another one's."""
    node = new_node()
    node.configuration = ""
    node.up()
    node.down()
    return node.data


@pytest.fixture
def reborn(unborn: LiveNode, life: Path) -> LiveNode:
    """A node with a copy of the first."""
    shutil.rmtree(unborn.data)
    shutil.copytree(life, unborn.data)
    return unborn


@pytest.mark.slow
def test_another_nodes_data_directory(reborn: LiveNode, life: Path, other_life: Path) -> None:
    shutil.rmtree(reborn.data / "keys")
    shutil.copytree(other_life / "keys", reborn.data / "keys")
    refused(reborn, "conflict", load_keys(life / "keys").origin, load_keys(other_life / "keys").origin)


@pytest.mark.slow
def test_heads_of_another_node(reborn: LiveNode, other_life: Path) -> None:
    shutil.rmtree(reborn.data / "heads")
    shutil.copytree(other_life / "heads", reborn.data / "heads")
    refused(reborn, "conflict", "heads/")


@pytest.mark.parametrize(
    ("harm", "code", "words"),
    [
        (lambda data: (data / "keys" / "ed25519.key").unlink(), "conflict", "ed25519.key"),
        (lambda data: (data / "keys" / "ed25519.key").chmod(0o644), "conflict", "ed25519.key"),
        (
            lambda data: (data / "keys" / "ml-dsa-65.key").write_text("c2hvcnQ=\n"),
            "conflict",
            "ml-dsa-65.key",
        ),
        (lambda data: (data / "format").write_text("weftos-data 2\n"), "conflict", "weftos-data"),
        (lambda data: (data / "boot.json").write_text("{"), "unavailable", "boot.json"),
    ],
    ids=["no key", "open key", "short key", "newer format", "torn boot record"],
)
def test_a_damaged_data_directory(
    unborn: LiveNode, harm: Callable[[Path], object], code: str, words: str
) -> None:
    harm(unborn.data)
    refused(unborn, code, words)


@pytest.mark.slow
def test_a_copy_of_a_running_nodes_directory_leaves_that_node_alone(
    node: LiveNode, new_node: NodeMaker
) -> None:
    copy = new_node()
    copied(node.data, copy.data)
    with pytest.raises(WeftosError, match="no node runs on"):
        Client(copy.data)
    assert "no node was running" in copy.cli("down").stdout
    copy.up()
    assert copy.api.status()["os_pid"] == copy.os_pid
    copy.down()
    assert node.api.status()["os_pid"] == node.os_pid
    assert node.talk("undisturbed", "memory")["status"] == "ok"


def copied(source: Path, target: Path) -> None:
    """All files as they were at one moment: made again when something was written meanwhile."""
    while True:
        with contextlib.suppress(shutil.Error, FileNotFoundError):
            before = written(source)
            shutil.copytree(source, target)
            if written(source) == before:
                return
        shutil.rmtree(target, ignore_errors=True)


def written(place: Path) -> dict[Path, tuple[int, int]]:
    """Of each file, its size and when it was written."""
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in place.rglob("*")}


def test_a_damaged_journal_is_named_and_left_as_it_is(reborn: LiveNode) -> None:
    [segment] = (reborn.data / "journal").iterdir()
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    refused(reborn, "conflict", segment.name)
    assert segment.read_bytes() == data


def test_rights_and_memories_that_somebody_without_a_key_wrote(reborn: LiveNode) -> None:
    """Refused with the place and the way out; a person's word for it is on record, and it counts from then on."""
    reborn.configuration = ""
    forge_snapshot(reborn.data)
    refused(reborn, "conflict", "snapshot/state.ws", "not signed", "weftos up --accept-state REASON")
    assert [finding.kind for finding in verify(reborn.data).findings] == ["state"]
    reborn.up("--accept-state", "I did it to see it")
    [body] = bodies(reborn.data, "state.accepted")
    assert (body["reason"], body["uid"]) == ("I did it to see it", os.getuid())
    for words in (
        "snapshot/state.ws",
        "process /user/ada has tools ('calculator', 'file_write')",
        "text_hash",
    ):
        assert words in " ".join(body["what"])
    assert [body["changed"] for body in bodies(reborn.data, "node.booted")] == ["nothing", "nothing"]
    reborn.down()
    reborn.configuration = "[limits]\nprocesses = 99\n"
    reborn.up()
    reborn.down()
    assert bodies(reborn.data, "node.booted")[-1]["changed"] == "configuration"
    said = reborn.cli("chain", "verify")
    assert said.returncode == 0, said.stdout
    for words in ("took over state", "another configuration than", "WHAT", "COVERED BY"):
        assert words in said.stdout


def bodies(data: Path, kind: str) -> list[dict[str, Any]]:
    return [record.body for record in History(data).entries() if record.entry.kind == kind]


def forge_snapshot(data: Path) -> None:
    """Have all of a stopped node in a snapshot, as compaction does; then change it, with right checksums."""

    async def compacted() -> None:
        clock = time.time_ns() // 1000
        ledger = Ledger.open(data, load_keys(data / "keys"), now_us=lambda: clock)
        ledger.start(asyncio.get_running_loop())
        group = await ledger.upkeep.roll()
        await ledger.publish()
        made = compact(data, ledger.upkeep.segment, LIMITS, b"")
        await ledger.upkeep.place_snapshot(group, bytes.fromhex(made["digest"]))
        await ledger.upkeep.drop_before(group)
        await ledger.close()

    asyncio.run(compacted())
    found = read_snapshot(data / "snapshot", Disk())
    assert found is not None
    parts = msgpack.unpackb(found.state)
    _, slots = parts["slices"]["slots"]
    for row in slots:
        row[:] = [
            value.replace('"tools":["calculator"]', '"tools":["calculator","file_write"]')
            if isinstance(value, str)
            else value
            for value in row
        ]
    assert msgpack.packb(parts) != found.state
    documents = [
        replace(record, value=(record.value or b"").replace(b"room 12", b"room 13"))
        for record in snapshot_records(data / "snapshot", Disk())
    ]
    assert documents
    sealed("", "", replace(found, state=msgpack.packb(parts)), documents).change(data)


@pytest.mark.slow
def test_a_file_in_place_of_the_data_directory(new_node: NodeMaker) -> None:
    node = new_node()
    node.data.write_text("not a directory")
    with pytest.raises(BootError) as caught:
        node.up()
    assert str(node.data) in caught.value.said["error"]
    assert caught.value.status == 1


def test_a_directory_that_holds_something_else_is_not_taken(new_node: NodeMaker) -> None:
    node = new_node()
    node.data.mkdir()
    (node.data / "thesis.txt").write_text("years of work")
    with pytest.raises(BootError) as caught:
        node.up()
    assert str(node.data) in caught.value.said["error"]
    assert os.listdir(node.data) == ["thesis.txt"]
