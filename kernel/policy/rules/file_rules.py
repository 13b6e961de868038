"""File rules: which files of a workspace configuration leaves to the file tools. They hold themselves to it too."""

from __future__ import annotations

from dataclasses import dataclass

from kernel.errors import CapabilityError
from kernel.policy.proposal import Facts, Proposal, UseTool, Verdict, deny
from kernel.policy.rules.in_force import Rules
from kernel.policy.scope import FILE_TOOLS

LISTS = "file_list"


@dataclass(frozen=True, slots=True)
class FileRulesGate:
    """The path that a call names is looked at as it is named; how it lies on the disk, its worker sees."""

    rules: Rules

    def __call__(self, proposal: Proposal, facts: Facts) -> Verdict | None:
        match proposal.operation:
            case UseTool(declaration, {"path": str(path)}) if declaration.name in FILE_TOOLS:
                turn = facts.state.turns.get(proposal.asker.turn)
                files = self.rules.of_turn(turn).files if turn is not None else None
                components = tuple(part for part in path.split("/") if part not in ("", "."))
                if files is None or (declaration.name == LISTS and files.may_enter(components)):
                    return None
                why = files.against(components)
                return deny(f"workspace: {path[:200]!r} {why}", CapabilityError) if why else None
        return None
