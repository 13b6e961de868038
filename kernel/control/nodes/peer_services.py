"""What peers may have done on this node: spawn, kill and cancel, each recorded with the peer as its principal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, get_args

from chain.ledger.ledger import Draft
from kernel.control.asked import Record
from kernel.errors import Invalid, Refused
from kernel.kernel import Kernel
from kernel.model.address import USER
from kernel.model.commands import Command
from kernel.model.makers import peer_maker
from kernel.operations.mailboxes import Mailbox, read_mailbox
from kernel.operations.operation import MAX_WHY_CHARS
from kernel.operations.processes import MAX_ID_CHARS, Cancelled
from kernel.operations.rights.budgets import Budget, read_budget
from kernel.operations.rights.capabilities import Capabilities, read_capabilities
from kernel.operations.spawning import (
    MAX_PROMPT_CHARS,
    MAX_SHUTDOWN_S,
    MAX_TOOL_CHARS,
    MAX_TOOLS,
    MAX_TURN_S,
    AutoShutdown,
    Isolation,
    OnLogical,
    Restart,
    ShutdownS,
    Spawned,
    SpawnRequest,
)
from kernel.peer.askers import asker_of
from kernel.peer.remote_calls import PeerAsked
from kernel.policy.asker import Asker
from kernel.state.recorder import ledger_errors
from kernel.values import canonical, clean
from mesh.identity.peers import Peer

Spawn = Callable[[SpawnRequest, Record, Asker], Awaitable[Spawned]]
Cancel = Callable[[str, str, str, str, Record], Awaitable[Cancelled]]


def read_spawn(value: object) -> SpawnRequest:
    """The request in a peer's op. Raises Invalid, naming the field."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise Invalid("a spawn without a request")
    if unknown := sorted(value.keys() - READERS.keys()):
        raise Invalid(f"{unknown[0][:40]}: not for another node to say")
    read = {name: READERS[name](name, given) for name, given in sorted(value.items())}
    return SpawnRequest(read.pop("name", ""), **read)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > (MAX_PROMPT_CHARS if name == "system_prompt" else 1_100):
        raise Invalid(f"{name} is not a text of bounded length")
    return clean(value)


def _choice(name: str, value: object) -> str | None:
    if isinstance(value, str | None) and value in CHOICES[name]:
        return value
    raise Invalid(f"{name} is none that there is")


def _truth(name: str, value: object) -> bool:
    if type(value) is not bool:
        raise Invalid(f"{name} is yes or no")
    return value


def _names(name: str, value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    if (
        not isinstance(value, list)
        or len(value) > MAX_TOOLS
        or not all(isinstance(each, str) for each in value)
    ):
        raise Invalid(f"tools is not a list of at most {MAX_TOOLS} names")
    return tuple(clean(each)[:MAX_TOOL_CHARS] for each in value)


def _intensity(name: str, value: object) -> tuple[int, float] | None:
    if value is None:
        return None
    match value:
        case [int(restarts), int(period_s) | float(period_s)] if (
            0 <= restarts <= 10_000 and 0 < period_s < 1e6
        ):
            return restarts, float(period_s)
    raise Invalid("intensity is not [restarts, seconds]")


def _shutdown_s(name: str, value: object) -> ShutdownS | None:
    match value:
        case None | "infinity":
            return value
        case int() | float() if type(value) is not bool and 0 <= value <= MAX_SHUTDOWN_S:
            return float(value)
    raise Invalid(f"{name} is neither seconds up to {MAX_SHUTDOWN_S:g} nor infinity")


def _turn_s(name: str, value: object) -> float | None:
    match value:
        case None:
            return None
        case int() | float() if type(value) is not bool and 1 <= value <= MAX_TURN_S:
            return float(value)
    raise Invalid(f"{name} is not seconds from 1 to {MAX_TURN_S:g}")


def _capabilities(name: str, value: object) -> Capabilities | None:
    try:
        return None if value is None else read_capabilities(value)
    except ValueError as error:
        raise Invalid(str(error)) from error


def _budget(name: str, value: object) -> Budget | None:
    try:
        return None if value is None else read_budget(value)
    except ValueError as error:
        raise Invalid(str(error)) from error


def _mailbox(name: str, value: object) -> Mailbox | None:
    try:
        return None if value is None else read_mailbox(value)
    except ValueError as error:
        raise Invalid(str(error)) from error


CHOICES: Mapping[str, tuple[str | None, ...]] = {
    "restart": get_args(Restart),
    "isolation": (None, *get_args(Isolation)),
    "auto_shutdown": get_args(AutoShutdown),
    "on_logical": get_args(OnLogical),
    "child_restart": (None, *get_args(Restart)),
}
READERS: Mapping[str, Callable[[str, object], Any]] = {
    **dict.fromkeys(("name", "behaviour", "under", "provider", "model", "system_prompt", "strategy"), _text),
    **dict.fromkeys(CHOICES, _choice),
    **dict.fromkeys(("supervisor", "significant"), _truth),
    **dict.fromkeys(("shutdown_s", "child_shutdown_s"), _shutdown_s),
    "tools": _names,
    "intensity": _intensity,
    "capabilities": _capabilities,
    "budget": _budget,
    "turn_timeout_s": _turn_s,
    "mailbox": _mailbox,
}
"""What reads each field of a spawn that a peer may say: all but :data:`kernel.operations.spawning.NOT_FOR_PEERS`."""


class PeerServices:
    """Hears what peers call. ``spawn`` makes a child, and ``cancel`` ends a message, as the node's own doors do."""

    def __init__(self, kernel: Kernel, spawn: Spawn, cancel: Cancel) -> None:
        self._kernel = kernel
        self._spawn = spawn
        self._cancel = cancel

    def asked(self, asked: PeerAsked) -> None:
        """Carry out what a peer calls."""
        serve = {"spawn": self.spawn, "kill": self.kill, "cancel": self.cancel}[asked.op["op"]]
        asked.serve(serve(asked.peer, asked.op))

    async def spawn(self, peer: Peer, op: Mapping[str, Any]) -> dict[str, Any]:
        """The slot belongs to this node; its parent is under /user, like every child's."""
        ceiling = peer.ceiling(self._kernel.registry.effects)
        request = read_spawn(op.get("request"))
        record = partial(self._record, peer, "spawn")
        return {**await self._spawn(request, record, asker_of(peer, ceiling))}

    async def kill(self, peer: Peer, op: Mapping[str, Any]) -> dict[str, Any]:
        """An exit signal; the supervisor here does what the restart type says."""
        target, signal = op.get("target"), op.get("signal")
        if not isinstance(target, str) or "@" in target or signal not in ("term", "kill"):
            raise Invalid("a kill names a process of this node, and term or kill")
        why = op.get("why", "")
        if not isinstance(why, str) or len(why) > MAX_WHY_CHARS:
            raise Invalid(f"a kill says why in at most {MAX_WHY_CHARS} characters")
        address = self._kernel.messaging.resolve(clean(target)[:1_100])
        if address == USER:
            raise Refused(f"{USER} is not for another node to end")
        pid = self._kernel.processes.check_running(address).pid
        told = {
            "target": target,
            "address": address,
            "signal": signal,
            **({"why": clean(why)} if why else {}),
        }
        seq, _ = self._record(peer, "kill", **told)
        self._kernel.processes.kill(address, signal, Command(seq, peer_maker(peer.origin), clean(why)))
        return {"address": address, "pid": pid, "signal": signal}

    async def cancel(self, peer: Peer, op: Mapping[str, Any]) -> dict[str, Any]:
        """The end of what a process handles; the process lives on."""
        told = [op.get("target"), op.get("message"), op.get("why")]
        limits = zip(told, (1_100, MAX_ID_CHARS, MAX_WHY_CHARS), strict=True)
        if not all(isinstance(text, str) and len(text) <= limit for text, limit in limits):
            raise Invalid(
                "a cancel names a process of this node, a message or none, and why, each of bounded length"
            )
        target, message, why = (clean(str(text)) for text in told)
        record = partial(self._record, peer, "cancel")
        return {**await self._cancel(target, message, peer_maker(peer.origin), why, record)}

    def _record(self, peer: Peer, operation: str, **told: Any) -> tuple[int, bytes]:
        body = {
            "principal": peer_maker(peer.origin),
            "name": peer.name,
            "operation": operation,
            "arguments": canonical(told),
        }
        with ledger_errors():
            ticket = self._kernel.recorder.commit([Draft("peer.command", body, 0, operation)])
        return ticket.entries[0].entry.seq, b""
