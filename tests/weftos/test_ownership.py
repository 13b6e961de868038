"""Whose a path is: every directory on the way to it decides."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.weftos.twins.strangers import STRANGER, as_stranger, needs_root, wait_for
from weftos import WeftosError
from weftos.lifecycle.initialise import initialise
from weftos.ownership import check_own_place, others_fault, own_fault, way_fault


def test_a_path_in_a_directory_of_ones_own_is_ones_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert own_fault(tmp_path / "file") == ""
    assert way_fault(tmp_path / "file") == ""


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o722])
def test_a_directory_on_the_way_that_all_can_write_is_named(tmp_path: Path, mode: int) -> None:
    (tmp_path / "open" / "inner").mkdir(parents=True)
    (tmp_path / "open").chmod(mode)
    assert f"{tmp_path / 'open'} on the way to it can be written by others (mode {mode:04o})" in way_fault(
        tmp_path / "open" / "inner" / "file"
    )


def test_a_sticky_directory_on_the_way_is_usual(tmp_path: Path) -> None:
    (tmp_path / "open" / "inner").mkdir(parents=True)
    (tmp_path / "open").chmod(0o1777)
    assert way_fault(tmp_path / "open" / "inner") == ""


def test_a_link_leads_over_the_way_of_its_target(tmp_path: Path) -> None:
    (tmp_path / "open" / "inner").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to("open/inner")
    assert f"{tmp_path / 'open'} on the way" in way_fault(tmp_path / "link" / "file")


def test_links_in_a_circle_are_an_error_and_no_endless_walk(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="leads through more than"):
        way_fault(tmp_path / "a" / "file")


@needs_root
def test_another_user_on_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "theirs" / "inner").mkdir(parents=True)
    os.chown(tmp_path / "theirs", STRANGER, STRANGER)
    assert f"{tmp_path / 'theirs'} on the way to it belongs to user {STRANGER}" in way_fault(
        tmp_path / "theirs" / "inner"
    )
    os.lchown(tmp_path / "theirs", 0, 0)
    (tmp_path / "link").symlink_to("theirs")
    os.lchown(tmp_path / "link", STRANGER, STRANGER)
    assert f"{tmp_path / 'link'} on the way to it belongs to user {STRANGER}" in way_fault(
        tmp_path / "link" / "inner"
    )


@needs_root
def test_a_group_of_others_may_not_write(tmp_path: Path) -> None:
    (tmp_path / "shared" / "inner").mkdir(parents=True)
    os.chown(tmp_path / "shared", 0, STRANGER)
    (tmp_path / "shared").chmod(0o770)
    assert "can be written by others (mode 0770)" in way_fault(tmp_path / "shared" / "inner")


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o757, 0o702])
def test_what_others_can_write_is_theirs_to_decide(tmp_path: Path, mode: int) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "mine").write_text("")
    assert others_fault(tmp_path / "open") == others_fault(tmp_path / "open" / "mine") == ""
    (tmp_path / "open").chmod(mode)
    said = f"{tmp_path / 'open'} can be written by others (mode {mode:04o})"
    assert others_fault(tmp_path / "open") == said
    (tmp_path / "link").symlink_to("open")
    assert others_fault(tmp_path / "link") == said


def test_what_is_not_there_yet_is_made_by_who_can_write_above_it(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "link").symlink_to("open/not/there")
    (tmp_path / "archive.zip").write_text("")
    assert [others_fault(tmp_path / name) for name in ("open/not/there", "link", "archive.zip/x")] == [""] * 3
    (tmp_path / "open").chmod(0o1777)
    (tmp_path / "archive.zip").chmod(0o666)
    for name in ("open/not/there", "link"):
        assert f"{tmp_path / 'open'} can be written by others (mode 1777)" in others_fault(tmp_path / name)
    assert f"{tmp_path / 'archive.zip'} can be written" in others_fault(tmp_path / "archive.zip" / "x")


def test_what_cannot_be_looked_at_is_no_ones_own(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    assert "cannot be looked at" in others_fault(tmp_path / "a" / "file")


@needs_root
def test_what_is_roots_is_fine_for_everybody_and_what_is_anothers_for_nobody(tmp_path: Path) -> None:
    def act() -> None:
        assert others_fault(Path("/etc/passwd")) == others_fault(Path("/usr/lib")) == ""

    wait_for(as_stranger(act))
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", STRANGER, STRANGER)
    assert f"{tmp_path / 'theirs'} belongs to user {STRANGER}" in others_fault(tmp_path / "theirs")


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o720])
@pytest.mark.parametrize("part", ["", "keys"])
def test_a_data_or_key_directory_that_others_can_write_is_refused(
    tmp_path: Path, part: str, mode: int
) -> None:
    data = tmp_path / "node"
    initialise(data)
    check_own_place(data)
    (data / part).chmod(mode)
    with pytest.raises(WeftosError, match=f"{data / part} has mode {mode:04o}.*chmod go-w") as caught:
        check_own_place(data)
    assert caught.value.code == "refused"


@pytest.mark.parametrize("part", ["journal", "heads", "weftos.toml", "format"])
def test_what_decides_in_a_data_directory_is_not_for_all_to_write(tmp_path: Path, part: str) -> None:
    data = tmp_path / "node"
    initialise(data)
    (data / part).chmod(0o757)
    with pytest.raises(WeftosError, match=f"{data / part} can be written by others"):
        check_own_place(data)


@pytest.mark.parametrize("part", ["journal", "keys", "weftos.toml"])
def test_nor_is_the_way_to_what_of_it_lies_elsewhere(tmp_path: Path, part: str) -> None:
    data, elsewhere = tmp_path / "node", tmp_path / "open" / "mine"
    initialise(data)
    elsewhere.mkdir(parents=True)
    (data / part).rename(elsewhere / part)
    (data / part).symlink_to(elsewhere / part)
    check_own_place(data)
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(WeftosError, match=f"{tmp_path / 'open'} on the way to it can be written by others"):
        check_own_place(data)


@needs_root
@pytest.mark.parametrize("part", ["", "keys", "weftos.toml", "journal"])
def test_what_belongs_to_another_user_is_refused(tmp_path: Path, part: str) -> None:
    data = tmp_path / "node"
    initialise(data)
    os.chown(data / part, STRANGER, STRANGER)
    with pytest.raises(WeftosError, match=f"{data / part} belongs to user {STRANGER}"):
        check_own_place(data)
