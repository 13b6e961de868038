"""Whatever commit takes, a replay and the snapshot's reader take; what cannot be taken back is refused first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings

from chain.entry.draft import Draft, StateChange
from chain.entry.kinds import KINDS
from chain.entry.record import encode_state_record
from chain.errors import EntryError, ReplayError
from kernel.errors import Invalid
from kernel.signals import Signals
from kernel.state.record_forms import DEEPEST, FORMS, SESSION, read_change
from kernel.state.recorder import Recorder
from kernel.state.state import HEARS, State
from kernel.values import MAX_DEPTH, plain, sha256_hex
from tests.chain.twins.ledgers import whole
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.committed import LIMITS, RUNS, MemoryLedger, check_run
from tests.kernel.twins.kernel_twin import Twin

NONE_HASH = sha256_hex("")


@settings(
    deadline=None, max_examples=120, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(RUNS)
def test_what_commit_takes_replay_and_snapshot_take(run: list[list[Draft | StateChange]]) -> None:
    check_run(run)


def test_every_kind_that_the_state_applies_has_a_form_of_fields_that_it_has() -> None:
    assert set(FORMS) == set(HEARS)
    for kind, row in FORMS.items():
        read = {*row.fields, *row.earlier}
        assert {*row.rules} <= read <= {*KINDS[kind].fields}, kind


def recorder() -> Recorder:
    return Recorder(MemoryLedger(), State(*LIMITS), Signals())  # type: ignore[arg-type]  # a twin


def test_an_entry_that_cannot_be_applied_is_refused_in_words() -> None:
    body = {"turn": "t1", "status": "well", "reply": "", "reply_hash": NONE_HASH, "call": "", "stages": "[]"}
    with pytest.raises(EntryError, match=r"turn\.ended cannot be applied: status is 'well'"):
        recorder().commit([Draft("turn.ended", body)])


@pytest.mark.parametrize(
    ("kind", "wrong", "said"),
    [
        ("turn.ended", {"turn": ["t1"]}, "turn.ended: turn is list, must be text"),
        ("turn.ended", {"status": None}, "turn.ended: status is NoneType, must be text"),
        ("turn.ended", {"reply_hash": "x"}, "turn.ended: reply_hash is str, must be 64 hexadecimal digits"),
        ("peer.refused", {"more": "1"}, "peer.refused: more is str, must be a whole number"),
        ("tool.verdict", {"reasons": [7]}, "tool.verdict: reasons is list, must be a list of text"),
    ],
)
def test_an_entry_whose_field_has_another_type_is_refused_before_anything_is_written(
    kind: str, wrong: dict[str, Any], said: str
) -> None:
    writer = recorder()
    with pytest.raises(EntryError, match=said):
        writer.commit([Draft("node.disk_free", {}), whole(kind, wrong)])
    assert writer.ledger.next_seq == 0


def test_what_is_read_back_is_held_to_what_the_reducer_needs_and_to_no_more() -> None:
    state = recorder().state
    asked = {"turn": "t1", "ordinal": "0.0", "call_hash": "of another form", "op": "now", "value": 1.5}
    state.apply_entry("sys.value", asked, 0, 0, b"")
    state.apply_entry("turn.ended", {"turn": "t1", "status": "ok", "reply_hash": 7}, 1, 0, b"")
    for kind, body, said in (
        ("turn.ended", {"turn": ["t1"], "status": "ok"}, r"turn is \['t1'\]"),
        ("sys.value", {**asked, "call_hash": 7}, "call_hash is 7"),
        ("process.exited", {"address": "/a", "pid": -1, "reason": "", "detail": ""}, "pid is -1"),
        ("process.exited", {"address": "/a", "pid": 1, "reason": "", "detail": "", "turn": 7}, "turn is 7"),
    ):
        with pytest.raises(EntryError, match=f"{kind} cannot be applied: {said}"):
            state.apply_entry(kind, body, 2, 0, b"")


def test_an_entry_has_the_fields_of_its_kind_and_no_others_when_it_is_written_but_older_ones_are_read() -> (
    None
):
    all_of_it = {
        "turn": "t1",
        "status": "ok",
        "reply": "",
        "reply_hash": NONE_HASH,
        "call": "",
        "stages": "[]",
    }
    for body, said in (
        ({"turn": "t1", "status": "ok", "reply": ""}, "turn.ended lacks the field reply_hash"),
        ({**all_of_it, "more": 1}, "turn.ended has no field more"),
    ):
        writer = recorder()
        with pytest.raises(EntryError, match=said):
            writer.commit([Draft("node.disk_free", {}), Draft("turn.ended", body)])
        assert writer.ledger.next_seq == 0
        writer.state.apply_entry("turn.ended", body, 0, 0, b"")
    assert recorder().commit([Draft("turn.ended", all_of_it)]).entries
    with pytest.raises(EntryError, match="the field 'status' is missing"):
        recorder().state.apply_entry("turn.ended", {"turn": "t1"}, 0, 0, b"")


@pytest.mark.parametrize(
    ("table", "key", "value", "said"),
    [
        ("pids", "-1", b"", "no number below"),
        ("pids", "9" * 19, b"", "no number below"),
        ("session", "/a", b"\x90", "cannot be applied"),
        ("session", "/a\nmain", b"\xc1", "cannot be applied"),
        ("session", "/a\nmain", b"\x91\x01", "no list of maps"),
        ("inbox", "o\n1", b"\x92\x01\x02", "an id and a reason"),
        ("numbering", "o", b"\xff", "is a number"),
        ("numbering", "o", None, "is not forgotten"),
        ("erasing", "x", b"\x90", "no number"),
        ("doc", "d1", b"\x80", "not of the form"),
        ("other", "k", b"", "no table 'other'"),
    ],
)
def test_a_state_record_that_cannot_be_applied_is_refused_in_words(
    table: str, key: str, value: bytes | None, said: str
) -> None:
    with pytest.raises(EntryError, match=said):
        recorder().commit([StateChange(table, key, value)])


@pytest.mark.parametrize("key", ["\ud800", 7, None])
def test_a_state_record_that_the_journal_would_not_give_back_is_refused(key: Any) -> None:
    with pytest.raises(EntryError, match="no state record"):
        encode_state_record("session", key, b"")


def test_what_is_kept_is_what_canonical_json_says() -> None:
    assert plain([{1: "x"}, {"a": (1, 2)}], "it", 100) == [{"1": "x"}, {"a": [1, 2]}]
    deep: Any = 0
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert plain(deep, "it", 1000) == deep
    with pytest.raises(Invalid, match="it is nested deeper than 64"):
        plain([deep], "it", 1000)
    with pytest.raises(Invalid, match="it of 7 bytes, limit 6"):
        plain("é" * 2 + "a", "it", 6)
    for never in ({1: "x", "1": "y"}, float("nan"), b"x", "\ud800", {(1, 2): 3}):
        with pytest.raises(Invalid, match="not expressible as JSON"):
            plain(never, "it", 100)


def nested(levels: int) -> bytes:
    """A record of table session whose lists and maps are ``levels`` deep."""
    return b"\x91\x81\xa1a" + b"\x91" * (levels - 3) + b"\x90"


def test_as_deep_as_msgpack_writes_and_no_deeper() -> None:
    change = read_change(SESSION, "/a\nmain", nested(DEEPEST))
    assert change is not None
    assert msgpack.packb([change.value[0]])
    with pytest.raises(EntryError, match="nested deeper than 510"):
        read_change(SESSION, "/a\nmain", nested(DEEPEST + 1))


# -- on a kernel -----------------------------------------------------------------------------------------------------

REMEMBERED = [[{1: "x"}], [{"role": "user", "n": {2: [{3: (4, {True: None})}]}}], [{1.5: {None: 1}}]]


@pytest.mark.parametrize("remember", REMEMBERED)
def test_a_behaviour_may_remember_keys_that_are_not_text_and_the_node_boots_again(
    tmp_path: Path, remember: list[Any]
) -> None:
    async def before(twin: Twin) -> None:
        await twin.spawn("ada")
        mail = await twin.send("ada")
        twin.finish(await twin.delivery(), "done", remember)
        assert (await twin.end_of(mail))["status"] == "ok"

    async def after(twin: Twin) -> None:
        await twin.send("ada")
        assert (await twin.delivery()).history == plain(remember, "it", 1000)

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_what_cannot_be_kept_ends_the_turn_with_an_error_and_the_process_goes_on(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await twin.spawn("ada")
        deep: Any = {}
        for _ in range(MAX_DEPTH):
            deep = {"a": deep}
        for remember in ([deep], [{1: "x", "1": "y"}], [{"a": b"bytes"}]):
            mail = await twin.send("ada")
            twin.finish(await twin.delivery(), "done", remember)
            end = await twin.end_of(mail)
            assert (end["status"], "result was refused" in end["reply"]) == ("error", True)

    on_twin(tmp_path, body)


def _write_as_before(twin: Twin, key: str, value: bytes) -> None:
    """A state record as version 0.1 wrote it: nobody asked whether it can be read."""
    twin.ledger.commit([StateChange(SESSION, key, value)], durable=True)


def test_a_journal_that_was_broken_this_way_heals(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await twin.spawn("ada")
        _write_as_before(twin, "/user/ada\nmain", msgpack.packb([{1: "x"}, {"y": {2.5: None}}]))

    async def after(twin: Twin) -> None:
        await twin.send("ada")
        assert (await twin.delivery()).history == [{"1": "x"}, {"y": {"2.5": None}}]

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_a_replay_that_fails_names_the_record_its_segment_and_what_to_do(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await twin.spawn("ada")
        _write_as_before(twin, "/user/ada\nmain", b"\xc1")

    async def after(twin: Twin) -> None:
        raise AssertionError("it must not boot")

    on_twin(tmp_path, before)
    with pytest.raises(ReplayError) as refused:
        on_twin(tmp_path, after)
    assert refused.value.file == "0000000000000000.wj"
    said = str(refused.value)
    assert f"record {refused.value.place} of group {refused.value.group} (0000000000000000.wj, byte " in said
    assert "a state record of table 'session', cannot be taken into the node's state" in said
    assert "The ledger itself is whole" in said
    assert "copy of the data directory" in said
