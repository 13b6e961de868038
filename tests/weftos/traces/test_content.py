"""Secrets of any form that is known never leave with a trace, nor the beginning of one that was cut."""

from __future__ import annotations

import json

import pytest

from kernel.slices.feed.turn_event import event
from weftos.traces.content import Scrubber, content_of

KNOWN = 'pa"ss\\wörd-1234'
KEY = "sk-" + "a1B2" * 8


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps({"url": f"https://host/?q={KNOWN}"}),
        json.dumps({"deep": [{"er": KNOWN}]}, ensure_ascii=False),
        json.dumps({KNOWN: 1}),
        json.dumps({"password": "hunter2x"}),
        json.dumps({"headers": {"authorization": f"Bearer {KEY}"}}),
        f'{{"not json": {KNOWN!r}, "api_key": "hunter2x"',
        f"plain {KEY} and {KNOWN}",
    ],
)
def test_secrets_in_arguments_are_named_instead(arguments: str) -> None:
    said = Scrubber([KNOWN, "short"]).arguments(arguments)
    for secret in (
        KNOWN,
        json.dumps(KNOWN)[1:-1],
        json.dumps(KNOWN, ensure_ascii=False)[1:-1],
        KEY,
        "hunter2x",
    ):
        assert secret not in said


def test_of_a_text_that_was_cut_no_beginning_of_a_secret_is_left() -> None:
    events = [
        event("action_started", 1, 1, "0.0", tool="t", arguments='{"a": "words ' + KEY[:12], truncated=True),
        event("action_completed", 1, 1, "0.0", tool="t", status="ok", result=KEY[:12], truncated=True),
        event("response_complete", 1, 1, status="ok", reply=f"it is {KEY[:9]}", truncated=True),
    ]
    content = content_of(f"mind {KEY}", events, Scrubber([]))
    assert set(content) == {"input", "output", "arguments 0.0", "result 0.0"}
    assert KEY[:9] not in json.dumps(content) and "words" in content["arguments 0.0"]
    assert "it is" in content["output"]


def test_what_is_no_secret_is_told() -> None:
    assert json.loads(Scrubber([]).arguments('{"path": "a.txt", "n": [1, null, true]}')) == {
        "path": "a.txt",
        "n": [1, None, True],
    }
