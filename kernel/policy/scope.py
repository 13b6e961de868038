"""Scope: to whom a process may speak, whether it makes children, which documents, files and hosts it may use.

All of it stands in the specification of the process that acts (:mod:`kernel.model.capability`). Who is no process of
this node, a person or a peer, has no scope, and what the node itself brings, an answer or the end of a monitor, needs
none.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernel.abi import ToolDeclaration
from kernel.errors import CapabilityError
from kernel.model.capability import (
    against_network,
    beyond,
    matching,
    may_address,
    may_enter,
    not_within,
    tools_of,
)
from kernel.model.spec import ProcessSpec
from kernel.operations.rights.capabilities import UNRESTRICTED, Capabilities
from kernel.policy.proposal import (
    Broadcast,
    Deliver,
    Facts,
    Operation,
    Proposal,
    Publish,
    ReadMemory,
    SendMessage,
    SpawnProcess,
    Subscribe,
    UseTool,
    Verdict,
    WatchProcess,
    WriteMemory,
    deny,
)
from kernel.toolbox.registry import ToolEntry

FILE_TOOLS = ("file_read", "file_list", "file_write")
"""Built-in tools that take a path of the workspace. What a tool of somebody else's opens, its sandbox is to say."""


def held_tools(spec: ProcessSpec, known: Mapping[str, ToolEntry]) -> frozenset[str]:
    """The tools that a process has in a turn: those that its words mean, which are not denied to it, and which declare
    no host beyond its capability. One that is not known may be configured later, and is judged then.
    """
    capabilities = spec.capabilities
    tools = tools_of(spec.tools, capabilities.deny, known)
    if capabilities.network is None:
        return tools
    return frozenset(
        name
        for name in tools
        if name not in known or not beyond(capabilities.network, known[name].declaration.network)
    )


def scope_gate(proposal: Proposal, facts: Facts) -> Verdict | None:
    """What the capabilities of the process that asks do not hold is refused."""
    address = proposal.asker.process
    slot = facts.state.slots.get(address) if address else None
    if slot is None or slot.spec.capabilities is UNRESTRICTED:
        return None
    why = _against(slot.spec.capabilities, address, proposal.operation, facts)
    return deny(f"capability: {why}", CapabilityError) if why else None


def _against(held: Capabilities, address: str, operation: Operation, facts: Facts) -> str:
    match operation:
        case UseTool(declaration, arguments):
            return _tool(held, address, declaration, arguments.get("path", "."))
        case SendMessage(to, answers=False, peer=peer) if not may_address(held, address, to, peer):
            return f"{address} may send messages to {_whom(held)}, not to {f'{to}@{peer}' if peer else to}"
        case Deliver(to) if not may_address(held, address, to):
            return f"{address} may send messages to {_whom(held)}, not to {to}"
        case WatchProcess(target, node) if not may_address(held, address, target, node):
            return f"{address} may watch {_whom(held)}, not {f'{target}@{node}' if node else target}"
        case Publish(topic) if held.topics is not None and not matching(held.topics, topic):
            return f"{address} may publish to {', '.join(held.topics) or 'no topic'}, not to {topic}"
        case Subscribe(pattern=pattern) if held.topics is not None and not_within(held.topics, [pattern]):
            return f"{address} may hear {', '.join(held.topics) or 'no topic'}, not {pattern}"
        case Broadcast(below) if held.messages not in (None, "all", "subtree"):
            return f"{address} may send messages to {_whom(held)}, not to all below {below}"
        case SpawnProcess() if held.spawn is False:
            return f"{address} may not spawn"
        case WriteMemory(scope=scope):
            return _memory(held, address, scope)
        case ReadMemory(document=document) if document:
            if not facts.state.documents.may_read(document, address):
                return ""  # it is not shown, whatever its scope is
            return _memory(held, address, facts.state.documents.readable(document, address).scope)
        case ReadMemory() if held.memory == ():
            return f"{address} may use no memory"
    return ""


def _tool(held: Capabilities, address: str, tool: ToolDeclaration, path: object) -> str:
    name = tool.name
    pattern = matching(held.deny, name)
    if pattern is not None:
        return f"{name} is denied to {address} (deny {pattern})"
    if name in FILE_TOOLS and held.paths is not None and not may_enter(held.paths, str(path)):
        return (
            f"{address} may use {', '.join(held.paths) or 'nothing'} of its workspace, not {str(path)[:200]}"
        )
    return against_network(held.network, address, tool)


def _memory(held: Capabilities, address: str, scope: str) -> str:
    if held.memory is None or scope in held.memory:
        return ""
    words = " and ".join(held.memory)
    return f"{address} may use {words or 'no'} memory, and this is {scope}"


def _whom(held: Capabilities) -> str:
    words = {
        "subtree": "what is below it",
        "children": "its children",
        "parent": "its parent",
        "none": "nobody",
    }
    return words.get(held.messages or "", ", ".join(held.listed or ()) or "nobody")
