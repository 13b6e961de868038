"""When a model of a server is given up for a while. Pure.

After so many questions in a row that failed for a fault that may pass it is asked nothing more for ``open_s``: whoever
has another model goes to that one at once. Then one question is let through. When it is answered all are again; until
then, and where it fails, the model stays given up, and one more is let through after each ``open_s``.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from kernel.abi import ErrorKind

FAULTS: frozenset[ErrorKind] = frozenset({"server", "timeout", "transport"})
"""What counts. A limit of requests is waited for elsewhere; what is wrong with a question is no fault of a model."""
MOST_MODELS = 256
"""Of so many models is known how they do: agents name them at will."""


@dataclass(slots=True)
class _Model:
    failed: int = 0
    open_until_s: float = 0.0


class Breaker:
    """Of the models of one server. ``failures``: how many in a row, 0 for never. Times are monotonic, in seconds."""

    def __init__(self, failures: int, open_s: float) -> None:
        self._failures = failures
        self._open_s = open_s
        self._models: OrderedDict[str, _Model] = OrderedDict()

    def admit(self, model: str, now_s: float) -> float:
        """0 when a question may be put now; else in how many seconds one may be."""
        known = self._models.get(model)
        if known is None or not self._failures or known.failed < self._failures:
            return 0.0
        if now_s < known.open_until_s:
            return known.open_until_s - now_s
        known.open_until_s = now_s + self._open_s  # this one is the one that is let through
        return 0.0

    def answered(self, model: str) -> None:
        """It has answered, if only that it does not take the question."""
        self._models.pop(model, None)

    def failed(self, model: str, now_s: float) -> None:
        """A question came to one of :data:`FAULTS`."""
        known = self._models.setdefault(model, _Model())
        self._models.move_to_end(model)
        known.failed += 1
        known.open_until_s = now_s + self._open_s
        if len(self._models) > MOST_MODELS:
            self._models.popitem(last=False)
