"""What a node stands on at boot: state that its keys have signed and its entries agree with, or a person's word.

Also what is no state and decides all the same, the configuration and the peers' rights: their digests go into
``node.booted``, so that the ledger tells when they changed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from chain.disk import Disk
from chain.entry.draft import Draft
from chain.entry.entry import commit_body, decode_body, decode_entry
from chain.state.binding import Unbound
from chain.state.snapshot import snapshot_records
from chain.tiles.tile_paths import WIDTH
from chain.tiles.tile_store import Body, TileStore
from kernel.slices.boots import CONFIGURED
from kernel.state.agreement import Contradiction, disagreements, documents_differ
from kernel.state.recorder import Recorder
from kernel.state.state import State
from kernel.values import canonical
from mesh.identity.peers import Peer
from weftos.config.settings import Settings

MAX_REASON_CHARACTERS = 500
MOST_SAID = 20
_SAID_CHARACTERS = 400
_KEPT_BYTES = 2**20  # of the bodies of a bundle

Entry = tuple[str, dict[str, Any] | None]


class Published:
    """Looks entries up in the published ledger of the data directory ``data``, best in their order."""

    def __init__(self, data: Path, disk: Disk) -> None:
        self._tiles = TileStore(data / "ledger", disk)
        self._bundle = lru_cache(maxsize=2)(self._read)

    def __call__(self, seq: int) -> Entry | None:
        """Kind and body (None: erased) of entry ``seq``; None when it is not published. Raises ChainError."""
        if not 0 <= seq < self._tiles.size:
            return None
        leaves, bodies = self._bundle(seq // WIDTH)
        entry = decode_entry(leaves[seq % WIDTH])
        body = bodies[seq % WIDTH] if seq % WIDTH < len(bodies) else next(self._tiles.bodies(seq, seq + 1))
        if body is None or commit_body(*body) != entry.commitment:
            return entry.kind, None
        return entry.kind, decode_body(body[1])

    def _read(self, number: int) -> tuple[list[bytes], list[Body | None]]:
        """The leaves of a bundle, and its first bodies, all of them unless they are long."""
        first, end = number * WIDTH, min(self._tiles.size, (number + 1) * WIDTH)
        bodies: list[Body | None] = []
        held = 0
        for body in self._tiles.bodies(first, end):
            bodies.append(body)
            held += len(body[1]) if body else 0
            if held >= _KEPT_BYTES:
                break
        return list(self._tiles.leaves(first, end)), bodies


def contradictions(
    data: Path, state: State, journal: Sequence[Contradiction], disk: Disk
) -> list[Contradiction]:
    """What ``state`` and the documents of the snapshot say otherwise than the published entries, and what was found in
    the ``journal``, but for what a person has accepted. Raises ChainError.
    """
    look = Published(data, disk)
    records = snapshot_records(data / "snapshot", disk)
    found = [*journal, *disagreements(state, look), *documents_differ(records, state, look)]
    return [each for each in found if each.seq not in state.boots.accepted]


def accepted(found: Sequence[Unbound | Contradiction], reason: str) -> Draft:
    """The entry by which a person takes over what was ``found``."""
    said = [str(what)[:_SAID_CHARACTERS] for what in found[:MOST_SAID]]
    if len(found) > MOST_SAID:
        said.append(f"{len(found) - MOST_SAID} more")
    seqs = sorted({each.seq for each in found if isinstance(each, Contradiction) and each.seq >= 0})
    body = {"reason": reason[:MAX_REASON_CHARACTERS], "uid": os.getuid(), "what": said, "contradicted": seqs}
    return Draft("state.accepted", body)


async def record_acceptance(
    recorder: Recorder, found: Sequence[Unbound | Contradiction], reason: str
) -> None:
    """Have it on the disk before anything else is, and sign the snapshot, so that both are bound from here on.

    Raises ChainError.
    """
    await recorder.commit([accepted(found, reason)]).durable()
    await recorder.ledger.upkeep.sign_snapshot()


def configured(settings: Settings, peers: Sequence[Peer], before: dict[str, str]) -> dict[str, str]:
    """The fields of ``node.booted`` that say what the node was configured with, and what of it is new since
    ``before``. No secret is in it: the configuration holds the names of variables only.
    """
    rights = [
        [peer.origin, sorted(peer.may), None if peer.tools is None else sorted(peer.tools)]
        for peer in sorted(peers, key=lambda peer: peer.origin)
    ]
    now = {
        "configuration": _digest(settings.model_dump(mode="json", by_alias=True)),
        "peers": _digest(rights),
    }
    changed = [name for name in CONFIGURED if before and now[name] != before.get(name)]
    return {**now, "changed": ", ".join(changed) or "nothing"}


def _digest(value: Any) -> str:
    return sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()
