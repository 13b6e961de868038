"""What an answer is told with: who gave it, what it took. Made of the turn's trace: the record's word. Pure."""

from __future__ import annotations

from kernel.operations.messages import ReplyMetadata
from kernel.slices.feed.agent_trace import AgentTrace

SCORE = "score"
"""The stage that says how a turn went."""


def metadata_of(trace: AgentTrace | None) -> ReplyMetadata | None:
    """Of a turn that has ended; None of one that is not known, or goes on, as that which a message has joined."""
    if trace is None or trace.completed_at_us is None:
        return None
    asked = trace.model_calls
    costs = [call.cost_millionths for call in asked if call.cost_millionths is not None]
    return {
        "provider": trace.provider_used,
        "model": trace.model_used,
        "tool_rounds": len({call.step.partition(".")[0] for call in trace.tool_calls}),
        "tool_calls": len(trace.tool_calls),
        "input_tokens": sum(call.tokens[0] for call in asked),
        "output_tokens": sum(call.tokens[1] for call in asked),
        "cached_tokens": sum(call.cached_tokens for call in asked),
        "cost_millionths": sum(costs) if costs else None,
        "cost_unknown": len(asked) - len(costs),
        "fallback_attempts": trace.fallback_attempts,
        "attempts": trace.attempts,
        "score": next((s.metadata.get("why", "") for s in trace.stages if s.stage == SCORE), ""),
    }
