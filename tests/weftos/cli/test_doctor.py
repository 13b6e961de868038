"""``weftos doctor`` on a healthy directory, and on each kind of broken one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.weftos.cli.test_cli import Shell
from tests.weftos.twins.control_twin import Twin, served
from weftos import __version__
from weftos.cli.node import doctor
from weftos.lifecycle.initialise import initialise


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    initialise(tmp_path)
    return Shell(tmp_path, monkeypatch, capsys)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the imports of ray and duckdb, which take seconds."""
    checks = tuple(check for check in doctor.CHECKS if check.__name__ not in ("_ray", "_duckdb"))
    monkeypatch.setattr(doctor, "CHECKS", checks)


def test_a_healthy_directory_passes_everything(shell: Shell) -> None:
    checks = {check["name"]: check for check in shell.json("doctor")["checks"]}
    assert {name: check["status"] for name, check in checks.items() if name != "space"} == dict.fromkeys(
        [
            "python",
            "ray",
            "duckdb",
            "weftos",
            "compiler",
            "ledger",
            "clock",
            "ports",
            "data",
            "disk",
            "paths",
            "keys",
            "last run",
            "configuration",
            "providers",
            "faults",
            "agreement",
        ],
        "ok",
    )
    assert checks["ray"]["detail"].startswith("2.60.")


class FaultyNode(Twin):
    """A running node that names what is wrong with it."""

    async def status(self) -> Any:
        said = {"version": __version__, "clock_ahead_s": 0.0, "os_pid": 1}
        return {**said, "faults": ["/user/ada: its workspace shows weftos.toml"]}


@pytest.mark.usefixtures("quick")
def test_what_a_running_node_says_is_wrong_with_it_is_a_warning(shell: Shell) -> None:
    with served(FaultyNode()) as data:
        _, out, _ = shell.run("doctor", "--data", str(data), "--json")
    [faults] = [check for check in json.loads(out)["checks"] if check["name"] == "faults"]
    assert (faults["status"], faults["detail"]) == ("warn", "/user/ada: its workspace shows weftos.toml")


def spoil_mode(data: Path) -> None:
    data.chmod(0o755)


def spoil_key(data: Path) -> None:
    (data / "keys" / "ed25519.key").chmod(0o644)


def spoil_configuration(data: Path) -> None:
    (data / "weftos.toml").write_text("[nod]\n")


def spoil_python_path(data: Path) -> None:
    (data / "tools").mkdir()
    (data / "tools").chmod(0o777)
    (data / "weftos.toml").write_text('[tools.t]\nimport = "t:t"\npython_path = ["tools"]\n')


def spoil_format(data: Path) -> None:
    (data / "format").write_text("weftos-data 9\n")


def spoil_boot(data: Path) -> None:
    (data / "boot.json").write_text("{")


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("spoil", "name", "words"),
    [
        (spoil_mode, "data", "mode 0755"),
        (spoil_key, "keys", "chmod 600"),
        (spoil_configuration, "configuration", "unknown key nod"),
        (spoil_python_path, "configuration", "tools can be written by others (mode 0777)"),
        (spoil_format, "data", "weftos-data 9"),
        (spoil_boot, "last run", "boot.json"),
    ],
)
def test_a_broken_directory_fails_by_name(
    shell: Shell, spoil: Callable[[Path], None], name: str, words: str
) -> None:
    spoil(shell.data)
    status, out, _ = shell.run("doctor", "--json")
    failed = {check["name"]: check for check in json.loads(out)["checks"] if check["status"] == "fail"}
    assert (status, list(failed)) == (1, [name])
    assert words in failed[name]["detail"]


@pytest.mark.usefixtures("quick")
def test_a_runtime_directory_too_long_for_sockets_is_found_before_a_node_is_started(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 80)
    deep.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(deep))
    status, out, _ = shell.run("doctor")
    assert status == 1
    assert "set XDG_RUNTIME_DIR to a shorter directory" in out


@pytest.mark.usefixtures("quick")
def test_a_directory_not_made_yet_is_a_warning_only(shell: Shell, tmp_path: Path) -> None:
    status, out, _ = shell.run("doctor", "--data", str(tmp_path / "new"), "--json")
    found = {check["name"]: check["status"] for check in json.loads(out)["checks"]}
    assert (status, found["data"], found["keys"]) == (0, "warn", "warn")
