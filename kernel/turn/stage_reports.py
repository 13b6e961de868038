"""What a behaviour tells of the steps of its turn, as the end of the turn records it. Pure; its word is hostile."""

from __future__ import annotations

from collections.abc import Sequence

from kernel.abi import StageReport
from kernel.values import canonical, clean

STAGE_CHARS = 64
WHY_CHARS = 200
MOST_US = 2**53


def shown_stages(stages: Sequence[StageReport]) -> str:
    """JSON of ``[stage, outcome, why, microseconds]`` for each, bounded."""
    return canonical(
        [
            [
                clean(each.stage)[:STAGE_CHARS],
                each.outcome,
                clean(each.why)[:WHY_CHARS],
                max(0, min(each.took_us, MOST_US)),
            ]
            for each in stages
        ]
    )
