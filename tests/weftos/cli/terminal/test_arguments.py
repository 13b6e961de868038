"""What is spared in reading a command line changes neither what a command is given, nor what is refused, nor help."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from weftos.cli.app import app
from weftos.cli.terminal import arguments
from weftos.cli.terminal.arguments import command_for

VALUES: tuple[Any, ...] = (
    None, "", "a", "-", " a ", "ä世", "a\x1b[0m", "0", "20", "007", "1001", "-1", "9" * 40, "1.5", "nan", "true",
    "a\0b", "/", "~", os.fsdecode(b"\xff"), "/proc/self/mem", "/nowhere/at/all", "kill", "KILL", "term", "permanent", 3,
    2.5, True, b"a", Path("/tmp"), Path("/nowhere"), ["a", "b"], ("a",),
)  # fmt: skip


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


ALL = dict(commands(get_command(app)))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_an_argument_that_is_taken_as_it_is_is_what_typer_makes_of_it(path: tuple[str, ...]) -> None:
    context = typer.Context(ALL[path])
    for parameter in ALL[path].params:
        choices = parameter.type_descriptor.choices or ()
        for value in (*VALUES, *choices, *map(str, choices)):
            seen = arguments._seen(value, parameter)
            if seen is not arguments._UNSEEN:
                made = parameter.get_runtime_param().coerce(value, param=parameter, ctx=context)
                assert (type(seen), seen) == (type(made), made), (parameter.name, value)


def test_texts_choices_and_paths_that_are_right_are_taken_as_they_are() -> None:
    spawn, kill = ALL["spawn",], ALL["kill",]
    of = {parameter.name: parameter for parameter in (*spawn.params, *kill.params)}
    for name, value in (
        ("name", "ada"),
        ("provider", ""),
        ("signal", "kill"),
        ("data", "/tmp"),
        ("data", None),
    ):
        assert arguments._seen(value, of[name]) == (Path(value) if name == "data" and value else value)
    for name, value in (("signal", "stab"), ("name", os.fsdecode(b"\xff")), ("data", "a\0b")):
        assert arguments._seen(value, of[name]) is arguments._UNSEEN


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_a_command_made_alone_is_the_same_command(path: tuple[str, ...]) -> None:
    alone = command_for(app, path)
    made = dict(commands(alone))
    assert path in made
    assert len(made) == len(ALL) if not path else len(made) < len(ALL)
    above: dict[str, Any] = {}
    for tree, told in ((ALL, "whole"), (made, "alone")):
        context = None
        for depth in range(len(path) + 1):
            context = typer.Context(tree[path[:depth]], parent=context, info_name=("weftos", *path)[depth])
        assert context is not None
        above[told] = (context.command.get_help(context), [parameter.name for parameter in tree[path].params])
    if not getattr(ALL[path], "commands", None) or not path:
        assert above["alone"] == above["whole"]


@pytest.mark.parametrize("words", [(), ("--help",), ("nothing",), ("pss",), ("--version", "ps")])
def test_whatever_names_no_command_sees_them_all(words: tuple[str, ...]) -> None:
    assert [*dict(commands(command_for(app, words)))] == [*ALL]


def test_a_typer_that_keeps_its_coercion_elsewhere_does_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "_SLOT", "_nowhere")
    parameters = [one for _, command in commands(command_for(app, ["kill"])) for one in command.params]
    assert parameters
    assert not any(hasattr(parameter, "_nowhere") for parameter in parameters)
    assert not any(isinstance(parameter._runtime_param, arguments._Quick) for parameter in parameters)
