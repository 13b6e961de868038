"""The command line as it was typed, without what typer loads and builds for every other one.

Theory of operation. typer makes all commands for each run of one, and validates each argument by pydantic, which takes
longer to load than most commands take. So the tree is cut down to the command that was named before it is made, and an
argument that can be seen to be right already is taken as it is. What is not seen to be right is left to typer: what is
refused, and in which words, is its decision alone. A typer that keeps its coercion elsewhere just does all of it.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import typer
from typer.main import get_command, get_command_name

_SLOT = "_runtime_param"  # of a typer parameter: its coercion, None until it is needed
_UNSEEN: Final = object()


def command_for(app: typer.Typer, words: Sequence[str]) -> Any:
    """The program, with at least the command that ``words`` name. With all of them when they name none."""
    command = get_command(_cut_down(app, words))
    for parameter in _parameters(command):
        if getattr(parameter, _SLOT, _UNSEEN) is None:
            setattr(parameter, _SLOT, _Quick())
    return command


def _cut_down(app: typer.Typer, words: Sequence[str]) -> typer.Typer:
    commands = [info for info in app.registered_commands if words and _name(info) == words[0]]
    groups = [info for info in app.registered_groups if words and info.name == words[0]]
    if not commands and not groups:
        return app
    made = copy.copy(app)
    made.registered_commands = commands
    made.registered_groups = [copy.copy(info) for info in groups]
    for info in made.registered_groups:
        if info.typer_instance is not None:
            info.typer_instance = _cut_down(info.typer_instance, words[1:])
    return made


def _name(info: Any) -> str:
    return str(info.name or get_command_name(info.callback.__name__))


def _parameters(command: Any) -> Iterator[Any]:
    yield from command.params
    yield command.get_help_option(typer.Context(command))
    for inner in getattr(command, "commands", {}).values():
        yield from _parameters(inner)


class _Quick:
    """Stands where typer keeps the coercion of a parameter, until it is needed."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """What the program is given for ``value``. Raises BadParameter."""
        seen = _seen(value, param)
        if seen is not _UNSEEN:
            return seen
        setattr(param, _SLOT, None)
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _seen(value: Any, param: Any) -> Any:
    """``value`` as typer would make it, where that can be told."""
    descriptor = param.type_descriptor
    kind, info = descriptor.annotation, descriptor.parameter_info
    if value is None and param.multiple:  # nothing typed of what may be typed many times
        return ()
    if param.multiple or param.nargs != 1 or info.parser is not None:
        return _UNSEEN
    if value is None or (kind in (int, float) and type(value) is kind):  # nothing typed: the default
        return value
    if type(value) is not str or not _is_text(value):
        return value if kind is Path and isinstance(value, Path) and _is_free(value, info) else _UNSEEN
    if kind is Path:
        path = Path(value)
        return path if _is_free(path, info) else _UNSEEN
    if kind is int and value.isdecimal() and value.isascii() and len(value) < 10:
        number = int(value)
        return number if (info.min or 0) <= number <= (number if info.max is None else info.max) else _UNSEEN
    words = [word for word in descriptor.choices or () if type(word) is str and info.case_sensitive]
    return value if kind is str or value in words else _UNSEEN


def _is_text(value: str) -> bool:
    """Whether it was UTF-8 on the command line."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_free(path: Path, info: Any) -> bool:
    """Whether nothing is demanded of ``path`` but that it can be read if it is there, and that holds."""
    demands = (info.exists, info.resolve_path, info.allow_dash, info.path_type, info.writable)
    if any(demands) or not (info.file_okay and info.dir_okay):
        return False
    try:
        return os.access(path, os.R_OK) or not os.path.lexists(path)
    except ValueError:  # a NUL byte
        return False
