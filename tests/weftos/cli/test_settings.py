"""What a behaviour is told at a spawn, as options say it."""

from __future__ import annotations

import pytest
import typer

from weftos.cli.agents.settings import check_agent, read_config


def test_each_key_has_its_value_as_the_configuration_says_it_or_text() -> None:
    words = [
        "history.strategy=sliding",
        "history.max_tokens=100",
        "tools=['a']",
        "temperature=0.1",
        "note=",
        "on=true",
    ]
    assert read_config(words) == {
        "history": {"strategy": "sliding", "max_tokens": 100},
        "tools": ["a"],
        "temperature": 0.1,
        "note": "",
        "on": True,
    }
    assert read_config(None) is None
    assert read_config(["a=1\nb = 2"]) == {"a": "1\nb = 2"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["history"], "is not KEY=VALUE"),
        (["=1"], "is not KEY=VALUE"),
        (["a..b=1"], "is not KEY=VALUE"),
        (["a=1", "a=2"], "a is given twice"),
        (["a=1", "a.b=2"], "a.b is below what has a value already"),
        (["a.b=1", "a=2"], "a is given twice"),
        ([".".join("abcdefghij") + "=1"], "is not KEY=VALUE"),
    ],
)
def test_what_is_no_key_and_value_is_named(words: list[str], said: str) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        read_config(words)


def test_what_no_agent_is_told_is_said_at_once_and_in_words() -> None:
    with pytest.raises(typer.BadParameter) as refused:
        check_agent({"histori": {"strategy": "sliding"}, "history": {"strategy": "upside-down"}})
    said = str(refused.value.message)
    assert [words for words in ("histori ", "history.strategy must be") if words not in said] == []
    check_agent({"history": {"strategy": "sliding"}})
    check_agent(None)
