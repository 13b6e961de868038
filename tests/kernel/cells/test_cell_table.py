"""Where processes go."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.cells.cell_table import ISOLATED, CellLimits, CellTable


def table(**limits: int) -> CellTable:
    return CellTable(CellLimits(**limits))


def test_the_first_process_takes_the_spare_and_a_new_spare_is_started() -> None:
    cells = table()
    assert cells.spare() == ["c1"]
    assert cells.spare() == []
    assert cells.place(1, "shared", "a") == ("c1", ["c2"])
    assert cells.place(2, "shared", "b") == ("c2", ["c3"])


def test_while_a_loss_would_part_those_in_a_cell_there_are_two_spares_and_each_half_has_one_at_once() -> None:
    cells = table()
    assert cells.place(1, "shared", "a") == ("c1", ["c1", "c2"])
    assert cells.place(2, "shared", "a") == ("c1", ["c3"])
    cells.remove("c1")
    assert cells.place(3, "shared", "a", half="s1") == ("c2", [])
    assert cells.place(4, "shared", "a", half="s2") == ("c3", ["c4"])
    assert cells.place(5, "shared", "a", half="s1") == ("c2", ["c5"])


def test_a_crowd_in_dedicated_cells_has_one_spare() -> None:
    cells = table()
    assert [cells.place(pid, "dedicated", "a")[1] for pid in (1, 2)] == [["c1", "c2"], ["c3"]]


def test_more_are_spare_while_more_are_wanted_and_the_newest_go_when_they_are_not() -> None:
    cells = table(cells=6)
    cells.place(1, "dedicated", "a")
    assert (cells.spare(3), cells.spares) == (["c3", "c4"], 3)
    assert cells.spare(3) == [] and cells.surplus(3) == []
    assert cells.surplus(1) == ["c3", "c4"]
    cells.place(2, "shared", "b")
    cells.place(3, "shared", "b")
    assert cells.surplus(1) == [] and cells.least == 2
    assert cells.spare(9) == ["c5", "c6"] and cells.spare(9) == []


def test_without_a_spare_a_cell_is_started_for_the_process_and_another_as_spare() -> None:
    assert table().place(1, "shared", "a") == ("c1", ["c1", "c2"])


def test_a_dedicated_cell_takes_nobody_else() -> None:
    cells = table()
    assert cells.place(1, "dedicated", "a")[0] == "c1"
    assert cells.place(2, "shared", "a")[0] == "c2"
    assert cells.place(3, "dedicated", "a")[0] == "c3"
    assert cells.release("c1", 1) == ["c1"]


def test_a_full_cell_is_left_alone_until_somebody_leaves() -> None:
    cells = table(processes_per_cell=2)
    assert [cells.place(pid, "shared", "a")[0] for pid in (1, 2, 3)] == ["c1", "c1", "c2"]
    assert cells.release("c1", 1) == []
    assert [cells.place(pid, "shared", "a")[0] for pid in (4, 5, 6)] == ["c2", "c1", "c3"]


def test_of_empty_shared_cells_the_one_empty_for_longest_is_closed() -> None:
    cells = table(idle_cells=1)
    names = {domain: cells.place(pid, "shared", domain)[0] for pid, domain in enumerate("ab")}
    assert cells.release(names["b"] or "", 1) == []
    assert cells.release(names["a"] or "", 0) == [names["b"]]
    cells.remove(names["b"] or "")
    assert cells.place(9, "shared", "a")[0] == names["a"]


def test_there_are_no_more_cells_than_the_limit() -> None:
    cells = table(cells=2)
    assert cells.place(1, "dedicated", "a") == ("c1", ["c1", "c2"])
    assert cells.place(2, "dedicated", "a") == ("c2", [])
    assert cells.place(3, "dedicated", "a") == (None, [])
    cells.remove("c1")
    assert cells.place(3, "dedicated", "a") == ("c3", ["c3"])


def test_what_agents_make_leaves_cells_to_the_operator() -> None:
    cells = table(cells=4, operator_cells=1)
    assert [cells.place(pid, "dedicated", "a", "agent")[0] for pid in (1, 2, 3)] == ["c1", "c2", "c3"]
    assert cells.place(4, "dedicated", "a", "agent") == (None, [])
    assert cells.place(5, "shared", "b", "agent") == (None, [])
    assert cells.place(6, "dedicated", "a") == ("c4", [])
    assert cells.place(7, "dedicated", "a") == (None, [])
    cells.remove("c4")
    assert cells.place(8, "shared", "b", "agent") == (None, [])
    assert cells.place(9, "shared", "b")[0] == "c5"
    assert (
        cells.place(10, "shared", "b", "agent")[0] == "c5"
    )  # room in a cell of its own domain takes no other


def test_what_had_its_cells_has_them_again_whoever_comes_first() -> None:
    had = {1: "agent", 2: "peer:x", 3: "agent", 4: "operator", 5: "operator", 6: "operator"}
    for order in ([*had], [*had][::-1]):
        cells = table(cells=6, operator_cells=3)
        names = {pid: cells.place(pid, "dedicated", "a", had[pid])[0] for pid in order}
        assert None not in names.values()
        assert cells.refusal("agent") == cells.refusal("operator") == "there are 6 cells, the limit"
        cells.remove(names[1] or "")
        assert cells.place(7, "dedicated", "a", "agent")[0] is not None


def test_a_peer_has_a_share_of_the_cells_and_none_of_what_is_the_operators() -> None:
    cells = table(cells=6, operator_cells=2, peer_cells=2)
    assert [cells.place(pid, "dedicated", "a", "peer:x")[0] for pid in (1, 2, 3)] == ["c1", "c2", None]
    assert cells.refusal("peer:x") == "2 cells are taken for peer:x, the limit for one peer"
    assert [cells.place(pid, "dedicated", "a", "peer:y")[0] for pid in (4, 5)] == ["c3", "c4"]
    assert cells.refusal("peer:z") == "there are 4 cells, the limit for what agents and peers make"
    assert [cells.place(pid, "dedicated", "a")[0] for pid in (6, 7)] == ["c5", "c6"]
    assert cells.refusal("operator") == "there are 6 cells, the limit"
    assert cells.release("c1", 1) == ["c1"]
    cells.remove("c1")
    cells.remove("c6")
    cells.remove("c5")
    assert cells.place(8, "dedicated", "a", "peer:x")[0] is not None


def test_a_lost_cell_is_nobodys_any_more() -> None:
    cells = table()
    name, _ = cells.place(1, "shared", "a")
    assert name is not None
    cells.remove(name)
    assert cells.release(name, 1) == []
    assert cells.place(2, "shared", "a")[0] != name


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(0, 2))
def test_whatever_happens_domains_are_apart_and_limits_hold(seed: int, per_cell: int, idle: int) -> None:
    chance = random.Random(seed)
    cells = table(processes_per_cell=per_cell, cells=8, idle_cells=idle)
    here: dict[int, tuple[str, str, str]] = {}
    names: set[str] = set(cells.spare())
    for pid in range(60):
        if here and chance.random() < 0.4:
            gone = chance.choice(sorted(here))
            for closed in cells.release(here.pop(gone)[0], gone):
                assert not any(cell == closed for cell, _, _ in here.values())
                cells.remove(closed)
                names.discard(closed)
        elif here and chance.random() < 0.1:
            lost = chance.choice(sorted(names))
            cells.remove(lost)
            names.discard(lost)
            here = {pid: where for pid, where in here.items() if where[0] != lost}
        else:
            isolation, domain = chance.choice(("shared", "dedicated")), chance.choice("abc")
            cell, started = cells.place(pid, isolation, domain)  # type: ignore[arg-type]
            names |= set(started)
            assert len(names) <= 8
            if cell is not None:
                assert cell in names
                here[pid] = (cell, isolation, domain)
        for cell in names:
            inside = [(isolation, domain) for at, isolation, domain in here.values() if at == cell]
            assert len(set(inside)) <= 1
            assert len(inside) <= (1 if ("dedicated", "a") in inside else per_cell)
            assert cells[cell].pids == {pid for pid, where in here.items() if where[0] == cell}


def test_suspects_share_a_cell_with_their_half_alone() -> None:
    cells = table()
    cells.place(1, "shared", "a")
    assert [cells.place(pid, "shared", "a", half="s1")[0] for pid in (2, 3)] == ["c2", "c2"]
    assert cells.place(4, "shared", "a", half="s2")[0] == "c3"
    assert cells.place(5, "shared", "a")[0] == "c1"


def test_a_cell_of_suspects_is_closed_when_it_is_empty() -> None:
    cells = table()
    cells.place(1, "shared", "a", half="s1")
    assert cells.release("c1", 1) == ["c1"]


def test_a_cell_of_suspects_that_are_cleared_is_open_to_all() -> None:
    cells = table(processes_per_cell=2)
    cells.place(1, "shared", "a", half="s1")
    cells.clear("s1")
    assert cells.place(2, "shared", "a")[0] == "c1"
    assert cells.place(3, "shared", "a", half="s1")[0] == "c2"
    assert cells.release("c1", 1) == cells.release("c1", 2) == []


def test_suspects_for_whom_there_is_no_cell_go_where_all_of_their_domain_go() -> None:
    cells = table(cells=1)
    cells.place(1, "shared", "a")
    assert cells.place(2, "shared", "a", half="s1") == ("c1", [])
    assert cells.place(3, "shared", "b", half="s1") == (None, [])


def test_a_dedicated_process_is_of_no_half() -> None:
    cells = table()
    cells.place(1, "dedicated", "a", half="s1")
    assert cells["c1"].half == ""


def test_the_isolated_have_cells_to_themselves_up_to_a_share_and_share_among_themselves_beyond_it() -> None:
    cells = table(cells=8)
    placed = [cells.place(pid, "isolated", "a")[0] for pid in range(1, 31)]
    assert placed == ["c1", "c2", *["c3"] * 28]
    assert cells.place(31, "shared", "a")[0] == "c4"
    assert cells.place(32, "isolated", "b")[0] == "c5"
    assert cells["c3"].isolation == "shared"
    assert cells["c1"].isolation == "dedicated"


def test_who_comes_when_an_isolated_one_has_left_has_its_cell_to_itself_again() -> None:
    cells = table(cells=4)
    assert [cells.place(pid, "isolated", "a")[0] for pid in (1, 2, 3)] == ["c1", "c2", "c2"]
    assert cells.release("c2", 2) == []
    for cell, pid in (("c2", 3), ("c1", 1)):
        assert cells.release(cell, pid) == [cell]
        cells.remove(cell)
    again = cells.place(4, "isolated", "a")[0]
    assert again is not None
    assert cells[again].isolation == "dedicated"


def test_an_isolated_one_that_finds_no_cell_left_joins_others_such_and_nobody_else() -> None:
    cells = table(cells=8, peer_cells=2, isolated_cells=1)
    assert [cells.place(pid, "isolated", "a", "peer:x")[0] for pid in (1, 2)] == ["c1", "c2"]
    assert cells.place(3, "isolated", "a", "peer:x")[0] == "c2"
    assert cells.place(4, "isolated", "b", "peer:x") == (None, [])
    assert cells.place(5, "shared", "b", "peer:y")[0] == "c3"
    assert cells.place(6, "isolated", "b", "peer:x") == (None, [])


@pytest.mark.parametrize("isolated_cells", [0, 1, 50])
def test_what_was_asked_for_as_dedicated_is_not_counted_among_the_isolated(isolated_cells: int) -> None:
    cells = table(isolated_cells=isolated_cells)
    assert len({cells.place(pid, "dedicated", "a")[0] for pid in range(100)}) == 100
    alone = [cells.place(pid, "isolated", "a")[0] for pid in range(100, 300)]
    assert len(set(alone)) == isolated_cells + 1


def test_suspects_that_are_isolated_are_of_no_half() -> None:
    cells = table(cells=4)
    cells.place(1, "isolated", "a", half="s1")
    cells.place(2, "isolated", "a", half="s1")
    assert (cells["c1"].half, cells["c2"].half) == ("", ISOLATED)
