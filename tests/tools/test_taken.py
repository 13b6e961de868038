"""The line at the end of a test run that says what took long."""

from __future__ import annotations

from tests.taken import MOST, taken


def test_what_took_long_is_said_by_folder_the_longest_first() -> None:
    spans = [
        ("tests/chain/tiles/test_a.py::test_x", False, 0.25),
        ("tests/chain/test_b.py::test_y[1]", False, 2.0),
        ("tests/integration/test_mesh.py::test_z", False, 30.4),
        ("tests/integration/test_ray.py::test_z", True, 12.0),
        ("tests/integration/test_ray.py::test_z", True, 3.0),
    ]
    assert taken(spans) == "tests/integration 30 s, on a real Ray 15 s, tests/chain 2 s"


def test_only_what_is_longest_is_said() -> None:
    assert taken((f"tests/{n}/test_a.py::test_x", False, float(n)) for n in range(100)).count(",") == MOST - 1
    assert taken([]) == ""
