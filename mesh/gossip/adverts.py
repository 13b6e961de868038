"""Adverts: what a node says of itself to its peers, signed. No socket and no clock.

An advert is the canonical bytes of a msgpack map and an Ed25519 signature over ``weftos/mesh/advert/1``, a
newline and those bytes. The rules by which :class:`AdvertTable` takes one:

1. It is of bounded size and exactly the shape written here.
2. Its origin is the peer it came from, and its signature is by that peer's key.
3. Its boot is the one the peer named in the handshake of the present link; so one of an earlier boot, replayed
   or late, is refused.
4. Its version is above that of the newest one taken from the same boot; an older one is ignored.

No time is in it: a clock that is an hour off changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgpack

from chain.keys.keys import Keys
from chain.notes.note import verify_ed25519
from mesh.bounded import Unbounded, unpack
from mesh.errors import AdvertError

CONTEXT = b"weftos/mesh/advert/1\n"
MAX_ADVERT_BYTES = 512 * 1024
MAX_PROCESSES = 2_000
MAX_TEXT_CHARS = 1_200
MAX_VERSION = 2**63 - 1
_SIGNATURE_BYTES = 64
_FIELDS = frozenset(("origin", "boot", "version", "name", "total", "processes"))
_PROCESS_FIELDS = 5
_MAX_VALUES = 1 + 2 * len(_FIELDS) + MAX_PROCESSES * (1 + _PROCESS_FIELDS)


class ProcessAdvert(NamedTuple):
    """One process, as its node shows it to peers. ``name`` is empty for a process without one."""

    pid: int
    address: str
    name: str
    state: str
    behaviour: str


@dataclass(frozen=True, slots=True)
class Advert:
    """What ``origin`` says of itself: ``version`` rises with each change within one ``boot``.

    ``name`` is what the node calls itself, a hint and no more. ``total`` counts all its processes, of which
    ``processes`` holds the first :data:`MAX_PROCESSES`.
    """

    origin: str
    boot: str
    version: int
    name: str
    total: int
    processes: tuple[ProcessAdvert, ...]


def make_advert(
    keys: Keys,
    boot: str,
    version: int,
    name: str,
    processes: Iterable[ProcessAdvert],
    total: int | None = None,
) -> bytes:
    """The signed advert of this node, cut to the first :data:`MAX_PROCESSES` processes; ``total``: of how many,
    None: of these.
    """
    rows = tuple(processes)
    shown = rows[:MAX_PROCESSES]
    count = len(rows) if total is None else max(total, len(shown))
    while True:
        body = _encode(Advert(keys.origin, boot, version, name, count, shown))
        if len(body) + _SIGNATURE_BYTES <= MAX_ADVERT_BYTES:
            return keys.sign_ed25519(CONTEXT + body) + body
        shown = shown[: len(shown) // 2]


def read_advert(data: bytes, origin: str, ed25519: bytes) -> Advert:
    """The advert in ``data``, which must be by ``origin``, whose public key is ``ed25519``.

    Raises :class:`AdvertError`.
    """
    if not _SIGNATURE_BYTES < len(data) <= MAX_ADVERT_BYTES:
        raise AdvertError(f"advert of {len(data)} bytes, must be 65 to {MAX_ADVERT_BYTES}")
    signature, body = data[:_SIGNATURE_BYTES], data[_SIGNATURE_BYTES:]
    if not verify_ed25519(ed25519, CONTEXT + body, signature):
        raise AdvertError(f"advert from {origin} is not signed by that node's key")
    advert = _decode(body)
    if advert.origin != origin:
        raise AdvertError(f"advert from {origin} speaks for {advert.origin:.80}")
    return advert


class AdvertTable:
    """The newest advert of each peer."""

    def __init__(self) -> None:
        self._newest: dict[str, Advert] = {}

    def take(self, advert: Advert, boot: str) -> bool:
        """Keep ``advert`` when it is newer than what is known; whether it was kept.

        ``boot`` is that of the peer's present link. Raises :class:`AdvertError` for another boot's advert.
        """
        if advert.boot != boot:
            raise AdvertError(
                f"advert from {advert.origin} is of its boot {advert.boot:.40}, the link is with boot {boot:.40}"
            )
        known = self._newest.get(advert.origin)
        if known is not None and known.boot == boot and advert.version <= known.version:
            return False
        self._newest[advert.origin] = advert
        return True

    def of(self, origin: str) -> Advert | None:
        """The newest of ``origin``, which may be long gone: see the membership for that."""
        return self._newest.get(origin)

    def forget(self, origin: str) -> None:
        """The peer was removed."""
        self._newest.pop(origin, None)


def _encode(advert: Advert) -> bytes:
    packed: bytes = msgpack.packb(
        {
            "origin": advert.origin,
            "boot": advert.boot,
            "version": advert.version,
            "name": advert.name,
            "total": advert.total,
            "processes": advert.processes,
        }
    )
    return packed


def _decode(body: bytes) -> Advert:
    try:
        value = unpack(body, _MAX_VALUES)
    except Unbounded as error:
        raise AdvertError(f"advert is not a bounded msgpack map: {error}") from error
    if not isinstance(value, dict) or value.keys() != _FIELDS:
        raise AdvertError(f"advert does not have the fields {', '.join(sorted(_FIELDS))}")
    texts = (value["origin"], value["boot"], value["name"])
    numbers = (value["version"], value["total"])
    if not all(map(_is_text, texts)) or not all(map(_is_number, numbers)):
        raise AdvertError("advert has a field of the wrong type or size")
    if not isinstance(value["processes"], list):
        raise AdvertError("advert's processes are not a list")
    processes = tuple(map(_process, value["processes"]))
    if value["total"] < len(processes):
        raise AdvertError(f"advert lists {len(processes)} processes and counts {value['total']}")
    return Advert(*texts[:2], value["version"], value["name"], value["total"], processes)


def _process(row: Any) -> ProcessAdvert:
    if not isinstance(row, list) or len(row) != _PROCESS_FIELDS:
        raise AdvertError(f"advert has a process that is not a list of {_PROCESS_FIELDS}")
    pid, address, name, state, behaviour = row
    if not (
        type(pid) is int
        and 0 <= pid <= MAX_VERSION
        and type(address) is type(name) is type(state) is type(behaviour) is str
        and max(len(address), len(name), len(state), len(behaviour)) <= MAX_TEXT_CHARS
    ):
        raise AdvertError("advert has a process with a field of the wrong type or size")
    return ProcessAdvert(pid, address, name, state, behaviour)


def _is_text(value: object) -> bool:
    return type(value) is str and len(value) <= MAX_TEXT_CHARS


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_VERSION
