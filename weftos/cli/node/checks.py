"""What ``weftos doctor`` checks of the ledger, the clock, the ports and the versions, with a node and without."""

from __future__ import annotations

import os
import shutil
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from weftos import __version__
from weftos.config.presets import PRESETS, address

_EARLIEST_S = 1_735_689_600  # 2025: before this was written
_AHEAD_WARN_S = 2.0
_MONTH_S = 30 * 86_400
_CONNECT_S = 1.0


@dataclass(frozen=True, slots=True)
class Check:
    """One result. ``remedy`` says what to do when it is not ok."""

    name: str
    status: Literal["ok", "warn", "fail"]
    detail: str
    remedy: str = ""


def providers(place: Path) -> Check:
    """Which models can be asked with nothing configured. Names of variables are told, never what they hold."""
    found, amiss = [], []
    for name, preset in PRESETS.items():
        url = address(name, os.environ)
        if url is None:
            amiss.append(f"{preset.address} is no address of a server")
        elif preset.key:
            has = bool(os.environ.get(preset.key, "").strip())
            found.append(f"{name}: {preset.key} is set" if has else f"{name}: {preset.key} is not set")
        else:
            place_ = f"at {preset.address}" if os.environ.get(preset.address) else f"at {preset.base_url}"
            found.append(f"{name}: {'answers' if _takes_calls(url) else 'nobody answers'} {place_}")
    detail = "; ".join([*found, *amiss])
    if amiss:
        return Check("providers", "warn", detail, "set it anew, or unset it: such a provider is left out")
    return Check("providers", "ok", detail)


def _takes_calls(url: str) -> bool:
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), timeout=_CONNECT_S).close()
    except (OSError, UnicodeError):
        return False
    return True


def ledger_tail(place: Path) -> Check:
    """The end of the ledger can be read, and is signed."""
    from chain.errors import ChainError
    from weftos.audit.tail import read_tail
    from weftos.errors import WeftosError, reason

    if not (place / "journal").is_dir():
        return Check("ledger", "ok", "none yet")
    try:
        tail = read_tail(place)
    except (ChainError, WeftosError, OSError) as error:
        remedy = "weftos chain verify says what is damaged; keep a copy of the directory before anything else"
        return Check("ledger", "fail", reason(error), remedy)
    detail = f"{tail.entries} entries, {tail.signed} under a signed head, {tail.full} under one of both keys"
    if tail.torn_bytes:
        detail += (
            f"; {tail.torn_bytes} bytes at the end were never acknowledged, and the next start cuts them off"
        )
    return Check("ledger", "ok", detail)


def clock(place: Path) -> Check:
    """The machine's clock is possible, not behind the ledger, and not far from the node's."""
    from chain.errors import ChainError
    from weftos.audit.tail import read_tail
    from weftos.errors import WeftosError

    now_s = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(now_s))
    set_it = "set the machine's clock, best by a time server (timedatectl set-ntp true)"
    if now_s < _EARLIEST_S:
        return Check("clock", "fail", f"the machine says {shown}, which cannot be", set_it)
    try:
        last_s = read_tail(place).last_us / 1e6 if (place / "journal").is_dir() else 0.0
    except (ChainError, WeftosError, OSError):
        return Check("clock", "ok", f"{shown}; the ledger says no time to compare it with")
    behind_s = last_s - now_s
    if behind_s > _MONTH_S:
        detail = (
            f"{shown}, and the newest entry is {behind_s:.0f} s later: times never fall, so all bear that one"
        )
        return Check("clock", "fail", detail, set_it)
    if behind_s > _AHEAD_WARN_S:
        detail = f"{shown}, and the newest entry is {behind_s:.0f} s later: times wait until then"
        return Check("clock", "warn", detail, set_it)
    ahead_s = _ahead_s(place)
    if abs(ahead_s) > _AHEAD_WARN_S:
        detail = (
            f"{shown}, {ahead_s:+.0f} s from the running node's, which leans towards it and does not jump"
        )
        return Check("clock", "warn", detail, "it evens out, a tenth of the time that passes")
    return Check("clock", "ok", shown)


def _ahead_s(place: Path) -> float:
    from weftos.client.client import Client
    from weftos.errors import WeftosError

    try:
        with Client(place) as node:
            return node.status()["clock_ahead_s"]
    except WeftosError:
        return 0.0


def ports(place: Path) -> Check:
    """What is to be listened at is free, or the running node listens there."""
    from weftos.client.client import Client
    from weftos.config.config import ConfigError, load
    from weftos.errors import WeftosError
    from weftos.lifecycle.ports import address_of

    try:
        settings = load(place, environment=os.environ).settings
    except ConfigError:
        return Check("ports", "ok", "not known: see configuration")
    wanted = {"mesh.listen": settings.mesh.listen, "node.cells_listen": settings.node.cells_listen}
    named = {key: address_of(listen) for key, listen in wanted.items() if listen}
    chosen = {key: address for key, address in named.items() if address[1]}
    if not chosen:
        return Check("ports", "ok", "no port is named: only sockets of the directory's own are listened at")
    try:
        with Client(place) as node:
            os_pid = node.status()["os_pid"]
    except WeftosError as error:
        if error.code != "not_running":
            return Check("ports", "warn", f"the node does not say: {error}")
        os_pid = 0
    faults = [
        fault for key, (host, port) in chosen.items() if (fault := _port_fault(key, host, port, os_pid))
    ]
    if faults:
        remedy = "ss -ltnp shows who listens; end that, or name another port"
        return Check("ports", "fail", "; ".join(faults), remedy)
    listed = ", ".join(f"{host}:{port}" for host, port in chosen.values())
    return Check("ports", "ok", f"{listed}: {'the node listens' if os_pid else 'free'}")


def _port_fault(key: str, host: str, port: int, os_pid: int) -> str:
    """``os_pid`` of the running node, 0 for none."""
    from weftos.lifecycle.ports import bind_fault, listens

    if os_pid:
        return "" if listens(os_pid, port) else f"{key}: the running node does not listen at {host}:{port}"
    try:
        fault = bind_fault(host, port)
    except OSError as error:
        fault = str(error)
    return f"{key}: {host}:{port}: {fault}" if fault else ""


def version(place: Path) -> Check:
    """The running node is of the version that is installed."""
    from weftos.client.client import Client
    from weftos.errors import WeftosError

    try:
        with Client(place) as node:
            runs = node.status()["version"]
    except WeftosError:
        return Check("weftos", "ok", __version__)
    if runs != __version__:
        detail = f"{__version__} is installed, the node runs {runs}"
        return Check("weftos", "warn", detail, "weftos down, then weftos up, and it runs what is installed")
    return Check("weftos", "ok", __version__)


def compiler(place: Path) -> Check:
    """One that could build anew what is compiled at the installation."""
    wanted = os.environ.get("CXX", "g++")
    found = shutil.which(wanted)
    if found is None:
        return Check(
            "compiler",
            "warn",
            f"no {wanted} is found",
            "what is installed runs without; to install it anew, install g++, or name another one in CXX",
        )
    return Check("compiler", "ok", found)
