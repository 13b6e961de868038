"""A node in a process of its own that sends every message back: ``link_child.py NUMBER LISTEN``."""

from __future__ import annotations

import asyncio
import sys

from tests.mesh.twins.core_nodes import identity
from tests.mesh.twins.link_nodes import LinkNode
from tests.mesh.twins.tcp_land import TcpLand


async def main(number: int, listen: str) -> None:
    node = await LinkNode(identity(number), TcpLand().wire()).open(listen)
    node.take = node.links.send
    print(node.address, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await node.links.close()


asyncio.run(main(int(sys.argv[1]), sys.argv[2]))
