"""Whose a workspace is that a removed process left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernel.errors import Invalid
from kernel.operations.messages import Messages
from kernel.operations.processes import Processes
from kernel.operations.spawning import Spawning, SpawnRequest
from kernel.process.process_signals import SlotGone
from kernel.process.workspaces import Workspaces
from kernel.toolbox.protected import NOTHING_PROTECTED
from mesh.identity.peers import Peer
from tests.kernel.control.test_control import control_of
from tests.kernel.process.test_quotas import peers_spawn
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin
from tests.mesh.twins.core_nodes import ALICE


def test_what_a_removed_process_left_is_for_the_operators_next_one_and_for_no_peers(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control, by_peer, eve = control_of(twin), peers_spawn(twin), Peer("eve", ALICE.origin)

        def workspace(address: str = "/user/bob") -> Path:
            return Path(twin.kernel.state.slots[address].spec.workspace)

        async def hers(name: str = "bob", **more: Any) -> Path:
            await by_peer(eve, {"request": {"name": name, "tools": [], **more}})
            return workspace(f"{more.get('under', '/user')}/{name}")

        async def remove() -> None:
            await control(Processes.stop, "bob")
            await control(Processes.remove, "bob", recursive=True)

        assert await hers() == tmp_path / "workspaces" / "user+" / "bob"  # nothing was left
        await remove()
        await control(Spawning.spawn, "bob")
        own = workspace()
        (own / "plan.txt").write_text("the operator's secret")
        assert await hers("kid", under="/user/bob") == own.parent / "bob+" / "kid"
        await remove()
        given = await hers()
        assert given != own and given.parent == own.parent and not list(given.iterdir())
        (given / "hers.txt").write_text("hers")
        await remove()
        assert await hers() not in (own, given)
        await remove()
        await control(Spawning.spawn, "bob")
        assert workspace() == own and (own / "plan.txt").read_text() == "the operator's secret"

    on_twin(tmp_path, body)


def test_the_directory_of_one_of_many_is_made_when_its_first_turn_begins_and_anew_for_its_successor(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        control, slots = control_of(twin), twin.kernel.state.slots
        workspaces = Workspaces(tmp_path, slots, NOTHING_PROTECTED, lambda path: "")
        for _ in range(2):
            await control(Spawning.spawn_all, [SpawnRequest("w", tools=[], restart="temporary")], count=2)
            own = Path(slots["/user/w-2"].spec.workspace)
            assert not own.parent.exists()
            for address in ("/user/w-2", "/user/w-2", "/user/none"):
                workspaces.needed(address)
            assert [each.name for each in own.parent.iterdir()] == ["w-2"]
            gone = [SlotGone(slots[f"/user/w-{number}"]) for number in (1, 2)]
            for number in (1, 2):
                await control(Processes.kill, f"w-{number}", signal="kill")
            for said in gone:
                workspaces.gone(said)
            assert not own.exists()

    on_twin(tmp_path, body)


def test_where_another_process_works_is_no_workspace_for_a_peers_though_it_is_empty(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        control, by_peer = control_of(twin), peers_spawn(twin)
        own = tmp_path / "workspaces" / "user+" / "bob"
        own.mkdir(parents=True)
        await control(Spawning.spawn, "ada", workspace=str(own))
        request = {"name": "bob", "tools": [], "restart": "temporary"}
        await by_peer(Peer("eve", ALICE.origin), {"request": request})
        given = Path(twin.kernel.state.slots["/user/bob"].spec.workspace)
        assert given != own and given.is_dir()
        await control(Processes.kill, "bob", signal="kill")
        assert own.is_dir() and not given.exists()  # what was made for a temporary one goes with it

    on_twin(tmp_path, body)


def test_the_end_of_a_temporary_process_leaves_a_workspace_that_is_not_its_own_whatever_its_name(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def body(twin: Twin) -> None:
        control, slots = control_of(twin), twin.kernel.state.slots
        workspaces = Workspaces(tmp_path, slots, NOTHING_PROTECTED, lambda path: "")
        given = tmp_path_factory.mktemp("elsewhere") / "~ws"
        given.mkdir()
        await control(Spawning.spawn, "sup", supervisor=True, restart="temporary")
        await control(Spawning.spawn, "ada", workspace=str(given), restart="temporary")
        for address in ("/user/sup", "/user/ada"):
            workspaces.gone(SlotGone(slots[address]))
        assert given.is_dir()

    on_twin(tmp_path, body)


def test_a_directory_that_cannot_be_made_is_told_in_the_nodes_log_and_the_turn_goes_on(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        control, in_its_place = control_of(twin), tmp_path / "workspaces" / "user+" / "w-1"
        await control(Spawning.spawn_all, [SpawnRequest("w", tools=[])], count=1)
        in_its_place.parent.mkdir(parents=True)
        in_its_place.write_text("somebody's")
        for text in ("one", "two"):
            await control(Messages.send, "/user/w-1", text)
            twin.finish(await twin.delivery())
        [(_, told), _] = [(event, said) for event, said in twin.log if "could not be made" in event]
        assert told["address"] == "/user/w-1" and f"File exists: {in_its_place}; " in told["why"]
        in_its_place.unlink()
        await control(Messages.send, "/user/w-1", "three")
        await twin.delivery()
        assert in_its_place.is_dir()

    on_twin(tmp_path, body)


def test_a_workspace_that_is_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        (tmp_path / "round").symlink_to("round")
        with pytest.raises(Invalid, match="is not a directory"):
            await control_of(twin)(Spawning.spawn, "ada", workspace=str(tmp_path / "round"))

    (tmp_path / "data").mkdir()
    on_twin(tmp_path / "data", body)
