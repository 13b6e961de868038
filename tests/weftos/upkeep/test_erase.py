"""chain erase and its way to the node, against a twin of the kernel on a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.errors import Refused
from tests.weftos.cli.test_cli import Shell
from tests.weftos.twins.control_twin import Twin, served
from weftos import Client, WeftosError
from weftos.cli.chain import erase as command


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[Twin, Path]]:
    twin = Twin()
    with served(twin) as data:
        yield twin, data


@pytest.fixture
def shell(
    service: tuple[Twin, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    service[0].__init__()  # type: ignore[misc]  # as good as new, for each test
    monkeypatch.setattr(command, "LOOK_S", 0.001)
    return Shell(service[1], monkeypatch, capsys)


def asked(service: tuple[Twin, Path]) -> list[tuple[object, ...]]:
    return [(*call[:1], *call[2:]) for call in service[0].calls if call[0] == "erase"]


def test_it_says_what_went_and_what_did_not_once_it_is_done(shell: Shell, service: tuple[Twin, Path]) -> None:
    status, out, err = shell.run("chain", "erase", "7", "--reason", "a person asked")
    assert status == 0
    assert out.splitlines() == [
        "erased: 1 entry; entry 9 says so",
        "forgotten: session main of /user/ada",
        "forgotten: document d7",
        "kept: 1 of kind process.spawned, which is never erased",
        "not erased: 1 entry of turns that had it, which may repeat it:",
        "  8  turn.ended",
        "not erased: logs/node.jsonl holds 2 lines of the processes concerned; delete it if they say it",
        "not erased: logs/cells.log holds what tools and behaviours print; delete it if they say it",
    ]
    assert "tried again: archive: not running" in err and "it goes on" in err
    assert service[0].erasure.looks == -1
    assert asked(service) == [("erase", [7], None, "", "", "a person asked")]


def test_every_way_to_name_it(shell: Shell, service: tuple[Twin, Path]) -> None:
    assert shell.json("chain", "erase", "7", "8", "--reason", "r")["left_count"] == 1
    shell.json("chain", "erase", "--pid", "5000", "--reason", "r")
    shell.json("chain", "erase", "--session", "main", "--of", "ada", "--reason", "r")
    assert asked(service) == [
        ("erase", [7, 8], None, "", "", "r"),
        ("erase", [], 5000, "", "", "r"),
        ("erase", [], None, "ada", "main", "r"),
    ]


def test_a_reason_is_needed_and_numbers_are_numbers(shell: Shell, service: tuple[Twin, Path]) -> None:
    assert shell.run("chain", "erase", "7")[0] == 2
    assert shell.run("chain", "erase", "x", "--reason", "r")[0] == 2
    assert shell.run("chain", "erase", "--pid", "0", "--reason", "r")[0] == 2
    assert asked(service) == []


def test_a_refusal_comes_with_the_node_s_words(shell: Shell, service: tuple[Twin, Path]) -> None:
    service[0].failure = Refused("turn t7 of /user/ada (PID 5) is open")
    status, out, err = shell.run("chain", "erase", "7", "--reason", "r")
    assert (status, out) == (1, "") and "turn t7 of /user/ada (PID 5) is open" in err
    with Client(service[1]) as node, pytest.raises(WeftosError) as refused:
        node.erasure.erase("r", seqs=[7])
    assert refused.value.code == "refused"


def test_a_field_that_makes_no_sense_is_refused_at_the_door(service: tuple[Twin, Path]) -> None:
    service[0].__init__()  # type: ignore[misc]
    with Client(service[1]) as node:
        for wrong in ({"seqs": ["x"]}, {"pid": -1}):
            with pytest.raises(WeftosError) as refused:
                node.erasure.erase("r", **wrong)
            assert refused.value.code == "invalid"
        with pytest.raises(WeftosError) as refused:
            node.erasure.erase("", seqs=[7])
        assert refused.value.code == "invalid"
    assert asked(service) == []
