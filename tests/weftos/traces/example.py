"""A trace."""

from __future__ import annotations

from kernel.slices.feed.agent_trace import AgentTrace, ModelCallTrace, Stage, ToolCallTrace, Wait

EXAMPLE = AgentTrace(
    trace_id="0123456789abcdef" * 2,
    turn="t7",
    parent="",
    session_key="/user/ada main",
    started_at_us=1_000_000,
    completed_at_us=9_000_000,
    attempts=2,
    stages=(Stage("execute", 1_000_000, 3_000_000, "continue", {"why": "it was asked"}),),
    tool_calls=(ToolCallTrace("2.0", "pay", "timeout", 4_000_000, 1_000_000, (4_500_000,)),),
    model_calls=(ModelCallTrace("1.0", "p", "m", "ok", "", (7, 3), 0, 5, "stop", 2_000_000, 1_000_000, ()),),
    waits=(Wait("2.0", "in_doubt: done", 5_000_000, 2_000_000),),
    provider_used="p",
    model_used="m",
    total_tokens=10,
    fallback_attempts=0,
    outcome="ok",
)
