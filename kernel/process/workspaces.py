"""The directories that processes work in: those they get below the node's data directory, each where its address says,
what none of them may show, and where none may lie."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from kernel.errors import Refused
from kernel.model.address import ROOT, name_of, parent
from kernel.model.spec import ProcessSpec
from kernel.process.process_signals import SlotGone
from kernel.slices.tree.slots import Slots
from kernel.toolbox.protected import Looked, ProtectedPaths

_MOST_NAMED = 16


class Workspaces:
    """Those of one node. That of a temporary process, which nobody starts again, goes with it when it is empty."""

    def __init__(
        self, data: Path, slots: Slots, protected: ProtectedPaths, way_fault: Callable[[Path], str]
    ) -> None:
        self._data = data
        self._all = data / "workspaces"
        self._all_text = str(self._all)
        self._below = f"{data}/"
        self._slots = slots
        self._protected = protected
        self._way_fault = way_fault
        self._faults: dict[str, str] = {}
        self._made: set[str] = set()  # by address, those that are known to be there

    def own(self, address: str) -> Path:
        """The directory of ``address``. That of a parent ends in ``+``, which no name can: none lies in another."""
        return Path(self.own_text(address))

    def own_text(self, address: str) -> str:
        """The same as text."""
        return self.text_below(parent(address)) + name_of(address)

    def text_below(self, parent: str) -> str:
        """What those of the children of ``parent`` begin with: their names follow."""
        above = parent.strip("/").split("/") if parent != ROOT else []
        return "/".join((self._all_text, *(f"{step}+" for step in above), ""))

    def another(self, address: str, seq: int) -> Path:
        """One that nobody had, for ``address``, in whose own something was left. ``seq``: of the next entry."""
        own = self.own(address)
        return own.with_name(f"{own.name}~{seq}")

    def is_left(self, workspace: Path) -> bool:
        """Whether something lies there, or somebody works there: it is not that of a new process alone."""
        if self._slots.works_in(str(workspace)):
            return True
        try:
            with os.scandir(workspace) as entries:
                return next(entries, None) is not None
        except FileNotFoundError:
            return False

    def make(self, spec: ProcessSpec) -> None:
        """Make the directory that ``spec`` names, if it is one of these. Raises OSError."""
        if not spec.workspace.startswith(self._below):
            return
        try:
            os.mkdir(spec.workspace, 0o700)
        except FileNotFoundError:
            Path(spec.workspace).mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            if not os.path.isdir(spec.workspace):
                raise

    def needed(self, address: str) -> None:
        """A turn begins at ``address``: make the directory of its process, which of one that was made with thousands of
        others nobody has needed before. Raises OSError.
        """
        slot = self._slots.get(address)
        if slot is not None and address not in self._made:
            self.make(slot.spec)
            self._made.add(address)

    def check(self, workspace: Path, looked: Looked | None = None) -> None:
        """That a workspace shows nothing of what decides what the node runs, and that nobody else decides where it
        lies; ``looked``: what was seen for others a moment ago. Raises Refused.
        """
        if shown := self._protected.shown_by([str(workspace)], self._all, looked):
            raise Refused(
                f"workspace {workspace} would show {shown[str(workspace)]}, which decides what the node runs or whom "
                "it believes; choose a directory that neither holds that nor lies in it"
            )
        if fault := self._others_on_the_way(workspace):
            raise Refused(
                f"workspace {workspace} could be replaced by others: {fault}; choose a directory that lies where "
                "nobody else can write"
            )

    def look(self) -> None:
        """Look for slots that are older than what is to be said against their workspaces."""
        workspaces = self._slots.workspaces()
        own = f"{self._all}/"
        elsewhere = (at for at in workspaces if not at.startswith(own))
        ways = {at: fault for at in elsewhere if (fault := self._others_on_the_way(Path(at)))}
        self._faults = {at: f"could be replaced by others: {fault}" for at, fault in ways.items()}
        for at, what in self._protected.shown_by(workspaces, self._all).items():
            self._faults[at] = (
                f"shows {what}, which decides what the node runs or whom it believes, and which its file tools refuse"
            )

    def faults(self) -> list[str]:
        """Which slots those are, in words, the first of them."""
        at_fault = (slot for slot in self._slots.values() if slot.spec.workspace in self._faults)
        return [
            f"{slot.address}: its workspace {slot.spec.workspace} {self._faults[slot.spec.workspace]}: stop and remove "
            "the process (weftos stop, weftos rm) and spawn it with another workspace, or put that right"
            for slot in islice(at_fault if self._faults else (), _MOST_NAMED)
        ]

    def _others_on_the_way(self, workspace: Path) -> str:
        if workspace.is_relative_to(self._all):
            return ""  # asked of the data directory already
        try:
            return self._way_fault(workspace)
        except OSError as error:
            return f"the way to it cannot be looked at: {error.strerror or error}"

    def gone(self, said: SlotGone) -> None:
        """Remove what a temporary process leaves empty, with those above it that were made for it alone."""
        slot = said.slot
        self._made.discard(slot.address)
        own, usual = Path(slot.spec.workspace), self.own(slot.address)
        its_own = own.parent == usual.parent and own.name.partition("~")[0] == usual.name
        if slot.spec.restart != "temporary" or not its_own:
            return
        if self._slots.works_in(slot.spec.workspace):
            return
        try:
            while own != self._all:
                os.rmdir(own)
                own = own.parent
        except OSError:  # it is not empty, or another one is at work here
            return
