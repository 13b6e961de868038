"""A real node as the cases of supervision drive it and see it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from kernel.operations.processes import Signal
from kernel.operations.spawning import TEMPLATE
from tests.integration.live_node import LiveNode, until
from weftos import WeftosError

SIGNALS: dict[str, Signal] = {"killed": "kill", "shutdown": "term"}
ORDERS = {"normal": "normal", "crash": "crash", "shutdown": "in order"}


class RealWorld:
    """A node that is asked through its API. Its processes do as files say, see plugins/supervised.py."""

    def __init__(self, node: LiveNode) -> None:
        self.node = node
        self._orders = node.place / "orders"
        self._orders.mkdir(exist_ok=True)
        self._behaviour = {"behaviour": "supervised", "system_prompt": str(self._orders)}

    def supervisor(self, name: str, under: str = "/user", **fields: Any) -> str:
        of_template: dict[str, Any] = {}
        if fields.get("strategy") == TEMPLATE:
            of_template = dict(self._behaviour)
            if "child_isolation" in fields:
                of_template["isolation"] = fields.pop("child_isolation")
        return self.node.api.spawn(name, under=under, supervisor=True, **of_template, **fields)["address"]

    def child(self, name: str, under: str, **fields: Any) -> str:
        above = self.node.api.inspect(under)["spec"]
        own: dict[str, Any] = {} if above["template"] else self._behaviour
        return self.node.api.spawn(name, under=under, **own, **fields)["address"]

    def has(self, reason: str) -> bool:
        return reason in SIGNALS or reason in ORDERS

    def ends(self, address: str, reason: str) -> None:
        if not self.has(reason):
            pytest.skip("no process of a node ends with a cause of its own")
        pid = self.pid(address)
        if reason in SIGNALS:
            self.node.api.kill(address, signal=SIGNALS[reason])
        else:
            self.busy(address)
        if reason in ORDERS:
            self._write(str(pid), ORDERS[reason])

    def busy(self, address: str) -> None:
        if not self.node.api.inspect(address)["turn"]:
            self.node.api.send(address, str(self.pid(address)))
            self.until(lambda: bool(self.node.api.inspect(address)["turn"]))

    def _write(self, name: str, text: str) -> None:
        """Whole at once, for who looks whether it is there."""
        (self._orders / f"{name}.new").write_text(text)
        (self._orders / f"{name}.new").rename(self._orders / name)

    def fails(self, address: str) -> None:
        self._write(_file("fails", address), "")

    def hangs(self, address: str) -> None:
        self._write(_file("hangs", address), "")

    def mends(self, address: str) -> None:
        for what in ("fails", "hangs"):
            (self._orders / _file(what, address)).unlink(missing_ok=True)

    def in_vain(self, start: Callable[[], object]) -> None:
        assert self.refused(start) == "refused"

    def passes(self, time_s: float) -> None:
        time.sleep(time_s)

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

    def words(self, call: Callable[[], object]) -> str:
        with pytest.raises(WeftosError) as caught:
            call()
        return str(caught.value)


def _file(what: str, address: str) -> str:
    return what + address.replace("/", "+")
