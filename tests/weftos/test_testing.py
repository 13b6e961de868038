"""The twin that authors test their behaviours and tools with."""

from __future__ import annotations

from typing import Any

import pytest

from kernel.abi import (
    EffectId,
    Message,
    ModelAnswer,
    ModelRequest,
    ProcessInfo,
    Syscalls,
    ToolCall,
    ToolResult,
    TurnResult,
)
from weftos import behaviour, tool
from weftos.testing import Twin, call


@tool(effects="none")
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


@tool
async def pay(amount: int, effect: EffectId) -> dict[str, Any]:
    """Pay."""
    if amount > 100:
        raise ValueError("too much")
    return {"paid": amount, "key": effect}


@behaviour
class Cook:
    """Does as its message says, word by word."""

    def __init__(self, info: ProcessInfo) -> None:
        self.info = info

    async def handle(self, message: Message, sys: Syscalls) -> TurnResult | str | None:
        said: dict[str, Any] = {
            "tools": sys.tools,
            "history": sys.history,
            "now": sys.now,
            "random": sys.random,
            "add": lambda: sys.call_tool("add", {"a": 2}),
            "wrong": lambda: sys.call_tool("add", '{"a": "two"}'),
            "both": lambda: sys.call_tools([ToolCall("add", '{"a": 1}', "x"), ToolCall("pay", "{", "y")]),
            "ask": lambda: sys.ask_model(ModelRequest(({"role": "user", "content": "hi"},))),
            "watch": lambda: sys.monitor("ada"),
            "unwatch": lambda: sys.demonitor("r"),
            "link": lambda: sys.link("ada"),
            "unlink": lambda: sys.unlink("r"),
            "trap": lambda: sys.trap_exits(),
        }
        if message.text == "nothing":
            return None
        if message.text == "name":
            return f"{self.info.name} {self.info.config} {message.sender}"
        sys.log(message.text)
        return TurnResult(str(await said[message.text]()), ({"said": message.text},))


def test_a_tool_is_called_as_a_node_would_call_it() -> None:
    assert call(add, a=2) == ToolResult("", "add", "ok", "3")
    assert call(add, a="two").status == "error" and "do not fit" in call(add, a="two").text
    assert call(pay, amount=3).text == '{"key":"effect-1","paid":3}'
    assert call(pay, amount=300) == ToolResult("", "pay", "error", "ValueError: too much")
    with pytest.raises(TypeError, match="write @tool from weftos"):
        call(len)


def test_a_behaviour_asks_the_twin() -> None:
    twin = Twin(Cook, tools={"pay": pay, "add": add}, name="ada", config={"k": 1}, time_s=7.0, random_bits=9)
    assert twin.handle("name", sender="/user/bob").reply == "ada {'k': 1} /user/bob"
    assert twin.handle("nothing") == TurnResult("")
    assert twin.handle("tools").reply == "['add', 'pay']"
    assert twin.handle("history").reply == "[{'said': 'tools'}]"
    assert twin.handle("history", session="other").reply == "[]"
    assert (twin.handle("now").reply, twin.handle("random").reply) == ("7.0", "9")
    assert "no other processes" in twin.handle("watch").reply and twin.handle("unwatch").reply == "False"
    assert "no other processes" in twin.handle("link").reply and twin.handle("unlink").reply == "False"
    assert (twin.handle("trap").reply, twin.handle("trap").reply) == ("False", "True")
    assert twin.logged[:7] == ["tools", "history", "history", "now", "random", "watch", "unwatch"]


def test_tool_calls_run_are_checked_and_kept() -> None:
    twin = Twin(Cook, tools={"add": add, "pay": pay})
    assert "text='3'" in twin.handle("add").reply
    assert "do not fit" in twin.handle("wrong").reply
    both = twin.handle("both").reply
    assert "id='x'" in both and "id='y'" in both and "not valid JSON" in both
    assert [(each.name, each.result.status) for each in twin.calls] == [
        ("add", "ok"),
        ("add", "error"),
        ("add", "ok"),
        ("pay", "error"),
    ]
    assert twin.calls[0].arguments == {"a": 2}


def test_results_and_answers_may_be_scripted_and_run_out_loudly() -> None:
    lost = ToolResult("", "add", "lost", "nobody knows")
    twin = Twin(Cook, tools={"add": ["five", lost]}, answers=["good day", ModelAnswer("error", "no")])
    assert "text='five'" in twin.handle("add").reply and "status='lost'" in twin.handle("add").reply
    with pytest.raises(AssertionError, match="another call of add"):
        twin.handle("add")
    assert "good day" in twin.handle("ask").reply and "status='error'" in twin.handle("ask").reply
    with pytest.raises(AssertionError, match="question 3 to the model"):
        twin.handle("ask")
    assert twin.questions[0].messages[0]["content"] == "hi"


def test_what_it_may_not_use_is_denied() -> None:
    twin = Twin(Cook)
    assert "status='denied'" in twin.handle("add").reply and twin.calls[0].result.status == "denied"


def test_a_tool_that_declares_hosts_beyond_its_network_is_denied() -> None:
    here = Twin(Cook, tools={"add": add, "pay": pay}, network=["bank.example.org"])
    both = here.handle("both").reply
    assert "may use of the network bank.example.org, and add declares that it uses any host" in both
    assert [each.result.status for each in here.calls] == ["denied", "denied"]

    @tool(network=("bank.example.org",))
    def add_there(a: int) -> int:
        """Add."""
        return a + 1

    there = Twin(Cook, tools={"add": add_there}, network=["*.example.org"])
    assert "text='3'" in there.handle("add").reply
    assert "text='five'" in Twin(Cook, tools={"add": ["five"]}, network=()).handle("add").reply
    with pytest.raises(ValueError, match="is no host"):
        Twin(Cook, network=["https://a.org"])


def test_what_is_no_answer_is_refused() -> None:
    class Odd(Cook):
        async def handle(self, message: Message, sys: Syscalls) -> Any:
            return 7

    with pytest.raises(TypeError, match="handle\\(\\) returned int"):
        Twin(Odd).handle("x")
    with pytest.raises(TypeError, match="write @tool"):
        Twin(Cook, tools={"len": len})
