"""Applications as their author has them: made, run, applied, cut off, deleted."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.live_node import WAIT_S, LiveNode, until
from weftos import WeftosError
from weftos.lifecycle.new_project import make_project

MANY = 600
WAITING = """\
import os
from weftos import behaviour, tool

@behaviour
class Waiting:
    def __init__(self, info):
        pass

    async def handle(self, message, sys):
        if message.text == "secret":
            return (await sys.call_tool("peek", {})).text
        if message.text == "crash":
            raise ValueError("it crashed")
        await sys.call_tool("hang", {})

@tool(effects="none")
def peek() -> str:
    '''Look.'''
    return f"{os.environ.get('GIVEN')} {os.environ.get('PROBE_OTHER')}"

@tool(effects="none", timeout_s=600.0)
def hang() -> str:
    '''Hang.'''
    import time
    time.sleep(600)
"""
APP = """\
[app]
name = "waits"
[[app.children]]
name = "one"
behaviour = "waiting"
tools = ["peek", "hang"]
restart = "temporary"
[[app.behaviours]]
name = "waiting"
import = "waiting:Waiting"
[[app.tools]]
name = "peek"
import = "waiting:peek"
env = ["GIVEN"]
[[app.tools]]
name = "hang"
import = "waiting:hang"
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory whose name is short enough for sockets in it."""
    with tempfile.TemporaryDirectory(prefix="wr", dir="/tmp") as made:
        yield Path(made)


@pytest.fixture
def waits(tmp_path: Path) -> Path:
    (tmp_path / "waiting.py").write_text(WAITING)
    file = tmp_path / "app.toml"
    file.write_text(APP)
    return file


def mentions(place: Path) -> Iterator[str]:
    """Processes that were started for something below ``place``, or work there."""
    for pid in (name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()):
        with contextlib.suppress(OSError):
            told = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            if str(place) in told or os.readlink(f"/proc/{pid}/cwd").startswith(str(place)):
                yield f"{pid} {told}"


def running(place: Path, *words: str) -> subprocess.Popen[str]:
    """``weftos run``, whose directory of its own is below ``place``."""
    own = {
        "TMPDIR": str(place),
        "XDG_RUNTIME_DIR": str(place),
        "GIVEN": "given-to-the-tool",
        "PROBE_OTHER": "x",
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "weftos", "run", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **own},
    )


def test_a_new_project_is_run_tested_applied_and_deleted(fresh: LiveNode, tmp_path: Path) -> None:
    project = tmp_path / "hello"
    made = make_project(project)
    assert sum(len(file.read_text().splitlines()) for file in made) < 60
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(project)],
        capture_output=True,
        text=True,
        cwd=project,
        timeout=WAIT_S,
    )
    assert tested.returncode == 0, tested.stdout
    node, file = fresh, str(made[0])
    node.up("--app", file)

    status, said, _ = node.command("apply", file, "--dry-run")
    assert status == 0 and "/user/hello/greeter" in said and len(node.api.ps()) == 1
    status, said, error = node.command("apply", file)
    assert status == 0 and "hello is as declared" in said, error
    assert node.api.send("/user/hello/greeter", "Ada", wait_s=WAIT_S).get("reply") == "Hello, Ada!"
    assert "nothing to do" in node.command("apply", file)[1]

    many = tmp_path / "many.toml"
    declared = f'[[app.children]]\nname = "w"\nreplicas = {MANY}\ntools = []\n'
    many.write_text(f'[app]\nname = "many"\n{declared}')
    bad = tmp_path / "bad.toml"
    bad.write_text(many.read_text().replace("tools = []", 'tools = ["none"]\ncolour = 1'))
    status, _, error = node.command("apply", str(bad))
    assert status == 1 and f"{bad}:7: unknown key colour" in error
    bad.write_text(many.read_text().replace("tools = []", 'tools = ["none"]'))
    assert f"{bad}:4: /user/many/w: no tool none" in node.command("apply", str(bad))[2]

    applying = threading.Thread(target=node.command, args=("apply", str(many)))
    with contextlib.suppress(WeftosError):
        applying.start()
        until(lambda: any(row["name"] == "w-1" for row in node.api.ps()), "some of them run")
        node.kill()
    applying.join(WAIT_S)
    node.up("--app", file)
    status, said, error = node.command("apply", str(many))
    assert status == 0, error
    names = {row["name"] for row in node.api.ps(limit=10_000) if row["address"].startswith("/user/many/")}
    assert names == {f"w-{number}" for number in range(1, MANY + 1)}
    assert "nothing to do" in node.command("apply", str(many))[1]

    assert f"many is deleted ({MANY + 1} processes)" in node.command("delete", "many")[1]
    assert node.command("delete", "many")[0] == 1
    assert {row["address"] for row in node.api.ps()} == {"/user", "/user/hello", "/user/hello/greeter"}


HARD = """\
import os
from weftos import behaviour

@behaviour
class Hard:
    def __init__(self, info):
        kind = info.name.partition("-")[0]
        if kind == "ends":
            os._exit(3)
        if kind == "raises":
            raise ValueError("not so")

    async def handle(self, message, sys):
        return "well"
"""


def test_what_cannot_be_started_is_told_and_takes_down_nothing_of_the_application(
    fresh: LiveNode, tmp_path: Path
) -> None:
    (tmp_path / "hard.py").write_text(HARD)
    kinds = [("well", 20), ("raises", 2), ("ends", 2), ("raises-too", 6), ("well-too", 20)]
    children = "".join(
        f'[[app.children]]\nname = "{kind}"\nbehaviour = "hard"\nreplicas = {count}\n'
        for kind, count in kinds
    )
    code = '[[app.behaviours]]\nname = "hard"\nimport = "hard:Hard"\nisolation = "shared"\n'
    file = tmp_path / "app.toml"
    file.write_text(f'[app]\nname = "hard"\n{children}{code}')
    fresh.up("--app", str(file))
    status, said, _ = fresh.command("apply", str(file))
    assert status == 1 and "/user/hard/raises-1 did not start" in said

    def there() -> set[tuple[str, str]]:
        rows = fresh.api.ps(limit=100)
        return {(row["name"], row["state"]) for row in rows if row["address"].startswith("/user/hard/")}

    names = (f"{kind}-{number}" for kind in ("well", "well-too") for number in range(1, 21))
    well = {(name, "running") for name in names}
    until(lambda: there() == well, "all that can be constructed run, and nothing else is there")
    assert not [end for end in fresh.entries("process.exited") if end["address"] == "/user/hard"]
    assert fresh.api.send("/user/hard/well-1", "go", wait_s=WAIT_S).get("reply") == "well"


def test_run_answers_once_and_its_ledger_stays(waits: Path, place: Path) -> None:
    with running(place, str(waits), "secret") as process:
        said, error = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, error
    assert "given-to-the-tool None" in said
    [data] = place.glob("weftos-run-*")
    words, _, typed = said.splitlines()[-1].partition(": ")
    command = typed.split()
    assert (
        words == "to see why"
        and command[:3] == ["weftos", "chain", "why"]
        and command[4:] == ["--data", str(data)]
    )
    why = subprocess.run(
        [sys.executable, "-m", *command], capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    assert "turn.ended" in why.stdout and "sent by operator" in why.stdout
    assert b"given-to-the-tool" not in b"".join(file.read_bytes() for file in data.glob("logs/*"))
    assert not list(mentions(place))


@pytest.mark.parametrize(("how", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_run_leaves_no_process_however_it_ends(
    waits: Path, place: Path, how: signal.Signals, status: int
) -> None:
    with running(place, str(waits), "wait", "--json") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == "tool":
                process.send_signal(how)
                break
        process.stdout.read()
        assert process.wait(WAIT_S) == status
    until(lambda: not list(mentions(place)), "nothing is left of the run")


def test_run_that_is_cut_off_before_anything_was_said_leaves_no_directory(waits: Path, place: Path) -> None:
    with running(place, str(waits), "wait") as process:
        until(lambda: list(place.glob("weftos-run-*/logs/node.out")), "a node starts")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130 and "weftos chain why" not in said
    assert not list(place.glob("weftos-run-*")) and not list(mentions(place))


@pytest.mark.slow
def test_run_says_by_its_status_that_there_was_no_answer(waits: Path, place: Path) -> None:
    data = place / "data"
    with running(place, str(waits), "crash", "--data", str(data), "--engine", "local") as process:
        said, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 1 and "[dead: " in said and f"--data {data}" in said
    assert not list(mentions(place))


SHARED = """\
[app]
name = "shares"
[app.budget]
tool_calls = {top}
then = "refuse"
[[app.supervisors]]
name = "team"
[app.supervisors.budget]
tool_calls = {team}
then = "refuse"
[[app.supervisors.children]]
name = "one"
behaviour = "planner"
tools = ["calculator"]
replicas = 2
"""


def test_children_share_the_budget_of_their_supervisor_and_an_apply_changes_it(
    fresh: LiveNode, tmp_path: Path
) -> None:
    node, file = fresh, tmp_path / "app.toml"
    node.up()

    def applied(top: int, team: int) -> str:
        file.write_text(SHARED.format(top=top, team=team))
        done = node.cli("apply", str(file))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def calls(name: str, many: int) -> list[str]:
        work = ("calculator", {"expression": "1+1"})
        return [each["status"] for each in node.plan(name, *[work] * many)]

    file.write_text(SHARED.format(top=3, team=4))
    refused = node.cli("apply", str(file))
    assert refused.returncode != 0 and f"{file}:2: " in refused.stderr
    assert "it has 3 tool calls, and what is declared below it is to have 4" in refused.stderr
    applied(10, 3)
    before = {row["name"]: row["pid"] for row in node.api.ps()}
    assert calls("one-1", 2) == ["ok", "ok"]
    assert calls("one-2", 2) == ["ok", "denied"]
    [shown] = node.api.budgets.show("/user/shares/team")
    assert (shown["granted"], shown["spent"], shown["left"]) == (3, 3, 0)
    said = applied(6, 5)
    assert "tool_calls 10 to 6" in said and "tool_calls 3 to 5" in said
    assert calls("one-2", 1) == ["ok"] and calls("one-1", 2) == ["ok", "denied"]
    assert {row["name"]: row["pid"] for row in node.api.ps()} == before
    said = applied(6, 2)
    assert "tool_calls 5 to 2 (5 are in use and stay)" in said
    assert "nothing to do" in applied(6, 2)
    assert [row["granted"] for row in node.api.budgets.show("/user/shares")] == [6]
    node.command("budget", "grant", "/user/shares/team", "tool_calls", "1")
    assert calls("one-1", 2) == ["ok", "denied"]
    made = node.cli("spawn", "crew", "--supervisor", "--budget", "tool_calls=1", "--budget", "then=refuse")
    assert made.returncode == 0, made.stderr
    node.api.spawn("solo", under="/user/crew", behaviour="planner", tools=["calculator"])
    assert calls("solo", 2) == ["ok", "denied"]
