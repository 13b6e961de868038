"""The mesh's part of the configuration, and what a node says that cannot set up its mesh."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from chain.keys.keys import load_keys
from mesh.identity.peers import Peer, PeerStore
from mesh.mesh import Mesh
from tests.kernel.twins.kernel_twin import kernel_twin
from weftos.config.config import load
from weftos.config.config_file import ConfigError
from weftos.config.settings import Settings
from weftos.errors import WeftosError
from weftos.lifecycle.initialise import initialise
from weftos.node.mesh_wiring import called_the_same, make_mesh, open_mesh

ORIGIN = "weftos-" + "b" * 26


def settings_of(data: Path, text: str) -> Settings:
    (data / "weftos.toml").write_text(text)
    return load(data, file=None, flags={}, environment={}).settings


def test_peers_and_addresses_are_read_with_or_without_their_scheme(tmp_path: Path) -> None:
    text = (
        '[mesh]\nlisten = "127.0.0.1:0"\ndeadline_s = 5.0\n'
        f'[peers.n2]\norigin = "{ORIGIN}"\naddress = "127.0.0.1:4301"\nmay = ["send"]\ntools = ["pay", "*"]\n'
    )
    settings = settings_of(tmp_path, text)
    assert (settings.mesh.listen, settings.mesh.deadline_s) == ("tcp://127.0.0.1:0", 5.0)
    assert settings.peers["n2"].address == "tcp://127.0.0.1:4301"
    assert settings.peers["n2"].may == ["send"]
    assert settings.peers["n2"].tools == ["pay", "*"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[mesh]\nlisten = "everywhere"\n', "HOST:PORT"),
        ("[mesh]\ndeadline_s = 0.0\n", "deadline_s"),
        ('[peers.n2]\norigin = "n2"\n', "weftos node id"),
        (f'[peers.n2]\norigin = "{ORIGIN}"\nmay = ["everything"]\n', "may"),
        (f'[peers.n2]\norigin = "{ORIGIN}"\ntools = ["a b"]\n', "tools"),
        ('[peers.n2]\naddress = "127.0.0.1:0"\n', "HOST:PORT"),
        ('[peers.n2]\npetname = "x"\n', "petname"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        settings_of(tmp_path, text)


def made(data: Path, settings: Settings, name: str = "n1") -> Mesh:
    return make_mesh(data, load_keys(data / "keys"), name, 1, settings, lambda: 0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "twin").mkdir()
    initialise(tmp_path / "data")
    return tmp_path / "data"


def opening(tmp_path: Path, mesh: Mesh, settings: Settings, token: Path | None) -> None:
    """A kernel with ``mesh``, which it opens."""

    async def run() -> None:
        async with kernel_twin(tmp_path / "twin", mesh=mesh) as twin:
            try:
                await open_mesh(twin.kernel.remote, settings, token)
            finally:
                await mesh.close()

    asyncio.run(run())


def test_a_table_that_names_no_peer_stops_the_boot_with_its_name(data: Path) -> None:
    settings = settings_of(data, '[peers.n2]\nmay = ["send"]\n')
    with pytest.raises(WeftosError, match=r"\[peers.n2\] names no origin"):
        made(data, settings)


def test_no_table_speaks_of_a_peer_by_the_name_of_this_node(data: Path) -> None:
    settings = settings_of(data, f'[peers.n1]\norigin = "{ORIGIN}"\n')
    with pytest.raises(WeftosError, match=r"\[peers.n1\]: this node itself is called n1"):
        made(data, settings)


def test_a_node_that_is_called_as_a_listed_peer_starts_and_says_what_to_do(data: Path) -> None:
    settings = settings_of(data, "")
    PeerStore(data / "mesh").add(Peer("n1", ORIGIN))
    mesh = made(data, settings)
    said = called_the_same(mesh, "n1")
    assert f"weftos peer remove {ORIGIN}" in said and "node.name" in said
    assert not called_the_same(mesh, "n2")


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (None, "give the join token"),
        ("missing", "cannot be read"),
        ("pipe", "not a regular file"),
        ("weftos-join-1.not.a.token", "not a join token"),
        ("x" * 100_000, "not a join token"),
    ],
)
def test_a_join_that_cannot_work_says_what_is_missing(
    tmp_path: Path, data: Path, token: str | None, words: str
) -> None:
    settings = settings_of(data, '[mesh]\njoin = "127.0.0.1:4300"\n')
    path = None if token is None else tmp_path / "token"
    if path is not None and token == "pipe":
        os.mkfifo(path)
    elif path is not None and token != "missing":
        path.write_text(str(token))
    with pytest.raises(WeftosError, match=words):
        opening(tmp_path, made(data, settings, "a name with blanks"), settings, path)


def test_an_address_in_use_is_said(tmp_path: Path, data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        settings = settings_of(data, f'[mesh]\nlisten = "127.0.0.1:{port}"\n')
        with pytest.raises(WeftosError, match="cannot listen"):
            opening(tmp_path, made(data, settings), settings, None)
