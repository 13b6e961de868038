"""weftos: agents as processes, and a signed ledger of every act.

The public face is exactly ``Client``, ``tool``, ``EffectId``, ``Probed``, ``behaviour``, ``LogicalExit``,
``WeftosError`` and ``__version__``. Each is loaded on first use, so that a cell which imports ``tool`` loads
neither the ledger nor the kernel.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernel.abi import EffectId, LogicalExit, Probed
    from weftos.client.client import Client
    from weftos.decorators import behaviour, tool
    from weftos.errors import WeftosError

__all__ = ["Client", "EffectId", "LogicalExit", "Probed", "WeftosError", "__version__", "behaviour", "tool"]

__version__ = "0.1.0"

_HOMES = {
    "Client": "weftos.client.client",
    "EffectId": "kernel.abi",
    "LogicalExit": "kernel.abi",
    "Probed": "kernel.abi",
    "WeftosError": "weftos.errors",
    "behaviour": "weftos.decorators",
    "tool": "weftos.decorators",
}


def _check_neighbours() -> None:
    """Our other packages have generic names: make sure that each is the folder beside this one.

    Raises ImportError that names whatever else answers to the name.
    """
    house = Path(__file__).resolve().parent.parent
    for name in ("kernel", "chain", "mesh", "cognition"):
        spec = importlib.util.find_spec(name)
        if spec is None:
            raise ImportError(f"weftos is incomplete: there is no package {name!r} beside {house / 'weftos'}")
        homes = spec.submodule_search_locations or []
        if house / name not in (Path(home).resolve() for home in homes):
            intruder = spec.origin or ", ".join(homes)
            raise ImportError(
                f"weftos needs its own package {name!r} at {house / name}, but {name!r} is {intruder} here; "
                "install weftos in an environment of its own"
            )


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'weftos' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)


_check_neighbours()
