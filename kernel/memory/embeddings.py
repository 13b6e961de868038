"""Carries the archive's questions for vectors to the gateway, which alone may speak with a server, and back.

The archive asks with a notice ``embed`` (``{"id", "provider", "model", "texts"}``) and is answered with its operation
``embedded``. It needs no answer to go on: without vectors it searches by words.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from kernel.helper.helper import HelperLost, HelperRefused
from kernel.helper.helpers import HelperNotice
from kernel.memory.memory import Ask

ANSWER_S = 120.0
WAITING = 64


class Embeddings:
    """At most ``WAITING`` questions at a time; one more is refused at once. ``timeout_s`` bounds each."""

    def __init__(self, gateway: Ask, archive: Ask, timeout_s: float = ANSWER_S) -> None:
        self._gateway = gateway
        self._archive = archive
        self._timeout_s = timeout_s
        self._tasks: set[asyncio.Task[None]] = set()

    def noticed(self, notice: HelperNotice) -> None:
        """Take a notice of the archive."""
        if notice.helper != "archive" or notice.op != "embed":
            return
        carrying = self._carry(notice.args, len(self._tasks) >= WAITING)
        task = asyncio.get_running_loop().create_task(carrying)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, question: dict[str, Any], full: bool) -> None:
        answer = {"error": f"{WAITING} questions wait already"} if full else await self._vectors(question)
        with contextlib.suppress(HelperLost, HelperRefused):  # a new archive asks again for what it needs
            await self._archive("embedded", {**answer, "id": question.get("id")})

    async def _vectors(self, question: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = await asyncio.wait_for(self._gateway("embed", question), self._timeout_s)
        except (HelperLost, HelperRefused) as error:
            return {"error": str(error)[:500]}
        except TimeoutError:
            return {"error": f"no vectors within {self._timeout_s:g} s"}
        return answer if isinstance(answer, dict) else {"error": "the gateway's answer is malformed"}
