"""``weftos chain``: reads a ledger that the real writer has written, with no node running."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from chain.entry.draft import Draft
from chain.ledger.ledger import Ledger
from tests.weftos.cli.test_cli import HOSTILE, SHOWN, Shell
from weftos.lifecycle.initialise import initialise

FORGED = HOSTILE + "\n      7  a line that looks like an entry"

ACCEPTED = {
    "id": "m1", "sender": "operator", "to": "/user/ada", "text": "read notes", "session": "main",
    "reply_to": "", "wants_reply": True, "deadline_us": 0,
}  # fmt: skip
STARTED = {"turn": "t1", "message": "m1", "address": "/user/ada", "session": "main", "attempt": 1}
PROPOSED = {
    "turn": "t1", "ordinal": "0.0", "call_hash": "c" * 64, "tool": "file_read", "arguments": "{}",
    "arguments_hash": "a" * 64,
}  # fmt: skip
OUTCOME = {
    "turn": "t1", "ordinal": "0.0", "tool": "file_read", "status": "ok", "result": FORGED, "result_hash": "h",
    "truncated": False, "attempt": 1,
}  # fmt: skip
EXITED = {"address": "/user/bob", "pid": 9, "reason": "crash", "detail": "", "turn": ""}


async def write(data: Path) -> None:
    """Seven entries: a message, its turn with one call, and between them what has nothing to do with it."""
    clock = count(1_700_000_000_000_000)
    ledger = Ledger.open(data, initialise(data), now_us=lambda: next(clock))
    ledger.start(asyncio.get_running_loop())
    ledger.commit(
        [
            Draft("operator.command", {"uid": 0, "os_pid": 1, "operation": "send", "arguments": "{}"}),
            Draft("message.accepted", ACCEPTED, subject="m1", cause=0),
            Draft("process.exited", EXITED, pid=9),
            Draft("turn.started", STARTED, pid=8, subject="t1", cause=1),
            Draft("tool.proposed", PROPOSED, pid=8, subject="file_read", cause=3),
            Draft("process.exited", EXITED, pid=10),
            Draft("tool.outcome", OUTCOME, pid=8, subject="file_read", cause=4),
        ]
    )
    await ledger.close()


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Shell]:
    asyncio.run(write(tmp_path))
    yield Shell(tmp_path, monkeypatch, capsys)


def test_why_leads_from_an_effect_back_to_the_message_and_its_sender(shell: Shell) -> None:
    assert [row["seq"] for row in shell.json("chain", "why", "6")] == [0, 1, 3, 4, 6]
    *lines, sender = shell.run("chain", "why", "6")[1].splitlines()
    assert sender == "sent by operator, user 0 of this machine (entry 0)"
    kinds = ["operator.command", "message.accepted", "turn.started", "tool.proposed", "tool.outcome"]
    assert [kind in line for kind, line in zip(kinds, lines, strict=True)] == [True] * 5
    indents = [line.index(kind) for kind, line in zip(kinds, lines, strict=True)]
    assert indents == sorted(set(indents))
    assert "operator -> /user/ada: read notes" in lines[1]
    assert SHOWN in lines[4]


@pytest.mark.parametrize("command", ["why", "show"])
def test_an_entry_that_is_not_there_exits_1(shell: Shell, command: str) -> None:
    status, out, err = shell.run("chain", command, "7")
    assert (status, out) == (1, "")
    assert "there is no entry 7: the ledger holds 7" in err


def test_log_without_a_node_reads_the_journal(shell: Shell) -> None:
    answer = shell.json("chain", "log", "--limit", "2")
    assert answer["source"] == "journal"
    assert [row["seq"] for row in answer["rows"]] == [5, 6]
    assert [row["seq"] for row in shell.json("chain", "log", "--pid", "8")["rows"]] == [3, 4, 6]
    assert [row["seq"] for row in shell.json("chain", "log", "--kind", "tool")["rows"]] == [4, 6]
    assert [row["seq"] for row in shell.json("chain", "log", "--kind", "process.exited")["rows"]] == [2, 5]
    assert shell.json("chain", "log", "--kind", "proc")["rows"] == []
    _, out, _ = shell.run("chain", "log")
    assert SHOWN in out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 7


def test_show_prints_an_entry_with_its_body(shell: Shell) -> None:
    shown = shell.json("chain", "show", "6")
    assert (shown["kind"], shown["body"]["result"], shown["cause"]) == ("tool.outcome", FORGED, 4)
    _, out, _ = shell.run("chain", "show", "6")
    assert SHOWN in out
    assert "\x1b" not in out


def test_status_says_how_far_the_ledger_is_signed(shell: Shell) -> None:
    found = shell.json("chain", "status")
    assert (found["entries"], found["size"], found["full_size"], found["provisional"]) == (7, 7, 7, 0)
    assert found["stopped_cleanly"] is True


def test_verify_accepts_an_untouched_ledger_and_says_that_no_key_was_pinned(shell: Shell) -> None:
    status, out, _ = shell.run("chain", "verify")
    assert status == 0
    assert "7 entries" in out
    assert "no key was pinned" in out
    key = shell.json("chain", "key")["ed25519"]
    status, out, _ = shell.run("chain", "verify", "--key", key)
    assert status == 0
    assert "no key was pinned" not in out


def test_a_kept_file_of_keys_is_as_good_as_the_keys(shell: Shell, tmp_path: Path) -> None:
    kept = tmp_path / "node.vkeys"
    kept.write_text(shell.run("chain", "key")[1])
    status, out, _ = shell.run("chain", "verify", "--key", str(kept))
    assert status == 0
    assert "no key was pinned" not in out
    stranger = initialise(tmp_path / "stranger")
    kept.write_text(stranger.ed25519.text + "\n")
    assert shell.run("chain", "verify", "--key", str(kept))[0] == 1


def test_verify_of_one_changed_byte_exits_1_and_names_the_entry(shell: Shell) -> None:
    journal = next((shell.data / "journal").iterdir())
    content = bytearray(journal.read_bytes())
    content[content.index(b"read notes")] ^= 1
    journal.write_bytes(content)
    status, out, _ = shell.run("chain", "verify", "--json")
    report = json.loads(out)
    assert (status, report["ok"]) == (1, False)
    assert {finding["seq"] for finding in report["findings"]} == {1}
    status, out, _ = shell.run("chain", "verify")
    assert status == 1
    assert "NOT VERIFIED" in out


def test_another_nodes_key_does_not_verify(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> None:
    stranger = initialise(tmp_path_factory.mktemp("stranger") / "data")
    assert shell.run("chain", "verify", "--key", stranger.ed25519.text)[0] == 1


def test_a_key_that_is_none_is_an_error_in_words(shell: Shell) -> None:
    status, out, err = shell.run("chain", "verify", "--key", "nonsense")
    assert (status, out) == (1, "")
    assert "Traceback" not in err
    assert err.startswith("weftos: ")


@pytest.mark.parametrize("command", [["status"], ["log"], ["show", "0"], ["why", "0"], ["verify"]])
def test_a_directory_without_a_node_is_refused_by_name(
    shell: Shell, tmp_path: Path, command: list[str]
) -> None:
    status, out, err = shell.run("chain", *command, "--data", str(tmp_path / "elsewhere"))
    assert (status, out) == (1, "")
    assert f"{tmp_path / 'elsewhere'} is not a data directory" in err
