"""What the parts of the kernel say to each other: values in one queue, and one table of who hears what.

A part that has changed something *says* so and goes on; it knows nobody. What is said is heard when the outermost
saying ends, one signal after the other, each by all of its row in the order of the row: so what follows from a death is
read from top to bottom in the table, and never runs in the middle of what caused it. What is said before there is a
table waits for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel.errors import StateError


class Signal:
    """Something that has happened: a frozen dataclass in the room of whoever says it."""

    __slots__ = ()


Handler = Callable[[Any], None]
Handlers = Mapping[type[Signal], Sequence[Handler]]


class Signals:
    """The queue. Everything is called on the event loop."""

    def __init__(self) -> None:
        self._said: deque[Signal] = deque()
        self._handlers: Handlers | None = None
        self._hearing = False

    def connect(self, handlers: Handlers) -> None:
        """Have everything heard from now on, what was said before first. Raises StateError for a second table."""
        if self._handlers is not None:
            raise StateError("the signals have a table already: a fault in weftos, please report it")
        self._handlers = handlers
        self._hear()

    def say(self, signal: Signal) -> None:
        """Have ``signal`` heard: before this returns, unless it was said by whoever hears another one. Raises what a
        handler raised, the first of several, when everything has been heard.
        """
        self._said.append(signal)
        self._hear()

    def _hear(self) -> None:
        if self._hearing or self._handlers is None:
            return
        self._hearing, fault = True, None
        try:
            while self._said:
                signal = self._said.popleft()
                for handler in self._handlers[type(signal)]:
                    try:
                        handler(signal)
                    except Exception as error:  # the others have to hear it all the same
                        fault = fault or error
        finally:
            self._hearing = False
        if fault is not None:
            raise fault
