"""Built-in tools that run in the node: pure ones, and those whose whole effect is journal records.

A handler is given the process, its turn, and the unit that its records go into. It decides and drafts, last of all; the
tool engine writes, with the outcome. What a handler refuses it raises as a KernelError, which becomes the outcome's
text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from chain.ledger.ledger import PREVIOUS, Draft
from kernel.abi import OutcomeStatus
from kernel.bounds import Bounds
from kernel.cells.launcher import BehaviourEntry
from kernel.errors import KernelError, Refused
from kernel.message.messaging import Messaging, Outgoing
from kernel.message.publications import Publications
from kernel.message.session_names import session_name
from kernel.model.address import join
from kernel.model.causes import would_cycle
from kernel.peer.remote import Remote
from kernel.peer.router import Router
from kernel.policy.pipeline import Policy
from kernel.policy.proposal import CancelTurn, WriteMemory
from kernel.process.children import Known, Maker, made_by_agent
from kernel.process.live import LiveProcess
from kernel.process.process_signals import SlotWritten
from kernel.process.processes import Processes
from kernel.slices.mail.subscriptions import BACK_PRESSURE
from kernel.slices.mailboxes import sent_by
from kernel.slices.turns import Turn
from kernel.state.documents import NewDocument, draft_document
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit
from kernel.syscall.tool_records import CallSite
from kernel.toolbox.calculator import CalculationError, calculate
from kernel.turn.cancels import Cancels, cancelled_by
from kernel.values import canonical, clean, sha256_hex


@dataclass(frozen=True, slots=True)
class Done:
    """Finished: outcome status and text."""

    status: OutcomeStatus
    text: str


@dataclass(frozen=True, slots=True)
class Pending:
    """Begun: the outcome comes later, or ``timeout`` after ``deadline_s``."""

    deadline_s: float


class Question(NamedTuple):
    """What a message is beside its text that asks: whom, for which call, until when, and who waits for it meanwhile."""

    target: str
    reply_to: str
    deadline_us: int
    waiting: tuple[str, ...]


_NO_QUESTION = Question("", "", 0, ())


class NodeTools:
    """The handlers, by tool name."""

    def __init__(
        self,
        recorder: Recorder,
        messaging: Messaging,
        publications: Publications,
        router: Router,
        processes: Processes,
        remote: Remote,
        cancels: Cancels,
        bounds: Bounds,
        policy: Policy,
        behaviours: Mapping[str, BehaviourEntry],
    ) -> None:
        self._now_us = recorder.ledger.now_us
        self._state = recorder.state
        self._policy = policy
        self._messaging = messaging
        self._publications = publications
        self._router = router
        self._processes = processes
        self._remote = remote
        self._cancels = cancels
        self._bounds = bounds
        self._behaviours = behaviours

    def run(self, process: LiveProcess, site: CallSite, args: dict[str, Any], unit: Unit) -> Done | Pending:
        """Run one call. Raises KernelError for a refusal."""
        match site.tool:
            case "calculator":
                return self._calculator(args)
            case "send_message":
                return self._send(process, site.turn, args, unit)
            case "ask":
                return self._ask(process, site, args, unit)
            case "cancel_turn":
                return self._cancel(process, site.turn, args, unit)
            case "spawn_agent":
                return self._spawn(process, site.turn, args, unit)
            case "memory_write":
                return self._remember(process, site.turn, args, unit)
            case "publish" | "broadcast":
                return self._say_to_many(process, site, args, unit)
            case "subscribe" | "unsubscribe":
                return self._subscription(process, site, args, unit)
        raise KernelError(f"{site.tool} is declared to run in the node, but is none of its tools")

    def _calculator(self, args: dict[str, Any]) -> Done:
        try:
            return Done("ok", calculate(args["expression"]))
        except CalculationError as error:
            return Done("error", str(error))

    def _outgoing(
        self,
        process: LiveProcess,
        turn: Turn,
        args: dict[str, Any],
        unit: Unit,
        question: Question | None = None,
    ) -> Outgoing:
        to, here = str(args["to"]), self._remote.mesh.origin
        peer = self._remote.split(to)[1] if "@" in to else None
        slot = self._state.slots[process.address]
        session = session_name(slot, turn.mail, here, here if peer is None else peer.origin, self._knows)
        ask = question or _NO_QUESTION
        return Outgoing(
            process.address,
            ask.target or to,
            args["text"],
            session,
            turn.mail.trace,
            unit.next_seq - 1,
            process.rights,
            wants_reply=bool(ask.reply_to),
            reply_to=ask.reply_to,
            deadline_us=ask.deadline_us,
            pid=process.pid,
            waiting=ask.waiting,
            asker=process.asker(turn),
        )

    def _knows(self, origin: str) -> bool:
        return self._remote.mesh.peer(origin) is not None

    def _send(self, process: LiveProcess, turn: Turn, args: dict[str, Any], unit: Unit) -> Done:
        out = self._outgoing(process, turn, args, unit)
        if "expires_s" in args:
            out = replace(out, deadline_us=self._now_us() + int(args["expires_s"] * 1e6))
        if "key" not in args:
            accepted = self._router.put(unit, out)
            return Done("ok", f"accepted as {accepted.id} for {accepted.address}")
        return self._send_once(process.address, out, clean(args["key"]), unit)

    def _send_once(self, by: str, out: Outgoing, key: str, unit: Unit) -> Done:
        """Send it, unless the process at that address has sent the same under the same key. Keys are each process's
        own.
        """
        own = sha256_hex(canonical([by, key]))
        request = sha256_hex(canonical([key, out.target, clean(out.text)]))
        earlier = self._state.keyed.known(own, self._now_us())
        if earlier is not None and earlier.request != request:
            raise Refused(
                f"another message was sent under this key, {earlier.id}: a key is for one text to one target; give "
                "this one a key of its own"
            )
        if earlier is not None:
            return Done("ok", f"accepted before, as {earlier.id} for {earlier.to}")
        accepted = self._router.put(unit, out)
        body = {
            "id": accepted.id,
            "to": accepted.address,
            "key": own,
            "request": request,
            "by": by,
            "status": "",
        }
        unit.add(Draft("message.keyed", body, 0, accepted.id, b"", PREVIOUS))
        return Done("ok", f"accepted as {accepted.id} for {accepted.address}")

    def _say_to_many(self, process: LiveProcess, site: CallSite, args: dict[str, Any], unit: Unit) -> Done:
        out = self._outgoing(process, site.turn, {**args, "to": process.address}, unit)
        if site.tool == "publish":
            said = self._publications.publish(unit, out, args["topic"])
        else:
            said = self._publications.broadcast(unit, out, process.address)
        rest = f", {said.left_out} left out" if said.left_out else ""
        dead = f", {said.dead} of these dead letters" if said.dead else ""
        return Done("ok", f"accepted for {said.accepted} processes{dead}{rest}")

    def _subscription(self, process: LiveProcess, site: CallSite, args: dict[str, Any], unit: Unit) -> Done:
        pattern, at, turn = args["pattern"], process.address, site.turn
        origin = Draft("", {}, process.pid, turn.id, turn.mail.trace, unit.next_seq - 1)
        if site.tool == "unsubscribe":
            self._publications.unsubscribe(unit, at, pattern, origin)
            return Done("ok", f"{at} gets nothing of {pattern} any more")
        overflow = args.get("overflow", BACK_PRESSURE)
        self._publications.subscribe(unit, process.asker(turn), at, pattern, overflow, origin)
        return Done("ok", f"{at} gets what is published to {pattern}")

    def _ask(self, process: LiveProcess, site: CallSite, args: dict[str, Any], unit: Unit) -> Pending:
        target, waiting = self._asked(process, site.turn, str(args["to"]))
        deadline_s = float(args.get("timeout_s", self._bounds.ask_timeout_s))
        until_us = self._now_us() + int(deadline_s * 1e6)
        question = Question(target, f"{site.turn.id}:{site.ordinal}", until_us, waiting)
        self._router.put(unit, self._outgoing(process, site.turn, args, unit, question))
        return Pending(deadline_s)

    def _asked(self, process: LiveProcess, turn: Turn, to: str) -> tuple[str, tuple[str, ...]]:
        """Whom an ask goes to, and who waits for its answer over nodes. Raises Refused for one that would wait for
        itself, as far as the chain of causes tells: two asks that meet without one having led to the other end by
        their timeouts.
        """
        here = self._remote.mesh.origin
        chain = self._remote.chain(turn)
        local, peer = self._remote.split(to) if "@" in to else (to, None)
        if peer is not None:
            self._remote.must_be_up(peer)
            there = f"{local}@{peer.origin}"
            chain = (*chain, f"{process.address}@{here}")
        else:
            local = self._messaging.resolve(local)
            path = would_cycle(self._state.mail.waits_for, process.address, local)
            if path is not None:
                raise Refused(f"asking {local} would wait for itself: {' -> '.join(path)}")
            there = f"{local}@{here}"
        if there in chain:
            path = [*chain[chain.index(there) :], there]
            raise Refused(f"asking {there} would wait for itself: {' -> '.join(path)}")
        return (local, ()) if peer is None else (there, chain)

    def _cancel(self, process: LiveProcess, turn: Turn, args: dict[str, Any], unit: Unit) -> Done:
        address = self._messaging.resolve(str(args["process"]))
        if address == process.address:
            raise Refused("a process ends its own turn by coming to an end")
        mail = self._cancels.find(address, args.get("message", ""))
        self._policy.require(process.asker(turn), CancelTurn(address, sent_by(mail)))
        cut = self._cancels.add(unit, mail, cancelled_by(process.address, clean(args.get("why", ""))))
        return Done("ok", f"cancelled {mail.id} at {address}, and {cut.others} that it had led to")

    def _spawn(self, process: LiveProcess, turn: Turn, args: dict[str, Any], unit: Unit) -> Done:
        known = {name: Known(entry.isolation, entry.config) for name, entry in self._behaviours.items()}
        spec = made_by_agent(
            Maker(self._state.slots[process.address].spec, process.address, process.rights), args, known
        )
        address = join(process.address, spec.name)
        cause = unit.next_seq - 1
        asker = process.asker(turn)
        payers = self._state.accounts.book.payers(process.address, asker.principal, "tool_calls")
        this_call = {(account.address, "tool_calls"): 1 for account in payers}
        unit.add(
            self._processes.admission.draft_spawn(
                spec, process.address, process.pid, asker.trace, cause, asker, this_call
            )
        )
        unit.say(SlotWritten(address))
        return Done("ok", f"spawned {address}")

    def _remember(self, process: LiveProcess, turn: Turn, args: dict[str, Any], unit: Unit) -> Done:
        new = NewDocument(
            owner=process.address,
            scope="shared" if args.get("shared") else "own",
            title=args.get("title", ""),
            text=args["text"],
            time_us=self._now_us(),
            trace=turn.mail.trace,
            cause=unit.next_seq - 1,
            pid=process.pid,
        )
        ident, records = draft_document(new, unit.next_seq)
        self._policy.require(process.asker(turn), WriteMemory(new.owner, new.size_bytes, new.scope))
        unit.add(*records)
        return Done("ok", f"remembered as {ident}")
