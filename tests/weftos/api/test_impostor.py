"""Another local user who serves a node's socket is told nothing, and cannot keep the node from starting."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.helper.os_session import write_boot
from tests.weftos.twins.strangers import STRANGER, as_stranger, needs_root, wait_for
from weftos import Client, WeftosError
from weftos.lifecycle.initialise import initialise
from weftos.node.runtime import make_runtime, remove_recorded, remove_runtime
from weftos.paths import TEMPORARY, control_socket, runtime_home

REPLY = json.dumps({"message": "m", "reply": "I am the node", "status": "ok"}).encode()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    initialise(tmp_path / "node")
    return tmp_path / "node"


class Impostor:
    """Answers each request as an agent would, and keeps what it was told."""

    def __init__(self, place: Path, *, own_directory: bool) -> None:
        self.path = place / "control.sock"
        self._heard, told = os.pipe()
        self._listening = socket.socket(socket.AF_UNIX)

        def bind() -> None:
            self._listening.bind(os.fspath(self.path))
            self.path.chmod(0o777)

        def serve() -> None:
            if own_directory:
                place.mkdir(mode=0o755)
                bind()
            self._listening.listen()  # SO_PEERCRED names who does this
            os.write(told, b"listening\n")
            while True:
                connection, _ = self._listening.accept()
                if said := connection.recv(65536):
                    os.write(told, said.partition(b"\r\n")[0] + b"\n")
                    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
                    connection.send(head % len(REPLY) + REPLY)
                connection.close()

        self._child = as_stranger(serve, (lambda: None) if own_directory else bind)
        os.close(told)
        assert os.read(self._heard, 100) == b"listening\n"

    def heard_until(self, last: bytes) -> bytes:
        """What it was told up to and with ``last``, which is said to it now."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(os.fspath(self.path))
            connection.send(last)
            connection.recv(1000)
        return os.read(self._heard, 65536)

    def end(self) -> None:
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)
        os.close(self._heard)
        self._listening.close()


@pytest.fixture
def place() -> Iterator[Path]:
    """Where a runtime directory was in /tmp, whose name everybody has seen."""
    place = Path(tempfile.mkdtemp(prefix="weftos-", dir="/tmp"))
    place.rmdir()
    yield place
    shutil.rmtree(place, ignore_errors=True)


@needs_root
@pytest.mark.parametrize("own_directory", [True, False])
def test_who_serves_as_another_user_is_told_nothing(data: Path, place: Path, own_directory: bool) -> None:
    write_boot(data, 1, place)
    if not own_directory:
        place.mkdir(mode=0o755)
    impostor = Impostor(place, own_directory=own_directory)
    try:
        with pytest.raises(WeftosError, match=f"belongs to user {STRANGER}") as caught, Client(data) as node:
            node.send("ada", "my secret", wait_s=5)
        assert caught.value.code == "refused"
        assert impostor.heard_until(b"the end\r\n") == b"the end\n"
    finally:
        impostor.end()


def test_a_runtime_directory_that_others_can_write_is_not_trusted(data: Path, place: Path) -> None:
    write_boot(data, 1, place)
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(WeftosError, match=f"{place} has mode 0777"):
        Client(data)


def test_a_node_that_has_stopped_does_not_run(data: Path, place: Path) -> None:
    write_boot(data, 1, place)
    with pytest.raises(WeftosError) as caught:
        Client(data)
    assert caught.value.code == "not_running"


@needs_root
def test_the_old_name_made_by_another_user_is_left_alone(place: Path) -> None:
    wait_for(as_stranger(lambda: place.mkdir()))
    assert not remove_runtime(place)
    assert place.exists()


@pytest.mark.parametrize("name", ["weftos-notes", "notes"])
def test_a_directory_that_is_no_runtime_directory_is_not_removed_whatever_boot_json_says(
    tmp_path: Path, data: Path, name: str
) -> None:
    victim = tmp_path / name
    (victim / "work").mkdir(parents=True)
    (victim / "work" / "years").touch()
    assert not remove_recorded(victim, data)
    (victim / "format").write_text("weftos-data 1\n")
    assert not remove_recorded(victim, data)
    assert (victim / "work" / "years").exists()


def test_the_runtime_directory_of_a_start_that_was_cut_off_is_removed(data: Path, place: Path) -> None:
    place.mkdir()
    assert remove_recorded(place, data)
    made = make_runtime(data)
    assert remove_recorded(made, data) and not made.exists() and remove_recorded(made, data)


@pytest.fixture
def theirs(tmp_path: Path) -> Iterator[Path]:
    """The runtime directory of another node of this user."""
    other = tmp_path / "other"
    other.mkdir()
    made = make_runtime(other)
    yield made
    assert remove_recorded(made, other)


def test_the_runtime_directory_of_another_node_is_not_removed_whatever_boot_json_says(
    theirs: Path, data: Path
) -> None:
    assert not remove_recorded(theirs, data)
    assert theirs.exists()


def test_another_node_is_told_nothing_that_is_for_this_one(theirs: Path, data: Path) -> None:
    """A record that names its directory would have it stopped in the place of the other."""
    write_boot(data, 1, theirs)
    with pytest.raises(WeftosError, match=f"{theirs} is the runtime directory of another node") as caught:
        Client(data)
    assert caught.value.code == "refused"
    own = make_runtime(data)
    write_boot(data, 2, own)
    assert control_socket(data) == own / "control.sock"
    assert remove_recorded(own, data)


def test_a_start_where_a_running_nodes_directory_was_takes_nothing_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory was moved while its node ran, and another one is where it was."""
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as home:
        monkeypatch.setenv("XDG_RUNTIME_DIR", home)
        first = tmp_path / "node"
        first.mkdir()
        running = make_runtime(first)
        moved = first.rename(tmp_path / "moved")
        first.mkdir()
        made = make_runtime(first)
        assert made != running and running.exists()
        assert remove_recorded(made, first) and remove_recorded(running, moved)


def test_a_runtime_directory_that_cannot_be_read_is_named(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir=TEMPORARY) as home:
        monkeypatch.setenv("XDG_RUNTIME_DIR", home)
        made = make_runtime(data)
        made.rename(made.parent / "elsewhere")
        made.symlink_to(made)  # reading what is below it fails, as in a directory of root's
        with pytest.raises(WeftosError, match=f"{made} is not a runtime directory of this user: remove it"):
            make_runtime(data)


def test_each_start_in_the_common_directory_has_another_name(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What somebody knows of one run, or can compute, does not help him to be there before the next."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr("weftos.node.runtime.runtime_home", lambda: TEMPORARY)
    first, second = make_runtime(data), make_runtime(data)
    try:
        assert first != second
        assert {stat.S_IMODE(made.stat().st_mode) for made in (first, second)} == {0o700}
    finally:
        assert remove_runtime(first)
        assert remove_runtime(second)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_a_home_for_sockets_that_others_can_write_is_not_taken(tmp_path: Path, mode: int) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    assert runtime_home({"XDG_RUNTIME_DIR": str(home)}) == home
    home.chmod(mode)
    assert runtime_home({"XDG_RUNTIME_DIR": str(home)}) != home
