"""The keys of ``[agent.trace]``: where traces of turns go. The node reads them; a process is told nothing of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal
from urllib.parse import urlsplit

from annotated_types import Ge, Le, MaxLen

from cognition.config.agent_config import AgentConfig

Export = Literal["none", "file", "otlp", "jaeger"]
ENDPOINT = "http://127.0.0.1:4318/v1/traces"


@dataclass(frozen=True, slots=True)
class TraceConfig:
    """``enabled`` False: none is exported, whatever the others say. ``export``: to nobody, into a file, or to
    ``endpoint`` by OTLP, which Jaeger takes too. ``sample_rate``: the share of traces that is exported.
    ``include_prompts``: whether what was said is in them.
    """

    enabled: bool = True
    export: Export = "none"
    endpoint: Annotated[str, MaxLen(2_000)] = ENDPOINT
    sample_rate: Annotated[float, Ge(0), Le(1)] = 1.0
    include_prompts: bool = False

    @property
    def sink(self) -> Literal["", "file", "otlp"]:
        """What kind of sink there is; empty for none."""
        if not self.enabled or self.export == "none":
            return ""
        return "file" if self.export == "file" else "otlp"


def trace_faults(config: TraceConfig) -> list[str]:
    """What does not go together, each with the key that it is about."""
    faults = []
    try:
        url = urlsplit(config.endpoint)
        port = url.port or 443
    except ValueError:
        url, port = urlsplit(""), 0
    if url.scheme not in ("http", "https") or not url.hostname or not port:
        faults.append(f"endpoint must be http://HOST:PORT/v1/traces or https, not {config.endpoint!r:.80}")
    elif url.username is not None or url.query or url.fragment:
        faults.append("endpoint must hold no user, query or fragment: the configuration is shown to who asks")
    if config.include_prompts and config.export == "file":
        faults.append(
            "include_prompts is for otlp alone: a file would keep what weftos chain erase takes elsewhere"
        )
    return faults


@dataclass(frozen=True, slots=True)
class NodesAgentConfig(AgentConfig):
    """``[agent]`` as the node's file has it: what processes are told, and what the node keeps to itself."""

    trace: TraceConfig = field(default_factory=TraceConfig)
