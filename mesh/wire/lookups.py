"""Where a host is, looked up in a thread of its own.

ZeroMQ looks a name up in the one thread that carries all connections: a name server that does not answer would keep
every link of the node from hearing and being heard.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable

from mesh.errors import TransportError

Found = Callable[[str], None]
RECENT_S = 30.0


def numeric(address: str) -> bool:
    """Whether ``tcp://HOST:PORT`` names its host by number. Raises :class:`TransportError` for another form."""
    host, _ = _place(address)
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


class Lookups:
    """One at a time of each address: who asks for it meanwhile is told with the first. What was found too late for who
    asked is there for the next one who asks.
    """

    def __init__(self) -> None:
        self._asked: dict[str, list[Found]] = {}
        self._recent: dict[str, tuple[str, float]] = {}

    def find(self, address: str, found: Found) -> None:
        """Have ``found`` called on this loop, later, with the same address by number, that of IPv4 when there are both;
        empty when there is none.
        """
        loop = asyncio.get_running_loop()
        numbers, until_s = self._recent.get(address, ("", 0.0))
        if loop.time() < until_s:
            loop.call_soon(found, numbers)
            return
        if address in self._asked:
            self._asked[address].append(found)
            return
        self._asked[address] = [found]

        def look() -> None:
            numbers = _look_up(address)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._told, address, numbers)

        try:
            threading.Thread(target=look, name=f"look up {address}", daemon=True).start()
        except RuntimeError:  # no thread
            loop.call_soon(self._told, address, "")

    def _told(self, address: str, numbers: str) -> None:
        loop = asyncio.get_running_loop()
        if numbers:
            self._recent[address] = (numbers, loop.time() + RECENT_S)
        for found in self._asked.pop(address):
            loop.call_soon(found, numbers)


def _look_up(address: str) -> str:
    host, port = _place(address)
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, ValueError):  # the second: a name that is none
        return ""
    place = min(places, key=lambda found: found[0] != socket.AF_INET)
    number = str(place[4][0])
    return f"tcp://[{number}]:{port}" if ":" in number else f"tcp://{number}:{port}"


def _place(address: str) -> tuple[str, str]:
    host, colon, port = address.removeprefix("tcp://").rpartition(":")
    if not address.startswith("tcp://") or not colon or not host or not port.isdecimal():
        raise TransportError(f"cannot dial {address}: it has the form tcp://HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), port
