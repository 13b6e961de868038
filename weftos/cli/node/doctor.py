"""The command doctor: what a node needs of this machine and of its data directory, checked one by one."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import typer

from weftos.cli.node.checks import Check, clock, compiler, ledger_tail, ports, providers, version
from weftos.cli.terminal.options import AsJson, Command, Data
from weftos.cli.terminal.output import Output
from weftos.node.runtime import MAX_SOCKET_PATH, longest_socket
from weftos.paths import data_directory, has_data, runtime_home

_IMPORT_TIMEOUT_S = 120
_FREE_FAIL_BYTES = 100 * 2**20
_FREE_WARN_BYTES = 2 * 2**30


def doctor(data: Data = None, as_json: AsJson = False) -> None:
    """Check this machine and the data directory.

    Each is ok, a warning or a failure, with what to do; also while no node runs. Exits 1 when one fails.
    """
    out = Output(as_json)
    place = data_directory(data)
    results = []
    for check in CHECKS:
        with out.waiting(f"checking {check.__name__.strip('_').replace('_', ' ')}"):
            results.append(check(place))
    out.document({"data": str(place), "checks": [asdict(result) for result in results]})
    out.table(
        ("CHECK", "STATUS", "DETAIL"), ([result.name, result.status, result.detail] for result in results)
    )
    for result in results:
        if result.status != "ok" and result.remedy:
            out.say(f"{result.name}: {result.remedy}")
    if any(result.status == "fail" for result in results):
        raise typer.Exit(1)


def _python(place: Path) -> Check:
    found = ".".join(str(part) for part in sys.version_info[:3])
    if not (3, 11) <= sys.version_info < (3, 15):
        return Check("python", "fail", found, "install weftos under Python 3.11 to 3.14")
    return Check("python", "ok", found)


def _ray(place: Path) -> Check:
    return _imports("ray", "weftos up --engine local works without it; reinstall weftos to have it")


def _duckdb(place: Path) -> Check:
    return _imports("duckdb", "without it there is no archive; reinstall weftos to have it")


def _imports(module: str, remedy: str) -> Check:
    """Imported by a process of its own: neither may ever be loaded into this one."""
    code = f"import {module}; print({module}.__version__)"
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_IMPORT_TIMEOUT_S,
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
        )
    except subprocess.TimeoutExpired:
        return Check(module, "fail", f"importing it takes over {_IMPORT_TIMEOUT_S} s", remedy)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return Check(module, "fail", last, remedy)
    return Check(module, "ok", done.stdout.strip().splitlines()[-1])


def _directory(place: Path) -> Check:
    from weftos.errors import WeftosError, reason

    try:
        whole = has_data(place)
    except (WeftosError, OSError) as error:
        return Check("data", "fail", reason(error), "give the right directory with --data")
    if not whole:
        return Check(
            "data", "warn", f"{place} is not a data directory yet", "weftos init or weftos up makes it"
        )
    status = place.stat()
    if status.st_uid != os.getuid():
        return Check(
            "data",
            "fail",
            f"{place} belongs to user {status.st_uid}, you are {os.getuid()}",
            "run as its owner",
        )
    if (mode := stat.S_IMODE(status.st_mode)) & 0o077:
        return Check("data", "fail", f"{place} has mode {mode:04o}, others can look in", f"chmod 700 {place}")
    return Check("data", "ok", str(place))


def _nearest(place: Path) -> Path:
    """The directory, or the first above it that exists."""
    return next(folder for folder in (place, *place.parents) if folder.is_dir())


def _disk(place: Path) -> Check:
    from weftos.ownership import way_fault

    folder = _nearest(place)
    if fault := way_fault(place / "file"):
        return Check(
            "disk", "warn", f"not tried: {fault}", "nothing is written where others decide what lies"
        )
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(b"weftos")
            file.flush()
            os.fsync(file.fileno())
            directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
    except OSError as error:
        return Check(
            "disk", "fail", f"{folder}: {error.strerror}", "choose a data directory on a local, writable disk"
        )
    return Check("disk", "ok", f"{folder} takes writes and syncs")


def _space(place: Path) -> Check:
    free = shutil.disk_usage(_nearest(place)).free
    detail = f"{free / 2**30:.1f} GiB free"
    if free < _FREE_FAIL_BYTES:
        return Check("space", "fail", detail, "make room: a node without disk is read-only")
    if free < _FREE_WARN_BYTES:
        return Check("space", "warn", detail, "make room soon: the ledger only grows")
    return Check("space", "ok", detail)


def _paths(place: Path) -> Check:
    length = longest_socket(place)
    detail = f"{runtime_home()}: longest socket path {length} of {MAX_SOCKET_PATH} bytes"
    if length > MAX_SOCKET_PATH:
        return Check("paths", "fail", detail, "set XDG_RUNTIME_DIR to a shorter directory, or unset it")
    return Check("paths", "ok", detail)


def _keys(place: Path) -> Check:
    from chain.errors import ChainError
    from chain.keys.keys import load_keys

    if not (place / "format").exists():
        return Check("keys", "warn", "none yet", "weftos init or weftos up makes them")
    try:
        return Check("keys", "ok", load_keys(place / "keys").origin)
    except ChainError as error:
        return Check(
            "keys",
            "fail",
            str(error),
            "see the words of the error; keys are never made anew for existing data",
        )


def _last_run(place: Path) -> Check:
    from kernel.errors import LockedError, SessionError
    from kernel.helper.os_session import lock, read_boot, session_members
    from weftos.errors import WeftosError
    from weftos.ownership import check_own_directory

    if not (place / "format").exists():
        return Check("last run", "ok", "none")
    try:
        check_own_directory(place)
        lock(place).close()
        record = read_boot(place)
    except LockedError as error:
        if not error.runs:
            return Check("last run", "warn", str(error))
        return Check("last run", "ok", f"a node is running, process {error.pid or 'not known'}")
    except (SessionError, WeftosError) as error:
        return Check("last run", "fail", str(error))
    left = session_members(record.session_leader) if record and record.session_leader else []
    if left:
        detail = f"{len(left)} processes of an earlier node may still be there"
        return Check(
            "last run", "warn", detail, f"weftos down --data {place} ends them, and so does weftos up"
        )
    return Check("last run", "ok", "nothing is left of it")


def _faults(place: Path) -> Check:
    from weftos.client.client import Client
    from weftos.errors import WeftosError

    try:
        with Client(place) as node:
            found = node.status()["faults"]
    except WeftosError as error:
        if error.code == "not_running":
            return Check("faults", "ok", "none is known while no node runs")
        return Check("faults", "warn", f"the node does not say: {error}")
    return Check("faults", "warn" if found else "ok", "; ".join(found) or "the running node has none")


def _agreement(place: Path) -> Check:
    from weftos.client.client import Client
    from weftos.errors import WeftosError

    try:
        with Client(place) as node:
            found = node.check()["differences"]
    except WeftosError as error:
        if error.code == "not_running":
            return Check("agreement", "ok", "nothing to compare while no node runs")
        return Check("agreement", "warn", f"the node does not say: {error}")
    if found:
        remedy = "the node repairs this by itself, within node.reconcile_s, and records it (node.reconciled)"
        return Check("agreement", "warn", "; ".join(one["why"] for one in found[:16]), remedy)
    return Check("agreement", "ok", "table, cells and processes agree")


def _configuration(place: Path) -> Check:
    from weftos.config.config import ConfigError, load
    from weftos.node.protected import others_faults

    try:
        loaded = load(place, environment=os.environ)
    except ConfigError as error:
        return Check("configuration", "fail", str(error), "weftos config validate FILE checks a file")
    if faults := others_faults(loaded, None, os.environ):
        return Check(
            "configuration",
            "fail",
            "; ".join(faults),
            "see what others may have put there, then make it yours or root's alone to write, or give another place",
        )
    return Check("configuration", "ok", str(loaded.file or "defaults"))


CHECKS: tuple[Callable[[Path], Check], ...] = (
    _python,
    _ray,
    _duckdb,
    version,
    compiler,
    _directory,
    _disk,
    _space,
    _paths,
    _keys,
    ledger_tail,
    clock,
    _last_run,
    _configuration,
    providers,
    ports,
    _faults,
    _agreement,
)


COMMANDS: tuple[Command, ...] = (doctor,)
