"""Which rules hold for a turn: what its process, and the processes above that, were told by configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from kernel.model.address import parent
from kernel.model.turn_rules import NO_RULES, TurnRules
from kernel.slices.turns import Turn
from kernel.state.state import State

MOST_KEPT = 4_096

ReadRules = Callable[[str, str, tuple[Mapping[str, Any], ...]], TurnRules]
"""``(behaviour, JSON of what the node tells it, what the spawns of its process and those above say) -> rules``."""


class Rules(Protocol):
    """Which rules hold."""

    def of_turn(self, turn: Turn) -> TurnRules:
        """For an open turn."""
        ...

    def of(self, address: str, told: str) -> TurnRules:
        """For a turn of a process that begins with what the node tells it (JSON)."""
        ...

    def of_next(self, address: str) -> TurnRules:
        """For the next turn of a process."""
        ...

    def of_new(self, behaviour: str, spawn: Mapping[str, Any]) -> TurnRules:
        """For a process that is to be made."""
        ...


class NothingRuled:
    """Of a node whose configuration says nothing of it."""

    def of_turn(self, turn: Turn) -> TurnRules:
        return NO_RULES

    def of(self, address: str, told: str) -> TurnRules:
        return NO_RULES

    def of_next(self, address: str) -> TurnRules:
        return NO_RULES

    def of_new(self, behaviour: str, spawn: Mapping[str, Any]) -> TurnRules:
        return NO_RULES


class RulesInForce:
    """A turn keeps those that it began with. ``present(behaviour)``: JSON of what the node tells it now."""

    def __init__(self, state: State, read: ReadRules, present: Callable[[str], str]) -> None:
        self._state = state
        self._read = read
        self._present = present
        self._kept: dict[str, TurnRules] = {}

    def of_turn(self, turn: Turn) -> TurnRules:
        """Those of an open turn."""
        rules = self._kept.get(turn.id)
        if rules is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            rules = self._kept[turn.id] = self.of(turn.address, turn.config)
        return rules

    def of_next(self, address: str) -> TurnRules:
        """Those of the next turn of a process."""
        slot = self._state.slots.get(address)
        return NO_RULES if slot is None else self.of(address, self._present(slot.spec.behaviour))

    def of(self, address: str, told: str) -> TurnRules:
        """Those of a turn that begins so."""
        slot = self._state.slots.get(address)
        return NO_RULES if slot is None else self._read(slot.spec.behaviour, told, tuple(self._said(address)))

    def of_new(self, behaviour: str, spawn: Mapping[str, Any]) -> TurnRules:
        """Those of a process that is to be made, by itself."""
        return self._read(behaviour, self._present(behaviour), (spawn,))

    def _said(self, address: str) -> Iterator[Mapping[str, Any]]:
        """By the spawns of the process and of the agents above it."""
        slot = self._state.slots.get(address)
        while slot is not None:
            yield slot.spec.config
            slot = self._state.slots.worker_above(parent(slot.address))
