"""The keys of ``[agent.channel_overrides.NAME]``: what is otherwise for messages of the channel of that name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le, MaxLen

WhileBusy = Literal["queue", "steer", "interrupt", "reject"]


@dataclass(frozen=True, slots=True)
class ChannelOverride:
    """``while_busy``: what a message of a chat does while an earlier one is being answered: ``queue``, it waits for its
    turn; ``steer``, its text joins the turn that runs, before the next question to a model; ``interrupt``, that turn is
    cancelled; ``reject``, it is refused. Of the others None: as it is elsewhere. ``tools``: names, or patterns, of
    those that are offered here of what is offered elsewhere.
    """

    while_busy: WhileBusy = "queue"
    provider: Annotated[str, MaxLen(256)] | None = None
    model: Annotated[str, MaxLen(256)] | None = None
    system_prompt: Annotated[str, MaxLen(100_000)] | None = None
    tools: Annotated[tuple[Annotated[str, MaxLen(256)], ...], MaxLen(1_000)] | None = None
    temperature: Annotated[float, Ge(0), Le(2)] | None = None
