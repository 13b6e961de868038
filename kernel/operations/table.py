"""The table of operations: every noun with its rows."""

from __future__ import annotations

from kernel.operations.applications import Applications
from kernel.operations.archive import Archive
from kernel.operations.decisions import Divergences, Doubts
from kernel.operations.erasure import Erasure
from kernel.operations.keys import Keys
from kernel.operations.memory import Memory
from kernel.operations.messages import Messages, Topics
from kernel.operations.node import Node
from kernel.operations.nodes.cluster import Cluster
from kernel.operations.nodes.peers import Peers, Tokens
from kernel.operations.operation import AnyRow, Noun
from kernel.operations.processes import Processes
from kernel.operations.rights.budgets import Budgets
from kernel.operations.rights.policy import Policy
from kernel.operations.spawning import Spawning
from kernel.operations.turns.events import Turns
from kernel.operations.turns.sessions import Sessions
from kernel.operations.turns.trajectories import Trajectories
from kernel.operations.turns.transcripts import Transcripts

NOUNS: tuple[type[Noun], ...] = (
    Node,
    Spawning,
    Applications,
    Processes,
    Messages,
    Turns,
    Trajectories,
    Transcripts,
    Sessions,
    Topics,
    Doubts,
    Divergences,
    Policy,
    Budgets,
    Memory,
    Erasure,
    Archive,
    Keys,
    Cluster,
    Peers,
    Tokens,
)

TABLE: tuple[AnyRow, ...] = tuple(row for noun in NOUNS for row in noun.rows())
