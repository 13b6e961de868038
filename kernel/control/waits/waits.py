"""What each process waits for, read from the parts that know; :mod:`kernel.control.waits.waiting` words it."""

from __future__ import annotations

import json
from dataclasses import replace

from kernel.cells.cell_table import CellLimits
from kernel.control.waits.waiting import Around, CallFacts, Waiting, of_call, waiting
from kernel.kernel import Kernel
from kernel.model.states import ProcessState
from kernel.operations.processes import Wait
from kernel.operations.rights.budgets import PAUSED_BY
from kernel.process.live import LiveProcess
from kernel.process.slots.specs import child_spec
from kernel.slices.calls import call_id
from kernel.slices.tree.slots import Slot
from kernel.slices.turns import Turn


class Waits:
    """Costs as much for each slot, however many there are."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._bounds = kernel.env.bounds
        self._now_s = kernel.env.clock.now_s
        self._start_s = CellLimits().wait_s + self._bounds.start_timeout_s

    def row(self, slot: Slot) -> Wait | None:
        """What ``slot`` waits for, as people are told."""
        processes, live = self._kernel.processes, self._kernel.live.at(slot.address)
        found = waiting(slot, live, processes.supervisors.child(slot.address), self._around(slot, live))
        if found is None:
            return None
        now_s = self._now_s()
        return {
            "kind": found.kind,
            "of": found.of,
            "waited_s": None if found.since_s is None else round(max(0.0, now_s - found.since_s), 3),
            "left_s": None if found.until_s is None else round(max(0.0, found.until_s - now_s), 3),
        }

    def _around(self, slot: Slot, process: LiveProcess | None) -> Around:
        if process is None:
            return self._of_what_is_down(slot)
        turn = self._kernel.state.turns.get(process.turn) if process.turn else None
        command, asked_s = self._decision(slot, process)
        return Around(
            calls=() if turn is None else self._calls(process, turn),
            turn_until_s=None if process.overdue is None else process.overdue.when(),
            ending=turn is not None and turn.id in self._kernel.ends,
            has_mail=bool(self._kernel.state.mail.get(slot.address)),
            disk_refuses=self._disk_refuses(),
            decision=command,
            asked_s=asked_s,
            below=self._ends_above(slot, process),
            start_s=self._start_s,
            shutdown_s=child_spec(slot.spec).shutdown_s,
        )

    def _of_what_is_down(self, slot: Slot) -> Around:
        supervisor = self._kernel.processes.supervisors.get(slot.parent)
        group = supervisor.group if supervisor is not None else None
        failed = supervisor.table.get(group.failed) if supervisor is not None and group is not None else None
        return Around(
            down_s=self._when(slot.last_exit.time_us) if slot.last_exit.time_us else None,
            failed=group.failed if group is not None else "",
            group_until_s=failed.due_s
            if failed is not None and group is not None and group.waiting
            else None,
        )

    def _disk_refuses(self) -> bool:
        recorder = self._kernel.recorder
        return recorder.is_behind or recorder.ledger.read_only is not None

    def _when(self, time_us: int) -> float:
        """A time of the ledger on the node's clock."""
        return self._now_s() - (self._kernel.recorder.ledger.now_us() - time_us) / 1e6

    def _decision(self, slot: Slot, process: LiveProcess) -> tuple[str, float]:
        """What a person is to decide of a process that is in no turn, and since when."""
        if process.turn:
            return "", 0.0
        if slot.suspended:
            grant = f"weftos budget grant {slot.address} RESOURCE AMOUNT, or "
            paused = grant if slot.suspended == PAUSED_BY else ""
            return f"{paused}weftos resume {slot.address}", self._when(slot.suspended_us)
        if process.state is not ProcessState.SUSPENDED:
            return "", 0.0
        turn = self._kernel.state.turn_of(slot.address)
        if turn is None or not turn.diverged:
            return "", 0.0
        return f"weftos divergences decide {turn.id}", self._when(json.loads(turn.diverged)["time_us"])

    def _ends_above(self, slot: Slot, process: LiveProcess) -> bool:
        """Whether it is to end once what is below it has."""
        supervisors = self._kernel.processes.supervisors
        return (
            slot.address in supervisors
            and supervisors.is_ending(slot.address)
            and (process.draining or slot.spec.type == "supervisor")
        )

    def _calls(self, process: LiveProcess, turn: Turn) -> tuple[Waiting, ...]:
        refuses = self._disk_refuses()
        return tuple(
            of_call(
                turn.calls.get(ordinal), self._facts(process, turn, ordinal, since_s), disk_refuses=refuses
            )
            for ordinal, since_s in process.calls_s.items()
        )

    def _facts(self, process: LiveProcess, turn: Turn, ordinal: str, since_s: float) -> CallFacts:
        call, attempt = turn.calls.get(ordinal), self._kernel.attempts.get(turn.id, ordinal)
        ident = call_id(turn.id, ordinal)
        if call is None or call.outcome is not None:
            return CallFacts(ident, since_s)
        if call.op == "model":
            return self._of_question(CallFacts(ident, since_s), turn, ordinal)
        timer = attempt.timer if attempt is not None else None
        return CallFacts(
            ident,
            since_s,
            asks=", ".join(list(self._kernel.state.mail.waits_for.get(process.address, ()))[:3]),
            begun_s=attempt.begun_s if attempt is not None and attempt.begun else None,
            limit_s=self._limit_s(turn, call.name),
            due_s=timer.when() if timer is not None else None,
        )

    def _of_question(self, facts: CallFacts, turn: Turn, ordinal: str) -> CallFacts:
        facts = replace(facts, limit_s=self._bounds.model_timeout_s)
        stage = self._kernel.model_calls.stage(turn.id, ordinal)
        if stage is None:
            return facts
        match stage.name:
            case "back_off":
                return replace(facts, due_s=stage.at_s)
            case "provider_slot":
                return replace(facts, queued_s=stage.at_s)
            case "model":
                return replace(facts, begun_s=stage.at_s)

    def _limit_s(self, turn: Turn, tool: str) -> float | None:
        entry = self._kernel.registry.get(tool)
        if entry is None:
            return None
        declaration = entry.declaration
        if declaration.sandbox == "archive":
            return self._bounds.memory_timeout_s
        return self._kernel.env.rules.of_turn(turn).timeout_s(tool, declaration.timeout_s)
