"""Runs tools/verify_weftos.py as a sceptic would: where there are pynacl and cryptography, and nothing else.

An interpreter for each ledger is what a sceptic has (:func:`ask`), and most of what it costs is the loading of the two
libraries; :class:`Sceptic` has loaded them, and answers for each ledger in a fork of its own.
"""

from __future__ import annotations

import importlib.metadata
import json
import select
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.patience import HANG_S
from tests.places import ROOT

SCRIPT = ROOT / "tools" / "verify_weftos.py"
DISTRIBUTIONS = ("pynacl", "cryptography", "cffi", "pycparser")

_INTERPRETER = (sys.executable, "-I", "-S", "-c")

# What `python SCRIPT` does, in an interpreter whose own packages are out of reach.
_RUN = """
import runpy, sys
sys.path.append(sys.argv[1])
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

# The same for each line of stdin, the arguments and where to write: by then the script is loaded, but not yet run.
_SERVE = """
import json, os, runpy, sys, traceback
sys.path.append(sys.argv[1])
main = runpy.run_path(sys.argv[2], run_name="loaded")["main"]
for line in sys.stdin:
    arguments, out, err = json.loads(line)
    if not (child := os.fork()):
        for fd, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), fd)
        sys.argv[1:] = arguments
        status = 2
        try:
            status = main()
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@dataclass(frozen=True)
class Verdict:
    verified: bool
    output: str


class Sceptic:
    """Asks the script as often as wanted. To be used in ``with``."""

    def __init__(self, place: Path) -> None:
        """``place``: an empty directory, for what the script needs and what it says."""
        self._out, self._err = place / "stdout", place / "stderr"
        command = [*_INTERPRETER, _SERVE, str(isolated_packages(place / "packages")), str(SCRIPT)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Sceptic:
        return self

    def __exit__(self, *error: object) -> None:
        with self._process:
            self._process.kill()

    def ask(self, ledger: Path, vkeys: Sequence[str] = (), seen: Path | None = None) -> Verdict:
        """As :func:`ask`."""
        assert self._process.stdin is not None and self._process.stdout is not None
        request = (_arguments(ledger, vkeys, seen), str(self._out), str(self._err))
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        assert select.select([self._process.stdout], [], [], HANG_S)[0], "the script does not end"
        status = int(self._process.stdout.readline())
        return _verdict(status, self._out.read_text(), self._err.read_text())


def isolated_packages(target: Path) -> Path:
    """A directory with symlinks to just the packages that the script may use."""
    target.mkdir()
    for name in DISTRIBUTIONS:
        distribution = importlib.metadata.distribution(name)
        tops = {
            file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")
        }
        for top in tops:
            (target / top).symlink_to(Path(str(distribution.locate_file(top))).resolve())
    return target


def run_isolated(packages: Path, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """``python ARGUMENTS``, with the standard library and ``packages`` alone."""
    command = [*_INTERPRETER, _RUN, str(packages), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)


def ask(packages: Path, ledger: Path, vkeys: Sequence[str] = (), seen: Path | None = None) -> Verdict:
    """What the script says of ``ledger``, a folder of tiles or a bundle. Fails when it says nothing of use."""
    done = run_isolated(packages, [str(SCRIPT), *_arguments(ledger, vkeys, seen)])
    return _verdict(done.returncode, done.stdout, done.stderr)


def _arguments(ledger: Path, vkeys: Sequence[str], seen: Path | None) -> list[str]:
    arguments = ["--tiles" if ledger.is_dir() else "--bundle", str(ledger)]
    for vkey in vkeys:
        arguments += ["--key", vkey]
    if seen is not None:
        arguments += ["--seen", str(seen)]
    return arguments


def _verdict(status: int, out: str, err: str) -> Verdict:
    assert not err, err
    last = out.splitlines()[-1]
    assert status in (0, 1), out
    assert last.startswith("verified: ") == (status == 0), out
    assert last.startswith("NOT VERIFIED") == (status == 1), out
    return Verdict(status == 0, out)
