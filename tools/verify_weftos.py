#!/usr/bin/env python3
"""Verifies a weftos ledger, without weftos: one file to read, two libraries (pynacl, cryptography), no network.

    python verify_weftos.py (--tiles DIR | --bundle FILE) --key VKEY --key VKEY [--seen NOTE]

DIR is a node's published ledger or a copy of it, FILE what ``weftos chain export`` wrote, NOTE a head of this ledger
that was seen earlier. ``weftos chain key`` prints the VKEYs of a node, an Ed25519 and an ML-DSA-65 key; get them from
elsewhere than the ledger. docs/ledger-format.md explains the bytes.

It prints "verified" and exits with 0 when all of this holds; else it says what does not, and exits with 1:

* the newest head is signed by both keys, so that a forger would have to break, or steal, both;
* every entry is there, in its place, and is the one that was signed: leaf, hash link, hash tiles, root;
* time never falls, no process's own counter has a gap, and a cause comes before its effect;
* every body is the one that its entry commits to, and one that is gone is named by a later ``erase`` entry;
* where keys changed, the old ones and the new ones signed for it, beginning with the node's first keys;
* the ledger continues the head in NOTE.

Each request to a model is told in terms of earlier ones. It says how many of them it could put together, and which of
these are not what the node says that it hashed.

It does not show that what the node wrote is true or all it did, what is behind the newest head, that others see the
same ledger (compare heads: NOTE), or what a partial bundle leaves out; without keys, only that it agrees.
"""

import argparse
import base64
import json
import os
import re
from bisect import bisect_left, bisect_right
from collections import namedtuple
from functools import reduce
from hashlib import sha256
from mmap import ACCESS_READ, mmap
from typing import Any

from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey
from nacl.signing import VerifyKey

WIDTH, MAX_LEAF, MAX_BODY, MAX_RECORD, MAX_HEADER = 256, 1024, 2**20, 2**20 + 2**16, 4096
MAX_NOTE, MAX_VKEYS, MAX_ROTATIONS, MAX_ASKED, MAX_DEPTH, MAX_NUMBER = 2**18, 2**20, 100, 10**4, 32, 2**63 - 1
MAX_TOLD, MAX_RESULTS = 2**16, 2**26  # bytes of a request's digests: twice a node's; characters of results
# msgpack: what a first byte begins; the width of the number behind it and the least that needs it, or 0 and the number.
FORMS: dict[int, tuple[str, int, Any]] = {
         0xC0: ("nil", 0, None), 0xC2: ("false", 0, False), 0xC3: ("true", 0, True), 0xCB: ("float", 8, 0),
         0xC4: ("bin", 1, 0), 0xC5: ("bin", 2, 2**8), 0xC6: ("bin", 4, 2**16),
         0xCC: ("int", 1, 2**7), 0xCD: ("int", 2, 2**8), 0xCE: ("int", 4, 2**16), 0xCF: ("int", 8, 2**32),
         0xD0: ("neg", 1, 2**5), 0xD1: ("neg", 2, 2**7), 0xD2: ("neg", 4, 2**15), 0xD3: ("neg", 8, 2**31),
         0xD9: ("str", 1, 2**5), 0xDA: ("str", 2, 2**8), 0xDB: ("str", 4, 2**16), 0xDC: ("array", 2, 2**4),
         0xDD: ("array", 4, 2**16), 0xDE: ("map", 2, 2**4), 0xDF: ("map", 4, 2**16)}  # fmt: skip
FORMS |= {n: ("int", 0, n) for n in range(0x80)} | {0x100 - n: ("int", 0, -n) for n in range(1, 33)}
FORMS |= {0x80 + n: ("map", 0, n) for n in range(16)} | {0x90 + n: ("array", 0, n) for n in range(16)}
FORMS |= {0xA0 + n: ("str", 0, n) for n in range(32)}
KEY_TYPES = {33: ("Ed25519", b"\x01"), 1969: ("ML-DSA-65", b"\xffweftos/ml-dsa-65")}  # by length, with prefix
HEAD = "(([!-*,-~]{1,256})\n(0|[1-9][0-9]{0,18})\n([A-Za-z0-9+/]{43}=)\n)\n"
SIGNATURE = "— ([^\\s+\x00-\x1f]{1,256}) ([A-Za-z0-9+/=]{8,10924})\n"
FIELDS = [int, int, int, str, int, int, str, str, bytes, int, bytes, bytes]
NODE_KIND_SUBJECT = r"[a-z0-9-]{1,64} [a-z][a-z_]{0,31}(\.[a-z][a-z_]{0,31}){0,2} [!-~]{0,64}"
SIGNED_BY = ("old_ed25519", "old_ml_dsa_65", "new_ed25519", "new_ml_dsa_65")
RECORDS = ([bytes, bytes, bytes, list], [bytes, type(None), type(None), list])
Entry = namedtuple("Entry", "format seq time_us node pid count kind subject trace cause commitment previous")


def demand(good: object, what: str) -> None:
    if not good:
        raise ValueError(what)


def hash_of(*parts: bytes) -> bytes:
    return sha256(b"".join(parts)).digest()


def from_base64(text: str) -> bytes:
    demand(len(text) % 4 == 0, "not base64, a part of the line is missing")
    data = base64.b64decode(text, validate=True)
    demand(base64.b64encode(data).decode() == text, "not base64 in its one spelling")
    return data


def contents(path: str, limit: int = 2**63) -> mmap:
    """The bytes of a file, which are read only when they are looked at."""
    demand(os.path.isfile(path) and os.path.getsize(path) <= limit, f"{path} is missing, or too large")
    with open(path, "rb") as file:
        return mmap(file.fileno(), 0, access=ACCESS_READ)


def shape(value: Any) -> list[type]:
    return [*map(type, value)] if type(value) is list else []


class Reader:
    """Takes bytes from the front of some, and msgpack in the one spelling that is allowed."""

    def __init__(self, data: bytes | mmap) -> None:
        self.data, self.at, self.digest = data, 0, sha256()

    def take(self, count: int) -> bytes:
        data = self.data[self.at : self.at + count]
        demand(len(data) == count, "it ends too early")
        self.at += count
        self.digest.update(data)
        return data

    def block(self, width: int, limit: int) -> bytes:
        """A length of ``width`` bytes, and as many bytes as it says."""
        length = int.from_bytes(self.take(width))
        demand(length <= limit, f"a length of {length}, limit {limit}")
        return self.take(length)

    def end(self) -> None:
        demand(self.at == len(self.data), "it goes on where it should end")

    def value(self, depth: int = MAX_DEPTH) -> Any:
        tag = self.take(1)[0]
        demand(depth and tag in FORMS, f"byte {tag:#x} begins nothing, or what is nested too deep")
        form, width, number = FORMS[tag]
        if width:
            least, number = number, int.from_bytes(self.take(width), signed=form == "neg")
            demand((~number if form == "neg" else number) >= least, f"{number} has a shorter spelling")
        if form == "array":
            return [self.value(depth - 1) for _ in range(number)]
        if form == "map":
            pairs = [(self.value(1), self.value(depth - 1)) for _ in range(number)]
            keys = [key for key, _ in pairs if type(key) is str]
            demand(len(keys) == number and keys == sorted({*keys}), "a map whose keys are not texts in order")
            return dict(pairs)
        if form == "float":
            demand(number >> 52 & 0x7FF != 0x7FF, "a number that is not finite")
            return float(number)  # which one, nothing here asks
        if form == "str":
            return self.take(number).decode()
        return self.take(number) if form == "bin" else number


def unpack(data: bytes) -> Any:
    reader = Reader(data)
    value = reader.value()
    reader.end()
    return value


class Key(namedtuple("Key", "name id type public text")):
    @classmethod
    def read(cls, text: Any) -> "Key":
        """A verifier key: name+id+base64(type and public key), where the id is a checksum of the rest."""
        name, key_id, encoded = [*str(text).split("+", 2), "", ""][:3]
        data = from_base64(encoded)
        type_, prefix = KEY_TYPES.get(len(data), ("", b"-"))
        good = data.startswith(prefix) and hash_of(name.encode(), b"\n", data)[:4].hex() == key_id
        demand(good, f"not a node's verifier key, copy the whole line: {str(text)[:60]}")
        return cls(name, bytes.fromhex(key_id), type_, data[len(prefix) :], text)

    def signed(self, message: bytes, signature: Any, context: str) -> bool:
        """Whether this key signed ``message``; with ML-DSA-65, in this context."""
        try:
            demand(type(signature) is bytes, "no signature")
            if self.type == "Ed25519":
                return VerifyKey(self.public).verify(message, signature) == message
            MLDSA65PublicKey.from_public_bytes(self.public).verify(signature, message, context.encode())
            return True
        except Exception:  # whatever it is that is wrong with the key or the signature
            return False


def read_pair(ed25519: Any, ml_dsa_65: Any, origin: str = "") -> tuple[Key, Key]:
    """Two keys named ``origin``; the first two of a node are named after this very Ed25519 key."""
    one, two = Key.read(ed25519), Key.read(ml_dsa_65)
    name = origin or "weftos-" + base64.b32encode(hash_of(one.public)[:16]).decode().rstrip("=").lower()
    names = (one.name, one.type, two.name, two.type)
    demand(names == (name, "Ed25519", name, "ML-DSA-65"), f"not an Ed25519 and an ML-DSA-65 key of {name}")
    return one, two


def canonical(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def rotate(old: tuple[Key, Key], number: int, body: dict[str, Any]) -> tuple[Key, Key]:
    """The keys that rotation ``number`` puts in the place of ``old``, when all four have signed for it."""
    new = read_pair(body.get("ed25519"), body.get("ml_dsa_65"), old[0].name)
    demand(repr(body.get("number")) == str(number), f"rotation {body.get('number')!a:.20}, not {number}")
    demand(number <= MAX_ROTATIONS and not {*old} & {*new}, "a rotation that keeps a key, or is one too many")
    text = "\n".join(["weftos/rotation/1", old[0].name, str(number), *(key.text for key in old + new), ""])
    for field, key in zip(SIGNED_BY, old + new, strict=True):
        good = key.signed(text.encode(), body.get(field), "weftos/rotation/1")
        demand(good, f"rotation {number}: {field} is no signature of that key")
    return new


class Head(namedtuple("Head", "origin size root text signatures")):
    """What a note claims: ``origin``'s first ``size`` entries have this ``root``; and who claims to have signed it."""

    @classmethod
    def read(cls, note: bytes) -> "Head":
        match = re.fullmatch(f"{HEAD}((?:{SIGNATURE}){{1,32}})", note.decode())
        text, origin, size, root, lines = match.groups()[:5] if match else ("", "", 2**63, "", "")
        signatures = [(name, from_base64(encoded)) for name, encoded in re.findall(SIGNATURE, lines)]
        fits = all(4 < len(data) <= 8192 and len(name.encode()) <= 256 for name, data in signatures)
        demand(int(size) <= MAX_NUMBER and fits, f"not a signed tree head: {note[:100]!a}")
        return cls(origin, int(size), from_base64(root), text.encode(), signatures)

    def check_signed(self, pair: tuple[Key, Key]) -> None:
        demand(self.origin == pair[0].name, f"a head of {self.origin}, and keys of {pair[0].name}")
        for key in pair:
            mine = [line[4:] for name, line in self.signatures if (name, line[:4]) == (key.name, key.id)]
            good = mine and all(key.signed(self.text, signature, "weftos/head/1") for signature in mine)
            demand(good, f"head of {self.size}: {key.type} signature by {key.id.hex()} is wrong or missing")


def check_proof(node: bytes, index: int, head: Head, proof: list[bytes]) -> None:
    """That leaf ``index`` is ``node``. Below level ``inner`` both sides occur, above it all siblings are left."""
    inner = (index ^ (head.size - 1)).bit_length()
    wanted = [32] * (inner + (index >> inner).bit_count())
    demand(index < head.size and [*map(len, proof)] == wanted, f"not {len(wanted)} hashes of 32 bytes each")
    for level, sibling in enumerate(proof):
        left = level >= inner or index >> level & 1
        node = hash_of(b"\x01", sibling, node) if left else hash_of(b"\x01", node, sibling)
    demand(node == head.root, "an inclusion proof that leads to another root than the head's")


def read_leaf(leaf: bytes) -> Entry:
    fields = unpack(leaf)
    demand(shape(fields) == FIELDS and fields[0] == 1, "not the fields of an entry of format 1")
    e = Entry(*fields)
    texts = re.fullmatch(NODE_KIND_SUBJECT, f"{e.node} {e.kind} {e.subject}")
    sizes = len(e.commitment) == len(e.previous) == 32 and len(e.trace) in (0, 16)
    numbers = all(0 <= n <= MAX_NUMBER for n in (e.seq, e.time_us, e.pid, e.count, e.cause + 1))
    demand(numbers and texts and sizes and e.cause < e.seq, "a field of the entry is out of range")
    return e


class Audit:
    """Follows the entries of a ledger in their order. ``whole``: all are there, up to the head; else some."""

    def __init__(self, seen: Head | None, note: bytes, vkeys: bytes, whole: bool) -> None:
        self.head, self.vkeys, self.whole, self.seen = Head.read(note), vkeys.decode(), whole, seen
        self.pairs = [read_pair(*f"{self.vkeys}\n".split("\n")[:2])]  # the node's keys, the first ones first
        self.rotated: list[int] = []  # the entries that brought the second ones, the third, ...
        self.nodes: list[bytes] = []  # the tree of the entries read: its complete subtrees, the largest first
        self.read, self.next, self.last_hash, self.last_time, self.seen_root = 0, 0, bytes(32), 0, hash_of()
        self.counts: dict[int, tuple[int, int]] = {}  # pid: its next count, how many entries were absent then
        self.asked: dict[int, bytes] = {}  # requests none is told in terms of yet: digests of their messages
        self.requests, self.rebuilt, self.others = 0, 0, list[int]()
        self.results, self.left = dict[int, str](), MAX_RESULTS  # the newest that tools gave, for requests
        self.erased: list[int] = []  # entries whose bodies are gone, and no later entry has said so yet

    def root(self) -> bytes:
        return reduce(lambda top, left: hash_of(b"\x01", left, top), self.nodes[::-1] or [hash_of()])

    def entry(self, leaf: bytes, kept: tuple[bytes, bytes] | None, proof: list[bytes] | None) -> None:
        """Take in a leaf, its salt and body (None once erased), and its proof in a partial bundle."""
        e, node, size = read_leaf(leaf), hash_of(b"\x00", leaf), self.read
        at = self.next if self.whole else max(e.seq, self.next)
        demand((e.seq, e.node) == (at, self.head.origin), f"entry {e.seq} of {e.node} in place of entry {at}")
        demand(e.time_us >= self.last_time, f"time falls from {self.last_time} to {e.time_us}")
        demand(at > self.next or e.previous == self.last_hash, "it does not follow on the entry before")
        absent = at - size  # so many entries are not in a partial bundle up to here
        least, absent_then = self.counts.get(e.pid, (0, 0))
        good = least <= e.count <= least + absent - absent_then
        demand(good, f"number {e.count} of process {e.pid} in place of number {least}")
        if proof is not None:
            check_proof(node, at, self.head, proof)
        self.body(e, kept)
        self.read, self.next, self.last_hash, self.last_time = size + 1, at + 1, node, e.time_us
        self.counts[e.pid] = (e.count + 1, absent)
        while size & 1:
            node, size = hash_of(b"\x01", self.nodes.pop(), node), size >> 1
        self.nodes.append(node)
        if self.seen and self.read == self.seen.size:
            self.seen_root = self.root()

    def body(self, e: Entry, kept: tuple[bytes, bytes] | None) -> None:
        if kept is None:
            demand(e.kind not in ("erase", "key.rotated"), "a body is gone that is never erased")
            self.erased.append(e.seq)
            return
        demand(len(kept[0]) == 32 and hash_of(*kept) == e.commitment, "a body that is not the entry's")
        body = unpack(kept[1])
        demand(type(body) is dict and len(kept[1]) <= MAX_BODY, "a body that is no map, or too large")
        if e.kind == "key.rotated":
            self.pairs.append(rotate(self.pairs[-1], len(self.pairs), body))
            self.rotated.append(e.seq)
        if e.kind == "tool.outcome" and type(result := body.get("result")) is str:
            self.results[e.seq], self.left = result, self.left - len(result) - WIDTH
            while self.left < 0:
                self.left += len(self.results.pop(next(iter(self.results)))) + WIDTH
        if e.kind == "model.asked" and "messages_hash" in body:
            self.requests += 1
            try:
                self.request(e.seq, body)
            except (LookupError, TypeError, ValueError, RecursionError):
                self.others.append(e.seq)
        if e.kind == "erase":
            demand(type(body.get("ranges")) is list, "an erasure that does not say what it erased")
            for span in body["ranges"]:
                demand(shape(span) == [int, int] and 0 <= span[0] <= span[1] < e.seq, "not earlier entries")
                del self.erased[bisect_left(self.erased, span[0]) : bisect_right(self.erased, span[1])]

    def request(self, seq: int, body: dict[str, Any]) -> None:
        """Put a request together: pieces are messages of an earlier one, [first, behind], or that many new ones."""
        known = self.asked.pop(body["prefix_of"], None) if body["prefix_count"] else b""
        named = json.loads(body.get("results", "[]"))
        if known is None or body["truncated"] or any(result not in self.results for _, result, _ in named):
            return  # something is missing: not put together, and not said to be
        said, at, digests = json.loads(body["new"]), 0, b""
        demand(len({result for _, result, _ in named}) == len(named), "a result that is named twice")
        for place, result, count in named:
            said[place]["content"] = self.results[result][:count]
        new = [sha256(canonical(message)).digest() for message in said]
        for piece in json.loads(body["pieces"]):
            new_ones = type(piece) is int
            demand(new_ones or shape(piece) == [int, int], "pieces that are none")
            digests += b"".join(new[at : at + piece]) if new_ones else known[32 * piece[0] : 32 * piece[1]]
            at += piece if new_ones else 0
            demand(len(digests) <= MAX_TOLD, "too many messages")
        same = sha256(digests).hexdigest() == body["messages_hash"]
        demand(same, "its messages are not those that were hashed")
        self.asked[seq], self.rebuilt = digests, self.rebuilt + 1
        if len(self.asked) > MAX_ASKED:
            del self.asked[next(iter(self.asked))]

    def finish(self, given: list[Key]) -> None:
        """What can be said when all entries have passed. ``given``: the keys that the caller trusts."""
        head, seen, root = self.head, self.seen, self.root()
        demand(not self.whole or (self.read, root) == (head.size, head.root), "other entries than the head's")
        demand(not self.erased, f"bodies are gone, and no erase entry says so: {self.erased[:20]}")
        known = [key for pair in self.pairs for key in pair]
        lines, texts = self.vkeys.split("\n"), [key.text for key in known]
        spare = lines[len(texts) : -1]  # a pair may be there already that comes behind the head
        good = lines[: len(texts)] == texts and not lines[-1] and len(spare) in (0, 2) and len(lines) < 204
        demand(good and (not spare or read_pair(spare[0], spare[1], head.origin)), "vkeys holds other keys")
        head.check_signed(self.pairs[bisect_left(self.rotated, head.size)])
        for key in given:
            demand(key in known, f"{key.type} key {key.id.hex()} is not the ledger's")
        demand(len({key.type for key in given}) != 1, "give both keys, Ed25519 and ML-DSA-65")
        if seen:
            demand(seen.size <= head.size, f"rolled back: {seen.size} entries were seen, not {head.size}")
            root = head.root if seen.size == head.size else self.seen_root if self.whole else b""
            demand(root == seen.root, f"not shown to continue the {seen.size} entries that were seen")
            seen.check_signed(self.pairs[bisect_left(self.rotated, seen.size)])


def tiles(folder: str) -> Any:
    """A published ledger. Yields checkpoint, vkeys, True; then for each entry what :meth:`Audit.entry` takes."""

    def spelled(n: int) -> str:
        """The number of a tile in its path: 1234067 is x001/x234/067."""
        return re.sub("([0-9]{3}),", r"x\1/", f"{n:0{(len(str(n)) + 2) // 3 * 4 - 1},}")

    def read(name: str, width: int, item: int) -> tuple[Reader, int]:
        """A file of ``width`` items, or one that begins with them: the node went on while it was copied."""
        for held in (width, WIDTH, *range(WIDTH - 1, width, -1)):
            path = f"{folder}/{name}" + f".p/{held}" * (held < WIDTH)
            if os.path.isfile(path):
                return Reader(contents(path, held * item)), held
        raise ValueError(f"{name} is missing")

    def bodies(name: str, width: int) -> Any:
        """From the one file of a full bundle, or else from pieces, named by their first entry and their end."""
        at = 0
        while at < width:
            pieces = {f"{name}.p/{at:03}-{end:03}": end for end in range(WIDTH, at, -1)}
            path = next((path for path in (name, *pieces) if os.path.isfile(f"{folder}/{path}")), name)
            reader, first, at = Reader(contents(f"{folder}/{path}")), at, pieces.get(path, WIDTH)
            for _ in range(first, at):
                data = reader.block(4, 32 + MAX_BODY)
                yield (data[:32], data[32:]) if data else None
            reader.end()

    def hash_tile(level: int, n: int, hashes: list[bytes]) -> list[bytes]:
        """Compare one; its root when it is full, which is a hash of the level above."""
        reader, held = read(f"tile/{level}/{spelled(n)}", len(hashes), 32)
        demand(reader.take(32 * held).startswith(b"".join(hashes)), f"tile/{level}/{n} has other hashes")
        full = len(hashes) == WIDTH
        while len(hashes) > 1:
            hashes = [hash_of(b"\x01", *hashes[at : at + 2]) for at in range(0, len(hashes), 2)]
        return hashes * full

    note = contents(f"{folder}/checkpoint", MAX_NOTE)[:]
    yield note, contents(f"{folder}/vkeys", MAX_VKEYS)[:], True
    size, level, roots = Head.read(note).size, 0, list[bytes]()
    for n in range(-(-size // WIDTH)):
        width = min(WIDTH, size - n * WIDTH)
        reader, held = read(f"tile/entries/{spelled(n)}", width, 2 + MAX_LEAF)
        leaves = [reader.block(2, MAX_LEAF) for _ in range(held)][:width]
        reader.end()
        for kept, leaf in zip(bodies(f"tile/bodies/{spelled(n)}", width), leaves, strict=False):
            yield leaf, kept, None
        roots += hash_tile(0, n, [hash_of(b"\x00", leaf) for leaf in leaves])
    while roots:
        level, rows = level + 1, [roots[at : at + WIDTH] for at in range(0, len(roots), WIDTH)]
        roots = [root for n, row in enumerate(rows) for root in hash_tile(level, n, row)]


def bundle(path: str) -> Any:
    """What ``weftos chain export`` writes. Yields what :func:`tiles` does; a partial one has proofs."""
    reader = Reader(contents(path))
    demand(reader.take(8) == b"WEFTBND\x01", "not a bundle of format 1, which this program reads")
    header = unpack(reader.block(4, MAX_HEADER))
    note, vkeys = reader.block(4, MAX_NOTE), reader.block(4, MAX_VKEYS)
    head = Head.read(note)
    count = header["count"] if type(header) is dict and type(header.get("count")) is int else 0
    wanted = {"count": count, "format": 1, "kind": "partial", "origin": head.origin, "size": head.size}
    whole, part = (repr(header) == repr(wanted | more) for more in ({"kind": "full", "count": head.size}, {}))
    demand(whole or part, f"a header that does not fit to the checkpoint: {header!a:.200}")
    yield note, vkeys, whole
    proves = set() if whole else {bytes}
    for _ in range(count):
        record = unpack(reader.block(4, MAX_RECORD))
        demand(shape(record) in RECORDS and {*shape(record[3])} <= proves, "not leaf, salt, body and proof")
        leaf, salt, body, proof = record
        yield leaf, None if body is None else (salt, body), None if whole else proof
    demand(reader.digest.digest() == reader.take(32), "its checksum is wrong")
    reader.end()


def main() -> int:
    parser = argparse.ArgumentParser(description="Verify a weftos ledger, without weftos.")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--tiles", metavar="DIR", help="a published ledger, or a copy of one")
    source.add_argument("--bundle", metavar="FILE", help="what weftos chain export wrote")
    parser.add_argument("--key", metavar="VKEY", action="append", default=[], help="of the node; give both")
    parser.add_argument("--seen", metavar="NOTE", help="a file with a head that the ledger must continue")
    options, done = parser.parse_args(), 0
    if not options.key:
        print("UNPINNED: no --key was given, so that anybody may have made this ledger and its keys")
    try:
        given = [Key.read(text) for text in options.key]
        seen = Head.read(contents(options.seen, MAX_NOTE)[:]) if options.seen else None
        ledger = tiles(options.tiles) if options.bundle is None else bundle(options.bundle)
        audit = Audit(seen, *next(ledger))
        for step in ledger:
            audit.entry(*step)
            done += 1
        audit.finish(given)
    except (ValueError, OSError) as error:
        print(f"NOT VERIFIED; behind {done} entries that are as they should be: {str(error)!a}")
        return 1
    if audit.requests:
        others = f"; not as they were hashed: {audit.others[:20]}" if audit.others else ""
        print(f"requests to models put together: {audit.rebuilt} of {audit.requests}{others}")
    print(f"verified: {done} entries of {audit.head.origin}, under its head of {audit.head.size}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
