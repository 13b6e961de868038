"""Which tools are offered within what they may take, and those that a model loads."""

from __future__ import annotations

import pytest

from cognition.execution.loading import LOAD_TOOLS, budget_of, groups_of, load, note_of, offer
from kernel.abi import ToolCall

TOOLS = ["ask", "file_list", "file_read", "file_write", "memory_read", "memory_search", "unsubscribe"]


@pytest.mark.parametrize(
    ("preferred", "tokens", "budget", "offered"),
    [
        (None, {}, None, ("ask", "file_list", "file_read", "file_write", "memory_search", "memory_read")),
        (("file_write", "file_*"), {}, None, ("file_write", "file_list", "file_read")),
        (("file_*", "ask"), {}, 450, ("file_list", "file_read", "file_write")),
        (None, {"ask": 500, "file_list": 10, "file_read": 20}, 35, ("file_list", "file_read")),
        (("memory_read",), {}, None, ()),
        (("memory_read", "memory_search"), {"memory_search": 99}, 50, ()),
        (None, {}, 0, ()),
        ((), {}, None, ()),
    ],
)
def test_those_are_offered_that_are_preferred_fit_and_have_what_they_need(
    preferred: tuple[str, ...] | None, tokens: dict[str, int], budget: int | None, offered: tuple[str, ...]
) -> None:
    made = offer(TOOLS, preferred, tokens, budget)
    assert made.tools == offered
    assert budget is None or made.total(made.tools) <= budget
    assert all(name not in made.absent for name in offered)


def test_why_one_is_not_offered_is_said() -> None:
    made = offer(TOOLS, None, {"ask": 500}, 400)
    assert made.absent["ask"] == "its 500 tokens do not fit into what the window leaves for tools"
    assert made.absent["unsubscribe"] == "subscribe is not offered, which it needs"


def test_declarations_take_a_quarter_of_what_is_left_beside_the_answer() -> None:
    assert (budget_of(0, 4_096), budget_of(8_192, 4_096), budget_of(4_000, 4_096)) == (None, 1_024, 0)


def test_a_group_is_loaded_once_and_what_is_none_is_said() -> None:
    made = offer(TOOLS, None, {}, None)
    assert groups_of(made.tools) == {
        "ask": ("ask",),
        "file": ("file_list", "file_read", "file_write"),
        "memory": ("memory_search", "memory_read"),
    }
    assert "Groups: ask; file (file_list, file_read, file_write); memory" in note_of(made.tools)
    now, result = load(ToolCall(LOAD_TOOLS, '{"groups": ["file", "pay", "ask"]}', "c"), made, (LOAD_TOOLS,))
    assert now == (LOAD_TOOLS, "file_list", "file_read", "file_write", "ask")
    assert (result.status, result.id) == (
        "ok",
        "c",
    ) and "there is no group pay; there are: ask, file" in result.text
    again, _ = load(ToolCall(LOAD_TOOLS, '{"groups": ["file_read"]}'), made, now)
    assert again == now
    for arguments in ("", "[]", '{"groups": "file"}', '{"groups": [1]}', "[" * 100_000, '{"groups": ["x"]}'):
        same, wrong = load(ToolCall(LOAD_TOOLS, arguments), made, now)
        assert same == now and wrong.status == "error"
