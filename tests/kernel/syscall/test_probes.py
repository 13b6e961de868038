"""Effect ids, and what becomes of a doubt when the tool can be asked; on a real ledger with a twin for the workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kernel.bounds import Bounds
from kernel.errors import NotFound
from kernel.syscall.probes import Said, new_effect_id, said_by
from kernel.worker.workers import WorkerCall, WorkerLeft, WorkerLost, WorkerResult, WorkerUnavailable
from tests.kernel.syscall.test_open_calls import cut, filled, lost, outcomes, until
from tests.kernel.syscall.test_tool_calls import turn_of_ada
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.disks import FullDisk, SlowDisk
from tests.kernel.twins.kernel_twin import Delivery, Twin

TOOLS = ("book", "pay", "ping", "file_write")
HASH = "0" * 64


def result(status: Any, text: str = "", landed: bool | None = None) -> WorkerResult:
    return WorkerResult(status, text, False, HASH, len(text), landed)


def landed(call: WorkerCall) -> WorkerResult:
    return result("ok", "booked: seat 7", True)


def not_landed(call: WorkerCall) -> WorkerResult:
    return result("ok", "", False)


async def booking(twin: Twin, tool: str = "book") -> Delivery:
    """Ada books in a turn, and a worker is at it until the test lets it go on."""
    at = await turn_of_ada(twin, tools=TOOLS)
    twin.workers.hold.clear()
    twin.ask_tool(at, tool, {})
    await until(lambda: twin.workers.calls)
    return at


async def lose(twin: Twin) -> None:
    """The worker is gone with what it was at."""
    twin.workers.answer = lost
    twin.workers.hold.set()


async def another_ada(twin: Twin) -> None:
    """The process at the address is removed, and one with another workspace begun there."""
    twin.kernel.processes.stop("/user/ada")
    await until(lambda: twin.kernel.live.at("/user/ada") is None)
    await twin.kernel.processes.remove("/user/ada", True)
    await twin.spawn("ada", workspace="/elsewhere")


async def bodies(twin: Twin, kind: str) -> list[dict[str, Any]]:
    return [record.body for record in await twin.entries(kind)]


# -- the id ----------------------------------------------------------------------------------------------------------


def test_an_effect_id_is_of_32_hexadecimal_digits_and_no_other_is_like_it() -> None:
    chance = Random(1)
    ids = {new_effect_id(chance) for _ in range(1000)}
    assert len(ids) == 1000
    assert {len(each) for each in ids} == {32}
    assert all(int(each, 16) >= 0 for each in ids)


def test_every_attempt_at_a_call_has_its_effect_id_and_no_other_call_has(tmp_path: Path) -> None:
    """The worker dies, then the node, then a person has it made again."""

    async def first(twin: Twin) -> None:
        await booking(twin)

    async def second(twin: Twin) -> None:
        at = await twin.delivery()
        await until(twin.kernel.state.doubts)
        twin.workers.hold.clear()
        twin.ask_tool(at, "book", {})
        [doubt] = twin.kernel.state.doubts()
        await twin.kernel.tool_calls.resolve(doubt.id, "retry", "operator:0")
        await until(lambda: twin.workers.calls)

    async def third(twin: Twin) -> None:
        twin.workers.probed = not_landed
        at = await twin.delivery()
        assert (await twin.call_tool(at, "book", {}))["status"] == "ok"
        assert (await twin.call_tool(at, "book", {}, 1))["status"] == "ok"
        intents = await bodies(twin, "tool.intent")
        ids = [body["effect_id"] for body in intents]
        assert [body["ordinal"] for body in intents] == ["0.0", "0.0", "0.0", "1.0"]
        assert ids[0] == ids[1] == ids[2] != ids[3]
        assert {len(each) for each in ids} == {32}
        assert [body["probe"] for body in intents] == [True] * 4

    for body in (first, second, third):
        on_twin(tmp_path, body)


def test_a_tool_without_a_probe_has_an_effect_id_too(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await booking(twin, "pay")
        await lose(twin)
        await until(twin.kernel.state.doubts)
        [doubt] = twin.kernel.state.doubts()
        twin.workers.answer = lambda call: result("ok", "paid")
        twin.ask_tool(at, "pay", {})
        await twin.kernel.tool_calls.resolve(doubt.id, "retry", "operator:0")
        assert (await twin.result())["status"] == "ok"
        ids = [(body["effect_id"], body["probe"]) for body in await bodies(twin, "tool.intent")]
        assert ids == [ids[0], ids[0]] and len(ids[0][0]) == 32 and not ids[0][1]
        assert not twin.workers.probes and not await twin.entries("tool.probed")

    on_twin(tmp_path, body)


# -- what a probe says -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("came", "said"),
    [
        (result("ok", "seat 7", True), Said("landed", "seat 7", HASH)),
        (result("ok", "", False), Said("not_landed")),
        (result("ok", "no  answer\nfrom them"), Said("unknown", "no answer from them")),
        (result("ok", ""), Said("unknown", "the probe does not know, and does not say why")),
        (result("error", "ValueError: x"), Said("unknown", "the probe failed: ValueError: x")),
        (result("error", "x", True), Said("unknown", "the probe failed: x")),
        (result("refused", "x", True), Said("unknown", "the probe failed: x")),
        (result("timeout", "x", True), Said("unknown", "the probe did not answer in time")),
    ],
)
def test_only_an_answer_says_that_something_landed(came: WorkerResult, said: Said) -> None:
    assert said_by(came) == said


def test_what_a_probe_says_of_why_is_a_bounded_line() -> None:
    said = said_by(result("ok", "é\n" * 100_000))
    assert len(said.text.encode()) <= 500 and "\n" not in said.text


# -- after a worker's death ------------------------------------------------------------------------------------------


def test_a_call_that_landed_has_its_result_and_is_not_made_again(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await booking(twin)
        twin.workers.probed = landed
        await lose(twin)
        assert await twin.result() == {"status": "ok", "text": "booked: seat 7", "truncated": False}
        assert len(twin.workers.calls) == 1
        [intent], [probe] = await bodies(twin, "tool.intent"), twin.workers.probes
        assert probe.effect_id == intent["effect_id"]
        [probed] = await bodies(twin, "tool.probed")
        assert (probed["answer"], probed["effect_id"], probed["why"]) == ("landed", probe.effect_id, "")
        assert await outcomes(twin) == [("book", "ok")]
        assert not twin.kernel.state.doubts() and not len(twin.kernel.state.intents)

    on_twin(tmp_path, body)


def test_a_call_that_did_not_land_is_made_again_though_its_tool_says_that_a_person_is_to_be_asked(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        await booking(twin)
        twin.workers.probed = not_landed
        twin.workers.answer = lambda call: (
            lost(call) if len(twin.workers.calls) < 2 else result("ok", "seat 8")
        )
        twin.workers.hold.set()
        assert (await twin.result())["text"] == "seat 8"
        assert [body["attempt"] for body in await bodies(twin, "tool.intent")] == [1, 2]
        [resolved] = await bodies(twin, "tool.resolved")
        assert (resolved["resolution"], resolved["by"].startswith("node: its tool's probe")) == (
            "retry",
            True,
        )
        assert await outcomes(twin) == [("book", "ok")]

    on_twin(tmp_path, body)


def test_a_call_that_never_lands_is_made_three_times_and_then_lost(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await booking(twin)
        twin.workers.probed = not_landed
        await lose(twin)
        told = await twin.result()
        assert (told["status"], told["text"]) == ("lost", "not done: its tool's probe said so")
        assert len(twin.workers.calls) == 3 and len(twin.workers.probes) == 3

    on_twin(tmp_path, body)


def _raise(error: Exception) -> Callable[[WorkerCall], WorkerResult]:
    def probed(call: WorkerCall) -> WorkerResult:
        raise error

    return probed


@pytest.mark.parametrize(
    ("probed", "why"),
    [
        (lambda call: result("ok", "they are closed"), "they are closed"),
        (lambda call: result("timeout"), "did not answer in time"),
        (lambda call: result("error", "TypeError: x"), "the probe failed: TypeError: x"),
        (_raise(WorkerLost("book: its worker died")), "was not answered: book: its worker died"),
        (_raise(WorkerUnavailable("no worker")), "was not answered: no worker"),
        (_raise(RuntimeError("secret")), "the node failed at asking the probe: RuntimeError"),
    ],
)
def test_what_no_probe_knows_is_put_before_a_person_with_the_reason(
    tmp_path: Path, probed: Callable[[WorkerCall], WorkerResult], why: str
) -> None:
    async def body(twin: Twin) -> None:
        at = await booking(twin)
        twin.workers.probed = probed
        await lose(twin)
        await until(twin.kernel.state.doubts)
        [doubt] = twin.kernel.state.doubts()
        assert doubt.call.probed.startswith("unknown: ") and why in doubt.call.probed
        assert "secret" not in doubt.call.probed
        [told] = await bodies(twin, "tool.probed")
        assert told["answer"] == "unknown" and why in told["why"]
        process = twin.kernel.live.get(at.pid)
        assert process is not None
        await until(lambda: process.state == "suspended")
        assert len(twin.workers.calls) == 1

    on_twin(tmp_path, body)


def test_a_probe_for_which_no_worker_is_free_is_not_waited_for_ever(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        await booking(twin)
        twin.workers.probing.clear()
        await lose(twin)
        await until(twin.kernel.state.doubts)
        assert "no worker had asked the probe" in twin.kernel.state.doubts()[0].call.probed

    on_twin(tmp_path, body, bounds=Bounds(probe_wait_s=0.01))


def test_while_a_probe_is_asked_nobody_makes_the_call_again(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await booking(twin)
        twin.workers.probing.clear()
        twin.workers.probed = landed
        await lose(twin)
        await until(lambda: twin.workers.probes)
        twin.crash(at)
        again = await twin.delivery()
        twin.ask_tool(again, "book", {})
        with pytest.raises(NotFound):  # it is no doubt yet
            await twin.kernel.tool_calls.resolve(f"{at.turn}:0.0", "retry", "operator:0")
        twin.workers.probing.set()
        assert (await twin.result())["text"] == "booked: seat 7"
        assert len(twin.workers.calls) == 1

    on_twin(tmp_path, body)


@pytest.mark.parametrize(("probed", "status"), [(landed, "ok"), (not_landed, "lost")])
def test_what_a_probe_says_of_a_call_whose_turn_has_ended_is_recorded_and_nothing_is_made(
    tmp_path: Path, probed: Callable[[WorkerCall], WorkerResult], status: str
) -> None:
    async def body(twin: Twin) -> None:
        at = await booking(twin)
        cut(twin, at)
        twin.workers.probed = probed
        await lose(twin)
        await until(lambda: not len(twin.kernel.state.intents))
        assert await outcomes(twin) == [("book", status)]
        assert len(twin.workers.calls) == 1

    on_twin(tmp_path, body)


def test_a_turn_that_ends_while_it_is_written_that_a_probe_does_not_know_leaves_a_doubt(
    tmp_path: Path,
) -> None:
    """It was to be made again, and nobody asks for it any more."""
    disk = SlowDisk()

    async def body(twin: Twin) -> None:
        twin.workers.version = "before"
        at = await turn_of_ada(twin, workspace=str(tmp_path))
        twin.workers.hold.clear()
        twin.ask_tool(at, "file_write", {"path": "a", "content": "b"})
        await until(lambda: twin.workers.calls)
        [intent] = twin.kernel.state.intents
        disk.ready.clear()
        await lose(twin)
        await until(lambda: intent.call.probed)
        cut(twin, at)
        disk.ready.set()
        await until(twin.kernel.state.doubts)
        assert await outcomes(twin) == [("file_write", "in_doubt")]
        assert len(await bodies(twin, "tool.probed")) == len(twin.workers.calls) == 1

    on_twin(tmp_path, body, disk=disk)


def test_a_call_that_did_not_land_is_lost_when_its_turn_ends_before_the_disk_takes_that(
    tmp_path: Path,
) -> None:
    disk = FullDisk()

    async def body(twin: Twin) -> None:
        at = await booking(twin)
        twin.workers.probed = not_landed
        sending = await filled(twin, disk)
        cut(twin, at)
        await lose(twin)
        await until(lambda: twin.workers.probes)
        disk.full = False
        await until(lambda: twin.ledger.read_only is None and not len(twin.kernel.state.intents))
        assert await outcomes(twin) == [("book", "lost")] and not await twin.entries("tool.resolved")
        await asyncio.gather(sending, return_exceptions=True)

    on_twin(tmp_path, body, disk=disk)


# -- after a boot ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("probed", "calls", "text"), [(landed, 0, "booked: seat 7"), (not_landed, 1, "done")]
)
def test_the_probe_is_asked_at_the_boot_after_a_node_that_died(
    tmp_path: Path, probed: Callable[[WorkerCall], WorkerResult], calls: int, text: str
) -> None:
    async def before(twin: Twin) -> None:
        await booking(twin)

    async def after(twin: Twin) -> None:
        twin.workers.probed = probed
        at = await twin.delivery()
        told = await twin.call_tool(at, "book", {})
        assert (told["status"], told["text"]) == ("ok", text)
        assert len(twin.workers.calls) == calls
        assert await outcomes(twin) == [("book", "ok")]

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


@pytest.mark.parametrize(("probed", "calls", "resolution"), [(landed, 0, "done"), (not_landed, 1, "retry")])
def test_a_doubt_is_asked_of_again_at_each_boot_and_its_process_goes_on(
    tmp_path: Path, probed: Callable[[WorkerCall], WorkerResult], calls: int, resolution: str
) -> None:
    async def before(twin: Twin) -> None:
        await booking(twin)
        await lose(twin)
        await until(twin.kernel.state.doubts)

    async def after(twin: Twin) -> None:
        twin.workers.probing.clear()
        twin.workers.probed = probed
        at = await twin.delivery()
        twin.ask_tool(at, "book", {})
        process = twin.kernel.live.get(at.pid)
        assert process is not None
        await until(lambda: process.state == "suspended")
        twin.workers.probing.set()
        assert (await twin.result())["status"] == "ok"
        assert (str(process.state), len(twin.workers.calls)) == ("running", calls)
        [resolved] = await bodies(twin, "tool.resolved")
        assert (resolved["resolution"], resolved["by"]) == (resolution, "probe")
        answers = [each["answer"] for each in await bodies(twin, "tool.probed")]
        assert (len(answers), answers[0]) == (2, "unknown")
        assert not twin.kernel.state.doubts()

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


@pytest.mark.parametrize("word", ["retry", "done"])
def test_a_person_who_is_quicker_than_the_probe_at_a_boot_has_the_last_word(
    tmp_path: Path, word: str
) -> None:
    async def before(twin: Twin) -> None:
        await booking(twin)
        await lose(twin)
        await until(twin.kernel.state.doubts)

    async def after(twin: Twin) -> None:
        twin.workers.probing.clear()
        twin.workers.probed = landed
        at = await twin.delivery()
        twin.ask_tool(at, "book", {})
        await until(lambda: twin.workers.probes)
        [doubt] = twin.kernel.state.doubts()
        await twin.kernel.tool_calls.resolve(doubt.id, word, "operator:0")
        twin.workers.probing.set()
        told = await twin.result()
        wanted = "done" if word == "retry" else "done: a person confirmed it"
        assert (told["text"], len(twin.workers.calls)) == (wanted, int(word == "retry"))
        assert [each["by"] for each in await bodies(twin, "tool.resolved")] == ["operator:0"]

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_a_stop_of_the_node_leaves_what_is_probed_open_for_the_next_boot(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await booking(twin)

    async def between(twin: Twin) -> None:
        twin.workers.probing.clear()
        await until(lambda: twin.workers.probes)

    async def after(twin: Twin) -> None:
        twin.workers.probed = landed
        at = await twin.delivery()
        assert (await twin.call_tool(at, "book", {}))["text"] == "booked: seat 7"
        assert [each["answer"] for each in await bodies(twin, "tool.probed")] == ["landed"]
        assert not twin.workers.calls

    for body in (before, between, after):
        on_twin(tmp_path, body)


def test_a_tool_that_is_not_configured_any_more_is_not_asked(tmp_path: Path) -> None:
    async def before(twin: Twin) -> None:
        await booking(twin)

    async def after(twin: Twin) -> None:
        [doubt] = twin.kernel.state.doubts()
        assert (doubt.call.name, doubt.call.probed) == ("book", "")

    on_twin(tmp_path, before)
    on_twin(tmp_path, after, without=("book",))


def test_a_call_of_which_an_attempt_had_no_effect_id_is_not_asked_of(tmp_path: Path) -> None:
    """As an earlier version recorded it: of an effect that nobody was told the id of, a probe finds none."""

    async def before(twin: Twin) -> None:
        await booking(twin)

    async def after(twin: Twin) -> None:
        state = twin.kernel.state
        [intent] = state.intents
        head = {"turn": intent.turn, "ordinal": "0.0", "tool": "book", "pid": 1}
        old = {**head, "attempt": 1, "effects": "external", "replaces": "", "on_doubt": "ask"}
        state.apply_entry("tool.intent", old, intent.call.intent_seq, 1, b"")
        assert (intent.call.effect_id, intent.call.probe) == ("", False)
        new = {**old, "attempt": 2, "effect_id": "e" * 32, "probe": True}
        state.apply_entry("tool.intent", new, intent.call.intent_seq + 1, 1, b"")
        assert (intent.call.effect_id, intent.call.probe) == ("e" * 32, False)
        said = {**head, "resolution": "retry", "by": "operator:0"}
        state.apply_entry("tool.resolved", said, intent.call.intent_seq + 2, 1, b"")
        state.apply_entry("tool.intent", {**new, "attempt": 3}, intent.call.intent_seq + 3, 1, b"")
        assert intent.call.probe

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_a_write_is_probed_where_it_was_made(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        twin.workers.version = "before"
        at = await turn_of_ada(twin, workspace=str(tmp_path))
        twin.workers.hold.clear()
        twin.ask_tool(at, "file_write", {"path": "a", "content": "b"})
        await until(lambda: twin.workers.calls)
        cut(twin, at)
        twin.workers.probed = landed
        await lose(twin)
        await until(lambda: twin.workers.probes and not len(twin.kernel.state.intents))
        [probe] = twin.workers.probes
        assert (probe.workspace, probe.replaces) == (str(tmp_path), "before")
        assert probe.arguments == '{"content":"b","path":"a"}'
        assert await outcomes(twin) == [("file_write", "ok")]

    on_twin(tmp_path, body)


def test_a_write_is_not_probed_in_the_workspace_of_whoever_came_after_at_its_address(tmp_path: Path) -> None:
    """What is there says nothing of it."""

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin, workspace=str(tmp_path))
        twin.workers.hold.clear()
        twin.ask_tool(at, "file_write", {"path": "a", "content": "b"})
        await until(lambda: twin.workers.calls)
        cut(twin, at)
        await another_ada(twin)
        await lose(twin)
        await until(lambda: twin.workers.probes)
        assert twin.workers.probes[0].workspace == ""

    on_twin(tmp_path, body)


def test_two_doubts_of_a_turn_are_asked_of_apart(tmp_path: Path) -> None:
    """A process goes on only when neither is left."""

    async def before(twin: Twin) -> None:
        at = await turn_of_ada(twin, tools=TOOLS)
        twin.workers.hold.clear()
        twin.ask_tool(at, "book", {}, 0, 0)
        twin.ask_tool(at, "pay", {}, 0, 1)
        await until(lambda: len(twin.workers.calls) == 2)

    async def after(twin: Twin) -> None:
        twin.workers.probed = landed
        at = await twin.delivery()
        process = twin.kernel.live.get(at.pid)
        assert process is not None
        twin.ask_tool(at, "book", {}, 0, 0)
        twin.ask_tool(at, "pay", {}, 0, 1)
        assert (await twin.result())["text"] == "booked: seat 7"
        await until(lambda: process.state == "suspended")
        [doubt] = twin.kernel.state.doubts()
        await twin.kernel.tool_calls.resolve(doubt.id, "done", "operator:0")
        assert (await twin.result())["status"] == "ok"
        assert process.state == "running"

    on_twin(tmp_path, before)
    on_twin(tmp_path, after)


def test_of_a_worker_that_may_act_still_no_probe_is_asked_at_the_next_boot_neither(tmp_path: Path) -> None:
    """``not_landed`` would be true, and have the call made beside the first."""

    def left(call: WorkerCall) -> WorkerResult:
        raise WorkerLeft("book: it may act still")

    async def first(twin: Twin) -> None:
        twin.workers.probed = not_landed
        await booking(twin)
        twin.workers.answer = left
        twin.workers.hold.set()
        await until(twin.kernel.state.doubts)
        assert not twin.workers.probes and len(twin.workers.calls) == 1

    async def second(twin: Twin) -> None:
        twin.workers.probed = not_landed
        await twin.delivery()
        [doubt] = twin.kernel.state.doubts()
        assert doubt.call.probed == "not_asked: what has not landed may land yet"
        assert not twin.workers.probes
        await twin.kernel.tool_calls.resolve(doubt.id, "lost", "operator:0")

    for body in (first, second):
        on_twin(tmp_path, body)
