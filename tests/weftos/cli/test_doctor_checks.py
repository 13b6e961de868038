"""What ``weftos doctor`` says of the ledger's end, the clock, the ports, the versions and the compiler."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from chain.entry.draft import Draft
from chain.errors import DamageError, NoteError
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin as KernelTwin
from tests.weftos.twins.control_twin import Twin, served
from weftos import __version__
from weftos.audit.tail import read_tail
from weftos.cli.node import checks
from weftos.lifecycle.initialise import initialise
from weftos.lifecycle.ports import address_of, bind_fault, listens


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory whose ledger holds some entries."""
    data = tmp_path_factory.mktemp("ledger")

    async def body(twin: KernelTwin) -> None:
        twin.kernel.recorder.commit([Draft("node.clock", {"ahead_us": number}) for number in range(5)])
        await twin.ledger.barrier()
        while read_tail(data).full == 0:
            await asyncio.sleep(0.01)

    on_twin(data, body)
    return data


@pytest.fixture
def written(ledger: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(ledger, tmp_path / "data"))


def test_the_end_of_a_ledger_is_read_and_what_signs_it_holds(written: Path) -> None:
    tail = read_tail(written)
    assert tail.entries >= 5 and tail.signed == tail.entries and tail.full > 0
    assert abs(tail.last_us / 1e6 - time.time()) < 3600
    found = checks.ledger_tail(written)
    assert (found.status, found.detail.startswith(f"{tail.entries} entries")) == ("ok", True)


def test_a_head_that_nobody_has_signed_fails(written: Path) -> None:
    for slot in (written / "heads").iterdir():
        slot.write_bytes(slot.read_bytes().replace(b"\n", b"\n1", 1))
    with pytest.raises((NoteError, DamageError)):
        read_tail(written)
    found = checks.ledger_tail(written)
    assert found.status == "fail" and "weftos chain verify" in found.remedy
    assert checks.clock(written).status == "ok"  # that is the ledger's fault, and said there


def test_a_journal_that_has_lost_its_end_fails(written: Path) -> None:
    [segment, *_] = sorted((written / "journal").iterdir())
    os.truncate(segment, 200)
    found = checks.ledger_tail(written)
    assert (found.status, "a signed head has" in found.detail) == ("fail", True)


@pytest.mark.parametrize(
    ("behind_s", "status"), [(0, "ok"), (3_600, "warn"), (40 * 86_400, "fail"), (40 * 365 * 86_400, "fail")]
)
def test_a_clock_behind_the_ledger_or_before_its_time_is_told(
    written: Path, monkeypatch: pytest.MonkeyPatch, behind_s: int, status: str
) -> None:
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s - behind_s)
    found = checks.clock(written)
    assert (found.status, bool(found.remedy)) == (status, status != "ok")


class Node(Twin):
    """A running node; ``said`` goes into its status."""

    def __init__(self, **said: Any) -> None:
        super().__init__()
        self._said = said

    async def status(self) -> Any:
        return {"version": __version__, "clock_ahead_s": 0.0, "os_pid": os.getpid(), **self._said}


def test_a_clock_far_from_the_running_nodes_is_a_warning() -> None:
    with served(Node(clock_ahead_s=90.0)) as data:
        found = checks.clock(data)
    assert found.status == "warn" and "+90 s from the running node's" in found.detail


def test_a_node_of_another_version_than_is_installed_is_a_warning() -> None:
    with served(Node(version="0.0.9")) as data:
        found = checks.version(data)
    assert (found.status, found.detail) == ("warn", f"{__version__} is installed, the node runs 0.0.9")
    assert checks.version(data).status == "ok"


@pytest.fixture
def taken() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def listening(data: Path, port: int) -> Path:
    if not (data / "boot.json").exists() and not (data / "format").exists():
        initialise(data)
    (data / "weftos.toml").write_text(f'[mesh]\nlisten = "127.0.0.1:{port}"\n')
    return data


def test_a_port_that_another_program_has_fails_and_a_free_one_does_not(tmp_path: Path, taken: int) -> None:
    found = checks.ports(listening(tmp_path, taken))
    assert (
        found.status == "fail" and f"mesh.listen: 127.0.0.1:{taken}: Address already in use" in found.detail
    )
    assert "ss -ltnp" in found.remedy
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    assert checks.ports(listening(tmp_path, free)).detail == f"127.0.0.1:{free}: free"
    assert "no port is named" in checks.ports(listening(tmp_path, 0)).detail


def test_a_running_node_is_to_listen_itself(taken: int) -> None:
    with served(Node()) as data:
        found = checks.ports(listening(data, taken))
        assert (found.status, found.detail) == ("ok", f"127.0.0.1:{taken}: the node listens")
    with served(Node(os_pid=2**22 + 1)) as data:
        found = checks.ports(listening(data, taken))
        assert found.status == "fail" and "the running node does not listen" in found.detail


def test_who_listens_at_a_port_is_known_by_its_sockets(taken: int) -> None:
    assert listens(os.getpid(), taken)
    assert not listens(os.getpid(), 1)
    assert not listens(2**22 + 1, taken)
    assert bind_fault("127.0.0.1", taken)
    with pytest.raises(OSError):
        bind_fault("no such host.invalid", taken)
    assert address_of("tcp://[::1]:80") == ("::1", 80)


def test_of_a_node_that_shows_nobody_its_sockets_the_users_count(
    monkeypatch: pytest.MonkeyPatch, taken: int
) -> None:
    def closed(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "listdir", closed)
    assert listens(os.getpid(), taken)
    assert not listens(os.getpid(), 1)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert not listens(os.getpid(), taken)


def test_a_missing_compiler_is_a_warning_that_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CXX", "/nowhere/c++")
    found = checks.compiler(tmp_path)
    assert (found.status, found.detail) == ("warn", "no /nowhere/c++ is found")


def test_providers_are_told_by_the_names_of_their_variables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-live-1234567890")
        monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{server.getsockname()[1]}")
        found = checks.providers(tmp_path)
        assert (found.status, found.detail) == (
            "ok",
            "openai: OPENAI_API_KEY is set; anthropic: ANTHROPIC_API_KEY is not set; "
            "ollama: answers at OLLAMA_HOST",
        )
    assert "ollama: nobody answers at OLLAMA_HOST" in checks.providers(tmp_path).detail
    monkeypatch.setenv("OLLAMA_HOST", "ftp://secret")
    found = checks.providers(tmp_path)
    assert found.status == "warn" and "OLLAMA_HOST is no address" in found.detail
    assert "secret" not in found.detail + found.remedy and "1234" not in found.detail
