"""A second writer of published ledgers and bundles, made from docs/ledger-format.md alone: it imports nothing of ours.

What it builds and the node's own writer must be the same bytes, and every reader must accept it; so it proves the page.
It signs whatever it is told to, which the tests of forgeries need.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgpack
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey
from nacl.signing import SigningKey

WIDTH = 256
START_US = 1_700_000_000_000_000


def leaf_hash(leaf: bytes) -> bytes:
    return sha256(b"\x00" + leaf).digest()


def tree_hash(leaves: Sequence[bytes]) -> bytes:
    """MTH of RFC 6962, section 2.1, over leaf hashes."""
    if len(leaves) < 2:
        return leaves[0] if leaves else sha256(b"").digest()
    k = split(len(leaves))
    return sha256(b"\x01" + tree_hash(leaves[:k]) + tree_hash(leaves[k:])).digest()


def path_of(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    """PATH of RFC 6962, section 2.1.1."""
    if len(leaves) < 2:
        return []
    k = split(len(leaves))
    if index < k:
        return [*path_of(index, leaves[:k]), tree_hash(leaves[k:])]
    return [*path_of(index - k, leaves[k:]), tree_hash(leaves[:k])]


def split(size: int) -> int:
    return 1 << ((size - 1).bit_length() - 1)


def canonical(value: Any) -> Any:
    """``value`` with the keys of every map in order."""
    if isinstance(value, dict):
        return {key: canonical(value[key]) for key in sorted(value)}
    return [canonical(item) for item in value] if isinstance(value, list) else value


class Signer:
    """Both secret keys of a node, under its name."""

    def __init__(self, seed: bytes, origin: str = "") -> None:
        self.ed25519 = SigningKey(sha256(b"ed25519" + seed).digest())
        self.ml_dsa_65 = MLDSA65PrivateKey.from_seed_bytes(sha256(b"ml-dsa-65" + seed).digest())
        public = bytes(self.ed25519.verify_key)
        fingerprint = base64.b32encode(sha256(public).digest()[:16]).decode().rstrip("=").lower()
        self.origin = origin or f"weftos-{fingerprint}"
        self.public = (
            b"\x01" + public,
            b"\xffweftos/ml-dsa-65" + self.ml_dsa_65.public_key().public_bytes_raw(),
        )

    @property
    def ids(self) -> tuple[bytes, bytes]:
        one, two = (sha256(self.origin.encode() + b"\n" + key).digest()[:4] for key in self.public)
        return one, two

    @property
    def vkeys(self) -> tuple[str, str]:
        one, two = (
            f"{self.origin}+{id_.hex()}+{base64.b64encode(key).decode()}"
            for id_, key in zip(self.ids, self.public, strict=True)
        )
        return one, two

    def sign(self, text: bytes, context: bytes) -> tuple[bytes, bytes]:
        return self.ed25519.sign(text).signature, self.ml_dsa_65.sign(text, context)


@dataclass(frozen=True)
class Item:
    """An entry as it is stored; ``salt`` and ``body`` None once erased."""

    leaf: bytes
    salt: bytes | None
    body: bytes | None


@dataclass
class Published:
    """A ledger in memory. ``signers``: the keys, the first ones first. ``rotated``: entries that brought others."""

    signers: list[Signer]
    items: list[Item] = field(default_factory=list)
    rotated: list[int] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)

    @property
    def origin(self) -> str:
        return self.signers[0].origin

    @property
    def hashes(self) -> list[bytes]:
        return [leaf_hash(item.leaf) for item in self.items]

    @property
    def vkeys(self) -> bytes:
        return "".join(f"{key}\n" for signer in self.signers for key in signer.vkeys).encode()

    def copy(self) -> Published:
        return replace(
            self,
            signers=[*self.signers],
            items=[*self.items],
            rotated=[*self.rotated],
            counts={**self.counts},
        )

    def add(self, kind: str, body: dict[str, Any], pid: int = 0, /, **changed: Any) -> int:
        """Append an entry. ``changed``: fields of the leaf that are to be other than they must be."""
        seq = len(self.items)
        salt, data = sha256(b"salt %d" % seq).digest(), msgpack.packb(canonical(body))
        fields: dict[str, Any] = {
            "format": 1, "seq": seq, "time_us": START_US + seq, "node": self.origin, "pid": pid,
            "count": self.counts.get(pid, 0), "kind": kind, "subject": f"s{seq}", "trace": b"", "cause": seq - 1,
            "commitment": sha256(salt + data).digest(),
            "previous": leaf_hash(self.items[-1].leaf) if self.items else bytes(32),
        }  # fmt: skip
        self.counts[pid] = fields["count"] + 1
        self.items.append(Item(msgpack.packb([*(fields | changed).values()]), salt, data))
        return seq

    def rotate(self, new: Signer, by: Signer | None = None, **changed: Any) -> int:
        """Append the entry by which the keys change; ``by`` signs in the place of the old ones."""
        old, number = self.signers[-1], len(self.signers)
        lines = ["weftos/rotation/1", self.origin, str(number), *old.vkeys, *new.vkeys, ""]
        text, context = "\n".join(lines).encode(), b"weftos/rotation/1"
        signatures = (*(by or old).sign(text, context), *new.sign(text, context))
        names = ("old_ed25519", "old_ml_dsa_65", "new_ed25519", "new_ml_dsa_65")
        body = {"ed25519": new.vkeys[0], "ml_dsa_65": new.vkeys[1], "number": number, "reason": "test"}
        self.signers.append(new)
        self.rotated.append(len(self.items))
        return self.add("key.rotated", body | dict(zip(names, signatures, strict=True)) | changed)

    def erase(self, *ranges: tuple[int, int]) -> int:
        for first, last in ranges:
            for seq in range(first, last + 1):
                self.items[seq] = replace(self.items[seq], salt=None, body=None)
        return self.add(
            "erase", {"ranges": [list(pair) for pair in ranges], "by": "operator", "reason": "asked"}
        )

    def head_text(self, size: int) -> bytes:
        root = base64.b64encode(tree_hash(self.hashes[:size])).decode()
        return f"{self.origin}\n{size}\n{root}\n".encode()

    def checkpoint(self, size: int | None = None) -> bytes:
        """The full head of ``size`` entries, by the keys in force there."""
        size = len(self.items) if size is None else size
        return note(self.head_text(size), self.signers[sum(seq < size for seq in self.rotated)])

    def write_tiles(
        self, folder: Path, published: Iterable[int] = (), checkpoint: bytes | None = None
    ) -> Path:
        """The published ledger. ``published``: sizes at which it was published before, where pieces begin anew. Their
        partial tiles are kept until the tile is full.
        """
        files = {"checkpoint": self.checkpoint() if checkpoint is None else checkpoint, "vkeys": self.vkeys}
        files |= tile_files(self.items, sorted({*published, len(self.items)}))
        for name, data in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return folder

    def bundle(self, seqs: Iterable[int] | None = None, **changed: Any) -> bytes:
        """All entries, or a partial bundle of ``seqs`` (and of all key rotations). ``changed``: other header fields."""
        hashes = self.hashes
        wanted = range(len(hashes)) if seqs is None else sorted({*seqs, *self.rotated})
        records = []
        for seq in wanted:
            item = self.items[seq]
            proof = [] if seqs is None else path_of(seq, hashes)
            records.append([item.leaf, item.salt, item.body, proof])
        kind = "full" if seqs is None else "partial"
        return seal_bundle(self.header(kind, len(records)) | changed, self.checkpoint(), self.vkeys, records)

    def header(self, kind: str, count: int) -> dict[str, Any]:
        return {"format": 1, "origin": self.origin, "size": len(self.items), "kind": kind, "count": count}


def note(
    text: bytes, signer: Signer, lines: Callable[[list[bytes]], list[bytes]] = lambda lines: lines
) -> bytes:
    """A signed note; ``lines`` may do something to its signature lines."""
    signatures = zip(signer.ids, signer.sign(text, b"weftos/head/1"), strict=True)
    made = [f"— {signer.origin} ".encode() + base64.b64encode(id_ + sig) + b"\n" for id_, sig in signatures]
    return text + b"\n" + b"".join(lines(made))


def seal_bundle(header: dict[str, Any], checkpoint: bytes, vkeys: bytes, records: Sequence[Any]) -> bytes:
    parts = [msgpack.packb(canonical(header)), checkpoint, vkeys, *map(msgpack.packb, records)]
    data = b"WEFTBND\x01" + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return data + sha256(data).digest()


def spelled(number: int) -> str:
    digits = f"{number:03}"
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    return "/".join([f"x{group}" for group in groups[:-1]] + groups[-1:])


def tile_files(items: Sequence[Item], published: Sequence[int]) -> dict[str, bytes]:
    """Every file below ``tile/`` that a ledger of these items has, when it was published at those sizes."""
    files: dict[str, bytes] = {}
    for start in range(0, len(items), WIDTH):
        part = items[start : start + WIDTH]
        suffix = "" if len(part) == WIDTH else f".p/{len(part)}"
        name = spelled(start // WIDTH)
        files[f"tile/entries/{name}{suffix}"] = b"".join(map(leaf_record, part))
        ends = [size - start for size in published if start < size <= start + len(part)]
        pieces = {f"tile/bodies/{name}": (0, WIDTH)}
        if suffix:
            spans = zip([0, *ends], ends, strict=False)
            pieces = {f"tile/bodies/{name}.p/{first:03}-{end:03}": (first, end) for first, end in spans}
        files |= {path: b"".join(map(body_record, part[first:end])) for path, (first, end) in pieces.items()}
        for width in ends if suffix else ():
            files[f"tile/entries/{name}.p/{width}"] = b"".join(map(leaf_record, part[:width]))
    level, row = 0, [leaf_hash(item.leaf) for item in items]
    while row:
        tiles = [row[at : at + WIDTH] for at in range(0, len(row), WIDTH)]
        for number, tile in enumerate(tiles):
            suffix = "" if len(tile) == WIDTH else f".p/{len(tile)}"
            files[f"tile/{level}/{spelled(number)}{suffix}"] = b"".join(tile)
            first = number * WIDTH
            widths = {size // WIDTH**level - first for size in published} if suffix else ()
            for width in widths:
                if 0 < width < len(tile):
                    files[f"tile/{level}/{spelled(number)}.p/{width}"] = b"".join(tile[:width])
        level, row = level + 1, [tree_hash(tile) for tile in tiles if len(tile) == WIDTH]
    return files


def leaf_record(item: Item) -> bytes:
    return len(item.leaf).to_bytes(2, "big") + item.leaf


def body_record(item: Item) -> bytes:
    data = b"" if item.salt is None or item.body is None else item.salt + item.body
    return len(data).to_bytes(4, "big") + data


FIRST = Signer(b"first")
SECOND, THIRD = (Signer(seed, FIRST.origin) for seed in (b"second", b"third"))
STRANGER = Signer(b"stranger")


def ledger(
    entries: int, signers: Sequence[Signer] = (FIRST,), erased: Sequence[tuple[int, int]] = ()
) -> Published:
    """A ledger of ``entries``: several processes, a rotation for each further signer, and an erasure near the end."""
    made = Published([signers[0]])
    left = list(signers[1:])
    while len(made.items) < entries:
        seq = len(made.items)
        if left and seq == entries * (len(signers) - len(left)) // (len(signers) + 1):
            made.rotate(left.pop(0))
        elif erased and seq == entries - 2:
            made.erase(*erased)
        else:
            made.add("message.refused", {"to": "/user/a", "sender": "operator", "why": f"w{seq}"}, seq % 3)
    return made
