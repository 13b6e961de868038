"""The keys of ``[agent]`` with their defaults and limits. Each acts: what stands here is read by a stage.

Tokens are those of :func:`cognition.context.estimate_tokens`. Times are in the unit that the name says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, MaxLen

from cognition.config.channel_config import ChannelOverride
from cognition.config.failover_config import FailoverConfig
from cognition.config.tools_config import Tools, wants
from cognition.config.workspace_config import WorkspaceConfig

DEFAULT_SYSTEM_PROMPT = (
    "You are an agent that runs as a process on a weftos node. Do what the message asks, with the tools you "
    "are given. A tool result that reports an error or a refusal is a fact to work with, not to hide. Then "
    "answer briefly."
)
RECALL_TOKENS = 1_500

Text = Annotated[str, MaxLen(100_000)]
Word = Annotated[str, MaxLen(256)]
Words = Annotated[tuple[Word, ...], MaxLen(1_000)]
Tokens = Annotated[int, Ge(0), Le(10_000_000)]


SENSITIVE_FIELDS = (
    "email*",
    "phone*",
    "mobile*",
    "home_address",
    "postal_address",
    "street*",
    "birth*",
    "date_of_birth",
    "ssn",
    "social_security*",
    "tax_id",
    "passport*",
    "iban",
    "account_number",
    "card_number",
    "cvv",
    "salary",
    "income",
    "diagnos*",
)


@dataclass(frozen=True, slots=True)
class StagesConfig:
    """``stages``: which there are, in their order; empty: all. ``skip_stages``: those that are left out of them."""

    stages: Words = ()
    skip_stages: Words = ()


@dataclass(frozen=True, slots=True)
class PipelineConfig(StagesConfig):
    """``tasks``: by the type of a task, the stages behind ``classify`` for it in place of those here."""

    tasks: dict[str, StagesConfig] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HistoryConfig:
    """``max_tokens``: what system prompt and history take together, at most. ``strategy``: what becomes of more than
    that (:mod:`cognition.history.strategy`); ``summary_threshold``: what ``summary`` keeps of it as it is, in tokens.
    ``redact_tool_outputs``: whether secrets in what tools gave in earlier turns are named instead of shown.
    ``sensitive_fields``: names, or patterns, of fields in what tools gave that are shown only to who may see them.
    """

    max_tokens: Annotated[int, Ge(1), Le(10_000_000)] = 8_192
    strategy: Literal["sliding", "summary", "hybrid"] = "hybrid"
    redact_tool_outputs: bool = True
    summary_threshold: Annotated[int, Ge(1), Le(10_000_000)] = 4_096
    sensitive_fields: Words = SENSITIVE_FIELDS


@dataclass(frozen=True, slots=True)
class ExecutionConfig:
    """``max_tool_rounds``: how often the tools that a model asks for are run; then it is asked once more, without
    tools. ``parallel_tools``: whether the calls of one answer are made at once, or one behind the other.
    ``tool_timeout_secs``: what a call may take where ``[agent.tools.NAME]`` says nothing of it, and the tool itself
    not less. ``total_timeout_secs``: what a turn may take, but for what it waits for a person, for a place at its
    provider, or before it asks again. ``stream``: whether who watches sees an answer while it is made.
    ``load_tools``: the first question offers one small tool, by which the model has others offered.
    """

    max_tool_rounds: Annotated[int, Ge(1), Le(1_000)] = 25
    parallel_tools: bool = True
    tool_timeout_secs: Annotated[float, Gt(0), Le(3_600)] = 30.0
    total_timeout_secs: Annotated[float, Gt(0), Le(604_800)] = 120.0
    stream: bool = True
    load_tools: bool = False


@dataclass(frozen=True, slots=True)
class LearnConfig:
    """``enabled``: whether the node keeps trajectories of turns; ``keep``: of how many, the newest of an agent and all
    its chats; ``days``: and for how long.
    """

    enabled: bool = True
    keep: Annotated[int, Ge(1), Le(10_000)] = 1_000
    days: Annotated[int, Ge(1), Le(3_650)] = 30


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """``provider`` and ``model``: empty for the node's own. ``tools``: which are offered of what the process may use,
    and how each may be used (:mod:`cognition.config.tools_config`). ``recall_tokens``: what is recalled before the
    model is asked; 0: nothing is. An empty ``system_prompt`` means the default. ``temperature``, ``top_p`` and
    ``top_k``: how an answer is drawn, where the provider takes such a thing; ``max_tokens``: how long it may be.
    ``output_schema``: the JSON Schema of an answer; None: any text. ``context_window``: the tokens of a question and
    its answer that a model takes, where no route says it of the model; 0: nobody has said it, and nothing is held to
    it. ``voice_mode``: answers are made to be spoken: short, and without marks that are made to be seen.
    ``channel_overrides``: by channel, what is otherwise for its messages.
    """

    provider: Word = ""
    model: Word = ""
    system_prompt: Text = ""
    tools: Tools = None
    recall_tokens: Tokens = RECALL_TOKENS
    temperature: Annotated[float, Ge(0), Le(2)] = 0.7
    max_tokens: Annotated[int, Ge(1), Le(10_000_000)] = 4_096
    top_p: Annotated[float, Gt(0), Le(1)] = 0.95
    top_k: Annotated[int, Ge(1), Le(100_000)] = 40
    output_schema: dict[str, Any] | None = None
    context_window: Tokens = 0
    voice_mode: bool = False
    pipeline: PipelineConfig = field(default_factory=PipelineConfig)
    history: HistoryConfig = field(default_factory=HistoryConfig)
    execution: ExecutionConfig = field(default_factory=ExecutionConfig)
    failover: FailoverConfig = field(default_factory=FailoverConfig)
    workspace: WorkspaceConfig = field(default_factory=WorkspaceConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    channel_overrides: Annotated[dict[Word, ChannelOverride], MaxLen(256)] = field(default_factory=dict)

    def wants(self, tool: str) -> bool:
        """Whether a tool is to be offered, as far as this says."""
        return wants(self.tools, tool)

    def steers(self, channel: str) -> bool:
        """Whether a message of that channel joins the turn that runs."""
        override = self.channel_overrides.get(channel)
        return override is not None and override.while_busy == "steer"

    @property
    def standing_prompt(self) -> str:
        """The system prompt, that of weftos where there is none."""
        return self.system_prompt or DEFAULT_SYSTEM_PROMPT
