"""The synchronous client of a running node, over its Unix socket. Used by the CLI and by programs.

    from weftos import Client

    with Client() as node:
        pid = node.spawn("ada")["pid"]
        print(node.send(pid, "what is 17*23", wait_s=30)["reply"])
        node.memory.add("the ferry leaves at nine")

Its methods are the rows of :mod:`kernel.operations.table`: their requests and answers are documented there, and in
``docs/operations.md``. Each raises :class:`weftos.WeftosError` with the node's own words and code.
"""

from __future__ import annotations

import os
from types import TracebackType

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
from kernel.operations.processes import Processes
from kernel.operations.rights.budgets import Budgets
from kernel.operations.rights.policy import Policy
from kernel.operations.spawning import Spawning
from kernel.operations.turns.events import Turns
from kernel.operations.turns.sessions import Sessions
from kernel.operations.turns.trajectories import Trajectories
from kernel.operations.turns.transcripts import Transcripts
from weftos.client.connection import Connection
from weftos.paths import data_directory

DEFAULT_TIMEOUT_S = 30.0


class Client(Node, Spawning, Processes, Messages):
    """One node. ``data`` is its data directory (None: as ``weftos`` chooses it). Not for use by several
    threads.

    What programs say most is said to the client itself: ``spawn``, ``send``, ``ps``. The rest is said to its nouns.
    ``timeout_s`` bounds every operation that does not say itself how long it takes.
    """

    def __init__(
        self, data: str | os.PathLike[str] | None = None, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self._connection = Connection(data_directory(data), timeout_s)
        super().__init__(self._connection)
        self.turns = Turns(self._connection)
        self.trajectories = Trajectories(self._connection)
        self.transcripts = Transcripts(self._connection)
        self.topics = Topics(self._connection)
        self.sessions = Sessions(self._connection)
        self.applications = Applications(self._connection)
        self.doubts = Doubts(self._connection)
        self.divergences = Divergences(self._connection)
        self.policy = Policy(self._connection)
        self.budgets = Budgets(self._connection)
        self.memory = Memory(self._connection)
        self.erasure = Erasure(self._connection)
        self.archive = Archive(self._connection)
        self.keys = Keys(self._connection)
        self.cluster = Cluster(self._connection)
        self.peers = Peers(self._connection)
        self.tokens = Tokens(self._connection)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the node."""
        self._connection.close()
