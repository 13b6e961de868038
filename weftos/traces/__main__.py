"""The tracer: a helper process that takes traces of turns and brings them where the configuration says. Wiring only.

It holds no key, and has what it is handed alone. One request at a time, ``export`` with ``traces``: ``[TRACE,
CONTENT]``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernel.helper.helper import die_with_parent, serve_link
from kernel.shapes import read
from kernel.slices.feed.agent_trace import AgentTrace
from weftos.traces.sinks import FileSink, OtlpSink, Sink, SinkError

NICE = 5
MEMORY_BYTES = 2**30


class Tracer:
    """Takes requests."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    async def handle(self, op: str, args: dict[str, Any]) -> dict[str, Any]:
        """Raises SinkError, ValueError."""
        if op != "export":
            raise ValueError(f"no operation {op!r}")
        traces = [(read(AgentTrace, trace), content) for trace, content in args["traces"]]
        await asyncio.get_running_loop().run_in_executor(None, self._sink.take, traces)
        return {}


class Without:
    """In place of a sink that cannot be had: says why."""

    def __init__(self, why: str) -> None:
        self._why = why

    def take(self, traces: Sequence[Any]) -> None:
        raise SinkError(self._why)


def _sink(arguments: argparse.Namespace) -> Sink:
    try:
        if arguments.export == "file":
            return FileSink(arguments.file)
        return OtlpSink(
            arguments.endpoint, {"service.name": "weftos", "service.instance.id": arguments.origin}
        )
    except (SinkError, OSError, ValueError) as error:
        return Without(str(error))


def main(argv: Sequence[str] | None = None) -> int:
    """The whole life of the process; its exit status."""
    parser = argparse.ArgumentParser(prog="weftos.traces")
    parser.add_argument("--export", choices=("file", "otlp"), required=True)
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--endpoint", default="")
    parser.add_argument("--origin", default="")
    parser.add_argument("--link-fd", type=int, required=True)
    parser.add_argument("--boot", type=int, required=True)
    arguments = parser.parse_args(argv)
    die_with_parent()
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    asyncio.run(_serve(arguments))
    return 0


async def _serve(arguments: argparse.Namespace) -> None:
    """Serve one link until its end; a server that does not answer is not waited for."""
    await serve_link(arguments.link_fd, arguments.boot, Tracer(_sink(arguments)).handle)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
