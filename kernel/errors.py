"""What can go wrong in the kernel.

Every :class:`KernelError` has a ``code``, which the control API and the CLI map to a status and an exit
code::

    not_found  refused  busy  timeout  unavailable  invalid  conflict

    NotFound(message)  Refused(message)  Busy(message)  TimedOut(message)
    Unavailable(message)  Invalid(message)  Conflict(message)          one class a code

    AddressError(Invalid)        StateError(Conflict)       MailboxFull(Busy)       CapabilityError(Refused)
    RateLimited(Busy)            AccessDenied(Refused)
    SessionError(Unavailable)    LockedError(Conflict)      .pid: holder's, 0 if unknown
    SupervisionError(word, message)                         .code follows from the word

A message says what happened, with both sides of a comparison, and what to do next.
"""

from __future__ import annotations

import traceback
from typing import Literal

Code = Literal["not_found", "refused", "busy", "timeout", "unavailable", "invalid", "conflict"]


SupervisionWord = Literal[
    "already_started",
    "already_present",
    "running",
    "restarting",
    "not_found",
    "bad_spec",
    "bad_flags",
    "bad_combination",
    "simple_one_for_one",
    "shutdown",
]


class KernelError(Exception):
    """Base of all errors of this package. ``code`` says how a caller should take it. ``word``: what Erlang/OTP's
    ``supervisor`` would answer, where a request about children is refused; else empty. ``retry_after_s``: when the same
    may go well, 0 where nobody knows.
    """

    code: Code = "invalid"

    def __init__(
        self, message: str, *, word: SupervisionWord | Literal[""] = "", retry_after_s: float = 0.0
    ) -> None:
        super().__init__(message)
        self.message = message
        self.word = word
        self.retry_after_s = retry_after_s


class NotFound(KernelError):
    """There is no such process, address, message or doubt."""

    code = "not_found"


class Refused(KernelError):
    """Policy, a capability or the state of the ledger forbids it."""

    code = "refused"


class Busy(KernelError):
    """A bound is reached; the same request may succeed later."""

    code = "busy"


class TimedOut(KernelError):
    """The answer did not come in time."""

    code = "timeout"


class Unavailable(KernelError):
    """A part of the node that this needs is not there."""

    code = "unavailable"


class Invalid(KernelError):
    """The request is wrong in itself."""

    code = "invalid"


class Conflict(KernelError):
    """The request does not fit the present state (name taken, already running, locked)."""

    code = "conflict"


class AddressError(Invalid):
    """A name, address or target that breaks the rules of :mod:`kernel.model.address`."""


class StateError(Conflict):
    """A transition that is not in the table; a fault of ours, never of a caller."""


class MailboxFull(Busy):
    """The mailbox holds as many messages or bytes as it may."""


class RateLimited(Busy):
    """Too many messages of one sender: ``retry_after_s`` says when the next one is accepted."""


class AccessDenied(Refused):
    """Who has written it may not ask this process by this channel: ``user``, ``channel`` and ``reason``."""

    def __init__(self, user: str, channel: str, reason: str) -> None:
        super().__init__(f"AccessDenied: user {user or '(none)'} of channel {channel}: {reason}")
        self.user, self.channel, self.reason = user, channel, reason


class CapabilityError(Refused):
    """A right that the parent does not hold was asked for."""


class SessionError(Unavailable):
    """The processes of an earlier run could not be found out about, or not be ended."""


class LockedError(Conflict):
    """The data directory is locked. ``pid``: by which process, 0 when it is not known; ``runs``: whether that runs
    on it, as a node or a cluster's launcher does, or is a command that looks at it or ends what a run has left.
    """

    def __init__(self, message: str, pid: int, *, runs: bool) -> None:
        super().__init__(message)
        self.pid = pid
        self.runs = runs


_WORD_CODES: dict[SupervisionWord, Code] = {
    "already_started": "conflict",
    "already_present": "conflict",
    "running": "conflict",
    "restarting": "conflict",
    "not_found": "not_found",
    "bad_spec": "invalid",
    "bad_flags": "invalid",
    "bad_combination": "invalid",
    "simple_one_for_one": "conflict",
    "shutdown": "unavailable",
}


class SupervisionError(KernelError):
    """A supervisor refused a request. ``word`` is the one Erlang/OTP's ``supervisor`` would answer with."""

    def __init__(self, word: SupervisionWord, message: str) -> None:
        super().__init__(message, word=word)
        self.code = _WORD_CODES[word]


def fault_of(error: BaseException) -> str:
    """What failed and where, for the log: the type and the places, without the text, which may hold what was said."""
    places = traceback.extract_tb(error.__traceback__)[-4:]
    where = ", ".join(f"{place.filename.rpartition('/')[2]}:{place.lineno}" for place in reversed(places))
    return f"{type(error).__name__} at {where}" if where else type(error).__name__
