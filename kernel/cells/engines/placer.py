"""The placer: the Ray driver, a helper process of the node.

``python -P -m kernel.cells.engines.placer --link-fd N --boot B``.

It starts and kills cells and tells of their end; it holds no key and no policy, and speaks frames with the
node, never pickle. Ray lives and dies with it: a thread holds a pidfd on the node and on each of Ray's
processes, and when one of them ends, the placer ends the others and itself at once. The node takes that for
what it is, the end of all its cells.

In a Ray cluster that is there already (``attach``) it is one driver among others. Its actors have names, in a
namespace that is the node's alone; those that an earlier placer has left there are killed, and no others are touched.
Ray ends them too, once it misses their driver; and each ends by itself, having lost its link or its lease.

Requests: ``open`` or ``attach``, then ``start`` and ``census``. Notices: ``kill`` from the node, ``exit`` to it. Their
shapes stand in :mod:`kernel.cells.engine_ray`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import secrets
import select
import shutil
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from chain.in_thread import in_thread
from kernel.cell.actor import CellActor
from kernel.cells.engines.engine import Census
from kernel.cells.engines.engine_ray import (
    TOKEN_FILE,
    AttachRay,
    CellExit,
    KillCell,
    OpenRay,
    RayFacts,
    StartCell,
)
from kernel.helper.helper import serve_link
from kernel.helper.os_processes import descendants, kill_all, read_processes, stop_all
from kernel.shapes import read, told

_END_S = 3.0
_READY_S = 6.0
_BIRTHS_S = 0.02
_TOKEN_S = 0.5
_SERVERS = frozenset({"gcs_server", "raylet"})


class Lifeline(threading.Thread):
    """Ends this process and everything below it as soon as one of the watched processes has ended."""

    def __init__(self) -> None:
        super().__init__(name="lifeline", daemon=True)
        self._epoll = select.epoll()
        self._names: dict[int, str] = {}

    def watch(self, name: str, pid: int) -> None:
        """Raises ProcessLookupError when it has ended already."""
        handle = os.pidfd_open(pid)
        self._names[handle] = name
        self._epoll.register(handle, select.EPOLLIN)

    def run(self) -> None:
        (handle, _), *_ = self._epoll.poll()
        with contextlib.suppress(OSError):  # whoever took its words may be what has ended
            print(
                f"placer: {self._names[handle]} has ended, so does this placer", file=sys.stderr, flush=True
            )
        end_everything(1)


class Births(threading.Thread):
    """Puts Ray's own servers on the lifeline as they appear, while ``ray.init`` blocks the main thread.

    Ray itself takes half a minute to notice that one of them died while it started. What else Ray runs for a moment
    at its start may end as it likes.
    """

    def __init__(self, lifeline: Lifeline) -> None:
        super().__init__(name="births", daemon=True)
        self._lifeline = lifeline
        self._over = threading.Event()
        self.seen: set[int] = set()

    def run(self) -> None:
        while not self._over.wait(_BIRTHS_S):
            for pid in _children():
                if pid not in self.seen and _command(pid) in _SERVERS:
                    with contextlib.suppress(ProcessLookupError):
                        self._lifeline.watch(f"Ray's {_command(pid)}, process {pid},", pid)
                        self.seen.add(pid)

    def stop(self) -> None:
        self._over.set()
        self.join()


def _children() -> set[int]:
    """The direct children of this process (proc(5), children), cheap enough to be asked often."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found.update(map(int, (task / "children").read_text().split()))
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def end_everything(status: int) -> None:
    """SIGKILL all that runs below this process, then leave it."""
    deadline = time.monotonic() + _END_S
    kill_all(stop_all(lambda: descendants(read_processes(), os.getpid()), (), deadline), deadline)
    os._exit(status)


def set_environment(token: Path, loopback: bool) -> None:
    """Ray's environment, before it is imported."""
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_USE_UVLOOP": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_gcs_rpc_server_reconnect_timeout_s": "3",
        "RAY_ROTATION_MAX_BYTES": str(4 * 2**20),  # of what a cell prints; without it Ray keeps all
        "RAY_ROTATION_BACKUP_COUNT": "1",
    }
    if loopback:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # else it listens on all interfaces


def prepare(runtime: Path) -> Path:
    """A token for a Ray of our own, whose file is returned; what an earlier placer left there is removed."""
    shutil.rmtree(runtime / "ray", ignore_errors=True)
    token = runtime / TOKEN_FILE
    token.unlink(missing_ok=True)
    with open(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    return token


class Placer:
    """``handle`` serves the node's requests, on the main thread as Ray demands."""

    def __init__(self, boot: int, lifeline: Lifeline) -> None:
        self._boot = boot
        self._lifeline = lifeline
        self._dial: dict[str, Any] = {}
        self._actor_class: Any = None
        self._shared = False
        self._ray: Any = None
        self._actors: dict[str, Any] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self._notify: Callable[[str, dict[str, Any]], None] = lambda op, args: None

    def opened(self, notify: Callable[[str, dict[str, Any]], None]) -> None:
        self._notify = notify

    async def handle(self, op: str, args: dict[str, Any]) -> Any:
        match op:
            case "open":
                return told(self._open(read(OpenRay, args)))
            case "attach":
                return told(self._attach(read(AttachRay, args)))
            case "start":
                return self._start(read(StartCell, args))
            case "kill":
                return self._kill(read(KillCell, args).cell)
            case "census":
                return told(await self._census())
        raise ValueError(f"the placer knows no {op!r}")

    def _open(self, asked: OpenRay) -> RayFacts:
        runtime = Path(asked.runtime)
        set_environment(prepare(runtime), loopback=True)
        import ray

        births = Births(self._lifeline)
        births.start()
        ray.init(
            num_cpus=min(4, os.cpu_count() or 1),  # cells ask for none: this is how many may start at once
            include_dashboard=False,
            object_store_memory=asked.object_store_bytes,
            log_to_driver=False,
            logging_level=logging.ERROR,
            namespace=f"weftos-{self._boot:016x}",
            _temp_dir=str(runtime / "ray"),
        )
        births.stop()
        self._connected(ray, asked.dial)
        children = sorted(_children())
        for pid in children:
            if pid not in births.seen:
                self._lifeline.watch(f"Ray's process {pid}", pid)
        return self._facts(children)

    def _attach(self, asked: AttachRay) -> RayFacts:
        token = Path(asked.token)
        secret = token.read_bytes()  # Ray says less of a file that it cannot read
        set_environment(token, asked.loopback)
        os.environ["RAY_NUM_REDIS_GET_RETRIES"] = "10"  # seconds; the node tries again by itself
        import ray

        ray.init(
            address=asked.address,
            log_to_driver=False,
            logging_level=logging.ERROR,
            namespace=asked.namespace,
        )
        self._shared = True
        self._keep(self._watch_token(token, secret))
        self._connected(ray, asked.dial)
        for name in ray.util.list_named_actors():
            with contextlib.suppress(ValueError):  # it has ended meanwhile
                ray.kill(ray.get_actor(name), no_restart=True)
        return self._facts([])

    def _connected(self, ray: Any, dial: dict[str, Any]) -> None:
        self._ray = ray
        self._dial = dial
        # A cell's process is its own: no restart by Ray, whose way back takes 1.5 s; the node places anew.
        self._actor_class = ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)(CellActor)

    def _facts(self, os_pids: Sequence[int]) -> RayFacts:
        address = self._ray.get_runtime_context().gcs_address
        return RayFacts(self._ray.__version__, address, tuple(os_pids))

    def _start(self, asked: StartCell) -> None:
        self._keep(self._run(asked.cell, asked.token))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    async def _run(self, cell: str, token: str) -> None:
        """Start an actor, tell of its end."""
        why = "it returned"
        try:
            actor = self._actors[cell] = self._made(cell, 1)
            if self._shared:
                actor = await self._answering(cell, actor)
            if self._is_wanted(cell, actor):
                await actor.join.remote(self._dial, token, self._boot)
        except Exception as error:  # whatever Ray reports, it is the end of this cell and of nothing else
            why = type(error).__name__
        self._actors.pop(cell, None)
        self._notify("exit", told(CellExit(cell, why)))

    async def _watch_token(self, token: Path, secret: bytes) -> None:
        """A Ray that was started anew has another token. This driver would go on with the old one, in vain: it ends,
        and the node's next placer attaches to what is there now.
        """
        while True:
            await asyncio.sleep(_TOKEN_S)
            with contextlib.suppress(OSError):
                if token.read_bytes() != secret:
                    print(
                        "placer: the shared Ray was started anew, so this placer ends",
                        file=sys.stderr,
                        flush=True,
                    )
                    end_everything(1)

    async def _answering(self, cell: str, actor: Any) -> Any:
        """An actor that answers. Ray goes on for some 12 s to place actors on a machine that has just died, so one
        that is silent is given up for another, until the node has had enough of it and kills the cell.
        """
        attempt = 1
        while self._is_wanted(cell, actor):
            try:
                await asyncio.wait_for(actor.ready.remote(), _READY_S * attempt)
                break
            except (TimeoutError, self._ray.exceptions.RayError):
                self._ray.kill(actor, no_restart=True)
                if self._is_wanted(cell, actor):
                    attempt += 1
                    actor = self._actors[cell] = self._made(cell, attempt)
        return actor

    def _is_wanted(self, cell: str, actor: Any) -> bool:
        """Whether the node has not killed the cell meanwhile."""
        return self._actors.get(cell) is actor

    def _made(self, cell: str, attempt: int) -> Any:
        if not self._shared:
            return self._actor_class.remote()
        name = f"{self._boot:016x}-{cell}-{attempt}"
        return self._actor_class.options(name=name, scheduling_strategy="SPREAD").remote()

    async def _census(self) -> Census:
        """Actors of a shared Ray have names there; in a Ray of its own all are known."""
        names = await in_thread(self._ray.util.list_named_actors) if self._shared else []
        own = f"{self._boot:016x}-"
        strays = [
            name
            for name in names
            if not name.startswith(own) or name.removeprefix(own).rpartition("-")[0] not in self._actors
        ]
        return Census(tuple(self._actors), tuple(strays))

    def _kill(self, cell: str) -> None:
        actor = self._actors.pop(cell, None)
        if actor is None and self._shared:
            with contextlib.suppress(ValueError):  # it has ended already
                actor = self._ray.get_actor(cell)
        if actor is not None:
            self._ray.kill(actor, no_restart=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--link-fd", type=int, required=True)
    parser.add_argument("--boot", type=int, required=True)
    options = parser.parse_args()
    lifeline = Lifeline()
    lifeline.watch("the node", os.getppid())
    lifeline.start()
    placer = Placer(options.boot, lifeline)
    asyncio.run(serve_link(options.link_fd, options.boot, placer.handle, placer.opened))
    end_everything(0)


if __name__ == "__main__":
    main()
