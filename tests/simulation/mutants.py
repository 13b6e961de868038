"""Defects that the kernel once had, put back one at a time: would the simulation see them?

Each is a piece of source as it stands, and what it was like. It is put back at import, in a process of its own:
``python -m tests.simulation --mutant NAME``.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from tests.places import ROOT


@dataclass(frozen=True, slots=True)
class Edit:
    """In ``module``, ``text`` (which is there once) becomes ``was``."""

    module: str
    text: str
    was: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A past defect. ``commit`` mended it; it takes so many ``nodes`` to be seen."""

    name: str
    what: str
    commit: str
    edits: tuple[Edit, ...]
    nodes: int = 1


MUTANTS = (
    Mutant(
        "slot-before-mail", "a slot goes before its mail and what is below it", "aac32f6",
        (Edit("kernel.process.slots.slot_writer",
              "if self._state.mail.get(address) or self._state.slots.child_count(address) or self._remembers(slot):\n"
              "            if self._recorder",
              "if False:\n            if self._recorder"),),
    ),
    Mutant(
        "withdrawn-made", "a call that was withdrawn is made at the next boot", "4950e79",
        (Edit("kernel.syscall.settlement",
              "if attempt.withdrawn:\n            if turn is None or call is None",
              "if False:\n            if turn is None or call is None"),),
    ),
    Mutant(
        "end-lost", "the end of a turn is lost with its process while the disk refuses it", "0934d02",
        (Edit("kernel.turn.turns",
              '        """A process has ended, maybe in the middle of a turn."""\n',
              "        if self._ends.pop(end.process.turn, None) is not None:\n"
              '            self._recorder.not_any_more(("end", end.process.turn))\n'),),
    ),
    Mutant(
        "twice-below-back-off", "what is below a supervisor that waits for its restart runs twice", "83f21d4",
        (Edit("kernel.process.admission", "            if self._live.at(address) is None:\n                raise Busy",
              "            if False:\n                raise Busy"),
         Edit("kernel.process.processes",
              "if self.supervisors.is_ending(parent) or not (begun or self._live.at(parent)):",
              "if self.supervisors.is_ending(parent):"),
         Edit("kernel.process.processes", "        if address in self.supervisors:\n            raise StateError",
              "        if False:\n            raise StateError"),
         Edit("kernel.process.live", "        if present is not None:\n            raise StateError",
              "        if False:\n            raise StateError")),
    ),
    Mutant(
        "word-forgotten", "a person's word on a doubt, which the disk took late, is not acted on", "b97708f",
        (Edit("kernel.syscall.doubts",
              "        self._after.do(lambda: self._act(resolved, go_on), ticket)\n        await ticket.durable()\n",
              "        await ticket.durable()\n        self._act(resolved, go_on)\n"),),
    ),
    Mutant(
        "intent-forgotten", "an intent whose turn has ended is never in doubt", "ac9f4ee",
        (Edit("kernel.slices.calls",
              "        self.kept_bytes -= self.kept.pop(ident, 0)\n\n    def _decided",
              "        for one in list(self.intents):\n            if one.turn == ident:\n"
              "                self.intents.settle(one.id)\n"
              "        self.kept_bytes -= self.kept.pop(ident, 0)\n\n    def _decided"),),
    ),
    Mutant(
        "withdrawn-unsaid", "a call that is withdrawn in the round in which it was asked has no outcome", "7aadd63",
        (Edit("kernel.syscall.attempts", "            attempt.task = asyncio.current_task()\n", ""),
         Edit("kernel.syscall.attempts", "create_task(guarded())\n",
              "create_task(guarded())\n        attempt.task = task\n")),
    ),
    Mutant(
        "taken-over-made", "who is killed while it takes over a turn has its calls made all the same", "7c9e5fd",
        (Edit("kernel.syscall.settlement",
              "self._state.turns.get(process.turn) or self._state.turn_of(process.address)",
              "self._state.turns.get(process.turn)"),),
    ),
    Mutant(
        "retry-twice", "a call that a person has made again is made by the cell that asks as well", "2ad657d",
        (Edit("kernel.syscall.tool_calls",
              "        if self._attempts.get(turn.id, call.ordinal) or call.outcome is not None or call.doubt:\n"
              "            return\n",
              ""),),
    ),
    Mutant(
        "undone-and-yet-done", "what an earlier attempt may have done counts as not done", "ac9f4ee",
        (Edit("kernel.syscall.settlement", "or not (call.unsettled or again):", "or True:"),),
    ),
    Mutant(
        "dead-told-early", "a client is told that its message is dead before the disk has that", "found here",
        (Edit("kernel.syscall.replies",
              "        self._after.do(lambda: self._watchers.ended(mail.id, end), death.ticket)\n",
              "        self._watchers.ended(mail.id, end)\n"),),
    ),
    Mutant(
        "limits-of-the-boot", "a replay forgets sessions by the limits of its own boot", "03c7846",
        (Edit("kernel.slices.sessions", "        if turns is not None:\n", "        if False:\n"),),
    ),
    Mutant(
        "expired-unseen", "what expires behind an open turn is found when that has ended", "made with it",
        (Edit("kernel.message.expiries", "if first is None or (self._timer", "if True or (self._timer"),),
    ),
    Mutant(
        "given-up-sent", "what is given up before the disk takes it goes out all the same", "51b4b14",
        (Edit("kernel.peer.outboxes", "if mail.id not in self._given_up:\n", "if True:\n"),),
        nodes=2,
    ),
    Mutant(
        "given-up-twice", "what has gone out is given up a second time, as surely not delivered", "6cb116e",
        (Edit("kernel.peer.outboxes", "for mail in fresh if mail.id not in self._given_up]", "for mail in fresh]"),
         Edit("kernel.peer.outboxes",
              "not self._dead_letter(effect):\n"
              "                    self._effects.appendleft((peer, link, effect))\n"
              '                    self._parts.recorder.when_writable(("given up", self), self._go_on)\n'
              "                    waits = True\n"
              "                    break\n",
              "not self._dead_letter(effect):\n"
              "                    self._parts.recorder.when_writable(\n"
              '                        ("dead_letter", effect.parcel.id),\n'
              "                        lambda effect=effect: self._perform(peer, [effect]),\n"
              "                    )\n")),
        nodes=2,
    ),
)  # fmt: skip


def _file(module: str) -> str:
    return str(ROOT.joinpath(*module.split(".")).with_suffix(".py"))


def edited(module: str, edits: Sequence[Edit]) -> str:
    """The source of ``module`` with these edits. Raises ValueError when a piece is not there just once."""
    with open(_file(module)) as file:
        source = file.read()
    for edit in edits:
        if source.count(edit.text) != 1:
            raise ValueError(f"{module} holds {source.count(edit.text)} times, not once: {edit.text}")
        source = source.replace(edit.text, edit.was)
    return source


class SourceLoader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, module: str, source: str) -> None:
        self._module, self._source = module, source

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(name, self) if name == self._module else None

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._source, _file(self._module), "exec"), module.__dict__)


def put_back(name: str) -> None:
    """Have the kernel imported with that defect from now on; nothing of it may be imported yet."""
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    for module in dict.fromkeys(edit.module for edit in mutant.edits):
        if module in sys.modules:
            raise ValueError(f"{module} is imported already")
        source = edited(module, [edit for edit in mutant.edits if edit.module == module])
        sys.meta_path.insert(0, SourceLoader(module, source))
