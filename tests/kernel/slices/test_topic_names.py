"""Topics and the patterns that name them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.errors import Invalid
from kernel.slices.mail.topic_names import is_telemetry, patterns_of, validate_pattern, validate_topic

WORDS = st.lists(st.sampled_from(["a", "b", "c-1", "D_"]), min_size=1, max_size=8)


def names(pattern: str, topic: str) -> bool:
    """Slow and obvious: whether a pattern names a topic."""
    if pattern == "*":
        return True
    if pattern.endswith(".*"):
        return topic.startswith(pattern[:-1])
    return pattern == topic


@given(WORDS, WORDS, st.sampled_from(["", ".*"]))
def test_the_patterns_of_a_topic_are_those_that_name_it(
    topic: list[str], pattern: list[str], end: str
) -> None:
    said, asked = ".".join(topic), ".".join(pattern) + end
    assert (asked in patterns_of(said)) == names(asked, said)
    assert "*" in patterns_of(said)
    assert all(validate_pattern(one) for one in patterns_of(said))


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "a b",
        "a.*.b",
        "*",
        "a*",
        "ä",
        "a\n",
        "x" * 65,
        ".".join("a" * 9),
        "a/b",
        "@",
    ],
)
def test_what_is_no_topic_is_refused_in_words(name: str) -> None:
    with pytest.raises(Invalid, match=r"topic .* (is not allowed: use words|has more than 8 words)"):
        validate_topic(name)


@pytest.mark.parametrize("name", ["**", "*.a", "a.**", ".*", "a.*.*", ""])
def test_what_is_no_pattern_is_refused(name: str) -> None:
    with pytest.raises(Invalid):
        validate_pattern(name)


def test_telemetry_is_what_begins_with_that_word() -> None:
    assert is_telemetry("telemetry") and is_telemetry("telemetry.cpu") and is_telemetry("telemetry.*")
    assert not any(map(is_telemetry, ("*", "telemetrics", "a.telemetry", "")))
