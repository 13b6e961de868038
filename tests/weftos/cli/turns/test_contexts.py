"""weftos context: what a model was shown, section by section, out of the ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chain.entry.draft import Draft
from kernel.cell.conversation import digest_of, list_hash
from kernel.values import canonical, sha256_hex
from tests.weftos.cli.test_audit import go_on
from tests.weftos.cli.test_cli import Shell
from tests.weftos.twins.audited_ledger import write_story

TRACE = bytes(15) + b"\x07"
PROMPT, QUESTION = (
    {"role": "system", "content": "Be brief.\n\nAda\x1b[31m"},
    {"role": "user", "content": "hello"},
)
SECTIONS = [
    ["instructions", "[agent]", 2, 0, 1, 0, 9], ["identity", "IDENTITY.md", 400, 0, 1, 11, 19],
    ["message", "sender", 5, 1, 1, 0, 0], ["tools", "registry", 300, 2, 0, 0, 0],
]  # fmt: skip


def question(ordinal: str, **more: Any) -> Draft:
    messages = [PROMPT, QUESTION]
    hashed = list_hash(b"".join(digest_of(canonical(each)) for each in messages))
    asked = {"provider": "p", "model": "m", "tools": []}
    body = {
        "turn": "t18", "ordinal": ordinal, "call_hash": "c" * 64, "asked": canonical(asked), **asked,
        "request_hash": sha256_hex(canonical({"messages": hashed, **asked})), "messages_hash": hashed,
        "prefix_of": -1, "prefix_count": 0, "pieces": "[2]", "results": "[]", "new": canonical(messages),
        "truncated": False, "sections": json.dumps(SECTIONS), **more,
    }  # fmt: skip
    return Draft("model.asked", body, 9, "t18", TRACE)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    write_story(tmp_path / "data")
    told = [
        question("0.0", sections="[]"),
        question("1.0", new="[]", truncated=True),
        question("2.0", sections='[["x"],7,["a","b",-1,0,0,0,0]]'),
        question("3.0"),
    ]
    go_on(tmp_path / "data", told)
    return Shell(tmp_path / "data", monkeypatch, capsys)


def test_the_newest_question_is_shown_in_its_sections_with_their_texts(shell: Shell) -> None:
    found = shell.json("context", "t18")
    assert (found["question"], found["of"], found["tokens"], found["fault"]) == (4, 4, 707, "")
    rows = {row["name"]: row for row in found["sections"]}
    assert [rows[name]["text"] for name in rows] == ["Be brief.", "Ada\x1b[31m", "user: hello", ""]
    assert rows["message"]["sha256"] == sha256_hex("user: hello")
    assert shell.json("context") == found
    _, out, _ = shell.run("context", "t18", "--text")
    assert (
        "\x1b[31m" not in out and "IDENTITY.md" in out and "user: hello" in out and "about 707 tokens" in out
    )
    of = [line for line in out.splitlines() if "IDENTITY.md" in line or "registry" in line]
    assert [line.count("#") + line.count("█") for line in of[:2]] == [30, 22]


def test_one_of_an_older_build_or_with_another_word_is_one_section(shell: Shell) -> None:
    for number in ("1", "3"):
        [row] = shell.json("context", "t18", number)["sections"]
        assert row["name"] == "messages" and row["text"].endswith("user: hello")


def test_what_is_not_to_be_had_is_said_and_the_sizes_are_there_all_the_same(shell: Shell) -> None:
    found = shell.json("context", "t18", "2")
    assert "does not hold all" in found["fault"] and [row["text"] for row in found["sections"]] == [None] * 4
    _, out, _ = shell.run("context", "t18", "2", "--text")
    assert "the text is not to be had" in out and "IDENTITY.md" in out
    for words in (("t99",), ("t18", "5")):
        status, _, said = shell.run("context", *words)
        assert status != 0 and ("knows no question" in said or "has put 4 questions" in said)
