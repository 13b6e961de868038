"""What the cases do to supervisors and see of them, on whatever substrate: names, PIDs and slots, as people have them.

A case says what is to be so in the end (:meth:`World.until`) and asks for no time of its own to pass: on the twins the
clock is wound until it is so, on a real node it is waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pytest

from kernel.errors import KernelError
from kernel.model.spec import ProcessSpec
from kernel.operations.spawning import TEMPLATE
from kernel.supervision.reducer import Phase
from tests.kernel.twins.tree_twin import Tree

SUPERVISOR = "supervisor"


class World(Protocol):
    """``fields`` are those of a spawn. An address is given as it comes from :meth:`supervisor` and :meth:`child`."""

    def supervisor(self, name: str, under: str = "/user", **fields: Any) -> str:
        """A new one, which runs."""

    def child(self, name: str, under: str, **fields: Any) -> str:
        """A new child, which runs."""

    def ends(self, address: str, reason: str) -> None:
        """It ends by itself, with this reason. Skips the case where a substrate has no way to bring that about."""

    def has(self, reason: str) -> bool:
        """Whether a process can end with this reason."""

    def busy(self, address: str) -> None:
        """It is in the middle of something that it does not end."""

    def fails(self, address: str) -> None:
        """No start of what is there succeeds, until it :meth:`mends`."""

    def hangs(self, address: str) -> None:
        """No start of what is there, which is ``dedicated``, comes to an end, until it :meth:`mends`."""

    def mends(self, address: str) -> None: ...

    def in_vain(self, start: Callable[[], object]) -> None:
        """Have something start that does not. Who asked is told so, where anybody has."""

    def passes(self, time_s: float) -> None:
        """So much time passes, or more."""

    def stop(self, address: str) -> None: ...

    def start(self, address: str) -> None: ...

    def remove(self, address: str) -> None: ...

    def change(self, address: str, **fields: Any) -> None:
        """Its spec, and its flags."""

    def pid(self, address: str) -> int:
        """Of what runs there, or has yet to end; 0 for nothing."""

    def slot(self, address: str) -> str:
        """running, restarting, stopped, parked; empty when there is none."""

    def spec(self, address: str) -> dict[str, Any]:
        """What it is kept as."""

    def counts(self, address: str) -> dict[str, int]:
        """OTP's count_children."""

    def exits(self, under: str) -> list[tuple[str, str]]:
        """Address and reason of each exit of, or below, ``under``, in order."""

    def starts(self, under: str) -> list[str]:
        """The address of each start below ``under``, in order."""

    def until(self, holds: Callable[[], bool]) -> None:
        """It comes to hold."""

    def refused(self, call: Callable[[], object]) -> str:
        """The code of the error that ``call`` raises."""

    def answer(self, call: Callable[[], object]) -> str:
        """OTP's word in the error that ``call`` raises."""

    def words(self, call: Callable[[], object]) -> str:
        """What the error says that ``call`` raises."""


class MemoryWorld:
    """The shell of the process tree on twins, with a clock that is wound by hand."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.failing: set[str] = set()  # addresses where no start succeeds
        self.hanging: set[str] = set()  # where none comes to an end

    def supervisor(self, name: str, under: str = "/user", **fields: Any) -> str:
        own = {
            key.removeprefix("child_"): fields.pop(key) for key in list(fields) if key.startswith("child_")
        }
        if own or fields.get("strategy") == TEMPLATE:
            fields["template"] = ProcessSpec("", **own)
        return self.child(name, under, type=SUPERVISOR, **fields)

    def child(self, name: str, under: str, **fields: Any) -> str:
        address = self.tree.spawn_only(name, under, **fields)
        self.settle()
        return address

    def settle(self) -> None:
        """What can happen at once has happened."""
        self.tree.finish()
        while coming := [each for each in self.tree.placed if each.address not in self.hanging]:
            for process in coming:
                self.tree.placed.remove(process)
                if process.address in self.failing:
                    self.tree.processes.start_failed(process.pid, "crash", "the test said so")
                else:
                    self.tree.processes.started(process.pid, "c1")
            self.tree.finish()

    def wait(self, by_s: float) -> None:
        self.tree.clock.wind(by_s)
        self.settle()

    def ends(self, address: str, reason: str) -> None:
        if reason == "killed":
            self.tree.processes.kill(address, "kill")
        else:
            self.tree.crash(address, reason)
        self.settle()

    def has(self, reason: str) -> bool:
        return True

    def busy(self, address: str) -> None:
        self.tree.open_turn(address)

    def fails(self, address: str) -> None:
        self.failing.add(address)

    def hangs(self, address: str) -> None:
        self.hanging.add(address)

    def mends(self, address: str) -> None:
        self.failing.discard(address)
        self.hanging.discard(address)
        self.settle()

    def in_vain(self, start: Callable[[], object]) -> None:
        start()

    def passes(self, time_s: float) -> None:
        self.wait(time_s)

    def stop(self, address: str) -> None:
        self.tree.processes.stop(address)
        self.settle()

    def start(self, address: str) -> None:
        self.tree.processes.start(address)
        self.settle()

    def remove(self, address: str) -> None:
        self.tree.remove(address)
        while self.tree.removing:
            self.settle()
            self.tree.remove_more()

    def change(self, address: str, **fields: Any) -> None:
        self.tree.processes.change(address, fields, b"", -1)

    def pid(self, address: str) -> int:
        process = self.tree.live.at(address)
        return process.pid if process is not None and process.state != "starting" else 0

    def slot(self, address: str) -> str:
        slot = self.tree.state.slots.get(address)
        return slot.state if slot is not None else ""

    def spec(self, address: str) -> dict[str, Any]:
        slot = self.tree.state.slots[address]
        return {
            "restart": slot.spec.restart,
            "tools": list(slot.spec.tools),
            "shutdown_s": slot.spec.shutdown_s,
        }

    def phase(self, address: str) -> Phase:
        child = self.tree.processes.supervisors.child(address)
        assert child is not None
        return child.phase

    def counts(self, address: str) -> dict[str, int]:
        return self.tree.processes.supervisors[address].counts()

    def exits(self, under: str) -> list[tuple[str, str]]:
        return [(at, reason) for at, _, reason in self.tree.ended if f"{at}/".startswith(f"{under}/")]

    def starts(self, under: str) -> list[str]:
        drafts = (draft for draft in self.tree.journal.drafts if draft.kind == "process.started")
        return [at for draft in drafts if (at := str(draft.body["address"])).startswith(f"{under}/")]

    def until(self, holds: Callable[[], bool]) -> None:
        self.settle()
        for _ in range(100):
            if holds():
                return
            self.wait(1.0)
        pytest.fail("it does not come to hold")

    def refused(self, call: Callable[[], object]) -> str:
        with pytest.raises(KernelError) as caught:
            call()
        assert type(caught.value) is not KernelError, caught.value
        return str(caught.value.code)

    def answer(self, call: Callable[[], object]) -> str:
        with pytest.raises(KernelError) as caught:
            call()
        return caught.value.word

    def words(self, call: Callable[[], object]) -> str:
        with pytest.raises(KernelError) as caught:
            call()
        return str(caught.value)
