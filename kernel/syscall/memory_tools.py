"""The memory tools that ask the archive: search and read. What writes (``memory_write``) is in ``node_tools``."""

from __future__ import annotations

from typing import Any

from kernel.abi import ToolDeclaration
from kernel.bounds import Bounds
from kernel.errors import KernelError, TimedOut
from kernel.memory.memory import Memory, document_text, hits_text
from kernel.policy.asker import Asker
from kernel.policy.pipeline import Policy
from kernel.policy.proposal import ReadMemory
from kernel.syscall.node_tools import Done

DEFAULT_K = 5


class MemoryTools:
    """The handlers, by tool name. Whatever goes wrong is an outcome."""

    def __init__(self, memory: Memory, policy: Policy, bounds: Bounds) -> None:
        self._memory = memory
        self._policy = policy
        self._limit_bytes = min(bounds.memory_result_bytes, bounds.tool_result_bytes)

    async def run(self, declaration: ToolDeclaration, args: dict[str, Any], asker: Asker) -> Done:
        """Run one call for the process that asks."""
        try:
            return Done("ok", await self._answer(declaration.name, args, asker))
        except TimedOut as error:
            return Done("timeout", str(error))
        except KernelError as error:
            return Done("error", str(error))

    async def _answer(self, name: str, args: dict[str, Any], asker: Asker) -> str:
        match name:
            case "memory_search" | "knowledge_base":
                self._policy.require(asker, ReadMemory(query=args["query"]))
                found = await self._memory.search(args["query"], args.get("k", DEFAULT_K), asker.process)
                shown = [hit for hit in found["results"] if self._may_read(asker, hit["id"])]
                return hits_text(shown, self._limit_bytes)
            case "memory_read":
                self._policy.require(asker, ReadMemory(document=args["id"]))
                document = await self._memory.read(args["id"], asker.process)
                return document_text(document, args.get("offset", 0), self._limit_bytes)
        raise KernelError(f"{name} is declared to be answered by the archive, but is none of its tools")

    def _may_read(self, asker: Asker, ident: str) -> bool:
        """What is found is shown as far as it may be read by itself."""
        return self._policy.judge(asker, ReadMemory(document=ident)).decision == "allow"
