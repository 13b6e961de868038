"""Tool rules: what configuration says of a tool, whoever holds it."""

from __future__ import annotations

from dataclasses import dataclass

from kernel.errors import CapabilityError
from kernel.model.turn_rules import ToolRule, TurnRules
from kernel.policy.asker import Asker
from kernel.policy.proposal import Facts, Proposal, UseTool, Verdict, deny
from kernel.policy.roles import roles_of
from kernel.policy.rules.in_force import Rules

UNATTENDED = "nobody can be asked for it in this version, so the call is refused"


@dataclass(frozen=True, slots=True)
class ToolRulesGate:
    """A tool is used as the rules of its turn say; where they say what cannot be done yet, it is not used."""

    rules: Rules

    def __call__(self, proposal: Proposal, facts: Facts) -> Verdict | None:
        match proposal.operation:
            case UseTool(declaration, paid=paid) if proposal.asker.process:
                rules = self._of(proposal.asker, facts)
                why = refusal(rules, declaration.name, roles_of(proposal.asker))
                if why:
                    return deny(f"tools: {why}", CapabilityError)
                rule = rules.of(declaration.name)
                if not paid and (why := _used_up(rule, declaration.name, proposal.asker, facts)):
                    return deny(f"tools: {why}", CapabilityError)
                if rule.confirmation:
                    what = f"tools: {declaration.name} needs a person's word (requires_confirmation), and "
                    return Verdict("escalate", (what + UNATTENDED,))
        return None

    def _of(self, asker: Asker, facts: Facts) -> TurnRules:
        turn = facts.state.turns.get(asker.turn)
        return self.rules.of_next(asker.process) if turn is None else self.rules.of_turn(turn)


def refusal(rules: TurnRules, tool: str, roles: frozenset[str]) -> str:
    """Why nobody with these roles may call it, however often it was called; empty when they may."""
    rule = rules.of(tool)
    if rules.fault:
        return f"what is configured of tools cannot be read: {rules.fault}"
    if not rule.enabled:
        return f"{tool} is switched off ([agent.tools.{tool}] enabled)"
    if not rules.offers(tool):
        return f"{tool} is none of those that are configured ([agent] tools)"
    if rule.roles is not None and not rule.roles & roles:
        wanted = " or ".join(sorted(rule.roles)) or "nobody"
        for_whom = ", ".join(sorted(roles)) or "the node"
        return f"{tool} is called for {wanted} (allowed_roles), and this is for {for_whom}"
    if rule.sandboxes:
        return (
            f"{tool} is to run in {' and '.join(sorted(rule.sandboxes))} (sandbox), which this version cannot do: "
            "it is not run without"
        )
    return ""


def _used_up(rule: ToolRule, tool: str, asker: Asker, facts: Facts) -> str:
    turn = facts.state.turns.get(asker.turn)
    if not rule.most_calls or turn is None:
        return ""
    used = facts.state.uses.count((turn.address, turn.mail.session), tool)
    if used < rule.most_calls:
        return ""
    return f"{tool} was called {used} times in this session, the most it may be (max_calls_per_session)"


def withheld(rules: TurnRules, tools: frozenset[str], roles: frozenset[str]) -> frozenset[str]:
    """Those that there is no use in offering."""
    if rules.fault:
        return tools
    return frozenset(name for name in tools if rules.of(name).confirmation or refusal(rules, name, roles))
