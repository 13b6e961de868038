"""Import a behaviour by its import string, and describe what foreign code raised in one bounded line."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Sequence
from typing import Any, cast

from kernel.abi import Behaviour, ProcessInfo

MAX_DETAIL_CHARS = 500
MAX_TRACE_CHARS = 4000


class BehaviourError(Exception):
    """A behaviour cannot be imported or constructed; the message is one bounded line."""


def describe(error: BaseException) -> str:
    """``Type: text (file:line)``, one line, control characters escaped, whatever the exception's own methods
    do.
    """
    try:
        text = str(error)
    except Exception as nested:  # foreign __str__: whatever it raises, the death must still be reported
        text = f"its text raised {type(nested).__name__}"
    where = ""
    if error.__traceback__ is not None:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f" ({last.filename.rpartition('/')[2]}:{last.lineno})"
    return in_one_line(f"{type(error).__name__}: {text[:MAX_DETAIL_CHARS]}") + where


def in_one_line(text: str) -> str:
    """The beginning of a text of any length as one line, control characters escaped."""
    line = " ".join(text[:MAX_DETAIL_CHARS].split())
    clean = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
    return clean[:MAX_DETAIL_CHARS]


def trace(error: BaseException) -> str:
    """The last part of the traceback, bounded, for the process's log."""
    try:
        return "".join(traceback.format_exception(error))[-MAX_TRACE_CHARS:].encode(errors="replace").decode()
    except Exception:  # as above: formatting calls foreign code
        return describe(error)


def load_behaviour(import_string: str, python_path: Sequence[str]) -> type[Behaviour]:
    """The class behind ``module:name``. ``python_path`` goes to the end of sys.path: it cannot shadow what is
    there.
    """
    module_name, colon, name = import_string.partition(":")
    if not colon or not module_name or not name:
        raise BehaviourError(f"import string {import_string!r} is not module:name")
    for directory in python_path:
        if directory not in sys.path:
            sys.path.append(directory)
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except BaseException as error:  # foreign code at import: SystemExit too must only fail this start
        raise BehaviourError(f"cannot import {import_string}: {describe(error)}") from error
    if not isinstance(found, type) or not callable(getattr(found, "handle", None)):
        raise BehaviourError(f"{import_string} is not a class with a handle(message, sys) method")
    return cast(type[Behaviour], found)


def construct(behaviour: type[Behaviour], info: ProcessInfo) -> Behaviour:
    """One instance; whatever the constructor raises becomes a :class:`BehaviourError`."""
    try:
        return behaviour(info)
    except BaseException as error:  # as above
        raise BehaviourError(f"{behaviour.__name__} cannot be constructed: {describe(error)}") from error
