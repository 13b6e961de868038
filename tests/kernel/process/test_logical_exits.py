"""A process that ends itself for a logical reason, on a real ledger with a twin for the cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel.abi import EndInTurn
from kernel.bounds import Bounds
from kernel.cells.cell_events import CellCrashed, CellLeft, Placement
from kernel.control.erasure import check_unused
from kernel.errors import Invalid, Refused
from kernel.model.spec import ProcessSpec
from kernel.operations.spawning import OnLogical
from kernel.slice import Told
from kernel.upkeep.erasure import Plan
from tests.kernel.syscall.test_open_calls import until
from tests.kernel.syscall.test_tool_calls import turn_of_ada
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Delivery, Twin
from tests.kernel.twins.tree_twin import Tree

STATES = {"park": "parked", "end": "stopped"}


@pytest.mark.parametrize("on_logical", ["park", "end"])
def test_it_is_recorded_and_its_slot_waits_also_after_a_boot(tmp_path: Path, on_logical: OnLogical) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin, on_logical=on_logical)
        twin.say(CellLeft(at.pid, "refused", "I will not"))
        await until(lambda: twin.kernel.state.slots["/user/ada"].state == STATES[on_logical])
        [exited] = await twin.entries("process.exited")
        assert (exited.body["reason"], exited.body["detail"]) == ("refused", "I will not")
        [changed] = [
            one for one in await twin.entries("process.slot") if one.body["state"] == STATES[on_logical]
        ]
        assert changed.body["why"] == "refused"
        await until(lambda: not twin.kernel.state.mail.get("/user/ada"))
        [dead] = await twin.entries("message.dead")
        assert STATES[on_logical] in dead.body["why"]

    async def after(twin: Twin) -> None:
        slot = twin.kernel.state.slots["/user/ada"]
        assert (slot.state, slot.why, twin.kernel.live.at("/user/ada")) == (
            STATES[on_logical],
            "refused",
            None,
        )
        assert slot.last_exit.text == f"PID {slot.pid}: refused: I will not"
        parked = twin.kernel.processes.listing.parked()
        assert [line.split(" and ")[0] for line in parked] == (
            ["/user/ada is parked (refused)"] if on_logical == "park" else []
        )
        twin.kernel.processes.start("/user/ada")
        await until(lambda: twin.cells.placed)
        [placed] = [one for one in twin.cells.placed if one.address == "/user/ada"]
        assert placed.last_exit is not None and placed.last_exit.kind == "logical"

    on_twin(tmp_path, body)
    on_twin(tmp_path, after)


def test_one_that_is_restarted_is_handed_its_turn_again_until_that_is_poison(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        attempts = Bounds().turn_attempts
        for _ in range(attempts - 1):
            twin.say(CellLeft(at.pid, "no_progress", "the same again"))
            again = await twin.delivery()
            assert (again.turn, again.pid > at.pid) == (at.turn, True)
            at = again
        twin.say(CellLeft(at.pid, "no_progress", "the same again"))
        await until(lambda: not twin.kernel.state.mail.get("/user/ada"))
        [dead] = await twin.entries("message.dead")
        assert f"poison: {attempts} incarnations" in dead.body["why"]

    on_twin(tmp_path, body)


def test_the_siblings_in_a_family_run_on_and_what_is_below_ends_with_it() -> None:
    tree = Tree()
    tree.spawn("team", type="supervisor", strategy="one_for_all")
    names = [tree.spawn(name, "/user/team", on_logical="end") for name in "abc"]
    tree.spawn("below", names[1])
    before = {name: tree.pid(name) for name in names}
    tree.processes.exit(before[names[1]], "no_progress", "round and round", told=True)
    tree.finish()
    assert {name: tree.pid(name) for name in (names[0], names[2])} == {
        name: before[name] for name in (names[0], names[2])
    }
    assert tree.state.slots[names[1]].state == "stopped"
    assert not {names[1], f"{names[1]}/below"} & set(tree.running())


def test_a_temporary_one_is_gone() -> None:
    tree = Tree()
    ada = tree.spawn("ada", restart="temporary", on_logical="end")
    tree.processes.exit(tree.pid(ada), "refused", told=True)
    tree.finish()
    assert ada not in tree.state.slots


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"restart": "temporary", "on_logical": "park"}, "a temporary one is gone with its end"),
        ({"on_logical": "shrug"}, "on_logical 'shrug' is none of restart, park, end"),
        ({"type": "supervisor", "on_logical": "end"}, "a supervisor ends for no logical reason"),
    ],
)
def test_a_spawn_that_cannot_be_kept_to_is_refused(fields: dict[str, str], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        Tree().processes.admission.check_spawn(ProcessSpec("ada", **fields), "/user")  # type: ignore[arg-type]


def test_a_message_says_how_those_ended_that_died_of_it_the_same_to_all_that_follow(tmp_path: Path) -> None:
    told: list[tuple[EndInTurn, ...]] = []

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        assert at.message.ends == ()
        twin.ask_model(at, [{"role": "user", "content": "x"}])
        await until(lambda: twin.kernel.state.turns[at.turn].calls)
        twin.crash(at)
        second = await twin.delivery()
        twin.say(CellLeft(second.pid, "refused", "I will not"))
        third = await twin.delivery()
        assert second.message.ends == (EndInTurn(at.pid, 1, "crash", "the test said so"),)
        assert third.message.ends == (*second.message.ends, EndInTurn(second.pid, 1, "refused", "I will not"))
        assert [one.body["ends"] for one in await twin.entries("turn.started")] == [0, 1, 2]
        told.append(third.message.ends)

    async def after(twin: Twin) -> None:
        told.append((await twin.delivery()).message.ends)

    on_twin(tmp_path, body)
    on_twin(tmp_path, after)
    assert told[0] == told[1]


def test_a_start_that_failed_is_no_end_in_the_turn_and_an_erasure_of_one_that_is_waits_for_it(
    tmp_path: Path,
) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        failed: list[int] = []

        def refuse(placement: Placement) -> str:
            failed.append(placement.pid)
            return "cannot be constructed" if len(failed) == 1 else ""

        twin.cells.refuse = refuse
        twin.crash(at)
        again = await twin.delivery()
        assert [end.pid for end in again.message.ends] == [at.pid]
        with pytest.raises(Refused, match="is open and holds what is to be erased"):
            check_unused(Plan(exits=[at.pid]), twin.kernel.state)

    on_twin(tmp_path, body)


def test_where_a_version_that_tells_of_no_ends_has_gone_on_none_before_is_told_any_more(
    tmp_path: Path,
) -> None:
    """Its questions were put without, and would be asked otherwise than they stand on record."""

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.crash(at)
        await twin.delivery()
        turn = twin.kernel.state.turns[at.turn]
        assert len(turn.told_ends()) == 1
        begun = {"turn": at.turn, "message": turn.mail.id, "address": "/user/ada", "attempt": 3}
        twin.kernel.state.turns.hears()["turn.started"](Told(begun, 99, 0, b""))
        assert turn.told_ends() == ()

    on_twin(tmp_path, body)


async def handed_out_again(twin: Twin) -> Delivery:
    """A turn whose first incarnation ended without any blame: there is one end less than there are attempts."""
    at = await turn_of_ada(twin)
    twin.kernel.processes.exit(at.pid, "killed", "by a person")
    return await twin.delivery()


def test_a_start_that_failed_is_none_after_an_attempt_without_blame_either(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await handed_out_again(twin)
        failed: list[int] = []

        def refuse(placement: Placement) -> str:
            failed.append(placement.pid)
            return "cannot be constructed" if len(failed) == 1 else ""

        twin.cells.refuse = refuse
        twin.crash(at)
        again = await twin.delivery()
        assert len(failed) == 2
        assert [end.detail for end in again.message.ends] == ["the test said so"]

    on_twin(tmp_path, body)


def test_a_crash_beside_the_turn_is_told_with_no_message(tmp_path: Path) -> None:
    """Of a turn that was cancelled and is still unwound: its words may be those of another sender."""

    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.say(CellLeft(at.pid, "refused", "what another said", beside=True))
        second = await twin.delivery()
        twin.say(CellCrashed(second.pid, second.turn, "what another said", beside=True))
        third = await twin.delivery()
        assert (second.message.ends, third.message.ends) == ((), ())
        assert twin.kernel.state.turns[at.turn].crashes == 2
        assert [one.body["turn"] for one in await twin.entries("process.exited")] == ["", ""]

    on_twin(tmp_path, body)


def test_a_crash_while_its_turn_waits_for_a_person_is_no_end_in_it(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        at = await turn_of_ada(twin)
        twin.ask_model(at, [{"role": "user", "content": "x"}])
        await twin.result()
        twin.kernel.processes.exit(at.pid, "killed", "by a person")
        second = await twin.delivery()
        twin.ask_model(second, [{"role": "user", "content": "y"}])
        await until(lambda: bool(twin.kernel.state.parked()))
        twin.kernel.processes.exit(second.pid, "crash", "of something else")
        await twin.kernel.divergences.decide(at.turn, "again", "operator:0")
        assert (await twin.delivery()).message.ends == ()

    on_twin(tmp_path, body)
