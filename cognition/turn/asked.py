"""What one message asks of its answer, over what is configured: the last word of those that there are. Pure.

Whether its sender may have the model that is asked for the node decides, at each question.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from cognition.config.agent_config import AgentConfig
from kernel.abi import Inbound

Config = TypeVar("Config", bound=AgentConfig)


def as_asked(config: Config, inbound: Inbound | None) -> Config:
    """The configuration of the turn of a message that came so. One that names a provider and no model asks for the
    model that this provider has of itself.
    """
    if inbound is None:
        return config
    options = inbound.options
    said: dict[str, Any] = {
        name: getattr(options, name)
        for name in ("temperature", "top_p", "top_k", "output_schema")
        if getattr(options, name) is not None
    }
    if options.max_tokens:
        said["max_tokens"] = options.max_tokens
    if options.provider:
        said |= {"provider": options.provider, "model": ""}
    if options.model:
        said["model"] = options.model
    return replace(config, **said) if said else config
