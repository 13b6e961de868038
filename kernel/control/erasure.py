"""Erasure as a person asks for it: checked against what the node is doing, and begun with one commit.

The commit holds the ``erase`` entry and everything that must go from the node's state; from then on nothing here reads
what is to be erased, and ``state.erasing`` says that files still hold it. Taking it out of those is the work of
``weftos.upkeep.erasing``, which a node takes up again at its next start.
"""

from __future__ import annotations

import asyncio
from functools import partial

import msgpack

from chain.ledger.ledger import Draft, StateChange
from chain.vectors.document import TABLE as DOCUMENT
from kernel.control.asked import Asked
from kernel.control.facts import Erasures
from kernel.errors import Busy, Invalid, NotFound, Refused
from kernel.kernel import Kernel
from kernel.model.address import validate_address
from kernel.operations.erasure import Erase, Erased, Erasing, Erasure
from kernel.operations.operation import Handler, Nothing
from kernel.slices.mailboxes import Mail
from kernel.state.after_durable import AfterDurable
from kernel.state.in_transit_records import decision_record
from kernel.state.record_forms import DEEDS, ERASING, EXIT, FILES, SESSION, TRAJECTORY, TURN_EVENT
from kernel.state.recorder import ledger_errors
from kernel.state.state import State
from kernel.upkeep.erasure import Plan, Selection, as_json
from kernel.values import clean, measured
from mesh.delivery.delivery import MAX_WHY_CHARS

MAX_REASON = 500
ATTEMPTS = 3
RANGES_IN_ENTRY = 50_000
"""Each takes up to 19 bytes of the MiB that the body of an entry may have."""
MOST_RANGES = 400_000
"""They are written at once, in entries and in what is to be done: 16 MiB at most."""
ERASED_REASON = "refused; the reason was erased"


class ErasureControl:
    """Erasing, one at a time."""

    def __init__(self, kernel: Kernel, erasures: Erasures) -> None:
        self._kernel = kernel
        self._state = kernel.state
        self._erasures = erasures
        self._one = asyncio.Lock()
        self._after = AfterDurable(kernel.recorder.ledger)

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (Erasure.status.by(self.status), Erasure.erase.by(self.erase))

    async def erase(self, asked: Asked, request: Erase) -> Erased:
        """The answer comes when it is on the disk that they are to go; :meth:`status` says when they are gone. Raises
        Refused, NotFound, Invalid, Busy, Unavailable.
        """
        target, session = str(request.target), request.session
        reason = " ".join(clean(request.reason).split())
        if not reason or len(reason) > MAX_REASON:
            raise Invalid(f"say why, in at most {MAX_REASON} characters: the ledger keeps it")
        chosen = Selection(
            tuple(dict.fromkeys(request.seqs)), request.pid, self._address(target) if target else "", session
        )
        chosen.check()
        if self._one.locked():
            raise Busy("another erasure is being prepared")
        async with self._one:
            shown = {key: value for key, value in as_json(chosen).items() if value not in ("", (), None)}
            if session:  # what was said of it shall not come back by this
                shown["session"] = measured(session)
            plan = await self._plan(chosen)
            seq, trace = asked.record(**shown, reason=reason)
            begun = await self._begin(plan, asked.by, reason, seq, trace)
        return {
            "seq": begun,
            "entries": plan.entries,
            "ranges": [list(pair) for pair in plan.ranges],
            "sessions": [list(pair) for pair in plan.sessions],
            "documents": plan.documents,
            "kept": plan.kept,
            "left": [list(pair) for pair in plan.left],
            "left_count": plan.left_count,
            "logs": [list(pair) for pair in plan.logs],
        }

    async def status(self, asked: Asked, request: Nothing) -> Erasing:
        """The erasures that are under way, by the seq of their entry."""
        progress = self._erasures.progress()
        return {
            "erasing": sorted(map(int, self._state.erasing)),
            "step": progress["step"],
            "fault": progress["fault"],
        }

    def _address(self, target: str) -> str:
        """That of a process, also of one that is gone."""
        try:
            return self._kernel.messaging.resolve(target)
        except NotFound:
            if target.startswith("/"):
                return validate_address(target)
            raise

    async def _plan(self, chosen: Selection) -> Plan:
        """A plan that nothing has overtaken: while it was made no session in it was read, and no turn of it said more.
        What happened before is in the files that it was read from.
        """
        for _ in range(ATTEMPTS):
            with self._kernel.opened.watch() as opened:
                unended = {turn.id for turn in self._state.turns.values()}
                unended.update(intent.turn for intent in self._state.intents)
                with ledger_errors():
                    await self._kernel.recorder.barrier()
                plan = await self._erasures.plan(chosen)
            if len(plan.ranges) > MOST_RANGES:
                raise Refused(
                    f"the entries stand in {len(plan.ranges)} places of the ledger, at most {MOST_RANGES} can be named "
                    "at once: erase the process session by session, or entries by their numbers"
                )
            check_unused(plan, self._state)
            if not opened.intersection(plan.sessions) and not unended.intersection(plan.turns):
                return plan
        raise Busy("a session that holds what is to be erased is in use all the time; stop its process first")

    async def _begin(self, plan: Plan, by: str, reason: str, cause: int, trace: bytes) -> int:
        """The one commit. Nothing may await between the check and this."""
        recorder = self._kernel.recorder
        unit = recorder.unit()
        seq = unit.next_seq
        for first in range(0, len(plan.ranges), RANGES_IN_ENTRY):
            number = unit.next_seq
            ranges = [list(pair) for pair in plan.ranges[first : first + RANGES_IN_ENTRY]]
            unit.add(
                Draft("erase", {"ranges": ranges, "by": by, "reason": reason}, 0, "", trace, cause),
                StateChange(ERASING, str(number), msgpack.packb(ranges)),
            )
        for address, session in plan.sessions:
            unit.add(
                *(StateChange(table, f"{address}\n{session}", None) for table in (SESSION, DEEDS, FILES))
            )
        seen = [turn for turn in plan.turns if turn in self._state.turn_logs]
        unit.add(*(StateChange(TURN_EVENT, turn, None) for turn in seen))
        kept = [turn for turn in plan.turns if turn in self._state.trajectories]
        unit.add(*(StateChange(TRAJECTORY, turn, None) for turn in kept))
        for ident in plan.documents:
            if self._state.documents.may_read(ident, None):
                unit.add(Draft("memory.forgotten", {"id": ident, "by": by}, 0, ident, trace, seq))
            unit.add(StateChange(DOCUMENT, ident, None))
        ended: list[str] = []
        for ident in plan.messages:
            letter = self._state.dead.get(ident)
            if letter is not None and any(first <= letter.mail.seq <= last for first, last in plan.ranges):
                dropped = {"id": ident, "why": "erased", "by": "erasure"}
                unit.add(Draft("message.dropped", dropped, 0, ident, trace, seq))
            question = self._state.in_transit.questions.get(ident)
            if question is not None:
                body = {"id": ident, "peer": question.peer, "why": "erased"}
                unit.add(Draft("message.unanswered", body, 0, ident, trace, seq))
                ended.append(ident)
        unit.add(*self._repeated(plan))
        with ledger_errors():
            ticket = recorder.commit(unit)
        self._after.do(self._erasures.begun, ticket)  # though nobody waits for the answer any more
        for ident in ended:
            end = {"status": "error", "reply": "erased", "turn": ""}
            self._after.do(partial(self._kernel.watchers.ended, ident, end), ticket)
        for address, session in plan.sessions:
            self._kernel.model_calls.forget(address, session)
        with ledger_errors():
            await ticket.durable()
        return seq

    def _repeated(self, plan: Plan) -> list[StateChange]:
        """What the state says of entries that go: how a process ended, and why a peer's message was refused."""
        ends = {*plan.exits}
        reasons = {why[:MAX_WHY_CHARS] for why in plan.refusals}
        exits = [
            StateChange(EXIT, slot.address, None)
            for slot in self._state.slots.values()
            if slot.last_exit.pid in ends
        ]
        return exits + [
            decision_record(origin, number, ident, ERASED_REASON)
            for origin, box in self._state.in_transit.inbox.items()
            for number, (ident, why) in box.items()
            if why in reasons
        ]


def check_unused(plan: Plan, state: State) -> None:
    """Raises Refused while a turn or a message of ``plan`` is still in use."""
    turns, sessions = set(plan.turns), set(plan.sessions)
    for turn in state.turns.values():
        ends = {end.pid for end in turn.told_ends()}
        if turn.id in turns or (turn.address, turn.mail.session) in sessions or ends.intersection(plan.exits):
            raise Refused(
                f"turn {turn.id} of {_process(turn.address, state)} is open and holds what is to be erased: "
                f"wait for it, or weftos cancel {_pid(turn.address, state)}"
            )
    for intent in state.intents:
        if intent.turn in turns:
            raise Refused(
                f"call {intent.id} of {_process(intent.address, state)}, {intent.call.name}, has no outcome yet: wait "
                "for it, or decide it when weftos doubts list shows it"
            )
    for monitor in state.monitors.values():
        if monitor.turn in turns:
            raise Refused(
                f"monitor {monitor.ref} of {_process(monitor.watcher, state)} was set in turn {monitor.turn}, which is "
                f"to be erased: wait for its end, or stop {_pid(monitor.watcher, state)}"
            )
    for trap in state.traps.values():
        if trap.turn in turns:
            raise Refused(
                f"{_process(trap.address, state)} traps exits since turn {trap.turn}, which is to be erased: stop "
                f"{_pid(trap.address, state)}"
            )
    for ident in plan.messages:
        mail = state.find_mail(ident)
        if mail is not None:
            raise Refused(_waits(mail, state))
        question = state.in_transit.questions.get(ident)
        if question is not None and question.reply_to:
            raise Refused(f"message {ident} to {question.to} waits for its answer: wait until it has one")


def _waits(mail: Mail, state: State) -> str:
    if mail.peer:
        return f"message {mail.id} is on its way to {mail.to}: wait until it is there"
    return (
        f"message {mail.id} is still in the mailbox of {_process(mail.to, state)}: wait until it is answered, or stop "
        f"{_pid(mail.to, state)}, which makes it a dead letter"
    )


def _pid(address: str, state: State) -> str:
    slot = state.slots.get(address)
    return str(slot.pid) if slot is not None and slot.pid else address


def _process(address: str, state: State) -> str:
    pid = _pid(address, state)
    return address if pid == address else f"{address} (PID {pid})"
