"""Long listings: all of them, parents first, and the loop goes on in between."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.model.spec import ProcessSpec
from kernel.process.listing import SLICE_ROWS, Listing
from kernel.process.live import LiveTable
from kernel.slices.tree.slots import Slot
from kernel.state.state import State
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin

COUNT = 2_007


def full_state() -> State:
    state = State(10, 1000)
    state.slots.place(Slot("/user", "/", ProcessSpec("user", type="supervisor", tools=()), 0))
    for number in range(COUNT):
        state.slots.place(Slot(f"/user/p{number}", "/user", ProcessSpec(f"p{number}"), number))
    return state


def test_a_long_listing_lets_the_loop_go_on_and_misses_none() -> None:
    async def run() -> None:
        state, turns, listed = full_state(), 0, False

        def count() -> None:
            nonlocal turns
            turns += 1
            if not listed:
                asyncio.get_running_loop().call_soon(count)

        count()
        rows = [row["address"] async for row in Listing(state, LiveTable(), lambda: 0.0).rows()]
        listed = True
        assert rows == sorted(state.slots)
        assert turns >= COUNT // SLICE_ROWS

    asyncio.run(run())


def place(state: State, address: str, parent: str) -> None:
    state.slots.place(Slot(address, parent, ProcessSpec(address.rpartition("/")[2]), COUNT))


def remove(state: State, address: str) -> None:
    state.apply_entry("process.slot", {"address": address, "state": "removed", "why": ""}, COUNT + 1, 0, b"")


def test_what_goes_while_it_is_listed_is_left_out() -> None:
    async def run() -> None:
        state = full_state()
        rows = []
        async for row in Listing(state, LiveTable(), lambda: 0.0).rows():
            rows.append(row["address"])
            if len(rows) == SLICE_ROWS:
                remove(state, f"/user/p{COUNT - 1}")
        assert len(rows) == len(set(rows))
        assert set(state.slots) <= set(rows) <= {*state.slots, f"/user/p{COUNT - 1}"}

    asyncio.run(run())


def test_pages_are_what_one_listing_is_whatever_comes_and_goes_around_them() -> None:
    async def page(listing: Listing, after: str) -> list[str]:
        return [row["address"] async for row in listing.rows(after, 300)]

    async def run() -> None:
        state = full_state()
        listing = Listing(state, LiveTable(), lambda: 0.0)
        pages = [await page(listing, "")]
        while len(pages[-1]) == 300:
            remove(state, pages[-1][-1])  # the next page goes on where that was
            remove(state, pages[-1][-2])
            place(state, f"{pages[-1][-1]}x", "/user")
            pages.append(await page(listing, pages[-1][-1]))
        seen = [address for found in pages for address in found]
        assert len(pages) == 7 and seen == sorted(set(seen))
        whole = {f"/user/p{number}" for number in range(COUNT)} | {"/user"}
        assert whole <= set(seen)

    asyncio.run(run())


def slow_next(state: State, address: str) -> list[str]:
    """All that is behind ``address``, found the obvious way."""
    key = {each: each.split("/") for each in [*state.slots, address]}
    return sorted((each for each in state.slots if key[each] > key[address]), key=key.__getitem__)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.sampled_from("abc")), max_size=40))
def test_what_follows_is_what_a_sort_of_all_says(steps: list[tuple[bool, int, str]]) -> None:
    state = State(10, 1000)
    state.slots.place(Slot("/user", "/", ProcessSpec("user", type="supervisor", tools=()), 0))
    for add, at, name in steps:
        address = list(state.slots)[at % len(state.slots)]
        if add and f"{address}/{name}" not in state.slots:
            place(state, f"{address}/{name}", address)
        elif not state.slots.child_count(address) and address != "/user":
            remove(state, address)
        for behind in (address, f"{address}/b", "/"):
            followed = [slot.address for slot in state.slots.following(behind, 100)]
            assert followed == slow_next(state, behind if behind != "/" else "")


def test_the_first_ones_are_those_spawned_first_whatever_happens_meanwhile() -> None:
    state = full_state()
    listing = Listing(state, LiveTable(), lambda: 0.0)
    shown = listing.first(5)
    remove(state, "/user/p1")
    assert len(listing) == COUNT
    assert [address for _, address, *_ in shown] == ["/user", "/user/p0", *(f"/user/p{n}" for n in (2, 3, 4))]


def test_children_follow_their_parent_and_those_of_one_parent_their_names(tmp_path: Path) -> None:
    async def body(twin: Twin) -> None:
        for name, parent in (("b", "/user"), ("a", "/user"), ("x", "/user/a"), ("a-b", "/user")):
            await twin.spawn(name, parent)
        rows = [row["address"] async for row in twin.kernel.processes.listing.rows()]
        assert rows == ["/user", "/user/a", "/user/a/x", "/user/a-b", "/user/b"]

    on_twin(tmp_path, body)
