"""What a cell has used is told of whoever has it, and nothing of it twice."""

from __future__ import annotations

from kernel.cells.health.cpu_meter import CpuMeter


def test_what_was_used_before_a_process_was_read_first_is_nobodys() -> None:
    meter = CpuMeter()
    assert [meter.read(pid, "/a", used) for pid, used in ((7, 450), (7, 480), (7, 480), (8, 900))] == [
        0,
        30,
        0,
        0,
    ]


def test_a_cell_that_can_be_measured_no_more_has_used_nothing_since() -> None:
    meter = CpuMeter()
    assert [meter.read(7, "/a", used) for used in (100, 0, 120)] == [0, 0, 20]


def test_one_that_has_left_is_forgotten() -> None:
    meter = CpuMeter()
    meter.read(7, "/a", 100)
    assert meter.address_of(7) == "/a"
    meter.forget(7)
    assert meter.address_of(7) == "" and meter.read(7, "/a", 150) == 0
