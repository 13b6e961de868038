"""Asks that would wait for each other for ever are refused when they are made.

A process handles one message at a time, so while it waits for an answer it answers nobody. An ask is
refused when whoever is asked waits, directly or through others, for the asker.

    would_cycle(waiting: Mapping[str, Collection[str]], asker: str, target: str) -> list[str] | None
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def would_cycle(waiting: Mapping[str, Collection[str]], asker: str, target: str) -> list[str] | None:
    """The circle that an ask by ``asker`` of ``target`` would close, or None.

    ``waiting`` maps an address to those it now waits for (several, when one round asks several). The circle
    is the chain of addresses from the asker through the target back to the asker, which stands at both
    ends.
    """
    if asker == target:
        return [asker, target]
    came_from: dict[str, str] = {}
    frontier = [target]
    while frontier:
        address = frontier.pop()
        if address == asker:
            return _chain(came_from, asker, target)
        for waited_for in waiting.get(address, ()):
            if waited_for not in came_from:
                came_from[waited_for] = address
                frontier.append(waited_for)
    return None


def _chain(came_from: Mapping[str, str], asker: str, target: str) -> list[str]:
    backwards = [asker]
    while backwards[-1] != target:
        backwards.append(came_from[backwards[-1]])
    return [asker, *reversed(backwards)]
