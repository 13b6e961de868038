"""The node's side: real worker processes that hang, die, lie, and are replaced."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernel.helper.os_processes import Mark, ProcessRow, end_tree, read_process
from kernel.helper.output_log import MAX_FILE_BYTES
from kernel.toolbox.absence import read_absence
from kernel.toolbox.files import UNKNOWN
from kernel.toolbox.protected import ProtectedPaths
from kernel.toolbox.registry import Registry, RegistryError, ToolSource, builtin_declarations
from kernel.worker import pool
from kernel.worker.pool import Came, WorkerPool, WorkerResult
from kernel.worker.requests import Configure
from kernel.worker.workers import (
    WorkerLimits,
    WorkerLost,
    Workers,
    WorkerUnavailable,
    WorkerWithdrawn,
    worker_command,
)
from tests.patience import HANG_S

HOSTILE = '''
import asyncio, os, signal, subprocess, sys, time
from pathlib import Path
from weftos import tool

@tool
def chatty(count: int) -> str:
    """Print."""
    print("to stdout" * count)
    sys.stderr.write("to stderr\\n")
    os.write(1, b"to descriptor one\\n")
    return "said"

@tool
def leave() -> str:
    """Raise SystemExit."""
    sys.exit(3)

@tool
async def leave_async() -> str:
    """Raise SystemExit on the loop."""
    raise SystemExit(3)

@tool
def interrupt() -> str:
    """Raise KeyboardInterrupt."""
    raise KeyboardInterrupt

@tool
async def cancel() -> str:
    """Raise CancelledError."""
    raise asyncio.CancelledError

@tool
def fail() -> str:
    """Raise what cannot be shown."""
    class Odd(Exception):
        def __str__(self):
            raise ValueError("no text")
    raise Odd

@tool
def odd() -> str:
    """Return what is no JSON."""
    return object()

@tool
def big() -> str:
    """Return 50 MB."""
    return "x" * 50_000_000

@tool
def die(by: str) -> str:
    """End the own process."""
    if by == "exit":
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)

@tool
def die_leaving_a_child() -> str:
    """End the own process while a forked child holds its descriptors."""
    if os.fork() == 0:
        time.sleep(1000)
        os._exit(0)
    os._exit(0)

@tool
def block(started: str) -> str:
    """Block for ever, with a child process."""
    child = subprocess.Popen(["sleep", "1000"])
    Path(started).write_text(str(child.pid))
    time.sleep(1000)

@tool
def leave_behind(program: list[str], started: str, ends: bool) -> str:
    """Start a program in a session of its own, which says its pid; then end the own process, or hang."""
    subprocess.Popen([*program, "echo $$ > $0.new; mv $0.new $0; exec sleep 1000", started], start_new_session=True)
    while not Path(started).exists():
        time.sleep(0.01)
    if ends:
        os._exit(0)
    time.sleep(1000)

@tool
async def block_loop(started: str) -> str:
    """Block the loop for ever."""
    Path(started).write_text("x")
    time.sleep(1000)

@tool
def wait_for(path: str) -> str:
    """Wait until a file is there."""
    while not Path(path).exists():
        time.sleep(0.01)
    return "seen"

@tool
async def wait_async(path: str) -> str:
    """Wait on the loop until a file is there."""
    while not Path(path).exists():
        await asyncio.sleep(0.01)
    return "seen"

@tool
def pay_late(go: str, effect: str) -> str:
    """Wait until a file is there, then have an effect."""
    while not Path(go).exists():
        time.sleep(0.01)
    Path(effect).write_text("paid")
    return "paid"

@tool
def own_pid() -> int:
    """The worker's process id."""
    return os.getpid()

@tool
def flood(text: str) -> str:
    """Send frames on every link this process has."""
    for name in os.listdir("/proc/self/fd"):
        try:
            os.write(int(name), text.encode("latin-1"))
        except OSError:
            pass
    return "flooded"
'''
TOOLS = [
    "chatty",
    "leave",
    "leave_async",
    "interrupt",
    "cancel",
    "fail",
    "odd",
    "big",
    "die",
    "die_leaving_a_child",
    "block",
    "leave_behind",
    "block_loop",
    "wait_for",
    "wait_async",
    "own_pid",
    "pay_late",
    "flood",
]
QUICK = WorkerLimits(backoff_base_s=0.01, start_timeout_s=HANG_S)


@pytest.fixture
def hostile(scene: Any) -> list[ToolSource]:
    path = scene.module("hostile_tools", HOSTILE)
    return [ToolSource(name, f"hostile_tools:{name}", path) for name in TOOLS]


async def until(condition: Callable[[], bool]) -> None:
    """Wait, within the test's time, until ``condition`` holds."""
    while not condition():
        await asyncio.sleep(0.005)


def _has_text(path: Path) -> bool:
    return path.exists() and path.read_text() != ""


def gone(os_pid: int) -> bool:
    row = read_process(os_pid)
    return row is None or not row.alive


def test_a_call_comes_back_with_the_hash_of_its_result(scene: Any) -> None:
    async def play(workers: Workers) -> None:
        (scene.workspace / "sum.txt").write_text("391")
        result = await workers.run(scene.mint.call("file_read", {"path": "sum.txt"}, scene.workspace))
        assert (result.status, result.text, result.truncated) == ("ok", "391", False)
        assert (result.full_hash, result.full_bytes) == (hashlib.sha256(b"391").hexdigest(), 3)

    scene.run(play)


def test_many_calls_at_once_come_back_each_to_its_caller(scene: Any) -> None:
    async def play(workers: Workers) -> None:
        for number in range(300):
            (scene.workspace / f"{number}.txt").write_text(f"{number * 2}")
        calls = [
            scene.mint.call("file_read", {"path": f"{number}.txt"}, scene.workspace) for number in range(300)
        ]
        results = await asyncio.gather(*(workers.run(call) for call in calls))
        assert [result.text for result in results] == [str(number * 2) for number in range(300)]
        assert len(scene.told) == 1

    scene.run(play)


def test_the_file_tools_work_in_the_workspace_of_the_call(scene: Any) -> None:
    async def play(workers: Workers) -> None:
        def call(tool: str, **arguments: Any) -> Any:
            return workers.run(scene.mint.call(tool, arguments, scene.workspace))

        assert (await call("file_write", path="a/b.txt", content="hello\n")).status == "ok"
        assert (await call("file_read", path="a/b.txt")).text == "hello\n"
        assert (await call("file_list", path="a")).text == "b.txt  6 bytes"
        outside = await call("file_read", path="../modules")
        assert outside.status == "error"
        assert "leads upwards" in outside.text

    scene.run(play)


def test_the_file_tools_refuse_what_decides_what_the_node_runs(scene: Any) -> None:
    file = scene.workspace / "weftos.toml"
    file.write_text("ours")

    async def play(workers: Workers) -> None:
        def call(tool: str, **arguments: Any) -> Any:
            return scene.mint.call(tool, arguments, scene.workspace)

        for refused in (
            await workers.run(call("file_write", path="weftos.toml", content="mine")),
            await workers.run(call("file_read", path="weftos.toml")),
        ):
            assert (refused.status, "decides what the node runs" in refused.text) == ("error", True)
        assert await workers.look(call("file_write", path="weftos.toml", content="mine")) == UNKNOWN
        assert (await workers.run(call("file_write", path="a.txt", content="mine"))).status == "ok"

    scene.run(play, protected=ProtectedPaths([str(file)]))
    assert file.read_text() == "ours"


def test_a_write_that_is_made_again_does_not_overwrite_what_somebody_else_wrote(scene: Any) -> None:
    """What the first attempt was to replace comes out of the intent, which is proved, and out of nothing else."""

    async def play(workers: Workers) -> None:
        def call(content: str, **intent: Any) -> Any:
            return scene.mint.call("file_write", {"path": "a", "content": content}, scene.workspace, **intent)

        file = scene.workspace / "a"
        replaces = await workers.look(call("mine"))
        assert (read_absence(replaces) is not None, file.exists()) == (True, False)
        assert (await workers.run(call("mine", replaces=replaces))).status == "ok"
        again = await workers.run(call("mine", attempt=2, replaces=replaces))
        assert (again.status, again.text) == ("ok", "'a' holds these 4 bytes already")
        assert (await workers.run(call("newer"))).status == "ok"
        late = await workers.run(call("mine", attempt=2, replaces=replaces))
        assert (late.status, file.read_text()) == ("changed", "newer")
        newer = await workers.look(call("mine"))
        assert (await workers.run(call("mine", attempt=3, replaces=newer))).status == "ok"
        assert file.read_text() == "mine"

    scene.run(play)


def test_without_a_good_receipt_nothing_happens(scene: Any, foreign_mint: Any) -> None:
    async def play(workers: Workers) -> None:
        arguments = {"path": "effect.txt", "content": "x"}
        for number, receipt in enumerate((foreign_mint.receipt(b"\x80"), b"", b"\xc1" * 100)):
            for _ in range(number):
                foreign_mint.receipt(b"\x80")
            call = scene.mint.call("file_write", arguments, scene.workspace)
            result = await workers.run(replace(call, receipt=receipt))
            assert result.status == "refused"
        assert list(scene.workspace.iterdir()) == []

    scene.run(play)


def test_an_intent_runs_once_even_over_two_processes(scene: Any, hostile: list[ToolSource]) -> None:
    async def play(workers: Workers) -> None:
        call = scene.mint.call("own_pid", {})
        first = await workers.run(call)
        with pytest.raises(WorkerLost):
            await workers.run(scene.mint.call("die", {"by": "kill"}))
        again = await workers.run(call)
        assert (again.status, "each runs once" in again.text) == ("refused", True)
        fresh = await workers.run(scene.mint.call("own_pid", {}))
        assert fresh.text != first.text

    scene.run(play, hostile, QUICK)


@pytest.mark.parametrize(
    ("tool", "status", "words"),
    [
        ("leave", "error", "SystemExit: 3"),
        ("leave_async", "error", "SystemExit: 3"),
        ("interrupt", "error", "KeyboardInterrupt"),
        ("cancel", "error", "CancelledError"),
        ("fail", "error", "Odd"),
        ("odd", "error", "the tool returned a object that is not text or JSON"),
    ],
)
def test_what_a_tool_raises_or_returns_is_its_answer_and_the_worker_lives(
    scene: Any, hostile: list[ToolSource], tool: str, status: str, words: str
) -> None:
    async def play(workers: Workers) -> None:
        before = await workers.run(scene.mint.call("own_pid", {}))
        result = await workers.run(scene.mint.call(tool, {}))
        assert (result.status, words in result.text) == (status, True), result.text
        assert (await workers.run(scene.mint.call("own_pid", {}))).text == before.text

    scene.run(play, hostile)


def test_wrong_arguments_are_an_error_and_not_a_death(scene: Any, hostile: list[ToolSource]) -> None:
    async def play(workers: Workers) -> None:
        result = await workers.run(scene.mint.call("own_pid", {"surprise": 1}))
        assert (result.status, "TypeError" in result.text) == ("error", True)

    scene.run(play, hostile)


def test_what_a_tool_prints_goes_to_its_log(scene: Any, hostile: list[ToolSource]) -> None:
    async def play(workers: Workers) -> None:
        result = await workers.run(scene.mint.call("chatty", {"count": 1000}))
        assert (result.status, result.text) == ("ok", "said")
        log = scene.home / f"worker-{hostile[0].package}.log"

        def holds(said: str) -> bool:
            return said in log.read_text()

        for said in ("to stdout" * 1000, "to stderr", "to descriptor one"):
            await until(partial(holds, said))

    scene.run(play, hostile)


def test_fifty_megabytes_come_back_as_one_with_the_hash_of_all(scene: Any, hostile: list[ToolSource]) -> None:
    async def play(workers: Workers) -> None:
        result = await workers.run(scene.mint.call("big", {}))
        assert (result.status, result.truncated, result.full_bytes) == ("ok", True, 50_000_000)
        assert result.text == "x" * 2**20
        assert result.full_hash == hashlib.sha256(b"x" * 50_000_000).hexdigest()

    scene.run(play, hostile)


@pytest.mark.parametrize(
    ("tool", "arguments"), [("die", {"by": "exit"}), ("die", {"by": "kill"}), ("die_leaving_a_child", {})]
)
def test_a_tool_that_ends_its_process_leaves_the_call_in_doubt_and_a_new_process(
    scene: Any, hostile: list[ToolSource], tool: str, arguments: dict[str, str]
) -> None:
    async def play(workers: Workers) -> None:
        waiting = asyncio.create_task(
            workers.run(scene.mint.call("wait_for", {"path": str(scene.home / "never")}))
        )
        first = await workers.run(scene.mint.call("own_pid", {}))
        with pytest.raises(WorkerLost, match=rf"^{tool}: "):
            await workers.run(scene.mint.call(tool, arguments))
        with pytest.raises(WorkerLost, match=r"^wait_for: "):
            await waiting
        second = await workers.run(scene.mint.call("own_pid", {}))
        assert first.text != second.text
        assert (await workers.run(scene.mint.call("file_list", {}, scene.workspace))).status == "ok"
        name = f"worker-{hostile[0].package}"
        told = [os_pid for what, os_pid in scene.told if what == name]
        assert told == [int(first.text), None, int(second.text)]

    scene.run(play, hostile, QUICK)


def test_a_tool_that_blocks_is_timed_out_and_killed_with_its_children(
    scene: Any, hostile: list[ToolSource]
) -> None:
    async def play(workers: Workers) -> None:
        started, timeout_s = scene.home / "started", 0.5
        while not (started.exists() and started.read_text()):  # else it was stopped before it had a child
            timeout_s *= 2
            first = await workers.run(scene.mint.call("own_pid", {}))
            block = scene.mint.call("block", {"started": str(started)}, timeout_s=timeout_s, effects=False)
            result = await workers.run(block)
            assert (result.status, result.text) == ("timeout", f"block did not end within {timeout_s:g} s")
        child = int(started.read_text())
        await until(lambda: gone(int(first.text)) and gone(child))
        assert (await workers.run(scene.mint.call("own_pid", {}))).text != first.text

    scene.run(play, hostile)


def test_a_retired_process_is_left_until_its_other_calls_are_over(
    scene: Any, hostile: list[ToolSource]
) -> None:
    async def play(workers: Workers) -> None:
        first = await workers.run(scene.mint.call("own_pid", {}))
        go = scene.home / "go"
        others = [
            asyncio.create_task(workers.run(scene.mint.call(tool, {"path": str(go)})))
            for tool in ("wait_for", "wait_async")
        ]
        started = str(scene.home / "started")
        block = scene.mint.call("block", {"started": started}, timeout_s=1.0, effects=False)
        assert (await workers.run(block)).status == "timeout"
        second = await workers.run(scene.mint.call("own_pid", {}))
        assert second.text != first.text
        assert not gone(int(first.text))
        go.touch()
        assert [(await other).text for other in others] == ["seen", "seen"]
        await until(lambda: gone(int(first.text)))
        assert not gone(int(second.text))

    scene.run(play, hostile)


def test_so_many_retired_processes_are_waited_for_and_no_further_one_is_started(
    scene: Any, hostile: list[ToolSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    started = 0
    start = WorkerPool._start_process

    async def counted(pool: WorkerPool) -> None:
        nonlocal started
        started += 1
        await start(pool)

    async def play(workers: Workers) -> None:
        others = []
        for number in range(2):
            go = str(scene.home / f"go{number}")
            others.append(asyncio.create_task(workers.run(scene.mint.call("wait_for", {"path": go}))))
            mark = str(scene.home / f"started{number}")
            block = scene.mint.call("block", {"started": mark}, timeout_s=1.0, effects=False)
            assert (await workers.run(block)).status == "timeout"
        waits = asyncio.create_task(workers.run(scene.mint.call("own_pid", {})))
        for _ in range(100):  # rounds of the loop: a start takes a few
            await asyncio.sleep(0)
        assert started == 2
        (scene.home / "go1").touch()
        assert ((await others[1]).text, (await waits).status, started) == ("seen", "ok", 3)
        (scene.home / "go0").touch()
        assert (await others[0]).text == "seen"

    monkeypatch.setattr(WorkerPool, "_start_process", counted)
    scene.run(play, hostile, WorkerLimits(retired_processes=2))


def test_a_call_with_effects_is_stopped_for_real_at_its_deadline(
    scene: Any, hostile: list[ToolSource]
) -> None:
    """Told when its process has let go of the link, so what it waited for comes too late; its neighbours are lost."""

    async def play(workers: Workers) -> None:
        first = int((await workers.run(scene.mint.call("own_pid", {}))).text)
        go, effect, started = (scene.home / name for name in ("go", "effect", "started"))
        neighbour = asyncio.create_task(workers.run(scene.mint.call("wait_async", {"path": str(go)})))
        child = asyncio.create_task(workers.run(scene.mint.call("block", {"started": str(started)})))
        await until(lambda: started.exists() and bool(started.read_text()))
        paying = scene.mint.call("pay_late", {"go": str(go), "effect": str(effect)}, timeout_s=1.0)
        with pytest.raises(WorkerLost, match="pay_late: did not end within 1 s, and its worker was stopped"):
            await workers.run(paying)
        go.touch()
        with pytest.raises(
            WorkerLost, match="wait_async: its worker was stopped, since pay_late did not end"
        ):
            await neighbour
        with pytest.raises(WorkerLost, match="block: its worker was stopped"):
            await child
        await until(lambda: gone(int(started.read_text())) and gone(first))
        assert int((await workers.run(scene.mint.call("own_pid", {}))).text) != first
        assert not effect.exists()

    scene.run(play, hostile)


def test_the_end_of_a_worker_that_cannot_be_brought_about_just_then_is_tried_again(
    scene: Any, hostile: list[ToolSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes descriptors and a thread. Until nothing of it is left, its calls are not lost."""
    tried: list[int] = []

    def fails_at_first(root: ProcessRow, mark: Mark) -> None:
        tried.append(root.pid)
        if len(tried) < 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        end_tree(root, mark)

    monkeypatch.setattr(pool, "end_tree", fails_at_first)
    monkeypatch.setattr(pool, "END_AGAIN_S", 0.01)

    async def play(workers: Workers) -> None:
        with pytest.raises(WorkerLost, match=r"^wait_for: did not end"):
            await workers.run(scene.mint.call("wait_for", {"path": str(scene.home / "never")}, timeout_s=1.0))
        assert len(tried) == 3
        assert (await workers.run(scene.mint.call("own_pid", {}))).status == "ok"

    scene.run(play, hostile, WorkerLimits(retired_processes=1))


@pytest.mark.parametrize("stops", [False, True])
def test_the_calls_of_a_worker_that_may_not_be_ended_any_more_are_lost_all_the_same(
    scene: Any, hostile: list[ToolSource], monkeypatch: pytest.MonkeyPatch, stops: bool
) -> None:
    """It has become another user's program, by sudo for example; and the other processes are ended as ever."""
    children: list[subprocess.Popen[bytes]] = []

    def refused(process: subprocess.Popen[bytes]) -> None:
        children.append(process)
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    def refuses(handle: int, number: int) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    async def play(workers: Workers) -> None:
        path = {"path": str(scene.home / "never")}
        timeout_s = 60.0 if stops else 1.0
        calling = asyncio.create_task(workers.run(scene.mint.call("wait_for", path, timeout_s=timeout_s)))
        await until(lambda: bool(scene.told and scene.told[-1][1]))
        monkeypatch.setattr(subprocess.Popen, "kill", refused)
        monkeypatch.setattr(
            pool, "signal", SimpleNamespace(pidfd_send_signal=refuses, SIGSTOP=signal.SIGSTOP)
        )
        monkeypatch.setattr(pool, "end_tree", lambda root, mark: None)
        if stops:
            await workers.close()
        with pytest.raises(WorkerLost, match="wait_for: its worker has become a program of another user"):
            await calling
        monkeypatch.undo()
        for child in children[:1]:
            child.kill()
            child.wait()

    scene.run(play, hostile, QUICK)


CHILD, SCRUBBED = ["sh", "-c"], ["env", "-i", "PATH=/usr/bin:/bin", "sh", "-c"]
DAEMON = ["sh", "-c", 'sh -c "$0" "$1" & exit']
SCRUBBED_DAEMON = ["env", "-i", "PATH=/usr/bin:/bin", *DAEMON]


@pytest.mark.parametrize(
    ("program", "ends"),
    [(program, ends) for program in (CHILD, DAEMON, SCRUBBED, SCRUBBED_DAEMON) for ends in (False, True)],
)
def test_a_call_is_lost_when_nothing_that_it_started_is_left_wherever_that_has_gone(
    scene: Any, hostile: list[ToolSource], program: list[str], ends: bool
) -> None:
    async def play(workers: Workers) -> None:
        started, timeout_s = scene.home / "started", HANG_S if ends else 1.0
        arguments = {"program": program, "started": str(started), "ends": ends}
        while not started.exists():  # else it was stopped before it had started anything
            timeout_s *= 2
            with pytest.raises(WorkerLost, match=r"^leave_behind: "):
                await workers.run(scene.mint.call("leave_behind", arguments, timeout_s=timeout_s))
        assert gone(int(started.read_text()))

    scene.run(play, hostile, QUICK)


def test_a_call_that_nobody_wants_any_more_is_not_handed_over(scene: Any, hostile: list[ToolSource]) -> None:
    """Asked immediately before: it waited behind another one while its turn ended."""

    async def play(workers: Workers) -> None:
        go, effect = scene.home / "go", scene.home / "effect"
        running = asyncio.create_task(workers.run(scene.mint.call("wait_for", {"path": str(go)})))
        await until(lambda: len(scene.told) == 1)
        asked: list[bool] = []

        def begin() -> bool:
            asked.append(go.exists())
            return False

        call = scene.mint.call("pay_late", {"go": str(go), "effect": str(effect)})
        waiting = asyncio.create_task(workers.run(call, begin))
        await asyncio.sleep(0)
        go.touch()
        assert (await running).status == "ok"
        with pytest.raises(WorkerWithdrawn):
            await waiting
        assert (await workers.run(scene.mint.call("own_pid", {}))).status == "ok"
        assert (asked, effect.exists()) == ([True], False)

    scene.run(play, hostile, WorkerLimits(calls_at_once=1))


def test_a_call_that_is_stopped_is_lost_when_nothing_of_it_is_left(
    scene: Any, hostile: list[ToolSource]
) -> None:
    async def play(workers: Workers) -> None:
        first = await workers.run(scene.mint.call("own_pid", {}))
        started = scene.home / "started"
        came: list[Came] = []
        placed = workers.put(scene.mint.call("block", {"started": str(started)}), lambda: True, came.append)
        await until(lambda: started.exists() and started.read_text() != "")
        placed.stop("nobody wants it")
        await until(lambda: came != [])
        assert type(came[0]) is WorkerLost and "since nobody wants it" in str(came[0])
        assert gone(int(started.read_text())) and gone(int(first.text))
        assert (await workers.run(scene.mint.call("own_pid", {}))).status == "ok"

    scene.run(play, hostile)


def test_a_call_that_is_stopped_takes_no_other_along(scene: Any, hostile: list[ToolSource]) -> None:
    """Its process takes no more, and is ended when the others are over; what is stopped twice is stopped once."""

    async def play(workers: Workers) -> None:
        first = await workers.run(scene.mint.call("own_pid", {}))
        go, started = scene.home / "go", scene.home / "started"
        other = asyncio.create_task(workers.run(scene.mint.call("wait_for", {"path": str(go)})))
        came: list[Came] = []
        placed = workers.put(scene.mint.call("block", {"started": str(started)}), lambda: True, came.append)
        await until(lambda: started.exists() and started.read_text() != "")
        placed.stop("nobody wants it")
        placed.stop("nobody wants it")
        assert (await workers.run(scene.mint.call("own_pid", {}))).text != first.text
        assert came == [] and not gone(int(first.text))
        go.touch()
        assert (await other).text == "seen"
        await until(lambda: came != [])
        assert type(came[0]) is WorkerLost and len(came) == 1
        assert gone(int(started.read_text())) and gone(int(first.text))

    scene.run(play, hostile)


def test_however_many_calls_are_stopped_those_of_others_do_not_wait(
    scene: Any, hostile: list[ToolSource]
) -> None:
    """The last process that may be goes on taking calls, and is ended when it has only such as nobody wants."""

    async def play(workers: Workers) -> None:
        go, others = scene.home / "go", []
        came: list[Came] = []
        for number in range(3):
            others.append(asyncio.create_task(workers.run(scene.mint.call("wait_for", {"path": str(go)}))))
            started = scene.home / f"started{number}"
            block = scene.mint.call("block", {"started": str(started)})
            placed = workers.put(block, lambda: True, came.append)
            await until(partial(_has_text, started))
            placed.stop("nobody wants it")
        last = await workers.run(scene.mint.call("own_pid", {}))
        assert last.status == "ok" and came == []
        go.touch()
        assert [(await other).text for other in others] == ["seen"] * 3
        await until(lambda: len(came) == 3)
        assert {type(each) for each in came} == {WorkerLost}
        assert gone(int(last.text))

    scene.run(play, hostile, WorkerLimits(retired_processes=2))


def test_what_waits_in_the_queue_is_not_stopped(scene: Any, hostile: list[ToolSource]) -> None:
    async def play(workers: Workers) -> None:
        go = scene.home / "go"
        running = asyncio.create_task(workers.run(scene.mint.call("wait_for", {"path": str(go)})))
        await until(lambda: len(scene.told) == 1)
        came: list[Came] = []
        placed = workers.put(scene.mint.call("own_pid", {}), lambda: True, came.append)
        placed.stop("nobody wants it")
        go.touch()
        assert (await running).text == "seen"
        await until(lambda: came != [])
        assert isinstance(came[0], WorkerResult) and came[0].status == "ok"

    scene.run(play, hostile, WorkerLimits(calls_at_once=1))


def test_a_tool_that_blocks_the_loop_is_timed_out_by_the_node(scene: Any, hostile: list[ToolSource]) -> None:
    async def play(workers: Workers) -> None:
        started = str(scene.home / "started")
        with pytest.raises(
            WorkerLost, match="block_loop: did not end within 1 s, and its worker was stopped"
        ):
            await workers.run(scene.mint.call("block_loop", {"started": started}, timeout_s=1.0))
        assert (await workers.run(scene.mint.call("own_pid", {}))).status == "ok"

    scene.run(play, hostile)


def test_calls_that_wait_behind_hanging_ones_run_in_the_next_process(
    scene: Any, hostile: list[ToolSource]
) -> None:
    async def play(workers: Workers) -> None:
        never = str(scene.home / "never")
        hanging = [
            asyncio.create_task(
                workers.run(scene.mint.call("wait_for", {"path": never}, timeout_s=1.0, effects=False))
            )
            for _ in range(2)
        ]
        await asyncio.sleep(0)
        waiting = workers.run(scene.mint.call("own_pid", {}))
        assert (await waiting).status == "ok"
        assert [(await task).status for task in hanging] == ["timeout", "timeout"]

    scene.run(play, hostile, WorkerLimits(calls_at_once=2))


def test_a_caller_that_gives_up_frees_the_queue_and_not_the_running_call(
    scene: Any, hostile: list[ToolSource]
) -> None:
    async def play(workers: Workers) -> None:
        go = scene.home / "go"
        running = asyncio.create_task(workers.run(scene.mint.call("wait_for", {"path": str(go)})))
        await until(lambda: len(scene.told) == 1)
        effect = scene.home / "effect"
        queued = asyncio.create_task(workers.run(scene.mint.call("block", {"started": str(effect)})))
        await asyncio.sleep(0)
        for task in (running, queued):
            task.cancel()
        last = asyncio.create_task(workers.run(scene.mint.call("own_pid", {})))
        go.touch()
        assert (await last).status == "ok"
        assert not effect.exists()

    scene.run(play, hostile, WorkerLimits(calls_at_once=1))


def test_built_in_tools_and_third_party_packages_never_share_a_process(
    scene: Any, hostile: list[ToolSource]
) -> None:
    text = 'import os\nfrom weftos import tool\n@tool\ndef {0}() -> int:\n    """Pid."""\n    return os.getpid()\n'
    path = scene.module("pkg_b", text.format("b_one") + text.format("b_two"))
    others = [ToolSource("b_one", "pkg_b:b_one", path), ToolSource("b_two", "pkg_b:b_two", path)]

    async def play(workers: Workers) -> None:
        await workers.run(scene.mint.call("file_list", {}, scene.workspace))
        pids = [(await workers.run(scene.mint.call(tool, {}))).text for tool in ("own_pid", "b_one", "b_two")]
        assert pids[1] == pids[2]
        assert len({*pids, str(dict(scene.told)["worker-builtin"])}) == 3

    scene.run(play, [*hostile, *others])


def test_a_worker_has_the_tools_of_its_own_package_alone(scene: Any, hostile: list[ToolSource]) -> None:
    """Even a call that reached the wrong process, with a good receipt, would find no such tool there."""

    async def play(workers: Workers) -> None:
        result = await workers.run(scene.mint.call("unheard_of", {}))
        assert (result.status, result.text) == ("error", "this worker has no tool 'unheard_of'")

    scene.run(play, hostile)


@pytest.mark.parametrize("names", [["calculator"], ["file_write"], ["ask"], ["own", "own"]])
def test_a_source_cannot_take_the_name_of_another_tool(scene: Any, names: list[str]) -> None:
    with pytest.raises(RegistryError, match=f"tool {names[0]}: the name is taken"):
        scene.run(None, [ToolSource(name, "mytools:x") for name in names])


def test_the_tools_describe_themselves_and_faults_are_named(scene: Any, hostile: list[ToolSource]) -> None:
    bad = {
        "missing": ("no_such_module:tool", "ModuleNotFoundError"),
        "unnamed": ("hostile_tools", "not of the form module:function"),
        "unmarked": ("hostile_tools:Path", "is not marked; write @tool"),
        "absent": ("hostile_tools:nothing", "AttributeError"),
        "leaves": ("leaving:tool", "SystemExit"),
        "dies": ("dying:tool", "died"),
    }
    path = scene.module("leaving", "raise SystemExit(1)")
    scene.module("dying", "import os; os._exit(1)")
    sources = hostile + [ToolSource(name, what, path) for name, (what, _) in bad.items()]

    async def play(workers: Workers) -> None:
        described = await workers.describe()
        assert sorted(each.name for each in described.declarations) == sorted(TOOLS)
        assert set(described.faults) == set(bad)
        for name, (_, words) in bad.items():
            assert words in described.faults[name], described.faults[name]
        registry = Registry([*builtin_declarations(), *described.declarations], sources)
        assert registry["chatty"].declaration.sandbox == "thirdparty"
        assert (await workers.describe()).declarations == described.declarations
        result = await workers.run(scene.mint.call("missing", {}))
        assert (result.status, "ModuleNotFoundError" in result.text) == ("error", True)
        with pytest.raises(WorkerUnavailable, match=r"worker-dying-.*died; see .*\.log"):
            await workers.run(scene.mint.call("dies", {}))

    scene.run(play, sources, QUICK)


def test_an_import_that_hangs_is_given_up(scene: Any) -> None:
    path = scene.module("hanging", "import time; time.sleep(1000)")

    async def play(workers: Workers) -> None:
        with pytest.raises(WorkerUnavailable, match=r"not ready within 2 s"):
            await workers.run(scene.mint.call("hang", {}))

    scene.run(play, [ToolSource("hang", "hanging:tool", path)], WorkerLimits(start_timeout_s=2.0))


def test_a_python_that_cannot_be_started_is_said_to_be_unavailable(tmp_path: Path) -> None:
    async def main() -> None:
        told: list[int | None] = []
        command = replace(worker_command("worker-x", tmp_path, tmp_path, QUICK), argv=("/no/such/python",))
        pool = WorkerPool(lambda: command, 1, Configure((), False, (), ()), QUICK, told.append)
        with pytest.raises(WorkerUnavailable, match="No such file"):
            await pool.start()
        await pool.close()
        assert told == []

    asyncio.run(main())


def frame(boot: int, payload: bytes) -> str:
    return (len(payload).to_bytes(4, "big") + boot.to_bytes(8, "big") + payload).decode("latin-1")


@pytest.mark.parametrize("payload", [b"\xc1", b"\x01", b"\x93\x02\xa2ok\xa8nonsense", b"\x93\x02\xa2ok\xc0"])
def test_a_tool_that_writes_on_the_link_ends_its_own_worker_and_nothing_else(
    scene: Any, hostile: list[ToolSource], payload: bytes
) -> None:
    """Request 2 is the flood itself: configure was 1."""
    text = frame(int(scene.mint.boot, 16), payload)

    async def play(workers: Workers) -> None:
        with pytest.raises(WorkerLost):
            await workers.run(scene.mint.call("flood", {"text": text}))
        fresh = int((await workers.run(scene.mint.call("own_pid", {}))).text)
        liar, none, present = (os_pid for _, os_pid in scene.told)
        assert (none, present) == (None, fresh)
        await until(lambda: gone(liar))

    scene.run(play, hostile, QUICK)


def test_a_full_queue_is_refused_at_once(scene: Any, hostile: list[ToolSource]) -> None:
    async def play(workers: Workers) -> None:
        tasks = [asyncio.create_task(workers.run(scene.mint.call("own_pid", {}))) for _ in range(5)]
        with pytest.raises(WorkerUnavailable, match="calls wait for this worker already"):
            await asyncio.gather(*tasks)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert sum(task.exception() is None for task in tasks) == 3

    scene.run(play, hostile, WorkerLimits(waiting_calls=3))


def test_closing_answers_everybody_and_leaves_no_process(scene: Any, hostile: list[ToolSource]) -> None:
    tasks: list[asyncio.Task[Any]] = []

    async def play(workers: Workers) -> None:
        running = scene.mint.call("block", {"started": str(scene.home / "started")})
        tasks.append(asyncio.create_task(workers.run(running)))
        await until(lambda: (scene.home / "started").exists() and bool((scene.home / "started").read_text()))
        tasks.append(asyncio.create_task(workers.run(scene.mint.call("own_pid", {}))))
        await asyncio.sleep(0)
        await workers.close()
        with pytest.raises(WorkerUnavailable, match="the node is stopping"):
            await workers.run(scene.mint.call("own_pid", {}))
        await asyncio.gather(*tasks, return_exceptions=True)

    scene.run(play, hostile, WorkerLimits(calls_at_once=1))
    assert [type(task.exception()) for task in tasks] == [WorkerLost, WorkerUnavailable]
    assert gone(int((scene.home / "started").read_text()))


def test_a_worker_dies_with_its_node(scene: Any, tmp_path: Path) -> None:
    """The node's process is killed: the worker follows."""
    read, write = os.pipe()
    node = os.fork()
    if node == 0:

        async def play(workers: Workers) -> None:
            await workers.run(scene.mint.call("file_list", {}, scene.workspace))
            os.write(write, str(scene.told[0][1]).encode())
            await asyncio.Event().wait()

        try:
            scene.run(play)
        finally:
            os._exit(1)
    os.close(write)
    worker = int(os.read(read, 100))
    os.close(read)
    assert not gone(worker)
    os.kill(node, 9)
    os.waitpid(node, 0)

    async def wait() -> None:
        await asyncio.wait_for(until(lambda: gone(worker)), HANG_S)

    asyncio.run(wait())


def test_what_a_tool_prints_is_kept_in_files_of_bounded_size(scene: Any, hostile: list[ToolSource]) -> None:
    """However fast it prints, and at no moment more than that: nobody cuts the file off afterwards."""

    async def play(workers: Workers) -> None:
        await workers.run(scene.mint.call("chatty", {"count": 600_000}))
        log = scene.home / f"worker-{hostile[0].package}.log"
        await until(log.with_name(f"{log.name}.1").exists)
        await until(lambda: log.exists() and b"to stdout" in log.read_bytes())  # the next one has begun
        assert log.stat().st_size <= MAX_FILE_BYTES
        assert log.with_name(f"{log.name}.1").stat().st_size <= MAX_FILE_BYTES

    scene.run(play, hostile)


def test_workers_take_calls_under_other_keys_once_they_were_told(scene: Any) -> None:
    async def body(workers: Workers) -> None:
        def call() -> Any:
            return scene.mint.call("file_list", {"path": "."}, scene.workspace)

        assert (await workers.run(call())).status == "ok"
        scene.mint.rotate()
        refused = await workers.run(call())
        assert refused.status == "refused" and "not signed by" in refused.text
        workers.accept(scene.mint.keys.ed25519.text)
        assert (await workers.run(call())).status == "ok"
        os.kill(scene.told[-1][1], signal.SIGKILL)
        while scene.told[-1][1] is not None:
            await asyncio.sleep(0.01)
        assert (await workers.run(call())).status == "ok", "a process that starts later knows the keys too"

    scene.run(body)
