"""What of a configuration holds for one message: each layer says more than those before it. Pure.

    defaults < TOML < environment < application < spawn     merged by the node, key by key, before a cell is told
    < channel ([agent.channel_overrides.NAME])              here
    < session (the model that its chat prefers) < message   here: the node puts the former among the options

Tools only intersect (:func:`channel_tools`): a channel takes away, and gives nothing. Whether its sender may have the
model that is asked for the node decides, at each question.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from cognition.config.agent_config import AgentConfig
from cognition.config.channel_config import ChannelOverride
from kernel.abi import NO_OPTIONS, Inbound, MessageOptions

Config = TypeVar("Config", bound=AgentConfig)
NO_OVERRIDE = ChannelOverride()
_OF_CHANNELS = ("provider", "model", "system_prompt", "temperature")
_OF_MESSAGES = ("provider", "model", "temperature", "top_p", "top_k", "max_tokens", "output_schema")


def as_asked(config: Config, inbound: Inbound | None) -> Config:
    """The configuration of the turn of a message that came so."""
    if inbound is None:
        return config
    config = _over(config, override_of(config, inbound), _OF_CHANNELS, NO_OVERRIDE)
    return _over(config, inbound.options, _OF_MESSAGES, NO_OPTIONS)


def channel_tools(config: AgentConfig, inbound: Inbound | None) -> tuple[str, ...] | None:
    """The names and patterns of the tools that are offered to who comes by this channel; None: no word on it."""
    return None if inbound is None else override_of(config, inbound).tools


def override_of(config: AgentConfig, inbound: Inbound) -> ChannelOverride:
    """What is otherwise for messages of its channel."""
    return config.channel_overrides.get(inbound.channel, NO_OVERRIDE)


def _over(
    config: Config,
    layer: ChannelOverride | MessageOptions,
    names: tuple[str, ...],
    nothing: ChannelOverride | MessageOptions,
) -> Config:
    """With what a layer says. One that names a provider and no model means the model that it has itself."""
    said: dict[str, Any] = {
        name: getattr(layer, name) for name in names if getattr(layer, name) != getattr(nothing, name)
    }
    if said.get("provider") and not said.get("model"):
        said["model"] = ""
    return replace(config, **said) if said else config
