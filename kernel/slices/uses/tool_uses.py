"""How often each tool was called in a session: the calls that were allowed, each counted once however often it is made.

It is of the address and the session, and outlasts incarnations and boots. A process that is removed takes it along.
Beyond :data:`MOST_SESSIONS` the session that has used a tool longest ago is forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from kernel.bounds import MOST_SESSIONS
from kernel.model.rows import as_number, as_rows, as_text
from kernel.slice import Handler, Slice, Told
from kernel.slices.tree.slots import Slots
from kernel.slices.turns import Turn, Turns

Key = tuple[str, str]
"""An address and the name of a session."""


class ToolUses(Slice):
    """By session and tool."""

    NAME = "uses"
    MIGRATIONS = {0: lambda rows: []}  # noqa: RUF012

    def __init__(self, slots: Slots, turns: Turns) -> None:
        self._tree, self._turns = slots, turns
        self._of: OrderedDict[Key, dict[str, int]] = OrderedDict()
        self._sessions: dict[str, dict[str, None]] = {}

    def hears(self) -> Mapping[str, Handler]:
        return {"tool.verdict": self._judged, "process.slot": self._slot}

    def count(self, session: Key, tool: str) -> int:
        """The calls of a tool in a session."""
        return self._of.get(session, {}).get(tool, 0)

    def _judged(self, told: Told) -> None:
        body = told.body
        turn: Turn | None = self._turns.get(body["turn"])
        if turn is None or body["decision"] != "allow" or "tool" not in body:
            return
        key = (turn.address, turn.mail.session)
        tools = self._hold(key, self._of.get(key, {}))
        tools[body["tool"]] = tools.get(body["tool"], 0) + 1
        if len(self._of) > MOST_SESSIONS:
            self._forget(next(iter(self._of)))

    def _hold(self, key: Key, tools: dict[str, int]) -> dict[str, int]:
        self._of[key] = tools
        self._of.move_to_end(key)
        self._sessions.setdefault(key[0], {})[key[1]] = None
        return tools

    def _forget(self, key: Key) -> None:
        del self._of[key]
        sessions = self._sessions[key[0]]
        del sessions[key[1]]
        if not sessions:
            del self._sessions[key[0]]

    def _slot(self, told: Told) -> None:
        if self._of and told.body["state"] == "removed":
            for address in self._tree.tree(told.body["address"]):
                for session in list(self._sessions.get(address, ())):
                    self._forget((address, session))

    def rows(self) -> Any:
        return [[*key, [list(each) for each in tools.items()]] for key, tools in self._of.items()]

    def restore(self, rows: Any) -> None:
        for address, session, tools in as_rows(rows):
            counts = {as_text(tool): as_number(count) for tool, count in as_rows(tools)}
            self._hold((as_text(address), as_text(session)), counts)
