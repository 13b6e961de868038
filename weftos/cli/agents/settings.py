"""What a behaviour is told at a spawn, as options KEY=VALUE say it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from weftos.safe_text import safe_text

OPTION = "'--set'"
MOST_DEEP = 8


def read_config(words: Sequence[str] | None, option: str = OPTION) -> dict[str, Any] | None:
    """A table of what is said, each dotted key a value as in TOML, or text where it is none. Raises BadParameter."""
    if not words:
        return None
    told: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        parts = key.split(".")
        if not equals or not all(parts) or len(parts) > MOST_DEEP:
            raise typer.BadParameter(
                f"{word[:80]!r} is not KEY=VALUE, such as temperature=0.2", param_hint=option
            )
        table = told
        for part in parts[:-1]:
            table = table.setdefault(part, {})
            if not isinstance(table, dict):
                raise typer.BadParameter(f"{key[:80]} is below what has a value already", param_hint=option)
        if parts[-1] in table:
            raise typer.BadParameter(f"{key[:80]} is given twice", param_hint=option)
        table[parts[-1]] = _value(value)
    return told


def check_agent(told: Mapping[str, Any] | None) -> None:
    """What an agent is told, before the node is asked. Raises BadParameter with all that is wrong."""
    if not told:
        return
    from cognition.config.agent_config import AgentConfig
    from cognition.config.check import faults_of

    if faults := [safe_text(str(fault)) for fault in faults_of(AgentConfig, told)]:
        raise typer.BadParameter("; ".join(faults), param_hint=OPTION)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
