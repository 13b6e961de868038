"""How the helpers of a node are started: argv, an allow-listed environment, where their output goes.

Provider keys are in no environment and no argv. The gateway alone is told them, and is borne, not started
(:mod:`kernel.helper.nursery`).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from cognition.config.trace_config import TraceConfig
from kernel.bounds import STATE_LIMITS, Bounds
from kernel.helper.helper import HelperCommand
from kernel.helper.os_processes import SESSION_VARIABLE
from weftos.config.config import Config
from weftos.config.settings import LEXICAL
from weftos.helpers.compaction import Child

_FOR_PROGRAMS = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
PASSED_ON = (*_FOR_PROGRAMS, "SSL_CERT_FILE", "SSL_CERT_DIR", SESSION_VARIABLE)


def environment() -> dict[str, str]:
    """What is passed on of this process's environment: what everybody may have."""
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {**kept, "PYTHONUNBUFFERED": "1"}


def gateway_told(config: Config, keys: Mapping[str, str]) -> bytes:
    """What the gateway knows from its birth on."""
    return json.dumps({"config": config.settings.gateway(), "keys": dict(keys)}).encode()


def helper_command(name: str, module: str, runtime: Path, logs: Path, *arguments: str) -> HelperCommand:
    """A helper that is a module, with its log."""
    argv = (sys.executable, "-P", "-m", module, *arguments)
    return HelperCommand(name, argv, environment(), runtime, logs / f"{name}.log")


def archive_command(config: Config, data: Path, runtime: Path, logs: Path) -> HelperCommand:
    """The archive, told who makes its vectors; itself, when nobody is named."""
    memory, arguments = config.settings.memory, ["--data", str(data)]
    if memory.embedder != LEXICAL:
        model = memory.model or config.settings.providers[memory.embedder].model
        arguments += ["--embedder", memory.embedder, "--embedding-model", model]
        arguments += ["--embedding-dimensions", str(memory.dimensions)] if memory.dimensions else []
    return helper_command("archive", "weftos.archive", runtime, logs, *arguments)


def tracer_command(config: TraceConfig, data: Path, origin: str, runtime: Path, logs: Path) -> HelperCommand:
    """What brings traces where they should be."""
    place = str(data / "traces" / "turns.jsonl")
    arguments = ("--export", config.sink, "--file", place, "--endpoint", config.endpoint, "--origin", origin)
    return helper_command("tracer", "weftos.traces", runtime, logs, *arguments)


def compact_child(data: Path, runtime: Path, bounds: Bounds) -> Child:
    """What makes the snapshots."""
    argv = [sys.executable, "-P", "-m", "weftos.helpers.compact", "--data", str(data)]
    for name in STATE_LIMITS:
        argv += [f"--{name.replace('_', '-')}", str(getattr(bounds, name))]
    return Child(argv, environment(), runtime)


def selection_child(data: Path, runtime: Path) -> Child:
    """What finds the entries that an erasure means."""
    argv = (sys.executable, "-P", "-m", "weftos.upkeep.erase_selection", "--data", str(data))
    return Child(argv, environment(), runtime)


def placer_command(runtime: Path, logs: Path) -> HelperCommand:
    """The placer, which holds Ray."""
    return helper_command("placer", "kernel.cells.engines.placer", runtime, logs)
