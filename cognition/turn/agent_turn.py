"""An agent's turn as a value: what came, what the stages have made of it, and what is to be said.

Immutable: a stage that changes it makes another one. What it holds is for this turn alone; what outlasts it is what the
node keeps of its result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Literal

from cognition.config.agent_config import AgentConfig
from cognition.config.guard_config import GuardConfig
from cognition.context import ContextBounds, Record, system_records
from cognition.execution.loading import NO_OFFER, Offer
from cognition.failover.asking import Attempt
from cognition.prompt.sections import PromptSection, joined
from cognition.routing.permission import role_of
from cognition.routing.router import Router
from cognition.turn.asked import channel_tools
from kernel.abi import NOBODY, Identity, Message, ModelAnswer, ModelRequest, StageReport, Syscalls

UNKNOWN_COMPLEXITY = 0.5
"""What a task counts as that no stage has looked at."""

Ask = Callable[[ModelRequest], Awaitable[ModelAnswer]]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the sender is told. ``keep``: whether the session keeps what was asked and done. ``cut``: there was more to
    say, and no tokens or rounds for it.
    """

    text: str
    status: Literal["ok", "error"] = "ok"
    keep: bool = True
    cut: bool = False


class Questions:
    """Puts questions to models, and counts them: how forerunners ended is told by that count."""

    def __init__(self, sys: Syscalls) -> None:
        self._sys = sys
        self.count = 0

    async def ask(self, request: ModelRequest) -> ModelAnswer:
        """See :meth:`kernel.abi.Syscalls.ask_model`."""
        self.count += 1
        return await self._sys.ask_model(request)


@dataclass(frozen=True, slots=True)
class AgentTurn:
    """``history``: the session as the model may see it. ``context``: what stands before the exchange at each question:
    system prompt, history, the question, what is recalled. ``exchange``: what this turn adds to the session: the
    question, calls and results. ``tools``: what is offered, and ``loadable`` what may be. ``ask``: puts a question to
    a model; a stage may wrap it. ``questions``: how many were put. ``task_type``: what kind of work it is, empty as
    long as no stage has said, and ``complexity`` how much of it, from 0 to 1. ``router`` says which model is asked,
    None where the configuration does.
    ``tier`` and ``context_window`` (in tokens, 0 for unknown) are of what it found, and ``fallbacks`` the models,
    ``provider/model``, to ask in that order when that one fails. ``prompt``: the sections of the system prompt, none as
    long as no stage has made it. ``notes``: internal records that the session is to keep before the exchange.
    ``attempts``: questions that a provider failed to answer. ``guard``: what becomes of text that reads like orders.
    ``identity``: who has written the message, where it came by a channel; ``channel_tools``: the names or patterns of
    tools that are offered there, None for no word on it. ``reply``: what is to be said, None as long
    as nobody knows; ``over``: a stage has answered or given up before the end. ``stages``: what came of those that ran,
    in order.
    """

    message: Message
    sys: Syscalls
    config: AgentConfig
    bounds: ContextBounds
    questions: Questions
    ask: Ask
    history: tuple[Record, ...] = ()
    tools: tuple[str, ...] = ()
    loadable: Offer = NO_OFFER
    context: tuple[Record, ...] = ()
    exchange: tuple[Record, ...] = ()
    provider: str = ""
    model: str = ""
    task_type: str = ""
    complexity: float = UNKNOWN_COMPLEXITY
    prompt: tuple[PromptSection, ...] = ()
    notes: tuple[Record, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    router: Router | None = None
    fallbacks: tuple[str, ...] = ()
    tier: str = ""
    context_window: int = 0
    guard: GuardConfig = field(default_factory=GuardConfig)
    identity: Identity = NOBODY
    channel_tools: tuple[str, ...] | None = None
    reply: Reply | None = None
    over: bool = False
    stages: tuple[StageReport, ...] = ()

    @classmethod
    def begin(
        cls,
        message: Message,
        sys: Syscalls,
        config: AgentConfig,
        bounds: ContextBounds,
        router: Router | None = None,
        guard: GuardConfig | None = None,
    ) -> AgentTurn:
        """A turn to which nothing has been done yet."""
        question: Record = {"role": "user", "content": message.text}
        if message.turn:
            question["turn"] = message.turn
        questions, inbound = Questions(sys), message.inbound
        return cls(
            message,
            sys,
            config,
            bounds,
            questions,
            questions.ask,
            exchange=(question,),
            provider=config.provider,
            model=config.model,
            router=router,
            guard=guard or GuardConfig(),
            identity=NOBODY if inbound is None else inbound.who,
            channel_tools=channel_tools(config, inbound),
        )

    def wants(self, tool: str) -> bool:
        """Whether a tool is to be offered, as far as configuration says."""
        here = self.channel_tools is None or any(fnmatchcase(tool, each) for each in self.channel_tools)
        return here and self.config.wants(tool)

    @property
    def sees_sensitive(self) -> bool:
        """Whether the sender may be shown what is sensitive: not another node, nor a user of whom nothing says so."""
        return self.identity.sensitive if self.identity.name else self.roles != ("peer",)

    @property
    def sender(self) -> str:
        """By whose name permissions are looked up."""
        return self.identity.name or self.message.sender

    @property
    def roles(self) -> tuple[str, ...]:
        """What the sender is."""
        return self.identity.roles if self.identity.name else (role_of(self.message.sender),)

    @property
    def question(self) -> Record:
        """The message as a record of the session."""
        return self.exchange[0]

    @property
    def system(self) -> tuple[Record, ...]:
        """The system prompt as a model is shown it; that of the configuration alone where no stage has made one."""
        return system_records(joined(self.prompt) if self.prompt else self.config.standing_prompt)

    def told(self, reply: Reply) -> AgentTurn:
        """The same turn with that to say."""
        return replace(self, reply=reply)
