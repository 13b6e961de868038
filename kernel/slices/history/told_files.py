"""What of the files in its workspace each session was told last, so that an entry need not say it again.

``sys.files`` names each text by its SHA-256 and says those that the session was not told with the entry before. What an
open turn was given is kept with its call; here is what the next one can be told in terms of. The sessions that
were told something longest ago are forgotten, and then are told all of it again.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Container, Mapping
from typing import Any

from kernel.model.rows import as_rows, as_text
from kernel.slice import Handler, Keeper, Slice, Told
from kernel.slices.sessions import Key
from kernel.slices.turns import Turns
from kernel.values import canonical, size_of_text

MOST_BYTES = 32 * 2**20
_EACH_BYTES = 200


class ToldFiles(Slice):
    """By session, the texts of its newest ``sys.files`` by their SHA-256."""

    NAME = "told_files"
    MIGRATIONS = {0: lambda rows: []}  # noqa: RUF012

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._told: OrderedDict[Key, dict[str, str]] = OrderedDict()
        self._of: dict[str, set[str]] = {}  # by address, the sessions
        self._bytes = 0

    def hears(self) -> Mapping[str, Handler]:
        return {"sys.files": self._files, "process.slot": self._slot}

    def keeps(self) -> Mapping[str, Keeper]:
        return {"files": lambda key, value: self._forget(key)}

    def known(self, key: Key) -> Container[str]:
        """The SHA-256 of the texts that need not be said to a session."""
        return self._told.get(key, {})

    def texts_of(self, body: Mapping[str, Any]) -> str:
        """JSON of ``[name, text, note]`` for each file of an entry that was just heard."""
        turn = self._turns.get(body["turn"])
        told = {} if turn is None else self._told.get((turn.address, turn.mail.session), {})
        return canonical(
            [[name, told.get(digest, ""), note] for name, digest, note in json.loads(body["files"])]
        )

    def _files(self, told: Told) -> None:
        turn = self._turns.get(told.body["turn"])
        if turn is None:
            return
        key = (turn.address, turn.mail.session)
        texts = self._told.get(key, {}) | json.loads(told.body["new"])
        named = {digest for _, digest, _ in json.loads(told.body["files"])}
        self._forget(key)
        self._keep(key, {digest: str(text) for digest, text in texts.items() if digest in named})
        while self._bytes > MOST_BYTES and len(self._told) > 1:
            self._forget(next(iter(self._told)))

    def _slot(self, told: Told) -> None:
        if told.body["state"] == "removed":
            for session in list(self._of.get(told.body["address"], ())):
                self._forget((told.body["address"], session))

    def _keep(self, key: Key, texts: dict[str, str]) -> None:
        if texts:
            self._told[key] = texts
            self._bytes += _size(texts)
            self._of.setdefault(key[0], set()).add(key[1])

    def _forget(self, key: Key) -> None:
        texts = self._told.pop(key, None)
        if texts is None:
            return
        self._bytes -= _size(texts)
        self._of[key[0]].discard(key[1])
        if not self._of[key[0]]:
            del self._of[key[0]]

    def rows(self) -> Any:
        return [
            [*key, [[digest, text] for digest, text in texts.items()]] for key, texts in self._told.items()
        ]

    def restore(self, rows: Any) -> None:
        for address, session, texts in as_rows(rows):
            read = {as_text(digest): as_text(text) for digest, text in as_rows(texts)}
            self._keep((as_text(address), as_text(session)), read)


def _size(texts: Mapping[str, str]) -> int:
    return sum(_EACH_BYTES + size_of_text(text) for text in texts.values())
