"""The types of tasks there are."""

from __future__ import annotations

TASK_TYPES = (
    "code_generation",
    "code_review",
    "research",
    "creative",
    "analysis",
    "math",
    "tool_use",
    "chat",
)
"""In this order stand the columns of :mod:`cognition.classification.weights`."""
