"""Every published answer that weftos is held to, counted: ``python -m tests.chain.vectors``. Exits 1 on a difference.

Each case of each file, each proper prefix of each verifier key, and each place of it with each other byte (with
``--quick``: with four others).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from chain.errors import ChainError
from chain.keys.keys import Keys
from chain.merkle import merkle
from chain.merkle.proof import verify_consistency, verify_inclusion
from chain.notes.note import COSIGNATURE_ML_DSA_44, ED25519, VerifierKey, verify, verify_ml_dsa_65
from tests.places import SHARED
from tools import verify_weftos

VECTORS = SHARED / "vectors"  # data of others: read where they lie, beside the checkout
KEYS = Keys(b"e" * 32, b"m" * 32)
EVERY, QUICK = range(1, 256), (1, 32, 64, 128)  # what a byte is changed by


@dataclass(frozen=True)
class Row:
    """How many cases there must be, there were, and came out as published."""

    name: str
    expected: int
    cases: int
    right: int

    @property
    def good(self) -> bool:
        return self.expected == self.cases == self.right


def row(name: str, expected: int, results: Iterator[bool]) -> Row:
    outcomes = list(results)
    return Row(name, expected, len(outcomes), sum(outcomes))


def read(name: str) -> Any:
    return json.loads((VECTORS / name).read_text())


def accepts(check: Callable[[], object], *refusals: type[Exception]) -> bool:
    """Whether ``check`` returns; False when it raises one of ``refusals``."""
    try:
        check()
    except refusals:
        return False
    return True


def tree_rows() -> Iterator[Row]:
    known = read("merkle/rfc6962_kat.json")
    leaves = [merkle.leaf_hash(bytes.fromhex(leaf)) for leaf in known["leaves_hex"]]
    roots = [bytes.fromhex(text) for text in (known["empty_root"], *known["roots_hex_by_size_1_to_8"])]
    inclusion, consistency = known["inclusion"][1:], known["consistency"]  # the first is a placeholder

    def path(case: dict[str, Any], field: str) -> list[bytes]:
        return [bytes.fromhex(item) for item in case[field]]

    def included(case: dict[str, Any]) -> None:
        index, size = case["leaf_1based"] - 1, case["size"]
        proof = path(case, "path_hex")
        verify_inclusion(index=index, size=size, leaf_hash=leaves[index], proof=proof, root=roots[size])

    def consistent(case: dict[str, Any]) -> None:
        size1, size2 = case["size1"], case["size2"]
        proof = path(case, "proof_hex")
        verify_consistency(size1=size1, size2=size2, root1=roots[size1], root2=roots[size2], proof=proof)

    made = [
        merkle.inclusion_path(case["leaf_1based"] - 1, leaves[: case["size"]]) == path(case, "path_hex")
        for case in inclusion
    ] + [
        merkle.consistency_path(case["size1"], leaves[: case["size2"]]) == path(case, "proof_hex")
        for case in consistency
    ]
    yield row("RFC 6962: roots of 0 to 8 leaves", 9, (merkle.root(leaves[:n]) == roots[n] for n in range(9)))
    yield row("RFC 6962: proofs that are made", 9, iter(made))
    proven = (accepts(partial(included, case), ChainError) for case in inclusion)
    yield row("RFC 6962: inclusion proofs that verify", 5, proven)
    proven = (accepts(partial(consistent, case), ChainError) for case in consistency)
    yield row("RFC 6962: consistency proofs that verify", 4, proven)


def note_rows(flips: Sequence[int]) -> Iterator[Row]:
    known = read("notes/notes.json")
    vkeys = known["vkey_parse"]

    def signed(case: dict[str, Any]) -> bool:
        keys = [VerifierKey.parse(case["vkey"])]
        return accepts(lambda: verify(case["note"].encode(), keys), ChainError)

    def is_read(vkey: str) -> bool:
        return accepts(lambda: VerifierKey.parse(vkey), ChainError)

    yield row("C2SP: signed notes", 1, (signed(case) == case["valid"] for case in known["signed_note"]))
    yield row("C2SP: verifier keys, good and bad", 8, (is_read(case["vkey"]) == case["ok"] for case in vkeys))
    good = [case["vkey"] for case in vkeys if case["ok"]] + [KEYS.ed25519.text, KEYS.mldsa.text]
    yield row(
        "their proper prefixes, refused",
        size(good),
        (not is_read(p) for vkey in good for p in prefixes(vkey)),
    )
    # The published cosigner key of this type has an id that does not follow from it. It verifies nothing here.
    checked = [vkey for vkey in good if VerifierKey.parse(vkey).type != COSIGNATURE_ML_DSA_44]
    changed = (not is_read(c) for vkey in checked for c in changes(vkey, flips))
    yield row("their one-byte changes, refused", len(flips) * size(checked), changed)


def script_rows(flips: Sequence[int]) -> Iterator[Row]:
    """The same of the sceptic's script, which has its own reader of keys."""

    def is_read(vkey: str) -> bool:
        return accepts(lambda: verify_weftos.Key.read(vkey), ValueError)

    own = (KEYS.ed25519.text, KEYS.mldsa.text)
    yield row("the sceptic's script: verifier keys", 2, map(is_read, own))
    yield row(
        "their proper prefixes, refused", size(own), (not is_read(p) for vkey in own for p in prefixes(vkey))
    )
    changed = (not is_read(c) for vkey in own for c in changes(vkey, flips))
    yield row("their one-byte changes, refused", len(flips) * size(own), changed)


def size(vkeys: Sequence[str]) -> int:
    return sum(map(len, vkeys))


def prefixes(text: str) -> Iterator[str]:
    return (text[:end] for end in range(len(text)))


def changes(text: str, flips: Sequence[int]) -> Iterator[str]:
    """``text`` with each of its bytes changed by each of ``flips``."""
    for at, byte in enumerate(text.encode()):
        for flip in flips:
            yield f"{text[:at]}{chr(byte ^ flip)}{text[at + 1 :]}"


def signature_rows() -> Iterator[Row]:
    for name, file, total, valid in (
        ("Ed25519", "ed25519_test.json", 151, 88), ("ML-DSA-65", "mldsa_65_verify_test.json", 210, 79),
    ):  # fmt: skip
        cases = [(case["result"] == "valid", seen) for case, seen in wycheproof(file)]
        yield row(f"Wycheproof {name}: valid, accepted", valid, (seen for wanted, seen in cases if wanted))
        refused = (not seen for wanted, seen in cases if not wanted)
        yield row(f"Wycheproof {name}: invalid, refused", total - valid, refused)


def wycheproof(file: str) -> Iterator[tuple[dict[str, Any], bool]]:
    """Each case, and whether our code accepts it."""
    for group in read(f"wycheproof/{file}")["testGroups"]:
        key = group["publicKey"]
        for case in group["tests"]:
            message, signature = bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"])
            if file.startswith("ed25519"):
                ours = VerifierKey("wycheproof", ED25519, bytes.fromhex(key["pk"]))
                accepted = ours.verify(message, signature)
                theirs = verify_weftos.Key.read(ours.text).signed(message, signature, "")
                yield (
                    case,
                    accepted if accepted is theirs else case["result"] != "valid",
                )  # of one mind, or wrong
            else:
                context = bytes.fromhex(case.get("ctx", ""))
                yield case, verify_ml_dsa_65(bytes.fromhex(key), message, signature, context)


def rows(flips: Sequence[int]) -> Iterator[Row]:
    yield from tree_rows()
    yield from note_rows(flips)
    yield from script_rows(flips)
    yield from signature_rows()


def main(*options: str) -> int:
    if not VECTORS.is_dir():
        print("the public vectors are not beside this checkout (../shared/vectors)", file=sys.stderr)
        return 2
    good = True
    print(f"{'':44} {'expected':>9} {'cases':>9} {'right':>9}")
    for one in rows(QUICK if "--quick" in options else EVERY):
        mark = "" if one.good else "  DIFFERS"
        print(f"{one.name:44} {one.expected:9,} {one.cases:9,} {one.right:9,}{mark}", flush=True)
        good = good and one.good
    print("all as expected" if good else "NOT as expected")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
