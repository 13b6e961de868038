"""The mesh's part of the configuration, and what a node says that cannot set up its mesh."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from chain.keys.keys import load_keys
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin
from weftos.config.config import load
from weftos.config.config_file import ConfigError
from weftos.config.settings import Settings
from weftos.errors import WeftosError
from weftos.lifecycle.initialise import initialise
from weftos.node.mesh_wiring import make_mesh, open_mesh

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


def on_wiring(tmp_path: Path, text: str, body: Any) -> None:
    """``body(twin, settings, data)`` with a kernel and the configuration ``text``."""
    data = tmp_path / "data"
    initialise(data)
    settings = settings_of(data, text)

    async def run(twin: Twin) -> None:
        await body(twin, settings, data)

    on_twin(tmp_path / "twin", run)


@pytest.fixture(autouse=True)
def _twin_directory(tmp_path: Path) -> None:
    (tmp_path / "twin").mkdir()


def test_a_table_that_names_no_peer_stops_the_boot_with_its_name(tmp_path: Path) -> None:
    async def body(twin: Twin, settings: Settings, data: Path) -> None:
        with pytest.raises(WeftosError, match=r"\[peers.n2\] names no origin"):
            make_mesh(data, load_keys(data / "keys"), "n1", 1, settings, twin.kernel.remote)

    on_wiring(tmp_path, '[peers.n2]\nmay = ["send"]\n', body)


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (None, "give the join token"),
        ("missing", "cannot be read"),
        ("weftos-join-1.not.a.token", "not a join token"),
        ("x" * 100_000, "not a join token"),
    ],
)
def test_a_join_that_cannot_work_says_what_is_missing(tmp_path: Path, token: str | None, words: str) -> None:
    async def body(twin: Twin, settings: Settings, data: Path) -> None:
        remote = twin.kernel.remote
        mesh = make_mesh(data, load_keys(data / "keys"), "a name with blanks", 1, settings, remote)
        path = None if token is None else tmp_path / "token"
        if path is not None and token != "missing":
            path.write_text(str(token))
        with pytest.raises(WeftosError, match=words):
            await open_mesh(mesh, remote, settings, path)

    on_wiring(tmp_path, '[mesh]\njoin = "127.0.0.1:4300"\n', body)


def test_an_address_in_use_is_said(tmp_path: Path) -> None:
    async def body(twin: Twin, settings: Settings, data: Path) -> None:
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        taken = settings.model_copy(
            update={"mesh": settings.mesh.model_copy(update={"listen": f"tcp://127.0.0.1:{port}"})}
        )
        remote = twin.kernel.remote
        mesh = make_mesh(data, load_keys(data / "keys"), "n1", 1, taken, remote)
        with pytest.raises(WeftosError, match="cannot listen"):
            await open_mesh(mesh, remote, taken, None)
        server.close()
        await mesh.close()

    on_wiring(tmp_path, "", body)
