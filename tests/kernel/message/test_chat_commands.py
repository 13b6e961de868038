"""Which messages are commands to the node, and what comes of the model that a chat prefers."""

from __future__ import annotations

import pytest

from kernel.abi import MessageOptions
from kernel.errors import Invalid
from kernel.message.chat_commands import Command, PreferModel, StopTurn, command_of, preferring, shown_model

KNOWN = {"openai", "offline"}


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/model", PreferModel(asks=True)),
        ("  /model gpt-5\n", PreferModel("", "gpt-5")),
        ("/model openai/gpt-5", PreferModel("openai", "gpt-5")),
        ("/model openai", PreferModel("openai", "")),
        ("/model meta/llama", PreferModel("", "meta/llama")),
        ("/model openai/a/b", PreferModel("openai", "a/b")),
        ("/model default", PreferModel()),
        ("/stop", StopTurn()),
        ("/stop it", None),
        ("/models", None),
        ("use /model gpt", None),
        ("", None),
    ],
)
def test_what_is_a_command_and_what_is_said_to_the_agent(text: str, command: Command | None) -> None:
    assert command_of(text, KNOWN) == command


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("/model a b", "takes one name"),
        ("/model openai/", "names no model of openai"),
        ("/model " + "x" * 257, "at most 256 characters"),
        ("/model a\0b", "can be printed"),
    ],
)
def test_what_no_model_is_called_is_refused(text: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        command_of(text, KNOWN)


def test_a_message_has_its_own_word_before_that_of_its_chat() -> None:
    warm = MessageOptions(temperature=1.0, max_tokens=5, output_schema={"type": "object"})
    made = preferring(warm, "openai", "gpt")
    assert made == MessageOptions("openai", "gpt", 1.0, None, None, 5, {"type": "object"})
    assert preferring(MessageOptions(model="m"), "openai", "gpt") == MessageOptions(model="m")
    assert preferring(warm, "", "") == warm


def test_a_model_is_shown_as_it_is_named() -> None:
    assert [shown_model(*each) for each in (("p", "m"), ("", "m"), ("p", ""), ("", ""))] == [
        "p/m", "m", "p", "the one that is configured",
    ]  # fmt: skip
