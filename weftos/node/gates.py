"""The gates of a node, in the order in which their reasons are given: what is cheap and says most comes first."""

from __future__ import annotations

from kernel.policy.capability import capability_gate
from kernel.policy.confirmation import confirmation_gate
from kernel.policy.journal import journal_gate
from kernel.policy.limits.budgets import budgets_gate
from kernel.policy.limits.calls import calls_gate
from kernel.policy.limits.causes import causes_gate
from kernel.policy.limits.doubts import doubts_gate
from kernel.policy.limits.mailboxes import mailboxes_gate
from kernel.policy.limits.memory import memory_gate
from kernel.policy.limits.monitors import monitors_gate
from kernel.policy.limits.processes import processes_gate
from kernel.policy.limits.rates import RatesGate
from kernel.policy.limits.sizes import sizes_gate
from kernel.policy.limits.topics import topics_gate
from kernel.policy.peers import peers_gate
from kernel.policy.proposal import Gate
from kernel.policy.roles import roles_gate
from kernel.policy.rules.file_rules import FileRulesGate
from kernel.policy.rules.in_force import Rules
from kernel.policy.rules.tool_rules import ToolRulesGate
from kernel.policy.scope import scope_gate
from kernel.policy.terms import Terms

GATES: tuple[Gate, ...] = (
    peers_gate,
    capability_gate,
    scope_gate,
    roles_gate,
    journal_gate,
    doubts_gate,
    confirmation_gate,
    sizes_gate,
    causes_gate,
    mailboxes_gate,
    processes_gate,
    memory_gate,
    calls_gate,
    monitors_gate,
    topics_gate,
    budgets_gate,
)


def gates_of(terms: Terms, rules: Rules, routes: Gate) -> tuple[Gate, ...]:
    """Those of every node, and those that a configuration makes."""
    made = ToolRulesGate(rules), FileRulesGate(rules), routes
    return (*GATES, *made, RatesGate(terms))
