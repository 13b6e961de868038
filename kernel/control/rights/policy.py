"""Why a process may use a tool, or not: every rule that has something to say of it."""

from __future__ import annotations

from kernel.control.asked import Asked
from kernel.errors import NotFound, Refused
from kernel.kernel import Kernel
from kernel.model.capability import matching
from kernel.operations.operation import Handler, OfTarget
from kernel.operations.rights.policy import Explain, Explained, Policy, Rule, ToolList, ToolRow
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
        return (Policy.explain.by(self.explain), Policy.tools.by(self.tools))

    async def explain(self, asked: Asked, request: Explain) -> Explained:
        """Raises NotFound for a process or a tool that there is not, Refused for a supervisor."""
        address, slot = self._worker(request.named)
        if request.tool not in self._kernel.registry:
            known = ", ".join(sorted(self._kernel.registry))
            raise NotFound(f"no tool {request.tool!r:.80}; there are: {known}")
        decision, rules = self._judged(address, slot, request.tool)
        return {"address": address, "tool": request.tool, "decision": decision, "rules": rules}

    async def tools(self, asked: Asked, request: OfTarget) -> ToolList:
        """Raises NotFound for a process that there is not, Refused for a supervisor."""
        address, slot = self._worker(request.named)
        rows: list[ToolRow] = []
        for name in sorted(self._kernel.registry):
            decision, rules = self._judged(address, slot, name)
            said = [rule for rule in rules if rule["decision"] == decision] or rules
            rows.append(
                {
                    "tool": name,
                    "decision": decision,
                    "rules": [rule["rule"] for rule in said],
                    "why": "; ".join(why for rule in said for why in rule["reasons"]),
                    "effects": self._kernel.registry[name].declaration.effects,
                }
            )
        return {"address": address, "tools": rows}

    def _worker(self, named: str) -> tuple[str, Slot]:
        address = self._kernel.messaging.resolve(named, beginning=True)
        slot = self._kernel.state.slots[address]
        if slot.spec.type != "worker":
            raise Refused(f"{address} is a supervisor: it uses no tools")
        return address, slot

    def _judged(self, address: str, slot: Slot, tool: str) -> tuple[str, list[Rule]]:
        """What is decided on a call, and each rule that had something to say."""
        kernel = self._kernel
        held, entry = held_tools(slot.spec, kernel.registry), kernel.registry[tool]
        asker = Asker("operator", "control", process=address, rights=held)
        paths = slot.spec.capabilities.paths
        arguments = (
            {"path": paths[0]} if paths else {}
        )  # one that it has: of others it is the call that is refused
        verdict, said = kernel.policy.explain(asker, UseTool(entry.declaration, arguments))
        rules = [_of_tools(slot, tool)]
        rules += [Rule(rule=name, decision=one.decision, reasons=list(one.reasons)) for name, one in said]
        return verdict.decision, rules


def _of_tools(slot: Slot, tool: str) -> Rule:
    """What the process was spawned with says."""
    pattern = matching(slot.spec.tools, tool)
    if pattern is None:
        held = ", ".join(slot.spec.tools) or "none"
        return {"rule": "tools", "decision": "deny", "reasons": [f"{tool} is none of its tools: {held}"]}
    how = "is one of its tools" if pattern == tool else f"is one of its tools by {pattern}"
    return {"rule": "tools", "decision": "allow", "reasons": [f"{tool} {how}"]}
