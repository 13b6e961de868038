"""The fast way through an audit takes nothing that the slow way would not, and finds the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chain.audit.audit import Audit
from chain.audit.clean_run import CleanRun, clean_run, in_columns, in_pieces
from chain.audit.published_check import PublishedCheck
from chain.entry.counters import Counters
from chain.entry.draft import Draft
from chain.entry.entry import ZERO_HASH, encode_body
from chain.entry.record import Columns, RawEntry
from chain.errors import BundleError
from chain.journal.sequencer import Sequencer
from chain.keys.keys import VKEYS_FILE
from chain.merkle.merkle import CompactRange, leaf_hash
from chain.tiles.tile_paths import body_file, entry_bundle
from chain.verify.verify import verify
from chain.verify.verify_tiles import verify_tiles
from tests.chain.twins.ledgers import KEYS, fill, open_ledger

ORIGIN = "weftos-aaaaaaaaaaaaaaaaaaaaaaaaaa"
COUNT = 12
AT = 5  # the entry that is meddled with
Entries = list[RawEntry]
PACKED = msgpack.Packer(use_bin_type=True).pack


def entries() -> Entries:
    """Calls of two processes, one of them left open, and what a node says besides."""
    drafts = [Draft("node.booted", {"version": "1", "pid": 1, "kept": [1, 2]})]
    for turn in range(COUNT - 2):
        kind = "tool.outcome" if turn % 2 else "tool.intent"
        body = {"turn": f"t{turn // 2}", "ordinal": "1.0", "ok": True, "none": None, "bytes": b"\x00"}
        drafts.append(Draft(kind, body, 7 + turn % 3, "pay", bytes(16), turn))
    drafts.append(Draft("erase", {"ranges": [[3, 3]], "by": "operator", "reason": "asked"}))
    return written(drafts)


def written(drafts: list[Draft]) -> Entries:
    salts = b"".join(bytes([number]) * 32 for number in range(len(drafts)))
    return [
        RawEntry(each.leaf, each.salt, each.body) for each in Sequencer(ORIGIN).take(drafts, 1, salts).entries
    ]


def columns(some: Entries) -> Columns:
    return Columns(*zip(*((each.leaf, each.salt, each.body) for each in some), strict=True))


def outcome(audit: Audit) -> tuple[Any, ...]:
    audit.finish()
    return (
        audit.findings.kept, audit.entries, audit.tree.root(), audit.roots, audit.meaning.open_calls,
        audit.meaning.erased, audit.meaning.boots, audit.counters,
    )  # fmt: skip


def both(
    some: Entries, watched: frozenset[int] = frozenset(), beside: Elsewhere | None = None
) -> tuple[Any, ...]:
    """What the audit makes of entries, the same whether they come one by one or together."""
    slow = Audit(ORIGIN, None, watched, beside)
    for number, raw in enumerate(some):
        slow.record(raw, f"place {number}")
    found = outcome(slow)
    for step in (3, 4, COUNT):
        fast = Audit(ORIGIN, None, watched, beside)
        fast.record(some[0], "place 0")  # nothing stands before the first one: it never goes the fast way
        for first in range(1, len(some), step):
            part = some[first : first + step]
            fast.records(columns(part), [f"place {first + at}" for at in range(len(part))])
        assert outcome(fast) == found
    return found


def test_what_is_right_goes_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    assert both(entries(), frozenset((2, 6, COUNT)))[0] == []
    monkeypatch.setattr(Audit, "record", None)
    some = entries()
    audit = Audit(ORIGIN)
    audit._doubtful(some[0], "here", False)
    audit.records(columns(some[1:]), ["here"] * (COUNT - 1))
    assert audit.entries == COUNT


def meddled(leaf: bytes = b"", body: bytes | None = None, **fields: Any) -> Entries:
    """A ledger made with entry ``AT`` like this: everything that is a hash of it fits it."""
    made: Entries = []
    previous = ZERO_HASH
    for number, raw in enumerate(entries()):
        values = msgpack.unpackb(raw.leaf)
        values[-1] = previous
        new = raw
        if number == AT:
            data = raw.body if body is None else body
            assert raw.salt is not None and data is not None
            values[-2] = sha256(raw.salt + data).digest()
            for name, value in fields.items():
                values[NAMES.index(name)] = value
            new = RawEntry(leaf or PACKED(values), raw.salt, data)
        else:
            new = RawEntry(PACKED(values), raw.salt, raw.body)
        previous = leaf_hash(new.leaf)
        made.append(new)
    return made


NAMES = ["format", "seq", "time_us", "node", "pid", "count", "kind", "subject", "trace", "cause", "commitment",
         "previous"]  # fmt: skip


def test_a_ledger_made_anew_is_right() -> None:
    assert both(meddled())[0] == []


@pytest.mark.parametrize(
    "fields",
    [
        {"format": 2}, {"format": True}, {"format": 1.0}, {"seq": AT + 1}, {"seq": True}, {"seq": 2**63},
        {"time_us": 0}, {"time_us": -1}, {"time_us": 2**63}, {"time_us": 2**62}, {"time_us": 1.5}, {"node": "weftos-b"},
        {"node": b"x"}, {"node": ""}, {"pid": -1}, {"pid": 2**63}, {"pid": False}, {"pid": None}, {"count": 9},
        {"count": -1}, {"kind": "Tool"}, {"kind": "tool.intent\n"}, {"kind": "tool.outcome"}, {"kind": 5},
        {"subject": "a b"}, {"subject": "x" * 65}, {"subject": "x" * 1100}, {"subject": "é"}, {"trace": b"12345"},
        {"trace": "1" * 16}, {"trace": [1]}, {"cause": AT}, {"cause": -2}, {"cause": 2.0}, {"cause": AT - 1},
        {"commitment": bytes(31)}, {"commitment": bytes(32)}, {"commitment": "x" * 32}, {"previous": bytes(32)},
        {"previous": bytes(33)}, {"previous": None}, {"subject": msgpack.ExtType(5, b"x")},
        {"time_us": msgpack.Timestamp(1)}, {"subject": {}}, {"pid": [[]]},
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_field_is_found(fields: dict[str, Any]) -> None:
    findings = both(meddled(**fields))[0]
    assert bool(findings) or fields in ({"time_us": 2**62}, {"kind": "tool.outcome"}, {"cause": AT - 1})


@pytest.mark.parametrize("field", range(len(NAMES)))
def test_a_leaf_with_a_field_too_few_or_in_a_longer_form_is_found(field: int) -> None:
    values = msgpack.unpackb(entries()[AT].leaf)
    parts = [PACKED(value) for value in values]
    value = values[field]
    if type(value) is int:
        longer = b"\xcf" + value.to_bytes(8, "big")
    elif type(value) is str:
        longer = b"\xdb" + len(value).to_bytes(4, "big") + value.encode()
    else:
        longer = b"\xc6" + len(value).to_bytes(4, "big") + value
    for leaf in (
        b"\x9c" + b"".join([*parts[:field], longer, *parts[field + 1 :]]),
        b"\x9b" + b"".join(parts[:field] + parts[field + 1 :]),
        b"\xdc\x00\x0c" + b"".join(parts),
        b"\x9d" + b"".join([*parts, b"\x00"]),
        b"\x9c" + b"".join(parts) + b"\x00",
        b"\x8c" + b"".join(parts),
    ):
        assert both(meddled(leaf))[0]


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\xc0", b"\x90", b"\x80\x80", b"\x81", b"\xc1", b"\x81\xa1a\xcd\x00\x01", b"\x82\xa1b\x01\xa1a\x02",
        b"\x82\xa1a\x01\xa1a\x02", b"\x81\xc4\x01a\x01", b"\x81\x01\x02", b"\x81\xa1a\xca\x3f\x80\x00\x00",
        b"\x81\xa1a\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", b"\x81\xa1a\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00",
        b"\x81\xa1a\xd4\x05x", b"\x81\xa1a\xd6\xff\x00\x00\x00\x01", b"\x81\xa1a\x82\xa1b\x01\xa1a\x02",
        b"\x81\xa1a\xa1\xff", b"\x81\xa1a\xd9\x01b", b"\xde\x00\x01\xa1a\x01", b"\x81\xa1a" + b"\x91" * 40 + b"\x90",
        b"\x81\xa1a" + b"\x91" * 2000 + b"\x90", b"\x82\xa1a\x01\xc4\x01b\x01", bytes(2**20 + 1),
    ],
    ids=lambda body: body[:12].hex() or "empty",
)  # fmt: skip
def test_a_body_that_is_not_canonical_is_found(body: bytes) -> None:
    (finding,) = both(meddled(body=body))[0]
    assert (finding.seq, finding.kind) == (AT, "body")


@pytest.mark.parametrize(
    "body",
    [
        b"\x80", b"\x81\xa1a\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00", b"\x81\xa1a\x82\xa1a\x01\xa1b\x02",
        b"\x81\xa1a\xcf" + b"\xff" * 8, b"\x81\xa1a\x93\x01\xc0\xc4\x00", b"\x81\xa1a" + b"\x91" * 30 + b"\x90",
    ],
    ids=lambda body: body[:12].hex(),
)  # fmt: skip
def test_any_canonical_body_is_right(body: bytes) -> None:
    assert both(meddled(body=body))[0] == []


def typed(**fields: Any) -> list[tuple[int, str, str]]:
    """What is found of a ledger whose entry ``AT``, a ``tool.intent``, has these fields."""
    return [(found.seq, found.kind, found.found) for found in both(meddled(body=encode_body(fields)))[0]]


def test_a_field_of_another_type_is_found_and_named() -> None:
    said = "tool.intent: attempt is str, must be a whole number"
    assert typed(turn="t1", ordinal="1.0", attempt="1") == [(AT, "body", said)]
    assert typed(tool=None, arguments_hash="0" * 63) == [
        (AT, "body", "tool.intent: tool is NoneType, must be text; "
                     "tool.intent: arguments_hash is str, must be 64 hexadecimal digits")
    ]  # fmt: skip


def test_an_entry_of_an_older_version_lacks_fields_and_one_of_a_later_has_more() -> None:
    assert typed(turn="t1", ordinal="1.0", attempt=1, later=[1]) == []
    assert both(meddled(kind="later.kind", body=encode_body({"turn": 7})))[0] == []


def changed_bytes() -> Iterator[Entries]:
    for part in ("leaf", "salt", "body"):
        for at in range(len(getattr(entries()[AT], part))):
            for change in (0x01, 0x80):
                some = entries()
                values = {name: bytearray(getattr(some[AT], name)) for name in ("leaf", "salt", "body")}
                values[part][at] ^= change
                some[AT] = RawEntry(*(bytes(values[name]) for name in ("leaf", "salt", "body")))
                yield some


def test_every_changed_byte_is_found() -> None:
    for some in changed_bytes():
        assert {finding.seq for finding in both(some)[0]} & {AT, AT + 1}


@pytest.mark.parametrize(
    "change",
    [
        lambda some: [*some[:AT], *some[AT + 1 :]],
        lambda some: [*some[:AT], some[AT], *some[AT:]],
        lambda some: [*some[:AT], some[AT + 1], some[AT], *some[AT + 2 :]],
        lambda some: [*some[:AT], RawEntry(some[AT].leaf, None, None), *some[AT + 1 :]],
        lambda some: [*some[:AT], RawEntry(some[AT].leaf, some[AT + 1].salt, some[AT].body), *some[AT + 1 :]],
        lambda some: [*some[:AT], RawEntry(some[AT].leaf, some[AT].salt, some[AT - 1].body), *some[AT + 1 :]],
    ],
    ids=["left out", "twice", "swapped", "erased", "another salt", "another body"],
)
def test_entries_that_do_not_follow_each_other_are_found(change: Callable[[Entries], Entries]) -> None:
    assert both(change(entries()))[0]


def test_an_erased_body_that_an_entry_names_is_right() -> None:
    some = entries()
    some[3] = RawEntry(some[3].leaf, None, None)
    assert both(some)[0] == []


class Elsewhere:
    """Says that the body of the entry ``AT`` is missing elsewhere."""

    def follow(self, seq: int, raw: RawEntry, hash_: bytes) -> bool:
        return seq == AT

    def follow_run(self, seq: int, run: CleanRun) -> set[int]:
        return {AT} & {*range(seq, seq + len(run.hashes))}


def test_a_body_that_is_missing_elsewhere_closes_the_call_of_its_cause() -> None:
    drafts = [Draft("node.booted", {}) for _ in range(AT - 1)]
    drafts += [Draft("tool.intent", {"turn": "t1", "ordinal": "1"}, 7, "pay", bytes(16), -1)]
    drafts += [Draft("tool.outcome", {"turn": "t2", "ordinal": "9"}, 7, "pay", bytes(16), AT - 1)]
    drafts += [Draft("erase", {"ranges": [[AT, AT]]})] * 6
    assert both([*written(drafts)], beside=Elsewhere())[:5:4] == ([], {})


def test_a_salt_of_another_length_is_no_run() -> None:
    raw = entries()[0]
    assert clean_run(columns([raw]), 0, ORIGIN, ZERO_HASH) is not None
    assert clean_run(Columns([raw.leaf], [bytes(31)], [raw.body]), 0, ORIGIN, ZERO_HASH) is None
    assert clean_run(columns([raw]), 0, "Weftos", ZERO_HASH) is None
    assert clean_run(Columns([], [], []), 0, ORIGIN, ZERO_HASH) is None


@given(st.integers(0, 40), st.lists(st.integers(0, 40), max_size=4))
def test_leaves_added_together_make_the_same_tree(before: int, sizes: list[int]) -> None:
    one, together = CompactRange(), CompactRange()
    for tree in (one, together):
        for number in range(before):
            tree.append(leaf_hash(bytes([number])))
    for size in sizes:
        leaves = [leaf_hash(bytes([size, number])) for number in range(size)]
        for leaf in leaves:
            one.append(leaf)
        together.extend(leaves)
        assert (one.size, one.nodes) == (together.size, together.nodes)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=8),
    st.booleans(),
)
def test_counters_take_together_what_they_take_one_by_one(
    some: list[tuple[int, int, int]], begun: bool
) -> None:
    one, together = Counters(), Counters()
    for counters in (one, together):
        if not begun:
            counters.forget()
        assert counters.take(2, 1, 0)
    right = sum(one.take(*each) for each in some) == len(some)
    before = (together.time_us, dict(together.next))
    assert together.take_all(*zip(*some, strict=True)) == right
    assert (one if right else None) == (together if right else None)
    assert right or before == (together.time_us, together.next)


def test_entries_are_handed_out_some_at_a_time_and_all_before_an_error() -> None:
    long = RawEntry(b"l", bytes(32), bytes(2**22))

    def coming() -> Iterator[RawEntry]:
        yield from (*[RawEntry(b"l", None, None)] * 70, long, *entries()[:2])
        raise BundleError("cut off")

    sizes = []
    with pytest.raises(BundleError):
        for each in in_columns(coming()):
            sizes.append(len(each.leaves))  # what came before the error counts
    assert sizes == [64, 7, 2]


def with_keys(data: Path) -> Path:
    (data / "keys").mkdir()
    (data / "keys" / VKEYS_FILE).write_text(f"{KEYS.ed25519.text}\n{KEYS.mldsa.text}\n")
    return data


def test_long_bodies_are_decoded_some_at_a_time() -> None:
    short, long = [RawEntry(b"l", bytes(32), b"b")] * 100, [RawEntry(b"l", bytes(32), bytes(2**19))] * 5
    assert [len(piece.leaves) for piece in in_pieces(columns(short))] == [100]
    assert [len(piece.leaves) for piece in in_pieces(columns(long))] == [2, 2, 1]
    leaves = [RawEntry(bytes(2**19), None, None)] * 3
    assert [len(piece.leaves) for piece in in_columns(leaves)] == [2, 1]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of three full bundles, in groups that do not end where the bundles do."""
    data = with_keys(tmp_path_factory.mktemp("published"))
    fill(data, 32, per_group=24)
    return data


@pytest.fixture(scope="module")
def long_bodies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two full bundles whose bodies, with 8 MiB each, are read in windows."""
    data = with_keys(tmp_path_factory.mktemp("long"))

    async def run() -> None:
        ledger = open_ledger(data)
        ledger.start(asyncio.get_running_loop())
        for _ in range(32):
            await ledger.commit(
                [Draft("message.refused", {"why": "w" * 32_000})] * 16, durable=True
            ).durable()
        await ledger.close()

    asyncio.run(run())
    return data


@pytest.mark.parametrize(("which", "entries"), [("published", 768), ("long_bodies", 512)])
def test_full_bundles_are_compared_as_bytes(
    which: str, entries: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    data: Path = request.getfixturevalue(which)
    one_by_one: list[int] = []
    compare = PublishedCheck._compare_entry

    def counted(self: PublishedCheck, seq: int, *rest: Any) -> Any:
        one_by_one.append(seq)
        return compare(self, seq, *rest)

    monkeypatch.setattr(PublishedCheck, "_compare_entry", counted)
    report = verify(data)
    assert (report.findings, report.entries, report.published) == ([], entries, entries)
    assert not {*one_by_one} & {*range(256, 768)}  # the first bundle has begun one by one


@pytest.mark.parametrize(("bundle", "path"), [(0, body_file), (1, entry_bundle), (2, body_file)])
def test_a_change_anywhere_in_a_full_bundle_is_found(
    published: Path, path: Callable[[int], str], bundle: int
) -> None:
    file = published / "ledger" / path(bundle)
    right = file.read_bytes()
    places = [*range(4), *range(5, len(right), len(right) // 40), *range(len(right) - 4, len(right))]
    try:
        for at in places:
            file.write_bytes(right[:at] + bytes([right[at] ^ 1]) + right[at + 1 :])
            assert verify(published).findings, at
        for wrong in (right[:-1], right + b"\x00", b"", right[: len(right) // 2]):
            file.write_bytes(wrong)
            assert verify(published).findings
        if path is body_file:  # the first body gone here, and whole in the journal
            length = 4 + int.from_bytes(right[:4], "big")
            file.write_bytes(bytes(4) + right[length:])
            (finding,) = verify(published).findings
            assert (finding.seq, finding.kind) == (bundle * 256, "erased")
            assert [each.seq for each in verify_tiles(published / "ledger").findings] == [bundle * 256]
    finally:
        file.write_bytes(right)
    assert verify(published).findings == []


def test_a_change_in_long_bodies_is_found(long_bodies: Path) -> None:
    file = long_bodies / "ledger" / body_file(1)
    right = file.read_bytes()
    half = 2**22
    for wrong in (
        *(
            right[:at] + bytes([right[at] ^ 1]) + right[at + 1 :]
            for at in (3, half - 1, half, half + 2, len(right) - 1)
        ),
        right + b"\x00",
        right[:-1],
        right[:half],
    ):
        file.write_bytes(wrong)
        assert verify(long_bodies).findings
    file.write_bytes(right)
    assert verify(long_bodies).findings == []


def test_bytes_behind_the_last_body_are_found(tmp_path: Path) -> None:
    fill(with_keys(tmp_path), 3)
    *_, piece = sorted((tmp_path / "ledger" / "tile" / "bodies").rglob("*-*"))
    piece.write_bytes(piece.read_bytes() + b"\x00")
    (finding,) = verify(tmp_path).findings
    assert "goes on behind" in finding.found
