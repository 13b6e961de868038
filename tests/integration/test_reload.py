"""``weftos config reload`` on a running node: the file, the keys, the cells, the gateway."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.integration.live_node import WAIT_S, LiveNode, until
from tests.servers.processes import ModelServer
from weftos import WeftosError

CHANGED = """
[agent]
system_prompt = "Be terse."
[agent.tools.file_write]
enabled = false
[limits]
sessions = 77
"""
FAULTY = "[agent]\ntemperature = 9\n[agent.execution]\nstreams = true\n"


def bearer(models: ModelServer) -> str:
    return str(models.requests()[-1]["headers"]["authorization"])


def system(models: ModelServer) -> str:
    return str(models.requests()[-1]["body"]["messages"][0]["content"])


def write(node: LiveNode, text: str) -> None:
    (node.place / "weftos.toml").write_text(text)


def test_keys_and_settings_change_under_a_running_node_and_faults_change_nothing(
    fresh: LiveNode, models: ModelServer
) -> None:
    node, key = fresh, fresh.place / "key"
    key.write_text("sk-the-first\n")
    key.chmod(0o600)
    node.configuration += f"""
[providers.turning]
kind = "openai"
base_url = "{models.base_url}"
api_key_file = "{key}"
model = "five-calls"
"""
    before = node.configuration
    node.up()
    node.api.spawn("ada", provider="turning", tools=["calculator", "file_*"])
    pid, gateway = node.row("ada")["pid"], node.helper("gateway")["os_pid"]
    assert node.api.send("ada", "go", wait_s=WAIT_S)["status"] == "ok"
    assert bearer(models) == "Bearer sk-the-first"

    key.write_text("sk-the-second\n")
    assert node.api.reload() == {"changed": [], "needs_restart": []}
    node.api.send("ada", "go", wait_s=WAIT_S)
    assert bearer(models) == "Bearer sk-the-second"

    write(node, before + CHANGED)
    status, out, _ = node.command("config", "reload")
    assert status == 0 and "agent.system_prompt" in out and "limits.sessions" in out
    settings = {each["key"]: each["value"] for each in node.api.config()["values"]}
    assert (settings["agent.system_prompt"], settings["limits.sessions"]) == ("Be terse.", 10_000)
    node.api.send("ada", "go", wait_s=WAIT_S)
    assert system(models).startswith("Be terse.") and node.row("ada")["pid"] == pid
    denied = [entry for entry in node.entries("tool.verdict") if entry["decision"] == "deny"]
    assert denied and "file_write is switched off" in denied[-1]["reasons"][0]

    write(node, before + FAULTY)
    with pytest.raises(WeftosError) as faulty:
        node.api.reload()
    for words in ("temperature must be at most 2", "unknown key agent.execution.streams"):
        assert words in str(faulty.value)
    node.api.send("ada", "go", wait_s=WAIT_S)
    assert system(models).startswith("Be terse.")

    write(node, before)
    os.kill(node.os_pid, signal.SIGHUP)
    until(lambda: _prompt(node) == "", "the signal has it read again")
    assert node.helper("gateway")["os_pid"] == gateway
    os.kill(gateway, signal.SIGKILL)
    until(lambda: node.helper("gateway")["os_pid"] != gateway, "another gateway")
    key.write_text("sk-the-third\n")
    node.api.reload()
    assert node.api.send("ada", "go", wait_s=WAIT_S)["status"] == "ok"
    assert bearer(models) == "Bearer sk-the-third"
    done = [entry for entry in node.entries("operator.command") if entry["operation"] == "reload"]
    assert len(done) == 4 and "sk-" not in str(done) and not _holds(node.data, "sk-the")


def _prompt(node: LiveNode) -> object:
    return next(each["value"] for each in node.api.config()["values"] if each["key"] == "agent.system_prompt")


def _holds(directory: Path, word: str) -> bool:
    return any(word.encode() in file.read_bytes() for file in directory.rglob("*") if file.is_file())
