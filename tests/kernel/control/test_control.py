"""What people ask of a node, over a real ledger: recorded with who asked, bounded, refused in words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from kernel.bounds import Bounds
from kernel.control.asked import Asked
from kernel.control.control import Control
from kernel.control.facts import Erasures, NodeFacts, NodeServices, RotateKeys, no_rotation
from kernel.control.processes import MOST_FOLLOWING, SHOWN_CHARS
from kernel.errors import (
    Busy,
    CapabilityError,
    Invalid,
    KernelError,
    NotFound,
    Refused,
    TimedOut,
    Unavailable,
)
from kernel.helper.helper import HelperLost
from kernel.operations.decisions import Divergences, Doubts
from kernel.operations.messages import Messages
from kernel.operations.node import Node
from kernel.operations.operation import Operation
from kernel.operations.processes import Processes
from kernel.operations.spawning import Spawning, SpawnRequest
from kernel.peer.remote_calls import PeerAsked
from kernel.process.process_signals import SlotGone
from kernel.toolbox.protected import NOTHING_PROTECTED, ProtectedPaths
from kernel.turn.turn_signals import SessionRead
from kernel.upkeep.erasure import Plan, Selection, plan_erasure
from kernel.upkeep.loop_lag import LoopLag
from kernel.worker.pool import WorkerResult
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.disks import SlowDisk
from tests.kernel.twins.doors import OP, Doors
from tests.kernel.twins.journal_entries import JournalEntries
from tests.kernel.twins.kernel_twin import LIMIT_S, Twin
from tests.patience import HANG_S


def erasures_of(twin: Twin) -> Erasures:
    """Plans from the journal, and nobody who does the rest."""

    async def plan(selection: Selection) -> Plan:
        return plan_erasure(JournalEntries(twin.directory), selection)

    return Erasures(plan, lambda: None, lambda: {"step": "", "fault": ""})


class TwinTail:
    """What was read before comes once more, then a line each time."""

    open = 0

    def __init__(self, address: str) -> None:
        self._coming: list[dict[str, Any]] = [
            {"address": address},
            *({"number": number} for number in range(3)),
        ]
        TwinTail.open += 1

    def read(self) -> list[dict[str, Any]]:
        return [self._coming.pop(0) for _ in self._coming[:2]]

    def close(self) -> None:
        TwinTail.open -= 1


def control_of(
    twin: Twin,
    archive: Callable[..., Any] | None = None,
    rotate: RotateKeys = no_rotation,
    erasures: Erasures | None = None,
    protected: ProtectedPaths = NOTHING_PROTECTED,
    way_fault: Callable[[Path], str] = lambda path: "",
) -> Doors:
    async def lost(op: str, args: dict[str, Any]) -> Any:
        raise HelperLost("archive is not running")

    facts = NodeFacts(
        name="n1",
        origin="weftos-x",
        version="0",
        engine="local",
        data=twin.directory,
        runtime=twin.directory / "run",
        providers=frozenset({"offline"}),
        protected=protected,
        way_fault=way_fault,
    )
    services = NodeServices(
        config_view=lambda: [{"key": "a", "value": 1, "origin": "default"}],
        read_logs=lambda address, limit: [{"address": address}],
        follow_logs=TwinTail,
        archive=archive or lost,
        shutdown=lambda why: None,
        loop_lag=LoopLag(),
        erasures=erasures or erasures_of(twin),
        rotate=rotate,
    )
    control = Control(twin.kernel, facts, services)
    control.workspaces.look()
    (twin.peers_ask,) = control.hears()[PeerAsked]
    (twin.slot_gone,) = control.hears()[SlotGone]
    (twin.session_read,) = control.hears()[SessionRead]
    return Doors(control)


def on_control(tmp_path: Path, body: Callable[[Twin, Doors], Awaitable[None]], **options: Any) -> None:
    async def run(twin: Twin) -> None:
        await body(twin, control_of(twin))

    on_twin(tmp_path, run, **options)


def test_who_asked_for_what_is_recorded_before_it_is_done(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada", system_prompt="be secretive")
        await control(Messages.send, "ada", "a private word")
        await control(Processes.kill, "ada", signal="kill")
        commands = await twin.entries("operator.command")
        assert [record.body["operation"] for record in commands] == ["spawn", "send", "kill"]
        assert {(record.body["uid"], record.body["os_pid"]) for record in commands} == {(1000, 77)}
        assert json.loads(commands[1].body["arguments"])["text"] == "14 characters"
        accepted = (await twin.entries("message.accepted"))[0]
        assert accepted.entry.cause == commands[1].entry.seq

    on_control(tmp_path, body)


def test_a_change_is_recorded_with_who_asked_and_holds_after_a_boot(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "team", supervisor=True)
        await control(Spawning.spawn, "ada", under="team")
        pid = twin.kernel.live.at("/user/team/ada")
        answer = await control(Processes.change, "team", intensity=(2, 9.0), strategy="rest_for_one")
        assert answer == {"address": "/user/team", "changed": ["intensity", "strategy"]}
        assert (await control(Processes.change, "team", strategy="rest_for_one"))["changed"] == []
        await control(Processes.change, "/user/team/ada", restart="transient", shutdown_s="infinity")
        await control(Processes.change, "/user", intensity=(9, 60.0))
        commands = [
            record
            for record in await twin.entries("operator.command")
            if record.body["operation"] == "change"
        ]
        changes = await twin.entries("process.changed")
        assert [record.entry.cause for record in changes] == [commands[at].entry.seq for at in (0, 2, 3)]
        assert [record.body["fields"] for record in changes[:2]] == [
            ["intensity", "strategy"],
            ["restart", "shutdown_s"],
        ]
        assert twin.kernel.live.at("/user/team/ada") is pid
        shown = await control(Processes.children, "team")
        assert (shown["strategy"], shown["restarts"], shown["period_s"]) == ("rest_for_one", 2, 9.0)
        assert (shown["children"][0]["restart"], shown["children"][0]["shutdown_s"]) == (
            "transient",
            "infinity",
        )
        await control(Processes.change, "/user/team/ada", shutdown_s=5)
        assert twin.kernel.state.slots["/user/team/ada"].spec.shutdown_s is None

    async def after(twin: Twin, control: Doors) -> None:
        shown = await control(Processes.children, "team")
        assert (shown["strategy"], shown["restarts"]) == ("rest_for_one", 2)
        assert twin.kernel.state.slots["/user/team/ada"].spec.restart == "transient"
        assert (await control(Processes.children, "/user"))["restarts"] == 9

    on_control(tmp_path, body)
    on_control(tmp_path, after)


@pytest.mark.parametrize(
    ("target", "fields", "said"),
    [
        ("ada", {}, "say what of /user/ada is to be changed"),
        ("ada", {"strategy": "one_for_all"}, "strategy belongs to a supervisor, and /user/ada is none"),
        ("ada", {"restart": "transient", "intensity": (1, 1.0)}, "intensity belongs to a supervisor"),
        ("ada", {"significant": True}, "significant is for a child that may end"),
        ("/user", {"strategy": "one_for_all"}, "of /user the intensity alone can be changed"),
        ("team", {"intensity": (1, 0.0)}, "intensity 1/0"),
        ("team", {"strategy": "one_for_none"}, "strategy is 'one_for_none', must be one of"),
        ("team", {"on_logical": "park"}, "a supervisor ends for no logical reason"),
        (
            "team",
            {"auto_shutdown": "any_significant", "restart": "transient", "significant": True},
            "auto_shutdown",
        ),
    ],
)
def test_a_change_that_is_wrong_is_refused_in_words_and_changes_nothing(
    tmp_path: Path, target: str, fields: dict[str, Any], said: str
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "team", supervisor=True)
        await control(Spawning.spawn, "ada")
        with pytest.raises(KernelError, match=said) as caught:
            await control(Processes.change, target, **fields)
        assert caught.value.code == "invalid"
        assert await twin.entries("process.changed") == []

    on_control(tmp_path, body)


def test_what_does_not_run_is_changed_for_its_next_start(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "team", supervisor=True, auto_shutdown="any_significant")
        await control(Spawning.spawn, "ada", under="team", restart="transient", significant=True)
        await control(Processes.stop, "team")
        with pytest.raises(KernelError, match="auto_shutdown is never and ada significant"):
            await control(Processes.change, "team", auto_shutdown="never")
        with pytest.raises(KernelError, match="a temporary one is kept only while it runs"):
            await control(Processes.change, "/user/team/ada", restart="temporary")
        await control(Processes.change, "/user/team/ada", significant=False, restart="permanent")
        await control(Processes.change, "team", auto_shutdown="never", strategy="one_for_all")
        await control(Processes.start, "team")
        shown = await control(Processes.children, "team")
        assert (shown["strategy"], shown["auto_shutdown"]) == ("one_for_all", "never")
        assert [(row["restart"], row["significant"]) for row in shown["children"]] == [("permanent", False)]

    on_control(tmp_path, body)


def test_an_operation_that_is_to_be_recorded_and_was_not_is_a_fault(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        asked = Asked(OP, Processes.kill, twin.kernel.recorder)
        with pytest.raises(KernelError, match=r"processes\.kill was done without a record of it"):
            asked.check()
        asked.record(target="ada")
        asked.check()
        Asked(OP, Processes.ps, twin.kernel.recorder).check()

    on_twin(tmp_path, body)


def test_a_message_counts_as_accepted_when_it_is_on_the_disk_and_not_before(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        for number in range(5):
            answer = await control(Messages.send, "ada", f"number {number}")
            assert twin.ledger.size > int(answer["message"][1:])

    on_control(tmp_path, body)


def test_a_stop_is_told_when_it_is_done_however_much_there_is_to_do_before(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for name in ("ada", "bob"):
            await twin.spawn(name)
        recorder, barrier, states = twin.kernel.recorder, twin.kernel.recorder.barrier, []

        async def watched() -> None:
            states.append(twin.kernel.state.slots["/user/ada"].state)
            await barrier()

        recorder.barrier = watched  # type: ignore[method-assign]
        twin.kernel.processes.effects.at_once = 1
        twin.kernel.processes.kill("/user/bob", "kill")
        assert twin.kernel.processes.effects.unfinished
        stopped = await control(Processes.stop, "ada")
        assert (stopped["state"], stopped["kept"]) == ("stopped", True)
        assert states == ["stopped"]  # what waits for the disk is all of it

    on_control(tmp_path, body)


@pytest.mark.parametrize("asked", [Processes.stop, Processes.start, Processes.cancel], ids=repr)
def test_what_is_told_to_be_done_is_on_the_disk(tmp_path: Path, asked: Operation[[str], Any, Any]) -> None:
    disk = SlowDisk()

    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        if asked is Processes.start:
            twin.kernel.processes.stop("/user/ada")
        if asked is Processes.cancel:
            await twin.send("ada")
            await twin.delivery()
        await twin.ledger.barrier()
        disk.ready.clear()
        task = asyncio.ensure_future(control(asked, "ada"))
        try:
            for _ in range(100):  # rounds of the loop: whoever would tell without waiting has told by then
                await asyncio.sleep(0)
            assert not task.done()
        finally:
            disk.ready.set()
        await asyncio.wait_for(task, LIMIT_S)
        assert twin.ledger.size == twin.ledger.next_seq

    on_control(tmp_path, body, disk=disk)


def test_an_agent_without_a_workspace_of_its_own_gets_one_below_the_data_directory(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        found = await control(Processes.inspect, "ada")
        workspace = Path(found["spec"]["workspace"])
        assert workspace.is_dir()
        assert workspace.is_relative_to(tmp_path / "workspaces")
        assert found["tools"] == ["calculator", "file_read", "file_list"]

    on_control(tmp_path, body)


def test_the_workspace_of_a_temporary_process_goes_with_it_when_it_is_empty(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        all_ = tmp_path / "workspaces"

        async def spawn(name: str, **more: Any) -> Path:
            await control(Spawning.spawn, name, **more)
            found = await control(Processes.inspect, name)
            return Path(found["spec"]["workspace"])

        async def end(*names: str) -> None:
            for name in names:
                await control(Processes.kill, name, signal="kill")

        empty = await spawn("empty", restart="temporary")
        full = await spawn("full", restart="temporary")
        (full / "notes.txt").write_text("mine")
        lent = await spawn("lent", restart="temporary")
        await spawn("guest", restart="temporary", workspace=str(lent))
        stays = await spawn("stays", restart="transient")
        await end("empty", "full", "lent", "stays")
        assert not empty.exists()
        assert full.is_dir() and lent.is_dir() and stays.is_dir()
        await end("guest")
        assert lent.is_dir()  # a person has chosen it
        again = await spawn("empty", restart="temporary")
        assert again == empty and empty.is_dir()
        boss = await spawn("boss", restart="temporary")
        below = await spawn("below", under="/user/boss", restart="temporary")
        await end("boss")
        assert not boss.exists() and not below.parent.exists() and all_.is_dir()

    on_control(tmp_path, body)


def test_spawns_that_are_refused_leave_nothing(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        (tmp_path / "file").write_text("")
        other = tmp_path.parent / f"{tmp_path.name}-cluster" / "n2"
        (other / "workspaces" / "bob").mkdir(parents=True)
        (other / "format").write_text("weftos-data 1\n")
        for error, words, fields in (
            (Invalid, "behaviour 'nope' is not configured; there are: agent", {"behaviour": "nope"}),
            (Invalid, "provider 'nope' is not configured; there are: offline", {"provider": "nope"}),
            (Invalid, "no tool rm_rf; there are:", {"tools": ("calculator", "rm_rf")}),
            (Invalid, "not an absolute path", {"workspace": "relative"}),
            (Invalid, "not a directory", {"workspace": "/nowhere/at/all"}),
            (Refused, "would show the node's own files", {"workspace": str(tmp_path)}),
            (Refused, "would show the node's own files", {"workspace": str(tmp_path / "keys")}),
            (Refused, "would show the node's own files", {"workspace": "/"}),
            (Refused, "would show files of a weftos node", {"workspace": str(other)}),
            (Refused, "would show files of a weftos node", {"workspace": str(other.parent)}),
            (Refused, "would show files of a weftos node", {"workspace": str(other / "workspaces" / "bob")}),
            (Refused, "under /user", {"under": "/kernel"}),
            (NotFound, "no process at /user/x", {"under": "/user/x"}),
        ):
            with pytest.raises(error, match=words):
                await control(Spawning.spawn, "ada", **fields)
        assert set(twin.kernel.state.slots) == {"/user"}
        assert not await twin.entries("operator.command")

    on_control(tmp_path, body)


def test_what_is_spawned_below_a_template_is_of_that_and_says_no_more_than_what_is_its_own(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(
            Spawning.spawn,
            "pool",
            supervisor=True,
            strategy="simple_one_for_one",
            tools=("calculator",),
            system_prompt="be secretive",
            child_restart="transient",
            child_shutdown_s=2.0,
        )
        made = await control(Spawning.spawn, "a", under="/user/pool", model="large", restart="transient")
        found = await control(Processes.inspect, made["pid"])
        told = {name: found["spec"][name] for name in ("tools", "restart", "shutdown_s", "config")}
        assert told == {
            "tools": ["calculator"],
            "restart": "transient",
            "shutdown_s": 2.0,
            "config": {"system_prompt": "be secretive", "model": "large"},
        }
        assert found["spec"]["workspace"].endswith("/pool+/a")
        for fields, said in (
            ({"restart": "temporary"}, "leave out restart"),
            ({"tools": ("file_read",), "behaviour": "other"}, "leave out behaviour, tools"),
            ({"supervisor": True}, "leave out supervisor"),
            ({"shutdown_s": 9.0}, "leave out shutdown_s"),
        ):
            with pytest.raises(Invalid, match=f"/user/pool makes its children of a template: {said}"):
                await control(Spawning.spawn, "b", under="/user/pool", **fields)
        await control(Spawning.spawn, "gone", under="/user/pool")
        assert not (await control(Processes.stop, "gone"))["kept"]
        commands = await twin.entries("operator.command")
        assert not [each for each in commands if "be secretive" in each.body["arguments"]]
        assert set(twin.kernel.state.slots) == {"/user", "/user/pool", "/user/pool/a"}

    on_control(tmp_path, body)


def test_a_template_is_changed_for_the_children_that_are_made_from_then_on(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        pool: dict[str, Any] = {"supervisor": True, "strategy": "simple_one_for_one", "tools": ()}
        await control(Spawning.spawn, "pool", **pool)
        old = await control(Spawning.spawn, "old", under="/user/pool")
        done = await control(
            Processes.change, "pool", child_restart="transient", child_shutdown_s=2.0, on_logical="end"
        )
        assert done["changed"] == ["template"]
        assert (await control(Processes.change, "pool", on_logical="end"))["changed"] == []
        await control(Spawning.spawn, "new", under="/user/pool")
        specs = {name: twin.kernel.state.slots[f"/user/pool/{name}"].spec for name in ("old", "new")}
        told = {name: (spec.restart, spec.shutdown_s, spec.on_logical) for name, spec in specs.items()}
        assert told == {"old": ("permanent", None, "restart"), "new": ("transient", 2.0, "end")}
        process = twin.kernel.live.at("/user/pool/old")
        assert process is not None and process.pid == old["pid"]
        await control(Spawning.spawn, "team", supervisor=True)
        with pytest.raises(Invalid, match="child_restart is of a template, and /user/team has none"):
            await control(Processes.change, "team", child_restart="transient")
        with pytest.raises(KernelError, match="park"):
            await control(Processes.change, "pool", on_logical="park")
        assert twin.kernel.state.slots["/user/pool"].spec.template == specs["new"].made("", "", {})

    async def after(twin: Twin, control: Doors) -> None:
        slots = twin.kernel.state.slots
        await until(lambda: len([each for each in twin.kernel.live.all() if "/pool/" in each.address]) == 2)
        assert [slots[f"/user/pool/{name}"].spec.restart for name in ("old", "new")] == [
            "permanent",
            "transient",
        ]
        await control(Spawning.spawn, "third", under="/user/pool")
        assert slots["/user/pool/third"].spec.restart == "transient"

    on_control(tmp_path, body)
    on_control(tmp_path, after)


def test_35_36_the_children_of_a_process_are_told_as_its_supervisor_has_them(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        flags: dict[str, Any] = {"strategy": "rest_for_one", "auto_shutdown": "all_significant"}
        await control(Spawning.spawn, "team", supervisor=True, intensity=(3, 9.0), **flags)
        for name, more in (
            ("c", {"restart": "transient", "significant": True}),
            ("a", {"shutdown_s": 0.0}),
            ("b", {"supervisor": True}),
        ):
            await control(Spawning.spawn, name, under="/user/team", **more)
        await control(Processes.stop, "/user/team/a")
        told = await control(Processes.children, "team")
        assert {**told, **flags, "restarts": 3, "period_s": 9.0} == told
        assert (told["running"], told["on_exceed"]) == (True, "shutdown")
        assert told["counts"] == {"specs": 3, "active": 2, "supervisors": 1, "workers": 2}
        rows = [
            (row["name"], bool(row["pid"]), row["slot"], row["phase"], row["significant"], row["shutdown_s"])
            for row in told["children"]
        ]
        assert rows == [
            ("c", True, "running", "up", True, 5.0),
            ("a", False, "stopped", "none", False, 0.0),
            ("b", True, "running", "up", False, "infinity"),
        ]
        first = told["children"][0]["spawned_seq"]
        page = await control(Processes.children, "team", after=first, limit=1)
        assert [row["name"] for row in page["children"]] == ["a"]
        await control(Processes.remove, "/user/team/a")
        page = await control(Processes.children, "team", after=page["children"][-1]["spawned_seq"])
        assert [row["name"] for row in page["children"]] == [
            "b"
        ]  # who was the last of a page may go meanwhile
        await control(Processes.stop, "team")
        rest = await control(Processes.children, "team")
        assert rest["counts"] == {"specs": 2, "active": 0, "supervisors": 1, "workers": 1}
        assert not rest["running"] and [row["pid"] for row in rest["children"]] == [0, 0]
        assert (await control(Processes.children, "/user/team/c"))["on_exceed"] == "park"
        with pytest.raises(NotFound):
            await control(Processes.children, "nobody")

    on_control(tmp_path, body)


def test_28_a_child_is_stopped_by_its_pid_below_any_supervisor(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        made = await control(Spawning.spawn, "ada")
        assert (await control(Processes.stop, made["pid"]))["state"] == "stopped"
        with pytest.raises(NotFound):
            await control(Processes.stop, made["pid"] + 1_000)

    on_control(tmp_path, body)


def test_no_workspace_shows_what_decides_what_the_node_runs(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()

    async def body(twin: Twin) -> None:
        project, own = tmp_path / "project", twin.directory / "workspaces" / "user+" / "bob"
        (project / "tools").mkdir(parents=True)
        (project / "notes").mkdir()
        places = [str(project / "weftos.toml"), str(project / "tools"), str(own)]
        control = control_of(twin, protected=ProtectedPaths(places))
        for name, workspace in (("ada", project), ("ada", project / "tools"), ("bob", None)):
            with pytest.raises(Refused, match="which decides what the node runs or whom it believes; choose"):
                await control(Spawning.spawn, name, workspace=str(workspace or ""))
        await control(Spawning.spawn, "ada", workspace=str(project / "notes"))
        assert (await control(Node.status))["faults"] == []

    on_twin(tmp_path / "node", body)


def test_a_slot_older_than_what_its_workspace_shows_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "node").mkdir()

    async def body(twin: Twin) -> None:
        project = tmp_path / "project"
        project.mkdir()
        await control_of(twin)(Spawning.spawn, "ada", workspace=str(project))
        file = str(project / "weftos.toml")
        control = control_of(twin, protected=ProtectedPaths([file]))
        [fault] = (await control(Node.status))["faults"]
        assert fault.startswith(f"/user/ada: its workspace {project} shows {file}, which decides")
        await control(Processes.stop, "ada")
        await control(Processes.remove, "ada")
        assert (await control(Node.status))["faults"] == []

    on_twin(tmp_path / "node", body)


def test_a_workspace_that_others_could_replace_is_refused_and_of_an_older_slot_told_of(
    tmp_path: Path,
) -> None:
    (tmp_path / "node").mkdir()
    project = tmp_path / "project"
    project.mkdir()

    def way_fault(path: Path) -> str:
        if path == project:
            return f"{tmp_path} on the way to it can be written by others (mode 0777)"
        if path == tmp_path / "hidden":
            raise PermissionError(13, "Permission denied")
        return ""

    async def body(twin: Twin) -> None:
        await control_of(twin)(Spawning.spawn, "ada", workspace=str(project))
        control = control_of(twin, way_fault=way_fault)
        [fault] = (await control(Node.status))["faults"]
        assert fault.startswith(
            f"/user/ada: its workspace {project} could be replaced by others: {tmp_path} on"
        )
        with pytest.raises(Refused, match=r"could be replaced by others: .* by others \(mode 0777\); choose"):
            await control(Spawning.spawn, "bob", workspace=str(project))
        (tmp_path / "hidden").mkdir()
        with pytest.raises(Refused, match="the way to it cannot be looked at: Permission denied"):
            await control(Spawning.spawn, "bob", workspace=str(tmp_path / "hidden"))
        await control(Spawning.spawn, "bob")

    on_twin(tmp_path / "node", body)


def test_below_an_agent_nobody_is_given_a_tool_that_it_lacks(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "boss", tools=("calculator", "file_read"))
        await control(Spawning.spawn, "team", under="/user/boss", supervisor=True)
        for under in ("/user/boss", "/user/boss/team"):
            greedy = SpawnRequest(name="kid", under=under, tools=("calculator", "file_write"))
            with pytest.raises(CapabilityError, match="does not have: file_write"):
                await control.ask(Spawning.spawn, greedy)
            await control(Spawning.spawn, "kid", under=under, tools=("calculator",))

    on_control(tmp_path, body)


def test_the_root_supervisor_is_not_for_people(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        for call in (
            control(Processes.inspect, "1"),
            control(Processes.kill, "1", signal="kill"),
            control(Processes.stop, "1"),
            control(Messages.send, "1", "hello"),
        ):
            with pytest.raises(NotFound, match="no process 1 below /user"):
                await call

    on_control(tmp_path, body)


def test_waiting_for_a_reply_and_not_waiting_for_ever(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        asked = asyncio.ensure_future(control(Messages.send, "ada", "hi", wait_s=LIMIT_S))
        twin.finish(await twin.delivery(), "good day")
        answer = await asked
        assert (answer["status"], answer["reply"]) == ("ok", "good day")
        with pytest.raises(TimedOut, match="has not answered"):
            await control(Messages.send, "ada", "hi", wait_s=0.05)
        assert (await control(Node.status))["messages"]["in_flight"] == 1

    on_control(tmp_path, body)


async def _collect(stream: AsyncIterator[dict[str, Any]], into: list[dict[str, Any]]) -> None:
    async for event in stream:
        into.append(event)


def test_a_watched_message_tells_its_story_from_the_start(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        events: list[dict[str, Any]] = []
        watching = asyncio.ensure_future(
            _collect(control.stream(Messages.watch, "ada", "hi", session="s"), events)
        )
        at = await twin.delivery()
        await twin.call_tool(at, "calculator", {"expression": "1+1"})
        twin.crash(at)
        again = await twin.delivery()
        twin.finish(again, "done")
        await asyncio.wait_for(watching, HANG_S)
        kinds = [event["event"] for event in events]
        assert kinds == ["accepted", "turn", "tool", "exit", "turn", "reply"]
        assert [event["attempt"] for event in events if event["event"] == "turn"] == [1, 2]
        assert events[-1]["reply"] == "done"
        assert twin.kernel.watchers.count == 0

    on_control(tmp_path, body)


def test_a_watched_message_that_dies_says_so(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        first: list[dict[str, Any]] = []
        second: list[dict[str, Any]] = []
        one = asyncio.ensure_future(_collect(control.stream(Messages.watch, "ada", "1"), first))
        at = await twin.delivery()
        two = asyncio.ensure_future(_collect(control.stream(Messages.watch, "ada", "2"), second))
        async with asyncio.timeout(HANG_S):
            while not second:
                await asyncio.sleep(0)
        await control(Processes.stop, "ada")
        twin.finish(at)
        await asyncio.wait_for(asyncio.gather(one, two), HANG_S)
        assert first[-1]["event"] == "reply"
        assert second[-1] == {"event": "dead", "why": "/user/ada is stopped"}

    on_control(tmp_path, body)


def test_there_are_only_so_many_watchers(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        stream = control.stream(Messages.watch, "ada", "1")
        await anext(stream)
        with pytest.raises(Busy, match="1 messages are being watched"):
            await anext(control.stream(Messages.watch, "ada", "2"))
        await stream.aclose()  # type: ignore[attr-defined]
        assert twin.kernel.watchers.count == 0

    on_control(tmp_path, body, bounds=Bounds(watchers=1))


def test_a_session_name_is_bounded_and_printable(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        for session in ("x" * 65, "a\nb", "\x1b[31m"):
            with pytest.raises(Invalid, match="session"):
                await control(Messages.send, "ada", "hi", session=session)

    on_control(tmp_path, body)


def test_a_refused_message_is_an_entry_and_no_dead_letter(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        await control(Processes.stop, "ada")
        with pytest.raises(Refused, match="stopped"):
            await control(Messages.send, "ada", "hi")
        assert [record.body["why"] for record in await twin.entries("message.refused")]
        assert await control(Messages.deadletters) == []

    on_control(tmp_path, body)


def test_no_archive_is_unavailable_and_an_archive_is_asked(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        with pytest.raises(Unavailable, match="archive"):
            await control_of(twin)(Node.log, limit=5)

        async def archive(op: str, args: dict[str, Any]) -> Any:
            assert (op, args) == ("log", {"limit": 5, "pid": 3, "kind": "tool", "before": None})
            return {"rows": [{"seq": 1}], "loaded": 2}

        assert await control_of(twin, archive)(Node.log, pid=3, kind="tool", limit=5) == {
            "rows": [{"seq": 1}],
            "source": "archive",
        }

    on_twin(tmp_path, body)


def test_cancel_needs_an_open_turn(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        with pytest.raises(NotFound, match="no open turn"):
            await control(Processes.cancel, "ada")
        await control(Messages.send, "ada", "hi")
        at = await twin.delivery()
        assert (await control(Processes.cancel, "ada"))["turn"] == at.turn
        assert (await control(Processes.inspect, "ada"))["turn"] is None

    on_control(tmp_path, body)


def test_a_parked_turn_is_shown_with_both_calls_and_decided_on_the_record(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        await twin.send("ada")
        at = await twin.delivery()
        await twin.call_tool(at, "pay", {"amount": 5})
        twin.crash(at)
        twin.ask_tool(await twin.delivery(), "pay", {"amount": 6})
        [row] = await control(Divergences.list)
        assert (row["id"], row["recorded"]["arguments"]) == (at.turn, '{"amount":5}')
        number = int(at.turn[1:])
        assert await control(Divergences.list, after=number - 1, limit=9) == [row]
        assert await control(Divergences.list, after=number) == []
        assert (await control(Node.status))["divergences"] == 1
        turn = (await control(Processes.inspect, "ada"))["turn"]
        assert turn is not None and turn["diverged"] is not None and turn["diverged"]["ordinal"] == "0.0"
        decided = await control(Divergences.decide, at.turn, "again")
        assert decided == {"id": at.turn, "address": "/user/ada", "decision": "again"}
        assert (await twin.delivery()).turn == at.turn
        [command] = [r for r in await twin.entries("operator.command") if r.body["operation"] == "decide"]
        [entry] = await twin.entries("turn.decided")
        assert entry.body["by"] == "operator:1000"
        assert command.entry.seq < entry.entry.seq

    on_control(tmp_path, body)


def test_dead_letters_are_bounded_and_the_oldest_is_dropped_on_the_record(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        for number in range(4):
            await control(Messages.send, "ada", f"{number}")
        at = await twin.delivery()
        await control(Processes.stop, "ada")
        twin.finish(at)
        letters = await control(Messages.deadletters)
        assert [letter["text"] for letter in letters] == ["2", "3"]
        assert await control(Messages.deadletters, limit=1) == letters[:1]
        assert await control(Messages.deadletters, limit=1, after=letters[0]["seq"]) == letters[1:]
        assert await control(Messages.deadletters, after=letters[1]["seq"]) == []
        assert len(await twin.entries("message.dropped")) == 1
        counts = (await control(Node.status))["messages"]
        assert counts["accepted"] == 4 == counts["acknowledged"] + counts["dead"] + counts["dropped"]
        shown = await control(Messages.deadletter, letters[0]["id"])
        assert shown["text"] == "2"
        with pytest.raises(NotFound, match="no dead letter m999"):
            await control(Messages.replay, "m999")

    on_control(tmp_path, body, bounds=Bounds(dead_letters=2))


def test_the_list_of_dead_letters_shows_the_beginning_of_a_text_and_one_the_whole(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "ada")
        sent = await control(Messages.send, "ada", "x" * 10_000)
        twin.kernel.messaging.dead_letter(sent["message"], "the test said so")
        [letter] = await control(Messages.deadletters)
        assert letter["text"] == "x" * SHOWN_CHARS
        assert await control(Messages.deadletter, letter["id"]) == {**letter, "text": "x" * 10_000}

    on_control(tmp_path, body)


def test_calls_in_doubt_are_listed_in_pages_with_the_beginning_of_their_arguments(tmp_path: Path) -> None:
    def fail(call: object) -> WorkerResult:
        raise RuntimeError("broken")

    async def body(twin: Twin, control: Doors) -> None:
        twin.workers.answer = fail
        long = json.dumps({"amount": 5, "for": "x" * 10_000}, separators=(",", ":"))
        for count, name in enumerate(("ada", "bob", "eve"), 1):
            await control(Spawning.spawn, name, tools=["pay"])
            await control(Messages.send, name, "hi")
            twin.ask_tool(await twin.delivery(), "pay", long)
            async with asyncio.timeout(HANG_S):
                while len(twin.kernel.state.doubts()) < count:
                    await asyncio.sleep(0)
        rows = await control(Doubts.list)
        assert [row["address"] for row in rows] == ["/user/ada", "/user/bob", "/user/eve"]
        assert all(row["arguments"] == long[:SHOWN_CHARS] for row in rows)
        assert await control(Doubts.list, limit=2) == rows[:2]
        assert await control(Doubts.list, limit=2, after=rows[1]["intent_seq"]) == rows[2:]
        assert await control(Doubts.show, rows[1]["id"]) == {**rows[1], "arguments": long}
        with pytest.raises(NotFound, match=r"no call t9:0\.0 is in doubt; weftos doubts list shows them"):
            await control(Doubts.show, "t9:0.0")

    on_control(tmp_path, body)


def test_ps_shows_the_tree_and_the_helpers(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await control(Spawning.spawn, "team", supervisor=True, intensity=(3, 9.0))
        await control(Spawning.spawn, "ada", under="/user/team")
        rows = {row["address"]: row for row in await control(Processes.ps)}
        assert list(rows) == ["/user", "/user/team", "/user/team/ada"]
        assert rows["/user/team"]["type"] == "supervisor"
        assert rows["/user/team/ada"]["cell"] == "c1"
        every = [row["address"] for row in await control(Processes.ps, all=True)]
        assert every[:2] == ["/", "/kernel"]
        pages = [await control(Processes.ps, all=True, limit=2)]
        while len(pages[-1]) >= 2:
            pages.append(await control(Processes.ps, all=True, after=pages[-1][-1]["address"], limit=2))
        assert [row["address"] for page in pages for row in page] == every
        assert [row["address"] for row in await control(Processes.ps, after="/user/gone")] == [
            "/user/team",
            "/user/team/ada",
        ]
        inspected = await control(Processes.inspect, "team")
        assert inspected["supervision"] == {"specs": 1, "active": 1, "supervisors": 0, "workers": 1}

    on_control(tmp_path, body)


def test_who_follows_a_log_gets_what_is_there_and_each_new_line_once(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        rows = []
        async for row in control.stream(Processes.follow, "ada"):
            rows.append(row)
            if len(rows) == 4:
                break
        assert rows == [{"address": "/user/ada"}, {"number": 0}, {"number": 1}, {"number": 2}]
        with pytest.raises(NotFound):
            await anext(control.stream(Processes.follow, "nobody"))

    on_control(tmp_path, body)


def test_logs_are_followed_by_so_many_and_no_more(tmp_path: Path) -> None:
    async def body(twin: Twin, control: Doors) -> None:
        await twin.spawn("ada")
        readers = [control.stream(Processes.follow, "ada") for _ in range(MOST_FOLLOWING)]
        for reader in readers:
            await anext(reader)
        before = TwinTail.open
        with pytest.raises(Busy, match="follow logs, the limit"):
            await anext(control.stream(Processes.follow, "ada"))
        for reader in readers:
            await cast(Any, reader).aclose()
        assert TwinTail.open == before - MOST_FOLLOWING
        await anext(control.stream(Processes.follow, "ada"))

    on_control(tmp_path, body)
