"""Wires across the way of a turn. Who comes to one that is laid for it stands still there, once, until it is let go.

Files of one folder, so that a cell, a model server and an effect server can all stand at them: ``laid.json`` says where
the wires of a case are, ``CASE.N.here`` that somebody has come to the N-th of them, ``CASE.N.go`` that it may go on,
and with which word.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

POLL_S = 0.002


class Tripwires:
    """The wires of a folder. The driver lays them and lets go; everybody else comes to them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def lay(self, case: str, places: Sequence[str]) -> None:
        """These and no others from now on. The same place twice: it is stood at in two passes."""
        new = self._folder / "laid.new"
        new.write_text(json.dumps({"case": case, "places": list(places)}))
        new.replace(self._folder / "laid.json")

    def come_to(self, case: str, number: int) -> bool:
        """Whether somebody stands at a wire of the case, or has."""
        return self._file(case, number, "here").exists()

    def let_go(self, case: str, number: int, word: str) -> None:
        """Whoever stands there is told ``word``."""
        new = self._file(case, number, "going")
        new.write_text(word)
        new.replace(self._file(case, number, "go"))

    def stand(self, case: str, place: str) -> str:
        """Come to a place: the word with which one was let go, empty where there is no wire."""
        go = self._tripped(case, place)
        while go is not None and not go.exists():
            time.sleep(POLL_S)
        return "" if go is None else go.read_text()

    async def stand_by(self, case: str, place: str) -> str:
        """The same for who has others to serve meanwhile."""
        go = self._tripped(case, place)
        while go is not None and not go.exists():
            await asyncio.sleep(POLL_S)
        return "" if go is None else go.read_text()

    def _tripped(self, case: str, place: str) -> Path | None:
        """Where to wait, for who is the first to come to a wire that lies here."""
        try:
            laid = json.loads((self._folder / "laid.json").read_text())
        except FileNotFoundError:
            return None
        if laid["case"] != case:
            return None
        for number, where in enumerate(laid["places"]):
            if where == place and self._first(case, number):
                return self._file(case, number, "go")
        return None

    def _first(self, case: str, number: int) -> bool:
        try:
            os.close(os.open(self._file(case, number, "here"), os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        return True

    def _file(self, case: str, number: int, what: str) -> Path:
        return self._folder / f"{case}.{number}.{what}"
