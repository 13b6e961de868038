"""Helper processes: requests, notices, and every way in which one can be lost."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kernel.cell.link.frames import encode_frame
from kernel.helper.helper import Helper, HelperCommand, HelperLost, HelperProcess, HelperRefused
from kernel.helper.helpers import LinkedHelper
from kernel.signals import Signals
from tests.patience import HANG_S
from tests.places import ROOT

BOOT = 77
CHILD = str(ROOT / "tests/kernel/twins/helper_child.py")


class Case:
    """A running helper and what it said."""

    def __init__(self, base: Path, *mode: str) -> None:
        self.notices: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        self.deaths: asyncio.Queue[int | None] = asyncio.Queue()
        self.log = base / "helper.log"
        command = HelperCommand(
            "tester", [sys.executable, "-P", CHILD, *mode], {"ONLY": "this"}, base, self.log
        )
        self.helper = Helper(
            command, BOOT, lambda op, args: self.notices.put_nowait((op, args)), self.deaths.put_nowait
        )

    async def death(self) -> int | None:
        return await asyncio.wait_for(self.deaths.get(), HANG_S)


def with_helper(base: Path, body: Callable[[Case], Awaitable[None]], *mode: str) -> None:
    async def run() -> None:
        case = Case(base, *mode)
        await case.helper.start()
        try:
            await body(case)
        finally:
            await case.helper.stop()
        assert not case.helper.alive

    asyncio.run(run())


def test_requests_are_answered_each_with_its_own(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        asked = [case.helper.request("echo", {"n": n}) for n in range(50)]
        assert await asyncio.gather(*asked) == [{"n": n} for n in range(50)]
        assert case.helper.alive

    with_helper(tmp_path, body)


def test_a_helper_that_answers_an_error_is_not_lost(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        with pytest.raises(HelperRefused, match="ValueError: the helper does not want to"):
            await case.helper.request("raise", {})
        with pytest.raises(HelperRefused, match="limit"):
            await case.helper.request("huge", {})
        with pytest.raises(HelperRefused, match=r"ValueError: \?"):
            await case.helper.request("rubbish", {})
        with pytest.raises(HelperRefused, match="the answer cannot be sent: TypeError"):
            await case.helper.request("unpackable", {})
        with pytest.raises(HelperRefused, match=r"the request cannot be sent: frame of 1[0-9]+ bytes, limit"):
            await case.helper.request("echo", {"text": "\u20ac" * 6_000_000})
        assert await case.helper.request("echo", {"still": "there"}) == {"still": "there"}

    with_helper(tmp_path, body)


def test_a_notice_reaches_the_node(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        case.helper.notify("tell", {"x": 1})
        assert await asyncio.wait_for(case.notices.get(), HANG_S) == ("told", {"x": 1})

    with_helper(tmp_path, body)


def test_a_helper_killed_while_requests_wait_fails_each_of_them(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        asked = [case.helper.request("hang", {}) for _ in range(3)]
        os.kill(case.helper.os_pid, signal.SIGKILL)
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(answer, HelperLost)
            assert "tester died" in str(answer)
        assert await case.death() == -signal.SIGKILL
        with pytest.raises(HelperLost, match="tester is not running"):
            await case.helper.request("echo", {})
        assert case.deaths.empty()

    with_helper(tmp_path, body)


def test_a_death_is_heard_of_though_no_thread_could_be_started_to_wait_for_it(tmp_path: Path) -> None:
    """Else nobody would start the next one."""

    async def body(case: Case) -> None:
        loop, refused = asyncio.get_running_loop(), 0
        in_thread = loop.run_in_executor

        def at_first_not(*what: Any) -> Any:
            nonlocal refused
            refused += 1
            if refused < 3:
                raise RuntimeError("can't start new thread")
            return in_thread(*what)

        loop.run_in_executor = at_first_not  # type: ignore[method-assign, assignment]
        os.kill(case.helper.os_pid, signal.SIGKILL)
        assert await case.death() == -signal.SIGKILL
        assert refused == 3

    with_helper(tmp_path, body)


def test_a_child_that_cannot_be_watched_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptor was left to hear of its end by: it is ended, and was never started."""
    watched: list[int] = []

    def full(os_pid: int) -> int:
        watched.append(os_pid)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pidfd_open", full)

    async def body() -> None:
        case = Case(tmp_path)
        with pytest.raises(OSError, match="Too many open files"):
            await case.helper.start()
        assert (case.helper.os_pid, case.deaths.empty()) == (0, True)
        await case.helper.stop()

    asyncio.run(body())
    assert [Path(f"/proc/{os_pid}").exists() for os_pid in watched] == [False]


def test_a_helper_that_ends_by_itself_is_a_death_with_its_status(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        with pytest.raises(HelperLost):
            await case.helper.request("echo", {})
        assert await case.death() == 0

    with_helper(tmp_path, body, "--mode", "exit")


def test_a_helper_has_ended_although_what_it_forked_holds_its_link(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        with pytest.raises(HelperLost):
            await asyncio.wait_for(case.helper.request("leave", {}), HANG_S)
        assert await case.death() == 0
        assert not case.helper.alive

    with_helper(tmp_path, body)


@pytest.mark.parametrize(
    "raw",
    [
        b"garbage that is no frame at all",
        encode_frame(BOOT + 1, [1, "ok", None]),
        encode_frame(BOOT, {"not": "a list"}),
        encode_frame(BOOT, ["1", "ok", None]),
        b"\xff\xff\xff\xff" + bytes(8),
    ],
    ids=["garbage", "foreign boot", "no list", "no number", "oversized"],
)
def test_a_helper_that_breaks_the_framing_is_killed(tmp_path: Path, raw: bytes) -> None:
    async def body(case: Case) -> None:
        waiting = case.helper.request("hang", {})
        case.helper.notify("unlink", {"raw": raw})
        with pytest.raises(HelperLost, match="tester died: "):
            await waiting
        assert await case.death() == -signal.SIGKILL

    with_helper(tmp_path, body)


def test_an_answer_that_nobody_waits_for_any_more_is_dropped(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        case.helper.request("echo", {"n": 1}).cancel()
        assert await case.helper.request("echo", {"n": 2}) == {"n": 2}

    with_helper(tmp_path, body)


def test_a_helper_has_the_environment_it_was_given_and_no_other(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        environment = await case.helper.request("env", {})
        assert set(environment) <= {"ONLY", "LC_CTYPE"}  # Python itself may set the second

    with_helper(tmp_path, body)


def test_the_log_is_private(tmp_path: Path) -> None:
    async def body(case: Case) -> None:
        assert case.log.stat().st_mode & 0o777 == 0o600

    with_helper(tmp_path, body)


def test_stop_ends_the_helper(tmp_path: Path) -> None:
    async def run() -> None:
        case = Case(tmp_path)
        await case.helper.start()
        assert await case.helper.request("echo", {}) == {}
        await case.helper.stop(HANG_S)
        assert await case.death() == 0

    asyncio.run(run())


class SlowlyReaped:
    """A child of which nobody hears that it has ended before ``reaped`` is set."""

    name = "tester"

    def __init__(self, command: HelperCommand) -> None:
        self.reaped = threading.Event()
        self._command = command
        self._process: HelperProcess

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int | None:
        self.reaped.wait(HANG_S)
        return self._process.wait(timeout)

    async def start(self, link_fd: int, boot: int) -> SlowlyReaped:
        self._process = await self._command.start(link_fd, boot)
        return self


def test_what_is_asked_between_the_end_of_a_link_and_its_reaping_waits_for_the_next_helper(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        command = HelperCommand("tester", [sys.executable, "-P", CHILD], {}, tmp_path, tmp_path / "log")
        child, deaths = SlowlyReaped(command), asyncio.Queue[str]()
        helper = LinkedHelper(child, BOOT, Signals())
        await helper.start(deaths.put_nowait)
        hanging = asyncio.ensure_future(helper.request("hang", {}))
        await asyncio.sleep(0)
        child.kill()
        with pytest.raises(HelperLost, match="tester died"):
            await hanging
        asked = asyncio.ensure_future(helper.request("echo", {"n": 1}))
        for _ in range(10):  # rounds of the loop: whoever is refused is by then
            await asyncio.sleep(0)
        refused = asked.done()
        child.reaped.set()
        assert not refused
        await asyncio.wait_for(deaths.get(), HANG_S)
        await helper.start(deaths.put_nowait)
        assert await asked == {"n": 1}
        await helper.stop()

    asyncio.run(run())


def test_who_is_left_a_question_waits_for_a_helper_that_is_not_up_and_for_no_other(tmp_path: Path) -> None:
    async def run() -> None:
        command = HelperCommand("tester", [sys.executable, "-P", CHILD], {}, tmp_path, tmp_path / "log")
        helper = LinkedHelper(command, BOOT, Signals())
        answers = asyncio.Queue[tuple[Any, Exception | None]]()

        def ask(op: str, args: dict[str, Any]) -> Callable[[], object]:
            return helper.call(op, args, lambda answer, error: answers.put_nowait((answer, error)))

        ask("echo", {"n": 0})()  # nobody wants that one
        ask("echo", {"n": 1})
        await helper.start(lambda why: None)
        assert await asyncio.wait_for(answers.get(), HANG_S) == ({"n": 1}, None)
        tasks = len(asyncio.all_tasks())
        ask("echo", {"n": 2})()
        ask("echo", {"n": 3})
        assert len(asyncio.all_tasks()) == tasks
        assert await asyncio.wait_for(answers.get(), HANG_S) == ({"n": 3}, None)
        ask("hang", {})
        await helper.stop()
        [answer, error] = await asyncio.wait_for(answers.get(), HANG_S)
        assert answer is None and isinstance(error, HelperLost)

    asyncio.run(run())


class Anothers(SlowlyReaped):
    """A child that has become another user's, and does not end."""

    def kill(self) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    def wait(self, timeout: float | None = None) -> int | None:
        assert timeout is not None, "it would never be over"
        raise TimeoutError

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_a_child_that_may_not_be_signalled_is_left_and_who_waits_for_it_is_told(
    tmp_path: Path, how: str
) -> None:
    async def run() -> None:
        command = HelperCommand("tester", [sys.executable, "-P", CHILD], {}, tmp_path, tmp_path / "log")
        child, deaths = Anothers(command), asyncio.Queue[int | None]()
        helper = Helper(child, BOOT, lambda op, args: None, deaths.put_nowait)
        await helper.start()
        try:
            hanging = helper.request("hang", {})
            if how == "kill":
                assert not helper.kill()
            else:
                await asyncio.wait_for(helper.stop(0.0), HANG_S)
            with pytest.raises(HelperLost, match="tester died"):
                await hanging
            assert await asyncio.wait_for(deaths.get(), HANG_S) is None
        finally:
            child.end()

    asyncio.run(run())


def test_what_cannot_be_started_says_so(tmp_path: Path) -> None:
    async def run() -> None:
        command = HelperCommand("none", ["/nonexistent/program"], {}, tmp_path, tmp_path / "log")
        helper = Helper(command, BOOT, lambda op, args: None, lambda status: None)
        with pytest.raises(FileNotFoundError):
            await helper.start()
        assert not helper.alive
        assert helper.os_pid == 0
        await helper.stop()

    asyncio.run(run())


def test_a_stop_has_an_end_though_what_the_child_forked_holds_its_link_and_reads_nothing() -> None:
    class Forking:
        name = "forking"

        async def start(self, link_fd: int, boot: int) -> subprocess.Popen[bytes]:
            told, tell = os.pipe()
            program = f"import os, time; os.fork(); os.write({tell}, b'x'); time.sleep(300)"
            argv = [sys.executable, "-c", program]
            self.child = subprocess.Popen(argv, pass_fds=(link_fd, tell), start_new_session=True)
            os.close(tell)
            said = os.read(told, 1) + os.read(told, 1)
            assert said == b"xx"  # there are two, and neither finds the pipe closed
            os.close(told)
            return self.child

    async def main() -> None:
        command, ends = Forking(), asyncio.Queue[int | None]()
        helper = Helper(command, BOOT, lambda op, args: None, ends.put_nowait)
        await helper.start()
        try:
            for _ in range(8):
                helper.notify("op", {"more": "x" * 900_000})
            await asyncio.wait_for(helper.stop(0.1), HANG_S)
            assert ends.get_nowait() == -signal.SIGKILL
        finally:
            os.killpg(command.child.pid, signal.SIGKILL)

    asyncio.run(main())


@pytest.mark.parametrize(("hard", "status"), [(True, -signal.SIGKILL), (False, 0)])
def test_a_helper_is_ended_at_once_or_in_order_and_its_death_is_told(
    tmp_path: Path, hard: bool, status: int
) -> None:
    async def body(case: Case) -> None:
        await case.helper.end(hard)
        assert await case.death() == status

    with_helper(tmp_path, body)
