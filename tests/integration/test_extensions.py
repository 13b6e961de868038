"""The examples' own tool and behaviour, named in a data directory's weftos.toml as their README says, run for real."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import weftos
from tests.integration.live_node import WAIT_S, LiveNode
from tests.own_code import own_code
from tests.places import ROOT
from weftos import WeftosError

EXAMPLES = own_code(ROOT / "examples")
HOSTS = """
from weftos import tool


@tool(effects="none", network=("bank.example.org",))
def ask_bank() -> str:
    'Ask.'
    return "rich"


@tool(effects="none")
def ask_anybody() -> str:
    'Ask.'
    return "hello"


@tool(effects="none", network=())
def tell() -> str:
    'Count.'
    return "1"
"""
FILES = ("README.md", "surveyor.py", "word_count.py")


def test_an_own_tool_and_an_own_behaviour_work_as_the_readme_says(fresh: LiveNode, tmp_path: Path) -> None:
    node = fresh
    toml = (EXAMPLES / "README.md").read_text().split("```toml\n")[1].split("```")[0]
    assert node.cli("init", str(node.data)).returncode == 0
    settings = node.data / "weftos.toml"
    settings.write_text(settings.read_text() + toml.replace("/path/to/examples", str(EXAMPLES)))
    assert node.cli("config", "validate", str(settings)).returncode == 0
    node.up("--config", str(settings))
    workspace = tmp_path / "papers"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one two three\n")
    (workspace / "b.txt").write_text("four\n")
    tools = "file_list,file_read,word_count"
    surveyor = [
        "spawn",
        "surveyor",
        "--behaviour",
        "surveyor",
        "--tools",
        tools,
        "--workspace",
        str(workspace),
    ]
    spawned = node.cli(*surveyor)
    assert spawned.returncode == 0, spawned.stderr
    sent = node.cli("send", "surveyor", ".", "--wait")
    assert (sent.returncode, sent.stdout) == (0, "a.txt: 3\nb.txt: 1\n"), sent.stderr
    assert node.row("surveyor")["isolation"] == "dedicated"
    assert node.api.status()["warm_cells"] == {"spare": 1, "wanted": 1, "most": 4}
    own = [entry for entry in node.entries("tool.intent") if entry["tool"] == "word_count"]
    assert [entry["effects"] for entry in own] == ["none", "none"]
    workers = [row["name"] for row in node.api.ps(all=True) if row["name"].startswith("worker-")]
    assert len(workers) == 2, "built-in and third-party tools never share a process"


@pytest.mark.slow
def test_a_tool_that_a_process_does_not_hold_is_refused_to_it(fresh: LiveNode, tmp_path: Path) -> None:
    node = fresh
    node.configuration += (
        f'[behaviours.surveyor]\nimport = "surveyor:Surveyor"\npython_path = ["{EXAMPLES}"]\n'
    )
    node.configuration += (
        f'[tools.word_count]\nimport = "word_count:word_count"\npython_path = ["{EXAMPLES}"]\n'
    )
    node.configuration += '[tools.missing]\nimport = "no_such_module:tool"\n'
    node.up()
    (tmp_path / "a.txt").write_text("one\n")
    node.api.spawn(
        "surveyor", behaviour="surveyor", tools=["file_list", "file_read"], workspace=str(tmp_path)
    )
    assert node.api.send("surveyor", ".", wait_s=WAIT_S)["reply"] == "a.txt: ?"
    [denied] = [entry for entry in node.entries("tool.outcome") if entry["tool"] == "word_count"]
    assert denied["status"] == "denied"
    [unusable] = node.logged("tool not usable")
    assert (unusable["tool"], "no_such_module" in unusable["why"]) == ("missing", True)


def test_a_process_without_the_network_uses_no_tool_that_declares_it(fresh: LiveNode, tmp_path: Path) -> None:
    node, code = fresh, tmp_path / "hosts.py"
    code.write_text(HOSTS)
    for name in ("ask_bank", "ask_anybody", "tell"):
        node.configuration += f'[tools.{name}]\nimport = "hosts:{name}"\npython_path = ["{tmp_path}"]\n'
    node.up()
    tools = ["--tools", "ask_bank,ask_anybody,tell"]
    for name, network in (("ada", "network="), ("bob", "network=*.example.org"), ("eve", "spawn=no")):
        said = node.cli("spawn", name, "--behaviour", "planner", *tools, "--capability", network)
        assert said.returncode == 0, said.stderr
    calls: list[tuple[str, dict[str, str]]] = [(tool, {}) for tool in ("ask_bank", "ask_anybody", "tell")]
    statuses = {name: [each["status"] for each in node.plan(name, *calls)] for name in ("ada", "bob", "eve")}
    assert statuses == {
        "ada": ["denied", "denied", "ok"],
        "bob": ["ok", "denied", "ok"],
        "eve": ["ok", "ok", "ok"],
    }
    why = node.cli("policy", "explain", "ada", "ask_bank").stdout
    assert "/user/ada may use no network, and ask_bank declares that it uses bank.example.org" in why
    assert "ask_bank: allow" in node.cli("policy", "explain", "bob", "ask_bank").stdout
    rows = {row["tool"]: row for row in node.api.policy.tools("ada")["tools"]}
    assert (rows["tell"]["decision"], rows["tell"]["rules"]) == ("allow", ["tools"])
    assert (rows["ask_bank"]["decision"], "no network" in rows["ask_bank"]["why"]) == ("deny", True)
    assert rows["calculator"]["why"].startswith("calculator is none of its tools")
    shown = node.cli("tools", "ada").stdout
    assert f"/user/ada may use 1 of {len(rows)} tools" in shown and "no network" in shown


def test_no_agent_changes_the_configuration_and_the_code_of_its_node(fresh: LiveNode, tmp_path: Path) -> None:
    node, project = fresh, tmp_path / "project"
    (project / "tools").mkdir(parents=True)
    code, settings = project / "tools" / "word_count.py", project / "weftos.toml"
    code.write_text((EXAMPLES / "word_count.py").read_text())
    own = f'[tools.word_count]\nimport = "word_count:word_count"\npython_path = ["{project}/tools"]\n'
    node.up()
    node.api.spawn("ada", behaviour="planner", tools=["file_write", "file_read"], workspace=str(project))
    [written] = node.plan("ada", ("file_write", {"path": "notes.txt", "content": "hers"}))
    assert written["status"] == "ok"
    node.down()
    settings.write_text(node.configuration + own)
    before = (code.read_text(), settings.read_text())
    node.up("--config", str(settings))
    for path in ("weftos.toml", "tools/word_count.py", "tools/sitecustomize.py"):
        [refused] = node.plan("ada", ("file_write", {"path": path, "content": "import os"}))
        assert (refused["status"], "decides what the node runs" in refused["text"]) == ("error", True)
    [written] = node.plan("ada", ("file_write", {"path": "notes.txt", "content": "hers too"}))
    assert written["status"] == "ok"
    assert (code.read_text(), settings.read_text()) == before
    assert [each.name for each in project.glob("tools/*.py")] == ["word_count.py"]
    [fault] = node.api.status()["faults"]
    assert fault.startswith(f"/user/ada: its workspace {project} shows {settings}")
    assert [line["what"] for line in node.logged("a workspace is at fault")] == [fault]
    (project / "papers").mkdir()
    node.api.spawn("bob", tools=["file_write"], workspace=str(project / "papers"))
    for workspace in (project, project / "tools", Path(sys.prefix), Path(weftos.__file__).parent):
        with pytest.raises(WeftosError, match="decides what the node runs") as raised:
            node.api.spawn("eve", tools=[], workspace=str(workspace))
        assert raised.value.code == "refused"
