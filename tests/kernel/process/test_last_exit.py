"""What an incarnation is told of the end of the one before it; on a real ledger with a twin for the cells."""

from __future__ import annotations

from pathlib import Path

from chain.ledger.ledger import Draft
from kernel.abi import LastExit
from kernel.cells.cell_events import CellStartFailed, Placement
from kernel.slices.tree.exits import NEVER, WITH_ITS_NODE, Exit, told_of
from tests.kernel.syscall.test_tool_calls import turn_of_ada
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.disks import FullDisk
from tests.kernel.twins.kernel_twin import Twin
from tests.kernel.twins.mesh_twin import until

LONG = "x" * 5000


def told(twin: Twin) -> list[LastExit | None]:
    """What each incarnation of ada was told, in order."""
    return [each.last_exit for each in twin.cells.placed if each.address == "/user/ada"]


def test_who_is_told_what() -> None:
    assert told_of(NEVER, 0, 0) is None
    assert told_of(Exit(7), 7, 1) is None  # erased
    assert told_of(Exit(7, "crash", "d", 2_500_000), 7, 1) == LastExit("technical", "crash", "d", 2.5, 1)
    assert told_of(Exit(9, "timeout", "", 1), 7, 1) == LastExit(
        "technical", "timeout", "", 1e-6, 1
    )  # never ran
    assert told_of(Exit(7, "no_progress", "d", 1), 9, 4) == LastExit(
        "technical", "cell_lost", WITH_ITS_NODE, 0.0, 4
    )
    end = told_of(Exit(7, "no_progress", "é" * 5000, 0), 7, 1)
    assert end is not None and len(end.detail.encode()) == 1000 and end.kind == "logical"


def test_a_successor_is_told_of_the_crash_before_it_and_the_first_of_nothing(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.crash(at)
        again = await twin.delivery()
        [exited] = await twin.entries("process.exited")
        first, second = told(twin)
        assert first is None
        assert second == LastExit("technical", "crash", "the test said so", exited.entry.time_us / 1e6, 1)
        twin.kernel.processes.exit(again.pid, "no_progress", LONG)
        await twin.delivery()
        third = told(twin)[-1]
        assert third is not None
        assert (third.kind, third.reason, third.restarts) == ("logical", "no_progress", 2)
        assert len(third.detail) <= 1000 and third.detail in LONG

    on_twin(tmp_path, body)


def test_an_end_that_the_disk_has_yet_to_take_is_told_as_it_was(tmp_path: Path) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        await twin.ledger.barrier()
        disk.full = True
        twin.kernel.recorder.commit([Draft("node.clock", {"ahead_us": 0})])
        await until(lambda: twin.ledger.read_only is not None, "the disk refuses")
        twin.kernel.processes.exit(at.pid, "refused", "not this")
        await until(lambda: len(told(twin)) == 2, "its successor is started")
        end = told(twin)[-1]
        assert end is not None and (end.kind, end.reason, end.detail) == ("logical", "refused", "not this")
        disk.full = False
        await until(lambda: not twin.kernel.recorder.waiting, "it is written")
        assert not twin.kernel.processes._unwritten

    on_twin(tmp_path, body, disk=disk)


def test_a_start_that_failed_is_an_end_like_any_other(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        seen: list[Placement] = []

        def refuse(placement: Placement) -> str:
            seen.append(placement)
            return "timeout: it did not start" if len(seen) == 1 else ""

        twin.cells.refuse = refuse
        twin.crash(at)
        await twin.delivery()
        ends = [end.reason for end in told(twin) if end is not None]
        assert ends == ["crash", CellStartFailed(1, "timeout: it did not start").reason]

    on_twin(tmp_path, body)


def test_after_a_boot_it_is_told_of_the_end_that_was_seen_or_that_the_node_took_it_along(
    tmp_path: Path,
) -> None:
    async def crashed(twin: Twin) -> None:
        twin.crash(await turn_of_ada(twin))
        await twin.delivery()

    async def after(twin: Twin) -> None:
        await twin.delivery()
        assert told(twin) == [LastExit("technical", "cell_lost", WITH_ITS_NODE, 0.0, 2)]
        twin.kernel.processes.kill("/user/ada", "kill")
        await twin.delivery()
        end = told(twin)[-1]
        assert end is not None and (end.kind, end.reason, end.restarts) == ("technical", "killed", 3)

    on_twin(tmp_path, crashed)
    on_twin(tmp_path, after)
