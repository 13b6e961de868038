"""Old results in one line, and secrets that are not shown again."""

from __future__ import annotations

import pytest

from cognition.history.aging import LINE_BYTES, TURNS, aged, in_one_line
from cognition.history.secrets import redacted
from tests.cognition.test_context import assistant, tool, user

LONG = "first line\n" + "x" * 1_000


def test_a_result_is_shown_whole_for_four_turns_and_then_in_one_line() -> None:
    exchanges = [[user("q"), assistant("", "1"), tool("1", LONG), assistant("A")] for _ in range(TURNS + 2)]
    shown = [exchange[2]["content"] for exchange in aged(exchanges)]
    assert [text == LONG for text in shown] == [False] * 2 + [True] * TURNS
    assert "\n" not in shown[0] and shown[0].startswith("first line xxx")
    assert shown[0].endswith("[shortened: 1011 bytes in all, some turns ago]")
    assert len(shown[0].encode()) < LINE_BYTES + 60


def test_what_is_a_line_already_and_what_is_no_result_stays() -> None:
    assert in_one_line(tool("1", "42")) == tool("1", "42")
    assert in_one_line(assistant(LONG)) == assistant(LONG)


# Made up for this test; each has the form of a real one.
@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("key sk-" + "proj-" + "a1B2" * 8 + " end", "key [redacted key] end"),
        ("AKIA" + "ABCDEFGHIJKLMNOP", "[redacted key]"),
        ("ghp_" + "a1" * 18, "[redacted token]"),
        ("xoxb-" + "123456789012-abcdef", "[redacted token]"),
        ("Authorization: Bearer " + "abcdefghijklmnop1234", "Authorization: Bearer [redacted token]"),
        ("eyJhbGciOiJIUzI1." + "eyJzdWIiOiIxMjM0." + "c2lnbmF0dXJl", "[redacted token]"),
        ("postgres://ada:hunter22@db:5432/x", "postgres://[redacted password]@db:5432/x"),
        ('"password": "correct horse"', '"password": "[redacted secret] horse"'),
        ("DB_PASSWORD=hunter22\nnext", "DB_PASSWORD=[redacted secret]\nnext"),
        ("api_key: abc123def", "api_key: [redacted secret]"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----\nrest",
            "[redacted private key]\nrest",
        ),
    ],
)
def test_secrets_of_known_forms_are_named_instead_of_shown(text: str, clean: str) -> None:
    assert redacted(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "The password must have 12 characters.",
        "see https://example.org:8443/path@v2",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "the classic sk-8 board",
        "a token: of appreciation",
        "x" * 100_000,
    ],
)
def test_what_is_none_is_left_as_it_was(text: str) -> None:
    assert redacted(text) == text
