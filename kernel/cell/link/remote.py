"""The link of a cell on another machine, in a thread of its own: TCP under Noise, and the lease.

The thread goes on while a behaviour computes, so a busy cell keeps its lease; it tells the node with each beat which
process is running, since no slot file is shared. A call that holds Python's global lock for longer than the lease
costs the cell. When the lease is over, or the link, the thread ends the process.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from kernel.abi import ABI_VERSION
from kernel.cell.link.frames import OWN, FrameError, FrameLink, encode_frame
from kernel.cell.link.lease import CellLease
from kernel.cell.link.noise_link import NoiseLink
from kernel.cell.link.noise_pipe import NoisePipe, OneTimeKey
from kernel.cell.stacks import threads
from kernel.shapes import told

_CHECKS_PER_LEASE = 20


def now_s() -> float:
    """Seconds that go on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class RemoteLink:
    """``dial`` is the cell's start order: {host, port, key (hexadecimal), lease_s}.

    ``hear`` and ``send`` are of the cell's loop. ``running`` gives the PID in the cell's slot. ``end(why)`` ends the
    process; it is called from the thread.
    """

    def __init__(
        self,
        dial: dict[str, Any],
        token: str,
        boot: int,
        hear: Callable[[Any], None],
        running: Callable[[], int],
        end: Callable[[str], None],
    ) -> None:
        self._dial = dial
        self._boot = boot
        self._hear = hear
        self._running = running
        self._end = end
        self._cell_loop = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: list[bytes] = []
        self._lease = CellLease(dial["lease_s"], now_s())
        hello = encode_frame(boot, ["hello", token, os.getpid(), ABI_VERSION])
        self._pipe = NoisePipe(OneTimeKey(), boot, bytes.fromhex(dial["key"]), hello)
        self._link = FrameLink(boot, self._heard, self._closed, bounds=OWN)

    def start(self) -> None:
        """Dial. Until the node answers nothing may be sent, and nothing is."""
        threading.Thread(target=self._run, name="link", daemon=True).start()

    def send(self, value: Any) -> None:
        """Queue one frame; those of one loop iteration leave together. Raises :class:`FrameError` when too large."""
        frame = encode_frame(self._boot, value)
        if not self._pending:
            self._cell_loop.call_soon(self._flush)
        self._pending.append(frame)

    def _flush(self) -> None:
        data = b"".join(self._pending)
        self._pending.clear()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._write, data)

    # In the thread

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._end(f"the node cannot be reached: {error}")
        except (
            BaseException
        ):  # without this thread the cell has no lease, so it ends with it, whatever it was
            traceback.print_exc(file=sys.stderr)
            self._end("the link's thread failed")

    async def _serve(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._check()
        host, port = self._dial["host"], self._dial["port"]
        await loop.create_connection(lambda: NoiseLink(self._pipe, self._link), host, port)
        await loop.create_future()

    def _check(self) -> None:
        if self._lease.is_over(now_s()):
            self._end("its lease is over")
        delay_s = self._dial["lease_s"] / _CHECKS_PER_LEASE
        asyncio.get_running_loop().call_later(delay_s, self._check)

    def _write(self, data: bytes) -> None:
        if self._link.transport is not None and not self._link.closed:
            self._link.transport.write(data)

    def _heard(self, frame: Any) -> None:
        match frame:
            case ["lease", int() as heard]:
                self._lease.renew(heard)
                self._link.send(["beat", self._lease.beat(now_s()), self._running()])
            case ["threads", int() as number]:
                self._link.send(["stack", number, told(threads())])
            case _:
                self._cell_loop.call_soon_threadsafe(self._deliver, frame)

    def _deliver(self, frame: Any) -> None:
        try:
            self._hear(frame)
        except FrameError as error:
            self._end(str(error))
        except Exception as error:  # a fault of the cell; having lost a frame, the link is of no use
            traceback.print_exc(file=sys.stderr)
            self._end(f"it failed at a frame of its node ({type(error).__name__})")

    def _closed(self, error: Exception | None) -> None:
        self._end(str(error) if error else "the node closed the link")
