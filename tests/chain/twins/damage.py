"""Damaged ledgers, each with a name: of tiles, of full and partial bundles; some signed anew by somebody with keys."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgpack

from tests.chain.twins import published
from tests.chain.twins.published import (
    FIRST,
    SECOND,
    STRANGER,
    THIRD,
    Item,
    Published,
    body_record,
    note,
    seal_bundle,
)

SIZE = 300
EARLIER = (7, 260, 286)
ERASED = [(40, 42), (270, 270)]
Files = Callable[[Path], object]


@cache
def intact() -> Published:
    """Two rotations, an erasure, more than one tile. One for all: its signatures are other ones each time."""
    return published.ledger(SIZE, (FIRST, SECOND, THIRD), ERASED)


def flip(path: Path, at: int, mask: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= mask
    path.write_bytes(data)


def _edit(name: str, at: int) -> Files:
    return lambda folder: flip(folder / name, at)


def _remove(name: str) -> Files:
    return lambda folder: (folder / name).unlink()


def _cut(name: str, count: int) -> Files:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-count])


def _empty(name: str) -> Files:
    return lambda folder: (folder / name).write_bytes(b"")


def _append(name: str, data: bytes) -> Files:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes() + data)


def damaged_files() -> Iterator[tuple[str, Files]]:
    """What may happen to the files of the intact ledger."""
    for name in ("tile/entries/000", "tile/entries/001.p/44", "tile/bodies/000", "tile/bodies/001.p/000-044"):
        for at in (0, 1, 60, -1):
            yield f"{name}, byte {at}", _edit(name, at)
        yield f"{name} cut off", _cut(name, 1)
        yield f"{name} with more", _append(name, b"\0")
    for name in ("tile/0/000", "tile/0/001.p/44", "tile/1/000.p/1"):
        yield f"{name}, a byte", _edit(name, 17)
        yield f"{name} gone", _remove(name)
        yield f"{name} with a hash more", _append(name, bytes(32))
    for name in ("tile/entries/000", "tile/bodies/001.p/000-044", "checkpoint", "vkeys"):
        yield f"{name} gone", _remove(name)
        yield f"{name} empty", _empty(name)
    for at in (0, 20, 45, 60, 100, 200, -3):
        yield f"checkpoint, byte {at}", _edit("checkpoint", at)
    yield "vkeys, first name", _edit("vkeys", 8)
    yield "vkeys, second pair", _edit("vkeys", 3000)
    yield "vkeys without the last pair", lambda folder: _keep_lines(folder / "vkeys", 4)


def damaged_partials() -> Iterator[tuple[str, Files]]:
    """What may happen to the tiles that are kept for who has an older checkpoint. The newest head needs none: the
    intact ledger was published at :data:`EARLIER` sizes too.
    """
    for width in (4, 30):
        for name in (f"tile/entries/001.p/{width}", f"tile/0/001.p/{width}"):
            for at in (0, 17, -1):
                yield f"{name}, byte {at}", _edit(name, at)
            yield f"{name} cut off", _cut(name, 1)
            yield f"{name} with more", _append(name, bytes(32))
            yield f"{name} empty", _empty(name)
    for kind in ("entries", "0"):
        yield f"tile/{kind}, one for another", _copy(f"tile/{kind}/001.p/30", f"tile/{kind}/001.p/4")
        yield f"tile/{kind}, another of a full one", _copy(f"tile/{kind}/001.p/4", f"tile/{kind}/000.p/4")
        yield f"tile/{kind}, behind the checkpoint", _copy(f"tile/{kind}/001.p/30", f"tile/{kind}/001.p/45")
    yield "tile/1, another of one hash less", _copy("tile/0/001.p/4", "tile/1/000.p/4")


def _copy(source: str, target: str) -> Files:
    def copy(folder: Path) -> None:
        (folder / target).parent.mkdir(exist_ok=True)
        (folder / target).write_bytes((folder / source).read_bytes())

    return copy


def _keep_lines(path: Path, count: int) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:count]))


def signed_anew() -> Iterator[tuple[str, Published]]:
    """Ledgers that break a rule although the node itself signed all of it: the rules are not only hashes."""
    body = {"to": "/user/a", "sender": "operator", "why": "w"}

    def after(size: int, **changed: Any) -> Published:
        made = published.ledger(size)
        made.add("message.refused", body, 1, **changed)
        return made

    yield "a time that falls", after(9, time_us=1)
    yield "a gap in the counter of a process", after(9, count=7)
    yield "a count for the second time", after(9, count=0)
    yield "a cause that is itself", after(9, cause=9)
    yield "a cause that is later", after(9, cause=12)
    yield "another node", after(9, node=STRANGER.origin)
    yield "another sequence number", after(9, seq=10)
    yield "another link", after(9, previous=bytes(32))
    yield "another format", after(9, format=2)
    yield "a kind that is none", after(9, kind="Message.Refused")
    yield "a subject with a space", after(9, subject="a b")
    yield "a negative pid", after(9, pid=-1)
    yield "a trace of 8 bytes", after(9, trace=bytes(8))
    yield "a pid that is true", after(9, pid=True)
    yield (
        "a leaf longer than its shortest form",
        _with_leaf(lambda leaf: leaf.replace(b"\x9c\x01", b"\x9c\xcc\x01", 1)),
    )
    yield "a leaf with something behind it", _with_leaf(lambda leaf: leaf + b"\xc0")
    for name, data in bad_bodies():
        yield f"a body that is {name}", _with_body(data)
    missing = published.ledger(9)
    missing.items[4] = replace(missing.items[4], salt=None, body=None)
    yield "a body that nobody erased", missing
    for name, ranges in (
        ("later entries", [[0, 30]]),
        ("backwards", [[4, 3]]),
        ("text", [["0", "4"]]),
        ("none", 5),
    ):
        made = missing.copy()
        made.add("erase", {"ranges": ranges, "by": "operator", "reason": "r"})
        yield f"an erasure of {name}", made
    hidden = published.ledger(9, erased=[(2, 2)])
    hidden.erase((7, 7))
    yield "an erasure that was itself erased", hidden
    yield from _bad_rotations()


def _with_leaf(change: Callable[[bytes], bytes]) -> Published:
    made = published.ledger(9)
    made.items[8] = replace(made.items[8], leaf=change(made.items[8].leaf))
    return made


def _with_body(data: bytes) -> Published:
    salt = b"s" * 32
    made = published.ledger(9)
    made.add("message.refused", {}, 1, commitment=sha256(salt + data).digest())
    made.items[9] = Item(made.items[9].leaf, salt, data)
    return made


def bad_bodies() -> Iterator[tuple[str, bytes]]:
    """Bodies that are not canonical, though their entries commit to them."""
    deep: Any = 0
    for _ in range(32):
        deep = [deep]
    yield "no map", msgpack.packb([1])
    yield "empty", b""
    yield "no msgpack", b"\x81\xa1a"
    yield "of two values", b"\x80\x80"
    yield "out of order", msgpack.packb({"b": 1, "a": 2})
    yield "out of order within", msgpack.packb({"a": {"c": 1, "b": 2}})
    yield "with a key twice", b"\x82\xa1a\x01\xa1a\x01"
    yield "with a number for a key", b"\x81\x01\x01"
    yield "with bytes for a key", b"\x81\xc4\x01a\x01"
    yield "with a number too long", b"\x81\xa1a\xcc\x01"
    yield "with a text too long", b"\x81\xd9\x01a\x01"
    yield "with a negative number too long", b"\x81\xa1a\xd0\xff"
    yield "with a positive number as a signed one", b"\x81\xa1a\xd1\x01\x00"
    yield "with a short float", b"\x81\xa1a\xca\x00\x00\x00\x00"
    yield "not a number", msgpack.packb({"a": float("nan")})
    yield "infinite", msgpack.packb({"a": float("-inf")})
    yield "no UTF-8", b"\x81\xa1a\xa1\xff"
    yield "with half a surrogate", b"\x81\xa1a\xa3\xed\xa0\x80"
    yield "of a type of its own", b"\x81\xa1a\xd4\x01\x00"
    yield "too deep", msgpack.packb({"a": deep})
    yield "a bomb", b"\x81\xa1a" + b"\x91" * 100_000
    yield "a map of four billion", b"\xdf\xff\xff\xff\xff"
    yield "too large", msgpack.packb({"a": b"x" * 2**20})


def _bad_rotations() -> Iterator[tuple[str, Published]]:
    def rotated(**arguments: Any) -> Published:
        made = published.ledger(9)
        made.rotate(SECOND, **arguments)
        return made

    yield "a rotation that the old keys did not sign", rotated(by=STRANGER)
    yield "a rotation with another number", rotated(number=2)
    yield "a rotation with a number that is true", rotated(number=True)
    yield "a rotation with a signature of nothing", rotated(new_ml_dsa_65=bytes(3309))
    yield "a rotation without a signature", rotated(new_ed25519=None)
    yield "a rotation to the keys of another", rotated(ed25519=STRANGER.vkeys[0])
    same = published.ledger(9)
    same.rotate(FIRST)
    yield "a rotation that changes nothing", same
    gone = rotated()
    gone.items[9] = replace(gone.items[9], salt=None, body=None)
    gone.erase((9, 9))
    yield "a rotation that was erased", gone
    unused = rotated()
    unused.add("message.refused", {"to": "", "sender": "", "why": ""})
    unused.rotated = [99]
    yield "a head by keys that are no longer in force", unused


def damaged_bundles(partial: bool) -> Iterator[tuple[str, bytes]]:
    """What may be done to a bundle; mostly, its checksum is right."""
    made = intact()
    seqs = [*range(5), 41, 100, 101, 298, 299] if partial else range(SIZE)
    kind = "partial" if partial else "full"
    chosen = sorted({*seqs, *made.rotated})
    hashes = made.hashes
    records: list[list[Any]] = []
    for seq in chosen:
        item = made.items[seq]
        records.append([item.leaf, item.salt, item.body, published.path_of(seq, hashes) if partial else []])
    header = made.header(kind, len(records))

    def sealed(
        header: dict[str, Any] = header, rows: list[list[Any]] = records, checkpoint: bytes = made.checkpoint(),
        vkeys: bytes = made.vkeys,
    ) -> bytes:  # fmt: skip
        return seal_bundle(header, checkpoint, vkeys, rows)

    def row(at: int, **changed: Any) -> list[list[Any]]:
        names = ("leaf", "salt", "body", "proof")
        fields = dict(zip(names, records[at], strict=True)) | changed
        return [*records[:at], [*fields.values()], *records[at + 1 :]]

    whole = sealed()
    yield "cut off", whole[:-1]
    yield "cut in half", whole[: len(whole) // 2]
    yield "empty", b""
    yield "with more behind it", whole + b"\0"
    yield "with another checksum", whole[:-1] + bytes([whole[-1] ^ 1])
    yield "with a byte changed", whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:]
    yield "of another magic", b"WEFTBND\x02" + whole[8:]
    yield "with a header that claims 4 GiB", whole[:8] + b"\xff\xff\xff\xff" + whole[12:]
    for name, changed in (
        ("format 2", {"format": 2}), ("another origin", {"origin": STRANGER.origin}), ("a size", {"size": SIZE + 1}),
        ("another kind", {"kind": "half"}), ("a billion records", {"count": 10**9}), ("less than none", {"count": -1}),
        ("a count that is text", {"count": "9"}), ("a field more", {"more": 1}),
    ):  # fmt: skip
        yield f"whose header says {name}", sealed(header | changed)
    yield (
        "without a record",
        sealed(header | {"count": len(records) - 1} if partial else header, records[:-1][1:]),
    )
    yield "with a record twice", sealed(header | {"count": len(records) + 1}, [records[0], *records])
    yield "out of order", sealed(rows=[records[1], records[0], *records[2:]])
    yield "with another body", sealed(rows=row(2, body=records[3][2]))
    yield "with a salt of 31 bytes", sealed(rows=row(2, salt=records[2][1][:31]))
    yield "with a salt and no body", sealed(rows=row(2, body=None))
    yield "with neither salt nor body", sealed(rows=row(2, salt=None, body=None))
    yield "with another leaf", sealed(rows=row(2, leaf=records[3][0]))
    yield "with a leaf that is text", sealed(rows=row(2, leaf="leaf"))
    yield "with a record of three", sealed(rows=[records[0][:3], *records[1:]])
    proof = published.path_of(chosen[2], hashes)
    yield "with a proof of another entry", sealed(rows=row(2, proof=published.path_of(9, hashes)))
    yield "with a proof too short", sealed(rows=row(2, proof=proof[:-1] or [bytes(32)]))
    yield "with a proof too long", sealed(rows=row(2, proof=[*proof, bytes(32)]))
    yield "with a proof of text", sealed(rows=row(2, proof=["x"] * len(proof)))
    yield "with a proof of nothing", sealed(rows=row(2, proof=[None] * len(proof)))
    yield "with vkeys of another", sealed(vkeys=published.ledger(1, (STRANGER,)).vkeys)
    yield "with vkeys in the wrong order", sealed(vkeys="\n".join(reversed(FIRST.vkeys)).encode() + b"\n")
    yield "with a checkpoint of another", sealed(checkpoint=published.ledger(SIZE, (STRANGER,)).checkpoint())
    yield "with an older checkpoint", sealed(checkpoint=made.checkpoint(200))
    text = made.head_text(SIZE)
    for at, name in enumerate(("Ed25519", "ML-DSA-65")):
        yield (
            f"without the {name} line",
            sealed(checkpoint=note(text, THIRD, _other_line(at))),
        )
    yield "with a wrong line beside the right ones", sealed(checkpoint=note(text, THIRD, _one_wrong))


def _other_line(at: int) -> Callable[[list[bytes]], list[bytes]]:
    return lambda two: [two[1 - at]]


def _one_wrong(lines: list[bytes]) -> list[bytes]:
    start, encoded = lines[0].rsplit(b" ", 1)
    data = bytearray(base64.b64decode(encoded))
    data[-1] ^= 1
    return [*lines, start + b" " + base64.b64encode(data) + b"\n"]


def write_huge_claim(folder: Path) -> Path:
    """A folder whose checkpoint claims all the entries there can be; nothing else fits it."""
    made = published.ledger(3)
    made.write_tiles(folder)
    text = f"{made.origin}\n{2**63 - 1}\n{base64.b64encode(bytes(32)).decode()}\n".encode()
    (folder / "checkpoint").write_bytes(note(text, FIRST))
    (folder / "tile/bodies/000").write_bytes(body_record(made.items[0]) * 256)
    return folder
