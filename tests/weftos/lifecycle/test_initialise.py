"""Making a data directory: whole, private, never over something that is there."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest

from chain.keys.keys import load_keys
from tests.weftos.twins.strangers import STRANGER, needs_root
from weftos import WeftosError
from weftos.config.config import validate_file
from weftos.lifecycle.initialise import CONFIGURATION, initialise
from weftos.paths import has_data


def test_a_made_directory_is_whole_and_private(tmp_path: Path) -> None:
    data = tmp_path / "deep" / "data"
    assert not has_data(data)
    keys = initialise(data)
    assert has_data(data)
    assert load_keys(data / "keys").origin == keys.origin
    modes = {path: stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (data, *data.iterdir())}
    assert set(modes.values()) == {0}


def test_making_it_twice_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    origin = initialise(tmp_path).origin
    with pytest.raises(WeftosError, match="data directory already"):
        initialise(tmp_path)
    assert load_keys(tmp_path / "keys").origin == origin


def test_making_goes_on_where_it_was_cut_off(tmp_path: Path) -> None:
    origin = initialise(tmp_path).origin
    (tmp_path / "format").unlink()
    (tmp_path / "weftos.toml").write_text("[node]\nname = 'mine'\n")
    assert not has_data(tmp_path)
    assert initialise(tmp_path).origin == origin
    assert "mine" in (tmp_path / "weftos.toml").read_text()


def test_a_directory_with_other_things_in_it_is_refused_by_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(WeftosError, match=r"holds thesis\.tex"):
        initialise(tmp_path)
    assert os.listdir(tmp_path) == ["thesis.tex"]


def test_a_journal_without_a_format_file_is_not_taken_over(tmp_path: Path) -> None:
    initialise(tmp_path)
    (tmp_path / "format").unlink()
    (tmp_path / "journal" / "0000000000000000.wj").touch()
    with pytest.raises(WeftosError, match="a journal and no format file"):
        initialise(tmp_path)


def test_another_format_is_refused_with_both_sides(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("weftos-data 9\n")
    with pytest.raises(WeftosError, match="'weftos-data 9', this version knows 'weftos-data 1'"):
        has_data(tmp_path)


def test_half_a_set_of_keys_is_not_completed(tmp_path: Path) -> None:
    initialise(tmp_path)
    (tmp_path / "format").unlink()
    (tmp_path / "keys" / "ml-dsa-65.key").unlink()
    with pytest.raises(WeftosError, match=r"ml-dsa-65\.key is missing"):
        initialise(tmp_path)


def test_the_configuration_is_valid_as_written_and_with_every_line_uncommented(tmp_path: Path) -> None:
    initialise(tmp_path)
    assert validate_file(tmp_path / "weftos.toml").origins == {}
    file = tmp_path / "all.toml"
    file.write_text(re.sub(r"^# (\[|\w+ = )", r"\1", CONFIGURATION, flags=re.MULTILINE))
    origins = validate_file(file).origins
    assert {key.partition(".")[0] for key in origins} == {
        "node", "model", "agent", "providers", "tools", "behaviours", "memory", "mesh", "peers", "limits", "ledger",
        "logs",
    }  # fmt: skip


@needs_root
def test_nothing_is_made_in_another_users_directory(tmp_path: Path) -> None:
    """His ``weftos.toml.part`` could lead to any file of ours."""
    ours = tmp_path.with_name(f"{tmp_path.name}-ours")
    ours.write_text("mine")
    (tmp_path / "weftos.toml.part").symlink_to(ours)
    os.chown(tmp_path, STRANGER, STRANGER)
    with pytest.raises(WeftosError, match=f"belongs to user {STRANGER}"):
        initialise(tmp_path)
    assert ours.read_text() == "mine"
    assert os.listdir(tmp_path) == ["weftos.toml.part"]
    with pytest.raises(WeftosError, match=f"on the way to it belongs to user {STRANGER}"):
        initialise(tmp_path / "new" / "node")
    assert os.listdir(tmp_path) == ["weftos.toml.part"]
