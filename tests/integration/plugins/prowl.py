"""What hostile code does in a worker or a cell: it looks for a key in everything /proc shows it of other processes."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

OPENED = ("environ", "mem", "maps", "fd")


def prowl(yek: str, closed: list[int]) -> dict[str, list[str]]:
    """``found``: where the key (given backwards, so that the asking is not found) stands; ``opened``: what of the
    processes ``closed`` could be opened."""
    told: dict[str, list[str]] = {"found": [], "opened": []}
    for place in (Path("/proc", name) for name in os.listdir("/proc") if name.isdigit()):
        _look_for(yek[::-1].encode(), place, told["found"])
    for pid in closed:
        told["opened"] += [f"{name} of {pid}" for name in OPENED if _opens(Path(f"/proc/{pid}/{name}"))]
    return told


def besiege(victim: int, stop: str) -> dict[str, list[str]]:
    """Kill ``victim``; then try to open whatever is new, from its first moment on; at last when ``stop`` is there.

    By pid, of each process that was seen: what of it could be opened. Who may open its ``mem`` may trace it too.
    """
    old = _pids()
    opened: dict[str, set[str]] = {}
    os.kill(victim, signal.SIGKILL)
    over = False
    while not over:
        over = os.path.exists(stop)  # looked for first: who was there then is among what is tried after it
        for pid in _pids() - old:
            found = opened.setdefault(str(pid), set())
            found |= {name for name in OPENED if name not in found and _opens(Path(f"/proc/{pid}/{name}"))}
    return {pid: sorted(names) for pid, names in opened.items()}


def _pids() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def _look_for(key: bytes, place: Path, found: list[str]) -> None:
    for name in ("cmdline", "environ"):
        with contextlib.suppress(OSError):
            if key in (place / name).read_bytes():
                found.append(f"{place / name} of {(place / 'comm').read_text().strip()}")
    with contextlib.suppress(OSError):
        for fd in (place / "fd").iterdir():
            target = os.readlink(fd)
            if target.startswith(("/memfd:", "pipe:")) and key in _peek(fd):
                found.append(f"{fd} to {target}")


def _peek(fd: Path) -> bytes:
    try:
        handle = os.open(fd, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        return os.pread(handle, 2**20, 0)  # a pipe refuses: what is in it is somebody's
    except OSError:
        return b""
    finally:
        os.close(handle)


def _opens(path: Path) -> bool:
    try:
        if path.name == "fd":
            return any(os.readlink(path / name) for name in os.listdir(path))
        with open(path, "rb") as file:
            return path.name == "mem" or bool(file.read(1))
    except OSError:
        return False


def daemonise() -> int:
    """Start a process that leaves its session, its parents and its descriptors, and lives long; its pid."""
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        if daemon := os.fork():
            os.write(tell, str(daemon).encode())
            os._exit(0)
        os.closerange(0, 4096)
        os.execv("/bin/sleep", ["sleep", "600"])
    os.waitpid(child, 0)
    os.close(tell)
    try:
        return int(os.read(told, 32))
    finally:
        os.close(told)
