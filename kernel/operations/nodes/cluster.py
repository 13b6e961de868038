"""Operations on the cluster: this node among others, and their processes."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, TypedDict

from kernel.operations.operation import MAX_ROWS, MAX_WAIT_S, Limit, Nothing, Noun, OnWire, Operation


@dataclass(frozen=True, slots=True)
class Monitor:
    """A process, here or on another node, and how long to wait for its end."""

    target: Annotated[str | int, OnWire(Annotated[str, Limit(min_length=1, max_length=1200)])]
    _: KW_ONLY
    wait_s: Annotated[float, Limit(gt=0, le=MAX_WAIT_S)]

    @property
    def named(self) -> str:
        """The target as text."""
        return str(self.target)


@dataclass(frozen=True, slots=True)
class ClusterListing:
    """As of ``ps``, where ``after`` is the ``ADDRESS@ORIGIN`` of the last row."""

    _: KW_ONLY
    after: Annotated[str, Limit(max_length=1200)] = ""
    limit: Annotated[int, Limit(ge=1, le=MAX_ROWS)] | None = None


class Identity(TypedDict):
    """``address``: where the node listens, empty when it does not."""

    name: str
    origin: str
    address: str


class NodeRow(TypedDict):
    """A node as this one sees it. ``state``: known, connecting, up, lost; ``age_s``: how long it has not been up;
    ``head``: size of its newest tree head kept here; ``outbox``: messages that wait for it."""

    name: str
    origin: str
    self: bool
    address: str
    may: list[str]
    state: str
    why: str
    boot: str
    silence_s: float | None
    age_s: float
    processes: int
    head: int
    outbox: int


class ClusterRow(TypedDict):
    """A process, as its node has last said; ``stale`` when that node is not up, for ``age_s``."""

    node: str
    origin: str
    pid: int
    address: str
    name: str
    state: str
    behaviour: str
    stale: bool
    age_s: float


class End(TypedDict):
    """``noproc`` when there is no such process, ``noconnection`` when its node is lost."""

    target: str
    reason: str


class Cluster(Noun):
    """All nodes that this one knows."""

    identity = Operation("GET", "/cluster/identity", Nothing, Identity, "Who this node is to others.")
    nodes = Operation(
        "GET", "/cluster/nodes", Nothing, list[NodeRow], "This node and its peers, as it sees them."
    )
    ps = Operation(
        "GET",
        "/cluster/processes",
        ClusterListing,
        list[ClusterRow],
        "Processes of all nodes, as each has last said: of this one, then of the others by `origin`.",
        after=lambda row: f"{row['address']}@{row['origin']}",
    )
    monitor = Operation(
        "POST",
        "/cluster/monitor",
        Monitor,
        End,
        "Wait until a process has ended, here or on another node.",
    )
