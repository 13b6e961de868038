"""Which workspaces show what decides what a node runs: in both directions, by whatever name."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from kernel.toolbox.protected import ProtectedPaths


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "project" / "tools" / "deep").mkdir(parents=True)
    (tmp_path / "project" / "notes").mkdir()
    (tmp_path / "project" / "weftos.toml").write_text("")
    (tmp_path / "data" / "workspaces" / "ada" / "code").mkdir(parents=True)
    return tmp_path


def shown(protected: Path, workspace: Path, own: Path = Path("/nowhere")) -> str:
    return ProtectedPaths([str(protected)]).shown_by([str(workspace)], own).get(str(workspace), "")


@pytest.mark.parametrize("workspace", ["", "project", "project/tools", "project/tools/deep"])
def test_a_workspace_shows_a_directory_that_it_holds_is_or_lies_in(place: Path, workspace: str) -> None:
    assert shown(place / "project" / "tools", place / workspace) == str(place / "project" / "tools")


@pytest.mark.parametrize("name", ["weftos.toml", "not_there_yet.pem"])
def test_a_workspace_shows_the_files_below_it_there_or_not(place: Path, name: str) -> None:
    file = place / "project" / name
    assert shown(file, place / "project") == str(file)
    assert not shown(file, place / "project" / "notes")


def test_what_lies_beside_shows_nothing(place: Path) -> None:
    assert not shown(place / "project" / "tools", place / "project" / "notes")
    assert not shown(place / "project" / "tools", place / "project" / "tools2")


def test_another_name_of_a_directory_shows_no_less(place: Path) -> None:
    (place / "alias").symlink_to(place / "project")
    assert shown(place / "alias" / "tools", place / "project")
    assert shown(place / "alias" / "tools", place / "project" / "tools" / "deep")
    assert shown(place / "project" / "tools", place / "alias")


def test_what_lies_around_a_nodes_own_workspaces_closes_none_of_them(place: Path) -> None:
    own = place / "data" / "workspaces"
    for protected in (place, place / "data"):
        assert not shown(protected, own / "ada", own)
        assert shown(protected, place / "data", own)
    for protected in (own, own / "ada", own / "ada" / "code"):
        assert shown(protected, own / "ada", own)
    assert not shown(own / "ada" / "code", own / "bob", own)


def test_for_a_workspace_that_is_yet_to_be_made_each_path_is_looked_at_once_and_not_all_that_lies_around(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every spawn asks."""
    own, deep = place / "data" / "workspaces", place.joinpath("project", *"abcdefgh")
    deep.mkdir(parents=True)
    paths = [str(deep / name) for name in ("one", "two", "three")]
    protected, looked, stat = ProtectedPaths(paths), [], os.stat

    def look(path: str) -> os.stat_result:
        looked.append(path)
        return stat(path)

    monkeypatch.setattr(os, "stat", look)
    assert not protected.shown_by([str(own / "eve")], own)
    assert sorted(path for path in looked if path.startswith(str(place / "project"))) == sorted(paths)
    assert len(looked) < 12


def test_of_many_workspaces_each_path_on_their_ways_is_looked_at_once(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that boots asks for those of all its processes at once."""
    own, looked, stat = place / "data" / "workspaces", Counter[str](), os.stat
    workspaces = [str(own / "user+" / f"team{number % 3}+" / f"a{number}") for number in range(60)]
    protected = ProtectedPaths([str(place / "project" / "tools"), workspaces[7]])

    def look(path: str) -> os.stat_result:
        looked[path] += 1
        return stat(path)

    monkeypatch.setattr(os, "stat", look)
    assert protected.shown_by(workspaces, own) == {workspaces[7]: workspaces[7]}
    assert set(looked.values()) == {1}
