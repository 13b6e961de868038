"""What decides what a node runs and whom it believes is found, wherever it is named, and where links lead."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import certifi
import pytest

import weftos
from weftos.config.config import load
from weftos.node.protected import others_faults, protected_paths

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


OF_OTHERS = {
    "weftos.toml": "the configuration",
    "tools": "tools.count.python_path",
    "counting": "tools.count.python_path",
    "counting/words.py": "tools.count.python_path",
    "counting/__pycache__": "tools.count.python_path",
    "not": "behaviours.reader.python_path",
    "ray.token": "node.ray_token",
    "join.token": "--token",
    "own.pem": "SSL_CERT_FILE",
    "certificates": "SSL_CERT_DIR",
}


@pytest.mark.parametrize("part", OF_OTHERS)
def test_whatever_of_it_others_could_change_is_told_by_what_names_it(place: Path, part: str) -> None:
    (place / "real.toml").write_text(CONFIGURATION.replace("/run/ray.token", f"{place}/ray.token"))
    (place / "counting" / "__pycache__").mkdir()
    (place / "not").mkdir()
    (place / "certificates").mkdir()
    for name in ("counting/__init__.py", "counting/words.py", "ray.token", "join.token", "own.pem"):
        (place / name).touch()
    environment = {
        "SSL_CERT_FILE": f"{place}/own.pem",
        "SSL_CERT_DIR": f"/etc/ssl/certs:{place}/certificates",
    }
    config = load(place)
    assert others_faults(config, place / "join.token", environment) == ()
    (place / part).chmod(0o777)
    faults = others_faults(config, place / "join.token", environment)
    assert faults[0].startswith(f"{OF_OTHERS[part]}: {(place / part).resolve()} ")
    assert {fault.partition(":")[0] for fault in faults} == {OF_OTHERS[part]}


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
