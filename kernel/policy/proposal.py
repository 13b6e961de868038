"""What is judged, and what is said of it.

UseTool  AskModel  SendMessage  SpawnProcess  WriteMemory  ReadMemory  CallNode  WatchProcess  CancelTurn
Publish  Broadcast  Deliver  Subscribe                              those of topics
Proposal(asker, operation)         Facts(state, bounds, writable)
Gate = (Proposal, Facts) -> Verdict | None                          None: nothing to say against it, nor for it

A gate is a pure function: it reads, and changes nothing. One that needs a part of its own is made with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kernel.abi import ToolDeclaration
from kernel.bounds import Bounds
from kernel.errors import KernelError, Refused
from kernel.model.spec import ProcessSpec
from kernel.policy.asker import Asker
from kernel.state.state import State

Decision = Literal["allow", "deny", "escalate"]


@dataclass(frozen=True, slots=True)
class UseTool:
    """A call of a tool, with its parsed and validated arguments. ``paid``: it was allowed before and is made again."""

    declaration: ToolDeclaration
    arguments: dict[str, Any]
    paid: bool = False


@dataclass(frozen=True, slots=True)
class AskModel:
    """A question to a model; the tools are those that are offered to it. ``size_bytes``: of all that is asked.
    ``unpaid``: why no budget has anything for it, empty when it is paid for.
    """

    provider: str
    model: str
    tools: tuple[str, ...]
    size_bytes: int
    unpaid: str = ""


@dataclass(frozen=True, slots=True)
class SendMessage:
    """A message to the process at ``to``; of the peer of that name and origin, when there is one. ``text_bytes``: of
    its text, ``size_bytes``: of all that it holds. ``answers``: it is an answer. ``at_us``: when it is to be accepted
    here, 0 where it goes to another node.
    """

    to: str
    text_bytes: int
    size_bytes: int
    peer: str = ""
    origin: str = ""
    answers: bool = False
    at_us: int = 0


@dataclass(frozen=True, slots=True)
class SpawnProcess:
    """A new child of ``parent``, which is there and may have one of that name. ``before``: how many come with it and
    have their places first, ``before_there`` of these below the same parent. ``promised``: what these have of the
    accounts of budgets, by address and resource.
    """

    spec: ProcessSpec
    parent: str
    before: int = 0
    before_there: int = 0
    promised: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WriteMemory:
    """A document for memory. ``owner``: an address, or ``operator``; ``scope``: own or shared."""

    owner: str
    size_bytes: int
    scope: str = "own"


@dataclass(frozen=True, slots=True)
class ReadMemory:
    """A question to memory: a search, or one document by its id."""

    query: str = ""
    document: str = ""


@dataclass(frozen=True, slots=True)
class CallNode:
    """What a node asks of another: ``message``, ``spawn``, ``kill``, ``cancel``, ``monitor``. ``under_way``: how many
    there are. ``to``: the peer that this node asks; empty when a peer asks this node.
    """

    op: str
    under_way: int = 0
    to: str = ""


@dataclass(frozen=True, slots=True)
class WatchProcess:
    """A monitor of a process. ``target``: its address; what was asked for, where that means none, and of a process of
    another ``node``.
    """

    target: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class Publish:
    """Something said to the subscribers of a topic. ``text_bytes``: of its text, ``size_bytes``: of all the messages
    that it may become.
    """

    topic: str
    receivers: int
    text_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Something said to all workers ``below`` an address. The sizes as of :class:`Publish`."""

    below: str
    receivers: int
    text_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Deliver:
    """The message for the process at ``to`` of what was published, to a ``topic`` or (empty) to all below an address,
    once that was allowed. ``size_bytes``: of this one.
    """

    to: str
    topic: str
    text_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A subscription of the process at ``address``."""

    address: str
    pattern: str


@dataclass(frozen=True, slots=True)
class CancelTurn:
    """The end of a message that the process at ``target`` handles, or is about to. ``sender``: who has sent it; empty
    when it is the node's own word, such as of an end or of a budget.
    """

    target: str
    sender: str


Operation = (
    UseTool
    | AskModel
    | SendMessage
    | SpawnProcess
    | WriteMemory
    | ReadMemory
    | CallNode
    | WatchProcess
    | Publish
    | Broadcast
    | Deliver
    | Subscribe
    | CancelTurn
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """Somebody asks for something."""

    asker: Asker
    operation: Operation


@dataclass(frozen=True, slots=True)
class Facts:
    """What a gate may look at: the durable state as it is now, the limits, whether the journal takes anything, and
    whether what a cell uses of its machine can be ``measured``: cells may be on other machines.
    """

    state: State
    bounds: Bounds
    writable: bool
    measured: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """``error``: as what a refusal is raised, where it is not recorded as data. ``retry_after_s``: when the same may be
    allowed, 0 where nobody knows.
    """

    decision: Decision
    reasons: tuple[str, ...]
    error: type[KernelError] = Refused
    retry_after_s: float = 0.0

    def raised(self) -> KernelError:
        """The refusal as an error, with every reason."""
        made = self.error("; ".join(self.reasons))
        made.retry_after_s = self.retry_after_s
        return made


Gate = Callable[[Proposal, Facts], Verdict | None]


def deny(reason: str, error: type[KernelError] = Refused) -> Verdict:
    """A refusal for one reason."""
    return Verdict("deny", (reason,), error)
