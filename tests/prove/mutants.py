"""Is each sync needed, and would its loss be noticed? Takes one sync after the other out of the code that writes the
ledger, and has the power-cut walk look at each of these mutants: every one must be caught.

    python -m tests.prove.mutants
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import random
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from rich import box
from rich.console import Console
from rich.table import Table

from tests.places import ROOT
from tests.prove.progress import follow
from tests.prove.walks import PARALLEL

MODULES = (
    "chain.disk",
    "chain.journal.journal",
    "chain.notes.slots",
    "chain.tiles.publisher",
    "chain.state.snapshot",
    "chain.tiles.erasure",
    "chain.state.recovery",
    "chain.ledger.opening",
)
KEY_MODULES = ("chain.keys.keys", "chain.keys.key_change")
SYNCS = ("sync", "sync_directory")
QUICK = 3
CAUGHT, SURVIVED = 3, 0  # a fault of the walk itself ends with 1


@dataclass(frozen=True, slots=True)
class Mutant:
    """The sync number ``number`` of a module, in its order, is left out. ``inside`` names its function."""

    module: str
    number: int
    inside: str
    text: str


def mutants() -> list[Mutant]:
    """One for each sync that is called as a statement of its own."""
    found = []
    for name in (*MODULES, *KEY_MODULES):
        source = _file(name).read_text()
        calls = _Syncs()
        calls.visit(ast.parse(source))
        found += [Mutant(name, number, inside, text) for number, (inside, text) in enumerate(calls.found)]
    return found


def _file(module: str) -> Path:
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")


class _Syncs(ast.NodeTransformer):
    """Finds the syncs; takes out the one numbered ``without``."""

    def __init__(self, without: int = -1) -> None:
        self._without = without
        self._inside: list[str] = []
        self.found: list[tuple[str, str]] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self._inside.append(node.name)
        self.generic_visit(node)
        self._inside.pop()
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        call = node.value
        if (
            not isinstance(call, ast.Call)
            or not isinstance(call.func, ast.Attribute)
            or call.func.attr not in SYNCS
        ):
            return node
        self.found.append((".".join(self._inside), ast.unparse(node)))
        return ast.copy_location(ast.Pass(), node) if len(self.found) - 1 == self._without else node


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module without one of its syncs."""

    def __init__(self, module: str, number: int) -> None:
        self._module = module
        self._number = number

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name == self._module else None

    def exec_module(self, module: ModuleType) -> None:
        path = _file(self._module)
        tree = ast.fix_missing_locations(_Syncs(self._number).visit(ast.parse(path.read_text())))
        exec(compile(tree, str(path), "exec"), module.__dict__)


def try_mutant(module: str, number: int, seed: str) -> int:
    """In a process of its own: the walk over that mutant, up to the first fault. The exit status."""
    sys.meta_path.insert(0, _Loader(module, number))
    from tests.prove import key_cut, power_cut

    if module in KEY_MODULES:
        _, found = key_cut.key_walk(seed)
    else:
        states = power_cut.states_of(power_cut.recorded_runs(), seed)
        found = power_cut.walk(states, stop=True).found
    print("\n".join(found[:1]))
    return CAUGHT if found else SURVIVED


def run_mutant(mutant: Mutant, seed: str) -> subprocess.CompletedProcess[str]:
    """:func:`try_mutant` in a process of its own."""
    words = ["-m", "tests.prove.mutants", "--try", mutant.module, str(mutant.number), "--seed", seed]
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)


def prove_mutants(console: Console, seed: str, quick: bool) -> bool:
    """Try each mutant, or a few by chance, and print the table."""
    found = random.Random(seed).sample(mutants(), QUICK) if quick else mutants()
    table = Table("module", "in", "left out", "caught by", box=box.SIMPLE_HEAD)
    passed = True
    with ThreadPoolExecutor(PARALLEL) as pool:
        tried = zip(found, pool.map(lambda mutant: run_mutant(mutant, seed), found), strict=True)
        for mutant, done in follow(console, "mutants", len(found), tried):
            caught = done.returncode == CAUGHT and not done.stderr
            passed &= caught
            said = done.stdout.strip() if caught else f"NOT CAUGHT {done.stderr[-300:]}"
            table.add_row(mutant.module, mutant.inside, mutant.text, said[:90])
    console.print(table)
    console.print(f"{' ok ' if passed else 'FAIL'} each of {len(found)} syncs is needed, and its loss is noticed",
                  style="green" if passed else "red", highlight=False)  # fmt: skip
    return passed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--try", nargs=2, dest="one", metavar=("MODULE", "NUMBER"), help=argparse.SUPPRESS)
    parser.add_argument("--seed", default="weftos")
    options = parser.parse_args()
    if options.one:
        return try_mutant(options.one[0], int(options.one[1]), options.seed)
    return 0 if prove_mutants(Console(), options.seed, quick=False) else 1


if __name__ == "__main__":
    sys.exit(main())
