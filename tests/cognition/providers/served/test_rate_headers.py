"""What servers say of their limits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from cognition.providers.served.pace import Told
from cognition.providers.served.rate_headers import limits_of

NOW_S = 1_800_000_000.0


def openais(reset: str, left: str = "7", limit: str = "60") -> dict[str, str]:
    return {
        "x-ratelimit-limit-requests": limit,
        "x-ratelimit-remaining-requests": left,
        "x-ratelimit-reset-requests": reset,
    }


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("1h2m3.5s", 3723.5),
        ("20ms", 0.02),
        ("7", 7.0),
        ("7.25", 7.25),
        ("", 0.0),
        ("soon", 0.0),
        ("-1s", 0.0),
        ("1s!", 0.0),
        ("9" * 100, 0.0),
        ("2026-01-01T00:00:00", 0.0),
    ],
)
def test_openais_times_are_read(reset: str, seconds: float) -> None:
    assert limits_of(openais(reset), NOW_S) == {"requests": Told(60, 7, seconds)}


def test_anthropics_dates_are_read_and_input_tokens_stand_for_tokens() -> None:
    due = datetime.fromtimestamp(NOW_S + 30, UTC).isoformat().replace("+00:00", "Z")
    headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": due,
        "anthropic-ratelimit-input-tokens-limit": "40000",
        "anthropic-ratelimit-input-tokens-remaining": "90000",
    }
    found = limits_of(headers, NOW_S)
    assert found == {"requests": Told(50, 49, 30.0), "tokens": Told(40000, 40000, 0.0)}


@pytest.mark.parametrize(
    ("limit", "left"), [("0", "0"), ("x", "1"), ("10", "-1"), ("10", ""), ("9" * 16, "1")]
)
def test_what_makes_no_sense_says_nothing(limit: str, left: str) -> None:
    assert limits_of(openais("1s", left, limit), NOW_S) == {}
