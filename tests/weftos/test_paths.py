"""What is read of a directory that somebody else may have made: small files alone, and these without waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernel.helper.os_session import write_boot
from tests.endless import ENDLESS, put_endless
from weftos import WeftosError
from weftos.errors import Impostor
from weftos.lifecycle.initialise import initialise
from weftos.node.runtime import PREFIX, remove_recorded
from weftos.paths import another_nodes, control_socket, existing_data


@pytest.fixture
def data(tmp_path: Path) -> Path:
    initialise(tmp_path / "node")
    return tmp_path / "node"


@ENDLESS
def test_a_format_that_is_no_file_is_not_waited_for(data: Path, kind: str) -> None:
    put_endless(data / "format", kind)
    with pytest.raises(OSError, match="not a regular file"):
        existing_data(data)


@ENDLESS
def test_a_record_of_the_boot_that_is_no_file_is_not_waited_for(data: Path, kind: str) -> None:
    put_endless(data / "boot.json", kind)
    with pytest.raises(WeftosError, match=r"boot\.json cannot be read \(not a regular file\)"):
        control_socket(data)


def test_a_record_of_the_boot_that_nests_without_end_is_not_readable(data: Path) -> None:
    (data / "boot.json").write_text("[" * 50_000)
    with pytest.raises(WeftosError, match=r"boot\.json is not readable"):
        control_socket(data)


def test_nothing_is_read_of_a_directory_that_others_decide(data: Path) -> None:
    put_endless(data / "boot.json", "pipe")
    data.chmod(0o777)
    with pytest.raises(Impostor, match="others can write it"):
        control_socket(data)


@ENDLESS
def test_a_runtime_directory_whose_mark_is_no_file_is_left_where_it_is(data: Path, kind: str) -> None:
    place = data / f"{PREFIX}run"
    place.mkdir(mode=0o700)
    put_endless(place / "format", kind)
    write_boot(data, 1, place)
    assert not remove_recorded(place, data)
    with pytest.raises(OSError, match="not a regular file"):
        another_nodes(place, data)
