"""The operations of a node, asked by one operator without HTTP. Every answer is held to its type in the table."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, cast

from kernel.control.control import Control
from kernel.operations.operation import Answer, AnyRow, Operation, Operator, P, Request, Row, Stream
from tests.shapes import faults_of

OP: Operator = {"uid": 1000, "os_pid": 77}


class Doors:
    """``await doors(Processes.kill, "ada", signal="kill")`` asks as :data:`OP`."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def __call__(self, row: Operation[P, Request, Answer], *args: P.args, **kwargs: P.kwargs) -> Answer:
        return await self.ask(row, row.request(*args, **kwargs))

    async def ask(self, row: Row[P, Request, Answer], request: Request) -> Answer:
        """The same with a request that is made already."""
        answer = await self._control.ask(OP, row, request)
        _hold(row, answer)
        return answer

    async def stream(
        self, row: Stream[P, Request, Answer], *args: P.args, **kwargs: P.kwargs
    ) -> AsyncIterator[Answer]:
        """What comes, as it comes."""
        items = self._control.stream(OP, row, row.request(*args, **kwargs))
        async with aclosing(cast(Any, items)):
            async for item in items:
                _hold(row, item)
                yield item


def _hold(row: AnyRow, answer: object) -> None:
    """An answer to what its row says."""
    faults = faults_of(row.answer, answer)
    assert not faults, f"{row}: {faults}"
