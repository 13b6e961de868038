"""What stands before the exchange at each question: system prompt, history, the question, what memory has on it.

The message is judged before a model reads it, and so is what memory gives: text that reads like orders is flagged,
stripped or refused, as ``[guard]`` says.
"""

from __future__ import annotations

from dataclasses import replace

from cognition.context import Record, node_note
from cognition.guard.admission import fault_of, with_attachments
from cognition.guard.guard import MESSAGE_NOTE, REFUSED, guarded_message, guarded_result
from cognition.recall.context import TOOL as RECALL_TOOL
from cognition.recall.context import recall_call, recall_records
from cognition.stages.prompted import prompted
from cognition.turn.agent_turn import AgentTurn
from cognition.turn.outcome import Abort, Continue, Outcome


async def context_guard(turn: AgentTurn) -> Outcome:
    turn = await prompted(turn)
    attachments = turn.message.inbound.attachments if turn.message.inbound is not None else ()
    if fault := fault_of(turn.message.text, attachments, turn.guard):
        turn.sys.log(f"guard: {fault}")
        return Abort(fault)
    guarded = guarded_message(turn.message.text, turn.guard)
    if guarded.signals:
        turn.sys.log(f"injection: the message ({guarded.why})")
        if turn.guard.injection == "refuse":
            return Abort(REFUSED.format(signals=guarded.why))
        if turn.guard.injection == "strip":
            turn = replace(turn, exchange=({**turn.question, "content": guarded.text}, *turn.exchange[1:]))
    if attachments:
        text, signals = with_attachments(str(turn.question["content"]), attachments, turn.guard)
        turn = replace(turn, exchange=({**turn.question, "content": text}, *turn.exchange[1:]))
        if signals:
            turn.sys.log(f"injection: an attachment ({signals})")
    noted = turn.guard.injection == "flag" and guarded.signals
    notes = (node_note(MESSAGE_NOTE),) if noted else ()
    context = (*bare_context(turn), *notes, *await _recalled(turn))
    return Continue(replace(turn, context=context), f"injection: {guarded.why}" if guarded.signals else "")


def bare_context(turn: AgentTurn) -> tuple[Record, ...]:
    """System prompt, history and question: what a model is shown where no stage has put a context together."""
    return (*turn.system, *turn.history, turn.question)


async def _recalled(turn: AgentTurn) -> tuple[Record, ...]:
    """What memory has on the message, for this turn alone. Without memory the turn goes on without it."""
    call, budget = recall_call(turn.message.text), turn.config.recall_tokens
    if not budget or call is None or RECALL_TOOL not in await turn.sys.tools() or not turn.wants(RECALL_TOOL):
        return ()
    [result] = await turn.sys.call_tools([call])
    if result.status != "ok":
        turn.sys.log(f"recall: {result.status}")
    guarded = guarded_result(RECALL_TOOL, result.text, turn.guard)
    if guarded.signals:
        turn.sys.log(f"injection: memory ({guarded.why})")
        result = replace(result, text=guarded.text)
    return recall_records(call, result, budget)
