"""Commands as a person or a script types them, against a twin of the kernel behind the real listener and client."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.weftos.twins.control_twin import BOOTED, MANY_CHILDREN, Twin, process_row, served
from weftos.cli import main

HOSTILE = "\x1b]0;owned\x07[link=https://evil]x[/link]‮"
SHOWN = r"\x1b]0;owned\x07[link=https://evil]x[/link]\u202e"


class Shell:
    """Runs ``weftos ARGUMENTS`` in this process and keeps what it printed."""

    def __init__(
        self, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._patch = monkeypatch
        self._capture = capsys
        self.data = data
        monkeypatch.setenv("WEFTOS_DATA", str(data))

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit status, stdout, stderr."""
        self._patch.setattr("sys.argv", ["weftos", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = self._capture.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    def json(self, *arguments: str) -> Any:
        """The one JSON document of a command that succeeds."""
        status, out, err = self.run(*arguments, "--json")
        assert status == 0, err
        return json.loads(out)


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[Twin, Path]]:
    twin = Twin()
    with served(twin) as data:
        yield twin, data


@pytest.fixture
def twin(service: tuple[Twin, Path]) -> Twin:
    service[0].__init__()  # type: ignore[misc]  # as good as new, for each test
    return service[0]


@pytest.fixture
def shell(
    twin: Twin,
    service: tuple[Twin, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    return Shell(service[1], monkeypatch, capsys)


def test_all_children_are_asked_for_in_pages_and_told_with_the_flags(shell: Shell, twin: Twin) -> None:
    found = shell.json("children", "team")
    assert len(found["children"]) == MANY_CHILDREN
    assert [call for call in twin.calls if call[0] == "children"] == [
        ("children", "team", -1, 2_000),
        ("children", "team", 1_999, 2_000),
    ]
    status, out, _ = shell.run("children", "team")
    assert status == 0
    first, _, *rows = [line.split() for line in out.splitlines() if line.strip()]
    said = "/user/team: one_for_one, 5 restarts in 60 s (0 counted), then shutdown; auto_shutdown never; 1 active"
    assert " ".join(first) == said
    assert rows[0] == ["c0", "7", "running", "up", "worker", "transient", "park", "yes", "infinity"]


@pytest.mark.parametrize(
    ("kept", "said"),
    [(True, "weftos start /user/ada starts it again"), (False, "its slot goes with it")],
)
def test_a_stop_says_whether_it_can_be_started_again(shell: Shell, twin: Twin, kept: bool, said: str) -> None:
    twin.kept = kept
    status, out, _ = shell.run("stop", "/user/ada")
    assert (status, out.strip()) == (0, f"/user/ada is stopped; {said}")


def test_a_change_asks_for_what_is_said_and_tells_what_is_another_now(shell: Shell, twin: Twin) -> None:
    status, out, _ = shell.run(
        "change", "/user/ada", "--restart", "transient", "--not-significant", "--shutdown", "0"
    )
    assert (status, out.strip()) == (0, "/user/ada: restart, shutdown_s, significant changed")
    [asked] = [call for call in twin.calls if call[0] == "change"]
    assert asked[3] == {"restart": "transient", "shutdown_s": 0.0, "significant": False}
    assert shell.run("change", "/user/ada")[1].strip() == "/user/ada is so already"


def test_a_letter_is_shown_with_what_became_of_it_also_when_it_is_gone_and_when_nobody_knows(
    shell: Shell, twin: Twin
) -> None:
    whole = shell.run("deadletters", "show", "d/1")[1]
    assert "WHAT" in whole and "expired" in whole
    gone = shell.json("deadletters", "show", "m404")
    assert list(gone) == ["history"] and gone["history"][0]["event"] == "dead"
    twin.no_history = True
    assert (
        "its history is not known just now: the archive cannot answer"
        in shell.run("deadletters", "show", "d/1")[1]
    )
    assert shell.json("deadletters", "show", "d/1")["history"] is None
    status, _, err = shell.run("deadletters", "show", "m404")
    assert status != 0 and "no dead letter m404" in err


def test_every_command_prints_one_json_document(shell: Shell, twin: Twin) -> None:
    assert shell.json("spawn", "ada")["pid"] == 40
    assert shell.json("status") == {"running": True, "name": "twin", "ledger": {"size": 812}}
    assert shell.json("ps")[0]["address"] == "/user/ada"
    assert shell.json("tree")[0]["children"] == []
    assert shell.json("inspect", "ada") == {"pid": 40}
    assert shell.json("send", "ada", "hi")["message"] == "m1"
    assert shell.json("send", "ada", "hi", "--wait")["reply"] == "HI"
    assert shell.json("kill", "ada") == {"pid": 40}
    assert shell.json("cancel", "ada")["turn"] == "t1"
    assert shell.json("stop", "ada") == {"address": "ada", "state": "stopped", "kept": True}
    assert shell.json("rm", "/user/ada", "-r") == {"address": "/user/ada", "removed": 1}
    assert twin.calls[-1][2:] == ("/user/ada", True)
    assert shell.json("start", "/user/ada") == {"address": "/user/ada"}
    assert shell.json("logs", "ada") == [{"text": "hello"}]
    assert shell.json("events") == [BOOTED]
    assert shell.json("deadletters", "list") == [{"id": "d/1", "why": "expired"}]
    shown = shell.json("deadletters", "show", "d/1")
    assert (shown["id"], [step["event"] for step in shown["history"]]) == ("d/1", ["dead"])
    assert shell.json("deadletters", "replay", "d/1")["message"] == "m9"
    assert shell.json("deadletters", "drop", "d/1", "--why", "old") == {"id": "d/1"}
    assert shell.json("doubts", "list") == []
    assert shell.json("doubts", "resolve", "t1:0.0", "--done")["resolution"] == "done"
    assert [row["id"] for row in shell.json("divergences", "list")] == ["t3"]
    assert shell.json("divergences", "show", "t3")["asked"]["arguments"] == '{"amount":6}'
    assert shell.json("divergences", "decide", "t3", "--accept")["decision"] == "accept"
    assert shell.json("chain", "log", "--archive", "--pid", "ada") == {"rows": [], "source": "archive"}
    assert twin.calls[-1] == ("log", 40, None, 50)
    assert shell.json("config", "view")["running"] is True


def test_both_calls_of_a_parked_turn_are_shown(shell: Shell) -> None:
    status, out, _ = shell.run("divergences", "show", "t3")
    assert status == 0
    assert [words for words in ('{"amount":5}', '{"amount":6}', "chain show 17") if words not in out] == []
    status, _, err = shell.run("divergences", "show", "t4")
    assert (status != 0, "no turn t4 is parked" in err) == (True, True)


def test_a_configuration_is_valid_until_others_can_change_what_it_names(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "own.toml").write_text('[tools.t]\nimport = "t:t"\npython_path = ["tools"]\n')
    assert shell.json("config", "validate", str(tmp_path / "own.toml")) == {"valid": True, "faults": []}
    (tmp_path / "tools").chmod(0o777)
    status, _, err = shell.run("config", "validate", str(tmp_path / "own.toml"))
    said = f"tools.t.python_path: {tmp_path / 'tools'} can be written by others (mode 0777)"
    assert (status, said in err) == (1, True)


def test_a_change_of_keys_prints_the_new_ones(shell: Shell, twin: Twin) -> None:
    assert shell.json("chain", "rotate", "--reason", "yearly")["number"] == 2
    assert twin.calls[-1][0::2] == ("rotate", "yearly")
    status, out, _ = shell.run("chain", "rotate", "--reason", "yearly")
    assert status == 0 and {"e+1+x", "m+2+y"} <= set(out.splitlines()) and "change 2" in out
    status, _, err = shell.run("chain", "rotate")
    assert status == 2 and "--reason" in err
    assert shell.run("chain", "rotate", "--reason", "")[0] != 0


def test_spawn_hands_over_what_was_typed(shell: Shell, twin: Twin, tmp_path: Path) -> None:
    shell.json(
        "spawn", "ada", "--tools", "calculator, ask", "--restart", "transient", "--workspace", str(tmp_path)
    )
    request = twin.calls[-1][2]
    assert (request.tools, request.restart, request.workspace) == (
        ("calculator", "ask"),
        "transient",
        str(tmp_path),
    )
    shell.json("spawn", "bare", "--tools", "")
    assert twin.calls[-1][2].tools == ()
    shell.json("spawn", "team", "--supervisor", "--intensity", "3/10", "--strategy", "rest_for_one")
    request = twin.calls[-1][2]
    assert (request.supervisor, request.intensity, request.strategy) == (True, (3, 10.0), "rest_for_one")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["spawn", "x", "--intensity", "5/60"], "add --supervisor"),
        (["spawn", "x", "--strategy", "one_for_all"], "add --supervisor"),
        (["spawn", "x", "--supervisor", "--intensity", "often"], "RESTARTS/SECONDS"),
        (["spawn", "x", "--supervisor", "--intensity", "5/nan"], "RESTARTS/SECONDS"),
        (["spawn", "x", "--shutdown", "nan"], "neither seconds nor infinity"),
        (["spawn", "x", "--child-shutdown", "inf"], "neither seconds nor infinity"),
        (["spawn", "x", "--supervisor", "--model", "m"], "leave out --model"),
        (["spawn", "x", "--restart", "sometimes"], "permanent"),
        (["spawn", "x", "--set", "histori.strategy=sliding"], "histori is unknown; the nearest is history"),
        (["doubts", "resolve", "t:0.0"], "exactly one of --retry, --done, --lost"),
        (["doubts", "resolve", "t:0.0", "--retry", "--lost"], "exactly one"),
        (["divergences", "decide", "t3"], "exactly one of --again, --accept, --dead"),
        (["divergences", "decide", "t3", "--again", "--dead"], "exactly one"),
        (["kill", "x", "--signal", "hup"], "term"),
        (["chain", "show", "-1"], "-1"),
        (["nothing"], "nothing"),
    ],
)
def test_wrong_use_exits_2_and_asks_nothing_of_the_node(
    shell: Shell, twin: Twin, arguments: list[str], words: str
) -> None:
    status, out, err = shell.run(*arguments)
    assert (status, out, twin.calls) == (2, "", [])
    assert words in err


def test_a_negative_answer_exits_1_with_the_nodes_words_on_stderr(shell: Shell, twin: Twin) -> None:
    status, out, err = shell.run("inspect", "nobody", "--json")
    assert (status, out) == (1, "")
    assert "there is no process nobody" in err
    twin.names = {"ada": 4}
    assert shell.run("spawn", "ada")[0] == 1
    status, _, err = shell.run("send", "ada", "nobody answers", "--wait", "--timeout", "3")
    assert status == 1
    assert "no reply within 3.0 s" in err


def test_without_a_node_commands_exit_1_and_say_how_to_start_one(shell: Shell, tmp_path: Path) -> None:
    status, out, err = shell.run("ps", "--data", str(tmp_path))
    assert (status, out) == (1, "")
    assert f"weftos up --data {tmp_path}" in err
    status, out, _ = shell.run("status", "--json", "--data", str(tmp_path))
    assert (status, json.loads(out)) == (1, {"running": False, "data": str(tmp_path)})


def test_foreign_text_reaches_the_terminal_as_text(shell: Shell, twin: Twin) -> None:
    twin.rows = [process_row("/user/x", 7, behaviour=HOSTILE)]
    twin.letters = [{"id": "d1", "why": HOSTILE, "text": HOSTILE}]
    twin.failure = None
    for command in (["ps"], ["deadletters", "list"], ["send", "x", HOSTILE, "--wait"]):
        status, out, _ = shell.run(*command)
        assert status == 0
        assert SHOWN.lower() in out.lower()
        assert "\x1b" not in out
        assert "‮" not in out
    status, _, err = shell.run("inspect", HOSTILE)
    assert SHOWN in err
    assert "\x1b" not in err


def test_tree_draws_children_below_their_supervisors(shell: Shell, twin: Twin) -> None:
    twin.rows = [
        process_row("/user", 2, type="supervisor"),
        process_row("/user/team", 5, type="supervisor"),
        process_row("/user/team/ada", 9, restarts=2, state="exited", slot="restarting"),
        process_row("/user/teamless", 6),
    ]
    lines = shell.run("tree")[1].splitlines()
    assert [line.split("PID")[0].rstrip() for line in lines] == [
        "user",
        "├── team",
        "│   └── ada",
        "└── teamless",
    ]
    assert "PID 9  restarting  2 restarts" in lines[2]


class Keyboard(io.StringIO):
    """What a person types on."""

    def isatty(self) -> bool:
        return True


def typing(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """A person who types these lines and then ends the talk."""
    left = list(lines)

    def next_line(prompt: str) -> str:
        if not left:
            raise EOFError
        return left.pop(0)

    monkeypatch.setattr("builtins.input", next_line)


def test_chat_prints_tokens_as_they_come_and_the_reply_once(
    shell: Shell, twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin.names = {"ada": 4}
    typing(monkeypatch, "one two", "  ")
    assert shell.run("chat", "ada", "--session", "s") == (0, "onetwo\n", "")
    assert twin.calls[-1][2:] == ("ada", "one two", "s")


def test_chat_on_a_terminal_says_how_it_is_left(
    shell: Shell, twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin.names = {"ada": 4}
    typing(monkeypatch, "one")
    monkeypatch.setattr("sys.stdin", Keyboard())
    status, out, err = shell.run("chat", "ada")
    assert (status, out, "Ctrl-D ends the talk" in err) == (0, "one\n", True)


def test_chat_as_json_prints_each_event_on_a_line(
    shell: Shell, twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin.names = {"ada": 4}
    typing(monkeypatch, "one", "two")
    status, out, _ = shell.run("chat", "ada", "--json")
    kinds = [json.loads(line)["event"] for line in out.splitlines()]
    assert (status, kinds) == (0, ["accepted", "delta", "reply"] * 2)


def test_chat_with_nobody_ends_before_anything_is_asked(
    shell: Shell, twin: Twin, monkeypatch: pytest.MonkeyPatch
) -> None:
    typing(monkeypatch, "hello")
    status, out, err = shell.run("chat", "nobody")
    assert (status, out) == (1, "")
    assert "there is no process nobody" in err
    assert [call[0] for call in twin.calls] == ["inspect"]


def test_ps_and_tree_ask_for_page_after_page(
    twin: Twin, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weftos.cli.agents.processes.PAGE_ROWS", 4)
    twin.names = {f"p{number}": number for number in range(12)}
    assert [row["pid"] for row in shell.json("ps")] == list(range(12))
    asked = [call[1:] for call in twin.calls]
    assert asked == [(False, after and f"/user/{after}", 4) for after in ("", "p3", "p7", "p11")]
    assert shell.run("tree")[1].count("PID") == 12


def test_what_a_channel_says_of_a_message_goes_with_it_and_a_file_as_what_it_is(
    shell: Shell, twin: Twin, tmp_path: Path
) -> None:
    note, picture = tmp_path / "note.txt", tmp_path / "cat.png"
    note.write_text("read me")
    picture.write_bytes(b"\x89PNG\0")
    told = [
        "--channel",
        "telegram",
        "--chat",
        "42",
        "--user",
        "bob",
        "--id",
        "7",
        "--option",
        "temperature=0.5",
    ]
    status, _, err = shell.run("send", "ada", "hi", *told, "--attach", str(note), "--attach", str(picture))
    assert status == 0, err
    *names, options, files = next(call for call in twin.calls if call[0] == "came")[1:]
    assert (names, options) == (["telegram", "42", "bob", "7"], {"temperature": 0.5})
    assert [(each["name"], each["type"], each["size"], each["text"]) for each in files] == [
        ("note.txt", "text/plain", 7, "read me"),
        ("cat.png", "image/png", 5, ""),
    ]
    assert files[0]["sha256"] == hashlib.sha256(b"read me").hexdigest()
    for wrong, words in (("nowhere", "cannot be read"), (str(tmp_path), "cannot be read")):
        status, _, err = shell.run("send", "ada", "hi", "--attach", wrong)
        assert (status, words in err) == (2, True)
