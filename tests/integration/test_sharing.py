"""How the tests of real nodes are shared out over the workers of a run (``tests/sharing.py``)."""

from __future__ import annotations

import os

import pytest

from tests.sharing import set_of


@pytest.mark.parametrize("number", range(4))
def test_a_file_of_real_nodes_goes_to_one_worker_whole(
    number: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent  # all workers of this run have theirs in it
    seen = place / "workers of a file"
    seen.mkdir(exist_ok=True)
    (seen / str(os.getpid())).touch()
    assert os.listdir(seen) == [str(os.getpid())]


def test_all_files_of_the_real_ray_are_one_set_and_other_tests_are_by_themselves() -> None:
    ray = {set_of(f"tests/integration/test_{name}.py::test_x") for name in ("ray", "cells_ray", "daemons")}
    assert ray == {"ray"}
    assert set_of("tests/integration/test_memory.py::test_x[a::b]") == "tests/integration/test_memory.py"
    assert set_of("tests/chain/notes/test_note.py::test_x") == "tests/chain/notes/test_note.py::test_x"
