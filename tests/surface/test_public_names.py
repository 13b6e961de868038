"""What users import: the names, what importing them loads, and what happens beside a stranger of the same name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import weftos
from tests.places import ROOT


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter, from a directory that holds nothing."""
    command = [sys.executable, "-P", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, cwd="/", env={**os.environ, **environment})


def loaded_by(code: str) -> set[str]:
    """Modules that ``code`` loads on top of a bare interpreter."""
    done = python(f"import sys\n{code}\nprint(*sys.modules)")
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def packages(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


def test_the_public_names_are_exactly_these() -> None:
    assert weftos.__all__ == [
        "Client",
        "EffectId",
        "LogicalExit",
        "Probed",
        "WeftosError",
        "__version__",
        "behaviour",
        "tool",
    ]
    assert dir(weftos) == sorted(weftos.__all__)
    for name in weftos.__all__:
        assert getattr(weftos, name) is not None
    with pytest.raises(AttributeError, match="Kernel"):
        weftos.Kernel  # noqa: B018


def test_importing_weftos_loads_nothing_else_of_ours() -> None:
    ours = {
        module for module in loaded_by("import weftos") if packages({module}) & {"weftos", "kernel", "chain"}
    }
    assert ours == {"weftos"}


@pytest.mark.parametrize("name", ["tool", "behaviour", "EffectId", "LogicalExit", "Probed"])
def test_a_cell_that_imports_a_decorator_loads_neither_ledger_nor_kernel(name: str) -> None:
    modules = loaded_by(f"from weftos import {name}")
    ours = {module for module in modules if packages({module}) & {"kernel", "chain", "mesh", "cognition"}}
    assert ours <= {"kernel", "kernel.abi"}
    assert not packages(modules) & {
        "httpx",
        "starlette",
        "uvicorn",
        "typer",
        "ray",
        "duckdb",
        "msgpack",
        "nacl",
    }


def test_the_client_loads_neither_ledger_nor_server_and_of_the_kernel_the_table_of_operations_alone() -> None:
    modules = loaded_by("from weftos import Client")
    assert not packages(modules) & {"chain", "starlette", "pydantic", "uvicorn", "ray"}
    kernel = {module for module in modules if packages({module}) == {"kernel"}} - {"kernel"}
    assert kernel and all(f"{module}.".startswith("kernel.operations.") for module in kernel)


@pytest.mark.parametrize("name", ["kernel", "chain", "mesh", "cognition"])
def test_a_stranger_of_the_same_name_is_named_and_the_way_out_told(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text("")
    done = python("import weftos", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    assert str(tmp_path / f"{name}.py") in last
    assert "install weftos in an environment of its own" in last


def test_no_script_stands_before_one_of_our_packages() -> None:
    """A script that is run by its path is followed by everything in its folder: `mesh.py` beside it would be `mesh`."""
    ours = {"weftos", "kernel", "cognition", "mesh", "chain"}
    folders = ("tests/prove", "benchmarks", "tools")
    assert not [path for folder in folders for path in (ROOT / folder).glob("*.py") if path.stem in ours]
