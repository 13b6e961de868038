"""Probes: a tool that knows its effects by their ids is asked what became of one, before its policy on doubt decides.

A probe is somebody else's code, so it is asked in the tool's worker, within a deadline, and whatever it does but
answer is **unknown**, with the reason on record. **Landed**, and the call has its outcome. **Not landed**, and it is
made again when somebody waits for it. **Unknown**, and the doubt goes on as if there were no probe.

A probe knows what has landed, and not what is to land yet. So it is **not asked** of a call whose worker could not be
ended, not even at a later boot.

A probe knows an effect by its id. So it is asked of no call of which an attempt may have been made without one: by an
earlier version, or before the tool had a probe.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Literal

from chain.ledger.ledger import Draft
from kernel.abi import ProbeAnswer
from kernel.bounds import Bounds
from kernel.errors import KernelError, fault_of
from kernel.slices.calls import OpenIntent
from kernel.slices.turns import Call
from kernel.state.state import State
from kernel.syscall.doubts import MAX_ATTEMPTS
from kernel.syscall.settlement import Settlement
from kernel.toolbox.registry import Registry
from kernel.values import clean, cut_bytes
from kernel.worker.workers import WorkerCall, WorkerResult, Workers

EFFECT_ID_BITS = 128
WHY_BYTES = 500


def new_effect_id(chance: Random) -> str:
    """One that nobody guesses, and that fits where others take an idempotency key."""
    return f"{chance.getrandbits(EFFECT_ID_BITS):0{EFFECT_ID_BITS // 4}x}"


@dataclass(frozen=True, slots=True)
class Said:
    """What a probe answered, or that it was not asked. ``text``: what the tool would have returned, where it landed,
    else why it is unknown.
    """

    answer: ProbeAnswer | Literal["not_asked"]
    text: str = ""
    full_hash: str = ""
    truncated: bool = False


def said_by(result: WorkerResult) -> Said:
    """The answer in what came from a worker."""
    match result.status, result.landed:
        case "ok", True:
            return Said("landed", result.text, result.full_hash, result.truncated)
        case "ok", False:
            return Said("not_landed")
        case "ok", _:
            return Said("unknown", _line(result.text) or "the probe does not know, and does not say why")
        case "timeout", _:
            return Said("unknown", "the probe did not answer in time")
    return Said("unknown", _line(f"the probe failed: {result.text}"))


def _line(text: str) -> str:
    return cut_bytes(" ".join(clean(text).split()), WHY_BYTES)[0]


class Probes:
    """Asks them, and drafts what comes of their answers."""

    def __init__(
        self, workers: Workers, registry: Registry, state: State, settlement: Settlement, bounds: Bounds
    ) -> None:
        self._workers = workers
        self._registry = registry
        self._state = state
        self._settlement = settlement
        self._bounds = bounds

    def can_ask(self, call: Call) -> bool:
        """Whether there is a probe that knows each attempt which may have been made."""
        entry = self._registry.get(call.name)
        return call.probe and entry is not None and entry.declaration.probe

    async def ask(self, intent: OpenIntent) -> Said | None:
        """What the probe of the call's tool says, whatever it does; None when it has none."""
        if not self.can_ask(intent.call):
            return None
        wait_s = self._bounds.probe_wait_s
        try:
            async with asyncio.timeout(wait_s):
                return said_by(await self._workers.probe(self._call(intent)))
        except TimeoutError:
            return Said("unknown", f"no worker had asked the probe after {wait_s:g} s")
        except KernelError as error:
            return Said("unknown", _line(f"the probe was not answered: {error}"))
        except Exception as error:  # the boundary: whatever goes wrong here, the call is in doubt as before
            return Said("unknown", _line(f"the node failed at asking the probe: {fault_of(error)}"))

    def of_left(self, intent: OpenIntent) -> Said | None:
        """In place of an answer, of a call whose worker may act still; None when it has no probe."""
        return Said("not_asked", "what has not landed may land yet") if self.can_ask(intent.call) else None

    def _call(self, intent: OpenIntent) -> WorkerCall:
        call, timeout_s = intent.call, self._bounds.probe_timeout_s
        return WorkerCall(
            call.name,
            call.arguments,
            b"",
            b"",
            b"",
            self._workspace(intent),
            timeout_s,
            effect_id=call.effect_id,
            replaces=call.replaces,
        )

    def _workspace(self, intent: OpenIntent) -> str:
        """That of whoever made the call; empty when another process has its address, or none."""
        slot = self._state.slots.get(intent.address)
        return slot.spec.workspace if slot is not None and slot.spawned_seq < intent.call.seq else ""

    # -- what is recorded ----------------------------------------------------------------------------------------

    def drafts(self, intent: OpenIntent, said: Said, why: str, *, turn_open: bool) -> list[Draft]:
        """The answer, and what it makes of the call. ``why``: what had brought it into doubt."""
        asked = self._asked(intent, said)
        match said.answer:
            case "landed":
                return [asked, *self._resolved(intent, "done"), self._landed(intent, said)]
            case "not_landed" if turn_open and intent.call.attempt < MAX_ATTEMPTS:
                return [asked, self._again(intent)]
            case "not_landed":
                lost = self._settlement.doubts.outcome(intent, "lost", "not done: its tool's probe said so")
                return [asked, *self._resolved(intent, "lost"), lost]
        knows = "was not asked" if said.answer == "not_asked" else "does not know"
        why = f"{why}, and its tool's probe {knows} ({said.text})"
        return [asked, *self._settlement.doubted(intent, why, turn_open=turn_open)]

    def _asked(self, intent: OpenIntent, said: Said) -> Draft:
        call, why = intent.call, said.text if said.answer in ("unknown", "not_asked") else ""
        body = {"effect_id": call.effect_id, "attempt": call.attempt, "answer": said.answer, "why": why}
        return self._settlement.follow_up(intent, "tool.probed", body, call.intent_seq)

    def _landed(self, intent: OpenIntent, said: Said) -> Draft:
        call, settlement = intent.call, self._settlement
        outcome = settlement.outcome("ok", said.text, call.attempt, said.full_hash, said.truncated)
        return settlement.follow_up(intent, "tool.outcome", outcome.body(), call.intent_seq)

    def _resolved(self, intent: OpenIntent, resolution: str) -> list[Draft]:
        """That a doubt is one no longer; nothing for a call that was none yet."""
        body = {"resolution": resolution, "by": "probe"}
        draft = self._settlement.follow_up(intent, "tool.resolved", body, intent.call.intent_seq)
        return [draft] if intent.call.doubt else []

    def _again(self, intent: OpenIntent) -> Draft:
        by = "probe" if intent.call.doubt else "node: its tool's probe said that it has not landed"
        body = {"resolution": "retry", "by": by}
        return self._settlement.follow_up(intent, "tool.resolved", body, intent.call.intent_seq)
