"""The marks that third-party code bears: :func:`tool` on a function, :func:`behaviour` on a class.

Both return what they were given, so it stays testable by a plain call. Importing this module loads nothing of
ours but ``kernel.abi``: it is imported in workers and in cells.
"""

from __future__ import annotations

import inspect
import json
import re
import types
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from kernel.abi import ANY_HOST, EffectId, Effects, OnDoubt, ToolDeclaration

TOOL_MARK = "__weftos_tool__"
PROBE_MARK = "__weftos_probe__"
BEHAVIOUR_MARK = "__weftos_behaviour__"

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Class = TypeVar("_Class", bound=type)
_SIMPLE = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    type(None): "null",
}
_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns?|Raises|Yields|Examples?|Notes?):\s*$")
_PARAMETER = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")


@overload
def tool(function: _Function, /) -> _Function: ...
@overload
def tool(
    *,
    effects: Effects = "external",
    idempotent: bool = False,
    on_doubt: OnDoubt = "ask",
    timeout_s: float = 60.0,
    roles: tuple[str, ...] = (),
    confirmation: bool = False,
    probe: Callable[[EffectId], Any] | None = None,
    network: tuple[str, ...] = ANY_HOST,
) -> Callable[[_Function], _Function]: ...
def tool(function: Any = None, /, *, probe: Any = None, network: Any = ANY_HOST, **options: Any) -> Any:
    """Mark a function as a tool that agents may be given: ``@tool`` or ``@tool(effects="none")``.

    The JSON Schema of its arguments comes from its type hints (str, int, float, bool, list, dict, Literal,
    unions of these, ``Annotated[..., "what it is"]``), their descriptions from an ``Args:`` section of its
    docstring, the tool's own description from what precedes that. The function may be ``async``. It returns
    text, or JSON values.

    effects: ``none`` (pure or read-only), ``local`` (this machine's files), ``external``. on_doubt: what to do when
    a crash, or its deadline, leaves it unknown whether it ran: ``ask`` a person, ``retry``, ``lost``. timeout_s: what
    has not ended by then is stopped; with effects, by killing the worker process, which the calls of other tools of
    the same package share. idempotent: made twice it does no more than once, so it is made again where a person would
    be asked. roles: on whose word it is called, by who has sent the message that is handled: ``operator``, ``agent``,
    ``peer``; none: on anybody's. network: the hosts that it speaks to, such as ``("api.example.org",)`` or
    ``("*.example.org",)``; ``()``: it opens no connection. A process whose capability ``network`` does not hold all of
    them is refused the call; left out, the tool is taken to speak to any host. It is the tool's word: nothing keeps
    its code from other hosts.

    A parameter of type ``EffectId`` is no argument of the call: it is handed what names its effect, the same at every
    attempt. probe: a function, ``async`` or not, that is given such an id when nobody knows what became of the call,
    and answers with a ``Probed``. It changes nothing, and is asked before ``on_doubt`` decides.

    Raises TypeError when the function cannot be described so.
    """

    if isinstance(network, str):
        raise TypeError(
            f"network is {network!r}: give a tuple of hosts, such as ({network!r},), or () for none"
        )
    hosts = tuple(network)

    def mark(function: Any) -> Any:
        said = {**options, "probe": probe is not None, "network": hosts}
        setattr(function, TOOL_MARK, _declare(function, said))
        if probe is not None:
            _check_probe(function, probe)
            setattr(function, PROBE_MARK, probe)
        return function

    return mark if function is None else mark(function)


def behaviour(cls: _Class) -> _Class:
    """Mark a class as a behaviour: ``__init__(self, info)`` and ``async def handle(self, message, sys)``.

    Raises TypeError when it lacks one of them.
    """
    if not inspect.isclass(cls):
        raise TypeError(f"@behaviour marks a class, not {type(cls).__name__}")
    handle = getattr(cls, "handle", None)
    if not inspect.iscoroutinefunction(handle) or not _takes(handle, 3):
        raise TypeError(f"behaviour {cls.__name__} needs: async def handle(self, message, sys)")
    if not _takes(cls.__init__, 2):
        raise TypeError(f"behaviour {cls.__name__} needs: def __init__(self, info)")
    setattr(cls, BEHAVIOUR_MARK, True)
    return cls


def _takes(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    return function is not object.__init__


def _check_probe(function: Any, probe: Any) -> None:
    if not callable(probe) or not _takes(probe, 1):
        raise TypeError(f"tool {function.__name__}: its probe must be a function of one EffectId")
    if not getattr(function, TOOL_MARK).effect_parameter:
        raise TypeError(
            f"tool {function.__name__} has a probe, and no parameter of type EffectId: give it one, and send that on, "
            "so that the probe can find the effect by it"
        )


def _declare(function: Any, options: dict[str, Any]) -> ToolDeclaration:
    if not inspect.isfunction(function):
        raise TypeError(f"@tool marks a function, not {type(function).__name__}")
    description, described = _read_docstring(inspect.getdoc(function) or "")
    if not description:
        raise TypeError(f"tool {function.__name__} needs a docstring: a model reads it to choose the tool")
    hints = _hints(function)
    return ToolDeclaration(
        name=function.__name__,
        description=description,
        parameters=_parameters(function, hints, described),
        effect_parameter=_effect_parameter(function, hints),
        **options,
    )


def _hints(function: Any) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise TypeError(f"tool {function.__name__}: a type hint cannot be read: {error}") from error


def _effect_parameter(function: Any, hints: dict[str, Any]) -> str:
    """Which parameter is handed the call's effect id; empty for none."""
    names = [name for name in inspect.signature(function).parameters if hints.get(name) is EffectId]
    if len(names) > 1:
        raise TypeError(
            f"tool {function.__name__}: {' and '.join(names)} are of type EffectId; a call has one"
        )
    return names[0] if names else ""


def _parameters(function: Any, hints: dict[str, Any], described: dict[str, str]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        where = f"tool {function.__name__}, parameter {name}"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{where}: must be an ordinary or keyword-only parameter")
        if name not in hints:
            raise TypeError(f"{where}: has no type hint; write for example {name}: str")
        if hints[name] is EffectId:
            described.pop(name, None)
            continue
        schema = _schema(hints[name], where)
        if name in described:
            schema.setdefault("description", described[name])
        if parameter.default is parameter.empty:
            required.append(name)
        else:
            schema["default"] = _json_value(parameter.default, where)
        properties[name] = schema
    unknown = sorted(set(described) - set(properties))
    if unknown:
        names = ", ".join(unknown)
        raise TypeError(f"tool {function.__name__}: its docstring describes {names}, which it does not take")
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _schema(hint: Any, where: str) -> dict[str, Any]:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if origin is Annotated:
        notes = [note for note in arguments[1:] if isinstance(note, str)]
        return _schema(arguments[0], where) | ({"description": notes[0]} if notes else {})
    if origin is Literal:
        return {"enum": [_json_value(value, where) for value in arguments]}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(argument, where) for argument in arguments]}
    if origin is list:
        return {"type": "array", "items": _schema(arguments[0], where)}
    if origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": _schema(arguments[1], where)}
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    accepted = "str, int, float, bool, list, dict, Literal or unions of them"
    raise TypeError(f"{where}: {hint!r} has no JSON Schema; use {accepted}")


def _json_value(value: Any, where: str) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        raise TypeError(f"{where}: the value {value!r:.60} is not JSON") from None


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text before the first section, and what an ``Args:`` section says of each parameter."""
    description: list[str] = []
    described: dict[str, str] = {}
    section = name = ""
    indent = 0
    for line in text.splitlines():
        if heading := _SECTION.match(line):
            section, name, indent = heading[1], "", 0
        elif not section:
            description.append(line)
        elif section in ("Args", "Arguments", "Parameters") and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = indent or depth
            if depth == indent and (entry := _PARAMETER.match(line.strip())):
                name, described[entry[1]] = entry[1], entry[2]
            elif name:
                described[name] = f"{described[name]} {line.strip()}".strip()
    return "\n".join(description).strip(), described
