"""What a person orders is the cause of what follows; what was refused is no order."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from chain.entry.reader import EntryRecord
from kernel.errors import Busy, Invalid, KernelError, NotFound, Refused, SupervisionError
from kernel.operations.decisions import Divergences, Doubts
from kernel.operations.erasure import Erasure
from kernel.operations.messages import Messages, Topics
from kernel.operations.nodes.peers import Peers, Tokens
from kernel.operations.processes import Processes
from mesh.errors import PeersError
from mesh.identity.peers import Peer
from mesh.identity.tokens import TokenStore
from tests.kernel.control.test_control import on_control
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.twins.doors import Doors
from tests.kernel.twins.kernel_twin import Twin
from tests.kernel.twins.mesh_twin import TwinMesh
from tests.kernel.twins.tree_twin import Tree

BY = "operator:1000"


async def command_of(twin: Twin) -> EntryRecord:
    """The newest order."""
    return (await twin.entries("operator.command"))[-1]


async def exit_of(twin: Twin, address: str) -> EntryRecord:
    exits = [entry for entry in await twin.entries("process.exited") if entry.body["address"] == address]
    assert exits, f"{address} has not exited"
    return exits[-1]


@pytest.mark.parametrize("operation", ["stop", "restart", "term", "kill"])
def test_an_order_is_the_cause_of_the_exit_that_follows_and_says_who_and_why(
    tmp_path: Path, operation: str
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        pid = await twin.spawn("ada")
        if operation == "kill":  # the turn that it cuts is not what led to it
            await twin.send("ada")
            await twin.delivery()
        orders: dict[str, Callable[[], Awaitable[Any]]] = {
            "stop": lambda: control(Processes.stop, "ada", why="too slow"),
            "restart": lambda: control(Processes.restart, "ada", why="too slow"),
            "term": lambda: control(Processes.kill, "ada", why="too slow"),
            "kill": lambda: control(Processes.kill, "ada", signal="kill", why="too slow"),
        }
        await orders[operation]()
        await until(lambda: (live := twin.kernel.live.at("/user/ada")) is None or live.pid > pid)
        command, ended = await command_of(twin), await exit_of(twin, "/user/ada")
        assert ended.entry.cause == command.entry.seq
        assert json.loads(command.body["arguments"])["why"] == "too slow"
        assert command.body["uid"] == 1000
        word = {"stop": "stopped", "restart": "restarted", "term": "terminated", "kill": "killed"}[operation]
        assert ended.body["detail"] == f"{word} by {BY}: too slow"

    on_control(tmp_path, body)


@pytest.mark.parametrize("operation", ["stop", "kill"])
def test_it_is_the_cause_of_every_end_below_too(tmp_path: Path, operation: str) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("team", type="supervisor", tools=())
        await twin.spawn("ada", "/user/team")
        await twin.spawn("bob", "/user/team/ada")
        if operation == "stop":
            await control(Processes.stop, "team")
        else:
            await control(Processes.kill, "team", signal="kill")
        await until(lambda: not twin.kernel.processes.effects.unfinished)
        command = await command_of(twin)
        for address in ("/user/team", "/user/team/ada", "/user/team/ada/bob"):
            assert (await exit_of(twin, address)).entry.cause == command.entry.seq
        assert "why" not in json.loads(command.body["arguments"])

    on_control(tmp_path, body)


def test_what_waits_for_its_back_off_is_stopped_by_an_order_too(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        for _ in range(2):
            await until(lambda: (live := twin.kernel.live.at("/user/ada")) and live.since_s)
            twin.kernel.processes.exit(twin.kernel.state.slots["/user/ada"].pid, "crash")
        await control(Processes.stop, "ada")
        slot = (await twin.entries("process.slot"))[-1]
        assert slot.body["state"] == "stopped"
        assert slot.entry.cause == (await command_of(twin)).entry.seq

    on_control(tmp_path, body)


def test_a_crash_while_it_is_to_end_is_not_what_was_ordered(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        pid = await twin.spawn("ada")
        await twin.send("ada")
        await twin.delivery()
        await control(Processes.stop, "ada")
        twin.kernel.processes.exit(pid, "crash")
        [started] = await twin.entries("turn.started")
        assert (await exit_of(twin, "/user/ada")).entry.cause == started.entry.seq

    on_control(tmp_path, body)


def test_who_overstays_an_order_is_killed_for_that_order() -> None:
    from kernel.model.commands import Command

    tree = Tree()
    ada = tree.spawn("ada", shutdown_s=3.0)
    tree.open_turn(ada)
    tree.processes.stop(ada, Command(7, BY))
    tree.clock.wind(4.0)
    exited = tree.journal.drafts[-1]
    assert (exited.kind, exited.body["reason"], exited.cause) == ("process.exited", "killed", 7)
    assert exited.body["detail"] == f"stopped by {BY}: did not stop within 3 s"


def test_an_order_to_suspend_and_to_resume_is_the_cause_of_that(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        await control(Processes.suspend, "ada", why="look first")
        command = await command_of(twin)
        [suspended] = await twin.entries("process.suspended")
        assert suspended.entry.cause == command.entry.seq
        assert json.loads(command.body["arguments"])["why"] == "look first"
        await control(Processes.resume, "ada")
        [resumed] = await twin.entries("process.resumed")
        assert resumed.entry.cause == (await command_of(twin)).entry.seq

    on_control(tmp_path, body)


Order = Callable[[Doors], Awaitable[Any]]
REFUSED: dict[str, tuple[Order, type[KernelError]]] = {
    "stop of what is below one that is down": (lambda c: c(Processes.stop, "/user/down/kid"), Refused),
    "stop of the top": (lambda c: c(Processes.stop, "/user"), NotFound),
    "start of what runs": (lambda c: c(Processes.start, "ada"), SupervisionError),
    "unpark of what is stopped": (lambda c: c(Processes.unpark, "down"), Refused),
    "restart of what does not run": (lambda c: c(Processes.restart, "down"), NotFound),
    "restart of a temporary one": (lambda c: c(Processes.restart, "once"), SupervisionError),
    "suspend of a supervisor": (lambda c: c(Processes.suspend, "team"), Refused),
    "suspend of one that is": (lambda c: c(Processes.suspend, "idle"), Refused),
    "resume of one that goes on": (lambda c: c(Processes.resume, "ada"), Refused),
    "kill of what does not run": (lambda c: c(Processes.kill, "down"), NotFound),
    "removal of what runs": (lambda c: c(Processes.remove, "ada"), Refused),
    "word on no doubt": (lambda c: c(Doubts.resolve, "t1:0.0", "done"), NotFound),
    "word on no parked turn": (lambda c: c(Divergences.decide, "t1", "again"), NotFound),
    "subscription of a supervisor": (lambda c: c(Topics.subscribe, "team", "news"), Refused),
    "subscription to no topic": (lambda c: c(Topics.subscribe, "ada", "a b"), Invalid),
    "end of no subscription": (lambda c: c(Topics.unsubscribe, "ada", "news"), NotFound),
    "replay of no letter": (lambda c: c(Messages.replay, "m1"), NotFound),
    "erasure of no entry": (lambda c: c(Erasure.erase, "why", seqs=[99_999]), NotFound),
}


def test_what_was_refused_leaves_no_order(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for name in ("ada", "down", "idle"):
            await twin.spawn(name)
        await twin.spawn("kid", "/user/down")
        await twin.spawn("once", restart="temporary")
        await twin.spawn("team", type="supervisor", tools=())
        await control(Processes.stop, "down")
        await control(Processes.suspend, "idle")
        await until(lambda: twin.kernel.live.at("/user/down") is None)
        before = len(await twin.entries("operator.command"))
        for what, (order, error) in REFUSED.items():
            with pytest.raises(error):
                await order(control)
            assert len(await twin.entries("operator.command")) == before, what

    on_control(tmp_path, body)


class Peered(TwinMesh):
    """It gives tokens, and a peer stands in its configuration."""

    def __init__(self, directory: Path) -> None:
        super().__init__("one", 0)
        self.store = TokenStore(directory, self.origin)

    @property
    def tokens(self) -> TokenStore:
        return self.store

    def check_change(self, add: Peer | None = None, remove: str = "") -> None:
        super().check_change(add)
        if remove:
            raise PeersError(f"{remove} stands in the configuration")


def test_what_was_refused_of_peers_and_tokens_leaves_no_order(tmp_path: Path) -> None:
    mesh, origin = Peered(tmp_path), TwinMesh("two", 1).origin

    async def body(twin: Twin, control: Doors) -> None:
        await control(Peers.add, "bob", origin)
        used = (await control(Tokens.create))["id"]
        await control(Tokens.revoke, used)
        before = [entry.body["operation"] for entry in await twin.entries("operator.command")]
        assert len(before) == 3
        refused: dict[str, Order] = {
            "a name that is taken": lambda c: c(Peers.add, "bob", TwinMesh("three", 2).origin),
            "a peer of the configuration": lambda c: c(Peers.remove, "bob"),
            "a token for ever": lambda c: c(Tokens.create, lifetime_s=10**9),
            "no such token": lambda c: c(Tokens.revoke, "f" * 16),
        }
        for what, order in refused.items():
            with pytest.raises(Invalid):
                await order(control)
            assert len(await twin.entries("operator.command")) == len(before), what

    on_control(tmp_path, body, mesh=mesh)


def test_what_is_being_removed_is_not_restarted_on_record(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        twin.kernel.processes.admission.removing.add("/user/ada")
        with pytest.raises(Busy):
            await control(Processes.restart, "ada")
        assert await twin.entries("operator.command") == []

    on_control(tmp_path, body)


def test_the_reason_of_an_order_is_listed_when_the_exit_that_repeats_it_is_erased(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        await control(Processes.kill, "ada", signal="kill", why="it knows too much")
        ended, command = await exit_of(twin, "/user/ada"), await command_of(twin)
        erased = await control(Erasure.erase, "why", seqs=[ended.entry.seq])
        assert erased["left"] == [[command.entry.seq, "operator.command"]]

    on_control(tmp_path, body)
