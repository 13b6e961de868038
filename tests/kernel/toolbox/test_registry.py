"""The registry of tools, and the schemas of the built-in ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kernel.abi import ToolDeclaration
from kernel.toolbox.arguments import ArgumentsError
from kernel.toolbox.registry import Registry, RegistryError, ToolSource, builtin_declarations

OWN = ToolDeclaration("own", "Own.", {"type": "object", "properties": {}})
SOURCE = ToolSource("own", "mytools.words:count", ("/srv/tools",))


def test_the_built_in_tools_and_where_they_run() -> None:
    registry = Registry(builtin_declarations())
    assert {name: (entry.package, entry.declaration.effects) for name, entry in registry.items()} == {
        "ask": (None, "local"),
        "broadcast": (None, "local"),
        "calculator": (None, "none"),
        "file_list": ("builtin", "none"),
        "file_read": ("builtin", "none"),
        "file_write": ("builtin", "local"),
        "knowledge_base": (None, "none"),
        "memory_read": (None, "none"),
        "memory_search": (None, "none"),
        "memory_write": (None, "local"),
        "publish": (None, "local"),
        "send_message": (None, "local"),
        "spawn_agent": (None, "local"),
        "subscribe": (None, "local"),
        "unsubscribe": (None, "local"),
        "cancel_turn": (None, "local"),
    }
    assert list(registry) == sorted(registry)
    assert {entry.declaration.network for entry in registry.values()} == {()}
    assert OWN.network == ("*",), "a tool that says nothing may speak to anybody"


@pytest.mark.parametrize(
    ("tool", "good", "bad"),
    [
        ("calculator", {"expression": "1"}, {"expression": ""}),
        ("calculator", {"expression": "1"}, {"expression": "1" * 501}),
        ("file_read", {"path": "a", "offset": 4, "limit": 100}, {"path": "a", "offset": -1}),
        ("file_read", {"path": "a"}, {"path": 7}),
        ("file_list", {}, {"directory": "x"}),
        ("file_write", {"path": "a", "content": ""}, {"path": "a"}),
        ("send_message", {"to": "42", "text": "hi"}, {"to": 42, "text": "hi"}),
        ("ask", {"to": "a", "text": "b", "timeout_s": 2.5}, {"to": "a", "text": "b", "timeout_s": 0}),
        ("cancel_turn", {"process": "ada", "why": "late"}, {"message": "m1"}),
        ("spawn_agent", {"name": "a.b-c_1", "tools": ["calculator"]}, {"name": "a/b"}),
        ("spawn_agent", {"name": "x", "restart": "temporary"}, {"name": "x", "restart": "always"}),
        ("publish", {"topic": "a.b", "text": "x"}, {"topic": "", "text": "x"}),
        ("broadcast", {"text": "x"}, {"text": "x", "below": "/user"}),
        ("subscribe", {"pattern": "a.*", "overflow": "dead_letter"}, {"pattern": "a", "overflow": "lose"}),
        ("unsubscribe", {"pattern": "*"}, {}),
        ("memory_write", {"text": "a", "title": "b", "shared": True}, {"text": "a", "shared": "yes"}),
        ("memory_search", {"query": "a", "k": 50}, {"query": "a", "k": 51}),
        ("knowledge_base", {"query": "a"}, {"question": "a"}),
        ("memory_read", {"id": "d1", "offset": 5}, {"id": "d1", "offset": -5}),
    ],
)
def test_the_schemas_of_the_built_in_tools(tool: str, good: dict[str, Any], bad: dict[str, Any]) -> None:
    validator = Registry(builtin_declarations())[tool].validator
    validator.check(good)
    with pytest.raises(ArgumentsError):
        validator.check(bad)
    with pytest.raises(ArgumentsError, match="unexpected"):
        validator.check({**good, "workspace": "/"})


def test_a_third_party_tool_knows_its_package_and_source() -> None:
    entry = Registry([OWN], [SOURCE])["own"]
    assert (entry.package, entry.import_string, entry.python_path) == (
        SOURCE.package,
        "mytools.words:count",
        ("/srv/tools",),
    )
    assert SOURCE.package.startswith("mytools-")


def test_tools_of_one_module_tree_and_path_share_a_package_and_others_do_not() -> None:
    package = SOURCE.package
    assert replace(SOURCE, name="other", import_string="mytools:other").package == package
    assert replace(SOURCE, python_path=("/srv/other",)).package != package
    assert replace(SOURCE, import_string="mytool.s:x").package != package
    assert "/" not in ToolSource("x", "../../etc:x").package


@pytest.mark.parametrize(
    ("declarations", "words"),
    [
        ([OWN, OWN], "tool own: the name is taken"),
        ([*builtin_declarations(), replace(OWN, name="calculator")], "tool calculator: the name is taken"),
        ([replace(OWN, name="lost")], "tool lost: it is third-party and has no source"),
        ([replace(OWN, effects="some")], "tool own: effects is 'some'"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_registered_is_refused(declarations: list[ToolDeclaration], words: str) -> None:
    with pytest.raises(RegistryError) as refusal:
        Registry(declarations, [SOURCE, replace(SOURCE, name="calculator")])
    assert words in str(refusal.value)
    assert refusal.value.code == "invalid"


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(RegistryError) as refusal:
        Registry([replace(OWN, name="one"), replace(OWN, name="two")])
    assert "tool one" in str(refusal.value)
    assert "tool two" in str(refusal.value)
