from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.patience import HANG_S
from tests.places import ROOT

PACKAGES = ("weftos", "kernel", "chain", "mesh", "cognition")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout with what is installed; nothing is downloaded."""
    directory = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
    ]
    subprocess.run([*command, "--wheel-dir", str(directory), str(ROOT)], check=True, timeout=HANG_S)
    (built,) = directory.glob("*.whl")
    return built


def test_the_wheel_holds_every_module_of_the_five_packages_and_nothing_else(wheel: Path) -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *PACKAGES],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    held = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert sorted(held) == sorted(name for name in tracked if (ROOT / name).exists())
    assert {name for name in held if not name.endswith((".py", ".typed"))} == {"cognition/guard/model.bin"}


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name.split(".dist-info/")[1] for name in archive.namelist() if ".dist-info/" in name}
        read = {
            name: archive.read(f"{wheel.name.rsplit('-', 3)[0]}.dist-info/{name}").decode() for name in names
        }
    assert names == {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    metadata = read["METADATA"].splitlines()
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: <3.15,>=3.11" in metadata
    assert "Requires-Dist: ray==2.60.*" in metadata
    assert "weftos = weftos.cli:main" in read["entry_points.txt"]


def test_an_installed_wheel_runs_from_a_clean_directory(wheel: Path, tmp_path: Path) -> None:
    """Installed beside nothing of this checkout: the packages come from there, and the command answers."""
    target = tmp_path / "target"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--target",
        str(target),
    ]
    subprocess.run([*install, str(wheel)], check=True, timeout=HANG_S)
    code = f"""
import importlib, json, sys
sys.path.insert(0, {str(target)!r})
sys.path[:] = [entry for entry in sys.path if entry != {str(ROOT)!r}]
import weftos
homes = {{name: importlib.import_module(name).__file__ for name in {PACKAGES!r}}}
print(json.dumps({{"homes": homes, "version": weftos.__version__}}))
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG_S,
    )
    found = json.loads(done.stdout)
    assert set(found["homes"].values()) == {str(target / name / "__init__.py") for name in PACKAGES}
    assert found["version"] in wheel.name
