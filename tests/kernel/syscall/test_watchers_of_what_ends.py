"""Who watches below a supervisor that will end, as one below it has begun to, and then does not: it watches on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from kernel.cells.cell_events import CellLeft
from tests.kernel.syscall.test_links import link, told, trap
from tests.kernel.syscall.test_monitor_calls import TALKS, down, kill, monitor, quiet, turn_of
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin

ABOVE, TOP = "/user/above", "/user/above/top"
MODE = "any_significant"


async def family(twin: Twin) -> None:
    """Of ``above``, which ends with ``top``, which ends with ``lead``; ``watch`` is beside them, ``bob`` elsewhere."""
    await twin.spawn("above", type="supervisor", restart="transient", auto_shutdown=MODE, tools=())
    await twin.spawn("bob")
    await twin.spawn("watch", ABOVE, tools=TALKS)
    own = {"type": "supervisor", "restart": "transient", "significant": True, "auto_shutdown": MODE}
    await twin.spawn("top", ABOVE, tools=(), **own)
    await twin.spawn("lead", TOP, restart="transient", significant=True)
    await twin.spawn("other", TOP)


async def begin_to_end(twin: Twin) -> None:
    """``top`` has begun to, and waits for a turn below it."""
    await turn_of(twin, "other")
    lead = twin.kernel.live.at(f"{TOP}/lead")
    assert lead is not None
    twin.say(CellLeft(lead.pid, "normal"))
    await quiet(twin)
    assert twin.kernel.live.at(TOP) is not None


async def bring_back(twin: Twin) -> None:
    twin.kernel.processes.kill(TOP, "kill")
    await quiet(twin)
    assert {address for address in (ABOVE, TOP) if twin.kernel.live.at(address)} == {ABOVE, TOP}
    twin.finish(await twin.delivery())  # what was open below it


def on_family(tmp_path: Path, body: Callable[[Twin], Awaitable[None]]) -> None:
    async def run(twin: Twin) -> None:
        await family(twin)
        await body(twin)

    on_twin(tmp_path, run)


def test_a_monitor_is_told(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of(twin, "watch")
        ref = (await monitor(twin, at, "bob"))["ref"]
        twin.finish(at)
        await begin_to_end(twin)
        await bring_back(twin)
        kill(twin, "bob")
        assert (await down(twin)).ref == ref

    on_family(tmp_path, body)


def test_exits_are_trapped_as_before(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of(twin, "watch")
        await trap(twin, at)
        ref = (await link(twin, at, "bob"))["ref"]
        twin.finish(at)
        watch = twin.kernel.live.at(f"{ABOVE}/watch")
        await begin_to_end(twin)
        await bring_back(twin)
        kill(twin, "bob")
        assert (await told(twin)).ref == ref
        assert twin.kernel.live.at(f"{ABOVE}/watch") is watch

    on_family(tmp_path, body)
