from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tests.places import ROOT


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """As a person would call it, also when these tests were started by make itself."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    command = ["make", "--silent", "-C", str(ROOT), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=HANG_S, check=False, env=environment
    )


def python_that(directory: Path, script: str) -> str:
    """An interpreter, of which make asks only whether some code passes."""
    path = directory / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return f"PYTHON={path}"


def test_a_machine_that_has_everything_passes_in_silence() -> None:
    done = make("requirements")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("script", "missing"),
    [
        ("exit 1", "Python 3.11 to 3.14."),
        ('case "$2" in *ensurepip*) exit 1;; esac', "the venv module of "),
        ('case "$2" in *Python.h*) exit 1;; esac', "the headers of "),
    ],
)
def test_what_is_missing_is_named_in_one_sentence(tmp_path: Path, script: str, missing: str) -> None:
    done = make("requirements", python_that(tmp_path, script))
    assert done.returncode != 0
    sentence, failure = done.stderr.splitlines()
    assert sentence.startswith(
        "weftos needs Linux, Python 3.11 to 3.14 with venv and headers, a C++ compiler, and make; "
        "missing here: " + missing
    )
    assert failure.startswith("make: ***")


def test_another_python_has_an_environment_of_its_own_and_is_what_is_checked(tmp_path: Path) -> None:
    """Asked for another one, ``make check`` went on checking with that of .venv."""
    kept = ROOT / ".venv" / "bin" / "python"
    if not kept.exists():
        pytest.skip("there is no .venv here that another one could stand beside")
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    own = subprocess.run([kept, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    for version, folder in (("3.99", ".venv-3.99"), (own, ".venv")):
        plan = make("--dry-run", "--always-make", "check", python_that(tmp_path, f"echo {version}")).stdout
        assert f'/python" -m venv {folder}\n' in plan
        assert f"{folder}/bin/python -m pip install" in plan
        assert f"{folder}/bin/mypy --python-version {version}\n" in plan
    assert f".venv/bin/mypy --python-version {own}\n" in make("--dry-run", "--always-make", "check").stdout


def test_a_missing_compiler_is_named() -> None:
    done = make("requirements", "CXX=/nowhere/c++")
    assert done.returncode != 0
    assert "missing here: a C++ compiler (on Debian and Ubuntu: the package g++" in done.stderr


@pytest.mark.parametrize("target", ["setup", "check", "test", "prove", "demo", "bench"])
def test_every_target_installs_first_and_asks_for_the_requirements_before(target: str) -> None:
    plan = make("--dry-run", "--always-make", target).stdout
    assert (
        plan.index("missing=()")
        < plan.index("-m venv .venv")
        < plan.index("--require-hashes -r .venv/pip.txt")
    )
    assert (
        plan.index("--require-hashes -r .venv/wheels.txt")
        < plan.index("--require-hashes --no-build-isolation --no-cache-dir -r .venv/compiled.txt")
        < plan.index("--no-deps --no-build-isolation -e .")
    )


@pytest.mark.parametrize("target", ["test", "prove"])
def test_what_is_compiled_is_kept_for_the_next_interpreter_also_where_the_caller_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    said, python, installed = (tmp_path / name for name in ("said", "python", "installed"))
    installed.touch()
    python.write_text(f'#!/bin/sh\nprintf "<%s>" "$PYTHONDONTWRITEBYTECODE" > {said}\n')
    python.chmod(0o700)
    done = make("--assume-old=requirements", target, f"PY={python}", f"STAMP={installed}")
    assert (done.returncode, said.read_text()) == (0, "<>"), done.stderr


def test_ci_runs_exactly_check_and_test() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert [line for line in lines if line.startswith("make")] == ["make check", "make test"]
    assert "set -euo pipefail" in lines
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100
