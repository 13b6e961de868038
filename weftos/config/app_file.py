"""An application as a file declares it (``app.toml``): read, and every fault of it at once, with its line.

What a child may say is what a spawn says (:class:`kernel.operations.applications.DeclaredSpawn`): a new option of
``spawn`` is one of the file. Paths are relative to the file.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from cognition.config.agent_config import AgentConfig
from cognition.config.check import faults_of
from kernel.errors import AddressError
from kernel.model.address import validate_name
from kernel.operations.applications import PLACED, Declaration, DeclaredSpawn, OwnCode
from kernel.operations.spawning import OF_A_BEHAVIOUR, OF_A_TEMPLATE, TEMPLATE, USER
from weftos.config.config_file import ConfigError, read_toml
from weftos.config.section import Name, Section
from weftos.config.settings import BehaviourSettings, ToolSettings
from weftos.config.toml_lines import Path as KeyPath
from weftos.config.toml_lines import TomlLines
from weftos.safe_text import safe_text

_SPAWN = frozenset(item.name for item in fields(DeclaredSpawn) if item.name not in PLACED)
_SUPERVISOR = _SPAWN - {"replicas", "behaviour"}
_TREES = ("children", "supervisors")
_CODE: dict[str, type[Section]] = {"tools": ToolSettings, "behaviours": BehaviourSettings}
_KEYS = {
    "app": _SUPERVISOR | {*_TREES, *_CODE, "to"},
    "supervisors": _SUPERVISOR | {*_TREES},
    "children": _SPAWN,
    "tools": frozenset({"name", "import", "python_path", "env"}),
    "behaviours": frozenset({"name", "import", "python_path", "isolation"}),
}
_AGENT = "agent"
_MOST_DEEP = 14
_MOST_NESTED = 64  # a supervisor is in a list in a table: more than twice as many
_NUMBER_BITS = 64


@dataclass(frozen=True, slots=True)
class App:
    """A declared application. ``to``: the address that ``weftos run`` speaks with, empty for none. ``settings``: what a
    node has to be configured with for its own code, each with the line; ``lines``: of each of the spawns.
    """

    file: Path
    declaration: Declaration
    to: str
    lines: tuple[int, ...]
    settings: tuple[tuple[tuple[str, ...], Any, int], ...]

    @property
    def name(self) -> str:
        return self.declaration.name

    def place(self, entry: int) -> str:
        """File and line of one of the spawns; -1: of the application."""
        return f"{self.file}:{self.lines[max(entry, 0)]}"


def read_app(path: Path) -> App:
    """Raises ConfigError with every fault that was found."""
    text, content = read_toml(path)
    _check_values(path, content)
    return _Reader(path.absolute(), TomlLines(text)).app(content)


def _check_values(path: Path, content: Mapping[str, Any]) -> None:
    """Whatever reads or shows a value can do so with these. Raises ConfigError."""
    left: list[tuple[Any, int]] = [(content, 0)]
    while left:
        value, depth = left.pop()
        if depth > _MOST_NESTED:
            raise ConfigError(
                f"{path}: nested too deeply: {_MOST_NESTED} tables and lists in one another at most"
            )
        if isinstance(value, int) and value.bit_length() > _NUMBER_BITS:
            raise ConfigError(f"{path}: a whole number in it has more than {_NUMBER_BITS} bits")
        if isinstance(value, (dict, list)):
            below = value.values() if isinstance(value, dict) else value
            left += ((each, depth + 1) for each in below)


class _Reader:
    """Of one file: what was read so far, and what was wrong with it."""

    def __init__(self, file: Path, lines: TomlLines) -> None:
        self._file = file
        self._lines = lines
        self._faults: list[tuple[int, str]] = []
        self._spawns: list[DeclaredSpawn] = []
        self._at: list[int] = []
        self._code: list[OwnCode] = []
        self._settings: list[tuple[tuple[str, ...], Any, int]] = []

    def app(self, content: Mapping[str, Any]) -> App:
        for key in content.keys() - {"app"}:
            self._fault((key,), _unknown(key, {"app"}))
        table = content.get("app")
        if not isinstance(table, dict):
            self._fault(("app",), "an application is a table [app] with a name")
            raise self._error()
        self._known(("app",), table, "app")
        for kind in _CODE:
            self._own_code(kind, table)
        self._supervisor(("app",), table, USER, 0)
        to = self._spoken_to(table)
        if self._faults:
            raise self._error()
        declaration = Declaration(str(table["name"]), tuple(self._spawns), code=tuple(self._code))
        for fault in declaration.check():  # what this reader should have seen
            self._fault(("app",), fault)
        if self._faults:
            raise self._error()
        return App(self._file, declaration, to, tuple(self._at), tuple(self._settings))

    # -- the tree ------------------------------------------------------------------------------------------------

    def _supervisor(self, at: KeyPath, table: Mapping[str, Any], under: str, depth: int) -> None:
        if depth > _MOST_DEEP:
            self._fault(at, f"more than {_MOST_DEEP} supervisors one below the other")
            return
        spawn = self._spawn(at, table, under, supervisor=True)
        address = spawn.address if spawn else f"{under}/?"
        names: dict[str, KeyPath] = {}
        for kind in _TREES:
            for number, entry in self._entries(at, table, kind):
                below = (*at, kind, number)
                self._known(below, entry, kind)
                self._once(below, entry, names)
                if kind == "children":
                    self._spawn(below, entry, address, supervisor=False)
                else:
                    self._supervisor(below, entry, address, depth + 1)

    def _spawn(
        self, at: KeyPath, table: Mapping[str, Any], under: str, supervisor: bool
    ) -> DeclaredSpawn | None:
        given = {key: value for key, value in table.items() if key in _SPAWN}
        if len(at) == 1:
            given.pop("tools", None)  # these are its own code
        if supervisor and given.get("strategy") != TEMPLATE:
            for key in sorted(given.keys() & {*OF_A_BEHAVIOUR, *OF_A_TEMPLATE}):
                why = (
                    "a supervisor runs no behaviour"
                    if key in OF_A_BEHAVIOUR
                    else f"only strategy {TEMPLATE} has it"
                )
                self._fault((*at, key), f"{key}: {why}: leave it out")
                del given[key]
        if isinstance(given.get("workspace"), str) and given["workspace"]:
            given["workspace"] = str(self._file.parent / given["workspace"])
        if given.get("behaviour", _AGENT) == _AGENT and "config" in given:
            for wrong in faults_of(AgentConfig, given["config"], "config"):
                self._fault((*at, *wrong.key.partition("[")[0].split(".")), str(wrong))
        if not self._is_name(at, table):
            return None
        placed = {**given, "under": under, "supervisor": supervisor}
        spawn = self._checked(at, placed)
        if spawn is not None:
            for fault in spawn.check():
                self._fault(at, fault)
            self._spawns.append(spawn)
            self._at.append(self._lines.of((*at, "name")))
        return spawn

    def _checked(self, at: KeyPath, values: Mapping[str, Any]) -> DeclaredSpawn | None:
        """The spawn that these values make, or the faults of them."""
        odd = [key for key, value in values.items() if not _is_json(value)]
        for key in odd:
            self._fault((*at, key), f"{key}: neither text, number, truth value nor list of these")
        if odd:
            return None
        try:
            return _adapter().validate_json(json.dumps(values), strict=True)
        except ValidationError as error:
            words: dict[str, list[str]] = {}
            for details in error.errors(include_url=False):
                message = details["msg"].removeprefix("Value error, ")
                words.setdefault(str(details["loc"][0]), []).append(message)
            for key, said in words.items():
                self._fault(
                    (*at, key), f"{key}: {' or: '.join(dict.fromkeys(said))}{_shown(values.get(key))}"
                )
            return None

    def _is_name(self, at: KeyPath, table: Mapping[str, Any]) -> bool:
        name = table.get("name")
        if not isinstance(name, str):
            self._fault(
                (*at, "name"), "name: missing, and it is needed" if name is None else "name: must be text"
            )
            return False
        try:
            validate_name(name)
        except AddressError as error:
            self._fault((*at, "name"), str(error))
            return False
        return True

    def _once(self, at: KeyPath, table: Mapping[str, Any], names: dict[str, KeyPath]) -> None:
        name = table.get("name")
        if isinstance(name, str) and name in names:
            first = self._lines.of((*names[name], "name"))
            self._fault((*at, "name"), f"name: {safe_text(name[:64])} is that of line {first} too")
        elif isinstance(name, str):
            names[name] = at

    def _spoken_to(self, table: Mapping[str, Any]) -> str:
        """With whom ``weftos run`` speaks."""
        to = table.get("to")
        workers = [each for each in self._spawns if not each.supervisor and each.replicas != 0]
        addresses = [f"{each.address}-1" if each.replicas else each.address for each in workers]
        if to is None:
            return addresses[0] if addresses else ""
        wanted = f"{USER}/{table.get('name')}/{to}"
        if wanted not in addresses and not self._faults:
            near = difflib.get_close_matches(wanted, addresses, n=1, cutoff=0.0)
            known = f"; the nearest is {near[0].split('/', 3)[-1]}" if near else ""
            self._fault(("app", "to"), f"to: no child is called {safe_text(str(to)[:200])}{known}")
        return wanted

    # -- own code ------------------------------------------------------------------------------------------------

    def _own_code(self, kind: str, table: Mapping[str, Any]) -> None:
        names: dict[str, KeyPath] = {}
        for number, entry in self._entries(("app",), table, kind):
            at: KeyPath = ("app", kind, number)
            if kind == "behaviours" and "env" in entry:
                self._fault(
                    (*at, "env"),
                    "env: a behaviour runs in a cell, which is given no secrets: have a tool hold the variable",
                )
                entry = {key: value for key, value in entry.items() if key != "env"}
            self._known(at, entry, kind)
            self._once(at, entry, names)
            self._code_entry(at, kind, entry)

    def _code_entry(self, at: KeyPath, kind: str, entry: Mapping[str, Any]) -> None:
        given = {key: value for key, value in entry.items() if key in _KEYS[kind] and key != "name"}
        python_path = given.get("python_path", ["."])
        if isinstance(python_path, list) and all(isinstance(each, str) for each in python_path):
            if any("\0" in each for each in python_path):
                self._fault((*at, "python_path"), "python_path: no directory has a NUL in its name")
                return
            python_path = [os.path.realpath(self._file.parent / each) for each in python_path]
        given["python_path"] = python_path
        try:
            name = _name().validate_python(entry.get("name"))
            made: Any = _CODE[kind].model_validate(given)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                key = str(details["loc"][0]) if details["loc"] else "name"
                missing = details["type"] == "missing" or entry.get(key) is None
                words = (
                    "missing, and it is needed" if missing else details["msg"].removeprefix("Value error, ")
                )
                self._fault(
                    (*at, key), f"{key}: {words}{'' if missing else _shown(given.get(key, entry.get(key)))}"
                )
            return
        singular: Any = kind.removesuffix("s")
        self._code.append(OwnCode(singular, name, made.import_, tuple(made.python_path)))
        line = self._lines.of(at)
        self._settings += [((kind, name, key), value, line) for key, value in given.items()]

    # -- faults --------------------------------------------------------------------------------------------------

    def _entries(
        self, at: KeyPath, table: Mapping[str, Any], kind: str
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        entries = table.get(kind, [])
        dotted = ".".join(str(part) for part in (*at, kind) if isinstance(part, str))
        if not isinstance(entries, list):
            self._fault((*at, kind), f"{kind}: must be a list of tables, each headed [[{dotted}]]")
            return
        for number, entry in enumerate(entries):
            if isinstance(entry, dict):
                yield number, entry
            else:
                self._fault((*at, kind), f"{kind}: each must be a table, headed [[{dotted}]]")

    def _known(self, at: KeyPath, table: Mapping[str, Any], kind: str) -> None:
        for key in sorted(table.keys() - _KEYS[kind]):
            self._fault((*at, key), _unknown(key, _KEYS[kind]))

    def _fault(self, at: KeyPath, words: str) -> None:
        self._faults.append((self._lines.of(at), words))

    def _error(self) -> ConfigError:
        """All faults in the order of their lines."""
        told = dict.fromkeys(f"{self._file}:{line}: {words}" for line, words in sorted(self._faults))
        return ConfigError(*told)


@cache
def _adapter() -> TypeAdapter[DeclaredSpawn]:
    return TypeAdapter(DeclaredSpawn)


@cache
def _name() -> TypeAdapter[str]:
    return TypeAdapter(Name)


def _unknown(key: str, known: frozenset[str] | set[str]) -> str:
    shown = safe_text(key[:64])
    if key in PLACED:
        return f"unknown key {shown}: where the entry stands says that; a supervisor is headed [[...supervisors]]"
    near = difflib.get_close_matches(key[:64], known, n=1, cutoff=0.6)
    return f"unknown key {shown}; " + (
        f"did you mean {near[0]}?" if near else f"known here: {', '.join(sorted(known))}"
    )


def _is_json(value: Any) -> bool:
    match value:
        case float():
            return isfinite(value)
        case str() | int():
            return True
        case list():
            return all(map(_is_json, value))
        case dict():
            return all(map(_is_json, value.values()))
    return False


def _shown(value: Any) -> str:
    text = repr(value)
    return "" if value is None else f" (it is {safe_text(text[:100])})"
