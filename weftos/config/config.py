"""The configuration of a node: flags over environment over file over presets over defaults, and each value's origin.

The file is ``<data>/weftos.toml``, or the one given by ``--config``; never one in the current directory, as
that may belong to somebody else. An environment variable is ``WEFTOS_`` and the dotted key in capitals with
two underscores for each dot: ``WEFTOS_NODE__ENGINE``; a list is JSON, and a ``-`` in a name becomes ``_``.
``WEFTOS_RAY_TOKEN_PATH`` is short for ``WEFTOS_NODE__RAY_TOKEN``.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from cognition.config.agent_config import PipelineConfig
from cognition.config.check import faults_of, hints_of, parse
from cognition.config.trace_config import TraceConfig, trace_faults
from cognition.turn.builder import PipelineError
from cognition.turn.order import builder_of
from kernel.operations.node import Setting
from weftos.config.access import access_faults
from weftos.config.app_file import App, read_app
from weftos.config.config_file import ConfigError, KeyPath, find_line, read_toml
from weftos.config.presets import PRESETS, tables
from weftos.config.routing import routing_faults
from weftos.config.settings import TABLES, Settings
from weftos.safe_text import safe_text

__all__ = ["Config", "ConfigError", "Origin", "default_file", "load", "validate_file"]

PREFIX = "WEFTOS_"
OWN_CODE = ("tools", "behaviours")
NOT_SETTINGS = frozenset({"WEFTOS_DATA", "WEFTOS_CONFIG"})
SHORT_NAMES: Mapping[str, KeyPath] = {"WEFTOS_RAY_TOKEN_PATH": ("node", "ray_token")}
_PERHAPS_SECRET = frozenset({"base_url", "api_key_env"})  # where a person may have put a key by mistake
_SECRET_HINT = "; a secret does not belong here: name the environment variable that holds it in api_key_env"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from: ``kind`` is flag, environment, file, preset or default; ``where`` is for a person."""

    kind: str
    where: str

    def __str__(self) -> str:
        return self.where


DEFAULT = Origin("default", "default")


@dataclass(frozen=True, slots=True)
class Config:
    """Checked settings. ``origins`` maps the dotted key of each value that is not a default to its origin; ``apps``:
    the files of applications that had a say.
    """

    settings: Settings
    origins: Mapping[str, Origin]
    file: Path | None
    apps: tuple[Path, ...] = ()

    def view(self) -> list[Setting]:
        """Every value as ``{"key", "value", "origin"}``, in the order of the sections."""
        known = self.settings.model_dump(by_alias=True)
        whole = {name: asdict(parse(kind, known[name], name)) for name, kind in TABLES.items()}
        values = _flatten({**known, **whole})
        return [
            {"key": key, "value": value, "origin": str(self.origins.get(key, DEFAULT))}
            for key, value in values
        ]

    def tool_variables(self, environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
        """What of ``environment`` each tool is given, by the names that its ``env`` has; those that are set."""
        return {
            name: {variable: environment[variable] for variable in tool.env if variable in environment}
            for name, tool in self.settings.tools.items()
        }

    def secret_variables(self) -> tuple[str, ...]:
        """The environment variables whose values are secrets: for the gateway, and for no other process."""
        providers = self.settings.providers.values()
        return tuple(sorted({provider.api_key_env for provider in providers if provider.api_key_env}))


def default_file(data: Path) -> Path:
    """Where the configuration of a data directory is, if it has one."""
    return data / "weftos.toml"


def load(
    data: Path,
    *,
    file: Path | None = None,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    apps: Sequence[Path] = (),
) -> Config:
    """The effective configuration. ``apps``: files of applications, whose own tools and behaviours join those of the
    file.

    ``file`` replaces ``<data>/weftos.toml`` and must exist. ``flags`` maps dotted keys to values; None means
    not given. Raises ConfigError with every fault that was found.
    """
    chosen = file if file is not None else default_file(data)
    layers = _Layers()
    found = file is not None or chosen.exists()
    if found:
        layers.add_file(chosen.absolute())
    for app in apps:
        layers.add_app(read_app(app))
    layers.add_environment(environment or {})
    layers.add_flags(flags or {})
    if environment is not None:
        layers.add_presets(environment)
    return Config(layers.settings(), layers.origins, chosen.absolute() if found else None, tuple(apps))


def validate_file(file: Path) -> Config:
    """The configuration that ``file`` alone gives. Raises ConfigError with every fault that was found."""
    return load(file.parent, file=file)


class _Layers:
    """Values of all sources, weakest first; each ``add`` overrides what was there and notes the faults."""

    def __init__(self) -> None:
        self.origins: dict[str, Origin] = {}
        self._values: dict[str, Any] = {}
        self._faults: list[str] = []

    def add_presets(self, environment: Mapping[str, str]) -> None:
        """What the environment offers, below all that was said by now: each provider that has no kind."""
        tools = self._values.get("tools", {}).values()
        lists = [tool.get("env") for tool in tools if isinstance(tool, dict)]
        taken = {name for each in lists if isinstance(each, list) for name in each if isinstance(name, str)}
        providers = self._values.get("providers", {})
        for name, table in tables(environment, taken).items():
            said = providers.get(name, {})
            if not isinstance(said, dict) or "kind" in said:
                continue
            known = {*said, *(("api_key_env",) if "api_key_file" in said else ())}
            origin = Origin("preset", f"preset of {PRESETS[name].key or name}")
            for key, value in table.items():
                if key not in known:
                    self._add(("providers", name, key), value, origin)

    def add_file(self, path: Path) -> None:
        text, content = read_toml(path)
        for key, value in _leaves(content):
            line = find_line(text, key)
            origin = Origin("file", f"{path}:{line}" if line else str(path))
            if key[-1] == "python_path" and isinstance(value, list):
                value = [str(path.parent / entry) if isinstance(entry, str) else entry for entry in value]
            self._add(key, value, origin)

    def add_app(self, app: App) -> None:
        """An application takes the name of no other tool or behaviour than its own."""
        taken = {
            (kind, name): values for kind in OWN_CODE for name, values in self._values.get(kind, {}).items()
        }
        own: dict[KeyPath, dict[str, Any]] = {}
        for key, value, line in app.settings:
            own.setdefault(key[:2], {})[key[2]] = value
            if key[:2] not in taken:
                self._add(key, value, Origin("file", f"{app.file}:{line}"))
        for name, values in own.items():
            if taken.get((name[0], name[1]), values) != values:
                where = self._origin_near(name)
                self._faults.append(
                    f"{app.file}: {_dotted(name)} is another one in {where}: rename one of them"
                )

    def add_environment(self, environment: Mapping[str, str]) -> None:
        taken = NOT_SETTINGS | self._secret_names(environment)
        for name in sorted(environment):
            if name.startswith(PREFIX) and name not in taken:
                key = SHORT_NAMES.get(name) or self._spelled(tuple(name[len(PREFIX) :].lower().split("__")))
                self._add(key, environment[name], Origin("environment", f"variable {safe_text(name)}"))

    def add_flags(self, flags: Mapping[str, Any]) -> None:
        for dotted, value in flags.items():
            if value is not None:
                key = tuple(dotted.split("."))
                self._add(key, value, Origin("flag", "--" + key[-1].replace("_", "-")))

    def settings(self) -> Settings:
        """The checked settings. Raises ConfigError when any layer had a fault."""
        settings = None
        try:
            settings = Settings.model_validate(self._values)
        except ValidationError as error:
            self._faults += [self._fault(details) for details in error.errors(include_url=False)]
        for name, kind in TABLES.items():
            for fault in faults_of(kind, self._values.get(name, {}), name):
                where = self._origin_near(tuple(fault.key.partition("[")[0].split(".")))
                self._faults.append(f"{where}: {fault}")
        self._check_pipeline()
        self._check_trace()
        if settings is not None and not self._faults:
            self._faults += [
                f"{self._origin_near((key,))}: {words}"
                for key, words in (*routing_faults(settings), *access_faults(settings))
            ]
        if settings is None or self._faults:
            raise ConfigError(*self._faults)
        return settings

    def _check_pipeline(self) -> None:
        """Stages that do not fit together are known before an agent starts."""
        agent = self._values.get("agent", {})
        told = agent.get("pipeline", {}) if isinstance(agent, dict) else {}
        if list(faults_of(PipelineConfig, told)):
            return
        try:
            builder_of(parse(PipelineConfig, told, "agent.pipeline")).build()
        except PipelineError as error:
            self._faults.append(f"{self._origin_near(('agent', 'pipeline'))}: agent.{error}")

    def _check_trace(self) -> None:
        """Where traces go is known before there is one."""
        agent = self._values.get("agent", {})
        told = agent.get("trace", {}) if isinstance(agent, dict) else {}
        if not list(faults_of(TraceConfig, told)):
            words = trace_faults(parse(TraceConfig, told, "agent.trace"))
            where = self._origin_near(("agent", "trace"))
            self._faults += [f"{where}: agent.trace.{each}" for each in words]

    def _add(self, key: KeyPath, value: Any, origin: Origin) -> None:
        """Set ``key``, or note why it cannot be set."""
        try:
            field = _resolve(key)
        except _UnknownKey as unknown:
            self._faults.append(f"{origin}: {unknown}")
            return
        if field is None and not isinstance(value, dict):
            self._faults.append(f"{origin}: {_dotted(key)} is a table: set the keys in it")
            return
        if field is not None and origin.kind == "environment":
            value = _from_text(field, value)
        table = self._values
        for part in key[:-1]:
            table = table.setdefault(part, {})
        if field is None:
            table.setdefault(key[-1], {})
        else:
            table[key[-1]] = value
        self.origins[".".join(key)] = origin

    def _fault(self, details: Any) -> str:
        key = tuple(str(part) for part in details["loc"] if part != "[key]")
        words = _dotted(key) + ": " + details["msg"].removeprefix("Value error, ")
        if key and key[-1] not in _PERHAPS_SECRET:
            words += _shown(details["input"])
        return f"{self._origin_near(key)}: {words}"

    def _origin_near(self, key: KeyPath) -> str:
        """The origin of the value at ``key``, of the table around it, or of what was set inside it."""
        for length in range(len(key), 0, -1):
            if origin := self.origins.get(".".join(key[:length])):
                return str(origin)
        for length in range(len(key), 0, -1):
            below = ".".join(key[:length]) + "."
            if inside := [str(origin) for name, origin in self.origins.items() if name.startswith(below)]:
                return ", ".join(list(dict.fromkeys(inside))[:3])
        return "configuration"

    def _spelled(self, key: KeyPath) -> KeyPath:
        """``key`` from a variable, with the second part as an existing entry of that table spells it."""
        table = self._values.get(key[0])
        if len(key) < 2 or not isinstance(table, dict):
            return key
        same = [name for name in table if name.lower().replace("-", "_") == key[1]]
        return (key[0], same[0], *key[2:]) if same else key

    def _secret_names(self, environment: Mapping[str, str]) -> set[str]:
        """Variables that hold provider keys: never taken for settings, whatever they are called."""
        providers = self._values.get("providers", {})
        named = {entry.get("api_key_env") for entry in providers.values() if isinstance(entry, dict)}
        ends = "__API_KEY_ENV"
        named |= {
            value for name, value in environment.items() if name.startswith(PREFIX) and name.endswith(ends)
        }
        return {name for name in named if isinstance(name, str)}


class _UnknownKey(Exception):
    """No setting has this key; the message names it, and the nearest that exists."""


def _resolve(key: KeyPath) -> FieldInfo | None:
    """The field that ``key`` means, None for a table. Raises _UnknownKey."""
    model: Any = Settings
    field: FieldInfo | None = None
    for depth, part in enumerate(key):
        if depth == 1 and key[0] in TABLES:
            model = TABLES[key[0]]
        model = _table_in(model)
        if get_origin(model) is dict:
            model = get_args(model)[1]
            field = None if _is_table(model) else FieldInfo.from_annotation(model)
            continue
        names = _names(model)
        if part not in names:
            raise _UnknownKey(_unknown(key, depth, names))
        field = names[part]
        model = field.annotation
    return None if _is_table(model) else field


def _table_in(model: Any) -> Any:
    """The table that a value may be which may be a list too; else what is given."""
    if get_origin(model) is Annotated:
        return _table_in(get_args(model)[0])
    if get_origin(model) in (Union, UnionType):
        return next((each for one in get_args(model) if _is_table(each := _table_in(one))), model)
    return model


def _names(model: Any) -> dict[str, FieldInfo]:
    if isinstance(model, type) and is_dataclass(model):
        return {name: FieldInfo.from_annotation(hint) for name, hint in hints_of(model).items()}
    if not _is_table(model):
        return {}
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _is_table(annotation: Any) -> bool:
    return (
        get_origin(annotation) is dict
        or is_dataclass(annotation)
        or (isinstance(annotation, type) and issubclass(annotation, BaseModel))
    )


def _unknown(key: KeyPath, depth: int, names: Mapping[str, FieldInfo]) -> str:
    shown = _dotted(key[: depth + 1])
    if not names:
        return f"unknown key {shown}: {_dotted(key[:depth])} is a single value"
    part, prefix = key[depth], key[:depth]
    near = difflib.get_close_matches(part[:64], names, n=1, cutoff=0.5)
    advice = f"the nearest is {_dotted((*prefix, near[0]))}" if near else f"known here: {', '.join(names)}"
    if "api_key_env" in names and any(
        word in part.lower() for word in ("key", "secret", "token", "password")
    ):
        advice += _SECRET_HINT
    return f"unknown key {shown}; {advice}"


def _shown(given: Any) -> str:
    if isinstance(given, str):
        return f" (it is {safe_text(repr(given[:100]))})"
    if isinstance(given, int) and abs(given) >= 2**63:
        return " (it is far larger)"
    return f" (it is {given!r})" if isinstance(given, int | float) else ""


def _dotted(key: KeyPath) -> str:
    return ".".join(safe_text(part[:64]) for part in key)


def _leaves(table: Mapping[str, Any], above: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Every value with its path, going into a table only where settings have one."""
    for name, value in table.items():
        key = (*above, name)
        if isinstance(value, dict) and value and _is_known_table(key):
            yield from _leaves(value, key)
        else:
            yield key, value


def _is_known_table(key: KeyPath) -> bool:
    try:
        field = _resolve(key)
    except _UnknownKey:
        return False
    return field is None or _is_table(_table_in(field.annotation))


def _flatten(value: Mapping[str, Any], above: KeyPath = ()) -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _flatten(inner, (*above, name))
        else:
            yield ".".join((*above, name)), inner


def _from_text(field: FieldInfo, text: str) -> Any:
    """What the text of a variable means for ``field``; the text itself when it means nothing there."""
    annotation: Any = field.annotation
    if type(None) in get_args(annotation):
        annotation = next(each for each in get_args(annotation) if each is not type(None))
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    try:
        if get_origin(annotation) in (list, tuple):
            return json.loads(text)
        return TypeAdapter(annotation).validate_strings(text)
    except (ValueError, RecursionError):
        return text
