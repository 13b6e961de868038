"""Third-party tools, imported. Runs in a worker and never in the node.

Importing runs somebody else's code, so whatever it raises (``SystemExit`` too) is caught and told in one
line.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from kernel.abi import ToolDeclaration
from kernel.toolbox.declaration import check_declaration

MAX_DETAIL_CHARS = 500


class LoadError(Exception):
    """A tool cannot be loaded. The message is one bounded line that says what to change."""


@dataclass(frozen=True, slots=True)
class LoadedTool:
    """A tool ready to be called with its arguments as keywords."""

    declaration: ToolDeclaration
    function: Callable[..., Any]
    is_async: bool
    probe: Callable[..., Any] | None = None


def load_tool(name: str, import_string: str, python_path: tuple[str, ...]) -> LoadedTool:
    """Import ``module:attribute``, registered as ``name``. ``python_path`` is searched last: it can shadow nothing.

    Raises LoadError.
    """
    module_name, _, attribute = import_string.partition(":")
    if not module_name or not attribute.isidentifier():
        raise LoadError(f"import {import_string[:80]!r} is not of the form module:function")
    for directory in python_path:
        if directory not in sys.path:
            sys.path.append(directory)
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except BaseException as error:  # somebody else's module: SystemExit and the like must not end the worker
        raise LoadError(f"importing {import_string[:80]} failed: {one_line(error)}") from error
    declaration = getattr(function, "__weftos_tool__", None)
    if not isinstance(declaration, ToolDeclaration):
        raise LoadError(f"{import_string[:80]} is not marked; write @tool from weftos above the function")
    declaration = replace(declaration, name=name, sandbox="thirdparty")
    faults = check_declaration(declaration)
    if faults:
        raise LoadError(f"{import_string[:80]} declares itself wrongly: " + "; ".join(faults))
    probe = getattr(function, "__weftos_probe__", None) if declaration.probe else None
    if declaration.probe and not callable(probe):
        raise LoadError(
            f"{import_string[:80]} declares a probe and has none; write @tool(probe=...) above it"
        )
    return LoadedTool(declaration, function, inspect.iscoroutinefunction(function), probe)


def one_line(error: BaseException) -> str:
    """Type and text of an exception on one bounded line."""
    try:
        text = " ".join(str(error).split())
    except BaseException:  # an exception of somebody else's whose own __str__ raises
        text = ""
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return line if len(line) <= MAX_DETAIL_CHARS else line[: MAX_DETAIL_CHARS - 3] + "..."
