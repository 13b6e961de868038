"""The kinds of providers that there are: a row says who builds one, and what its table must and may say.

The builder is named and not imported: it is for the gateway, and the node loads no provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProviderKind:
    """``builder`` (``module:name``) makes a :class:`cognition.providers.base.Provider` of a
    :class:`cognition.providers.base.Source`. ``has_server``: its table needs ``base_url``; ``makes_vectors``: it can be
    the embedder.
    """

    builder: str
    has_server: bool
    makes_vectors: bool


KINDS: Mapping[str, ProviderKind] = {
    "openai": ProviderKind("cognition.providers.openai_compatible:build", True, True),
    "openai_responses": ProviderKind("cognition.providers.openai_responses:build", True, True),
    "anthropic": ProviderKind("cognition.providers.anthropic:build", True, False),
    "ollama": ProviderKind("cognition.providers.ollama:build", True, False),
    "offline": ProviderKind("cognition.providers.offline:build", False, False),
}
