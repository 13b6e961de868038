"""What each session has done: the calls of its turns that have effects, and what came of them, for good.

A session forgets its oldest turns, and a model is shown fewer still; what was done stays here, out of the entries of
the calls. A *deed* is a call with effects that the node was about to make (``tool.intent``). Each entry that says more
of it is a step of it, so what a turn was told when it began can be said again (:meth:`Deeds.as_of`) as long as that
turn is open: a deed is let go only when a turn has ended.

Of one session the newest :data:`MOST_DEEDS` are kept one by one, those that are open or in doubt before others; of
those before, how many there were of each tool. Of all sessions those that did nothing for longest go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from kernel.abi import Deed, DeedOutcome, Deeds
from kernel.model.rows import as_list, as_number, as_rows, as_text
from kernel.slice import Handler, Keeper, Slice, Told
from kernel.slices.history.target import target_of
from kernel.slices.sessions import Key
from kernel.slices.turns import Turns

MOST_DEEDS = 500
MOST_TOOLS = 64
"""So many tools are counted by their names, in what is no longer kept one by one."""
MOST_SESSIONS = 10_000
MOST_IN_ALL = 100_000
"""Deeds of all sessions; one takes some 250 bytes."""
MOST_STEPS = 8
OTHERS = "others"
UNDER_WAY: DeedOutcome = "under_way"
OPEN: tuple[DeedOutcome, ...] = (UNDER_WAY, "in_doubt")


@dataclass(slots=True)
class _Deed:
    """``steps``: the entries that tell of it, and what it was from then on."""

    turn: str
    tool: str
    target: str
    steps: list[tuple[int, DeedOutcome]]

    def at(self, seq: int) -> DeedOutcome | None:
        """What was known of it when the entry ``seq`` was written; None: nothing yet."""
        return next((outcome for at, outcome in reversed(self.steps) if at <= seq), None)

    @property
    def open(self) -> bool:
        return self.steps[-1][1] in OPEN


@dataclass(slots=True)
class _Done:
    """What one session has done: by its call, and how many before, by tool."""

    deeds: dict[str, _Deed] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)

    def let_go(self) -> Iterator[str]:
        """The calls of those that are too many: the oldest of the settled, then the oldest."""
        over = len(self.deeds) - MOST_DEEDS
        if over <= 0:
            return
        settled = [ident for ident, deed in self.deeds.items() if not deed.open]
        chosen = settled[:over]
        chosen += [ident for ident in self.deeds if ident not in set(chosen)][: over - len(chosen)]
        for ident in chosen:
            tool = self.deeds.pop(ident).tool
            if tool not in self.before and len(self.before) >= MOST_TOOLS:
                tool = OTHERS
            self.before[tool] = self.before.get(tool, 0) + 1
            yield ident


class DeedsOfSessions(Slice):
    """By session, that which did something longest ago first."""

    NAME = "deeds"
    MIGRATIONS = {0: lambda rows: []}  # noqa: RUF012

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._done: OrderedDict[Key, _Done] = OrderedDict()
        self._of_call: dict[str, Key] = {}
        self._of: dict[str, set[str]] = {}  # by address, the sessions

    def hears(self) -> Mapping[str, Handler]:
        return {
            "tool.intent": self._intent,
            "tool.outcome": self._outcome,
            "tool.resolved": self._resolved,
            "turn.ended": lambda told: self._trim(told.body["turn"]),
            "process.slot": self._slot,
        }

    def keeps(self) -> Mapping[str, Keeper]:
        return {"deeds": lambda key, value: self._forget(key)}

    def as_of(self, key: Key, seq: int, turn: str) -> Deeds:
        """What the session had done when the entry ``seq`` was written, before ``turn``, oldest first."""
        done = self._done.get(key)
        if done is None:
            return Deeds()
        told = [
            Deed(deed.steps[0][0], deed.tool, deed.target, outcome, deed.turn)
            for deed in done.deeds.values()
            if deed.turn != turn and (outcome := deed.at(seq)) is not None
        ]
        earlier = sum(done.before.values())
        return Deeds(
            tuple(told), earlier, ", ".join(f"{tool} {count}" for tool, count in done.before.items())
        )

    # -- what is heard -------------------------------------------------------------------------------------------

    def _intent(self, told: Told) -> None:
        body = told.body
        turn = self._turns.get(body["turn"])
        call = None if turn is None else turn.calls.get(body["ordinal"])
        ident = _ident(body)
        if turn is None or call is None or (body.get("effects", "") == "none" and ident not in self._of_call):
            return
        key = (turn.address, turn.mail.session)
        done = self._of_session(key)
        self._done.move_to_end(key)
        if ident not in done.deeds:
            done.deeds[ident] = _Deed(turn.id, call.name, target_of(call.arguments), [])
            self._of_call[ident] = key
        self._step(ident, told.seq, UNDER_WAY)

    def _of_session(self, key: Key) -> _Done:
        if key not in self._done:
            self._done[key] = _Done()
            self._of.setdefault(key[0], set()).add(key[1])
        return self._done[key]

    def _outcome(self, told: Told) -> None:
        self._step(_ident(told.body), told.seq, told.body["status"])

    def _resolved(self, told: Told) -> None:
        """A person, or its probe, said of it: the outcome follows, but for one that is to be made again."""
        if told.body["resolution"] == "lost":
            self._step(_ident(told.body), told.seq, "lost")

    def _step(self, ident: str, seq: int, outcome: DeedOutcome) -> None:
        """Only the newest few are kept beside the first, however often the call is made anew."""
        key = self._of_call.get(ident)
        if key is not None:
            steps = self._done[key].deeds[ident].steps
            steps.append((seq, outcome))
            del steps[1 : len(steps) - MOST_STEPS]

    def _trim(self, ident: str) -> None:
        turn = self._turns.get(ident)
        if turn is None:
            return
        done = self._done.get((turn.address, turn.mail.session))
        for each in done.let_go() if done is not None else ():
            del self._of_call[each]
        for key in self._beyond():
            self._forget(key)

    def _beyond(self) -> list[Key]:
        """The sessions that have to go, none that is in use, nor the newest."""
        count, deeds = len(self._done), len(self._of_call)
        going: list[Key] = []
        for key, done in islice(self._done.items(), max(0, count - 1)):
            if count <= MOST_SESSIONS and deeds <= MOST_IN_ALL:
                break
            if not self._turns.in_session(key):
                going.append(key)
                count, deeds = count - 1, deeds - len(done.deeds)
        return going

    def _slot(self, told: Told) -> None:
        """Another process of its name has not done what this one did."""
        if told.body["state"] == "removed":
            address = told.body["address"]
            for session in list(self._of.get(address, ())):
                self._forget((address, session))

    def _forget(self, key: Key) -> None:
        done = self._done.pop(key, None)
        if done is None:
            return
        for ident in done.deeds:
            del self._of_call[ident]
        of = self._of[key[0]]
        of.discard(key[1])
        if not of:
            del self._of[key[0]]

    # -- as rows -------------------------------------------------------------------------------------------------

    def rows(self) -> Any:
        return [
            [
                *key,
                [
                    [ident, deed.turn, deed.tool, deed.target, [list(step) for step in deed.steps]]
                    for ident, deed in done.deeds.items()
                ],
                [[tool, count] for tool, count in done.before.items()],
            ]
            for key, done in self._done.items()
        ]

    def restore(self, rows: Any) -> None:
        for address, session, deeds, before in as_rows(rows):
            key = as_text(address), as_text(session)
            done = self._of_session(key)
            done.before = {as_text(tool): as_number(count) for tool, count in as_rows(before)}
            for ident, turn, tool, target, steps in as_rows(deeds):
                read: Any = [(as_number(seq), as_text(outcome)) for seq, outcome in as_rows(steps)]
                if not as_list(steps):
                    raise ValueError(f"a deed without an entry: {ident!r:.80}")
                done.deeds[as_text(ident)] = _Deed(as_text(turn), as_text(tool), as_text(target), read)
                self._of_call[ident] = key


def _ident(body: Mapping[str, Any]) -> str:
    """As :func:`kernel.slices.calls.call_id` names it."""
    return f"{body['turn']}:{body['ordinal']}"
