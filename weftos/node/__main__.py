"""The node process: ``python -P -m weftos.node --data DIR [--ready-fd N]`` and the options of ``weftos up``.

Started by ``weftos up`` as the leader of a session of its own, which hands over its environment, provider keys and
all, on ``--environment-fd`` (:mod:`weftos.sealed_environment`); before it takes them it forks the nursery of its
gateway (:mod:`kernel.helper.nursery`). Says on the ready descriptor, one JSON object a line, what it is doing
(``{"step": ...}``), and at the end ``{"ready": true, ...}`` or ``{"error": ..., "code": ...}``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel.helper.helper import HelperOver
from kernel.helper.nursery import Nursery
from kernel.helper.offspring import become_subreaper, end_offspring, reap_adopted
from kernel.helper.output_log import OUTPUT_LOGS
from weftos.errors import WeftosError
from weftos.sealed_environment import seal, take_environment

if TYPE_CHECKING:
    from weftos.node.boot import Node, Options

Say = Callable[[dict[str, Any]], None]


async def run(options: Options, nursery: Nursery, say: Say) -> None:
    """Boot, serve until asked to stop, stop cleanly."""
    from weftos.node.boot import start

    _keep_what_is_loaded()
    node: Node = await start(options, nursery, lambda step: say({"step": step}))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, node.stop, f"signal {signal.Signals(number).name}")
    loop.add_signal_handler(signal.SIGHUP, node.hang_up)
    say(node.ready())
    reaping = asyncio.create_task(reap_adopted())
    await node.stop.wanted()
    reaping.cancel()
    await node.close()


def _settle() -> None:
    """Set the interpreter for a process that serves: measured, a third less time for a tool call.

    The collector need not look at each few hundred new objects, during the boot neither: hardly any of ours are in
    circles. Nor may there be so many that a look holds the loop: measured while processes are made by the thousand, 20
    to 60 ms of processor time for 110,000; with these thresholds 5,000 come together before the collector puts them
    aside. A thread that waits for the interpreter, as the ledger's writer does several times a group, gets it in half a
    millisecond and not in five.
    """
    gc.set_threshold(5_000, 3, 600)
    sys.setswitchinterval(0.0005)


def _keep_what_is_loaded() -> None:
    """What was imported stays: the collector need not walk it."""
    gc.collect()
    gc.freeze()


def main(argv: Sequence[str] | None = None) -> int:
    """Run a node. Exit status 1 with the error on the ready descriptor when it cannot boot."""
    parser = argparse.ArgumentParser(prog="weftos.node")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--name")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--engine", choices=("ray", "local"))
    parser.add_argument("--ray-address")
    parser.add_argument("--ray-token", type=Path)
    parser.add_argument("--listen")
    parser.add_argument("--join")
    parser.add_argument("--token", type=Path)
    parser.add_argument("--accept-state")
    parser.add_argument("--app", type=Path, action="append", default=[])
    parser.add_argument("--ready-fd", type=int, default=1)
    parser.add_argument("--environment-fd", type=int)
    args = parser.parse_args(argv)
    ready_fd = args.__dict__.pop("ready_fd")
    os.umask(0o077)

    def say(document: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # whoever started the node may have gone; the node stays
            os.write(ready_fd, json.dumps(document).encode() + b"\n")

    try:
        environment_fd = seal(args.__dict__.pop("environment_fd"))
        nursery = Nursery.begin("gateway", "weftos.helpers.gateway")  # while there is nothing secret here
        environment = take_environment(environment_fd)
        os.set_inheritable(ready_fd, False)
        become_subreaper()
        return _run(vars(args), environment, nursery, say)
    except WeftosError as error:
        say({"error": str(error), "code": error.code})
    except OSError as error:
        say({"error": f"the node cannot boot: {error}", "code": "unavailable"})
    return 1


def _run(options: dict[str, Any], environment: dict[str, str], nursery: Nursery, say: Say) -> int:
    """Imports what a node is made of only now: a node that begins anew, to be without its environment, has not yet."""
    _settle()
    from chain.errors import ChainError
    from kernel.errors import KernelError
    from weftos.config.config_file import ConfigError
    from weftos.node.boot import Options

    try:
        try:
            asyncio.run(run(Options(**options, environment=environment), nursery, say))
        finally:
            gc.freeze()  # what is left goes with the process: to look at it would only take time
            end_offspring()
            OUTPUT_LOGS.drain()
    except (ConfigError, KernelError, ChainError) as error:
        say({"error": str(error), "code": getattr(error, "code", "conflict")})
        return 1
    except HelperOver as error:
        say({"error": str(error), "code": "unavailable"})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
