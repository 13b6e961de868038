"""What decides what a node runs and whom it believes is found, wherever it is named, and where links lead."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import certifi
import pytest

import weftos
from weftos.config.config import load
from weftos.node.protected import protected_paths

CONFIGURATION = """
[tools.count]
import = "counting.words:count"
python_path = ["linked"]
[behaviours.reader]
import = "no_such_module:Reader"
python_path = ["not/there"]
[node]
ray_address = "127.0.0.1:6379"
ray_token = "/run/ray.token"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "counting").mkdir()
    (tmp_path / "tools" / "counting").symlink_to(tmp_path / "counting")
    (tmp_path / "linked").symlink_to("tools")
    (tmp_path / "real.toml").write_text(CONFIGURATION)
    (tmp_path / "weftos.toml").symlink_to("real.toml")
    return tmp_path


def test_all_that_a_configuration_names_is_protected_and_where_its_links_lead(place: Path) -> None:
    paths = protected_paths(place, load(place), place / "join.token", {}).paths
    for name in ("weftos.toml", "real.toml", "linked", "tools", "counting", "not/there", "join.token"):
        assert str(place / name) in paths
    assert "/run/ray.token" in paths


def test_so_is_what_of_the_data_directory_links_lead_to(place: Path) -> None:
    for name in ("keys", "workspaces"):
        (place / name).symlink_to(f"/elsewhere/{name}")
    paths = protected_paths(place, load(place), None, {}).paths
    assert "/elsewhere/keys" in paths
    assert "/elsewhere/workspaces" not in paths


def test_so_are_certificates_libraries_and_what_the_user_remembers(place: Path) -> None:
    environment = {
        "SSL_CERT_FILE": "/certificates/own.pem",
        "SSL_CERT_DIR": "/certificates/all",
        "LD_LIBRARY_PATH": f"/libraries::{place}/lib",
        "XDG_CONFIG_HOME": "/configuration",
    }
    paths = protected_paths(place, load(place), None, environment).paths
    named = (
        "/certificates/own.pem",
        "/certificates/all",
        "/libraries",
        f"{place}/lib",
        "/configuration/weftos",
    )
    assert set(named) < set(paths)
    assert "" not in paths


def test_so_is_the_installation(place: Path) -> None:
    protected = protected_paths(place, load(place), None, {})
    for file in (
        sys.executable,
        os.path.realpath(sys.executable),
        weftos.__file__,
        certifi.where(),
        os.__file__,
    ):
        assert protected.shown_by([str(Path(file).parent)], place)
    assert f"{sys.prefix}/pyvenv.cfg" in protected.paths
    assert not protected.shown_by([str(place / "papers")], place)
