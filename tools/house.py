"""The structure of the product in figures, for any commit: ``python -m tools.house [COMMIT] [--json]``.

Reads the sources of the packages from git, or from the working tree without a commit, imports nothing and judges
nothing. What each line of the table counts stands beside :func:`measure`.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import statistics
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from rich import box
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("chain", "cognition", "kernel", "mesh", "weftos")
LONG_LINES, MANY_ATTRIBUTES, MANY_METHODS, MANY_FILES = 30, 12, 25, 14
WIDE = ("Any", "Json")
Function = ast.FunctionDef | ast.AsyncFunctionDef
Rows = dict[str, str]


@dataclass(frozen=True, slots=True)
class Source:
    """One module of a commit."""

    path: PurePosixPath
    text: str
    tree: ast.Module

    @property
    def module(self) -> str:
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources(commit: str | None, root: Path = ROOT) -> list[Source]:
    """The modules of the packages, by path. Raises subprocess.CalledProcessError for what is no commit."""
    texts = _working_tree(root) if commit is None else _committed(commit, root)
    return [Source(path, text, ast.parse(text)) for path, text in sorted(texts)]


def asked_for(commit: str | None) -> list[Source]:
    """The modules that a command is about. Ends it with status 2 for what is no commit."""
    try:
        return sources(commit)
    except subprocess.CalledProcessError as error:
        print(error.stderr.decode(errors="replace").strip(), file=sys.stderr)
        raise SystemExit(2) from None


def _working_tree(root: Path) -> Iterator[tuple[PurePosixPath, str]]:
    for package in PACKAGES:
        for file in (root / package).rglob("*.py"):
            yield PurePosixPath(file.relative_to(root)), file.read_text()


def _committed(commit: str, root: Path) -> Iterator[tuple[PurePosixPath, str]]:
    command = ["git", "archive", "--format=tar", commit, "--", *PACKAGES]
    data = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None and member.name.endswith(".py"):
                yield PurePosixPath(member.name), file.read().decode()


def measure(modules: list[Source]) -> Rows:
    """The table: what is counted, and the count.

    Lines are those of the file, of a function from ``def`` to its last. Attributes are those that a class gives its
    instances: assigned to ``self`` in a method, or annotated in its body. Import depth is the longest chain of imports
    among modules, without those for types alone. A wire is an attribute that a function gives to an object it neither
    made nor was made for (not ``self``, not a name that the function binds by a call); a late name is a free variable
    of a lambda that its function binds after it.
    """
    functions = [node for one in modules for node in ast.walk(one.tree) if isinstance(node, Function)]
    classes = [node for one in modules for node in ast.walk(one.tree) if isinstance(node, ast.ClassDef)]
    return {
        "modules": str(len(modules)),
        "module lines, median / p90 / max": _spread([one.text.count("\n") for one in modules]),
        **_of_functions(functions),
        **_of_classes(classes),
        **_of_folders(modules),
        "import depth": _depths(modules),
        "wires set after construction": str(len(wires(modules))),
        "lambdas that read a name bound later": str(len(late_names(modules))),
        "comment lines": _comment_share(modules),
    }


def _of_functions(functions: list[Function]) -> Rows:
    lines = [_lines(node) for node in functions]
    wide = sum(_is_wide(node) for node in functions)
    return {
        "function lines, median / p90 / max": _spread(lines),
        f"functions over {LONG_LINES} lines": _share(sum(count > LONG_LINES for count in lines), len(lines)),
        "functions with Any or Json in the signature": f"{wide:,} of {len(functions):,}",
    }


def large_classes(modules: list[Source]) -> set[str]:
    """Those with very many attributes or methods, by module and name."""
    return {
        f"{one.module}.{node.name}"
        for one in modules
        for node in ast.walk(one.tree)
        if isinstance(node, ast.ClassDef)
        and (len(_attributes(node)) > MANY_ATTRIBUTES or _methods(node) > MANY_METHODS)
    }


def _of_classes(classes: list[ast.ClassDef]) -> Rows:
    attributes = {node: len(_attributes(node)) for node in classes}
    methods = {node: _methods(node) for node in classes}
    crowded = [node.name for node in classes if attributes[node] > MANY_ATTRIBUTES]
    busy = [node.name for node in classes if methods[node] > MANY_METHODS]
    return {
        "attributes a class, p90 / max": _spread(list(attributes.values())).partition(" / ")[2],
        f"classes over {MANY_ATTRIBUTES} attributes": _named(len(crowded), crowded),
        "methods of the biggest classes": _biggest({node.name: methods[node] for node in classes}),
        f"classes over {MANY_METHODS} methods": _named(len(busy), busy),
    }


def _of_folders(modules: list[Source]) -> Rows:
    folders = Counter(str(one.path.parent) for one in modules)
    return {
        "folders": str(len(folders)),
        "files in the biggest folders": _biggest(folders),
        f"folders over {MANY_FILES} files": _named(*_over(folders, MANY_FILES)),
    }


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _is_wide(node: Function) -> bool:
    signature = [node.args, node.returns] if node.returns else [node.args]
    names = [item for part in signature for item in ast.walk(part) if isinstance(item, ast.Name)]
    return any(name.id in WIDE for name in names)


def _methods(node: ast.ClassDef) -> int:
    return sum(isinstance(item, Function) for item in node.body)


def _attributes(node: ast.ClassDef) -> set[str]:
    found = {
        item.target.id
        for item in node.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    for item in ast.walk(node):
        if isinstance(item, ast.Attribute) and isinstance(item.ctx, ast.Store) and _named_by(item) == "self":
            found.add(item.attr)
    return found


def _named_by(node: ast.Attribute) -> str:
    return node.value.id if isinstance(node.value, ast.Name) else ""


def wires(modules: list[Source]) -> list[str]:
    """What is given to a part from outside, as ``module:line target``."""
    records = {name for one in modules for name in _record_fields(one.tree)}
    return [
        f"{one.module}:{node.lineno} {ast.unparse(node)}"
        for one in modules
        for function in _outermost(one.tree)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and node.attr not in records
        and _root(node) not in _made_in(function)
        and _named_by(node) not in ("self", "cls")
    ]


def _record_fields(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from (
                item.target.id
                for item in node.body
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
            )


def _outermost(tree: ast.Module) -> Iterator[Function]:
    for node in tree.body:
        for item in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(item, Function):
                yield item


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _made_in(function: Function) -> set[str]:
    """Names that a function binds to what a call gave it."""
    return {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def late_names(modules: list[Source]) -> list[str]:
    """Names that a lambda reads and its function binds only behind it, as ``module:line name``."""
    found = []
    for one in modules:
        for function in ast.walk(one.tree):
            if isinstance(function, Function):
                found += [f"{one.module}:{line} {name}" for line, name in _late_in(function)]
    return found


def _late_in(function: Function) -> Iterator[tuple[int, str]]:
    first: dict[str, int] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            first[node.id] = min(node.lineno, first.get(node.id, node.lineno))
    for node in ast.walk(function):
        if isinstance(node, ast.Lambda):
            own = {argument.arg for argument in ast.walk(node.args) if isinstance(argument, ast.arg)}
            for name in ast.walk(node.body):
                if isinstance(name, ast.Name) and name.id not in own and first.get(name.id, 0) > name.lineno:
                    yield name.lineno, name.id


def _depths(modules: list[Source]) -> str:
    graph = {one.module: imports(one, {other.module for other in modules}) for one in modules}
    inside = {
        package: _longest({one: {to for to in tos if _package(to) == package} for one, tos in graph.items()})
        for package in PACKAGES
    }
    return f"{_longest(graph)} ({', '.join(f'{name} {depth}' for name, depth in inside.items())})"


def _package(module: str) -> str:
    return module.partition(".")[0]


def imports(one: Source, known: set[str]) -> set[str]:
    """What a module imports of the modules ``known`` when it is loaded; inside functions too."""
    for_types = {
        id(inner)
        for node in ast.walk(one.tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found: set[str] = set()
    for node in ast.walk(one.tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.update(
                full if (full := f"{node.module}.{name.name}") in known else node.module
                for name in node.names
            )
    return (found & known) - {one.module}


def _longest(imports: Mapping[str, set[str]]) -> int:
    """Steps of the longest chain; a module that is met again on its own chain ends it."""
    chain: set[str] = set()

    @cache
    def depth(module: str) -> int:
        chain.add(module)
        steps = [depth(other) + 1 for other in imports[module] if other not in chain]
        chain.discard(module)
        return max(steps, default=0)

    return max((depth(module) for module in imports), default=0)


def _comment_share(modules: list[Source]) -> str:
    comments = 0
    for one in modules:
        tokens = tokenize.generate_tokens(io.StringIO(one.text).readline)
        comments += len({token.start[0] for token in tokens if token.type == tokenize.COMMENT})
    return _share(comments, sum(one.text.count("\n") for one in modules))


def _spread(values: list[int]) -> str:
    if len(values) < 2:
        return " / ".join([str(sum(values))] * 3)
    p90 = statistics.quantiles(values, n=10, method="inclusive")[8]
    return f"{statistics.median(values):.0f} / {p90:.0f} / {max(values)}"


def _share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({100 * part / max(whole, 1):.1f} %)"


def _biggest(counts: Mapping[str, int], most: int = 4) -> str:
    return ", ".join(f"{name} {count}" for name, count in Counter(counts).most_common(most))


def _over(counts: Mapping[str, int], limit: int) -> tuple[int, list[str]]:
    names = [name for name, count in counts.items() if count > limit]
    return len(names), names


def _named(count: int, names: list[str]) -> str:
    return f"{count}: {', '.join(sorted(names))}" if names else "0"


def _print(rows: Rows, title: str) -> None:
    table = Table("point", "measured", box=box.SIMPLE_HEAD, title=title, title_justify="left")
    for point, count in rows.items():
        table.add_row(point, count)
    Console().print(table)


def main() -> int:
    """Run the command. Exit status 2 for what is no commit."""
    parser = argparse.ArgumentParser(prog="tools.house", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("commit", nargs="?", help="a commit; the working tree without one")
    parser.add_argument("--json", action="store_true", help="print JSON on stdout")
    parser.add_argument("--names", action="store_true", help="name each wire and each late name too")
    options = parser.parse_args()
    modules = asked_for(options.commit)
    rows = measure(modules)
    if options.names:
        rows |= {"wires": "\n".join(wires(modules)), "late names": "\n".join(late_names(modules))}
    if options.json:
        print(json.dumps(rows, indent=1))
    else:
        _print(rows, options.commit or "the working tree")
    return 0


if __name__ == "__main__":
    sys.exit(main())
