import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.model.pids import BLOCK, FIRST_PID, MARGIN, Reserve, first_pids, resume_pids, take


def test_a_new_node_begins_after_the_kernel_and_the_root_supervisor() -> None:
    pids, reserve = first_pids()
    assert reserve == Reserve(FIRST_PID + BLOCK)
    assert take(pids)[1] == 2


def test_a_block_is_reserved_long_before_its_first_pid_is_used() -> None:
    pids, first = first_pids()
    durable = first.upto
    for _ in range(5 * BLOCK):
        pids, pid, reserve = take(pids)
        assert pid < durable - MARGIN + 1
        if reserve is not None:
            assert reserve.upto == durable + BLOCK
            durable = reserve.upto


@given(st.lists(st.integers(0, 3 * BLOCK), max_size=6))
def test_no_pid_is_given_out_twice_over_any_number_of_crashes(lives: list[int]) -> None:
    last = FIRST_PID - 1
    pids, reserve = first_pids()
    durable = reserve.upto
    for taken in lives:
        for _ in range(taken):
            pids, pid, more = take(pids)
            assert pid > last
            last = pid
            durable = more.upto if more else durable
        pids, reserve = resume_pids(durable)  # a crash: what was in memory is gone
        durable = reserve.upto


def test_a_record_below_the_first_pid_is_refused() -> None:
    with pytest.raises(ValueError, match="reserved is 1, below the first PID 2"):
        resume_pids(1)
