"""What the parts of the kernel say to each other: values in one queue, and one table of who hears what.

A part that has changed something *says* so and goes on; it knows nobody. What is said is heard when the outermost
saying ends, one signal after the other, each by all of its row in the order of the row: so what follows from a death is
read from top to bottom in the table, and never runs in the middle of what caused it. What is said before there is a
table waits for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernel.errors import StateError


class Signal:
    """Something that has happened: a frozen dataclass in the room of whoever says it."""

    __slots__ = ()


Handler = Callable[[Any], None]
Handlers = Mapping[type[Signal], Sequence[Handler]]


def tell_loop(error: Exception) -> None:
    """The event loop's exception handler is told."""
    context = {"message": "what was said could not be heard by all", "exception": error}
    asyncio.get_running_loop().call_exception_handler(context)


class Signals:
    """The queue. Everything is called on the event loop. ``fault`` is told what handlers raise where nobody who said
    anything is to be blamed.
    """

    def __init__(self, fault: Callable[[Exception], None] = tell_loop) -> None:
        self._fault = fault
        self._said: deque[Signal] = deque()
        self._handlers: Handlers = {}
        self._hears = False  # there is a table, and nothing is being heard

    def connect(self, handlers: Handlers) -> None:
        """Have everything heard from now on, what was said before first. Raises StateError for a second table."""
        if self._handlers:
            raise StateError("the signals have a table already: a fault in weftos, please report it")
        self._handlers = handlers
        self._hear()
        self._hears = True

    def say(self, signal: Signal) -> None:
        """Have ``signal`` heard: before this returns, unless it was said by whoever hears another one.

        Raises what its own row raised, the first of several, when everything has been heard; what is raised further on
        is not the fault of who said this.
        """
        if not self._hears:
            self._said.append(signal)
            return
        self._hears = False
        try:
            own = self._row(signal)
            self._hear()
        finally:
            self._hears = True
        if own is not None:
            raise own

    def tell(self, *signals: Signal) -> None:
        """The same where what was said has happened already, whatever becomes of it. Raises nothing."""
        for signal in signals:
            try:
                self.say(signal)
            except Exception as error:
                self._fault(error)

    def _hear(self) -> None:
        while self._said:
            if (error := self._row(self._said.popleft())) is not None:
                self._fault(error)

    def _row(self, signal: Signal) -> Exception | None:
        """Have all of a row hear; what the first of them raised."""
        first: Exception | None = None
        for handler in self._handlers[type(signal)]:
            try:
                handler(signal)
            except Exception as error:  # the others have to hear it all the same
                first = first or error
        return first
