"""Why a process may use a tool, or not: every rule that has something to say of it."""

from __future__ import annotations

from kernel.control.asked import Asked
from kernel.errors import NotFound, Refused
from kernel.kernel import Kernel
from kernel.model.capability import matching
from kernel.operations.operation import Handler
from kernel.operations.rights.policy import Explain, Explained, Policy, Rule
from kernel.policy.asker import Asker
from kernel.policy.proposal import UseTool
from kernel.policy.scope import held_tools
from kernel.slices.tree.slots import Slot


class PolicyControl:
    """Answers from the very gates that judge a call."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (Policy.explain.by(self.explain),)

    async def explain(self, asked: Asked, request: Explain) -> Explained:
        """Raises NotFound for a process or a tool that there is not, Refused for a supervisor."""
        kernel = self._kernel
        address = kernel.messaging.resolve(request.named, beginning=True)
        slot, entry = kernel.state.slots[address], kernel.registry.get(request.tool)
        if slot.spec.type != "worker":
            raise Refused(f"{address} is a supervisor: it uses no tools")
        if entry is None:
            raise NotFound(f"no tool {request.tool!r:.80}; there are: {', '.join(sorted(kernel.registry))}")
        held = held_tools(slot.spec, kernel.registry)
        asker = Asker("operator", "control", process=address, rights=held)
        paths = slot.spec.capabilities.paths
        arguments = (
            {"path": paths[0]} if paths else {}
        )  # one that it has: of others it is the call that is refused
        verdict, said = kernel.policy.explain(asker, UseTool(entry.declaration, arguments))
        rules = [_of_tools(slot, request.tool)]
        rules += [Rule(rule=name, decision=one.decision, reasons=list(one.reasons)) for name, one in said]
        return {"address": address, "tool": request.tool, "decision": verdict.decision, "rules": rules}


def _of_tools(slot: Slot, tool: str) -> Rule:
    """What the process was spawned with says."""
    pattern = matching(slot.spec.tools, tool)
    if pattern is None:
        held = ", ".join(slot.spec.tools) or "none"
        return {"rule": "tools", "decision": "deny", "reasons": [f"{tool} is none of its tools: {held}"]}
    how = "is one of its tools" if pattern == tool else f"is one of its tools by {pattern}"
    return {"rule": "tools", "decision": "allow", "reasons": [f"{tool} {how}"]}
