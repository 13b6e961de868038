"""A receipt file proves its entry under both keys of its log, and nothing changed in it does."""

import base64
from dataclasses import replace

import msgpack
import pytest

from chain.entry.entry import MAX_BODY_BYTES, ZERO_HASH, Entry, commit_body, encode_body, encode_entry
from chain.errors import ChainError, NoteError, ReceiptError
from chain.keys.keys import Keys
from chain.merkle import merkle
from chain.merkle.head import TreeHead
from chain.notes.note import join_note
from chain.proofs.tlog_proof import MAX_FILE_BYTES, MAX_HASHES, TlogProof

KEYS = Keys(b"e" * 32, b"m" * 32)
OTHER = Keys(b"f" * 32, b"n" * 32)
ROTATED = Keys(b"g" * 32, b"o" * 32, KEYS.pairs)
SALT = b"s" * 32
SIZE = 11


def body_of(seq: int) -> bytes:
    return encode_body({"to": "/user/ada", "why": f"number {seq}"})


def entry(seq: int, node: str = KEYS.origin) -> Entry:
    commitment = commit_body(SALT, body_of(seq))
    return Entry(seq, seq, node, 1, seq, "message.refused", "", b"", -1, commitment, ZERO_HASH)


LEAVES = [encode_entry(entry(seq)) for seq in range(SIZE)]


def signed(head: TreeHead, *signers: Keys) -> bytes:
    lines = [
        line for keys in signers for line in (keys.ed25519_line(head.text()), keys.mldsa_line(head.text()))
    ]
    return join_note(head.text(), *lines)


def proof_of(
    index: int,
    *,
    leaves: list[bytes] = LEAVES,
    origin: str = KEYS.origin,
    signers: tuple[Keys, ...] = (KEYS,),
    with_body: bool = True,
) -> TlogProof:
    hashes = [merkle.leaf_hash(leaf) for leaf in leaves]
    note = signed(TreeHead(origin, len(leaves), merkle.root(hashes)), *signers)
    path = tuple(merkle.inclusion_path(index, hashes))
    held = (SALT, body_of(index)) if with_body else (None, None)
    return TlogProof(leaves[index], index, path, note, *held)


PROOF = proof_of(5)
DATA = PROOF.encode()
BOTH = KEYS.pair.both


@pytest.mark.parametrize("index", range(SIZE))
@pytest.mark.parametrize("with_body", [True, False])
def test_a_file_survives_its_encoding_and_proves_its_entry(index: int, with_body: bool) -> None:
    made = proof_of(index, with_body=with_body)
    read = TlogProof.decode(made.encode())
    assert read == made
    proven = read.check(BOTH)
    assert (proven.entry, proven.head.size) == (entry(index), SIZE)
    assert proven.body == ({"to": "/user/ada", "why": f"number {index}"} if with_body else None)


def test_the_file_is_the_text_that_the_specification_describes() -> None:
    lines = DATA.decode().split("\n")
    assert lines[0] == "c2sp.org/tlog-proof@v1"
    assert msgpack.unpackb(base64.b64decode(lines[1].removeprefix("extra "))) == [
        1,
        LEAVES[5],
        SALT,
        body_of(5),
    ]
    assert lines[2] == "index 5"
    assert [base64.b64decode(line) for line in lines[3:7]] == list(PROOF.hashes)
    assert lines[7:10] == ["", KEYS.origin, "11"]
    assert DATA.endswith(b"\n\n" + PROOF.note)


def test_a_tree_of_one_entry_needs_no_hashes() -> None:
    alone = proof_of(0, leaves=LEAVES[:1])
    assert alone.hashes == ()
    assert TlogProof.decode(alone.encode()).check(BOTH).entry == entry(0)


def test_every_changed_byte_of_the_file_is_refused() -> None:
    for at in range(len(DATA)):
        changed = DATA[:at] + bytes([DATA[at] ^ (1, 0x20)[at % 2]]) + DATA[at + 1 :]
        with pytest.raises(ChainError):
            TlogProof.decode(changed).check(BOTH)


def test_every_beginning_of_the_file_is_refused() -> None:
    for end in range(len(DATA)):
        with pytest.raises(ChainError):
            TlogProof.decode(DATA[:end]).check(BOTH)


@pytest.mark.parametrize("which", [0, 1])
def test_a_stripped_signature_line_or_a_key_not_given_is_refused(which: int) -> None:
    lines = PROOF.note.splitlines(keepends=True)
    stripped = replace(PROOF, note=b"".join(line for at, line in enumerate(lines) if at != 4 + which))
    name = ("Ed25519", "ML-DSA-65")[which]
    with pytest.raises(ReceiptError, match=f"no {name} signature"):
        stripped.check(BOTH)
    with pytest.raises(ReceiptError, match=f"no {name} signature"):
        PROOF.check([key for at, key in enumerate(BOTH) if at != which])


def test_keys_of_somebody_else_prove_nothing() -> None:
    with pytest.raises(ReceiptError, match="no Ed25519 signature of a key you gave"):
        PROOF.check(OTHER.pair.both)
    with pytest.raises(ReceiptError, match="no Ed25519"):
        PROOF.check([])


def test_the_keys_that_signed_are_needed_not_older_or_newer_ones() -> None:
    later = proof_of(5, signers=(ROTATED,))
    with pytest.raises(ReceiptError, match="by the keys that were in force then"):
        later.check(BOTH)
    assert later.check(ROTATED.pair.both).entry.seq == 5
    assert later.check([*BOTH, *ROTATED.pair.both]).entry.seq == 5


def test_a_wrong_signature_beside_good_ones_spoils_the_file() -> None:
    head = PROOF.note.partition(b"\n\n")[0] + b"\n"
    wrong = ROTATED.ed25519_line(b"something else\n")
    note = join_note(head, KEYS.ed25519_line(head), KEYS.mldsa_line(head), wrong)
    spoiled = replace(PROOF, note=note)
    assert spoiled.check(BOTH).entry.seq == 5
    with pytest.raises(NoteError, match="does not match"):
        spoiled.check([*BOTH, ROTATED.ed25519])


def test_a_log_that_the_signers_are_not_named_after_is_refused() -> None:
    foreign = [encode_entry(entry(seq, OTHER.origin)) for seq in range(SIZE)]
    with pytest.raises(ReceiptError, match="the key belongs to"):
        proof_of(5, leaves=foreign, origin=OTHER.origin).check(BOTH)


def test_a_leaf_of_another_place_or_node_is_refused() -> None:
    moved = [*LEAVES[:5], LEAVES[4], *LEAVES[6:]]
    with pytest.raises(ReceiptError, match="its leaf is entry 4"):
        proof_of(5, leaves=moved).check(BOTH)
    foreign = [*LEAVES[:5], encode_entry(entry(5, OTHER.origin)), *LEAVES[6:]]
    with pytest.raises(ReceiptError, match=f"of {OTHER.origin}"):
        proof_of(5, leaves=foreign).check(BOTH)


def test_a_body_that_the_entry_does_not_commit_to_is_refused() -> None:
    with pytest.raises(ReceiptError, match="its body is not the one"):
        replace(PROOF, body=body_of(6)).check(BOTH)
    with pytest.raises(ReceiptError, match="its body is not the one"):
        replace(PROOF, salt=b"t" * 32).check(BOTH)


def extra(value: object) -> bytes:
    return b"extra " + base64.b64encode(msgpack.packb(value))


@pytest.mark.parametrize(
    ("line", "text", "words"),
    [
        (0, b"c2sp.org/tlog-proof@v2", "must begin with c2sp.org/tlog-proof@v1"),
        (1, None, "does not carry the entry"),
        (1, b"extra", "does not carry the entry"),
        (1, b"extra  AQ==", "not canonical base64"),
        (1, b"extra AR==", "not canonical base64"),
        (1, b"extra wQ==", "not msgpack"),
        (1, extra([2, b"x", None, None, "more"]), "has format 2, this version reads format 1"),
        (1, extra([True, b"x", None, None]), "not canonical|not of the form"),
        (1, extra([1, b"x", None, b"body"]), "not of the form"),
        (1, extra([1, b"x", b"short", b"body"]), "not of the form"),
        (1, extra([1, "text", None, None]), "not of the form"),
        (1, extra({"1": 2}), "not of the form"),
        (1, b"extra " + base64.b64encode(b"\x94\xcc\x01\xc4\x01x\xc0\xc0"), "not canonical"),
        (1, b"extra " + base64.b64encode(b"\x91" * 100_000), "msgpack|form"),
        (2, None, "is not `index`"),
        (2, b"index 05", "must be a plain decimal"),
        (2, b"index -1", "must be a plain decimal"),
        (2, b"index \xc2\xb2", "must be a plain decimal"),
        (2, b"index 9223372036854775807", "must be a plain decimal"),
        (2, b"index " + b"9" * 5000, "must be a plain decimal"),
        (3, base64.b64encode(bytes(31)), "not a hash"),
        (3, b"!" * 44, "not a hash"),
        (3, b"\n".join([base64.b64encode(bytes(32))] * (MAX_HASHES + 1)), "limit 63"),
    ],
    ids=str,
)
def test_a_file_of_another_form_is_refused_in_words(line: int, text: bytes | None, words: str) -> None:
    lines = DATA.split(b"\n")
    lines[line : line + 1] = [] if text is None else [text]
    with pytest.raises(ReceiptError, match=words):
        TlogProof.decode(b"\n".join(lines))


def test_carriage_returns_are_refused() -> None:
    with pytest.raises(ReceiptError):
        TlogProof.decode(DATA.replace(b"\n", b"\r\n"))


def test_a_file_without_a_checkpoint_is_refused() -> None:
    head = DATA.partition(b"\n\n")[0]
    for cut in (head, head + b"\n", head + b"\n\n"):
        with pytest.raises(ReceiptError, match="no checkpoint"):
            TlogProof.decode(cut)


def test_the_limits_hold_the_largest_entry_and_no_more() -> None:
    largest = replace(PROOF, leaf=bytes(1024), body=bytes(MAX_BODY_BYTES))
    assert TlogProof.decode(largest.encode()) == largest
    with pytest.raises(ReceiptError, match="limit"):
        TlogProof.decode(replace(PROOF, body=bytes(MAX_BODY_BYTES + 2048)).encode())
    with pytest.raises(ReceiptError, match=f"limit {MAX_FILE_BYTES}"):
        TlogProof.decode(bytes(MAX_FILE_BYTES + 1))
