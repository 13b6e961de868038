"""Which embedder the memory uses: the lexical one, computed here, or a model behind a provider of the gateway."""

from __future__ import annotations

from dataclasses import dataclass

from cognition.recall.lexical import DIMENSIONS, LEXICAL

LEXICAL_WORD = "lexical"
MAX_DIMENSIONS = 16_384


@dataclass(frozen=True, slots=True)
class Embedder:
    """``provider`` empty: the lexical embedder. ``dimensions`` 0: what the model's first answer has."""

    provider: str = ""
    model: str = ""
    dimensions: int = DIMENSIONS

    @property
    def lexical(self) -> bool:
        return not self.provider

    @property
    def name(self) -> str:
        """What an index of this embedder is called; vectors of different names are never compared."""
        return LEXICAL if self.lexical else f"{self.provider}/{self.model}"


def make_embedder(provider: str, model: str, dimensions: int) -> Embedder:
    """The embedder of the configuration's words. Raises ValueError that names the one at fault."""
    if provider in ("", LEXICAL_WORD):
        return Embedder()
    if not model:
        raise ValueError(f"the embedder {provider} needs the name of an embedding model")
    if not 0 <= dimensions <= MAX_DIMENSIONS:
        raise ValueError(f"embedding dimensions are {dimensions}, must be 1 to {MAX_DIMENSIONS}, or 0")
    return Embedder(provider, model, dimensions)
