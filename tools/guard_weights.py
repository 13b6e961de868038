"""Fits cognition/guard/weights.py: ``python -m tools.guard_weights``; a test tells when it is stale.

A logistic regression over the half ``tune`` of tests/corpora/injection.jsonl and the texts of tools/guard_texts.tsv,
which were written for this. What a signal is taken to weigh beforehand stands in :data:`BEFORE`, by hand, and the fit
is held to it: most signals are seen in a few texts only. The other half is not read. Whoever changes a signal runs this
again.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from cognition.guard.injection import Source, signals_in

Floats = npt.NDArray[np.float64]

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / "tests" / "corpora" / "injection.jsonl"
MORE = ROOT / "tools" / "guard_texts.tsv"
TARGET = ROOT / "cognition" / "guard" / "weights.py"
STEPS, STEP = 3_000, 0.05
SCALE = 3.5
"""What a weight of 1 is in log odds, beforehand."""
APART = 0.6
"""How much less freely the weights of users and of all others part than they move together."""
CAUTION = 0.4
"""Log odds above even at which a text is suspicious: a false alarm is worse than a miss."""

Pair = tuple[float, float]
BEFORE: dict[str, Pair] = {
    "override": (1.0, 1.0),
    "override_quoted": (0.4, 0.4),
    "drops_rules": (0.5, 0.5),
    "drops_user": (0.4, 0.75),
    "shows_rules": (1.0, 0.9),
    "told_before": (0.5, 0.3),
    "told_out": (0.5, 0.3),
    "secret": (0.2, 0.15),
    "secret_out": (0.4, 0.35),
    "secret_apart": (0.5, 0.4),
    "all_secrets": (0.5, 0.35),
    "to_the_agent": (0.2, 0.6),
    "agent_called": (0.0, 0.3),
    "agent_ought": (0.2, 0.3),
    "agent_may": (0.0, 0.2),
    "agent_and_user": (0.2, 0.3),
    "hides": (0.2, 0.4),
    "hides_from_user": (0.3, 0.5),
    "free": (0.7, 0.6),
    "free_self": (0.4, 0.4),
    "turn": (0.3, 0.3),
    "turn_of_rules": (0.3, 0.3),
    "no_rules": (0.6, 0.3),
    "no_gate": (0.5, 0.35),
    "your_prompt": (0.6, 0.5),
    "your_rules": (0.4, 0.3),
    "origin": (0.4, 0.1),
    "origin_act": (0.6, 0.2),
    "power": (0.4, 0.3),
    "approved": (0.4, 0.45),
    "approved_act": (0.4, 0.5),
    "acts_on_user": (0.2, 0.4),
    "data_out": (0.3, 0.35),
    "tool_words": (0.2, 0.35),
    "decode": (0.0, 0.0),
    "do_it": (0.0, 0.0),
    "decode_and_do": (0.8, 0.8),
    "role_mark": (1.0, 1.0),
    "false_end": (0.8, 1.0),
    "false_voice": (0.6, 0.7),
    "vocative": (0.1, 0.5),
    "far_call": (0.1, 1.0),
    "image_leak": (1.0, 1.0),
    "fill_in": (0.4, 0.4),
    "switched_off": (0.6, 0.5),
    "hidden": (0.0, 0.1),
    "hidden_order": (0.3, 0.4),
    "disguised": (1.2, 1.2),
    "invisible_text": (1.0, 1.0),
    "about_attacks": (-0.5, -0.5),
    "talk": (-0.6, -0.6),
    "asks": (-0.3, -0.2),
}
"""Of what a user says, and of what a tool or a page does."""
NO_WONDER_OF_A_USER = {
    "to_the_agent": 0.1,
    "agent_and_user": 0.1,
    "agent_ought": 0.1,
    "agent_called": 0.0,
    "agent_may": 0.0,
    "vocative": 0.0,
}
"""To speak to the assistant is what a user does, whatever the texts come to."""

_HEAD = '''\
"""What each signal weighs, by who speaks: made by ``python -m tools.guard_weights``, not by hand.

A text whose signals come to 1 within a few sentences is suspicious. What is told to an assistant is no wonder in a
message to it, and is one on a page that it was to read. The columns: :class:`cognition.guard.injection.Source`.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, tuple[float, float, float]] = {
'''


def tuning_rows() -> list[tuple[bool, Source, str]]:
    """Those that may be looked at: whether it is an attack, who says it, and the text."""
    rows = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    found = [
        (row["label"] == "attack", Source[row["source"].upper()], row["text"])
        for row in rows
        if row["split"] == "tune"
    ]
    for line in MORE.read_text(encoding="utf-8").splitlines():
        label, source, text = line.split("\t")
        found.append((label == "attack", Source[source.upper()], text.replace("\\n", "\n")))
    return found


def fitted() -> dict[str, Pair]:
    """The weight of each signal, of users and of others, in twentieths."""
    rows, names = tuning_rows(), list(BEFORE)
    seen = np.zeros((len(rows), 2 * len(names)))
    for number, (_, source, text) in enumerate(rows):
        for name in signals_in(text, source):
            place = names.index(name)
            seen[number, place] = 1
            seen[number, len(names) + place] = APART if source is Source.USER else -APART
    attack = np.array([row[0] for row in rows], dtype=np.float64)
    together = [SCALE * (user + 2 * other) / 3 for user, other in BEFORE.values()]
    apart = [SCALE * (user - other) / 2 / APART for user, other in BEFORE.values()]
    weights, bias = _regression(seen, attack, np.array([*together, *apart]))
    unit = CAUTION - bias
    made = {}
    for place, name in enumerate(names):
        both, difference = weights[place], APART * weights[len(names) + place]
        user, other = (both + difference) / unit, (both - difference) / unit
        user = NO_WONDER_OF_A_USER.get(name, user)
        made[name] = (round(user * 20) / 20, round(other * 20) / 20)
    return made


def _regression(seen: Floats, attack: Floats, before: Floats) -> tuple[Floats, float]:
    """Weights that are held to those of ``before``, and the bias."""
    weights, bias = before.copy(), -3.2
    for _ in range(STEPS):
        odds = np.clip(seen @ weights + bias, -30, 30)
        missed = 1 / (1 + np.exp(-odds)) - attack
        weights = weights - STEP * (seen.T @ missed + weights - before) / (1 + STEP)
        bias -= STEP / 5 * float(missed.sum())
    return weights, bias


def module() -> str:
    """The text of the module."""
    lines = (f'    "{name}": ({user}, {other}, {other}),\n' for name, (user, other) in fitted().items())
    return _HEAD + "".join(lines) + "}\n"


if __name__ == "__main__":
    TARGET.write_text(module(), encoding="utf-8")
