"""What a process may do. Rights shrink on the way down from parent to child, and never grow.

Rights(tools: frozenset[str] | None)      EVERYTHING: every tool there is or will be
Rights.of(names | None)                   rights.names() -> list[str] | None    (None: everything)
intersect(*rights) -> Rights              of the agent and the sender
child_of(parent, wanted) -> Rights        ``wanted``, or CapabilityError that names what exceeds
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernel.errors import CapabilityError


@dataclass(frozen=True, slots=True)
class Rights:
    """A set of tools by name; ``tools`` None stands for every tool."""

    tools: frozenset[str] | None

    @classmethod
    def of(cls, names: Iterable[str] | None) -> Rights:
        """From names as they lie in a spec; None is everything."""
        return cls(None if names is None else frozenset(names))

    def names(self) -> list[str] | None:
        """As it lies in a spec: sorted names, None for everything."""
        return None if self.tools is None else sorted(self.tools)

    def allows(self, tool: str) -> bool:
        return self.tools is None or tool in self.tools


EVERYTHING = Rights(None)
NOTHING = Rights(frozenset())


def intersect(*rights: Rights) -> Rights:
    """What all of ``rights`` allow. At least one must be given: nobody's rights are not everything."""
    if not rights:
        raise ValueError("intersect() of no rights")
    bounded = [one.tools for one in rights if one.tools is not None]
    return Rights(frozenset.intersection(*bounded)) if bounded else EVERYTHING


def child_of(parent: Rights, wanted: Rights) -> Rights:
    """``wanted``, if ``parent`` has it all to give."""
    if parent.tools is None:
        return wanted
    held = ", ".join(sorted(parent.tools)) or "no tool"
    if wanted.tools is None:
        raise CapabilityError(f"every tool was asked for, the parent has only: {held}")
    excess = wanted.tools - parent.tools
    if excess:
        raise CapabilityError(
            f"the parent cannot give what it does not have: {', '.join(sorted(excess))} (it has: {held})"
        )
    return wanted
