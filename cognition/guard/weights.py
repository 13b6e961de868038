"""What each signal weighs, by who speaks: made by ``python -m tools.guard_weights``, not by hand.

A text whose signals come to 1 within a few sentences is suspicious. What is told to an assistant is no wonder in a
message to it, and is one on a page that it was to read. The columns: :class:`cognition.guard.injection.Source`.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, tuple[float, float, float]] = {
    "override": (1.2, 1.1, 1.1),
    "override_quoted": (0.4, 0.35, 0.35),
    "drops_rules": (0.75, 0.5, 0.5),
    "drops_user": (0.55, 0.95, 0.95),
    "shows_rules": (1.55, 1.25, 1.25),
    "told_before": (1.0, 0.5, 0.5),
    "told_out": (0.75, 0.4, 0.4),
    "secret": (0.65, 0.3, 0.3),
    "secret_out": (0.55, 0.3, 0.3),
    "secret_apart": (0.7, 0.5, 0.5),
    "all_secrets": (0.75, 0.45, 0.45),
    "to_the_agent": (0.1, 0.6, 0.6),
    "agent_called": (0.0, 0.8, 0.8),
    "agent_ought": (0.1, 0.4, 0.4),
    "agent_may": (0.0, 0.1, 0.1),
    "agent_and_user": (0.1, 0.05, 0.05),
    "hides": (0.2, 0.4, 0.4),
    "hides_from_user": (0.55, 0.95, 0.95),
    "free": (0.9, 0.75, 0.75),
    "free_self": (0.6, 0.55, 0.55),
    "turn": (0.15, -0.1, -0.1),
    "turn_of_rules": (0.15, 0.0, 0.0),
    "no_rules": (1.05, 0.25, 0.25),
    "no_gate": (1.05, 0.6, 0.6),
    "your_prompt": (1.1, 0.95, 0.95),
    "your_rules": (0.85, 0.6, 0.6),
    "origin": (0.7, 0.0, 0.0),
    "origin_act": (0.95, 0.15, 0.15),
    "power": (0.35, 0.3, 0.3),
    "approved": (0.4, 0.65, 0.65),
    "approved_act": (0.55, 0.7, 0.7),
    "acts_on_user": (0.6, 0.55, 0.55),
    "data_out": (0.75, 0.95, 0.95),
    "tool_words": (0.4, 0.7, 0.7),
    "decode": (0.05, -0.05, -0.05),
    "do_it": (0.25, -0.05, -0.05),
    "decode_and_do": (1.1, 1.05, 1.05),
    "role_mark": (1.4, 1.6, 1.6),
    "false_end": (1.05, 1.35, 1.35),
    "false_voice": (0.75, 0.7, 0.7),
    "vocative": (0.0, 1.35, 1.35),
    "far_call": (0.4, 1.55, 1.55),
    "image_leak": (1.25, 1.25, 1.25),
    "fill_in": (0.55, 0.6, 0.6),
    "switched_off": (0.9, 0.65, 0.65),
    "hidden": (-0.1, -0.05, -0.05),
    "hidden_order": (0.5, 0.75, 0.75),
    "disguised": (1.55, 1.5, 1.5),
    "invisible_text": (1.2, 1.2, 1.2),
    "about_attacks": (-0.6, -0.6, -0.6),
    "talk": (-0.65, -0.6, -0.6),
    "asks": (-0.35, -0.4, -0.4),
}
