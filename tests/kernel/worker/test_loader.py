"""Importing somebody else's tool: whatever its module does, the fault is told in one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kernel.worker.loader import LoadError, load_tool, one_line

MARKED = (
    "from weftos import tool\n@tool\n{0}def count(text: str) -> str:\n    '''Count.'''\n    return text\n"
)


@pytest.fixture(autouse=True)
def own_imports() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def module(directory: Path, name: str, text: str) -> tuple[str, ...]:
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.py").write_text(text)
    return (str(directory),)


def test_a_marked_function_is_loaded_under_the_name_of_the_configuration(tmp_path: Path) -> None:
    loaded = load_tool("my_count", "load_a:count", module(tmp_path, "load_a", MARKED.format("")))
    assert loaded.declaration.name == "my_count"
    assert loaded.declaration.sandbox == "thirdparty"
    assert not loaded.is_async
    assert loaded.function(text="x") == "x"


def test_an_asynchronous_function_is_known_as_one(tmp_path: Path) -> None:
    assert load_tool("c", "load_b:count", module(tmp_path, "load_b", MARKED.format("async "))).is_async


def test_the_directories_are_searched_in_their_order_and_last(tmp_path: Path) -> None:
    first = module(tmp_path / "1", "load_c", MARKED.format(""))
    second = module(tmp_path / "2", "load_c", "raise RuntimeError")
    load_tool("c", "load_c:count", first + second)
    assert sys.path[-2:] == [*first, *second]


@pytest.mark.parametrize(
    ("text", "what", "words"),
    [
        ("raise SystemExit('bye')", "bad:count", "importing bad:count failed: SystemExit: bye"),
        ("raise KeyboardInterrupt", "bad:count", "failed: KeyboardInterrupt"),
        ("import nothing_of_that_name", "bad:count", "No module named 'nothing_of_that_name'"),
        ("def broken(:", "bad:count", "SyntaxError"),
        ("x = 1", "bad:count", "AttributeError"),
        ("def count(): ...", "bad:count", "is not marked; write @tool"),
        ("count = 7", "bad:count", "is not marked; write @tool"),
        ("class count: __weftos_tool__ = {'name': 'x'}", "bad:count", "is not marked"),
        (
            "from weftos import tool\n@tool\ndef count(): ...",
            "bad:count",
            "TypeError: tool count needs a docstring",
        ),
        (MARKED.format("").replace("@tool", "@tool(timeout_s=-1)"), "bad:count", "timeout_s is -1"),
        ("", "bad", "not of the form module:function"),
        ("", ":count", "not of the form module:function"),
        ("", "bad:count.more", "not of the form module:function"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_one_line(tmp_path: Path, text: str, what: str, words: str) -> None:
    with pytest.raises(LoadError) as refusal:
        load_tool("c", what, module(tmp_path, "bad", text))
    message = str(refusal.value)
    assert words in message
    assert "\n" not in message
    assert len(message) < 1000


def test_an_exception_is_shown_bounded_and_on_one_line() -> None:
    assert one_line(ValueError("a\n b")) == "ValueError: a b"
    assert one_line(ValueError()) == "ValueError"
    assert len(one_line(ValueError("x" * 10_000))) == 500
