"""Which engine starts a node's cells, and where they dial in: from settings to parts."""

from __future__ import annotations

import secrets
from pathlib import Path

from kernel.cells.cell_entrance import Entrance, TcpEntrance, UnixEntrance, own_address_towards
from kernel.cells.cell_table import CellLimits
from kernel.cells.engines.engine import Engine
from kernel.cells.engines.engine_local import LocalEngine
from kernel.cells.engines.engine_ray import RayEngine, SharedRay
from mesh.identity.identity import NoiseKey
from weftos.config.settings import NodeSettings
from weftos.helpers.commands import environment, placer_command


def make_engine(
    settings: NodeSettings, origin: str, boot: int, runtime: Path, logs: Path
) -> tuple[Engine, Entrance]:
    """The engine and the entrance for its cells. Raises Invalid, OSError when the address cannot be listened on.

    Cells of the node's own engine are on its machine and come in by a Unix socket. In a shared Ray cluster a cell may
    be anywhere, and all of them come in over TCP.
    """
    if settings.ray_address:
        listen = settings.cells_listen or f"{own_address_towards(settings.ray_address)}:0"
        key = NoiseKey.from_secret(secrets.token_bytes(32))
        entrance = TcpEntrance(listen, key, boot, CellLimits().lease_s)
        shared = SharedRay(settings.ray_address, Path(settings.ray_token), origin)
        return RayEngine(placer_command(runtime, logs), boot, entrance.dial, runtime, shared), entrance
    unix = UnixEntrance(runtime / "cells.sock")
    if settings.engine == "local":
        return LocalEngine(boot, unix.dial, environment(), runtime, logs / "cells.log"), unix
    return RayEngine(placer_command(runtime, logs), boot, unix.dial, runtime), unix
