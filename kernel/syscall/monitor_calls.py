"""Monitors of processes, as behaviours set them and take them back.

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
from kernel.abi import Monitored
from kernel.cell.protocol import MonitorRef, MonitorRemoved, MonitorTarget
from kernel.errors import Invalid, KernelError, NotFound, Refused
from kernel.message.downs import Downs
from kernel.message.messaging import Messaging
from kernel.model.address import PidTarget, parse_target
from kernel.model.states import NOCONNECTION, NOPROC
from kernel.peer.remote import Remote
from kernel.peer.remote_calls import MAX_TEXT_CHARS
from kernel.policy.pipeline import Policy
from kernel.policy.proposal import WatchProcess
from kernel.process.live import LiveProcess, LiveTable
from kernel.slices.mailboxes import DOWN, Mail
from kernel.slices.monitors import monitor_of
from kernel.slices.turns import Turn
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit
from kernel.turn.divergence import shown
from kernel.turn.turns import Turns
from kernel.values import call_hash, clean
from mesh.identity.peers import Peer

FLUSHED = "taken back with its monitor"


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

    def asked(self, process: LiveProcess, turn: Turn, ordinal: str, args: MonitorTarget | MonitorRef) -> None:
        """A cell asks for a monitor, or takes one back. Raises LedgerUnavailable."""
        op, name, hashed = _call(args)
        recorded = turn.calls.get(ordinal)
        if recorded is not None and recorded.call_hash != hashed:
            self._turns.diverge(process, turn, recorded, shown(op, name, ""))
            return
        if recorded is None:
            call = {"turn": turn.id, "ordinal": ordinal, "call_hash": hashed}
            if isinstance(args, MonitorTarget):
                self._set(process, turn, call, args.target)
            else:
                self._remove(process, turn, call, args)
        outcome = turn.calls[ordinal].outcome
        assert outcome is not None
        kind = Monitored if isinstance(args, MonitorTarget) else MonitorRemoved
        self._turns.answer(turn, ordinal, kind(**outcome))

    # -- setting -------------------------------------------------------------------------------------------------

    def _set(self, process: LiveProcess, turn: Turn, call: dict[str, str], target: str) -> None:
        watched, future, why = Watched(), None, ""
        self._let_go(process.address)
        try:
            watched = self._find(process, turn, target)
            if watched.peer is not None:
                future = self._remote.monitors.watch_remote(
                    watched.address, watched.peer, process.asker(turn)
                )
        except KernelError as error:
            watched, why = Watched(), clean(str(error))[:MAX_TEXT_CHARS]
        unit = self._recorder.unit()
        ref = "" if why else f"r{unit.next_seq}"
        body = {
            **call,
            "ref": ref,
            "target": clean(target[:MAX_TEXT_CHARS]),
            "address": watched.address,
            "pid": watched.pid,
            "peer": watched.peer.origin if watched.peer is not None else "",
            "rights": sorted(process.rights),
            "why": why,
        }
        self._write(unit, process, turn, body, watched.reason, future)
        if future is not None:
            self._abroad.setdefault(process.address, {})[ref] = future
            future.add_done_callback(partial(self._ended, process.address, ref))

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

    def _remove(self, process: LiveProcess, turn: Turn, call: dict[str, str], args: MonitorRef) -> None:
        monitor = self._state.monitors.get(args.ref)
        found = monitor is not None and monitor.watcher == process.address
        down = self._down_of(turn, args.ref) if args.flush and not found else None
        body = {
            **call,
            "ref": clean(args.ref[:MAX_TEXT_CHARS]),
            "found": found,
            "flushed": down.id if down is not None else "",
        }
        unit = self._recorder.unit()
        unit.add(Draft("monitor.removed", body, process.pid, turn.id, turn.mail.trace, turn.started_seq))
        if down is not None:
            dead = {"id": down.id, "to": down.to, "why": FLUSHED}
            unit.add(
                Draft("message.dead", dead, 0, down.id, down.trace, down.seq),
                Draft("message.dropped", {"id": down.id, "why": FLUSHED}, 0, down.id, down.trace, PREVIOUS),
            )
        self._recorder.commit(unit)
        future = self._abroad.get(process.address, {}).get(args.ref) if found else None
        if future is not None:
            future.cancel()

    def _down_of(self, turn: Turn, ref: str) -> Mail | None:
        """The DOWN of a monitor that waits in the mailbox of its watcher; not the one that is being handled."""
        box: Mapping[str, Mail] = self._state.mail.get(turn.address, {})
        return next(
            (mail for mail in box.values() if mail.id != turn.mail.id and _is_down_of(mail, ref)), None
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


def _call(args: MonitorTarget | MonitorRef) -> tuple[str, str, str]:
    """Operation, what it is asked of, and hash of a call."""
    if isinstance(args, MonitorTarget):
        return "monitor", args.target, call_hash("monitor", args.target)
    return "demonitor", args.ref, call_hash("demonitor", args.ref, "flush" if args.flush else "")


def _is_down_of(mail: Mail, ref: str) -> bool:
    return mail.kind == DOWN and json.loads(mail.text)["ref"] == ref
