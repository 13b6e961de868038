"""The keys of ``[agent.channel_overrides.NAME]``: what is otherwise for messages of the channel of that name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WhileBusy = Literal["queue", "steer", "interrupt", "reject"]


@dataclass(frozen=True, slots=True)
class ChannelOverride:
    """``while_busy``: what a message of a chat does while an earlier one is being answered: ``queue``, it waits for its
    turn; ``steer``, its text joins the turn that runs, before the next question to a model; ``interrupt``, that turn is
    cancelled; ``reject``, it is refused.
    """

    while_busy: WhileBusy = "queue"
