"""The directories that processes get below the node's data directory, each where its address says."""

from __future__ import annotations

import os
from pathlib import Path

from kernel.model.spec import ProcessSpec
from kernel.process.process_signals import SlotGone
from kernel.slices.tree.slots import Slots


class Workspaces:
    """Those of one node. That of a temporary process, which nobody starts again, goes with it when it is empty."""

    def __init__(self, data: Path, slots: Slots) -> None:
        self._data = data
        self._all = data / "workspaces"
        self._slots = slots

    def own(self, address: str) -> Path:
        """The directory of ``address``. That of a parent ends in ``+``, which no name can: none lies in another."""
        *above, name = address.strip("/").split("/")
        return Path(self._all, *(f"{step}+" for step in above), name)

    def make(self, spec: ProcessSpec) -> None:
        """Make the directory that ``spec`` names, if it is one of these. Raises OSError."""
        if spec.workspace and Path(spec.workspace).is_relative_to(self._data):
            Path(spec.workspace).mkdir(mode=0o700, parents=True, exist_ok=True)

    def gone(self, said: SlotGone) -> None:
        """Remove what a temporary process leaves empty, with those above it that were made for it alone."""
        slot = said.slot
        own = self.own(slot.address)
        if slot.spec.restart != "temporary" or slot.spec.workspace != str(own):
            return
        if self._slots.works_in(slot.spec.workspace):
            return
        try:
            while own != self._all:
                os.rmdir(own)
                own = own.parent
        except OSError:  # it is not empty, or another one is at work here
            return
