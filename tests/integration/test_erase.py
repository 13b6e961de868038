"""Erasure and compaction on a real node (engine local), with its files searched byte by byte, and killed in between."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chain.disk import Disk
from chain.state.history import History
from chain.state.snapshot import read_snapshot
from kernel.bounds import Bounds
from kernel.state.recorder import replay_into
from kernel.state.state import State
from kernel.state.state_snapshot import restore_state
from tests.integration.conftest import NodeMaker
from tests.integration.live_node import LiveNode, until
from tests.kernel.state.test_state_snapshot import view
from tests.patience import HANG_S
from weftos import Client, WeftosError

SECRET = "zanzibarwren"
REMEMBER = f"remember that the {SECRET} nests at noon"
RECALL = f"what do you remember about the {SECRET}?"
TOOLS = ["memory_write", "memory_search", "memory_read"]
SMALL = "[ledger]\npublish_s = 0.05\nsegment_bytes = 4096\ncompact_bytes = 8192\n"


@pytest.fixture
def small(new_node: NodeMaker) -> Iterator[LiveNode]:
    """A node with tiny segments, started."""
    node = new_node(extra=SMALL)
    node.up()
    node.archive_answers()
    yield node
    if node.running:
        assert node.api.status()["read_only"] is None
        node.down()


def holding(node: LiveNode, text: str) -> list[str]:
    """Files of the data directory, logs and all, that hold a text, or have it in their name.

    Looked through again when one was removed or renamed meanwhile: what it held may be where was looked before.
    """
    while True:
        with contextlib.suppress(FileNotFoundError):
            return [
                str(path.relative_to(node.data))
                for path in sorted(node.data.rglob("*"))
                if text in str(path.relative_to(node.data))
                or (path.is_file() and text.encode() in path.read_bytes())
            ]


def say(node: LiveNode, text: str, session: str = "main") -> str:
    return str(node.api.send("ada", text, session=session, wait_s=HANG_S)["reply"])


def converse(node: LiveNode) -> None:
    """Two turns in which the secret is said, remembered and recalled; and a session that never heard of it."""
    node.api.spawn("ada", tools=TOOLS)
    assert say(node, "remember that the ferry leaves at nine", "other").startswith("Remembered as d")
    assert say(node, REMEMBER).startswith("Remembered as d")
    assert SECRET in say(node, RECALL)
    assert any(SECRET in hit["text"] for hit in node.api.memory.search(SECRET)["results"])


def is_published(node: LiveNode) -> bool:
    return any(name.startswith("ledger/tile/bodies") for name in holding(node, SECRET))


def goes_on(node: LiveNode) -> None:
    """It still knows what was not erased, takes messages, and its ledger verifies."""
    node.archive_answers()  # it may have been started just now
    assert "the ferry leaves at nine" in say(node, "what do you remember about the ferry?", "other")
    assert node.api.memory.search("noon")["results"] == []
    assert node.api.status()["read_only"] is None
    node.verify()


def erased_kinds(node: LiveNode) -> set[str]:
    return {record.entry.kind for record in History(node.data).entries() if record.erased}


def test_a_session_is_erased_from_every_file_and_the_node_goes_on(small: LiveNode) -> None:
    node = small
    converse(node)
    until(lambda: is_published(node), "the bodies are in the published ledger")
    places = {name.partition("/")[0] for name in holding(node, SECRET)}
    assert places >= {"ledger", "archive"} and places & {"journal", "snapshot"}, (
        places
    )  # the second once compacted
    before = node.api.status()["ledger"]["size"]
    done = node.cli("chain", "erase", "--session", "main", "--of", "ada", "--reason", "asked for")
    assert done.returncode == 0, done.stderr
    assert "forgotten: session main of /user/ada" in done.stdout and "forgotten: document d" in done.stdout
    assert holding(node, SECRET) == []
    assert erased_kinds(node) >= {
        "message.accepted", "turn.started", "turn.ended", "model.asked", "model.answered", "tool.proposed",
        "tool.intent", "tool.outcome", "memory.written",
    }  # fmt: skip
    assert node.api.status()["ledger"]["size"] > before
    goes_on(node)
    assert "nothing" in say(node, "what do you remember about noon?")
    node.down()
    node.up()
    goes_on(node)
    assert holding(node, SECRET) == []
    assert [entry["reason"] for entry in entries(node, "erase")] == ["asked for"]


def entries(node: LiveNode, kind: str) -> list[dict[str, Any]]:
    records = History(node.data).entries()
    return [
        {**record.body, "seq": record.entry.seq}
        for record in records
        if record.entry.kind == kind and not record.erased
    ]


@pytest.mark.slow
def test_single_entries_and_what_is_left_of_their_turn(small: LiveNode) -> None:
    node = small
    converse(node)
    sent = [
        record.entry.seq
        for record in History(node.data).entries()
        if SECRET.encode() in (record.body_bytes or b"")
    ]
    assert len(sent) > 5
    first = node.api.erasure.erase("one of them", seqs=sent[:1])
    assert first["entries"] == 1 and {seq for seq, _ in first["left"]} >= set(sent[1:3])
    finished(node)
    assert holding(node, SECRET) != []
    assert node.api.erasure.erase("all of them", seqs=sent[1:])["entries"] == len(sent) - 1
    finished(node)
    assert holding(node, SECRET) == []
    goes_on(node)
    with pytest.raises(WeftosError, match="erased already"):
        node.api.erasure.erase("again", seqs=sent)


def finished(node: LiveNode) -> None:
    until(lambda: not node.api.erasure.status()["erasing"], f"erasing ends: {node.api.erasure.status()}")


@pytest.mark.parametrize(
    "step",
    [
        "journal",
        *(pytest.param(step, marks=pytest.mark.slow) for step in ("published ledger", "archive", "end")),
    ],
)
def test_a_node_killed_while_it_erases_goes_on_at_its_next_start(small: LiveNode, step: str) -> None:
    node = small
    converse(node)
    until(lambda: is_published(node), "the bodies are in the published ledger")
    argv = [sys.executable, "-P", "-m", "weftos", "chain", "erase", "--session", "main", "--of", "ada"]
    asking = subprocess.Popen(
        [*argv, "--reason", "why"], env=node.variables(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        log = node.data / "logs" / "node.jsonl"
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline:
            if f'"step":"{step}"' in log.read_text().replace('": "', '":"'):
                break
        else:
            raise AssertionError(f"the step {step} was never seen")
        node.kill()
    finally:
        asking.wait(HANG_S)
    node.up()
    finished(node)
    assert holding(node, SECRET) == []
    assert len(entries(node, "erase")) == 1
    goes_on(node)


@pytest.mark.slow
def test_some_entries_are_never_erased_and_a_process_that_is_down_loses_its_session(small: LiveNode) -> None:
    node = small
    node.api.spawn("ada", tools=TOOLS)
    say(node, REMEMBER)
    node.api.stop("ada")
    [booted] = entries(node, "node.booted")
    seq = booted["seq"]
    refused = node.cli("chain", "erase", str(seq), "--reason", "r")
    assert refused.returncode == 1 and f"never erased: entry {seq} is node.booted" in refused.stderr
    assert node.api.erasure.erase("r", target="/user/ada", session="main")["entries"] > 5
    finished(node)
    assert holding(node, SECRET) == []


# -- compaction under traffic ----------------------------------------------------------------------------------------


def replayed(data: Path) -> State:
    """The state as the next start of the node makes it."""
    bounds = Bounds()
    state = State(bounds.session_records, bounds.session_bytes)
    snapshot = read_snapshot(data / "snapshot", Disk())
    if snapshot is not None:
        restore_state(state, snapshot.state)
    history = History(data)
    for group in history.journal().groups():
        for record in group.records:
            replay_into(state, record)
    return state


def everything(data: Path) -> State:
    """The state from the entries alone is not whole; what entries say of processes and messages is."""
    bounds = Bounds()
    state = State(bounds.session_records, bounds.session_bytes)
    for record in History(data).entries():
        replay_into(state, record)
    return state


@pytest.mark.slow
def test_compaction_under_traffic_with_kills_loses_nothing(new_node: NodeMaker) -> None:
    node = new_node(extra=SMALL)
    node.up()
    for name in ("ada", "bob"):
        node.api.spawn(name)
    accepted: list[int] = []

    def send(name: str, stop: threading.Event) -> None:
        with Client(node.data) as client:
            while not stop.is_set():
                try:
                    accepted.append(client.send(name, f"what is 1+{len(accepted)}", wait_s=HANG_S)["seq"])
                except WeftosError:
                    return

    def has_compacted(times: int) -> bool:
        return compactions(node) >= times

    for round_ in range(3):
        stop = threading.Event()
        senders = [threading.Thread(target=send, args=(name, stop)) for name in ("ada", "bob")]
        for sender in senders:
            sender.start()
        until(partial(has_compacted, 2 * (round_ + 1)), "the journal was compacted")
        node.kill()
        stop.set()
        for sender in senders:
            sender.join()
        stopped = replayed(node.data)
        entries_of = everything(node.data)
        assert view(stopped)["slots"] == view(entries_of)["slots"]
        assert view(stopped)["tally"] == view(entries_of)["tally"]
        assert list(stopped.dead) == list(entries_of.dead) and set(stopped.turns) == set(entries_of.turns)
        seqs = [record.entry.seq for record in History(node.data).entries()]
        assert seqs == list(range(len(seqs))) and set(accepted) <= set(seqs)
        kinds = {record.entry.seq: record.entry.kind for record in History(node.data).entries()}
        assert {kinds[seq] for seq in accepted} == {"message.accepted"}
        node.up()
        node.verify()
    assert History(node.data).first_journal_seq > 0
    node.down()


def compactions(node: LiveNode) -> int:
    return sum(line["event"] == "journal compacted" for line in node.log_lines())
