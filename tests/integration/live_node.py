"""A real node on a data directory of its own, as a test drives it: started, asked, killed, started again.

The node runs with ``-X importtime``, so its standard error names every module it ever imports. Processes are found in
/proc, apart from the node's own code for the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from chain.entry.reader import EntryRecord, read_records
from chain.verify.verify import Report, verify
from kernel.operations.messages import Sent
from kernel.operations.processes import ProcessRow
from tests.integration.commands import command
from tests.patience import HANG_S
from weftos import Client, WeftosError

WAIT_S = HANG_S
FILE_TOOLS = ("calculator", "file_read", "file_list", "file_write")
KEY_VARIABLE = "PROBE_PROVIDER_KEY"
KEY = "sk-of-the-tests-" + secrets.token_hex(8)  # nobody else's: the tests of other nodes run beside these
_SEES_ALL = (19, 21, 38)  # CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON: with them root reads every process
_PR_CAPBSET_DROP = 24
_prctl = ctypes.CDLL(None).prctl
T = TypeVar("T")
Json = dict[str, Any]


def until(look: Callable[[], T], what: str) -> T:
    """The first true thing that ``look`` gives."""
    deadline = time.monotonic() + WAIT_S
    while not (found := look()):
        assert time.monotonic() < deadline, f"still not so after {WAIT_S:g} s: {what}"
        time.sleep(0.02)
    return found


def whole_lines(file: Path) -> list[str]:
    """The lines of a file that is being written: of the last one a part may be there."""
    return file.read_text().rpartition("\n")[0].splitlines()


def alive(pid: int) -> bool:
    """Whether a process is there and acts."""
    return _session_of(pid) is not None


def _as_an_ordinary_user() -> None:
    """Root's processes may look into all others; those of a node under test shall not, as an ordinary user's do not."""
    for capability in _SEES_ALL:
        _prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)  # refused to who is not root, who has none of them


def _session_of(pid: int) -> int | None:
    """The session of a process that acts: of a zombie only when it is its first thread alone that has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZXx" and int(fields[17]) <= 1 else int(fields[3])


def _mentions(pid: int, place: str) -> bool:
    """Whether a process was started for ``place``, or works in it."""
    with contextlib.suppress(OSError):
        if place in Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"):
            return True
        return os.readlink(f"/proc/{pid}/cwd").startswith(place)
    return False


def _named(pid: int, name: str) -> bool:
    """Whether a process bears this name; not when it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip() == name
    return False


class BootError(Exception):
    """The node did not boot. ``said`` is what it reported, ``status`` its exit status."""

    def __init__(self, said: Json, status: int) -> None:
        super().__init__(f"{said} (exit status {status})")
        self.said = said
        self.status = status


class LiveNode:
    """One data directory and the node on it. ``api`` is a client of the present run."""

    def __init__(self, engine: str = "local", configuration: str = "", data: Path | None = None) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="wi", dir="/tmp"))
        self.data = data or self.place / "node"
        self.engine = engine
        self.configuration = configuration
        self.environment: dict[str, str] = {}
        self.leaders: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._api: Client | None = None

    # -- life ----------------------------------------------------------------------------------------------------

    def up(self, *flags: str) -> Json:
        """Start the node and wait until it listens; its ready document. Raises BootError."""
        assert not self.running
        config = self.place / "weftos.toml"
        config.write_text(self.configuration)
        ready, theirs = os.pipe()
        argv = [sys.executable, "-X", "importtime", "-P", "-m", "weftos.node", "--data", str(self.data)]
        argv += ["--engine", self.engine, "--config", str(config), "--ready-fd", str(theirs), *flags]
        with open(self.place / "node.err", "ab") as err:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=err,
                stderr=err,
                cwd=self.place,
                env=self.variables(),
                pass_fds=(theirs,),
                start_new_session=True,
                preexec_fn=_as_an_ordinary_user,
            )
        os.close(theirs)
        self.leaders.append(self._process.pid)
        said = _last_document(ready)
        if not said.get("ready"):
            raise BootError(said, self._process.wait(WAIT_S))
        self._api = Client(self.data)
        return said

    def variables(self) -> dict[str, str]:
        """The environment of the node, and of commands that mean it."""
        own = {"WEFTOS_DATA": str(self.data), "XDG_RUNTIME_DIR": str(self.place), KEY_VARIABLE: KEY}
        return {**os.environ, **own, **self.environment}

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def os_pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def api(self) -> Client:
        assert self._api is not None
        return self._api

    def down(self) -> None:
        """A clean stop: exit status 0, nothing left of the run, the ledger verified and closed."""
        assert self._process is not None
        self.api.shutdown()
        self.api.close()
        assert self._process.wait(WAIT_S) == 0
        until(lambda: not self.left(), "nothing is left of the run")
        assert not list(self.place.glob("weftos-*/")), "the runtime directory is left"
        report = self.verify()
        assert report.closed

    def kill(self) -> None:
        """``kill -9``, and nothing else: what else it had is for the next start to end."""
        assert self._process is not None
        self.api.close()
        self._process.kill()
        self._process.wait()

    def end(self) -> list[str]:
        """Whatever happened: kill all there is, remove the files. Returns what was alive and should not have been."""
        if self.running:
            with contextlib.suppress(AssertionError, WeftosError, subprocess.TimeoutExpired):
                self.down()
        if self.running:
            assert self._process is not None
            self._process.kill()
            self._process.wait()
        orphans = self.left()
        for line in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line.split()[0]), signal.SIGKILL)
        shutil.rmtree(self.place, ignore_errors=True)
        return orphans

    def left(self, run: int | None = None) -> list[str]:
        """Living processes of this node's runs (or of the one led by ``run``), but for the node that runs now."""
        leaders = set(self.leaders if run is None else [run])
        found = []
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            session = _session_of(pid)
            if session is None or pid in (os.getpid(), os.getppid()):
                continue
            if session in leaders or (run is None and _mentions(pid, str(self.place))):
                with contextlib.suppress(OSError):
                    command = (
                        Path(f"/proc/{pid}/cmdline")
                        .read_bytes()
                        .replace(b"\0", b" ")
                        .decode(errors="replace")
                    )
                    found.append(f"{pid} {command[:150]}")
        return found

    # -- looking -------------------------------------------------------------------------------------------------

    def verify(self) -> Report:
        """Verified from the files alone, with no finding."""
        report = verify(self.data)
        assert report.findings == [], report.findings
        return report

    def entries(self, kind: str) -> list[Json]:
        """The bodies of all ledger entries of a kind, with their ``seq`` and ``pid``; the lazy ones included."""
        if self.running:
            with contextlib.suppress(WeftosError):
                self.api.log(limit=1)  # waits until everything up to now is on the disk
        return [
            {**(record.body or {}), "seq": record.entry.seq, "entry_pid": record.entry.pid}
            for record in read_records(self.data / "journal")
            if isinstance(record, EntryRecord) and record.entry.kind == kind
        ]

    def ended(self, message: str) -> list[Json]:
        """How the turn of a message ended: its ``turn.ended`` entries, none while it is open."""
        turns = {entry["turn"] for entry in self.entries("turn.started") if entry["message"] == message}
        return [entry for entry in self.entries("turn.ended") if entry["turn"] in turns]

    def row(self, name: str) -> ProcessRow:
        """The line of ``ps --all`` with that name."""
        return next(row for row in self.api.ps(all=True) if row["name"] == name)

    def helper(self, name: str) -> ProcessRow:
        """The line of a helper, once it runs: a node is up before its helpers are."""
        until(lambda: (row := self.row(name))["state"] == "running" and row["os_pid"], f"{name} runs")
        return self.row(name)

    def archive_answers(self) -> None:
        """Wait for its first answer: a process that runs may still import what it needs, and a question waits for it
        but some seconds.
        """
        until(lambda: "embedder" in self.api.memory.stats()["index"], "the archive answers")

    def nursery(self) -> int:
        """The process that bears the gateway; a gateway that it has just borne has its name at first."""

        def bearers() -> list[int]:
            found = [int(line.split()[0]) for line in self.left(self.os_pid)]
            return [pid for pid in found if _named(pid, "weftos-nursery")]

        [pid] = until(lambda: found if len(found := bearers()) == 1 else [], "one process bears the gateway")
        return pid

    def logged(self, event: str, words: str = "") -> list[Json]:
        """The lines of the node's log for ``event`` that hold ``words``, once there are any: it is written behind."""
        return until(
            lambda: [
                line for line in self.log_lines() if line["event"] == event and words in json.dumps(line)
            ],
            f"the log says {event} {words}",
        )

    def log_lines(self) -> list[Json]:
        files = (self.data / "logs" / name for name in ("node.jsonl", "processes.jsonl"))
        return [json.loads(line) for file in files if file.exists() for line in whole_lines(file)]

    def imported(self) -> set[str]:
        """Every module that any run of the node process has ever imported."""
        text = (self.place / "node.err").read_text(errors="replace")
        return {
            line.rpartition("|")[2].strip() for line in text.splitlines() if line.startswith("import time:")
        }

    def mapped(self) -> str:
        """The files mapped into the node process: shared objects tell what is loaded."""
        return "\n".join(sorted(set(re.findall(r"/\S+", Path(f"/proc/{self.os_pid}/maps").read_text()))))

    def explain(self) -> str:
        """For a failed test: what the node says, its log's end, its processes."""
        lines = []
        try:
            with Client(self.data) as node:
                lines += [json.dumps(row) for row in node.ps(all=True)] + [json.dumps(node.status())]
        except WeftosError as error:
            lines.append(f"ps: {error}")
        for log in sorted((self.data / "logs").glob("*")):
            lines += [f"--- {log.name}", *log.read_text(errors="replace").splitlines()[-25:]]
        err = self.place / "node.err"
        said = err.read_text(errors="replace").splitlines() if err.exists() else []
        lines += ["--- stderr", *[line for line in said if not line.startswith("import time:")][-25:]]
        return "\n".join([*lines, "--- processes", *self.left()])

    # -- as a person does it -------------------------------------------------------------------------------------

    def cli(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command of the command line, in an interpreter of its own."""
        argv = [sys.executable, "-P", "-m", "weftos", *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=HANG_S, env=self.variables())

    def command(self, *words: str) -> tuple[int, str, str]:
        """Exit status, stdout, stderr of one command in this process."""
        return command(self.variables(), *words)

    def agent(
        self, name: str, model: str, tools: Sequence[str] = ("calculator",), provider: str = "scripted"
    ) -> int:
        """Spawn an agent that asks a scripted model; its PID."""
        pid: int = self.api.spawn(name, provider=provider, model=model, tools=tools)["pid"]
        return pid

    def talk(
        self, name: str, model: str, *, provider: str = "scripted", tools: Sequence[str] = ("calculator",)
    ) -> Sent:
        """Spawn such an agent and ask it to go."""
        self.agent(name, model, tools, provider)
        return self.api.send(name, "go", wait_s=WAIT_S)

    def plan(self, target: str, *calls: tuple[object, ...]) -> list[Json]:
        """Have a process of behaviour ``planner`` make these calls, one after the other; the results."""
        answer = self.api.send(target, json.dumps(calls), wait_s=WAIT_S)
        assert answer["status"] == "ok", answer
        results: list[Json] = json.loads(answer["reply"])
        return results


def _last_document(ready: int) -> Json:
    """What a booting node says last: ready, an error, or nothing at all."""
    deadline = time.monotonic() + WAIT_S
    said: Json = {}
    held = b""
    try:
        while "ready" not in said and "error" not in said:
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"the node is neither ready nor refused after {WAIT_S:g} s: {said}"
            if not select.select([ready], [], [], left_s)[0]:
                continue
            piece = os.read(ready, 65536)
            if not piece:
                return said
            *lines, held = (held + piece).split(b"\n")
            said = json.loads(lines[-1]) if lines else said
        return said
    finally:
        os.close(ready)
