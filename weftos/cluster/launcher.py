"""The launcher of a cluster: ``python -P -m weftos.cluster.launcher --data DIR --nodes N --engine E [--ready-fd F]``.

Started by ``weftos cluster up`` as the leader of a session of its own. It owns the one Ray that the nodes share, and
starts the nodes, which lead sessions of their own: one that dies leaves the others as they are, and is started again
by the next ``cluster up``. When Ray dies it is started again at the same address. SIGTERM stops the nodes, then Ray.

Says on the ready descriptor what it is doing, as a node does (:mod:`weftos.node`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from chain.errors import ChainError
from kernel.cells.engines.engine import EngineError
from kernel.cells.engines.engine_ray import TOKEN_FILE, RayEngine
from kernel.errors import KernelError
from kernel.helper.offspring import OFFSPRING, become_subreaper, end_offspring, reap_adopted
from kernel.helper.os_session import end_old_session, lock, read_boot, write_boot
from mesh.errors import MeshError
from weftos.cluster.cluster import (
    EngineName,
    Plan,
    PlannedNode,
    introduce,
    load_plan,
    make_plan,
    node_places,
    save_plan,
)
from weftos.errors import WeftosError
from weftos.helpers.commands import placer_command
from weftos.lifecycle.launch import node_command
from weftos.lifecycle.stopping import STOP_TIMEOUT_S, stop_node
from weftos.node.runtime import make_runtime, remove_recorded
from weftos.ownership import check_own_place, make_own_ground
from weftos.sealed_environment import Handover, open_part, seal, take_environment

Say = Callable[[dict[str, Any]], None]
RAY_RESTART_S = 1.0


@dataclass(frozen=True, slots=True)
class Order:
    """What ``weftos cluster up`` was told."""

    data: Path
    nodes: int
    engine: EngineName


class SharedRayOwner:
    """The Ray that the nodes attach to: a placer that starts no cell. Started again when it dies."""

    def __init__(self, runtime: Path, logs: Path, boot: int, port: int) -> None:
        command = placer_command(runtime, logs)
        command = replace(command, env={**command.env, "RAY_GCS_SERVER_PORT": str(port)})
        self._engine = RayEngine(command, boot, {}, runtime)
        self._again: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Raises EngineError."""
        await self._engine.open(self._lost, lambda cell, why, used_ms: None)

    def _lost(self, why: str) -> None:
        print(f"launcher: Ray has ended ({why}) and is started again", file=sys.stderr, flush=True)
        self._again = asyncio.ensure_future(self._reopen())

    async def _reopen(self) -> None:
        while True:
            try:
                await self.open()
                return
            except EngineError as error:
                print(f"launcher: {error}", file=sys.stderr, flush=True)
                await asyncio.sleep(RAY_RESTART_S)

    async def close(self) -> None:
        if self._again is not None:
            self._again.cancel()
        await self._engine.close()


class Launcher:
    """One cluster from its start to its end."""

    def __init__(self, order: Order, environment: Mapping[str, str], say: Say) -> None:
        self._order = order
        self._environment = environment
        self._say = say
        self._data = order.data
        self._logs = order.data / "logs"
        self._runtime: Path | None = None
        self._ray: SharedRayOwner | None = None
        self._children: list[asyncio.subprocess.Process] = []

    def step(self, text: str) -> None:
        self._say({"step": text})

    async def run(self) -> None:
        """Boot, say that all are ready, serve until asked to stop. Raises what a boot raises; then nothing is left."""
        make_own_ground(self._data)
        if (self._data / "format").exists():
            raise WeftosError(f"{self._data} is a node's data directory: a cluster needs its own", "conflict")
        check_own_place(self._data)
        held = lock(self._data, runs=True)
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        reaping = asyncio.ensure_future(reap_adopted())
        try:
            boot = asyncio.ensure_future(self._boot())
            stopped = asyncio.ensure_future(stop.wait())
            await asyncio.wait((boot, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not boot.done():
                boot.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await boot
                self._say({"ready": True, "data": str(self._data), "os_pid": os.getpid()})
                await stopped
        finally:
            await self._end()
            reaping.cancel()
            held.close()

    async def _boot(self) -> None:
        before = load_plan(self._data)
        if before is not None:
            save_plan(replace(before, launcher=0))  # whoever reads it knows that this run is not ready
        await self._end_what_was_left()
        self._logs.mkdir(mode=0o700, exist_ok=True)
        runtime = self._runtime = make_runtime(self._data)
        boot = secrets.randbits(63)
        write_boot(self._data, boot, runtime)
        plan = make_plan(self._data, self._order.nodes, self._order.engine, before)
        self.step(f"introducing {len(plan.nodes)} nodes to each other")
        await asyncio.to_thread(introduce, plan)
        if plan.engine == "ray":
            self.step("starting the Ray that they share")
            self._ray = SharedRayOwner(runtime, self._logs, boot, plan.ray_port)
            await self._ray.open()
            plan = replace(plan, ray_token=str(runtime / TOKEN_FILE))
        save_plan(plan)
        self.step("starting the nodes")
        outcomes = await asyncio.gather(
            *(self._start(plan, node) for node in plan.nodes), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        save_plan(replace(plan, launcher=os.getpid()))

    async def _end_what_was_left(self) -> None:
        """A launcher that died has left its session, and the nodes it had started."""
        before = read_boot(self._data)
        killed = end_old_session(self._data)
        if before is not None and not remove_recorded(Path(before.runtime), self._data):
            self.step(f"somebody else has made {before.runtime} since: left alone")
        answers = await asyncio.gather(
            *(asyncio.to_thread(stop_node, place) for place in node_places(self._data))
        )
        running = sum(answer["was_running"] for answer in answers)
        if killed or running:
            self.step(f"ended {running} nodes and {killed} other processes of the last run")

    async def _start(self, plan: Plan, node: PlannedNode) -> None:
        """Start one node and wait until it is ready. Raises WeftosError."""
        place = plan.place(node)
        ready, theirs = os.pipe()
        handover = Handover(self._environment)
        try:
            log = os.open(place / "logs" / "node.out", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                with OFFSPRING.birth() as born:
                    process = await asyncio.create_subprocess_exec(
                        *node_command(place, plan.flags(node)),
                        "--ready-fd",
                        str(theirs),
                        "--environment-fd",
                        str(handover.fd),
                        cwd=place,
                        env=open_part(os.environ),  # without the mark of this session: it is not of it
                        stdin=asyncio.subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        pass_fds=(theirs, handover.fd),
                        start_new_session=True,
                    )
                    born(process.pid)
            finally:
                os.close(log)
        except BaseException:
            os.close(ready)
            handover.close()
            raise
        finally:
            os.close(theirs)
        handover.begin()
        self._children.append(process)
        await self._until_ready(node.name, ready, place)
        self.step(f"{node.name} is ready")

    async def _until_ready(self, name: str, ready: int, place: Path) -> None:
        lines = asyncio.StreamReader()
        pipe = os.fdopen(ready, "rb", 0)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(lines), pipe
        )
        try:
            while line := await lines.readline():
                document = json.loads(line)
                if document.get("ready"):
                    return
                if "error" in document:
                    raise WeftosError(f"{name}: {document['error']}", str(document.get("code", "error")))
        finally:
            transport.close()
        raise WeftosError(f"{name} ended before it was ready; look at {place / 'logs' / 'node.out'}")

    async def _end(self) -> None:
        """Stop the nodes, then Ray; remove the runtime directory."""
        places = node_places(self._data)
        await asyncio.gather(
            *(asyncio.to_thread(stop_node, place) for place in places), return_exceptions=True
        )
        await asyncio.gather(*(_wait_for_end(child) for child in self._children))
        if self._ray is not None:
            await self._ray.close()
        if self._runtime is not None:
            shutil.rmtree(self._runtime, ignore_errors=True)


async def _wait_for_end(child: asyncio.subprocess.Process) -> None:
    """A node that was stopped, or is so young that it had no data directory to be found by."""
    try:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
        await asyncio.wait_for(child.wait(), STOP_TIMEOUT_S)
    except TimeoutError:
        child.kill()
        await child.wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Run a cluster. Exit status 1 with the error on the ready descriptor when it cannot boot."""
    parser = argparse.ArgumentParser(prog="weftos.cluster.launcher")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--engine", choices=("ray", "local"), default="ray")
    parser.add_argument("--ready-fd", type=int, default=1)
    parser.add_argument("--environment-fd", type=int)
    args = parser.parse_args(argv)
    os.umask(0o077)

    def say(document: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # whoever started the cluster may have gone; the cluster stays
            os.write(args.ready_fd, json.dumps(document).encode() + b"\n")

    try:
        environment = take_environment(seal(args.environment_fd))
        become_subreaper()
        os.set_inheritable(args.ready_fd, False)
        order = Order(args.data.absolute(), args.nodes, args.engine)
        try:
            asyncio.run(Launcher(order, environment, say).run())
        finally:
            end_offspring()
    except (WeftosError, KernelError, ChainError, MeshError) as error:
        say({"error": str(error), "code": getattr(error, "code", "conflict")})
        return 1
    except OSError as error:
        say({"error": f"the cluster cannot boot: {error}", "code": "unavailable"})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
