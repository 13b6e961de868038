"""What a person may say in a chat to the node and not to the agent: a line that begins with the word of a command. It
is carried out at once, whatever waits there. Pure.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from kernel.abi import MessageOptions
from kernel.errors import Invalid

USUAL = "default"
MAX_MODEL_CHARS = 256


@dataclass(frozen=True, slots=True)
class PreferModel:
    """``/model NAME``: the chat wants this model from its next message on; both empty: as it is configured.
    ``asks``: it wants to know which it has.
    """

    provider: str = ""
    model: str = ""
    asks: bool = False


@dataclass(frozen=True, slots=True)
class StopTurn:
    """``/stop``: what is being answered is cancelled."""


Command = PreferModel | StopTurn


def command_of(text: str, providers: Container[str]) -> Command | None:
    """The command in a message, None for a message like any other: one to the agent may begin with a stroke as well.
    A name is a model, a provider, or ``PROVIDER/MODEL``. Raises Invalid.
    """
    words = text.split()
    if words == ["/stop"]:
        return StopTurn()
    if not words or words[0] != "/model":
        return None
    if len(words) > 2:
        raise Invalid(f"/model takes one name, such as /model gpt-5 or /model {USUAL}")
    if len(words) == 1:
        return PreferModel(asks=True)
    name = words[1]
    if len(name) > MAX_MODEL_CHARS or not name.isprintable():
        raise Invalid(f"/model takes a name of at most {MAX_MODEL_CHARS} characters that can be printed")
    if name == USUAL:
        return PreferModel()
    provider, stroke, model = name.partition("/")
    if provider in providers:
        if stroke and not model:
            raise Invalid(f"/model {name} names no model of {provider}")
        return PreferModel(provider, model)
    return PreferModel("", name)


def preferring(options: MessageOptions, provider: str, model: str) -> MessageOptions:
    """What a message asks, in a chat that prefers that model: its own word comes before that of its chat."""
    if options.provider or options.model or not (provider or model):
        return options
    return MessageOptions(
        provider,
        model,
        options.temperature,
        options.top_p,
        options.top_k,
        options.max_tokens,
        options.output_schema,
    )


def shown_model(provider: str, model: str) -> str:
    """As a person names it."""
    return "/".join(filter(None, (provider, model))) or "the one that is configured"
