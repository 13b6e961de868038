"""What can go wrong in cognition, split by whose fault it is."""

from __future__ import annotations


class CognitionError(Exception):
    """Base of all errors of this package."""


class ConfigurationError(CognitionError):
    """An agent or a provider was configured wrongly. The message names the key and what it should be."""


class ProviderError(CognitionError):
    """A model could not be asked, or its answer is unusable.

    Asking again would not help. Never holds a key. ``begun``: the server had the question and did not refuse it, so it
    may have been paid for, and nobody says how much.
    """

    begun = False


class TransientProviderError(ProviderError):
    """A model server failed in a way that may pass: overload, a server fault, a broken connection.

    ``retry_after_s`` is the server's own wish, if it stated one.
    """

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
