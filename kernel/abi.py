"""The contract between what thinks (a behaviour, in a cell) and what acts (the node).

Frozen types and the :class:`Syscalls` protocol. Imports nothing of ours, so that a cell that loads this module loads
no part of the kernel, the ledger or the mesh.

A *behaviour* is a class with one coroutine method, ``handle(message, sys)``. It is constructed once per process
incarnation with its :class:`ProcessInfo`, and called once per message. It may keep no state that matters between
messages except through :meth:`Syscalls.history` and the ``remember`` of its :class:`TurnResult`, because after a crash
the same message is handled again, by a new instance, as the same turn.

Determinism: everything a behaviour learns from outside comes through a syscall. The node records each outcome under
its *ordinal* (round, index); a resumed turn gets recorded outcomes back instead of a second execution.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NewType, Protocol, get_args, runtime_checkable

ABI_VERSION = 7
OPEN_CALLS = 256
"""How many syscalls of one process may be under way at once; those beyond wait in its cell."""

Effects = Literal["none", "local", "external"]
OnDoubt = Literal["ask", "retry", "lost"]
Role = Literal["operator", "agent", "peer"]
Sandbox = Literal["node", "archive", "builtin", "thirdparty"]
ProbeAnswer = Literal["landed", "not_landed", "unknown"]
EffectId = NewType("EffectId", str)
"""What names the effect of one tool call, the same at every attempt, and nobody can guess. A tool that has a parameter
of this type is given it, and hands it on as the idempotency key."""
OutcomeStatus = Literal["ok", "error", "timeout", "killed", "denied", "lost", "in_doubt"]
ExitKind = Literal["orderly", "technical", "logical"]
LogicalReason = Literal["no_progress", "refused"]
"""What a behaviour can say of its own end: :class:`LogicalExit`."""
ErrorKind = Literal[
    "",
    "rate_limited",
    "timeout",
    "auth",
    "context_overflow",
    "content_refused",
    "server",
    "transport",
    "unavailable",
    "invalid",
    "budget",
    "capped",
    "refused",
    "cancelled",
]
"""Why a model gave no answer: :class:`ModelAnswer`."""
StopReason = Literal["", "stop", "tool_calls", "length", "content_filter"]
MOST_SECTIONS = 32
"""Of so many sections of a question is recorded at most."""
MOST_STAGES = 64
"""So many steps of a turn are told at most."""
StageOutcome = Literal["continue", "skip", "respond", "abort"]
ValueName = Literal["now", "random"]
"""What :meth:`Syscalls.value` gives."""
DeedOutcome = Literal["ok", "error", "timeout", "killed", "denied", "lost", "in_doubt", "under_way"]
"""Of a call with effects: its outcome, or that there is none yet."""


@dataclass(frozen=True, slots=True)
class LastExit:
    """How the incarnation before this one ended. ``kind``: ``technical`` (crash, cell_lost, timeout, killed), after
    which the same may go well; ``logical`` (no_progress, refused, budget, diverged), after which the same words will
    bring the same again; or ``orderly``. ``detail``: one bounded line, which may hold what others said. ``time_s``:
    seconds since the epoch, 0 when nobody saw it. ``restarts``: how often the process was started again, this time
    too.
    """

    kind: ExitKind
    reason: str
    detail: str
    time_s: float
    restarts: int


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """What a process may know of itself. ``config`` is the behaviour's own part of the spawn request (JSON object).
    ``last_exit``: of its forerunner, None when it has none, or what was known of its end has been erased.
    """

    pid: int
    address: str
    name: str
    behaviour: str
    config: dict[str, Any] = field(default_factory=dict)
    last_exit: LastExit | None = None


@dataclass(frozen=True, slots=True)
class EndInTurn:
    """How the incarnation ``pid`` ended, by a crash or for a logical reason, that had been handed the message before.
    ``questions``: so many had been put to a model by then, and are answered from the record. ``detail``: one bounded
    line, which may hold what others said.
    """

    pid: int
    questions: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """What came with a message: its ``name``, media ``type``, ``size`` in bytes and ``sha256`` in hex, as its channel
    gave them; ``text``: what of it can be read, empty for nothing. The content itself stays with the channel.
    """

    name: str
    type: str
    size: int
    sha256: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """What one message asks of the answer to it. Empty, None and 0: nothing, it is as it would be without. Whether it
    may have that is decided as of any question: see :class:`ModelRequest`, which has fields of the same meaning.
    """

    provider: str = ""
    model: str = ""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int = 0
    output_schema: dict[str, Any] | None = None


NO_OPTIONS = MessageOptions()


@dataclass(frozen=True, slots=True)
class Identity:
    """Who has written a message of a channel, as the node decided when it took it: a ``name`` of ``[identities]``, or
    ``CHANNEL:USER`` for one whom none of them names; his ``roles``; the highest tier of models that is said of him
    (``max_tier``, empty where routing says it); and whether he may be shown what is ``sensitive``.
    """

    name: str = ""
    roles: tuple[str, ...] = ()
    max_tier: str = ""
    sensitive: bool = False


NOBODY = Identity()


@dataclass(frozen=True, slots=True)
class Inbound:
    """How a message came to the node. ``channel``: the way it took, empty for none; ``chat``: the conversation there;
    ``user``: who wrote it, as the channel names him; ``id``: the message, as the channel names it. Each is empty where
    it was not said. The node takes the word of who runs the channel for it. ``who`` that is: what the node made of it,
    :data:`NOBODY` where there is no channel.
    """

    channel: str = ""
    chat: str = ""
    user: str = ""
    id: str = ""
    options: MessageOptions = NO_OPTIONS
    attachments: tuple[Attachment, ...] = ()
    who: Identity = NOBODY


@dataclass(frozen=True, slots=True)
class Message:
    """One message as its receiver sees it. ``sender`` is an address, or ``operator`` for a person; set by the node.

    ``kind`` is ``down`` for what a monitor ends with: ``Down.of(message)`` says what. Then ``sender`` and ``session``
    are those of the turn that set the monitor. ``exit``: the end of who it is linked with (``Exit.of(message)``), for
    the turn that had exits trapped. Nobody but the node makes such messages. It is ``publication`` for what was
    published to a ``topic``.
    It is ``budget`` where 80 or 100 in a hundred of a budget are used up, of this process or of one that it has made,
    which is the ``sender``: the text is a JSON object that says of what, and how much.

    ``ends``: of those that were handed it before and died of it, oldest first. It is of the record: each later
    incarnation is told the same of them.

    ``turn``: that which handles it. ``trace``: of the message from outside that led to it, in hex, empty for what the
    node says by itself. ``deadline_us``: until when its sender wants it begun, or answered where it is an ask; 0 for
    no time. The entry that accepted it, whose number its ``id`` has, says its cause.

    ``inbound``: how it came here, and what it asks of the answer; None for what processes and the node say, and for
    what a person says without any of it.
    """

    id: str
    sender: str
    text: str
    session: str
    wants_reply: bool
    kind: str = "message"
    ends: tuple[EndInTurn, ...] = ()
    topic: str = ""
    turn: str = ""
    trace: str = ""
    deadline_us: int = 0
    inbound: Inbound | None = None


@dataclass(frozen=True, slots=True)
class Monitored:
    """What came of :meth:`Syscalls.monitor`. ``ref`` names the monitor, in its DOWN too; empty when it was refused, and
    ``why``.
    """

    ref: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Down:
    """The end of what a monitor watched. ``target`` is what was asked for; ``address`` what it meant, ``pid`` the
    incarnation (0 when there was none, or on another ``node``, which has its true name there). ``reason``: as what it
    exited; ``noproc`` when there was none, ``noconnection`` when its node was lost: nobody knows whether it has ended.
    """

    ref: str
    target: str
    address: str
    pid: int
    node: str
    reason: str

    @classmethod
    def of(cls, message: Message) -> Down:
        """What a message of kind ``down`` says."""
        return cls(**json.loads(message.text))


@dataclass(frozen=True, slots=True)
class Linked:
    """What came of :meth:`Syscalls.link`. ``ref`` names the link, in its message too; empty when it was refused, and
    ``why``.
    """

    ref: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of the other one of a link, told to a process that traps exits. ``address`` and ``pid`` of who has ended
    (0 when there was none, or on another ``node``, which has its true name there), and ``reason`` as in :class:`Down`.
    """

    ref: str
    address: str
    pid: int
    node: str
    reason: str

    @classmethod
    def of(cls, message: Message) -> Exit:
        """What a message of kind ``exit`` says."""
        return cls(**json.loads(message.text))


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A proposed tool call. ``arguments`` is JSON text exactly as the model wrote it: the node parses it, once.

    ``id`` is the caller's own label (a provider's tool call id); it is handed back and not interpreted.
    """

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of a tool call as data for whoever asked. A refusal is a result, never an exception.

    ``text`` is at most 64 KB; ``truncated`` says whether the recorded result is longer.
    """

    id: str
    name: str
    status: OutcomeStatus
    text: str
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A part of what a model is shown, as whoever asks tells of it: what it is called, where it comes from, about how
    many tokens it takes. It is ``count`` messages from ``first`` on; of one message alone the characters from ``begin``
    to ``end``, where ``end`` is not 0. The node records it beside the question, and believes none of it.
    """

    name: str
    source: str
    tokens: int
    first: int
    count: int
    begin: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One question to a model, in the OpenAI chat shape.

    ``messages``: objects with ``role`` (system, user, assistant, tool) and ``content``, ``tool_calls``,
    ``tool_call_id``. ``tools``: names of tools to offer; the node replaces each by its declared schema and drops those
    the process may not use. ``provider`` and ``model`` empty: the node's default.

    ``temperature`` (0 to 2), ``top_p`` (above 0, to 1) and ``top_k`` (from 1 on): how the answer is drawn; None, and
    where the provider takes no such thing: as the provider does it. ``max_tokens`` of the answer, 0: as many as the
    provider says; a budget may allow fewer. ``output_schema``: JSON Schema of the object that the text is to be;
    docs/providers.md says which providers hold their models to it.

    ``retry`` False: the gateway asks once, since whoever asks sees to what is asked again. ``after_ms``: the question
    is put so much later, 10 minutes at most. An answer on record is given at once.

    ``aside``: what comes of it is no part of what the sender is told: nobody who watches the turn is shown it.
    ``stream`` False: who watches is shown the text of the answer when it is whole.
    ``sections``: what the messages are made of, for whoever looks at it later; at most :data:`MOST_SECTIONS`.
    """

    messages: tuple[dict[str, Any], ...]
    tools: tuple[str, ...] = ()
    provider: str = ""
    model: str = ""
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int = 0
    output_schema: dict[str, Any] | None = None
    retry: bool = True
    after_ms: int = 0
    aside: bool = False
    sections: tuple[Section, ...] = ()
    stream: bool = True


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What the model said: ``text``, tool calls, or both. ``status`` is ``ok`` or ``error`` (``text`` says why).
    ``cached_tokens``: how many of the ``input_tokens`` its provider had kept from before; 0 where nobody counts.

    ``error_kind`` says of an error what was in the way: ``rate_limited`` (after ``retry_after_s`` it may go well, 0:
    the provider has not said), ``timeout``, ``auth`` (the key), ``context_overflow`` (the question is too long for the
    model), ``content_refused``, ``server`` (a fault of the provider), ``transport`` (the way to it), ``unavailable``
    (the model failed too often lately and is not asked for a while), ``invalid`` (it is configured wrongly, does not
    take the question, or its answer makes no sense), ``budget``, ``capped`` (a cap of cost has too little left for this
    model), ``refused`` (by the node) or ``cancelled``. Of an answer it is empty, and of an error that an older version
    recorded.

    ``stop_reason``: why the model ended, empty where nobody says; ``length`` and ``content_filter``: the text is not
    whole. ``provider`` and ``model``: who was asked. ``cost_millionths``: what it cost, in millionths of the unit of
    money, None where no price is declared or nobody has counted.
    """

    status: Literal["ok", "error"]
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    error_kind: ErrorKind = ""
    retry_after_s: float = 0.0
    stop_reason: StopReason = ""
    provider: str = ""
    model: str = ""
    cost_millionths: int | None = None


@dataclass(frozen=True, slots=True)
class Quote:
    """What the node says of models that may be asked. ``against``: of each why not, in the order in which they were
    named, empty where caps of cost leave room. ``number``: how often the node was asked of just these before, by whom
    ever; what goes by it takes turns.
    """

    against: tuple[str, ...]
    number: int


@dataclass(frozen=True, slots=True)
class StageReport:
    """A step of a turn as whoever took it tells of it: its name, what came of it and why, and microseconds that it
    took. The node believes none of it, and records it as the behaviour's word.
    """

    stage: str
    outcome: StageOutcome
    why: str = ""
    took_us: int = 0


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What ``handle`` returns: the ``reply`` to the sender, and records (JSON objects) to add to the session.

    ``status`` is ``ok``, or ``error`` when the behaviour could not do what was asked; the reply then says why.
    ``stages``: what it tells of its steps, in order, at most :data:`MOST_STAGES`.
    """

    reply: str
    remember: tuple[dict[str, Any], ...] = ()
    status: Literal["ok", "error"] = "ok"
    stages: tuple[StageReport, ...] = ()


@dataclass(frozen=True, slots=True)
class Deed:
    """A call with effects that a turn has had made. ``seq``: the entry that says that the node was about to make it.
    ``target``: what it was about, in a line of its arguments. ``outcome``: as of a tool's result, ``under_way`` while
    there is none; ``killed`` and ``denied`` were not made.
    """

    seq: int
    tool: str
    target: str
    outcome: DeedOutcome
    turn: str


@dataclass(frozen=True, slots=True)
class Deeds:
    """What a session has done: ``deeds`` oldest first, and how many there were before those, by tool in ``tools``."""

    deeds: tuple[Deed, ...] = ()
    earlier: int = 0
    tools: str = ""


@dataclass(frozen=True, slots=True)
class PromptFile:
    """A file of a process's workspace that says who it is and what it knows: its ``name``, the beginning of its
    ``text``, and in ``note`` what is to be said of it (that it was cut, or why it is not shown), empty for nothing.
    """

    name: str
    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Compaction:
    """That a process puts a part of its session into fewer words. ``state``: it begins, it is done, or it came to
    nothing and ``why``. ``records`` of the session, of the turns ``first`` to ``last``, with that SHA-256, which took
    ``before`` tokens and now take ``after``. ``facts``: lines for ``MEMORY.md`` of its workspace, of what is done.
    """

    state: Literal["started", "done", "failed"]
    records: int
    sha256: str
    first: str = ""
    last: str = ""
    before: int = 0
    after: int = 0
    facts: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Flushed:
    """How many of the facts of a :class:`Compaction` were new and are in ``MEMORY.md`` now; ``why`` not all of them."""

    written: int
    why: str = ""


class LogicalExit(Exception):
    """Raise it in ``handle`` to end the process: nothing broke, and the same words would bring the same again.

    ``reason``: ``no_progress`` (it does the same again and gets no further) or ``refused`` (it will not do what it is
    asked). ``detail`` says more, in one line of at most 500 characters. What follows is for ``on_logical`` of its spawn
    to say. Raised by a constructor it is a start that failed.
    """

    def __init__(self, reason: LogicalReason, detail: str = "") -> None:
        if reason not in get_args(LogicalReason):
            raise ValueError(f"reason is {reason!r}, must be one of {', '.join(get_args(LogicalReason))}")
        if not isinstance(detail, str):
            raise TypeError(f"detail is {type(detail).__name__}, expected str")
        super().__init__(reason, detail)
        self.reason: LogicalReason = reason
        self.detail = detail


class TurnEnded(Exception):
    """Raised inside a behaviour when the node has closed its turn (cancelled, diverged, stopped). Let it pass."""


class Syscalls(Protocol):
    """Everything a behaviour can ask of the node during one turn. Order matters: calls are numbered as made.

    What gives a value is asked through :meth:`value`, by its name: whoever implements that has all of them.
    """

    async def call_tool(self, name: str, arguments: str | dict[str, Any]) -> ToolResult:
        """Ask for one tool call. A dict is encoded as canonical JSON."""

    async def call_tools(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Ask for several at once, as one round; results come in the order of ``calls``."""

    async def ask_model(self, request: ModelRequest) -> ModelAnswer:
        """Ask a model. Tokens stream to whoever watches the turn; the answer comes whole."""

    async def history(self) -> list[dict[str, Any]]:
        """The session's records as they stood when the turn began, oldest first, bounded by the node."""

    async def tools(self) -> list[str]:
        """Names of the tools this process may propose, sorted, as they stood when the turn began."""

    async def tool_tokens(self) -> dict[str, int]:
        """What the declaration of each of those tools takes of a model's window, estimated as a token for four bytes.
        Not recorded: after a restart of the node with other tools a resumed turn may see others.
        """

    async def deeds(self) -> Deeds:
        """What earlier turns of this session have done, by the node's own record, also where the session does not have
        them any more: the same when the turn is resumed. Whoever implements this and knows of none has none.
        """
        return Deeds()

    async def prompt_files(self) -> tuple[PromptFile, ...]:
        """``IDENTITY.md``, ``SOUL.md``, ``USER.md`` and ``MEMORY.md`` of the process's workspace, those that are there,
        each bounded: the same when the turn is resumed. Whoever implements this and has no files gives none.
        """
        return ()

    async def steered(self) -> tuple[str, ...]:
        """The texts of messages that came to this session while the turn runs, and join it: oldest first, each once;
        they are answered by this turn, and the same when it is resumed. Empty unless the channel's ``while_busy`` is
        ``steer``.
        """
        return ()

    async def compaction(self, told: Compaction) -> Flushed:
        """Have a compaction of the session recorded, and its facts written into ``MEMORY.md``. Whoever implements this
        and has no workspace writes none.
        """
        return Flushed(0)

    async def value(self, name: ValueName) -> float | int:
        """A value of the node, recorded: the same when the turn is resumed."""

    async def now(self) -> float:
        """Seconds since the epoch."""
        return float(await self.value("now"))

    async def random(self) -> int:
        """63 random bits."""
        return int(await self.value("random"))

    async def quote(self, models: Sequence[str], tokens: int, answer: int = 0) -> Quote:
        """Whether each of ``models`` (``provider/model``, 1,024 at most) may be asked something of about so many
        ``tokens``, with an ``answer`` of so many, as far as caps of cost go. Nothing is kept for it: the node decides
        at the question.
        """

    async def monitor(self, target: str) -> Monitored:
        """Watch a process: its PID, name or address, with ``@NODE`` for one of another node. When that incarnation has
        ended a message of kind ``down`` comes, exactly one for each monitor; at once when there is none.

        A monitor belongs to the address of this process, as its mailbox does: it is not lost with an incarnation, and
        ends untold when this process is stopped, parked or removed.
        """

    async def demonitor(self, ref: str, *, flush: bool = False) -> bool:
        """Take a monitor back; whether it was still set. Its message may be in the mailbox otherwise: with ``flush`` it
        is taken out of there, and never comes.
        """

    async def link(self, target: str) -> Linked:
        """Bind this process to the end of another, named as for :meth:`monitor`: unless that ends in order (normal,
        shutdown), this one ends with it, for the same reason; one that traps exits is told instead. The other is bound
        to the end of this one too when it is below this one, or has linked itself as well. One link for each pair of
        incarnations: a second call gives the same. Refused where nothing runs, unless this process traps exits: then
        it is told so.
        """

    async def unlink(self, ref: str) -> bool:
        """End a link for both; whether it was there. No message of it comes any more, also none that waited."""

    async def trap_exits(self, on: bool = True) -> bool:
        """Whether the ends of those that this address is linked with are told to it from now on, as messages of kind
        ``exit``, and do not end it; what was so before. They are handled as messages of the turn that asked for it.
        """

    def log(self, text: str) -> None:
        """One line for ``weftos logs PID``. Not recorded in the ledger, may repeat when a turn is resumed."""


@runtime_checkable
class Behaviour(Protocol):
    """A module with callbacks, in Erlang's sense; registered by name in the node's configuration."""

    def __init__(self, info: ProcessInfo) -> None: ...

    async def handle(self, message: Message, sys: Syscalls) -> TurnResult | str | None:
        """Handle one message. A ``str`` is a reply, ``None`` an empty one. An exception is a crash of the process,
        but for :class:`LogicalExit`.
        """


@dataclass(frozen=True, slots=True)
class Probed:
    """What a tool's probe found out about the effect of a call: ``landed``, with the ``result`` that the tool would
    have returned, where that is known; ``not_landed``, which says that it will not land later either; or ``unknown``,
    with the reason in ``why``.
    """

    answer: ProbeAnswer
    result: Any = None
    why: str = ""


ANY_HOST = ("*",)
"""Of a tool: it may speak to anybody on the network."""


@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """What a tool says of itself. Defaults are the cautious ones.

    effects: ``none`` (pure or read-only), ``local`` (this machine's files), ``external``.
    roles: on whose word it is called, of those that have sent the message that is handled: ``operator`` (a person),
    ``agent`` (a process of this node), ``peer`` (another node); none: on anybody's.
    on_doubt: what happens to a call whose effect is unknown, after a crash or at its deadline: ``ask`` a person,
    ``retry``, or ``lost``.
    idempotent: made twice it does no more than once, so a call in doubt is made again where a person would be asked.
    sandbox: ``node`` (in the node itself; only built-ins whose whole effect is journal records), ``archive`` (answered
    by the archive process; only built-ins that read), ``builtin`` or ``thirdparty`` (a worker process).
    parameters: JSON Schema of the arguments object.
    effect_parameter: which parameter is handed the :data:`EffectId` of the call, and is none of the arguments; empty:
    none.
    probe: whether the tool can be asked what became of an effect (:class:`Probed`), by that id.
    network: the hosts that it speaks to: names or addresses in lower case, or patterns of them (``*.example.org``);
    :data:`ANY_HOST`, which is what a tool is taken to use that says nothing; none: it opens no connection. It is the
    tool's word, by which policy decides. Nothing here keeps a tool from other hosts.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    effects: Effects = "external"
    idempotent: bool = False
    on_doubt: OnDoubt = "ask"
    sandbox: Sandbox = "thirdparty"
    timeout_s: float = 60.0
    roles: tuple[str, ...] = ()
    confirmation: bool = False
    effect_parameter: str = ""
    probe: bool = False
    network: tuple[str, ...] = ANY_HOST

    @property
    def then(self) -> OnDoubt:
        """What happens to a call in doubt, as far as the declaration says."""
        again = self.effects == "none" or (self.idempotent and self.on_doubt == "ask")
        return "retry" if again else self.on_doubt
