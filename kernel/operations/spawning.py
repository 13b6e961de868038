"""A request to make a process: the one declaration of it.

The body of the API, the client's parameters and the request that goes to a peer *are* it; the options of
``weftos spawn``, the arguments of the tool ``spawn_agent`` and the specification that a child is kept as
(:class:`kernel.model.spec.ProcessSpec`) are held to it by tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from kernel.operations.mailboxes import Mailbox
from kernel.operations.operation import START_S, Limit, Noun, OnWire, Operation
from kernel.operations.rights.budgets import Budget
from kernel.operations.rights.capabilities import Capabilities

Restart = Literal["permanent", "transient", "temporary"]
Isolation = Literal["shared", "dedicated"]
AutoShutdown = Literal["never", "any_significant", "all_significant"]
OnLogical = Literal["restart", "park", "end"]
MAX_SHUTDOWN_S = 86_400.0
ShutdownS = Annotated[float, Limit(ge=0, le=MAX_SHUTDOWN_S)] | Literal["infinity"]
"""Seconds that a process may take to end: 0 kills it at once, infinity waits for ever."""
MAX_TURN_S = 604_800.0
TurnS = Annotated[float, Limit(ge=1, le=MAX_TURN_S)]
"""Seconds that a turn may take, from each time it is handed out."""
TEMPLATE = "simple_one_for_one"
"""The strategy of a supervisor that makes its children of a template."""

USER = "/user"
MAX_TOOLS = 100
MAX_TOOL_CHARS = 64
MAX_PROMPT_CHARS = 64 * 2**10
MAX_CONFIG_BYTES = 64 * 2**10
MOST_AT_ONCE = 1_000
"""Children that one request adds: they are one unit of the ledger, and the loop is held while that is made."""


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """A child to add. ``supervisor`` makes a supervisor, which has an ``intensity`` [restarts, seconds], a
    ``strategy`` (one_for_one, one_for_all, rest_for_one, simple_one_for_one), an ``auto_shutdown`` and none of the
    fields that describe a behaviour. Those are, for a supervisor that is simple_one_for_one, of the template of its
    children, as are ``child_restart`` and ``child_shutdown_s``; what is spawned below it is of that template, and says
    no more than its name, provider, model, system_prompt, config and workspace.

    ``shutdown_s``: what it may take to end when its supervisor stops it: seconds, 0 to be killed at once, "infinity";
    None: 5 for a process, infinity for a supervisor. ``significant``: its own end may end its supervisor.

    ``on_logical``: what is done when it ends for a logical reason (no_progress, refused): ``restart`` as after any
    failure, ``park`` it for a person, or ``end``, which leaves it stopped. With these two it also ends when a budget
    that is to stop it is spent (budget), or its turn diverges (diverged). Below a template it is said of all.

    ``tools`` may be patterns, such as ``file_*``; ``capabilities`` say what else it may do, and not. What they leave
    out it has as the agent above it has it, or in full. ``budget``: what it and all below it may use up, out of the
    budget of what is above; of a supervisor what all its children share, and of one with a template what each of them
    has for itself.

    ``config``: what else its behaviour is told, key by key over what is configured for all of its kind; of ``agent``
    the keys of ``[agent]``. The behaviour checks it when it starts.

    ``turn_timeout_s``: how long a turn of it may take, at most what the node allows; None: as long as that.

    ``mailbox``: how much may wait for it, at most what the node allows, and what becomes of a message without room.

    ``on``: the peer that is to start it, empty for this node. ``tools`` None: the default set; ``isolation``
    None: what suits the behaviour; empty strings: the node's default.
    """

    name: str
    _: KW_ONLY
    behaviour: str = "agent"
    under: str = USER
    on: str = ""
    tools: Annotated[
        Sequence[str] | None, OnWire(Annotated[tuple[str, ...], Limit(max_length=MAX_TOOLS)] | None)
    ] = None
    restart: Restart = "permanent"
    isolation: Isolation | None = None
    provider: str = ""
    model: str = ""
    system_prompt: str = ""
    config: dict[str, Any] | None = None
    workspace: str = ""
    supervisor: bool = False
    intensity: tuple[int, float] | None = None
    strategy: str = ""
    shutdown_s: ShutdownS | None = None
    significant: bool = False
    auto_shutdown: AutoShutdown = "never"
    child_restart: Restart | None = None
    child_shutdown_s: ShutdownS | None = None
    on_logical: OnLogical = "restart"
    capabilities: Capabilities | None = None
    budget: Budget | None = None
    turn_timeout_s: TurnS | None = None
    mailbox: Mailbox | None = None
    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  # where it is part of another request

    def check(self) -> list[str]:
        """Every fault that can be seen without knowing the node."""
        faults = []
        if not self.name:
            faults.append("name is empty: give the process a name")
        if self.intensity is not None:
            restarts, period_s = self.intensity
            if not self.supervisor:
                faults.append(
                    "intensity belongs to a supervisor: add supervisor (--supervisor) or leave it out"
                )
            if restarts < 0 or period_s <= 0:
                faults.append(
                    f"intensity is {restarts}/{period_s}: restarts must be 0 or more, seconds above 0"
                )
        faults += [
            f"{name} belongs to a supervisor: add supervisor (--supervisor) or leave it out"
            for name in OF_A_SUPERVISOR
            if not self.supervisor and getattr(self, name) not in (None, "", "never")
        ]
        if self.capabilities is not None:
            faults += self.capabilities.check()
        if self.budget is not None:
            faults += self.budget.check()
        if self.mailbox is not None:
            faults += self.mailbox.check()
        of_template = self.supervisor and self.strategy == TEMPLATE
        if self.supervisor:
            faults += [
                f"a supervisor runs no behaviour: leave out {name}"
                for name in (("workspace",) if of_template else OF_A_BEHAVIOUR)
                if getattr(self, name)
            ]
            if self.on_logical != "restart" and not of_template:
                faults.append("a supervisor ends for no logical reason: leave out on_logical")
        if not of_template:
            faults += [
                f"{name} belongs to a template: add strategy {TEMPLATE}, or leave it out"
                for name in OF_A_TEMPLATE
                if getattr(self, name) is not None
            ]
        return faults


OF_A_BEHAVIOUR = (
    "tools",
    "isolation",
    "provider",
    "model",
    "system_prompt",
    "config",
    "workspace",
    "capabilities",
    "turn_timeout_s",
    "mailbox",
)
"""Fields that say nothing of a supervisor, beside ``behaviour``, which has a default."""

OF_A_SUPERVISOR = ("strategy", "auto_shutdown")
"""Fields that say nothing of a process, beside ``intensity``."""

OF_A_TEMPLATE = ("child_restart", "child_shutdown_s")
"""Fields that say something of the children of a supervisor alone that makes them of a template."""


@dataclass(frozen=True, slots=True)
class SpawnAllRequest:
    """Children of this node to add together: all of them, or none. With ``count`` each of ``spawns`` stands for so
    many, of the names NAME-1 to NAME-count.
    """

    spawns: Annotated[
        Sequence[SpawnRequest],
        OnWire(Annotated[tuple[SpawnRequest, ...], Limit(min_length=1, max_length=MOST_AT_ONCE)]),
    ]
    _: KW_ONLY
    count: Annotated[int, Limit(ge=1, le=MOST_AT_ONCE)] | None = None

    def each(self) -> list[SpawnRequest]:
        """Every one of them by its own name."""
        if self.count is None:
            return list(self.spawns)
        numbers = range(1, self.count + 1)
        return [replace(like, name=f"{like.name}-{number}") for like in self.spawns for number in numbers]

    def check(self) -> list[str]:
        """Every fault that can be seen without knowing the node."""
        many = len(self.spawns) * (self.count or 1)
        if not 0 < many <= MOST_AT_ONCE:
            return [f"{many} children in one request: 1 to {MOST_AT_ONCE} can be added together"]
        faults = [f"{like.name}: {fault}" for like in self.spawns for fault in like.check()]
        faults += [
            f"{like.name}: on {like.on}: only a child of this node is added with others"
            for like in self.spawns
            if like.on
        ]
        named = Counter((like.under, like.name) for like in self.each())
        faults += [
            f"{name}: {times} times below {under}" for (under, name), times in named.items() if times > 1
        ]
        return faults


NOT_FOR_PEERS = ("on", "workspace", "config")
"""Fields that another node does not get to say: which node it is, and where on its disk."""


class Spawned(TypedDict):
    """``node``: the peer that it runs on, where that is not this one."""

    address: str
    pid: int
    name: str
    node: NotRequired[str]


class NotStarted(TypedDict):
    """A child that was added and does not run, and why; its supervisor may have taken it away."""

    address: str
    name: str
    why: str


class SpawnedAll(TypedDict):
    """In the order of the request: those that run, and those that do not."""

    spawned: list[Spawned]
    failed: list[NotStarted]


class Spawning(Noun):
    """Making processes."""

    spawn = Operation(
        "POST",
        "/spawn",
        SpawnRequest,
        Spawned,
        "Add a process, or a supervisor, below a supervisor, and wait until it runs; `on`: a peer that grants spawn.",
        recorded="spawn",
        takes_s=START_S,
    )
    spawn_all = Operation(
        "POST",
        "/spawn-all",
        SpawnAllRequest,
        SpawnedAll,
        "Add many processes together, all of them or none, and wait until they run; every fault is said at once.",
        recorded="spawn_all",
        takes_s=START_S,
    )
