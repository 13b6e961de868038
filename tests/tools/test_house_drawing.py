"""What tools/house_drawing.py draws, on a house of a few rooms."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from tools.house import MANY_FILES, Source, sources
from tools.house_drawing import draw, floors, folders, lines

HALL, CELLAR, ATTIC = "kernel/hall.py", "kernel/cellar", "kernel/attic"


def house(root: Path, files: dict[str, str]) -> list[Source]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return sources(None, root)


def test_a_folder_stands_above_what_it_imports(tmp_path: Path) -> None:
    files, graph = folders(
        house(
            tmp_path,
            {
                HALL: "",
                f"{CELLAR}/wine.py": "import kernel.hall",
                f"{CELLAR}/coal.py": "import kernel.cellar.wine",
                f"{ATTIC}/box.py": "import kernel.cellar.coal, kernel.hall",
            },
        )
    )
    assert files == {HALL: 1, CELLAR: 2, ATTIC: 1}
    assert floors(graph) == {HALL: 0, CELLAR: 1, ATTIC: 2}
    assert set(lines(graph)) == {(ATTIC, CELLAR, False), (CELLAR, HALL, False)}


def test_a_cycle_shares_a_floor_and_is_named(tmp_path: Path) -> None:
    _, graph = folders(
        house(
            tmp_path,
            {
                HALL: "",
                f"{CELLAR}/wine.py": "import kernel.attic.box, kernel.hall",
                f"{ATTIC}/box.py": "import kernel.cellar.wine",
            },
        )
    )
    assert floors(graph) == {HALL: 0, CELLAR: 1, ATTIC: 1}
    assert set(lines(graph)) == {(ATTIC, CELLAR, True), (CELLAR, ATTIC, True), (CELLAR, HALL, False)}


def test_each_folder_is_drawn_with_its_files_and_one_too_full_in_red(tmp_path: Path) -> None:
    crowd = {f"{CELLAR}/file{n}.py": "import kernel.hall" for n in range(MANY_FILES + 1)}
    drawing = ElementTree.fromstring(draw(house(tmp_path, {HALL: "", **crowd})))
    groups = drawing.findall("{*}g")
    assert {group.findtext("{*}title") for group in groups} == {
        f"{HALL}: 1 files",
        f"{CELLAR}: {MANY_FILES + 1} files",
    }
    red = [square for square in drawing.iter() if square.get("fill") == "#c03030"]
    assert len(red) == MANY_FILES + 1
    assert len(drawing.findall("{*}path")) == 1
