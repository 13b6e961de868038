"""Mutation testing of the cores of restarts, mailboxes and replay: mutmut makes the mutants, every one that its
operators can make of a function, and each must be killed by a test, or stand with a reason in
``mutation_survivors.toml``.

    python -m tests.prove.mutation_suite kernel.supervision.closing

pytest collects once, in a process that has every mutant of a module beside the original. Each test is run there first,
and what it calls is noted. Then a fork for each mutant runs the tests that call its function, up to the first that
fails: those that have killed others of it before the rest, and the quick ones before the slow. A test has so much
processor time, whatever else the machine does, and nothing is drawn anew from run to run: the survivors stay the same.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.mutation.trampoline_templates import trampoline_imports
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from tests.places import ROOT
from tests.prove.progress import Steps
from tests.simulation.mutants import SourceLoader

SUPERVISION = ("tests/kernel/supervision/",)
SLICES = ("tests/kernel/slices/",)
QUESTIONS = (
    "tests/kernel/syscall/models/test_model_question.py",
    "tests/kernel/syscall/models/test_question_asked.py",
)
PARKED = ("tests/kernel/turn/test_parked.py",)
TESTS = {
    "kernel.supervision.strategies": SUPERVISION,
    "kernel.supervision.group_restart": SUPERVISION,
    "kernel.supervision.supervisor": SUPERVISION,
    "kernel.supervision.closing": SUPERVISION,
    "kernel.supervision.reducer": SUPERVISION,
    "kernel.slices.mailboxes": SLICES,
    "kernel.slices.turns": SLICES,
    "kernel.slices.calls": SLICES,
    "kernel.turn.divergence": PARKED,
    "kernel.syscall.models.model_question": QUESTIONS,
}
"""By module, who is to kill its mutants, and nobody else."""

SURVIVORS = Path(__file__).with_name("mutation_survivors.toml")
LEAST = 0.9
PARALLEL = 2
WHICH = "not steps and not properties"
"""No test that counts what the interpreter does, which is more where a mutant stands beside the original; and none that
looks at thousands of states drawn by chance, which would take seconds for each mutant that lives on.
"""
CPU_S = 2.0  # for each test, beside this, so many times what it takes of the original
TIMES = 10
MEMORY_BYTES = 2**30
KILLED, SURVIVED = 3, 0
DEAD = ("killed", "timeout")


class Chosen:
    """Which mutant runs in this process, and what was called of what has mutants."""

    def __init__(self) -> None:
        self.module = self.name = ""
        self.called: set[tuple[str, str]] = set()


CHOSEN = Chosen()


def mutated(mutants: dict[str, Callable[..., Any]], is_classmethod: bool = False) -> Callable[..., Any]:
    """What stands in the place of a function that has mutants: the one that is chosen, else the original."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        module, name = function.__module__, ""

        @wraps(function)
        def call(*args: Any, **words: Any) -> Any:
            nonlocal name
            name = name or _function_of(mutants["_mutmut_orig"].__name__)
            CHOSEN.called.add((module, name))
            chosen = mutants.get(CHOSEN.name) if CHOSEN.module == module else None
            return (chosen or mutants["_mutmut_orig"])(*args[is_classmethod:], **words)

        return call

    return decorated


def _function_of(mutant: str) -> str:
    return mutant.rpartition("__mutmut_")[0]


@dataclass(frozen=True, slots=True)
class Mutant:
    """``was`` and ``now``: the lines that differ, without their indent."""

    module: str
    name: str
    was: str
    now: str

    @property
    def function(self) -> str:
        return _function_of(self.name)

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.module, self.title, self.was, self.now

    @property
    def title(self) -> str:
        """The function as a reader calls it."""
        return self.function.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")


def mutants_of(module: str) -> tuple[str, list[Mutant]]:
    """The source of ``module`` with all its mutants, and those."""
    path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
    made = mutate_file_contents(str(path), path.read_text())
    ours = f"from {__name__} import mutated as _mutmut_mutated\nMutantDict = dict\n"
    source = made.code.replace(trampoline_imports.strip(), ours)
    lines = made.code.splitlines()
    bodies = {
        name: lines[span.start - 1 : span.end] for name, span in made.line_span_by_function_name.items()
    }
    found = []
    for name in made.mutant_names:
        was, now = _difference(bodies[f"{_function_of(name)}__mutmut_orig"], bodies[name])
        found.append(Mutant(module, name, was, now))
    return source, found


def _difference(original: Sequence[str], mutant: Sequence[str]) -> tuple[str, str]:
    """The lines that are in one alone, but for the names of the functions."""
    changes = list(difflib.ndiff(_plain(original), _plain(mutant)))
    return (
        " ".join(line[2:] for line in changes if line.startswith("- ")),
        " ".join(line[2:] for line in changes if line.startswith("+ ")),
    )


def _plain(body: Sequence[str]) -> list[str]:
    """Its lines without indents, and without what tells one mutant's name from another's."""
    lines = [line.strip() for line in body if line.strip()]
    return [_unnamed(line) if line.startswith(("def ", "async def ")) else line for line in lines]


def _unnamed(line: str) -> str:
    before, _, behind = line.partition("__mutmut_")
    return before + behind.lstrip("orig0123456789") if behind else line


@dataclass(eq=False)
class Suite:
    """The tests of some modules, in a pytest of its own: :meth:`run` has them kill mutants."""

    mutants: list[Mutant]
    console: Console
    fates: dict[Mutant, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    _takes_s: dict[str, float] = field(default_factory=dict)
    _calls: dict[str, set[tuple[str, str]]] = field(default_factory=dict)

    def pytest_collection(self) -> None:
        """Nothing is drawn anew from run to run, nor kept from one to the next."""
        known = settings.get_profile("any machine")
        unshrunk = (Phase.explicit, Phase.generate)  # that a test fails is enough
        settings.register_profile("mutation", known, database=None, derandomize=True, phases=unshrunk)
        settings.load_profile("mutation")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In the place of pytest's own."""
        with Steps(self.console, "tests of the original", len(session.items)) as bar:
            for done, item in enumerate(session.items, 1):
                CHOSEN.called = set()
                began_s = time.process_time()
                _run(item)
                self._takes_s[item.nodeid] = time.process_time() - began_s
                self._calls[item.nodeid] = CHOSEN.called
                bar.reach(done)
        CHOSEN.called = set()
        if not self.failed:
            self._have_original_live(session.items)
        if self.failed:
            return True
        with Steps(self.console, "mutants", len(self.mutants)) as bar:
            for mutant, fate in self._fates(session.items):
                self.fates[mutant] = fate
                bar.reach(len(self.fates))
        return True

    def _have_original_live(self, items: list[pytest.Item]) -> None:
        """The original must live where a mutant does, else a death says nothing."""
        said, says = os.pipe()
        pid = self._fork(Mutant("", "", "", ""), items, says)
        os.close(says)
        _, status = os.waitpid(pid, 0)
        with open(said) as words:
            killer = words.read()
        if status:
            self.failed.append(f"{killer or status} in a fork")

    def _fates(self, items: list[pytest.Item]) -> Iterator[tuple[Mutant, str]]:
        """Of each mutant, as they come."""
        under_way: dict[int, tuple[Mutant, int]] = {}
        kills: Counter[tuple[str, str]] = Counter()  # of a function's mutants, and of all, by a test

        def ended() -> tuple[Mutant, str]:
            pid, status = os.wait()
            mutant, said = under_way.pop(pid)
            with open(said) as words:
                test = words.read()
            kills.update([(mutant.function, test), ("", test)])
            if os.WIFSIGNALED(status):
                return mutant, "timeout" if os.WTERMSIG(status) == signal.SIGXCPU else "killed"
            return mutant, "survived" if os.WEXITSTATUS(status) == SURVIVED else "killed"

        for mutant in self.mutants:
            called, killers = (mutant.module, mutant.function), TESTS[mutant.module]
            tests = [
                item
                for item in items
                if item.nodeid.startswith(killers) and called in self._calls[item.nodeid]
            ]
            tests.sort(key=lambda item: self._rank(kills, mutant.function, item.nodeid))
            if not tests:
                yield mutant, "no test calls it"
                continue
            said, says = os.pipe()
            under_way[self._fork(mutant, tests, says)] = mutant, said
            os.close(says)
            if len(under_way) == PARALLEL:
                yield ended()
        while under_way:
            yield ended()

    def _rank(self, kills: Counter[tuple[str, str]], function: str, test: str) -> tuple[int, int, float]:
        """The least is asked first."""
        return -kills[function, test], -kills["", test], self._takes_s[test]

    def _fork(self, mutant: Mutant, tests: list[pytest.Item], says: int) -> int:
        """A process that runs these until one fails, which it ``says``."""
        pid = os.fork()
        if pid:
            return pid
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        CHOSEN.module, CHOSEN.name = mutant.module, mutant.name
        status = KILLED
        try:
            for item in tests:
                _limit(CPU_S + TIMES * self._takes_s[item.nodeid])
                _run(item)
                if self.failed:
                    os.write(says, item.nodeid.encode())
                    break
            else:
                status = SURVIVED
        finally:
            os._exit(status)


def _limit(more_s: float) -> None:
    """SIGXCPU ends this process when it has used so much more of the processor."""
    at_s = math.ceil(time.process_time() + more_s)
    resource.setrlimit(resource.RLIMIT_CPU, (at_s, resource.RLIM_INFINITY))


def _run(item: pytest.Item) -> None:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)


def run_suite(console: Console, modules: Sequence[str]) -> Suite:
    """In this process, which has what is mutated imported from now on: once for a process."""
    mutants: list[Mutant] = []
    for module in modules:
        source, found = mutants_of(module)
        mutants += found
        sys.meta_path.insert(0, SourceLoader(module, source))
    suite = Suite(mutants, console)
    tests = dict.fromkeys(test for module in modules for test in TESTS[module])
    words = ["-q", "-p", "no:cacheprovider", "--tb=native", "-k", WHICH, *tests]
    with _in(ROOT), open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
        pytest.main(words, plugins=[suite])
    return suite


@contextmanager
def _in(directory: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


def known_survivors() -> dict[tuple[str, str, str, str], str]:
    """Those that stand with a reason, and that."""
    rows = tomllib.loads(SURVIVORS.read_text())["survivor"]
    return {
        (row["module"], row["function"], row["was"], now): row["why"] for row in rows for now in row["now"]
    }


def judge(console: Console, fates: Sequence[tuple[Mutant, str]]) -> bool:
    """Say how many were killed and which were not; whether they are enough of each module, and each of the others has
    its reason.
    """
    known = known_survivors()
    module_column = Column("module", no_wrap=True)
    table = Table(module_column, "mutants", "killed", "share", "survived, and why", box=box.SIMPLE_HEAD)
    held = bool(fates)
    strange: list[tuple[Mutant, str]] = []
    for module in dict.fromkeys(mutant.module for mutant, _ in fates):
        of_it = [(mutant, fate) for mutant, fate in fates if mutant.module == module]
        alive = [(mutant, fate) for mutant, fate in of_it if fate not in DEAD]
        dead, share = len(of_it) - len(alive), 1 - len(alive) / len(of_it)
        held = held and share >= LEAST
        strange += [(mutant, fate) for mutant, fate in alive if mutant.key not in known]
        reasons = Counter(known.get(mutant.key, "no reason: see below") for mutant, _ in alive)
        why = "\n".join(f"{count} {reason}" for reason, count in reasons.items())
        table.add_row(module, f"{len(of_it):,}", f"{dead:,}", f"{100 * share:.1f} %", escape(why))
        for key in sorted(set(known) - {mutant.key for mutant, _ in alive}):
            if key[0] == module:
                words = f"{' '.join(key[:2])}: no survivor any more, its reason can go: {key[2]} -> {key[3]}"
                console.print(words, highlight=False, markup=False)
    console.print(table)
    for mutant, fate in strange:
        words = f"{mutant.module} {mutant.title}: {fate}, without a reason\n  was {mutant.was}\n  now {mutant.now}"
        console.print(words, style="red", highlight=False, markup=False)
    counts = Counter(fate for _, fate in fates)
    said = ", ".join(f"{count:,} {fate}" for fate, count in sorted(counts.items()))
    held = held and not strange
    console.print(
        f"{' ok ' if held else 'FAIL'} {len(fates):,} mutants: {said}; {len(strange)} live on without a reason, and of "
        f"each module at least {100 * LEAST:g} % must be killed",
        style="green" if held else "red", highlight=False,
    )  # fmt: skip
    return held


def prove_mutation(console: Console, seed: str, quick: bool) -> bool:
    """In a process of its own, which imports what is mutated; a quick run takes one module."""
    modules = list(TESTS)[:1] if quick else list(TESTS)
    command = [sys.executable, "-m", "tests.prove.mutation_suite", "--json", *modules]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        console.print("FAIL the tests do not hold of the originals", style="red")
        return False
    return judge(console, [(Mutant(*row[:4]), row[4]) for row in json.loads(done.stdout)])
