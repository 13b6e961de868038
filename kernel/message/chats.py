"""Which process is the session of a chat, what it is made of, and which has to go for another one. Pure.

The session of the chat ``42`` of channel ``telegram`` with the agent ``/user/ada`` is ``/user/ada/telegram.42``. A
channel has no dot in its name, so that no two keys that can be read so come to one name; what cannot be a name, or has
a dot itself, is told by a hash, behind two dots.

It is asleep while its slot is there and nothing runs: its history, its memories and its place stay, and the next
message of its chat wakes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kernel.model.address import MAX_NAME
from kernel.model.spec import ProcessSpec
from kernel.slices.tree.slots import Slot
from kernel.values import sha256_hex

IDLE = "idle"
"""Why a session that is asleep is down."""
QUEUE, STEER, INTERRUPT, REJECT = "queue", "steer", "interrupt", "reject"
_PLAIN = re.compile(r"[A-Za-z0-9_-]+").fullmatch
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_-]+")
_SHOWN_CHARS = 8
_HASH_CHARS = 16


def process_name(key: str) -> str:
    """The name of the process of a session, below its agent, by ``channel:chat``."""
    channel, _, chat = key.partition(":")
    name = f"{channel}.{chat}"
    if _PLAIN(chat) and len(name) <= MAX_NAME:
        return name
    shown = _NOT_PLAIN.sub("", chat)[:_SHOWN_CHARS]
    return f"{channel}..{shown}{'-' if shown else ''}{sha256_hex(key)[:_HASH_CHARS]}"


def session_spec(agent: ProcessSpec, key: str) -> ProcessSpec:
    """A process for the session ``key``: all that the agent is, but that it is no significant one and has no budget of
    its own: what it uses is the agent's.
    """
    return replace(
        agent,
        name=process_name(key),
        session=key,
        restart="permanent",
        significant=False,
        budget=None,
        on_logical="restart" if agent.on_logical == "restart" else "park",
    )


def is_asleep(slot: Slot) -> bool:
    """Whether the next message of its chat wakes it."""
    return bool(slot.spec.session) and slot.state == "stopped" and slot.why == IDLE


def while_busy(config: Mapping[str, Any], channel: str) -> str:
    """What a message of that channel does while an earlier one of its chat is being answered, by what is configured of
    its agent; what is configured wrongly does nothing else than usual.
    """
    of_channels = config.get("channel_overrides")
    of_this = of_channels.get(channel) if isinstance(of_channels, Mapping) else None
    said = of_this.get("while_busy") if isinstance(of_this, Mapping) else None
    return said if said in (STEER, INTERRUPT, REJECT) else QUEUE


def provider_of(config: Mapping[str, Any], channel: str) -> str:
    """Of a model that a chat of that channel names alone; empty: the default of the node."""
    of_channels = config.get("channel_overrides")
    of_this = of_channels.get(channel) if isinstance(of_channels, Mapping) else None
    said = (of_this.get("provider") if isinstance(of_this, Mapping) else None) or config.get("provider")
    return said if isinstance(said, str) else ""


@dataclass(frozen=True, slots=True)
class Seen:
    """A session of an agent: whether it runs, or is to, and whether it is ``busy``: what runs has something to do, what
    does not run is not asleep. ``since``: of what runs, and of what sleeps, since when it does nothing; each of one
    clock.
    """

    address: str
    runs: bool
    busy: bool
    since: float


@dataclass(frozen=True, slots=True)
class Room:
    """What makes room for another one: ``sleeps`` ends, ``goes`` is removed; each empty for nobody. ``why`` there is
    none, empty where there is.
    """

    sleeps: str = ""
    goes: str = ""
    why: str = ""


def room(seen: Iterable[Seen], running: int, kept: int | None) -> Room:
    """For one more that runs, beside at most so many that do; and for one more slot, beside so many, None: it has one.
    Of each the one that was idle, or slept, the longest makes room.
    """
    sessions = list(seen)
    up = [each for each in sessions if each.runs]
    idle = [each for each in up if not each.busy]
    asleep = [each for each in sessions if not each.runs and not each.busy]
    sleeps = goes = ""
    if len(up) >= running:
        if not idle:
            return Room(why=f"{len(up)} sessions are busy, the limit of one agent")
        sleeps = min(idle, key=lambda each: each.since).address
    if kept is not None and len(sessions) >= kept:
        if not asleep:
            return Room(
                why=f"it has {len(sessions)} sessions, the limit of one agent, and none of them is asleep"
            )
        goes = min(asleep, key=lambda each: each.since).address
    return Room(sleeps, goes)
