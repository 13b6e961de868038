"""What turns came to, kept for whoever learns from them: of each who answered, what it took, how it is scored.

Theory of operation. Nothing is written for it: the journal says all of this, and the trace of the turn
(:mod:`kernel.slices.feed.turn_logs`) adds it up. What was asked and answered is named by its entries and not repeated,
so an erasure reaches it; words of a behaviour are taken only where they read as the stages of weftos write them.

A turn is kept when its stage ``learn`` says so. One that the node ended, or whose message died, has told of no stage:
it is kept when it has asked a model and its configuration, as it was recorded when it began, has that stage. How many
and for how long that configuration says too, so a replay comes to the same whatever the file says by then.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from kernel.model.address import parent
from kernel.model.rows import as_number, as_rows, as_text, made, row
from kernel.operations.turns.trajectories import Thumb, TrajectoryRow
from kernel.slice import Handler, Keeper, Slice, Told
from kernel.slices.feed.agent_trace import AgentTrace
from kernel.slices.feed.reply_metadata import SCORE, metadata_of
from kernel.slices.feed.turn_logs import TurnLogs
from kernel.slices.mailboxes import turn_id
from kernel.slices.sessions import Key
from kernel.slices.tree.slots import Slot, Slots
from kernel.slices.turns import Turn, Turns

LEARN, CLASSIFY = "learn", "classify"
KEEP, DAYS = 1_000, 30
"""Where the configuration says nothing else; as :class:`cognition.config.agent_config.LearnConfig` has it."""
MOST_KEPT, MOST_DAYS = 10_000, 3_650
MOST_IN_ALL = 20_000
"""Of all agents; one takes some 740 bytes."""
_DAY_US = 24 * 3600 * 1_000_000
_NONE_YET = -1

_SCORES = re.compile(r"[01]\.\d\d \([a-z ]{1,20} [01]\.\d\d(, [a-z ]{1,20} [01]\.\d\d){0,9}\)").fullmatch
_SCORE = re.compile(r"([a-z ]{1,20}) ([01]\.\d\d)").findall
_TASK = re.compile(r"[a-z_]{1,32}(?= \(|$)").match


@dataclass(slots=True)
class Trajectory:
    """``request`` and ``response``: the entries that hold what was asked and answered. ``scores``: the words of stage
    ``score``. ``cost`` in millionths, -1 where nobody knows any of it. ``thumb``: up, down, or empty; ``rated``: its
    entry, -1 for none.
    """

    turn: str
    address: str
    session: str
    request: int
    response: int
    ended_us: int
    took_us: int
    outcome: str
    task_type: str
    scores: str
    provider: str
    model: str
    tool_rounds: int
    tool_calls: int
    failed_calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost: int
    cost_unknown: int
    fallback_attempts: int
    attempts: int
    thumb: str = ""
    rated: int = _NONE_YET

    @property
    def overall(self) -> float | None:
        """The score, with the thumb; None where there is neither."""
        return rated_overall(self.scores, self.thumb)

    def row(self) -> TrajectoryRow:
        """As a person is shown it."""
        said: Any = {name: getattr(self, name) for name in self.__slots__ if name not in ("scores", "cost")}
        said["scores"], said["overall"] = scores_in(self.scores), self.overall
        said["cost_millionths"] = None if self.cost < 0 else self.cost
        return cast(TrajectoryRow, said)


@dataclass(frozen=True, slots=True)
class Retention:
    """``keep``: how many of an agent, ``days``: how long."""

    keep: int = KEEP
    days: int = DAYS


@dataclass(slots=True)
class _Agent:
    """Of one agent and its chats, by turn, the oldest first; ``retention``: as the newest was told."""

    retention: Retention = field(default_factory=Retention)
    kept: OrderedDict[str, Trajectory] = field(default_factory=OrderedDict)


class Trajectories(Slice):
    """By agent, the one whose turn ended longest ago first."""

    NAME = "trajectories"
    MIGRATIONS = {0: lambda rows: []}  # noqa: RUF012

    def __init__(self, slots: Slots, turns: Turns, logs: TurnLogs) -> None:
        self._slots = slots
        self._turns = turns
        self._logs = logs
        self._agents: OrderedDict[str, _Agent] = OrderedDict()
        self._of_turn: dict[str, str] = {}

    def get(self, turn: str) -> Trajectory | None:
        agent = self._of_turn.get(turn)
        return None if agent is None else self._agents[agent].kept[turn]

    def __contains__(self, turn: object) -> bool:
        return turn in self._of_turn

    def __len__(self) -> int:
        return len(self._of_turn)

    def of(self, address: str, now_us: int) -> Iterator[Trajectory]:
        """Those of an agent with its chats, or of one chat, the newest first; none that is too old by now."""
        slot = self._slots.get(address)
        agent = self._agents.get(address if slot is None else _agent_of(slot))
        if agent is None:
            return
        since_us = now_us - agent.retention.days * _DAY_US
        for one in reversed(agent.kept.values()):
            if one.ended_us < since_us:
                return
            if one.address == address or slot is None or not slot.spec.session:
                yield one

    def in_session(self, key: Key) -> list[str]:
        """The turns of a session."""
        slot = self._slots.get(key[0])
        agent = self._agents.get(key[0] if slot is None else _agent_of(slot))
        kept = agent.kept.values() if agent is not None else ()
        return [one.turn for one in kept if (one.address, one.session) == key]

    # -- what is heard -------------------------------------------------------------------------------------------

    def hears(self) -> Mapping[str, Handler]:
        return {
            "node.booted": self._booted,
            "message.dead": lambda told: self._ended(turn_id(told.body["id"]), "dead", told),
            "turn.ended": lambda told: self._ended(told.body["turn"], told.body["status"], told),
            "turn.rated": self._rated,
            "process.slot": self._slot,
        }

    def keeps(self) -> Mapping[str, Keeper]:
        return {"trajectory": lambda turn, value: self._forget(turn)}

    def _booted(self, told: Told) -> None:
        for agent in list(self._agents.values()):
            self._trim(agent, told.time_us)

    def _ended(self, ident: str, status: str, told: Told) -> None:
        turn, trace = self._turns.get(ident), self._logs.trace_of(ident)
        slot = None if turn is None else self._slots.get(turn.address)
        if turn is None or trace is None or slot is None:
            return
        retention = _retention(trace, turn, slot)
        if retention is None:
            return
        name = _agent_of(slot)
        agent = self._agents.setdefault(name, _Agent())
        self._agents.move_to_end(name)
        agent.retention = retention
        agent.kept[ident] = _trajectory(trace, turn, status, told)
        self._of_turn[ident] = name
        self._trim(agent, told.time_us)
        while len(self._of_turn) > MOST_IN_ALL:
            self._forget(next(iter(next(iter(self._agents.values())).kept)))

    def _trim(self, agent: _Agent, now_us: int) -> None:
        since_us = now_us - agent.retention.days * _DAY_US
        while agent.kept:
            oldest = next(iter(agent.kept.values()))
            if len(agent.kept) <= agent.retention.keep and oldest.ended_us >= since_us:
                return
            self._forget(oldest.turn)

    def _rated(self, told: Told) -> None:
        one = self.get(told.body["turn"])
        if one is not None:
            one.thumb, one.rated = told.body["thumb"], told.seq

    def _slot(self, told: Told) -> None:
        """They go with the process; another one of its name has nothing to do with them."""
        if not self._agents or told.body["state"] != "removed":
            return
        for address in self._slots.tree(told.body["address"]):
            slot = self._slots.get(address)
            agent = None if slot is None else self._agents.get(_agent_of(slot))
            for one in list(agent.kept.values()) if agent is not None else ():
                if one.address == address:
                    self._forget(one.turn)

    def _forget(self, turn: str) -> None:
        name = self._of_turn.pop(turn, None)
        if name is not None:
            del self._agents[name].kept[turn]
            if not self._agents[name].kept:
                del self._agents[name]

    # -- as rows -------------------------------------------------------------------------------------------------

    def rows(self) -> Any:
        return [
            [name, agent.retention.keep, agent.retention.days, [row(one) for one in agent.kept.values()]]
            for name, agent in self._agents.items()
        ]

    def restore(self, rows: Any) -> None:
        for name, keep, days, kept in as_rows(rows):
            agent = self._agents[as_text(name)] = _Agent(Retention(as_number(keep), as_number(days)))
            for each in as_rows(kept):
                one = made(Trajectory, each)
                agent.kept[one.turn] = one
                self._of_turn[one.turn] = name


def scores_in(words: str) -> dict[str, float]:
    """What stage ``score`` has said, by name; nothing where it reads otherwise."""
    if not _SCORES(words):
        return {}
    overall, _, others = words.partition(" ")
    return {"overall": float(overall)} | {
        name.strip().replace(" ", "_"): float(value) for name, value in _SCORE(others)
    }


def rated_overall(scores: str, thumb: str) -> float | None:
    """The overall score of a turn with what a person says of it: the mean of both, up being 1 and down 0."""
    parts = [found for found in (scores_in(scores).get("overall"), _THUMBS.get(thumb)) if found is not None]
    return sum(parts) / len(parts) if parts else None


_THUMBS: Mapping[str, float] = {"up": 1.0, "down": 0.0}


def thumb_of(said: str) -> Thumb | None:
    """A thumb as an entry has it."""
    return "up" if said == "up" else "down" if said == "down" else None


def _agent_of(slot: Slot) -> str:
    return parent(slot.address) if slot.spec.session else slot.address


def _trajectory(trace: AgentTrace, turn: Turn, status: str, told: Told) -> Trajectory:
    took = metadata_of(trace)
    if took is None:
        raise ValueError(f"turn {turn.id} has ended, and its trace goes on")
    whys = {stage.stage: stage.metadata.get("why", "") for stage in trace.stages}
    task, scores, cost = _TASK(whys.get(CLASSIFY, "")), whys.get(SCORE, ""), took["cost_millionths"]
    return Trajectory(
        turn.id,
        turn.address,
        turn.mail.session,
        turn.mail.seq,
        told.seq,
        told.time_us,
        max(0, told.time_us - trace.started_at_us),
        status,
        task[0] if task else "",
        scores if _SCORES(scores) else "",
        *_who(trace),
        took["tool_rounds"],
        took["tool_calls"],
        sum(call.status != "ok" for call in trace.tool_calls),
        took["input_tokens"],
        took["output_tokens"],
        took["cached_tokens"],
        -1 if cost is None else cost,
        took["cost_unknown"],
        took["fallback_attempts"],
        took["attempts"],
    )


def _who(trace: AgentTrace) -> tuple[str, str]:
    """Provider and model that answered last; where none did, that were asked last."""
    if trace.provider_used or not trace.model_calls:
        return trace.provider_used, trace.model_used
    return trace.model_calls[-1].provider, trace.model_calls[-1].model


def _retention(trace: AgentTrace, turn: Turn, slot: Slot) -> Retention | None:
    """None: the turn is not to be kept."""
    tables = [_told(turn.config), slot.spec.config]
    learn, pipeline = _merged(tables, LEARN), _merged(tables, "pipeline")
    if trace.stages:
        if not any(stage.stage == LEARN and stage.outcome == "continue" for stage in trace.stages):
            return None
    else:
        stages, skipped = pipeline.get("stages"), pipeline.get("skip_stages")
        left_out = (stages and LEARN not in stages) or LEARN in (skipped or ())
        if trace.outcome == "ok" or not trace.model_calls or left_out or learn.get("enabled") is False:
            return None
    return Retention(
        _at_most(learn.get("keep"), KEEP, MOST_KEPT), _at_most(learn.get("days"), DAYS, MOST_DAYS)
    )


@lru_cache(maxsize=16)
def _told(config: str) -> Mapping[str, Any]:
    found = json.loads(config or "{}")
    return found if isinstance(found, dict) else {}


def _merged(tables: list[Mapping[str, Any]], name: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for table in tables:
        own = table.get(name)
        found |= own if isinstance(own, dict) else {}
    return found


def _at_most(said: Any, otherwise: int, most: int) -> int:
    """A number from a configuration that nobody has checked but the process that it is for."""
    return min(said, most) if type(said) is int and said > 0 else otherwise
