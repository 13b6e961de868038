"""Both state tables, every pair of state and event."""

from itertools import product

import pytest

from kernel.errors import StateError
from kernel.model.states import (
    EXIT_KINDS,
    PROCESS_TABLE,
    REASONS,
    SLOT_TABLE,
    ProcessEvent,
    ProcessState,
    SlotEvent,
    SlotState,
    advance,
    exit_kind,
    is_blameless,
    is_orderly,
    is_reason,
    shutdown_because,
)

# State by state: what each event leads to, in words; what is not listed must be refused.
PROCESS = {
    "starting": {"started": "running", "stop": "stopping", "exit": "exited"},
    "running": {"suspend": "suspended", "stop": "stopping", "exit": "exited"},
    "suspended": {"resume": "running", "stop": "stopping", "exit": "exited"},
    "stopping": {"started": "stopping", "stop": "stopping", "exit": "exited"},
    "exited": {},
}
SLOT = {
    "running": {
        "started": "running",
        "failed": "restarting",
        "exceeded": "parked",
        "park": "parked",
        "ended": "stopped",
        "stop": "stopped",
    },
    "restarting": {
        "started": "running",
        "failed": "restarting",
        "exceeded": "parked",
        "ended": "stopped",
        "stop": "stopped",
    },
    "parked": {"stop": "stopped", "start": "running"},
    "stopped": {"stop": "stopped", "start": "running"},
}


@pytest.mark.parametrize(("state", "event"), list(product(ProcessState, ProcessEvent)))
def test_process_table(state: ProcessState, event: ProcessEvent) -> None:
    expected = PROCESS[state].get(event)
    if expected is None:
        with pytest.raises(StateError, match=f"{event} cannot happen in state {state}"):
            advance(PROCESS_TABLE, state, event)
    else:
        assert advance(PROCESS_TABLE, state, event) == expected


@pytest.mark.parametrize(("state", "event"), list(product(SlotState, SlotEvent)))
def test_slot_table(state: SlotState, event: SlotEvent) -> None:
    expected = SLOT[state].get(event)
    if expected is None:
        with pytest.raises(StateError, match=f"{event} cannot happen in state {state}"):
            advance(SLOT_TABLE, state, event)
    else:
        assert advance(SLOT_TABLE, state, event) == expected


def test_every_process_state_can_be_reached_and_only_exited_is_final() -> None:
    reached = {ProcessState.STARTING}
    while more := {to for state in reached for to in PROCESS_TABLE[state].values()} - reached:
        reached |= more
    assert reached == set(ProcessState)
    assert [state for state in ProcessState if not PROCESS_TABLE[state]] == [ProcessState.EXITED]


def test_only_a_start_that_was_asked_for_leads_out_of_parked_and_stopped() -> None:
    idle = {SlotState.PARKED, SlotState.STOPPED}
    ways_out = {e for state in idle for e, to in SLOT_TABLE[state].items() if to not in idle}
    assert ways_out == {SlotEvent.START}


@pytest.mark.parametrize("reason", [*sorted(REASONS), shutdown_because("node stops")])
def test_reasons(reason: str) -> None:
    assert is_reason(reason)
    assert is_orderly(reason) == (reason in ("normal", "shutdown", "shutdown:node stops"))
    assert is_blameless(reason) == (reason == "cell_lost")


@pytest.mark.parametrize("text", ["", "shutdown:", "shutdow", "Normal", "shutdownx", "crash:x"])
def test_what_is_no_reason(text: str) -> None:
    assert not is_reason(text)


def test_every_reason_is_technical_logical_or_orderly() -> None:
    kinds = {
        kind: {reason for reason in REASONS if exit_kind(reason) == kind} for kind in EXIT_KINDS.values()
    }
    assert kinds == {
        "orderly": {"normal", "shutdown"},
        "technical": {"crash", "cell_lost", "timeout", "killed", "noproc", "noconnection"},
        "logical": {"no_progress", "refused", "diverged", "budget"},
    }
    assert exit_kind(shutdown_because("crash")) == "orderly"
    assert exit_kind("of a later version") == "technical"
    assert {reason for reason in REASONS if is_orderly(reason)} == kinds["orderly"]
