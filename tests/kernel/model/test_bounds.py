from dataclasses import fields, replace

import pytest

from kernel.bounds import OFF, Bounds, check


def test_the_defaults_are_without_fault() -> None:
    assert check(Bounds()) == []


@pytest.mark.parametrize("name", [field.name for field in fields(Bounds)])
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_a_bound_that_bounds_nothing_or_everything_is_a_fault(name: str, value: float) -> None:
    faults = check(replace(Bounds(), **{name: value}))  # type: ignore[arg-type]  # some are counts, one value is NaN
    off = name in OFF and value == 0
    assert (f"{name} is {value}, must be above 0" in faults) is not off


def test_a_part_that_its_whole_cannot_hold_is_a_fault() -> None:
    faults = check(replace(Bounds(), mailbox_bytes=1000, tool_record_bytes=2**21))
    assert faults == [
        "message_bytes is 262144, must not be above mailbox_bytes, 1000",
        "tool_record_bytes is 2097152, must not be above body_bytes, 1048576",
    ]
