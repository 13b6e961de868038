"""httpx without its command line, which loads click, rich and pygments: half of what httpx takes to load.

httpx leaves it out by itself where one of them is not installed; it is told so, for the moment of its first import.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import cast

__all__ = ["httpx"]

_COMMAND_LINE = "httpx._main"


def _without(name: str) -> ModuleType:
    """httpx, imported while the module ``name`` cannot be."""
    sys.modules[name] = cast(ModuleType, None)
    try:
        import httpx
    finally:
        del sys.modules[name]
    return httpx


if "httpx" not in sys.modules:
    _without(_COMMAND_LINE)

import httpx  # noqa: E402
