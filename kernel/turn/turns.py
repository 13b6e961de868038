"""Turns: a message is delivered, its syscalls are answered, its end is written.

One turn at a time per process. A turn belongs to the address: when an incarnation dies, its successor is handed the
same message as the same turn, and what was recorded is answered from the record. That a turn has ended belongs to the
address as well: while the disk refuses the end it waits here, and whatever becomes of the process meanwhile, the turn
is not handed to the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

from chain.errors import ChainError, LedgerUnavailable
from chain.ledger.ledger import Draft, Ticket
from kernel.abi import Message, TurnResult
from kernel.bounds import Bounds
from kernel.cell.protocol import CallOutcome
from kernel.errors import Invalid, KernelError
from kernel.message.expiries import EXPIRED
from kernel.message.message_signals import TurnOver
from kernel.message.messaging import DEAD_LETTERS_AT_ONCE
from kernel.message.watch import Watchers
from kernel.model.capability import Rights, intersect
from kernel.model.spec import ProcessSpec
from kernel.model.states import ProcessEvent, ProcessState
from kernel.model.turn_rules import TurnRules
from kernel.operations.rights.budgets import Resource
from kernel.policy.asker import Asker, channel_of
from kernel.policy.roles import roles_of
from kernel.policy.rules.in_force import Rules
from kernel.policy.rules.tool_rules import withheld
from kernel.process.ends import End, Ends
from kernel.process.live import LiveProcess, LiveTable
from kernel.process.process_signals import ProcessExited
from kernel.process.turn_time import TurnTime
from kernel.signals import Signals
from kernel.slices.mailboxes import Mail, turn_id
from kernel.slices.tree.slots import Slot
from kernel.slices.turns import Call, Turn
from kernel.state.after_durable import AfterDurable
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit
from kernel.turn.divergence import draft_divergence
from kernel.turn.histories import Histories
from kernel.turn.partial_answers import PartialAnswers
from kernel.turn.stage_reports import shown_stages
from kernel.turn.turn_signals import (
    BudgetsDue,
    BudgetShort,
    SessionRead,
    TimeOver,
    TurnDiverged,
    TurnDrained,
)
from kernel.values import cut_bytes, merged, plain, sha256_hex, text_of

OVERTIME_S = 30.0
"""What a turn whose time is over has to come to its end by itself."""
LEAST_LOOK_S = 0.2


class CellPort(Protocol):
    """What turns need of the cells."""

    def configure(self, pid: int, config: dict[str, Any]) -> None: ...

    def deliver(
        self,
        pid: int,
        turn: str,
        message: Message,
        history: list[Any],
        tools: list[str],
        sizes: Sequence[int] = (),
    ) -> None: ...

    def result(self, pid: int, turn: str, round_: int, index: int, outcome: CallOutcome) -> None: ...

    def say_whole(self, pid: int, turn: str, round_: int, index: int) -> None: ...

    def end_turn(self, pid: int, turn: str, why: str) -> None: ...


@dataclass(frozen=True, slots=True)
class TurnParts:
    """What turns ask of others.

    ``dead_letter(message id, why, records before, reason)`` writes a dead letter; ``reply(unit, mail, status, reply,
    pid)`` adds the records that hand over the answer to ``mail``; ``settle(turn)`` gives those that close the open
    intents of a turn that ends.
    ``tools_of(spec)`` are the names of the tools that a process has now.
    ``left_to(sender)`` are the tools that a sender on another node may have used here now, None for one of this node.
    ``rules``: what configuration says of calls and times. ``present(behaviour)``: JSON of what a behaviour is told now,
    empty for one that is not configured. ``sizes_of(tools)``: the tokens of their declarations.
    """

    dead_letter: Callable[[str, str, tuple[Draft, ...], str], object]
    reply: Callable[[Unit, Mail, str, str, int], None]
    settle: Callable[[Turn], list[Draft]]
    left_to: Callable[[str], frozenset[str] | None]
    tools_of: Callable[[ProcessSpec], frozenset[str]]
    partial: PartialAnswers
    rules: Rules
    present: Callable[[str], str]
    sizes_of: Callable[[Sequence[str]], list[int]]


class Turns:
    """Opens, answers and ends turns."""

    def __init__(
        self,
        recorder: Recorder,
        live: LiveTable,
        cells: CellPort,
        bounds: Bounds,
        watchers: Watchers,
        signals: Signals,
        ends: Ends,
        parts: TurnParts,
    ) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._live = live
        self._cells = cells
        self._bounds = bounds
        self._watchers = watchers
        self._after = AfterDurable(recorder.ledger)
        self._signals = signals
        self._ends = ends
        self._parts = parts
        self.histories = Histories(recorder, bounds)

    # -- opening -------------------------------------------------------------------------------------------------

    def deliver_next(self, address: str) -> None:
        """Hand the next message to the process at ``address``, when it is idle and there is one; while the ledger takes
        nothing, later.
        """
        if not self._state.mail.get(address):
            return
        try:
            self._deliver_next(address)
        except LedgerUnavailable:
            self._recorder.when_writable(("deliver_next", address), lambda: self.deliver_next(address))

    def _deliver_next(self, address: str) -> None:
        process = self._live.at(address)
        if process is None or process.turn or process.draining or process.state is not ProcessState.RUNNING:
            return
        slot = self._state.slots.get(address)
        if slot is not None and slot.suspended:
            return
        now_us = self._recorder.ledger.now_us()
        for _ in range(DEAD_LETTERS_AT_ONCE):
            if not (box := self._state.mail.get(address)):
                return
            mail = next(iter(box.values()))
            turn = self._state.turns.get(turn_id(mail.id))
            if self.has_ended(turn_id(mail.id)):
                return
            if mail.deadline_us and mail.deadline_us < now_us and turn is None:
                self._parts.dead_letter(mail.id, EXPIRED, (), "expired")
                continue
            if turn is not None and turn.diverged:
                self._stand_still(process, turn, slot)
                return
            self._open(process, mail)
            return
        asyncio.get_running_loop().call_soon(self.deliver_next, address)

    def _stand_still(self, process: LiveProcess, turn: Turn, slot: Slot | None) -> None:
        """Its turn waits for a person; and so does the process, unless its spec says that it ends of such a thing."""
        if slot is None or slot.spec.on_logical == "restart":
            process.on(ProcessEvent.SUSPEND)
        else:
            where = json.loads(turn.diverged)
            why = f"{turn.id} diverged at call {where['ordinal']}"
            self._signals.say(TurnDiverged(process.address, why, where["seq"]))

    def _open(self, process: LiveProcess, mail: Mail) -> None:
        ident = turn_id(mail.id)
        before = self._state.turns.get(ident)
        config = (before.config if before else self._parts.present(process.spec.behaviour)) or process.config
        rules = self._parts.rules.of(process.address, config)
        rights = intersect(Rights(self._parts.tools_of(process.spec)), Rights(mail.rights))
        body = {
            "turn": ident,
            "message": mail.id,
            "address": process.address,
            "session": mail.session,
            "attempt": before.attempt + 1 if before else 1,
            "config": config,
            "result_bytes": before.result_bytes if before else self._bounds.tool_result_bytes,
            "ends": len(before.told_ends()) if before else 0,
            "withheld": sorted(before.withheld if before else _withheld(rules, rights, mail)),
        }
        started = Draft(
            "turn.started", body, pid=process.pid, subject=ident, trace=mail.trace, cause=mail.seq
        )
        self._recorder.commit([started])
        self._signals.tell(SessionRead(process.address, mail.session))
        process.turn = ident
        process.asked, process.prepared, process.calls_s = set(), set(), {}
        turn = self._state.turns[ident]
        process.known, process.ops = len(turn.calls), set()
        process.time = TurnTime(rules.total_s, asyncio.get_running_loop().time)
        self._watch(process)
        process.rights = intersect(rights, Rights(self._parts.left_to(mail.sender))).tools or frozenset()
        session = self._state.sessions.get((process.address, mail.session))
        message = Message(
            mail.id,
            mail.sender,
            mail.text,
            mail.session,
            mail.wants_reply,
            mail.kind,
            turn.told_ends(),
            mail.topic,
            ident,
            mail.trace.hex() if any(mail.trace) else "",
            mail.deadline_us,
            mail.inbound,
        )
        self._watchers.emit(
            mail.id, {"event": "turn", "turn": ident, "pid": process.pid, "attempt": body["attempt"]}
        )
        history = session.history() if session is not None else []
        told = sorted((rights.tools or frozenset()) - frozenset(turn.withheld))
        try:
            if config != process.config:
                process.config = config
                self._cells.configure(process.pid, merged(json.loads(config), process.spec.config))
            self._cells.deliver(process.pid, ident, message, history, told, self._parts.sizes_of(told))
        except Invalid as error:
            self.cut_short(process, "error", str(error))

    # -- answering -----------------------------------------------------------------------------------------------

    def answer(self, turn: Turn, ordinal: str, outcome: CallOutcome) -> None:
        """Hand a recorded outcome to whoever runs the turn now and asked for it; held up while the disk is behind."""
        self._recorder.ledger.when_room(lambda: self._hand_over(turn, ordinal, outcome))
        self._look_at_budgets()

    def asks(self, process: LiveProcess, turn: Turn, ordinal: str) -> bool:
        """Whether ``process`` still runs the turn and waits for this call."""
        if self.has_ended(turn.id) or process.turn != turn.id:
            return False
        asked = ordinal in process.asked or ordinal in process.prepared
        return self._live.at(turn.address) is process and asked

    def hold(self, process: LiveProcess, turn: Turn, ordinal: str, size: int) -> bool:
        """Count what a call costs until it has its outcome, or more than was thought. False: with it the calls without
        an outcome cost too much, and the turn is cut short. Raises LedgerUnavailable.
        """
        asked, bounds = self._live.asked, self._bounds
        size = max(size, asked.size(turn.id, ordinal))
        why = asked.too_much(turn.id, ordinal, size, bounds.asked_bytes, bounds.all_asked_bytes)
        if why:
            self.cut_short(process, "error", why)
            return False
        asked.hold(turn.id, ordinal, size)
        return True

    def want_whole(self, turn: Turn, ordinal: str) -> None:
        """Have whoever runs the turn now, and waits for this call, make it once more and say all of it."""
        process = self._live.at(turn.address)
        if process is not None and self.asks(process, turn, ordinal):
            round_, index = ordinal.split(".")
            self._cells.say_whole(process.pid, turn.id, int(round_), int(index))

    def _hand_over(self, turn: Turn, ordinal: str, outcome: CallOutcome) -> None:
        self._live.asked.release(turn.id, ordinal)
        process = self._live.at(turn.address)
        if process is None or process.turn != turn.id or ordinal not in process.asked:
            return
        process.asked.discard(ordinal)
        process.calls_s.pop(ordinal, None)
        round_, index = ordinal.split(".")
        self._cells.result(process.pid, turn.id, int(round_), int(index), outcome)

    # -- ending --------------------------------------------------------------------------------------------------

    def done(self, pid: int, ident: str, result: TurnResult) -> None:
        """The behaviour returned. What is too long, or no JSON, ends the turn with status error."""
        process = self._live.get(pid)
        turn = self._state.turns.get(ident)
        if process is None or turn is None or process.turn != ident:
            return
        status: str = result.status
        remember: list[Any] = []
        try:
            reply = text_of(result.reply, "the reply", self._bounds.reply_bytes)
            remember = plain(list(result.remember), "remember", self._bounds.session_bytes)
        except KernelError as error:
            status, reply = "error", f"the behaviour's result was refused: {error}"
        self._end(process, turn, status, reply, remember, shown_stages(result.stages))

    def _watch(self, process: LiveProcess) -> None:
        """See that the turn of ``process`` ends, whatever else goes wrong: its mailbox waits behind it."""
        loop, limit_s = asyncio.get_running_loop(), self.limit_s(process.address)
        left_s = self._time_left_s(self._state.turns[process.turn])
        process.overdue = loop.call_later(min(limit_s, left_s), self._overdue, process, process.turn)
        self._look_at_time(process, process.turn)

    def _look_at_time(self, process: LiveProcess, ident: str) -> None:
        """See that nothing more is begun once its turn has taken all the time that it may; and that it ends then."""
        time, loop = process.time, asyncio.get_running_loop()
        time.cancel()
        if time.limit_s is None or process.turn != ident or self._live.get(process.pid) is not process:
            return
        left_s = time.left_s()
        if left_s > 0:
            time.timer = loop.call_later(max(left_s, LEAST_LOOK_S), self._look_at_time, process, ident)
            return
        if time.over and process.state is not ProcessState.SUSPENDED:
            self.cut_short(process, "error", time.over)
            return
        if not time.over:
            time.over = f"the turn has taken {time.limit_s:g} s, the most it may (total_timeout_secs)"
            self._signals.say(TimeOver(ident, time.over))
        time.timer = loop.call_later(OVERTIME_S, self._look_at_time, process, ident)

    def stands(self, turn: Turn, waits: bool) -> None:
        """A turn waits for what does not count as its time, or does no more."""
        if (process := self._runs(turn)) is not None:
            (process.time.hold if waits else process.time.go_on)()

    def limit_s(self, address: str) -> float:
        """How long a turn of the process at ``address`` may take: what its spec says, where the node allows more."""
        slot, allowed_s = self._state.slots.get(address), self._bounds.turn_timeout_s
        own_s = None if slot is None else slot.spec.turn_timeout_s
        return allowed_s if own_s is None else min(own_s, allowed_s)

    def _overdue(self, process: LiveProcess, ident: str) -> None:
        if self._live.get(process.pid) is not process or process.turn != ident:
            return
        if process.state is ProcessState.SUSPENDED:
            self._watch(process)
        else:
            turn = self._state.turns.get(ident)
            limit_s = self.limit_s(process.address)
            short = turn is not None and self._time_left_s(turn) < limit_s
            why = "the time that its budget had left" if short else f"{limit_s:g} s"
            self.cut_short(process, "error", f"the turn did not end within {why}")

    def _time_left_s(self, turn: Turn) -> float:
        """What budgets leave a turn, without what it has taken since it was handed out."""
        payers = self._state.accounts.book.payers(turn.address, turn.mail.payer, "time_ms")
        return min((max(0, account.lines["time_ms"].left) / 1000 for account in payers), default=inf)

    def _look_at_budgets(self) -> None:
        if self._state.accounts.book.due:
            self._signals.say(BudgetsDue())

    def too_little(self, account: str, resource: Resource) -> None:
        """A question was refused since ``account`` had too little left for it."""
        self._signals.say(BudgetShort(account, resource))

    def has_ended(self, ident: str) -> bool:
        """Whether a turn that is open by the record has ended already: the disk has not taken that yet."""
        return ident in self._ends

    def _end(
        self,
        process: LiveProcess,
        turn: Turn,
        status: str,
        reply: str,
        remember: list[Any],
        stages: str = "[]",
    ) -> None:
        if self.has_ended(turn.id):
            return
        self._ends[turn.id] = End(process.pid, status, reply, remember, stages)
        self._signals.tell(TurnOver(turn.id))
        self._write_end(turn)

    def _write_end(self, turn: Turn) -> None:
        try:
            self._record_end(turn, self._ends[turn.id])
        except LedgerUnavailable:
            if (process := self._runs(turn)) is not None:
                process.rest()
            self._recorder.when_writable(("end", turn.id), lambda: self._write_end(turn))
        except Exception:  # it cannot end so: whoever ended it does it otherwise, or its deadline
            if self._ends.pop(turn.id, None) is not None and (process := self._runs(turn)) is not None:
                process.rest()
                self._watch(process)
            raise

    def _record_end(self, turn: Turn, end: End) -> None:
        status, reply = end.status, end.reply
        unit = self._recorder.unit()
        self.add_end(unit, turn, end)
        self._parts.reply(unit, turn.mail, status, reply, end.pid)
        try:
            ticket = self._recorder.commit(unit)
        except LedgerUnavailable:
            raise
        except ChainError as error:
            if not end.remember:
                raise
            why = f"what the behaviour came to cannot be recorded: {error}"
            self._record_end(turn, End(end.pid, "error", why, []))
            return
        self.histories.evict()
        del self._ends[turn.id]
        self._leave(turn)
        self._tell(turn, ticket, status, reply)
        self._look_at_budgets()
        self._go_on(turn.address)

    def add_end(self, unit: Unit, turn: Turn, end: End) -> None:
        """Add the records that end a turn, but for the answer to its message."""
        unit.add(*self._parts.settle(turn), self._ended(turn, end.pid, end.status, end.reply, end.stages))
        if end.remember:
            unit.add(self.histories.addition(turn, end.remember))

    def was_cut(self, turn: Turn, why: str, ticket: Ticket | None) -> None:
        """It is written, with ``ticket``, that a turn was cancelled: nobody runs it now, and its mailbox goes on."""
        process = self._live.at(turn.address)
        if process is not None and process.turn == turn.id:
            self._cells.end_turn(process.pid, turn.id, why)
        self._signals.tell(TurnOver(turn.id))
        self._leave(turn)
        if turn.diverged and process is not None and process.state is ProcessState.SUSPENDED:
            process.on(ProcessEvent.RESUME)
        self._tell(turn, ticket, "cancelled", why)
        self._look_at_budgets()
        self._go_on(turn.address)

    def _runs(self, turn: Turn) -> LiveProcess | None:
        """The process that is in this turn."""
        process = self._live.at(turn.address)
        return process if process is not None and process.turn == turn.id else None

    def _leave(self, turn: Turn) -> None:
        if (process := self._runs(turn)) is not None:
            process.leave_turn()
            process.since_s = asyncio.get_running_loop().time()
            if process.state is ProcessState.SUSPENDED:
                process.on(ProcessEvent.RESUME)

    def _go_on(self, address: str) -> None:
        process = self._live.at(address)
        if process is not None and process.draining:
            self._signals.say(TurnDrained(process.pid))
        else:
            self.deliver_next(address)

    def _ended(self, turn: Turn, pid: int, status: str, reply: str, stages: str) -> Draft:
        kept, _ = cut_bytes(reply, self._bounds.reply_bytes)
        body = {
            "turn": turn.id,
            "status": status,
            "reply": kept,
            "reply_hash": sha256_hex(reply),
            "call": turn.mail.asked_here,
            "stages": stages,
        }
        return Draft(
            "turn.ended", body, pid=pid, subject=turn.id, trace=turn.mail.trace, cause=turn.started_seq
        )

    def _tell(self, turn: Turn, ticket: Ticket | None, status: str, reply: str) -> None:
        """Tell the end to whoever waits for it once it is on the disk, however long that refuses: it is told once."""
        end = {"status": status, "reply": reply, "turn": turn.id}
        self._after.do(lambda: self._watchers.ended(turn.mail.id, end), ticket)

    def cut_short(self, process: LiveProcess, status: str, why: str) -> bool:
        """End the open turn of a process from outside (``error``); its message is acknowledged. False
        when there is none, or it has ended already.
        """
        turn = self._state.turns.get(process.turn)
        if turn is None or self.has_ended(turn.id):
            return False
        self._cells.end_turn(process.pid, turn.id, why)
        self._end(process, turn, status, why, self.left_by(turn, why))
        return True

    def left_by(self, turn: Turn, why: str) -> list[dict[str, Any]]:
        """What the session keeps of a turn that is ended before it came to its end."""
        return self._parts.partial.left_by(turn, why)

    def diverge(self, process: LiveProcess, turn: Turn, call: Call, asked: dict[str, Any]) -> None:
        """A resumed turn asked something else than ``call``: park it. Raises LedgerUnavailable, and then nothing is
        changed.
        """
        self._recorder.commit([draft_divergence(turn, call, asked, process.pid)])
        why = f"diverged at call {call.ordinal}: a resumed turn must ask what it asked before"
        self._cells.end_turn(process.pid, turn.id, why)
        self._signals.tell(TurnOver(turn.id))
        process.leave_turn()
        process.since_s = asyncio.get_running_loop().time()
        self._watchers.emit(turn.mail.id, {"event": "diverged", "turn": turn.id, "ordinal": call.ordinal})
        if process.draining:
            self._signals.say(TurnDrained(process.pid))
        else:
            self.deliver_next(process.address)

    def exited(self, end: ProcessExited) -> None:
        """A process has ended, maybe in the middle of a turn."""
        turn = self._state.turns.get(end.process.turn)
        if turn is None:
            return
        self._watchers.emit(turn.mail.id, {"event": "exit", "pid": end.process.pid, "reason": end.reason})
        with contextlib.suppress(LedgerUnavailable):  # not now; after its next end, then
            if turn.crashes >= self._bounds.turn_attempts:
                self.poison(turn, end.process.pid, f"{turn.crashes} incarnations crashed")
            elif turn.losses >= self._bounds.turn_losses:
                self.poison(turn, end.process.pid, f"the cells of {turn.losses} incarnations died")

    def poison(self, turn: Turn, pid: int, what: str) -> None:
        """A turn whose process or cell died too often: its message becomes a dead letter."""
        if self.has_ended(turn.id):
            return
        self._fail(turn, pid, "poison", f"poison: {what} while handling it")

    def _fail(self, turn: Turn, pid: int, status: str, why: str) -> None:
        self._parts.dead_letter(
            turn.mail.id, why, (*self._parts.settle(turn), self._ended(turn, pid, status, why, "[]")), status
        )


def _withheld(rules: TurnRules, rights: Rights, mail: Mail) -> frozenset[str]:
    """Of the tools of a turn those that configuration gives its sender no use of."""
    asker = Asker(mail.sender, channel_of(mail.sender), identity=mail.identity)
    return withheld(rules, rights.tools or frozenset(), roles_of(asker))
