"""Memory through the doors: the control API, the client and the commands, against a twin of the kernel."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kernel.errors import Busy, TimedOut
from tests.patience import HANG_S
from tests.weftos.cli.test_cli import HOSTILE, SHOWN, Shell
from tests.weftos.twins.control_twin import Twin, served
from weftos import Client, WeftosError
from weftos.cli.agents.memory import MAX_TEXT_BYTES


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
def node(twin: Twin, service: tuple[Twin, Path]) -> Iterator[Client]:
    with Client(service[1]) as client:
        yield client


@pytest.fixture
def shell(
    twin: Twin,
    service: tuple[Twin, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    return Shell(service[1], monkeypatch, capsys)


def test_every_operation_arrives_as_it_was_asked(node: Client, twin: Twin) -> None:
    op = {"uid": os.getuid(), "os_pid": os.getpid()}
    assert node.memory.add("a text", title="T", scope="own", owner="/user/ada")["id"] == "d8"
    assert node.memory.search("ferry?", k=3, mode="bm25")["results"][0]["id"] == "d7"
    assert node.memory.show("d7")["text"] == "the ferry leaves\nat nine"
    assert node.memory.forget("d7")["id"] == "d7"
    assert node.memory.stats()["documents"] == 1
    assert node.memory.reindex() == {"documents": 1}
    assert twin.calls == [
        ("memory_add", op, "a text", "T", "own", "/user/ada"),
        ("memory_search", "ferry?", 3, "bm25"),
        ("memory_forget", op, "d7"),
        ("memory_reindex", op),
    ]


def test_refusals_come_with_their_code(node: Client, twin: Twin) -> None:
    with pytest.raises(WeftosError, match="no document 'd9'") as missing:
        node.memory.show("d9")
    assert missing.value.code == "not_found"
    for failure, code in ((Busy("memory is full"), "busy"), (TimedOut("no answer"), "timeout")):
        twin.failure = failure
        with pytest.raises(WeftosError) as refused:
            node.memory.search("x")
        assert refused.value.code == code


def test_a_document_of_fifty_megabytes_is_refused_before_anything_reads_it(node: Client, twin: Twin) -> None:
    with pytest.raises(WeftosError, match="longer than 1048576 bytes") as refused:
        node.memory.add("x" * 50 * 2**20)
    assert refused.value.code == "too_large"
    assert twin.calls == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "query: missing"),
        ({"query": "x", "mode": "magic"}, "mode"),
        ({"query": "x", "n": 1}, "no such field"),
    ],
)
def test_a_malformed_search_is_named(
    service: tuple[Twin, Path], twin: Twin, body: dict[str, Any], words: str
) -> None:
    transport = httpx.HTTPTransport(uds=str(service[1] / "control.sock"), verify=False)
    with httpx.Client(transport=transport, base_url="http://weftos", timeout=HANG_S) as http:
        answer = http.post("/v1/memory/search", json=body)
    assert answer.status_code == 422
    assert words in answer.json()["error"]["message"]


def test_commands_print_one_json_document(shell: Shell) -> None:
    assert shell.json("memory", "add", "a text")["id"] == "d8"
    assert shell.json("memory", "search", "the", "ferry")["results"][0]["id"] == "d7"
    assert shell.json("memory", "show", "d7")["title"] == "Ferry"
    assert shell.json("memory", "forget", "d7")["id"] == "d7"
    assert shell.json("memory", "stats")["index"] == {"embedder": "lexical"}
    assert shell.json("memory", "reindex") == {"documents": 1}


def test_a_text_comes_from_the_line_a_file_or_standard_input(
    shell: Shell, twin: Twin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("from a file")
    shell.json("memory", "add", "as typed", "--owner", "/user/ada", "--own")
    shell.json("memory", "add", "--file", str(file))
    for arguments in ([], ["-"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"from a pipe")))
        shell.json("memory", "add", *arguments, "--title", "P")
    assert [call[2:] for call in twin.calls] == [
        ("as typed", "", "own", "/user/ada"),
        ("from a file", "notes.txt", "shared", ""),
        ("from a pipe", "P", "shared", ""),
        ("from a pipe", "P", "shared", ""),
    ]


def test_what_is_too_large_or_no_text_is_not_sent(
    shell: Shell, twin: Twin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, binary = tmp_path / "large", tmp_path / "binary"
    large.write_bytes(b"x" * (MAX_TEXT_BYTES + 1))
    binary.write_bytes(b"\xff\x00")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(open("/dev/zero", "rb")))  # noqa: SIM115  # endless, on purpose
    for arguments, words in (
        (["--file", str(large)], "larger than 262144 bytes"),
        (["--file", str(binary)], "not UTF-8 text (byte 0)"),
        (["--file", str(tmp_path / "nowhere")], "No such file"),
        (["-"], "standard input is larger than 262144 bytes"),
    ):
        status, out, err = shell.run("memory", "add", *arguments)
        assert (status, out) == (1, "")
        assert words in err
    assert shell.run("memory", "add", "x", "--file", str(large))[0] == 2
    assert shell.run("memory", "search", "x", "--k", "51")[0] == 2
    assert twin.calls == []


def test_results_are_a_table_and_say_what_was_missing(shell: Shell, twin: Twin) -> None:
    twin.memory.degraded = "the embedder did not answer"
    _, out, _ = shell.run("memory", "search", "ferry")
    head, row, note = out.splitlines()
    assert head.split() == ["ID", "SCORE", "BY", "OWNER", "TITLE", "TEXT"]
    assert row.split("  ")[0] == "d7"
    assert "bm25 1 vector 3" in row
    assert "the ferry leaves at nine" in row
    assert note == "note: the embedder did not answer"
    assert "nothing found" in shell.run("memory", "search", "submarine")[1]
    assert "/user/ada" in shell.run("memory", "stats")[1]


def test_a_hostile_document_is_shown_and_not_obeyed(shell: Shell, twin: Twin) -> None:
    twin.memory.document |= {"title": HOSTILE, "text": HOSTILE}
    for arguments in (["memory", "search", "ferry"], ["memory", "show", "d7"]):
        status, out, _ = shell.run(*arguments)
        assert status == 0
        assert "\x1b" not in out
        assert out.count(SHOWN) == 2
