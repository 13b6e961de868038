"""What tools/house.py counts, on a house of a few lines."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tools.house import PACKAGES, late_names, measure, sources, wires

PART = """\
from kernel.rooms.door import Door


class Hall:
    def __init__(self) -> None:
        self.door = None
        self.light, self.heat = 1, 2

    def ring(self) -> dict[str, "Any"]:
        return {}


def build(hall: Hall, door: Door) -> Hall:
    hall.door = door  # a wire
    made = Hall()
    made.door = door
    later = lambda: bell
    bell = 1
    return made
"""
DOOR = """\
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernel.hall import Hall


class Door:
    to: Hall


def open_to(door: Door, hall: Hall) -> None:
    door.to = hall
"""


def house(root: Path) -> Path:
    (root / "kernel" / "rooms").mkdir(parents=True)
    (root / "kernel" / "hall.py").write_text(PART)
    (root / "kernel" / "rooms" / "door.py").write_text(DOOR)
    return root


def test_what_is_counted(tmp_path: Path) -> None:
    rows = measure(sources(None, house(tmp_path)))
    assert rows["modules"] == "2"
    assert rows["folders"] == "2"
    assert rows["attributes a class, p90 / max"].endswith(" / 3")
    assert rows["functions with Any or Json in the signature"] == "0 of 4"  # a name in quotes is a text
    assert rows["methods of the biggest classes"] == "Hall 2, Door 0"
    assert rows["import depth"].startswith("1 (")  # an import for types alone is none
    assert rows["comment lines"].startswith("1 of ")


def test_a_wire_is_what_a_part_is_given_from_outside_and_a_record_s_field_is_none(tmp_path: Path) -> None:
    assert wires(sources(None, house(tmp_path))) == ["kernel.hall:14 hall.door"]


def test_a_late_name_is_bound_behind_the_lambda_that_reads_it(tmp_path: Path) -> None:
    assert late_names(sources(None, house(tmp_path))) == ["kernel.hall:17 bell"]


def test_a_commit_is_read_as_it_was_committed(tmp_path: Path) -> None:
    root = house(tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for package in PACKAGES:
        (root / package).mkdir(exist_ok=True)
        (root / package / "__init__.py").touch()
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "a house"]):
        subprocess.run([*git, *words], cwd=root, check=True)
    (root / "kernel" / "hall.py").unlink()
    assert "kernel.hall" in {one.module for one in sources("HEAD", root)}
    assert "kernel.hall" not in {one.module for one in sources(None, root)}
