"""Operations on messages: send them, watch what comes of them, and what could not be delivered."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from kernel.operations.operation import MAX_WAIT_S, Limit, Noun, OfTarget, Operation, Page, Stream

MAX_TOPIC_CHARS = 600
Overflow = Literal["back_pressure", "dead_letter", "drop_oldest"]
MAX_EXPIRES_S = 365 * 86_400
MAX_KEY_CHARS = 256
Topic = Annotated[str, Limit(min_length=1, max_length=MAX_TOPIC_CHARS)]
MAX_ATTACHMENTS = 16
Session = Annotated[str, Limit(max_length=256)]
ChannelText = Annotated[str, Limit(min_length=1, max_length=1_000)]
"""What is said of a channel, and never empty: who does not know the chat of a message is not to send it to none. The
node says in words which names may be in it.
"""


@dataclass(frozen=True, slots=True)
class Said(OfTarget):
    """``text`` to send, in a ``session``; empty: the main one, or that of its ``chat``.

    ``channel``: the way it came, as its configuration names it, such as ``telegram``; ``chat``: the conversation there;
    ``user``: who wrote it, and ``id``: the message, as the channel names them. A channel's message of the same ``id``
    is answered within a day, and not sent again. ``options``: what it asks of the answer (``provider``, ``model``,
    ``temperature``, ``top_p``, ``top_k``, ``max_tokens``, ``output_schema``); ``attachments``: objects with ``name``,
    ``type``, ``size``, ``sha256`` and, where it can be read, ``text``.
    """

    text: str
    _: KW_ONLY
    session: Session = ""
    channel: ChannelText | None = None
    chat: ChannelText | None = None
    user: ChannelText | None = None
    id: ChannelText | None = None
    options: dict[str, Any] | None = None
    attachments: Annotated[tuple[dict[str, Any], ...], Limit(max_length=MAX_ATTACHMENTS)] = ()


@dataclass(frozen=True, slots=True)
class Watch(Said):
    """A message whose events are wanted."""


@dataclass(frozen=True, slots=True)
class Send(Said):
    """``wait_s``: how long to wait for the reply, None for not at all. What is sent once more with the same ``key``
    within a day is answered, and not sent. ``expires_s``: it is a dead letter when its turn has not begun by then, None
    for never.
    """

    _: KW_ONLY
    wait_s: Annotated[float, Limit(gt=0, le=MAX_WAIT_S)] | None = None
    key: Annotated[str, Limit(max_length=MAX_KEY_CHARS)] = ""
    expires_s: Annotated[float, Limit(gt=0, le=MAX_EXPIRES_S)] | None = None


@dataclass(frozen=True, slots=True)
class Broadcast(OfTarget):
    """``text`` for every process below the target, in a ``session``; empty: the main one."""

    text: str
    _: KW_ONLY
    session: Session = ""


@dataclass(frozen=True, slots=True)
class Publish:
    """``text`` for all who have subscribed to ``topic``, in a ``session``; empty: the main one."""

    topic: Topic
    text: str
    _: KW_ONLY
    session: Session = ""


@dataclass(frozen=True, slots=True)
class Subscribe(OfTarget):
    """``pattern``: a topic, ``TOPIC.*`` for all below it, or ``*``. ``overflow``: what becomes of a publication for
    which the mailbox has no room; ``drop_oldest`` is for topics below ``telemetry`` alone.
    """

    pattern: Topic
    _: KW_ONLY
    overflow: Overflow = "back_pressure"


@dataclass(frozen=True, slots=True)
class Unsubscribe(OfTarget):
    """``pattern`` as it was subscribed to."""

    pattern: Topic


@dataclass(frozen=True, slots=True)
class OfLetter:
    """A dead letter, by its ``id``."""

    id: str


@dataclass(frozen=True, slots=True)
class OfMessage:
    """A message of this node, by its ``id``, whatever became of it."""

    id: Annotated[str, Limit(min_length=2, max_length=20)]


@dataclass(frozen=True, slots=True)
class Letters(Page):
    """``to`` and ``sender``: an address, with all below it. ``reason``: one word of those in ``message.dead``.
    ``replayed``: those too that were sent again.
    """

    _: KW_ONLY
    to: str = ""
    sender: str = ""
    reason: str = ""
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Replay(OfLetter):
    """Where to: empty, where it went before. ``again``: though it was sent again already."""

    _: KW_ONLY
    to: str = ""
    again: bool = False


@dataclass(frozen=True, slots=True)
class Drop(OfLetter):
    """``why`` it is not wanted any more."""

    why: Annotated[str, Limit(min_length=1, max_length=500)]


class Dropped(TypedDict):
    """The letter that is gone."""

    id: str


class ReplyMetadata(TypedDict):
    """What an answer is told with. ``provider``, ``model``: who gave the last answer to a question, empty for nobody.
    ``tool_rounds``: rounds of calls, ``tool_calls`` in all; tokens of all questions. ``cost_millionths`` of the unit
    of money is what they cost, None where nobody knows that of any; ``cost_unknown``: of how many nobody knows it.
    ``fallback_attempts``: questions that were not answered; ``attempts``: how often the turn was handed out. ``score``:
    what its behaviour says of how it went.
    """

    provider: str
    model: str
    tool_rounds: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cost_millionths: int | None
    cost_unknown: int
    fallback_attempts: int
    attempts: int
    score: str


class Sent(TypedDict):
    """The accepted message. ``status``, ``reply``, ``turn`` and ``metadata`` where the reply was waited for;
    ``metadata`` not of one of another node. ``again``: it was accepted earlier, under the same key; then an answer that
    was given already is told without its ``reply``. ``channel`` and ``chat``: where the answer belongs, as the message
    said it; without them where it said nothing.
    """

    message: str
    address: str
    seq: int
    channel: NotRequired[str]
    chat: NotRequired[str]
    again: NotRequired[bool]
    status: NotRequired[str]
    reply: NotRequired[str]
    turn: NotRequired[str]
    metadata: NotRequired[ReplyMetadata]


class Published(TypedDict):
    """How many messages it became (``accepted``), how many of these are ``dead`` letters, how many older ones gave way
    to them (``dropped``), and how many processes it was for and did not reach. ``seq``: its entry."""

    seq: int
    accepted: int
    dead: int
    dropped: int
    left_out: int


class SubscriptionRow(TypedDict):
    """``seq``: the entry that made it."""

    address: str
    pattern: str
    overflow: str
    seq: int


class Unsubscribed(TypedDict):
    """What was taken back."""

    address: str
    pattern: str


class DeadLetter(TypedDict):
    """``why`` it could not be delivered, the ``reason`` in one word, and the entry (``seq``) that says so.
    ``accepted_seq``: the entry that accepted it. ``replays``: how often it was sent again, last as ``replayed_as``.
    """

    id: str
    sender: str
    to: str
    session: str
    text: str
    why: str
    reason: str
    seq: int
    time_us: int
    accepted_seq: int
    accepted_us: int
    replays: int
    replayed_as: str


class Step(TypedDict):
    """One thing that became of a message: ``event`` (accepted, delivered, receiver exited, dead, replayed, dropped and
    others), the ``detail`` in words, the process that it was about (``pid``, 0 for none), and the entry that says so.
    """

    event: str
    detail: str
    pid: int
    seq: int
    time_us: int


class Replayed(TypedDict):
    """The new message."""

    message: str
    address: str
    seq: int


class Messages(Noun):
    """Messages to processes of this node and of others."""

    send = Operation(
        "POST",
        "/send",
        Send,
        Sent,
        "Send a message. With `wait_s` the answer holds the reply; `timeout` when there is none in time.",
        recorded="send",
    )
    watch = Stream(
        "POST",
        "/watch",
        Watch,
        dict[str, Any],
        "Send a message and stream what comes of it: objects with `event` accepted, turn, delta, tool, exit, diverged, "
        "reply, dead.",
        recorded="send",
    )
    deadletters = Operation(
        "GET",
        "/deadletters",
        Letters,
        list[DeadLetter],
        "Messages that could not be delivered, oldest first, by `seq`; of each text the beginning.",
        after=lambda row: int(row["seq"]),
    )
    deadletter = Operation("GET", "/deadletters/{id:path}", OfLetter, DeadLetter, "One dead letter whole.")
    history = Operation(
        "GET",
        "/messages/{id:path}/history",
        OfMessage,
        list[Step],
        "What became of a message, from its acceptance on, out of the ledger: the newest 500 steps, oldest first.",
    )
    replay = Operation(
        "POST",
        "/deadletters/{id:path}/replay",
        Replay,
        Replayed,
        "Send a dead letter again, as a new message, where it went or elsewhere; a second time with `again` alone.",
        recorded="replay",
    )
    drop = Operation(
        "POST",
        "/deadletters/{id:path}/drop",
        Drop,
        Dropped,
        "Discard a dead letter, with a reason.",
        recorded="drop",
    )
    broadcast = Operation(
        "POST",
        "/broadcast",
        Broadcast,
        Published,
        "Send a message to every process below a target; one that is down or has no room is left out.",
        recorded="broadcast",
    )


class Topics(Noun):
    """What is published, and who subscribes to it."""

    publish = Operation(
        "POST", "/topics/publish", Publish, Published, "Say something to all subscribers.", recorded="publish"
    )
    subscribe = Operation(
        "POST",
        "/topics/subscribe",
        Subscribe,
        SubscriptionRow,
        "Have what is published go to a process, until its slot is removed.",
        recorded="subscribe",
    )
    unsubscribe = Operation(
        "POST",
        "/topics/unsubscribe",
        Unsubscribe,
        Unsubscribed,
        "Take a subscription back.",
        recorded="unsubscribe",
    )
    list = Operation(
        "GET",
        "/topics",
        Page,
        list[SubscriptionRow],
        "Subscriptions, oldest first, by `seq`.",
        after=lambda row: int(row["seq"]),
    )
