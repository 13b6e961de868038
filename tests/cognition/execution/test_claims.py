"""What an answer says was done, held against what was done."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cognition.execution.claims import Claim, claims_of, note_of, unsupported


def done(name: str, status: str = "", **arguments: Any) -> list[dict[str, Any]]:
    call = {"id": name, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    result = {"role": "tool", "tool_call_id": name, "content": "x", **({"status": status} if status else {})}
    return [{"role": "assistant", "content": "", "tool_calls": [call]}, result]


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("I wrote report.md.", [Claim("report.md")]),
        ("I've saved the summary to `out/report.md` for you.", [Claim("out/report.md")]),
        ("Done: I have just updated the file config.toml and deleted nothing.", [Claim("config.toml")]),
        ("I deleted old.txt", [Claim("old.txt")]),
        ("I sent the report to bob@example.org.", [Claim("bob@example.org", sent=True)]),
        ("I have messaged /user/ada", [Claim("/user/ada", sent=True)]),
        ("I sent it to you and told him to wait.", []),
        ("You can write report.md yourself.", []),
        ("I will write report.md next.", []),
        ("I could have written to report.md", []),
        ("I wrote a poem about the sea.", []),
        ("He wrote report.md.", []),
        ("I read report.md and it has 3 lines.", []),
    ],
)
def test_plain_sentences_about_files_and_messages_are_read(text: str, claims: list[Claim]) -> None:
    assert list(claims_of(text)) == claims


def test_a_claim_is_borne_out_by_a_call_that_went_well_and_names_it() -> None:
    assert unsupported("I wrote report.md.", done("file_write", path="out/Report.md")) == ()
    assert unsupported("I sent it to /user/ada.", done("send_message", to="ada", text="x")) == ()


@pytest.mark.parametrize(
    "exchange",
    [[], done("file_write", path="other.md"), done("file_write", "error", path="report.md")],
    ids=["nothing", "another file", "failed"],
)
def test_a_claim_of_what_no_call_has_done_is_told(exchange: list[dict[str, Any]]) -> None:
    false = unsupported("I wrote report.md.", exchange)
    assert note_of(false) == "\n\n[weftos: no call of this turn wrote or changed report.md.]"


def test_both_kinds_are_told_in_one_note() -> None:
    note = note_of((Claim("a.txt"), Claim("bob", sent=True)))
    assert note == "\n\n[weftos: no call of this turn wrote or changed a.txt or sent anything to bob.]"
    assert note_of(()) == ""


def test_a_long_answer_is_read_within_a_bound() -> None:
    assert len(claims_of("I wrote a.md. I wrote " + "b " * 200_000 + "c.md")) == 1
