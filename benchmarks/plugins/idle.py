"""A behaviour that is nearly nothing: what is measured of many such is what the node and its cells add."""

from __future__ import annotations

from typing import Any


class Idle:
    """Answers with the message."""

    def __init__(self, info: Any) -> None:
        self._name = info.name

    async def handle(self, message: Any, sys: Any) -> str:
        return str(message.text)
