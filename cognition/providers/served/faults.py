"""What a model server's refusal means: its kind, and whether asking again may help. Pure.

Servers say it by a status, by a word of their own (``code`` or ``type`` of an error), or only in a sentence. The word
is believed before the status, since some send all errors as 400 or 500, and the sentence before the status where it is
about the length of the question or its contents: no two servers have the same word for these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from cognition.errors import ProviderError, TransientProviderError
from kernel.abi import ErrorKind

MOST_RETRY_AFTER_S = 86_400.0

_BY_STATUS: Mapping[int, ErrorKind] = {
    401: "auth",
    402: "auth",
    403: "auth",
    408: "timeout",
    413: "context_overflow",
    425: "server",
    429: "rate_limited",
    500: "server",
    502: "server",
    503: "server",
    504: "timeout",
    529: "server",
}

_BY_WORD: Mapping[str, ErrorKind] = {
    # OpenAI, chat completions and responses, and servers after its manner
    "context_length_exceeded": "context_overflow",
    "exceed_context_size_error": "context_overflow",
    "string_above_max_length": "context_overflow",
    "content_filter": "content_refused",
    "content_policy_violation": "content_refused",
    "invalid_prompt": "content_refused",
    "invalid_api_key": "auth",
    "insufficient_quota": "auth",
    "rate_limit_exceeded": "rate_limited",
    "server_error": "server",
    "service_unavailable_error": "server",
    "internal_error": "server",
    "vector_store_timeout": "timeout",
    # Anthropic
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "auth",
    "request_too_large": "context_overflow",
    "rate_limit_error": "rate_limited",
    "timeout_error": "timeout",
    "api_error": "server",
    "overloaded_error": "server",
}

_TOO_LONG = re.compile(
    r"maximum context length|context (length|window|size|limit)|prompt is too long|too many (input )?tokens|"
    r"exceeds? the (model's )?(available )?context|input is too long",
    re.IGNORECASE,
)
_CONTENTS = re.compile(
    r"content (management|filter\w*|usage) policy|content[_ ]policy|flagged as|violat\w+ .{0,40}polic",
    re.IGNORECASE,
)
_PASSING: frozenset[ErrorKind] = frozenset({"rate_limited", "timeout", "server"})


def fault_of(
    text: str, *, status: int = 0, error: Any = None, retry_after_s: float | None = None
) -> ProviderError:
    """The error to raise, with ``text`` as its words. ``status`` 0: it came inside an answer; ``error``: what the
    server says of it, whatever that is.
    """
    kind, said = _kind(status, error), retry_after_s
    if kind in _PASSING:
        return TransientProviderError(text, said, kind)
    return ProviderError(text, kind, said)


def _kind(status: int, error: Any) -> ErrorKind:
    sentence = _sentence(error)
    words = [word for word in _words(error) if word in _BY_WORD]
    if words:
        return _BY_WORD[words[0]]
    if status not in (401, 403, 429) and not 500 <= status < 600:
        if _TOO_LONG.search(sentence):
            return "context_overflow"
        if _CONTENTS.search(sentence):
            return "content_refused"
    return _BY_STATUS.get(status or _number(error), "invalid")


def _words(error: Any) -> list[str]:
    if not isinstance(error, dict):
        return []
    return [value for name in ("code", "type") if isinstance(value := error.get(name), str)]


def _number(error: Any) -> int:
    """The status that some servers put into the error, as its code."""
    code = error.get("code") if isinstance(error, dict) else None
    return code if type(code) is int else 0


def _sentence(error: Any) -> str:
    said = error.get("message") if isinstance(error, dict) else error
    return said[:2000] if isinstance(said, str) else ""


def retry_after_s(headers: Mapping[str, str], now_s: float) -> float | None:
    """How long a server wants to be left alone: milliseconds, seconds, or a date, which is compared with the server's
    own clock where it shows that. None: it does not say so, or nothing that makes sense.
    """
    milliseconds = _decimal(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return _bounded(milliseconds / 1000)
    value = headers.get("retry-after", "").strip()
    seconds = _decimal(value)
    if seconds is None:
        due_s, its_now_s = _date_s(value), _date_s(headers.get("date", ""))
        if due_s is None:
            return None
        seconds = due_s - (now_s if its_now_s is None else its_now_s)
    return _bounded(seconds)


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), MOST_RETRY_AFTER_S)


def _decimal(value: str) -> float | None:
    return float(value) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value.strip(), re.ASCII) else None


def _date_s(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value[:64]).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
