"""The auditor's commands over one story, wherever its entries lie by now: journal, published tiles, or both."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from chain.disk import Disk
from chain.entry.draft import Draft
from chain.keys.keys import load_keys
from chain.ledger.ledger import Ledger
from chain.state.snapshot import write_snapshot
from chain.tiles.erasure import erase_bodies
from tests.chain.tiles.test_publisher import snapshot_of
from tests.weftos.cli.test_cli import SHOWN, Shell
from tests.weftos.twins.audited_ledger import START_US, STEP_US, STORY, write_many, write_story


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The story in the journal and in tiles, in the journal alone, and its first part in tiles alone."""
    found = {lies: tmp_path_factory.mktemp(lies) / "data" for lies in ("published", "journal", "both")}
    for lies, place in found.items():
        write_story(place, dropped=9 if lies == "both" else 0)
        names = sorted(path.name for path in (place / "journal").iterdir())
        assert (names[0] == "0000000000000000.wj") is (lies != "both")
    shutil.rmtree(found["journal"] / "ledger")
    return found


@pytest.fixture(params=["published", "journal", "both"])
def shell(
    request: pytest.FixtureRequest,
    stories: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    return Shell(shutil.copytree(stories[request.param], tmp_path / "data"), monkeypatch, capsys)


@pytest.fixture
def plain_shell(
    stories: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    return Shell(shutil.copytree(stories["published"], tmp_path / "data"), monkeypatch, capsys)


def go_on(place: Path, drafts: list[Draft], *, drop: bool = False) -> None:
    """The node runs once more: writes ``drafts``, the last of them behind a snapshot when told to."""

    async def run() -> None:
        keys = load_keys(place / "keys")
        late = START_US + 100 * STEP_US
        ledger = Ledger.open(place, keys, now_us=lambda: late)
        ledger.start(asyncio.get_running_loop())
        ledger.commit(drafts[:-1])
        if drop:
            group = await ledger.upkeep.roll()
            await ledger.publish()
            digest = write_snapshot(place / "snapshot", Disk(), snapshot_of(place, group, b""), [])
            await ledger.upkeep.place_snapshot(group, digest)
            assert await ledger.upkeep.drop_before(group) > 0
        ledger.commit(drafts[-1:])
        await ledger.close()

    asyncio.run(run())


def seqs(shell: Shell, *filters: str) -> list[int]:
    return [row["seq"] for row in shell.json("chain", "log", *filters)["rows"]]


ADA = [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17]
TOOLS = [6, 7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ([], range(18)),
        (["--limit", "3"], [15, 16, 17]),
        (["--pid", "8"], [0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]),
        (["--pid", "11"], [15]),
        (["--pid", "ada"], [0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
        (["--pid", "/user/bob"], [16, 17]),
        (["--pid", "777"], []),
        (["--address", "/user/ada"], ADA),
        (["--address", "ada"], ADA),
        (["--address", "bob"], [16, 17]),
        (["--kind", "tool"], TOOLS),
        (["--kind", "tool.verdict"], [7, 11]),
        (["--kind", "too"], []),
        (["--tool", "file_read"], TOOLS),
        (["--tool", "file_write"], []),
        (["--turn", "t2"], [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]),
        (["--turn", "t1-2"], []),
        (["--text", "MILK"], [13]),
        (["--text", "milk"], [13]),
        (["--text", "leaves the workspace"], [11, 12]),
        (["--since", "2023-11-14T22:13:34"], [14, 15, 16, 17]),
        (["--since", "2023-11-14 22:13:34.000Z"], [14, 15, 16, 17]),
        (["--since", "2023-11-15T00:13:34+02:00"], [14, 15, 16, 17]),
        (["--until", "2023-11-14T22:13:23"], [0, 1, 2]),
        (["--since", "10m"], []),
        (["--until", "10m"], range(18)),
        (
            ["--since", "2023-11-14T22:13:26", "--until", "2023-11-14T22:13:34", "--kind", "tool.outcome"],
            [9, 12],
        ),
        (["--address", "ada", "--kind", "message"], [2, 17]),
        (["--pid", "ada", "--since", "2023-11-14T22:13:34"], [14, 15]),
        (["--turn", "t2", "--text", "notes", "--tool", "file_read"], [6]),
        (["--kind", "tool", "--text", "shadow", "--limit", "1"], [10]),
    ],
    ids=lambda value: (
        " ".join(value) if isinstance(value, list) and value and isinstance(value[0], str) else ""
    ),
)
def test_all_filters_that_are_given_must_hold(shell: Shell, filters: list[str], wanted: Any) -> None:
    assert seqs(shell, *filters) == list(wanted)


@pytest.mark.parametrize("option", ["--pid", "--address"])
def test_a_process_that_never_was_is_an_error(plain_shell: Shell, option: str) -> None:
    status, out, err = plain_shell.run("chain", "log", option, "carol")
    assert (status, out) == (1, "")
    assert "knows no process carol" in err
    assert plain_shell.run("chain", "timeline", "carol")[0] == 1


@pytest.mark.parametrize("text", ["soon", "10 m", "5y", "2023-13-01", "999999w", "-3d"])
def test_a_time_that_is_none_is_refused_in_words(plain_shell: Shell, text: str) -> None:
    status, out, err = plain_shell.run("chain", "log", f"--since={text}")
    assert (status, out) == (1, "")
    assert "is no time: give" in err


def test_the_archive_knows_only_some_filters(plain_shell: Shell) -> None:
    for wrong in (["--tool", "x"], ["-f"], ["--since", "1h"]):
        status, _, err = plain_shell.run("chain", "log", "--archive", *wrong)
        assert status == 2
        assert "--archive goes with --pid, --kind and --limit alone" in " ".join(err.split())


def test_following_shows_what_is_there_what_comes_and_ends_quietly(
    plain_shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger is written while the command waits; Ctrl-C is what ends it."""
    waits = 0

    def sleep(seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 3:
            raise KeyboardInterrupt
        go_on(plain_shell.data, [*[STORY[17]] * waits, STORY[16]])

    monkeypatch.setattr(time, "sleep", sleep)
    status, out, err = plain_shell.run("chain", "log", "-f", "--limit", "1", "--kind", "message", "--json")
    assert (status, err) == (0, "")
    assert [json.loads(line)["seq"] for line in out.splitlines()] == [17, 18, 20, 21]


def test_following_goes_on_when_the_segment_it_stood_in_is_gone(
    plain_shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a snapshot takes the place of older segments while somebody follows."""
    waits = 0

    def sleep(seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 1:
            go_on(plain_shell.data, [STORY[17], STORY[16]], drop=True)
        if waits == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)
    status, out, err = plain_shell.run("chain", "log", "-f", "--limit", "2", "--json")
    assert (status, err) == (0, "")
    assert [json.loads(line)["seq"] for line in out.splitlines()] == [16, 17, 18, 19]


def test_a_damaged_journal_ends_the_following_with_the_finding(
    plain_shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    journal = next((plain_shell.data / "journal").iterdir())
    content = bytearray(journal.read_bytes())
    content[content.index(b"read notes")] ^= 1
    journal.write_bytes(content)
    status, _, err = plain_shell.run("chain", "log", "-f")
    assert status == 1
    assert "journal damaged" in err


def test_a_data_directory_that_is_deleted_ends_the_following(
    plain_shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: shutil.rmtree(plain_shell.data))
    status, _, err = plain_shell.run("chain", "log", "-f")
    assert status == 1
    assert "is gone: it was moved or deleted" in " ".join(err.split())


def test_why_leads_down_to_the_message_and_who_sent_it(shell: Shell) -> None:
    assert [row["seq"] for row in shell.json("chain", "why", "9")] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert [row["seq"] for row in shell.json("chain", "why", "13")] == [1, 2, 3, 13]
    _, out, _ = shell.run("chain", "why", "12")
    assert out.splitlines()[-1] == "sent by operator, user 1000 of this machine (entry 1)"
    assert [row["seq"] for row in shell.json("chain", "why", "16")] == [16]
    assert "sent by" not in shell.run("chain", "why", "16")[1]


def test_a_timeline_has_durations_in_order(shell: Shell) -> None:
    spans = shell.json("chain", "timeline", "ada")
    seconds = {span["seq"]: span["duration_us"] and span["duration_us"] / STEP_US for span in spans}
    assert seconds == {0: 14, 2: 0, 3: 10, 4: 1, 6: 3, 10: 2, 15: None, 17: 0}
    assert [span["seq"] for span in spans] == sorted(seconds)
    told = {span["seq"]: (span["depth"], span["status"]) for span in spans}
    assert told[0] == (0, "crash")
    assert told[3] == (1, "ok")
    assert told[6] == (2, "ok")
    assert told[10] == (2, "denied")
    assert told[15] == (0, "open")
    assert [span["seq"] for span in shell.json("chain", "timeline", "8")] == [0, 3, 4, 6, 10]
    assert [span["seq"] for span in shell.json("chain", "timeline", "8", "--limit", "2")] == [6, 10]
    _, out, _ = shell.run("chain", "timeline", "8")
    header, *lines = out.splitlines()
    assert header.split() == ["ENTRY", "BEGAN", "TOOK", "WHAT", "CAME", "OF", "IT", "WHEN"]
    assert [line.index(kind) for line, kind in zip(lines, ("process", "turn", "model"), strict=False)] == [
        lines[0].index("process") + 2 * depth for depth in range(3)
    ]
    assert lines[0].endswith("█" * 24)
    assert lines[2].endswith("······███···············")


def test_a_turn_is_told_whole(shell: Shell) -> None:
    story = shell.json("chain", "turn", "t2")
    assert (story["status"], story["address"], story["session"]) == ("ok", "/user/ada", "main")
    assert story["message"]["body"]["text"] == "read notes"
    assert story["sent_by"] == "sent by operator, user 1000 of this machine (entry 1)"
    model, read, shadow = story["steps"]
    assert (model["step"], model["input_tokens"], model["new_messages"][0]["content"]) == (
        "model",
        120,
        "read notes",
    )
    assert model["request"] == {"messages": 1, "fault": ""}
    assert model["answer"]["tool_calls"][0]["name"] == "file_read"
    assert [read["seqs"], read["verdicts"][0]["decision"], read["status"]] == [[6, 7, 8, 9], "allow", "ok"]
    assert read["intents"][0]["seq"] == 8
    assert shadow["verdicts"] == [
        {"seq": 11, "decision": "deny", "reasons": ["the path leaves the workspace"]}
    ]
    assert (shadow["intents"], shadow["status"]) == ([], "denied")
    assert story["answer"] == {"seq": 13, "status": "ok", "reply": "The notes say: buy MILK"}
    _, out, _ = shell.run("chain", "turn", "t2")
    order = [
        "read notes",
        "user 1000",
        "twin-1",
        "judged  allow",
        "intended",
        SHOWN,
        "judged  deny",
        "buy MILK",
    ]
    places = [out.index(words) for words in order]
    assert places == sorted(places)
    assert "\x1b" not in out
    assert len([line for line in out.splitlines() if "forged line" in line]) == 1


def test_what_a_person_let_a_turn_forget_is_told_beside_what_took_its_place(plain_shell: Shell) -> None:
    turn = {"turn": "t18", "ordinal": "0.0"}

    def paid(at: int, amount: int) -> list[Draft]:
        call = {**turn, "tool": "pay"}
        proposed = {"call_hash": "c" * 64, "arguments": f'{{"amount":{amount}}}', "arguments_hash": "a" * 64}
        intent = {"arguments_hash": "a" * 64, "effects": "external", "boot": "b", "attempt": 1, "pid": 8}
        outcome = {"result": f"paid {amount}", "result_hash": "h", "truncated": False, "attempt": 1}
        return [
            Draft("tool.proposed", {**call, **proposed}, 8, "pay", cause=18),
            Draft("tool.intent", {**call, **intent}, 8, "pay", cause=at),
            Draft("tool.outcome", {**call, "status": "ok", **outcome}, 8, "pay", cause=at + 1),
        ]

    begun = {"turn": "t18", "message": "m18", "address": "/user/ada", "session": "main", "attempt": 1}
    decided = Draft("turn.decided", {**turn, "decision": "accept", "by": "operator:0"}, 0, "t18", cause=18)
    go_on(plain_shell.data, [Draft("turn.started", begun, 8, "t18"), *paid(19, 5), decided, *paid(23, 6)])
    first, second = plain_shell.json("chain", "turn", "t18")["steps"]
    assert [first["seqs"], first["outcomes"][0]["result"], first["forgotten"]] == [[19, 20, 21], "paid 5", 22]
    assert [second["seqs"], second["outcomes"][0]["result"]] == [[23, 24, 25], "paid 6"]
    assert "forgotten" not in second
    _, out, _ = plain_shell.run("chain", "turn", "t18")
    assert out.index("ok, forgotten by 22") < out.index("paid 5") < out.index("paid 6")


def test_a_turn_that_never_was_is_an_error(plain_shell: Shell) -> None:
    status, out, err = plain_shell.run("chain", "turn", "t9-9")
    assert (status, out) == (1, "")
    assert "knows no turn t9-9" in err


def test_the_numbers_add_up(shell: Shell) -> None:
    found = shell.json("chain", "stats")
    assert found["entries"] == sum(found["kinds"].values()) == 18
    assert sum(item["entries"] for item in found["processes"]) == 18
    assert {(item["pid"], item["address"]) for item in found["processes"]} == {
        (0, "the kernel"), (8, "/user/ada"), (9, "/user/bob"), (11, "/user/ada"),
    }  # fmt: skip
    assert found["denials"] == {"count": 1, "tools": {"file_read": 1}}
    assert found["doubts"] == {"arisen": 0, "resolved": 0}
    assert found["tokens"] == {"input": 120, "output": 30, "answers": 1}
    assert sum(item["entries"] for item in found["rate"]) == 18
    assert found["first_us"] == START_US
    half = shell.json("chain", "stats", "--since", "2023-11-14T22:13:34")
    assert half["entries"] == 4
    _, out, _ = shell.run("chain", "stats")
    assert "1 calls denied: file_read 1" in out
    assert out.count("█" * 40) == 18


def test_the_rate_of_a_long_ledger_has_few_bars_and_forgets_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_many(tmp_path, 1500)
    found = Shell(tmp_path, monkeypatch, capsys).json("chain", "stats")
    assert sum(item["entries"] for item in found["rate"]) == 1500
    assert 10 < len(found["rate"]) <= 24
    widths = {item["to_us"] - item["from_us"] for item in found["rate"]}
    assert len(widths) == 1
    assert [item["from_us"] for item in found["rate"][1:]] == [item["to_us"] for item in found["rate"][:-1]]
    assert found["rate"][0]["from_us"] <= START_US < found["rate"][0]["to_us"]


def test_status_and_show_say_where_things_lie(shell: Shell) -> None:
    found = shell.json("chain", "status")
    published = (shell.data / "ledger").exists()
    dropped = (shell.data / "snapshot" / "state.ws").exists()
    assert (found["entries"], found["full_size"]) == (18, 18)
    assert (found["published_size"], found["unpublished"]) == ((18, 0) if published else (0, 18))
    assert (found["snapshot_entries"], found["first_journal_entry"]) == ((9, 9) if dropped else (None, 0))
    assert found["segments"] == 1
    assert found["stopped_cleanly"] is True
    shown = shell.json("chain", "show", "4")
    assert shown["published"] is published
    assert shown["file"].startswith("ledger/" if published else "0000")
    assert "snapshot time" in shell.run("chain", "status")[1]


def test_a_turn_whose_answer_was_erased_has_ended_all_the_same(
    stories: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shell = Shell(shutil.copytree(stories["both"], tmp_path / "data"), monkeypatch, capsys)
    assert erase_bodies(shell.data / "ledger", Disk(), [(13, 13)]) == 1
    story = shell.json("chain", "turn", "t2")
    assert (story["status"], story["answer"]) == ("ended", {"seq": 13, "status": None, "reply": None})
    assert "13  (erased)" in shell.run("chain", "turn", "t2")[1]


def test_a_timeline_has_the_ends_of_what_was_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beginnings and ends find each other by their leaves: of the turn, the model's answer, both calls, the process."""
    shell = Shell(tmp_path / "data", monkeypatch, capsys)
    write_story(shell.data, dropped=17)
    whole = shell.json("chain", "timeline", "8")
    assert erase_bodies(shell.data / "ledger", Disk(), [(5, 7), (10, 11), (13, 14)]) == 7
    spans = shell.json("chain", "timeline", "8")
    assert [(span["seq"], span["last_seq"], span["duration_us"]) for span in spans] == [
        (span["seq"], span["last_seq"], span["duration_us"]) for span in whole
    ]
    assert {span["seq"]: span["status"] for span in spans} == {
        0: "ended, reason erased", 3: "ended, answer erased", 4: "ended, answer erased", 6: "ok", 10: "denied",
    }  # fmt: skip
    assert "ended, answer erased" in shell.run("chain", "timeline", "ada")[1]


def test_what_was_erased_leaves_the_order_and_the_causes(
    stories: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shell = Shell(shutil.copytree(stories["both"], tmp_path / "data"), monkeypatch, capsys)
    assert erase_bodies(shell.data / "ledger", Disk(), [(1, 3), (6, 7)]) == 5
    assert [row["seq"] for row in shell.json("chain", "why", "9")] == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    _, out, _ = shell.run("chain", "why", "9")
    assert out.splitlines()[-1] == "who sent it was erased (entry 1)"
    assert "(erased)" in shell.run("chain", "log")[1]
    assert seqs(shell, "--turn", "t2") == [4, 5, 8, 9, 10, 11, 12, 13]
    story = shell.json("chain", "turn", "t2")
    assert (story["erased"], story["status"], story["address"]) == ([3, 6, 7], "ok", None)
    assert [step["seqs"] for step in story["steps"]] == [[4, 5], [8, 9], [10, 11, 12]]
    _, out, _ = shell.run("chain", "turn", "t2")
    assert "erased, of this turn or one that it led to: 3, 6, 7" in out
    assert shell.json("chain", "stats")["erased"] == 5
    for command in (["timeline", "8"], ["timeline", "ada"], ["stats"], ["show", "3"], ["status"]):
        assert shell.run("chain", *command)[0] == 0
    status, _, err = shell.run("chain", "receipt", "3", "-o", str(tmp_path / "r"), "--with-body")
    assert (status, "the body of entry 3 was erased" in err) == (1, True)
    assert shell.run("chain", "receipt", "3", "-o", str(tmp_path / "r"))[0] == 0


def test_an_empty_ledger_has_an_answer_for_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_many(tmp_path, 0)
    shell = Shell(tmp_path, monkeypatch, capsys)
    assert shell.json("chain", "status")["entries"] == 0
    assert shell.json("chain", "log")["rows"] == []
    assert shell.json("chain", "stats")["rate"] == []
    assert shell.run("chain", "stats")[0] == 0
    assert shell.json("chain", "timeline", "7") == []
    assert shell.run("chain", "why", "0")[0] == 1
