"""One boot of a node: the whole kernel as it is, over the ledger, cells, workers and gateway of the simulation."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from chain.entry.record import Record
from kernel.cells.launcher import BehaviourEntry
from kernel.kernel import Environment, Kernel
from kernel.peer.mesh_port import NoMesh
from kernel.process.process_signals import SlotGone
from kernel.signals import Signals
from kernel.state.recorder import Recorder, replay_into
from kernel.state.state import State
from kernel.state.state_snapshot import encode_state, restore_state
from tests.chain.twins.memory_disk import MemoryDisk
from tests.simulation.cells import SimulatedCells
from tests.simulation.gateway import SimulatedGateway
from tests.simulation.ledger import Fuse, SimulatedLedger, Weather
from tests.simulation.setting import Setting, make_state
from tests.simulation.virtual_loop import Crash, VirtualLoop
from tests.simulation.wire import Wire
from tests.simulation.workers import SimulatedWorkers
from tests.simulation.world import World
from weftos.node.gates import GATES


class Node:
    """``world`` is told of everything that must not be. One of two has a ``name`` and a ``wire``. ``fuse`` is that of
    its boot, which :meth:`boot` does.
    """

    def __init__(
        self,
        disk: MemoryDisk,
        world: World,
        weather: Weather,
        chance: Random,
        now_s: float,
        *,
        restored: bool,
        looks: Callable[[State], list[str]],
        setting: Setting,
        name: str = "",
        wire: Wire | None = None,
        fuse: Fuse | None = None,
    ) -> None:
        self.loop = VirtualLoop(now_s)
        self.loop.set_exception_handler(lambda loop, context: world.broken(_fault_of(context)))
        self._world, self._weather, self._chance = world, weather, chance
        self.disk = disk
        self._restored, self._looks, self._setting = restored, looks, setting
        self._mesh = wire.mesh(name, self.loop) if wire is not None else NoMesh()
        self._name = name
        self._fuse = fuse or Fuse()
        self.log: list[str] = []

    def boot(self) -> None:
        """Raises :class:`Crash`, and LedgerUnavailable."""
        self.loop.do(self._boot())

    async def _boot(self) -> None:
        bounds = self._setting.bounds
        state = make_state(bounds)
        self.ledger = SimulatedLedger(
            self.disk,
            self.loop,
            self._weather,
            self._chance,
            lambda record: replay_into(state, record),
            self._crash,
        )
        self.ledger.fuse = self._fuse
        self._world.forget_unseen(state.pids.reserved)
        if self._restored:  # as from a snapshot
            kept, state = encode_state(state), make_state(bounds)
            restore_state(state, kept)
        signals = Signals()
        self.cells = SimulatedCells(signals, self._world)
        self.workers = SimulatedWorkers(self._world, self.ledger)
        self.gateway = SimulatedGateway(self._world)
        behaviours = {"agent": BehaviourEntry("agent", "a:B", config={"recall_tokens": 700})}
        self._world.retried = self._setting.retried
        env = Environment(
            self._world.boot,
            bounds,
            GATES,
            behaviours,
            self._logged,
            chance=self._chance,
            mesh=self._mesh,
            name=self._name,
        )
        recorder = Recorder(self.ledger, state, signals)  # type: ignore[arg-type]  # a twin
        parts: tuple[Any, Any, Any] = (self.cells, self.workers, self.gateway)
        self.kernel = Kernel(recorder, self._setting.registry(), *parts, signals=signals, env=env)
        self.ledger.look = self._look
        self.kernel.boot({SlotGone: (lambda gone: None,)})
        await self.kernel.remote.open(None)

    def _logged(self, event: str, **fields: object) -> None:
        if event == "something could not be recorded":
            self._world.broken(f"{event}: {fields}")

    def _crash(self) -> None:
        raise Crash

    def _look(self) -> None:
        self._world.looks += 1
        for what in self._looks(self.state):
            self._world.broken(what)

    @property
    def state(self) -> State:
        return self.kernel.state

    def replayed(self) -> State:
        """What a replay of every record that has a place comes to, whatever the limits of the boot are."""
        state = make_state()

        def take(record: Record) -> None:
            replay_into(state, record)

        self.ledger.replay(take)
        return state

    def now_s(self) -> float:
        return self.loop.time()

    def run(self, work: Callable[[], None]) -> None:
        """Do something on the loop."""

        async def done() -> None:
            work()

        self.loop.do(done())


def _fault_of(context: dict[str, Any]) -> str:
    error = context.get("exception")
    return f"the loop was told: {context.get('message')}: {type(error).__name__}: {error}"
