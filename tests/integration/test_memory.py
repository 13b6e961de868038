"""Memory on a real node (engine local): what an agent learned is found again, by those who may, while it is kept."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.commands import command
from tests.integration.live_node import until
from tests.integration.test_command_line import Terminal
from tests.patience import HANG_S
from tests.servers.embeddings import embedding_server

TOOLS = "memory_write,memory_search,memory_read"


class Desk(Terminal):
    """A terminal whose commands run in this process, but for those that start a node."""

    def run(self, *arguments: str) -> tuple[int, str, str]:
        if arguments[0] == "up":
            return super().run(*arguments)
        return command(self.environment, *arguments)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    with tempfile.TemporaryDirectory(prefix="w-") as place:
        terminal = Desk(Path(place))
        yield terminal
        if terminal.data.exists():
            terminal.run("down")
            assert terminal.living() == []


def up(terminal: Terminal) -> None:
    """Start the node, and wait until its archive answers: a question waits for it but some seconds."""
    terminal.json("up", "--engine", "local", "--detach")
    archive_answers(terminal)


def archive_answers(terminal: Terminal) -> None:
    """Wait for it; a process that runs may still import what it needs."""
    until(lambda: "embedder" in terminal.json("memory", "stats")["index"], "the archive answers")


def archive(terminal: Terminal) -> int:
    """The archive's process, 0 while it does not run yet."""
    rows = terminal.json("status")["helpers"]
    [row] = [row for row in rows if row["name"] == "archive"]
    return int(row["os_pid"]) if row["state"] == "running" else 0


def say(terminal: Terminal, name: str, text: str) -> str:
    """What an agent replies."""
    return str(terminal.json("send", name, text, "--wait")["reply"])


def texts(terminal: Terminal, *query: str) -> list[str]:
    """What a person finds."""
    return [hit["text"] for hit in terminal.json("memory", "search", *query)["results"]]


def test_an_agent_finds_after_a_restart_what_it_learned_and_another_does_not(terminal: Terminal) -> None:
    up(terminal)
    for name in ("ada", "bob"):
        terminal.json("spawn", name, "--tools", TOOLS)
    assert say(terminal, "ada", "remember that the gate code is 4711").startswith("Remembered as d")
    terminal.json("down")
    up(terminal)
    found = "About the gate code I remember:\nthe gate code is 4711"
    assert say(terminal, "ada", "what do you remember about the gate code?") == found
    assert say(terminal, "bob", "what do you remember about the gate code?") == (
        "I remember nothing about the gate code."
    )
    [hit] = terminal.json("memory", "search", "gate", "code")["results"]
    assert (hit["owner"], hit["scope"]) == ("/user/ada", "own")
    written = terminal.json("chain", "show", str(hit["seq"]))
    assert "memory.written" in str(written)
    assert terminal.json("chain", "verify")["ok"] is True


def test_what_a_person_shares_every_agent_recalls_until_it_is_forgotten(terminal: Terminal) -> None:
    up(terminal)
    terminal.json("spawn", "bob", "--tools", TOOLS)
    ident = terminal.json("memory", "add", "the ferry leaves at nine")["id"]
    terminal.json("memory", "add", "the harbour master sleeps late", "--own")
    assert say(terminal, "bob", "recall ferry") == "About ferry I remember:\nthe ferry leaves at nine"
    assert say(terminal, "bob", "recall harbour master") == "I remember nothing about harbour master."
    assert terminal.json("memory", "show", ident)["text"] == "the ferry leaves at nine"
    terminal.json("memory", "forget", ident)
    assert texts(terminal, "ferry") == []
    assert say(terminal, "bob", "recall ferry") == "I remember nothing about ferry."
    status, _, err = terminal.run("memory", "show", ident)
    assert (status, ident in err) == (1, True)
    terminal.json("down")
    up(terminal)
    assert texts(terminal, "ferry") == []
    assert terminal.json("memory", "stats")["documents"] == 1


def test_the_archive_killed_and_its_files_deleted_comes_back_by_itself(terminal: Terminal) -> None:
    up(terminal)
    texts_before = ["the lake is deep", "the lake is cold"]
    for text in texts_before:
        terminal.json("memory", "add", text)
    assert sorted(texts(terminal, "lake")) == sorted(texts_before)
    before = archive(terminal)
    os.kill(before, signal.SIGSTOP)
    shutil.rmtree(terminal.data / "archive")
    os.kill(before, signal.SIGKILL)
    until(lambda: archive(terminal) not in (0, before), "another archive runs")
    archive_answers(terminal)
    until(lambda: sorted(texts(terminal, "lake")) == sorted(texts_before), "all is found again")
    stats = terminal.json("memory", "stats")
    assert stats["index"]["documents"] == stats["documents"] == 2


@pytest.mark.slow
def test_while_the_archive_is_stopped_memory_says_so_and_the_rest_goes_on(terminal: Terminal) -> None:
    up(terminal)
    terminal.json("spawn", "ada", "--tools", f"{TOOLS},calculator")
    assert texts(terminal, "lake") == []
    stopped = archive(terminal)
    os.kill(stopped, signal.SIGSTOP)
    try:
        turn = terminal.start("send", "ada", "what is 17*23", "--wait")
        status, _, err = terminal.run("memory", "search", "lake")
        assert status == 1
        assert "memory did not answer within" in err
        out, _ = turn.communicate(timeout=HANG_S)
        assert (turn.returncode, "17*23 = 391" in out) == (0, True)
    finally:
        os.kill(stopped, signal.SIGCONT)
    archive_answers(terminal)
    terminal.json("memory", "add", "the lake is deep")
    until(lambda: texts(terminal, "lake") == ["the lake is deep"], "it is found again")


@pytest.mark.slow
def test_a_paraphrase_is_found_with_an_embeddings_server_and_not_with_the_lexical_default(
    terminal: Terminal,
) -> None:
    text, paraphrase = "physician bought automobile", "doctor purchased car"
    with embedding_server() as server:
        terminal.json("init")
        file = terminal.data / "weftos.toml"
        provider = f'[providers.words]\nkind = "openai"\nbase_url = "{server.base_url}"\n'
        file.write_text(f'{provider}[memory]\nembedder = "words"\nmodel = "synonyms"\ndimensions = 64\n')
        up(terminal)
        terminal.json("memory", "add", "the gardener waters his roses")
        terminal.json("memory", "add", text)
        until(lambda: terminal.json("memory", "stats")["index"]["pending"] == 0, "nothing is pending")
        found = terminal.json("memory", "search", paraphrase, "--k", "1", "--mode", "vector")
        assert ([hit["text"] for hit in found["results"]], found["degraded"]) == ([text], "")
        server.kill()
        terminal.json("memory", "add", "the night watchman whistles")
        found = terminal.json("memory", "search", "night watchman")
        assert [hit["text"] for hit in found["results"]][:1] == ["the night watchman whistles"]
        assert "found by words only" in found["degraded"]
        terminal.json("down")
        file.write_text("")
        up(terminal)
        until(lambda: terminal.json("memory", "stats")["index"]["pending"] == 0, "nothing is pending")
        found = terminal.json("memory", "search", paraphrase, "--mode", "vector")
        assert text not in [hit["text"] for hit in found["results"]]
        assert found["embedder"].startswith("lexical")
