"""Runs tools/verify_weftos.py as a sceptic would: where there are pynacl and cryptography, and nothing else."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.patience import HANG_S
from tests.places import ROOT

SCRIPT = ROOT / "tools" / "verify_weftos.py"
DISTRIBUTIONS = ("pynacl", "cryptography", "cffi", "pycparser")

# What `python SCRIPT` does, in an interpreter whose own packages are out of reach.
_RUN = """
import runpy, sys
sys.path.append(sys.argv[1])
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@dataclass(frozen=True)
class Verdict:
    verified: bool
    output: str


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
    command = [sys.executable, "-I", "-S", "-c", _RUN, str(packages), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)


def ask(packages: Path, ledger: Path, vkeys: Sequence[str] = (), seen: Path | None = None) -> Verdict:
    """What the script says of ``ledger``, a folder of tiles or a bundle. Fails when it says nothing of use."""
    arguments = [str(SCRIPT), "--tiles" if ledger.is_dir() else "--bundle", str(ledger)]
    for vkey in vkeys:
        arguments += ["--key", vkey]
    if seen is not None:
        arguments += ["--seen", str(seen)]
    done = run_isolated(packages, arguments)
    assert not done.stderr, done.stderr
    last = done.stdout.splitlines()[-1]
    assert done.returncode in (0, 1), done.stdout
    assert last.startswith("verified: ") == (done.returncode == 0), done.stdout
    assert last.startswith("NOT VERIFIED") == (done.returncode == 1), done.stdout
    return Verdict(done.returncode == 0, done.stdout)
