"""Monitors of processes and links with them, as behaviours set them and take them back.

What is durable of them is :mod:`kernel.slices.monitors`, how they end :mod:`kernel.message.downs`. A process of another
node is watched over the link, by :mod:`kernel.peer.monitors`: when that is lost nobody knows whether it has ended.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from chain.ledger.ledger import PREVIOUS, Draft
from kernel.abi import Linked, Monitored
from kernel.cell.protocol import LinkRef, LinkTarget, MonitorRef, MonitorRemoved, MonitorTarget
from kernel.errors import Invalid, KernelError, NotFound, Refused
from kernel.message.downs import Downs
from kernel.message.messaging import Messaging
from kernel.model.address import PidTarget, is_below, parse_target
from kernel.model.states import NOCONNECTION, NOPROC
from kernel.peer.remote import Remote
from kernel.peer.remote_calls import MAX_TEXT_CHARS
from kernel.policy.pipeline import Policy
from kernel.policy.proposal import WatchProcess
from kernel.process.live import LiveProcess, LiveTable
from kernel.slices.mailboxes import DOWN, EXIT, Mail
from kernel.slices.monitors import Monitor, monitor_of
from kernel.slices.turns import Turn
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit
from kernel.turn.divergence import shown
from kernel.turn.turns import Turns
from kernel.values import call_hash, clean
from mesh.identity.peers import Peer

FLUSHED = "taken back with its monitor"
Asked = MonitorTarget | MonitorRef | LinkTarget | LinkRef
OPS: dict[type[Asked], str] = {
    MonitorTarget: "monitor",
    MonitorRef: "demonitor",
    LinkTarget: "link",
    LinkRef: "unlink",
}
KINDS: dict[str, type[Monitored | MonitorRemoved | Linked]] = {
    "monitor": Monitored,
    "demonitor": MonitorRemoved,
    "link": Linked,
    "unlink": MonitorRemoved,
}


@dataclass(frozen=True, slots=True)
class Watched:
    """What a target names: a process here, by ``address`` and ``pid``, or one of ``peer`` that it calls ``address``;
    or nothing that can be watched, and then the ``reason`` that is told at once.
    """

    address: str = ""
    pid: int = 0
    peer: Peer | None = None
    reason: str = ""


class MonitorCalls:
    """Takes these syscalls; answers through :meth:`Turns.answer`."""

    def __init__(
        self,
        recorder: Recorder,
        live: LiveTable,
        turns: Turns,
        messaging: Messaging,
        remote: Remote,
        downs: Downs,
        policy: Policy,
    ) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._live = live
        self._turns = turns
        self._messaging = messaging
        self._remote = remote
        self._downs = downs
        self._policy = policy
        self._abroad: dict[str, dict[str, asyncio.Future[str]]] = {}  # by watcher and reference

    def asked(self, process: LiveProcess, turn: Turn, ordinal: str, args: Asked) -> None:
        """A cell asks for a monitor or a link, or takes one back. Raises LedgerUnavailable."""
        op, name, hashed = _call(args)
        recorded = turn.calls.get(ordinal)
        if recorded is not None and recorded.call_hash != hashed:
            self._turns.diverge(process, turn, recorded, shown(op, name, ""))
            return
        if recorded is None:
            call = {"turn": turn.id, "ordinal": ordinal, "call_hash": hashed}
            if isinstance(args, MonitorTarget | LinkTarget):
                self._set(process, turn, call, args.target, isinstance(args, LinkTarget))
            else:
                self._remove(process, turn, call, args)
        outcome = turn.calls[ordinal].outcome
        assert outcome is not None
        self._turns.answer(turn, ordinal, KINDS[op](**outcome))

    # -- setting -------------------------------------------------------------------------------------------------

    def _set(self, process: LiveProcess, turn: Turn, call: dict[str, str], target: str, link: bool) -> None:
        watched, there, future, why = Watched(), None, None, ""
        self._let_go(process.address)
        try:
            watched = self._find(process, turn, target)
            there = self._link_there(process, watched) if link else None
            if watched.peer is not None and there is None:
                future = self._remote.monitors.watch_remote(
                    watched.address, watched.peer, process.asker(turn)
                )
        except KernelError as error:
            watched, why = Watched(), clean(str(error))[:MAX_TEXT_CHARS]
        unit = self._recorder.unit()
        ref = "" if why else there.ref if there is not None else f"r{unit.next_seq}"
        body = {
            **call,
            "ref": ref,
            "target": clean(target[:MAX_TEXT_CHARS]),
            "address": watched.address,
            "pid": watched.pid,
            "peer": watched.peer.origin if watched.peer is not None else "",
            "rights": sorted(process.rights),
            "why": why,
            "link": link,
            "watcher_pid": self._binding(process, watched, there) if link and ref else 0,
        }
        self._write(unit, process, turn, body, watched.reason, future)
        if future is not None:
            self._abroad.setdefault(process.address, {})[ref] = future
            future.add_done_callback(partial(self._ended, process.address, ref))

    def _link_there(self, process: LiveProcess, watched: Watched) -> Monitor | None:
        """The link that there is already. Raises KernelError for what a process may not be linked with, and for what
        is not there, unless it is told of that.
        """
        peer = watched.peer.origin if watched.peer is not None else ""
        if watched.pid == process.pid:
            raise Invalid(f"{process.address} cannot be linked with itself")
        if watched.reason and process.address not in self._state.traps:
            raise NotFound(f"{watched.reason}: nothing is there to be linked with, and exits are not trapped")
        monitors = self._state.monitors
        return monitors.link_of(process.address, process.pid, watched.address, watched.pid, peer)

    def _binding(self, process: LiveProcess, watched: Watched, there: Monitor | None) -> int:
        """The PID whose end the other one, or who set the link that is joined, is bound to as well; 0 for none: who is
        not below it has to ask for that itself.
        """
        if there is not None:
            return there.watcher_pid if there.watcher == process.address else watched.pid
        other = self._live.get(watched.pid)
        below = (
            other is not None and other.spec.type == "worker" and is_below(watched.address, process.address)
        )
        return process.pid if below else 0

    def _write(
        self,
        unit: Unit,
        process: LiveProcess,
        turn: Turn,
        body: dict[str, Any],
        reason: str,
        future: asyncio.Future[str] | None,
    ) -> None:
        """Record a monitor, with its end when it has a ``reason`` for one already."""
        seq, trace = unit.next_seq, turn.mail.trace
        unit.add(Draft("monitor.set", body, process.pid, turn.id, trace, turn.started_seq))
        if reason:
            self._downs.tell(unit, monitor_of(body, seq, trace, turn), reason)
        try:
            self._recorder.commit(unit)
        except BaseException:
            if future is not None:
                future.cancel()
            raise

    def _find(self, process: LiveProcess, turn: Turn, target: str) -> Watched:
        """Raises KernelError for what may not be watched, or can be no process."""
        if len(target) > MAX_TEXT_CHARS:
            raise Invalid(f"a target of {len(target)} characters, at most {MAX_TEXT_CHARS} are allowed")
        down = self._state.slots.down(process.address)
        if down is not None:
            raise Refused(f"{down.address} is {down.state}: {process.address} sets no monitor any more")
        asker = process.asker(turn)
        local, node, peer = target, "", None
        if "@" in target:
            node = target.rpartition("@")[2]
            try:
                local, peer = self._remote.split(target)
            except NotFound:
                self._policy.require(asker, WatchProcess(target, node))
                return Watched(reason=NOCONNECTION)
        if peer is not None:
            self._policy.require(asker, WatchProcess(local, node))
            return Watched(local, peer=peer)
        address, watched, error = self._resolve(local)
        self._policy.require(asker, WatchProcess(address or local))
        if error is not None:
            raise error
        return Watched(address, reason=NOPROC) if watched is None else Watched(address, watched.pid)

    def _resolve(self, target: str) -> tuple[str, LiveProcess | None, KernelError | None]:
        """The address that a target of this node means, or once meant, what runs there, and why it means none."""
        try:
            address = self._messaging.resolve(target)
            return address, self._live.at(address), None
        except NotFound:
            meant = parse_target(target)
            return self._state.pids.get(meant.pid, "") if isinstance(meant, PidTarget) else "", None, None
        except KernelError as error:
            return "", None, error

    # -- taking back ---------------------------------------------------------------------------------------------

    def _remove(
        self, process: LiveProcess, turn: Turn, call: dict[str, str], args: MonitorRef | LinkRef
    ) -> None:
        link = isinstance(args, LinkRef)
        monitor = self._state.monitors.get(args.ref)
        found = monitor is not None and monitor.link == link and _is_of(monitor, process.address)
        flush = isinstance(args, LinkRef) or args.flush
        down = self._down_of(turn, args.ref, EXIT if link else DOWN) if flush and not found else None
        body = {
            **call,
            "ref": clean(args.ref[:MAX_TEXT_CHARS]),
            "found": found,
            "flushed": down.id if down is not None else "",
            "link": link,
        }
        unit = self._recorder.unit()
        unit.add(Draft("monitor.removed", body, process.pid, turn.id, turn.mail.trace, turn.started_seq))
        if down is not None:
            dead = {"id": down.id, "to": down.to, "why": FLUSHED, "reason": "taken_back"}
            dropped = {"id": down.id, "why": FLUSHED, "by": "process"}
            unit.add(
                Draft("message.dead", dead, 0, down.id, down.trace, down.seq),
                Draft("message.dropped", dropped, 0, down.id, down.trace, PREVIOUS),
            )
        self._recorder.commit(unit)
        future = self._abroad.get(process.address, {}).get(args.ref) if found else None
        if future is not None:
            future.cancel()

    def _down_of(self, turn: Turn, ref: str, kind: str) -> Mail | None:
        """The message of its end that waits in the mailbox; not the one that is being handled."""
        box: Mapping[str, Mail] = self._state.mail.get(turn.address, {})
        return next(
            (mail for mail in box.values() if mail.id != turn.mail.id and _is_end_of(mail, ref, kind)), None
        )

    # -- over the link -------------------------------------------------------------------------------------------

    def _ended(self, watcher: str, ref: str, future: asyncio.Future[str]) -> None:
        """What another node said of a process there, or that it is lost."""
        there = self._abroad.get(watcher, {})
        there.pop(ref, None)
        if not there:
            self._abroad.pop(watcher, None)
        if not future.cancelled():
            self._downs.end(ref, future.result())

    def _let_go(self, watcher: str) -> None:
        """Of those that the record does not know any more nobody is told: a person may have had a turn forget them."""
        for ref, future in list(self._abroad.get(watcher, {}).items()):
            if ref not in self._state.monitors:
                future.cancel()

    def gone(self, watcher: str) -> None:
        """Nothing runs at ``watcher`` until somebody starts it: it watches no more."""
        for future in list(self._abroad.get(watcher, {}).values()):
            future.cancel()


def _call(args: Asked) -> tuple[str, str, str]:
    """Operation, what it is asked of, and hash of a call."""
    op = OPS[type(args)]
    if isinstance(args, MonitorTarget | LinkTarget):
        return op, args.target, call_hash(op, args.target)
    if isinstance(args, LinkRef):
        return op, args.ref, call_hash(op, args.ref)
    return op, args.ref, call_hash(op, args.ref, "flush" if args.flush else "")


def _is_of(monitor: Monitor, address: str) -> bool:
    """Whether it is for ``address`` to take it back: either of the two that a link binds may."""
    return address == monitor.watcher or (monitor.watcher_pid > 0 and address == monitor.address)


def _is_end_of(mail: Mail, ref: str, kind: str) -> bool:
    return mail.kind == kind and json.loads(mail.text)["ref"] == ref
