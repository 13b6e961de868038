"""The weights that are kept are those that the tool comes to."""

from __future__ import annotations

import re

from tools import task_weights

_NUMBER = re.compile(r"-?\d+")


def test_the_weights_are_those_of_the_cues_and_features_as_they_are() -> None:
    """Within one of the last digit, which another machine may round otherwise."""
    kept, made = task_weights.TARGET.read_text(encoding="utf-8"), task_weights.text()
    assert _NUMBER.sub("0", kept) == _NUMBER.sub("0", made), "run python -m tools.task_weights"
    pairs = zip(_NUMBER.findall(kept), _NUMBER.findall(made), strict=True)
    assert all(abs(int(one) - int(other)) <= 1 for one, other in pairs)
