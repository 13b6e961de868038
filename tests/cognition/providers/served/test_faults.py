"""What a refusal means, and how long a server wants to be left alone."""

from __future__ import annotations

from email.utils import formatdate
from typing import Any

import pytest

from cognition.errors import TransientProviderError
from cognition.providers.served.faults import fault_of, retry_after_s

NOW_S = 1_800_000_000.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "0"}, 0),
        ({"retry-after": " 12 "}, 12),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "\u0661"}, None),
        ({"retry-after": "9" * 10}, None),
        ({"retry-after": "999999999"}, 86_400),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "nan", "retry-after": "9"}, 9),
        ({"retry-after": formatdate(NOW_S + 30, usegmt=True)}, 30),
        ({"retry-after": formatdate(NOW_S - 30, usegmt=True)}, 0),
        (
            {
                "retry-after": formatdate(NOW_S + 3630, usegmt=True),
                "date": formatdate(NOW_S + 3600, usegmt=True),
            },
            30,
        ),
        ({"retry-after": "Mon, 99 Foo 2026 00:00:00 GMT"}, None),
        ({"retry-after": "x" * 10_000}, None),
    ],
)
def test_how_long_a_server_wants_to_be_left_alone(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW_S) == seconds


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (
            500,
            {"message": "context window exceeded", "type": "exceed_context_size_error"},
            "context_overflow",
        ),
        (500, {"message": "the maximum context length is 8"}, "server"),
        (429, {"message": "too many tokens per minute"}, "rate_limited"),
        (400, {"message": "too many tokens"}, "context_overflow"),
        (422, "it was flagged as unsafe", "content_refused"),
        (418, None, "invalid"),
        (0, {"code": 429}, "rate_limited"),
        (0, {"code": True}, "invalid"),
        (0, {"code": ["x"], "type": {}}, "invalid"),
        (0, "overloaded", "invalid"),
        (413, "", "context_overflow"),
    ],
)
def test_the_word_is_believed_before_the_sentence_and_that_before_the_status(
    status: int, error: Any, kind: str
) -> None:
    fault = fault_of("so", status=status, error=error)
    assert (str(fault), fault.kind) == ("so", kind)
    assert isinstance(fault, TransientProviderError) is (kind in ("server", "rate_limited", "timeout"))
