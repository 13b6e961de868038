"""What a process may do. Rights shrink on the way down from parent to child, and never grow.

Rights(tools: frozenset[str] | None)      EVERYTHING: every tool there is or will be
Rights.of(names | None)                   rights.names() -> list[str] | None    (None: everything)
intersect(*rights) -> Rights              of the agent and the sender
child_of(parent, wanted) -> Rights        ``wanted``, or CapabilityError that names what exceeds
tools_of(spec's tools, deny, known)       the names that they mean; what is denied is not among them
beyond(network, hosts)                    those hosts that a capability does not hold; against_network: in words
handed_down(above, address, wanted)       the capabilities of a child; CapabilityError names every excess
may_address(held, address, to, peer)      whether its message scope holds somebody
may_enter(paths, path)                    whether they hold a path of the workspace
may_make(held, own, behaviour)            whether it may give a child that behaviour

Patterns: ``*`` is any characters, ``?`` one. A pattern is within another when that is the same, or ends with its only
``*`` and what is before that begins both, or begins with its only ``*`` and what is behind that ends both: so what a
child may be given is decided without a list of all names, and a pattern that is within another in some other way is
refused, never granted by mistake.

Message scopes are of the process itself: the subtree of a child is smaller than its parent's. A child may always be
given its ``parent``, which has made it, unless that one speaks to nobody.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar

from kernel.abi import ToolDeclaration
from kernel.errors import CapabilityError
from kernel.model.address import is_below
from kernel.model.address import parent as parent_of
from kernel.operations.rights.capabilities import (
    UNRESTRICTED,
    Capabilities,
    MemoryScope,
    MessageScope,
)

Value = TypeVar("Value")
HANDED_DOWN: Mapping[MessageScope, tuple[MessageScope, ...]] = {
    "all": ("all", "subtree", "children", "parent", "listed", "none"),
    "subtree": ("subtree", "children", "parent", "listed", "none"),
    "children": ("parent", "none"),
    "parent": ("parent", "none"),
    "listed": ("listed", "parent", "none"),
    "none": ("none",),
}
"""What a child of a process with that scope may be given; first what it has when nothing is said."""


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
    """``wanted``, if ``parent`` has it all to give; either may hold patterns."""
    if parent.tools is None:
        return wanted
    held = ", ".join(sorted(parent.tools)) or "no tool"
    if wanted.tools is None:
        raise CapabilityError(f"every tool was asked for, the parent has only: {held}")
    excess = not_within(parent.tools, wanted.tools - parent.tools)
    if excess:
        raise CapabilityError(
            f"the parent cannot give what it does not have: {', '.join(sorted(excess))} (it has: {held})"
        )
    return wanted


# -- patterns --------------------------------------------------------------------------------------------------------


def is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


def matching(patterns: Iterable[str], name: str) -> str | None:
    """The first of ``patterns`` that holds ``name``."""
    return next((each for each in patterns if each == name or fnmatchcase(name, each)), None)


def is_within(pattern: str, wanted: str) -> bool:
    """Whether everything that ``wanted`` means, ``pattern`` means too, as far as that can be seen."""
    if pattern == wanted or not is_pattern(wanted):
        return pattern == wanted or fnmatchcase(wanted, pattern)
    begin, end = pattern[:-1], pattern[1:]
    if pattern.endswith("*") and not is_pattern(begin):
        return _fixed(wanted).startswith(begin)
    return pattern.startswith("*") and not is_pattern(end) and _fixed_end(wanted).endswith(end)


def not_within(patterns: Collection[str], wanted: Iterable[str]) -> list[str]:
    """Those of ``wanted`` that go beyond all of ``patterns``."""
    return [each for each in wanted if not any(is_within(pattern, each) for pattern in patterns)]


def _fixed(pattern: str) -> str:
    """What all names begin with that it means."""
    return pattern[: min((at for at in map(pattern.find, "*?") if at >= 0), default=len(pattern))]


def _fixed_end(pattern: str) -> str:
    """What all names end with that it means."""
    return pattern[max(pattern.rfind("*"), pattern.rfind("?")) + 1 :]


def tools_of(tools: Iterable[str], deny: Collection[str], known: Iterable[str]) -> frozenset[str]:
    """The tools that are meant by names and patterns, of those that are ``known``: what is denied is none of them."""
    names, patterns = set(), []
    for each in tools:
        if is_pattern(each):
            patterns.append(each)
        else:
            names.add(each)
    if patterns:
        names |= {name for name in known if matching(patterns, name)}
    return frozenset(name for name in names if not matching(deny, name)) if deny else frozenset(names)


# -- capabilities ----------------------------------------------------------------------------------------------------


def handed_down(above: Capabilities, address: str, wanted: Capabilities) -> Capabilities:
    """What a child has of which ``wanted`` is said, below the process at ``address`` that has ``above``. What is not
    said it has from there. Raises CapabilityError that names all that goes beyond.
    """
    if above == UNRESTRICTED and not wanted.behaviours and not wanted.dedicated:
        return wanted
    faults: list[str] = []
    messages, listed = _messages(above, address, wanted, faults)
    had = Capabilities(
        deny=(*above.deny, *(each for each in wanted.deny if each not in above.deny)),
        messages=messages,
        listed=listed,
        spawn=_spawn(above, wanted, faults),
        topics=_patterns("topics", above.topics, wanted.topics, faults),
        memory=_memory(above.memory, wanted.memory, faults),
        paths=_paths(above.paths, wanted.paths, faults),
        network=_patterns("network", above.network, wanted.network, faults),
        behaviours=_behaviours(above.behaviours, wanted.behaviours, faults),
        dedicated=_dedicated(above, wanted, faults),
    )
    if faults := [*faults, *had.check()]:
        raise CapabilityError(f"the parent cannot give what it does not have: {'; '.join(faults)}")
    return had


def _messages(
    above: Capabilities, address: str, wanted: Capabilities, faults: list[str]
) -> tuple[MessageScope | None, tuple[str, ...] | None]:
    if above.messages is None:
        return wanted.messages, wanted.listed
    allowed = HANDED_DOWN[above.messages]
    if wanted.messages is None:
        return allowed[0], above.listed if allowed[0] == "listed" else None
    if wanted.messages not in allowed:
        faults.append(f"messages {wanted.messages} (it has {above.messages}, and gives {', '.join(allowed)})")
    if wanted.listed is not None and above.messages in ("listed", "subtree"):
        within = (f"{address}/*",) if above.messages == "subtree" else above.listed or ()
        faults += [
            f"messages to {each}"
            for each in wanted.listed
            if not any(_is_list_within(pattern, each) for pattern in within)
        ]
    return wanted.messages, wanted.listed


def _is_list_within(pattern: str, wanted: str) -> bool:
    """Address and node each by itself: one without a node is of this node, whatever its address is."""
    (local, _, node), (wanted_local, _, wanted_node) = pattern.partition("@"), wanted.partition("@")
    same_node = is_within(node, wanted_node) if node and wanted_node else node == wanted_node
    return same_node and is_within(local, wanted_local)


def _spawn(above: Capabilities, wanted: Capabilities, faults: list[str]) -> bool | None:
    if above.spawn is False and wanted.spawn:
        faults.append("spawn")
    return above.spawn if wanted.spawn is None else wanted.spawn


def _patterns(
    name: str, above: tuple[str, ...] | None, wanted: tuple[str, ...] | None, faults: list[str]
) -> tuple[str, ...] | None:
    if above is None or wanted is None:
        return wanted if above is None else above
    faults += [f"{name} {each}" for each in not_within(above, wanted)]
    return wanted


def _memory(
    above: tuple[MemoryScope, ...] | None, wanted: tuple[MemoryScope, ...] | None, faults: list[str]
) -> tuple[MemoryScope, ...] | None:
    if above is None or wanted is None:
        return wanted if above is None else above
    faults += [f"memory {each}" for each in wanted if each not in above]
    return wanted


def _paths(
    above: tuple[str, ...] | None, wanted: tuple[str, ...] | None, faults: list[str]
) -> tuple[str, ...] | None:
    if above is None or wanted is None:
        return wanted if above is None else above
    faults += [f"paths {each}" for each in wanted if not may_enter(above, each)]
    return wanted


def _behaviours(
    above: tuple[str, ...] | None, wanted: tuple[str, ...] | None, faults: list[str]
) -> tuple[str, ...] | None:
    if wanted is None:
        return above
    faults += [f"behaviours {each}" for each in not_within(above or (), wanted)]
    return wanted


def _dedicated(above: Capabilities, wanted: Capabilities, faults: list[str]) -> bool | None:
    if wanted.dedicated and not above.dedicated:
        faults.append("dedicated")
    return above.dedicated if wanted.dedicated is None else wanted.dedicated


def may_make(held: Capabilities, own: str, behaviour: str) -> bool:
    """Whether a process of the behaviour ``own`` may give a child that ``behaviour``."""
    return behaviour == own or matching(held.behaviours or (), behaviour) is not None


def may_address(held: Capabilities, address: str, to: str, peer: str = "") -> bool:
    """Whether the process at ``address`` may speak to the one at ``to``, of the node ``peer`` where that is another."""
    match held.messages:
        case None | "all":
            return True
        case "listed":
            return any(_is_listed(each, to, peer) for each in held.listed or ())
        case "subtree":
            return not peer and is_below(to, address)
        case "children":
            return not peer and parent_of(to) == address
        case "parent":
            return not peer and parent_of(address) == to
    return False


def _is_listed(pattern: str, to: str, peer: str) -> bool:
    local, _, node = pattern.partition("@")
    return fnmatchcase(to, local) and (fnmatchcase(peer, node) if node and peer else node == peer)


def beyond(network: Collection[str] | None, hosts: Iterable[str]) -> list[str]:
    """Those of ``hosts`` that a capability ``network`` does not hold; None holds them all."""
    return [] if network is None else not_within(network, hosts)


def against_network(network: Collection[str] | None, address: str, tool: ToolDeclaration) -> str:
    """Why the process at ``address`` may not use a tool that declares those hosts; empty when it may."""
    if not beyond(network, tool.network):
        return ""
    held = f"of the network {', '.join(network)}" if network else "no network"
    return f"{address} may use {held}, and {tool.name} declares that it uses {_hosts(tool.network)}"


def _hosts(hosts: Collection[str]) -> str:
    return "any host" if "*" in hosts else ", ".join(hosts)


def may_enter(paths: Iterable[str], path: str) -> bool:
    """Whether ``path``, relative to the workspace, is one of ``paths`` or below one. One that leads upwards is not."""
    parts = _parts(path)
    if ".." in parts or path.startswith("/"):
        return False
    return any(parts[: len(begin)] == begin for begin in map(_parts, paths))


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]
