"""Why a process may use a tool, or not: every rule that has something to say of it."""

from __future__ import annotations

from dataclasses import dataclass

from kernel.abi import NOBODY, Identity
from kernel.control.asked import Asked
from kernel.errors import Invalid, NotFound, Refused
from kernel.kernel import Kernel
from kernel.model.capability import matching
from kernel.model.inbound import inbound_of
from kernel.operations.operation import Handler
from kernel.operations.rights.policy import Explain, Explained, Policy, Rule, ToolList, ToolRow, Tools
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
        decision, rules = self._judged(address, slot, request.tool, self._user(request.user, address))
        return {"address": address, "tool": request.tool, "decision": decision, "rules": rules}

    async def tools(self, asked: Asked, request: Tools) -> ToolList:
        """Raises NotFound for a process that there is not, Refused for a supervisor."""
        address, slot = self._worker(request.named)
        user, rows = self._user(request.user, address), list[ToolRow]()
        for name in sorted(self._kernel.registry):
            decision, rules = self._judged(address, slot, name, user)
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

    def _user(self, named: str, address: str) -> _User | None:
        """Who a user of a channel is here; None for nobody. Raises Invalid."""
        if not named:
            return None
        channel, _, user = named.partition(":")
        if not channel:
            raise Invalid(f"{named[:80]!r} is no CHANNEL:USER, such as telegram:12345")
        inbound_of(channel, "", user, "", {}, ())  # says what is wrong with either
        access = self._kernel.env.terms.access
        who = access.who(channel, user)
        effects = {name: entry.declaration.effects for name, entry in self._kernel.registry.items()}
        return _User(who, access.against(who, channel, address), access.tools(who, channel, effects))

    def _judged(self, address: str, slot: Slot, tool: str, user: _User | None) -> tuple[str, list[Rule]]:
        """What is decided on a call, and each rule that had something to say."""
        kernel = self._kernel
        held, entry = held_tools(slot.spec, kernel.registry), kernel.registry[tool]
        who = NOBODY if user is None else user.who
        asker = Asker("operator", "control", process=address, rights=held, identity=who)
        paths = slot.spec.capabilities.paths
        arguments = (
            {"path": paths[0]} if paths else {}
        )  # one that it has: of others it is the call that is refused
        verdict, said = kernel.policy.explain(asker, UseTool(entry.declaration, arguments))
        rules = [_of_tools(slot, tool)]
        rules += [Rule(rule=name, decision=one.decision, reasons=list(one.reasons)) for name, one in said]
        if user is None:
            return verdict.decision, rules
        rules.append(_of_access(user, tool))
        return "deny" if rules[-1]["decision"] == "deny" else verdict.decision, rules


@dataclass(frozen=True, slots=True)
class _User:
    """Who a user of a channel is, why he may not ask the process, and the tools that may be used for him; None: all."""

    who: Identity
    against: str
    tools: frozenset[str] | None


def _of_access(user: _User, tool: str) -> Rule:
    """What identities and permissions say."""
    named = f"{user.who.name} ({', '.join(user.who.roles) or 'no role'})"
    if user.against:
        return {"rule": "access", "decision": "deny", "reasons": [f"{named}: {user.against}"]}
    if user.tools is not None and tool not in user.tools:
        return {"rule": "access", "decision": "deny", "reasons": [f"{tool} is not used for {named}"]}
    return {"rule": "access", "decision": "allow", "reasons": [f"{tool} may be used for {named}"]}


def _of_tools(slot: Slot, tool: str) -> Rule:
    """What the process was spawned with says."""
    pattern = matching(slot.spec.tools, tool)
    if pattern is None:
        held = ", ".join(slot.spec.tools) or "none"
        return {"rule": "tools", "decision": "deny", "reasons": [f"{tool} is none of its tools: {held}"]}
    how = "is one of its tools" if pattern == tool else f"is one of its tools by {pattern}"
    return {"rule": "tools", "decision": "allow", "reasons": [f"{tool} {how}"]}
