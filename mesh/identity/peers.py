"""The allow list: which nodes this one talks to, under which local name, and what each may ask for.

A *petname* is this node's own name for a peer; what a peer calls itself is only a hint for it. What counts is the
origin. ``may`` holds the rights of a peer on this node, whoever it speaks for:

=======  ==========================================================================
send     messages to processes of this node (then the process's own policy decides)
ps       see the adverts of its processes
spawn    start processes on it
kill     end processes on it
=======  ==========================================================================

Default: send and ps. A peer that is taken over can do no more than that to its neighbours.

What a peer claims for its senders is its own word. ``tools`` is the ceiling over it: the tools that processes here use
for its messages, and that processes have which it starts. Default: those without effects; ``*`` is every tool.

The list is ``<data>/mesh/peers.json`` (managed by ``weftos peer``, joined nodes are added), overlaid by tables
``[peers.NAME]`` of the configuration: what a table says counts, what it leaves out comes from the file or is the
default.

Interface::

    Peer(name, origin, address = "", may = DEFAULT_MAY, tools = None)
    AllowList(peers)             .get(origin) -> Peer | None   .named(name_or_origin) -> Peer | None   iterates Peers
      .former                    petnames of peers that were removed, with their origins
      .with_peer(peer)  .moved(name_or_origin, address)  .without(name_or_origin)  .overlaid(tables) -> AllowList
                                                                                      raise PeersError
      .petname(hint, origin, own) -> str      a free name near what a joiner calls itself
    PeerStore(mesh_dir)  .load() -> AllowList   .add(peer) -> AllowList   .remove(name_or_origin) -> AllowList
      .move(name_or_origin, address) -> AllowList
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

from mesh.bounds import DEFAULT_BOUNDS
from mesh.errors import MeshFileError, PeersError
from mesh.files import locked, read_private, write_private
from mesh.identity.identity import NAME_PATTERN

RIGHTS = frozenset(("send", "ps", "spawn", "kill"))
DEFAULT_MAY = frozenset(("send", "ps"))
ALL_TOOLS = "*"
MAX_TOOLS = 1_000
FORMER_NAMES = 1_000
PEERS_FILE = "peers.json"
_NAME = re.compile(NAME_PATTERN).fullmatch
_TOOL = re.compile(r"\*|[A-Za-z0-9_.-]{1,64}").fullmatch
_ORIGIN = re.compile(r"weftos-[a-z2-7]{26}").fullmatch
_ADDRESS = re.compile(r"tcp://(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})").fullmatch


@dataclass(frozen=True, slots=True)
class Peer:
    """One node of the allow list. ``address`` (``tcp://HOST:PORT``) is where to dial it, empty when it dials.

    ``tools`` is its ceiling, by name; None: those without effects; ``*`` among them: every tool.

    Raises :class:`PeersError` for a value that is none.
    """

    name: str
    origin: str
    address: str = ""
    may: frozenset[str] = DEFAULT_MAY
    tools: frozenset[str] | None = None

    def __post_init__(self) -> None:
        if not _good_name(self.name):
            raise PeersError(
                f"{self.name!r:.80} is no name for a peer: letters, digits, _ . -, at most 63, not all digits, "
                "and not beginning with weftos-"
            )
        if not is_origin(self.origin):
            raise PeersError(
                f"{self.origin!r:.80} is no origin: copy what `weftos node id` prints on that node"
            )
        if self.address and not good_address(self.address):
            raise PeersError(f"{self.address!r:.80} is no address: it has the form tcp://HOST:PORT")
        if not self.may <= RIGHTS:
            unknown = ", ".join(sorted(repr(right)[:40] for right in self.may - RIGHTS))
            raise PeersError(f"peer {self.name}: no such right: {unknown}; there are send, ps, spawn, kill")
        if len(self.tools or ()) > MAX_TOOLS:
            raise PeersError(f"peer {self.name}: {len(self.tools or ())} tools, limit {MAX_TOOLS}")
        for tool in sorted(self.tools or ()):
            if not _TOOL(tool):
                raise PeersError(f"peer {self.name}: {tool!r:.80} is no name of a tool; * is every tool")

    def ceiling(self, effects: Mapping[str, str]) -> frozenset[str]:
        """Of the tools in ``effects`` (what each has, by name) those that are used for this peer."""
        if self.tools is None:
            return frozenset(name for name, kind in effects.items() if kind == "none")
        return frozenset(effects) if ALL_TOOLS in self.tools else self.tools & effects.keys()


def is_origin(text: str) -> bool:
    """Whether ``text`` has the form of a node's origin."""
    return _ORIGIN(text) is not None


def _good_name(name: str) -> bool:
    return _NAME(name) is not None and not name.isdigit() and not name.startswith("weftos-")


def good_address(address: str) -> bool:
    """Whether ``address`` is ``tcp://HOST:PORT`` with a port that can be dialled."""
    match = _ADDRESS(address)
    return match is not None and 0 < int(match[2]) < 65_536


@dataclass(frozen=True, slots=True)
class AllowList:
    """Peers by origin; names are unique too. Values in, a new list out.

    ``former``: names, with the origins, of the newest peers that were removed: no other gets one, but by a person.
    """

    peers: tuple[Peer, ...] = ()
    limit: int = DEFAULT_BOUNDS.peers
    former: tuple[tuple[str, str], ...] = ()

    def __iter__(self) -> Iterator[Peer]:
        return iter(self.peers)

    def get(self, origin: str) -> Peer | None:
        """The peer of that origin, None when it is a stranger."""
        return next((peer for peer in self.peers if peer.origin == origin), None)

    def named(self, name: str) -> Peer | None:
        """The peer of that petname or origin."""
        return next((peer for peer in self.peers if name in (peer.name, peer.origin)), None)

    def with_peer(self, peer: Peer) -> AllowList:
        """The list with ``peer``. Raises :class:`PeersError` when its name or origin is taken, or the list full."""
        if self.get(peer.origin) is not None or self.named(peer.name) is not None:
            known = self.get(peer.origin) or self.named(peer.name)
            assert known is not None
            raise PeersError(
                f"{known.name} is already a peer ({known.origin}): `weftos peer remove {known.name}` first"
            )
        if len(self.peers) >= self.limit:
            raise PeersError(f"{len(self.peers)} peers are listed, limit {self.limit}: remove one first")
        former = tuple(gone for gone in self.former if gone[0] != peer.name)
        return replace(self, peers=(*self.peers, peer), former=former)

    def moved(self, name: str, address: str) -> AllowList:
        """The list with that peer at ``address`` and the rights it has. Raises :class:`PeersError` for none."""
        rest, peer = self.without(name), self.named(name)
        assert peer is not None
        return rest.with_peer(replace(peer, address=address))

    def without(self, name: str) -> AllowList:
        """The list without the peer of that petname or origin. Raises :class:`PeersError` when there is none."""
        gone = self.named(name)
        if gone is None:
            raise PeersError(f"no peer {name!r:.80}: see `weftos peer list`")
        rest = tuple(peer for peer in self.peers if peer is not gone)
        return replace(self, peers=rest, former=(*self.former, (gone.name, gone.origin))[-FORMER_NAMES:])

    def overlaid(self, tables: Mapping[str, Mapping[str, Any]]) -> AllowList:
        """The list under the configuration's tables ``[peers.NAME]`` (origin, address, may, tools).

        A table without ``origin`` speaks of the listed peer of that name. Raises :class:`PeersError` naming the
        table.
        """
        result = self
        for name, table in tables.items():
            unknown = sorted(set(table) - {"origin", "address", "may", "tools"})
            if unknown:
                raise PeersError(
                    f"[peers.{name}]: no such key {unknown[0]!r:.40}; there are origin, address, may, tools"
                )
            listed = result.get(table["origin"]) if "origin" in table else result.named(name)
            if listed is None and "origin" not in table:
                raise PeersError(f"[peers.{name}] names no origin, and no peer of that name is listed")
            peer = Peer(
                name,
                _text(name, "origin", table.get("origin", listed.origin if listed else "")),
                _text(name, "address", table.get("address", listed.address if listed else "")),
                _rights(name, table["may"]) if "may" in table else (listed.may if listed else DEFAULT_MAY),
                _tools(name, table["tools"]) if "tools" in table else (listed.tools if listed else None),
            )
            rest = result if listed is None else result.without(listed.origin)
            result = rest.with_peer(peer)
        return result

    def petname(self, hint: str, origin: str, own: str) -> str:
        """A free petname near ``hint``, which the stranger ``origin`` chose; ``own`` is what this node is called."""
        base = hint if _good_name(hint) else "peer"
        taken = {
            own,
            *(peer.name for peer in self.peers),
            *(name for name, whose in self.former if whose != origin),
        }
        if base not in taken:
            return base
        if not _good_name(f"{base}-2"[:63]):  # "weftos", as a node is called by default
            base = "peer"
        tries = (f"{base[:55]}-{number}" for number in count(2))
        return next(name for name in tries if name not in taken)


class PeerStore:
    """The list of ``<directory>/peers.json``; every change is on disk when the call returns."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / PEERS_FILE

    def load(self) -> AllowList:
        """Raises :class:`MeshFileError`."""
        content = read_private(self._path)
        if content is None:
            return AllowList()
        try:
            document = json.loads(content)
            if document["version"] != 1:
                raise ValueError(f"version {document['version']}")
            peers = AllowList()
            for item in document["peers"]:
                peers = peers.with_peer(
                    Peer(
                        _text("", "name", item["name"]),
                        _text("", "origin", item["origin"]),
                        _text("", "address", item["address"]),
                        _rights(str(item["name"]), item["may"]),
                        _tools(str(item["name"]), item.get("tools")),
                    )
                )
            former = tuple(
                (_text("", "name", name), _text("", "origin", whose))
                for name, whose in document.get("former", [])
            )
            return replace(peers, former=former)
        except (PeersError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise MeshFileError(f"{self._path} is damaged ({error}): restore it from a copy") from error

    def add(self, peer: Peer) -> AllowList:
        """Raises :class:`PeersError`, :class:`MeshFileError`; then nothing was changed."""
        return self._change(lambda peers: peers.with_peer(peer))

    def remove(self, name: str) -> AllowList:
        """Raises :class:`PeersError`, :class:`MeshFileError`; then nothing was changed."""
        return self._change(lambda peers: peers.without(name))

    def move(self, name: str, address: str) -> AllowList:
        """Raises :class:`PeersError`, :class:`MeshFileError`; then nothing was changed."""
        return self._change(lambda peers: peers.moved(name, address))

    def _change(self, change: Callable[[AllowList], AllowList]) -> AllowList:
        with locked(self._directory):
            peers = change(self.load())
            rows = [
                {
                    "name": peer.name,
                    "origin": peer.origin,
                    "address": peer.address,
                    "may": sorted(peer.may),
                    "tools": None if peer.tools is None else sorted(peer.tools),
                }
                for peer in peers
            ]
            document = {"version": 1, "peers": rows, "former": peers.former}
            write_private(self._path, json.dumps(document, indent=1).encode() + b"\n")
            return peers


def _text(table: str, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise PeersError(f"[peers.{table}] {key} is {value!r:.40}, it is a text")
    return value


def _rights(table: str, value: object) -> frozenset[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(right, str) for right in value):
        raise PeersError(f"[peers.{table}] may is {value!r:.40}, it is a list of send, ps, spawn, kill")
    return frozenset(value)


def _tools(table: str, value: object) -> frozenset[str] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise PeersError(
            f"[peers.{table}] tools is {value!r:.40}, it is a list of names, or of * for every tool"
        )
    return frozenset(value)
