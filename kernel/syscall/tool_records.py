"""What the ledger holds of one tool call: pure drafts, and the outcome as state and cell see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chain.ledger.ledger import PREVIOUS, Draft
from kernel.abi import OutcomeStatus, ToolDeclaration
from kernel.cell.protocol import ToolOutcome
from kernel.policy.proposal import Verdict
from kernel.slices.calls import OpenIntent
from kernel.slices.turns import Call, Turn
from kernel.values import cut_bytes, sha256_hex


def follow_up(intent: OpenIntent, subject: str, kind: str, body: dict[str, Any], cause: int) -> Draft:
    """An entry about a call that has an intent, whether or not its turn is still open: of the incarnation whose intent
    it is, which may be gone, and another have its address.
    """
    head = {"turn": intent.turn, "ordinal": intent.call.ordinal, "tool": intent.call.name}
    return Draft(kind, {**head, **body}, intent.call.pid, subject, intent.trace, cause)


@dataclass(slots=True)
class CallSite:
    """Where a call stands: its turn, its ordinal there, the tool, and the incarnation that asks. Treat as frozen."""

    turn: Turn
    ordinal: str
    tool: str
    pid: int
    subject: str

    @property
    def key(self) -> tuple[str, str]:
        return self.turn.id, self.ordinal

    @property
    def call(self) -> Call | None:
        """What is recorded of it so far."""
        return self.turn.calls.get(self.ordinal)

    def draft(self, kind: str, body: dict[str, Any], cause: int = PREVIOUS) -> Draft:
        head = {"turn": self.turn.id, "ordinal": self.ordinal, "tool": self.tool}
        return Draft(kind, {**head, **body}, self.pid, self.subject, self.turn.mail.trace, cause)

    def proposed(self, call_hash: str, arguments: str) -> Draft:
        """``arguments``: canonical when they could be read, else the beginning of what came."""
        answered = self.turn.last_answer_seq
        body = {"call_hash": call_hash, "arguments": arguments, "arguments_hash": sha256_hex(arguments)}
        return self.draft("tool.proposed", body, answered if answered >= 0 else self.turn.started_seq)

    def verdict(self, verdict: Verdict) -> Draft:
        return self.draft("tool.verdict", {"decision": verdict.decision, "reasons": list(verdict.reasons)})

    def intent(
        self,
        arguments: str,
        declaration: ToolDeclaration,
        boot: str,
        effect_id: str,
        cause: int,
        replaces: str,
    ) -> Draft:
        """The next attempt at the call; what a worker is shown before it runs anything.

        ``effect_id``: of the first attempt. ``replaces``: which version of its file there was before that, empty when
        it writes none.
        """
        call = self.call
        body = {
            "arguments_hash": sha256_hex(arguments),
            "effects": declaration.effects,
            "boot": boot,
            "pid": self.pid,
            "attempt": 1 if call is None else call.attempt + 1,
            "replaces": replaces,
            "on_doubt": declaration.then,
            "effect_id": effect_id,
            "probe": declaration.probe,
        }
        return self.draft("tool.intent", body, cause)

    def outcome(self, outcome: Outcome, cause: int = PREVIOUS) -> Draft:
        return self.draft("tool.outcome", outcome.body(), cause)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended. ``text`` is cut to ``limit_bytes`` in the record; ``full_hash`` is of all of it."""

    status: OutcomeStatus
    text: str
    attempt: int
    limit_bytes: int
    full_hash: str = ""
    truncated: bool = False

    def body(self) -> dict[str, Any]:
        kept, cut = cut_bytes(self.text, self.limit_bytes)
        return {
            "status": self.status,
            "result": kept,
            "result_hash": self.full_hash or sha256_hex(self.text),
            "truncated": self.truncated or cut,
            "attempt": self.attempt,
        }


def for_cell(outcome: dict[str, Any], limit_bytes: int) -> ToolOutcome:
    """A recorded outcome as a cell gets it: at most ``limit_bytes`` of the text."""
    text, cut = cut_bytes(outcome["result"], limit_bytes)
    return ToolOutcome(outcome["status"], text, cut or outcome["truncated"])
