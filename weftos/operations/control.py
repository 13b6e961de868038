"""What the doors ask of the kernel: the :class:`Control` protocol and its one large argument.

The kernel implements it, ``weftos.api.api`` serves it over a Unix socket, ``weftos.client.client`` calls it from
outside. All answers are dicts and lists that JSON can carry. Times are microseconds since the epoch
(``time_us``), durations seconds (``_s``).

A *target* is what a person types: a PID, an address (``/user/boss``), or a name, of which a child of ``/user`` comes
first; for ``inspect`` and ``logs`` also the beginning of a name; for ``send``, ``watch`` and ``kill`` also with
``@NODE`` behind it. Errors are ``kernel.errors.KernelError`` with a ``code`` (see :data:`CODES`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypedDict

Json = dict[str, Any]

Restart = Literal["permanent", "transient", "temporary"]
Isolation = Literal["shared", "dedicated"]
Signal = Literal["term", "kill"]
Resolution = Literal["retry", "done", "lost"]
Decision = Literal["again", "accept", "dead"]
SearchMode = Literal["hybrid", "vector", "bm25"]

# code of an error -> HTTP status of its answer
CODES = {
    "not_found": 404,
    "refused": 403,
    "busy": 429,
    "timeout": 504,
    "unavailable": 503,
    "invalid": 422,
    "conflict": 409,
    "too_large": 413,
}


class Operator(TypedDict):
    """Who is at the other end of the control socket, as the operating system vouches for it (SO_PEERCRED)."""

    uid: int
    os_pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnRequest:
    """A child to add. ``supervisor`` makes a supervisor, which has an ``intensity`` [restarts, seconds] and
    none of the fields that describe a behaviour.

    ``on``: the peer that is to start it, empty for this node. ``tools`` None: the default set; ``isolation``
    None: what suits the behaviour; empty strings: the node's default.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {
        "extra": "forbid"
    }  # the API refuses what it does not know

    name: str
    behaviour: str = "agent"
    under: str = "/user"
    on: str = ""
    tools: tuple[str, ...] | None = None
    restart: Restart = "permanent"
    isolation: Isolation | None = None
    provider: str = ""
    model: str = ""
    system_prompt: str = ""
    workspace: str = ""
    supervisor: bool = False
    intensity: tuple[int, float] | None = None

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
        if self.supervisor:
            given = {
                "tools": self.tools,
                "isolation": self.isolation,
                "provider": self.provider,
                "model": self.model,
                "system_prompt": self.system_prompt,
                "workspace": self.workspace,
            }
            faults += [
                f"a supervisor runs no behaviour: leave out {name}" for name, value in given.items() if value
            ]
        return faults


class MemoryControl(Protocol):
    """What can be asked of memory. A person sees every document."""

    async def add(self, op: Operator, text: str, title: str, scope: str, owner: str = "") -> Json:
        """id, seq, owner, scope, bytes. ``scope`` own or shared; ``owner`` an address, empty for the person; no
        title: the first line."""

    async def search(self, query: str, k: int, mode: SearchMode) -> Json:
        """results [{id, title, text (cut), score, parts, seq, owner, scope}], best first; mode, degraded (why a
        part of the search is missing), embedder."""

    async def show(self, ident: str) -> Json:
        """id, title, text, owner, scope, seq, bytes, time_us."""

    async def forget(self, op: Operator, ident: str) -> Json:
        """id, owner, scope, seq."""

    async def stats(self) -> Json:
        """documents, bytes, owners [{owner, documents, bytes}], index (what the archive says of it)."""

    async def reindex(self, op: Operator) -> Json:
        """Begin to build the index anew; documents."""


class ErasureControl(Protocol):
    """What can be erased."""

    async def erase(
        self, op: Operator, seqs: list[int], pid: int | None, target: str, session: str, reason: str
    ) -> Json:
        """seq of the erase entry, entries (how many), ranges [[first, last]], sessions [[address, session]] and
        documents that went with them, kept {kind: how many}, left [[seq, kind]] (of the same turns, and what
        else repeats them), left_count, logs [[file, lines of the processes concerned, -1 for unknown]]."""

    async def status(self) -> Json:
        """erasing (seqs of the erase entries whose work is not done), step, fault."""


class DivergenceControl(Protocol):
    """What can be asked about turns that diverged, and are parked until a person decides."""

    async def list(self) -> list[Json]:
        """id, address, message, ordinal, recorded and asked of each."""

    async def decide(self, op: Operator, id: str, decision: Decision) -> Json: ...


class KeyControl(Protocol):
    """What can be asked of the node's keys."""

    async def rotate(self, op: Operator, reason: str) -> Json:
        """Change them: origin, number (1 for the first change), ed25519, ml_dsa_65, seq."""


class ArchiveControl(Protocol):
    """What can be asked of the archive."""

    async def sql(self, sql: str, limit: int) -> Json:
        """columns [[name, type]], rows, cut (why there are more, else empty), loaded (over how many entries)."""

    async def status(self) -> Json:
        """entries (that it holds), size (of the ledger), rebuilt (why, or None), fault (what holds it up, or None)."""

    async def rebuild(self, op: Operator) -> Json:
        """Throw its files away and begin to build them anew; then as status."""


class ClusterControl(Protocol):
    """What can be asked of the cluster. A node is a peer's petname or its origin."""

    async def identity(self) -> Json:
        """name, origin, address (where the node listens, empty when it does not)."""

    async def nodes(self) -> list[Json]:
        """This node, then its peers: name, origin, self, address, may, state (known, connecting, up, lost), why, boot,
        silence_s, age_s (since it is not up), processes, head (size of its newest tree head kept here), outbox."""

    async def ps(self) -> list[Json]:
        """Processes of all nodes: node, origin, pid, address, name, state, behaviour, stale, age_s."""

    async def monitor(self, target: str, wait_s: float) -> Json:
        """target and reason, once the process has ended: noproc when there is none, noconnection when its node is
        lost."""

    async def peer_add(
        self,
        op: Operator,
        name: str,
        origin: str,
        address: str,
        may: Sequence[str] | None,
        tools: Sequence[str] | None,
    ) -> Json:
        """name, origin, address, may."""

    async def peer_remove(self, op: Operator, name: str) -> Json:
        """The same of the peer that was removed."""

    async def peers(self) -> list[Json]:
        """The allow list."""

    async def heads(self) -> list[Json]:
        """name, origin, size, root of the head kept of each peer; conflict: None, or why, size, root, at_us of the one
        that contradicts it, and both notes (kept, shown)."""

    async def head_decide(self, op: Operator, name: str, counts: str, reason: str) -> Json:
        """origin, name, counts, size, root, reason, by."""

    async def token_create(self, op: Operator, lifetime_s: int) -> Json:
        """id, token (shown this once), lifetime_s."""

    async def tokens(self) -> list[Json]:
        """id, status (open, used, revoked, expired), created_us, expires_us, used_by."""

    async def token_revoke(self, op: Operator, ident: str) -> Json:
        """id, status."""


class Control(Protocol):
    """Everything that can be asked of a running node."""

    @property
    def memory(self) -> MemoryControl:
        """The part that is about memory."""

    @property
    def erasure(self) -> ErasureControl:
        """The part that is about erasing."""

    @property
    def divergences(self) -> DivergenceControl:
        """The part that is about turns that diverged."""

    @property
    def keys(self) -> KeyControl:
        """The part that is about the node's keys."""

    @property
    def archive(self) -> ArchiveControl:
        """The part that is about the archive."""

    @property
    def cluster(self) -> ClusterControl:
        """The part that is about other nodes."""

    async def status(self) -> Json:
        """name, origin, boot, version, engine, uptime_s, read_only (why, or None), processes, cells, ledger
        {size, full_size, provisional, waiting (records, and work that has to write some), unrecorded (units that never
        can be)}, faults (of the ledger, in words), kept (name: "N of LIMIT", see ``kernel.control.totals``),
        clock_ahead_s (of the machine's clock, before the node's), helpers [{name, pid, os_pid, state}],
        loop_lag_p99_ms, loop_lag_max_ms (both of the last minute), loop_lag_longest_ms (since the start), runtime,
        data."""

    async def spawn(self, op: Operator, request: SpawnRequest) -> Json:
        """address, pid, name."""

    async def ps(self, all: bool) -> list[Json]:
        """One row a process, parents before children: pid, address, name, type (worker, supervisor, helper),
        state, slot, behaviour, restarts, mailbox, uptime_s, cell, os_pid, isolation, children. ``all``:
        /kernel too."""

    async def inspect(self, target: str) -> Json:
        """The row of ``ps``, and spec, tools, mailbox heads, the current turn, last exits, sessions."""

    async def send(self, op: Operator, target: str, text: str, session: str, wait_s: float | None) -> Json:
        """message, address, seq; with ``wait_s`` also status, reply, turn once the turn has ended."""

    def watch(self, op: Operator, target: str, text: str, session: str) -> AsyncIterator[Json]:
        """Send, and stream what comes of it: objects with ``event`` accepted, turn, delta, tool, reply,
        dead."""

    async def cancel(self, op: Operator, target: str) -> Json: ...

    async def stop(self, op: Operator, target: str) -> Json: ...

    async def start(self, op: Operator, address: str) -> Json: ...

    async def remove(self, op: Operator, target: str, recursive: bool) -> Json:
        """address, removed (how many slots went)."""

    async def kill(self, op: Operator, target: str, signal: Signal) -> Json: ...

    async def deadletters(self) -> list[Json]:
        """id, to, why, text and time of each, oldest first."""

    async def deadletter(self, id: str) -> Json: ...

    async def replay(self, op: Operator, id: str) -> Json: ...

    async def doubts(self) -> list[Json]:
        """Tool calls whose effect is unknown after a crash and that wait for a person."""

    async def resolve(self, op: Operator, id: str, resolution: Resolution) -> Json: ...

    async def log(self, pid: int | None, kind: str | None, limit: int) -> Json:
        """rows (newest last) and source; raises ``unavailable`` when the archive is not there."""

    def events(self, follow: bool) -> AsyncIterator[Json]:
        """Recent ledger entries (seq, time_us, pid, kind, subject, cause); with ``follow`` then each new
        one."""

    async def logs(self, target: str, limit: int) -> list[Json]:
        """The last log lines of a process, oldest first."""

    async def config(self) -> Json:
        """``values``: key, value and origin of each setting in force; secrets never."""

    async def shutdown(self, op: Operator) -> None:
        """Begin a clean stop; returns at once."""
