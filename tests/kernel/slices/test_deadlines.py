"""The table of deadlines, beside one that is searched from end to end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kernel.slices.mail.deadlines import SPARE, Deadlines

IDS = st.sampled_from([f"m{number}" for number in range(6)])


@given(st.lists(st.tuples(IDS, st.none() | st.integers(1, 20)), max_size=60))
def test_the_first_is_the_one_that_is_due_first(steps: list[tuple[str, int | None]]) -> None:
    table, plain = Deadlines(), dict[str, int]()
    for ident, due_us in steps:
        if due_us is None:
            table.remove(ident)
            plain.pop(ident, None)
        elif ident not in plain:  # no message is accepted twice
            table.add(ident, due_us)
            plain[ident] = due_us
        assert len(table) == len(plain)
        assert table.first() == min(((due, each) for each, due in plain.items()), default=None)


def test_what_is_gone_takes_no_place() -> None:
    table = Deadlines()
    table.add("far", 10**9)
    for number in range(10_000):
        table.add(f"m{number}", number + 1)
        table.remove(f"m{number}")
    assert len(table._heap) <= 2 + SPARE + 1
    assert table.first() == (10**9, "far")
