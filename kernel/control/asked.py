"""One request of a person while it is answered: who asks, and the record of it."""

from __future__ import annotations

import os
from typing import Any, Protocol

from chain.ledger.ledger import Draft
from kernel.errors import KernelError
from kernel.model.commands import Command
from kernel.operations.operation import AnyRow, Operator
from kernel.state.recorder import Recorder, ledger_errors
from kernel.values import canonical, clean, measured

CONTENT = ("text", "title")  # their length is recorded: the entry that follows holds them, and can be erased


class Record(Protocol):
    """Writes down who asked for something, with its arguments. Gives the entry's sequence and a trace."""

    def __call__(self, **arguments: Any) -> tuple[int, bytes]: ...


class Asked:
    """What a handler is told beside the request. What is done for it is recorded first, by :meth:`record`."""

    def __init__(self, op: Operator, row: AnyRow, recorder: Recorder) -> None:
        self._op = op
        self._row = row
        self._recorder = recorder
        self._missing = bool(row.recorded)

    @property
    def by(self) -> str:
        """Who asks, as the ledger names them."""
        return f"operator:{self._op['uid']}"

    def record(self, **arguments: Any) -> tuple[int, bytes]:
        """Write ``operator.command``. Raises Unavailable."""
        self._missing = False
        shown = {key: value if key not in CONTENT else measured(value) for key, value in arguments.items()}
        body = {**self._op, "operation": self._row.recorded, "arguments": canonical(shown)}
        trace = os.urandom(16)
        with ledger_errors():
            draft = Draft("operator.command", body, 0, self._row.recorded, trace)
            ticket = self._recorder.commit([draft])
        return ticket.entries[0].entry.seq, trace

    def command(self, why: str = "", **arguments: Any) -> Command:
        """:meth:`record`, with the reason that was given, as the cause of what follows. Raises Unavailable."""
        return self.traced_command(why, **arguments)[0]

    def traced_command(self, why: str = "", **arguments: Any) -> tuple[Command, bytes]:
        """:meth:`command`, and the trace of what follows."""
        given = {"why": clean(why)} if why else {}
        seq, trace = self.record(**arguments, **given)
        return Command(seq, self.by, clean(why)), trace

    def check(self) -> None:
        """Raises KernelError for an operation that was answered and should have been recorded, and was not."""
        if self._missing:
            raise KernelError(
                f"{self._row.name} was done without a record of it: this is a fault of the node"
            )
