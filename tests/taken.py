"""What of a test run takes long: said at its end, so that nobody has to guess it from a page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

MOST = 8


def taken(spans: Iterable[tuple[str, bool, float]]) -> str:
    """A line for what was spent, in seconds of one process: by folder, the longest first. Each of ``spans`` is of a
    part of a test (its preparation, itself, what follows): its id, whether it is on a real Ray, how long it took.
    """
    of: defaultdict[str, float] = defaultdict(float)
    for name, on_ray, seconds in spans:
        of[_part(name, on_ray)] += seconds
    longest = sorted(of.items(), key=lambda item: -item[1])[:MOST]
    return ", ".join(f"{part} {seconds:.0f} s" for part, seconds in longest)


def _part(name: str, on_ray: bool) -> str:
    """The folder of tests that it is in; of real nodes, which take longest, whether on Ray."""
    if on_ray:
        return "on a real Ray"
    parts = name.partition("::")[0].split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]
