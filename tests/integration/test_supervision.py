"""The cases of supervision on a real node: those of them that can be brought about and seen from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kernel.operations.processes import Signal
from kernel.operations.spawning import TEMPLATE
from tests.integration.live_node import LiveNode, until
from tests.kernel.supervision.conformance.cases import *  # noqa: F403
from weftos import WeftosError

HOLDS: dict[str, Any] = {"behaviour": "holds"}
SIGNALS: dict[str, Signal] = {"killed": "kill", "shutdown": "term"}


class RealWorld:
    """A node that is asked through its API. Its processes never end a turn."""

    def __init__(self, node: LiveNode) -> None:
        self.node = node

    def supervisor(self, name: str, under: str = "/user", **fields: Any) -> str:
        of_template: dict[str, Any] = HOLDS if fields.get("strategy") == TEMPLATE else {}
        return self.node.api.spawn(name, under=under, supervisor=True, **of_template, **fields)["address"]

    def child(self, name: str, under: str, **fields: Any) -> str:
        above = self.node.api.inspect(under)["spec"]
        own: dict[str, Any] = {} if above["template"] else HOLDS
        return self.node.api.spawn(name, under=under, **own, **fields)["address"]

    def ends(self, address: str, reason: str) -> None:
        if reason not in SIGNALS:
            pytest.skip(f"no signal makes a process end with {reason}")
        self.node.api.kill(address, signal=SIGNALS[reason])

    def busy(self, address: str) -> None:
        self.node.api.send(address, "wait")
        self.until(lambda: bool(self.node.api.inspect(address)["turn"]))

    def stop(self, address: str) -> None:
        self.node.api.stop(address)

    def start(self, address: str) -> None:
        self.node.api.start(address)

    def remove(self, address: str) -> None:
        self.until(lambda: not self._busy_removing(address))

    def change(self, address: str, **fields: Any) -> None:
        self.node.api.change(address, **fields)

    def _busy_removing(self, address: str) -> bool:
        try:
            self.node.api.remove(address)
        except WeftosError as error:
            if error.code != "busy":
                raise
            return True
        return False

    def _row(self, address: str) -> Any:
        try:
            return self.node.api.inspect(address)
        except WeftosError as error:
            if error.code != "not_found":
                raise
            return {"state": "exited", "slot": "", "pid": 0}

    def pid(self, address: str) -> int:
        row = self._row(address)
        return 0 if row["state"] in ("exited", "starting") else row["pid"]

    def slot(self, address: str) -> str:
        return str(self._row(address)["slot"])

    def spec(self, address: str) -> dict[str, Any]:
        return dict(self.node.api.inspect(address)["spec"])

    def counts(self, address: str) -> dict[str, int]:
        return self.node.api.inspect(address)["supervision"] or {}

    def exits(self, under: str) -> list[tuple[str, str]]:
        exits = self.node.entries("process.exited")
        return [
            (each["address"], each["reason"])
            for each in exits
            if f"{each['address']}/".startswith(f"{under}/")
        ]

    def starts(self, under: str) -> list[str]:
        starts = self.node.entries("process.started")
        return [each["address"] for each in starts if each["address"].startswith(f"{under}/")]

    def until(self, holds: Callable[[], bool]) -> None:
        until(holds, "what the case says")

    def refused(self, call: Callable[[], object]) -> str:
        with pytest.raises(WeftosError) as caught:
            call()
        return str(caught.value.code)

    def answer(self, call: Callable[[], object]) -> str:
        with pytest.raises(WeftosError) as caught:
            call()
        return caught.value.word


@pytest.fixture
def world(node: LiveNode) -> RealWorld:
    return RealWorld(node)
