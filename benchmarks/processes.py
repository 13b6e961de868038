"""What processes cost, as the kernel counts it: processor time, switches, and with ``strace`` system calls."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

_SENDS, _RECEIVES = ("sendto", "sendmsg", "write", "writev"), ("recvfrom", "recvmsg", "read")
_SYNCS = ("fdatasync", "io_submit")
_TRACED = ("epoll_wait", "futex", "pwrite64", *_SYNCS, *_SENDS, *_RECEIVES)
STRACE = shutil.which("strace")


def processor_s(pid: int) -> float:
    """Processor time of the threads that a process has, since each began."""
    return sum(int(text.split()[0]) for text in _of_threads(pid, "schedstat")) / 1e9


def voluntary_switches(pid: int) -> int:
    """How often the threads of a process have gone to sleep."""
    told = (text.partition("\nvoluntary_ctxt_switches:")[2] for text in _of_threads(pid, "status"))
    return sum(int(text.split()[0]) for text in told)


def held_bytes(pid: int) -> int:
    """Memory that a process holds, and its share of what it holds together with others; 0 for one that has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        told = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return 1024 * int(told.partition("\nPss:")[2].split()[0])
    return 0


def _of_threads(pid: int, name: str) -> Iterator[str]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            yield (task / name).read_text()


def system_calls(pid: int, work: Callable[[], object]) -> Counter[str]:
    """What a process calls while ``work`` runs: turns of its loop, futex calls, syncs, writes, sends, receives.

    A turn of the loop is an ``epoll_wait`` of the main thread. Raises RuntimeError when ``strace`` may not look.
    """
    with tempfile.NamedTemporaryFile(prefix="wb-strace-") as file:
        argv = [str(STRACE), "-f", "-p", str(pid), "-o", file.name, "-e", f"trace={','.join(_TRACED)}"]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            if "attached" not in (said := tracer.stderr.readline()):
                raise RuntimeError(said.strip() or "strace cannot trace here")
            work()
            tracer.send_signal(signal.SIGINT)
            tracer.stderr.read()
        return _counted(Path(file.name).read_text(errors="replace"), pid)


def _counted(lines: str, pid: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    for line in lines.splitlines():
        thread, _, rest = line.partition(" ")
        name = rest.strip().partition("(")[0]
        if name == "epoll_wait":
            counts["turns of the loop"] += thread == str(pid)
        elif name in _SENDS:
            counts["sends"] += 1
        elif name in _RECEIVES:
            counts["receives"] += 1
        elif name in _SYNCS:
            counts["fdatasync"] += 1
        elif name in _TRACED:
            counts[name.removesuffix("64")] += 1
    return counts
