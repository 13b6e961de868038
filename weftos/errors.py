"""What the doors say when something does not go: one base error with words and a machine-readable code."""

from __future__ import annotations


class WeftosError(Exception):
    """An error a person or a program outside the node sees.

    ``message`` says what happened and what to do next. ``code`` is stable and meant for programs:
    ``not_found``, ``refused``, ``busy``, ``timeout``, ``unavailable``, ``invalid``, ``conflict``,
    ``not_running`` (no node listens on this data directory), ``too_large``, ``internal``, or ``error`` where
    no caller would act on the difference. ``word``: where a request about children is refused, what Erlang/OTP's
    ``supervisor`` would answer: ``already_present``, ``already_started``, ``running``, ``restarting``, ``not_found``,
    ``bad_spec``, ``bad_flags``, ``bad_combination``, ``simple_one_for_one`` or ``shutdown``; else empty.
    ``retry_after_s``: when the same may go well, 0 where nobody knows.
    """

    def __init__(self, message: str, code: str = "error", word: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.message = message
        self.code = code
        self.word = word

    def __str__(self) -> str:
        return self.message


class Impostor(WeftosError):
    """What answers, or could answer, at a node's socket need not be the node: nothing was said to it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "refused")


def reason(error: Exception) -> str:
    """What went wrong, for a sentence that names the file itself: without number and path."""
    return getattr(error, "strerror", None) or str(error)
