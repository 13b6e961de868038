"""What can go wrong in cognition, split by whose fault it is."""

from __future__ import annotations

from kernel.abi import ErrorKind


class CognitionError(Exception):
    """Base of all errors of this package."""


class ConfigurationError(CognitionError):
    """An agent or a provider was configured wrongly. The message names the key and what it should be."""


class ProviderError(CognitionError):
    """A model could not be asked, or its answer is unusable. Never holds a key.

    ``kind``: what was in the way, as :class:`kernel.abi.ModelAnswer` says it. Asking this provider again would not
    help. ``retry_after_s``: the server's own wish, if it stated one. ``begun``: the server had the question and did not
    refuse it, so it may have been paid for, and nobody says how much.
    """

    begun = False

    def __init__(self, message: str, kind: ErrorKind = "invalid", retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.kind: ErrorKind = kind
        self.retry_after_s = retry_after_s


class TransientProviderError(ProviderError):
    """A model server failed in a way that may pass: overload, a server fault, a broken connection."""

    def __init__(self, message: str, retry_after_s: float | None = None, kind: ErrorKind = "server") -> None:
        super().__init__(message, kind, retry_after_s)
