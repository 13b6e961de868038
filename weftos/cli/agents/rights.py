"""What a process may do: as it is said when it is spawned, and why policy decides as it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from kernel.operations.rights.capabilities import Capabilities, read_capabilities
from weftos.cli.terminal.options import AsJson, Command, Data, Looked, client, group
from weftos.cli.terminal.output import Output

policy = group("What processes may do, and why not.")

_TRUTHS = {"yes": True, "no": False}


def _truth(text: str) -> bool:
    if text not in _TRUTHS:
        raise ValueError(f"{text!r} is neither yes nor no")
    return _TRUTHS[text]


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


_READERS: Mapping[str, Callable[[str], Any]] = {
    "deny": _names,
    "messages": str,
    "listed": _names,
    "spawn": _truth,
    "topics": _names,
    "memory": _names,
    "paths": _names,
    "network": _names,
    "behaviours": _names,
    "dedicated": _truth,
}


def read_words(words: Sequence[str] | None) -> Capabilities | None:
    """The capabilities in options NAME=VALUE. Raises BadParameter."""
    if not words:
        return None
    said: dict[str, Any] = {}
    try:
        for word in words:
            name, equals, value = word.partition("=")
            if not equals or name not in _READERS:
                raise ValueError(f"{word[:80]!r} is not NAME=VALUE with one of {', '.join(_READERS)}")
            if name in said:
                raise ValueError(f"{name} is given twice: give all of it in one, separated by commas")
            said[name] = _READERS[name](value)
        return read_capabilities(said)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="'--capability'") from None


AsUser = Annotated[
    str,
    typer.Option(
        "--as", metavar="CHANNEL:USER", help="As it is for a user of a channel, such as telegram:12345."
    ),
]


def tools(target: Looked, user: AsUser = "", data: Data = None, as_json: AsJson = False) -> None:
    """Show every tool of the node: whether a process may use it, and if not, why."""
    out = Output(as_json)
    with client(data) as node:
        found = node.policy.tools(target, user=user)
    out.document(found)
    may = sum(row["decision"] == "allow" for row in found["tools"])
    out.say(f"{found['address']} may use {may} of {len(found['tools'])} tools")
    rows = (
        [row["tool"], row["effects"], row["decision"], ", ".join(row["rules"]), row["why"]]
        for row in found["tools"]
    )
    out.table(("TOOL", "EFFECTS", "DECISION", "RULES", "WHY"), rows, keys=1)


COMMANDS: tuple[Command, ...] = (tools,)


@policy.command("explain")
def explain(
    target: Looked,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="Name of a tool.")],
    user: AsUser = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show which rules allow a process a tool, or deny it, in a turn that a person asked for."""
    out = Output(as_json)
    with client(data) as node:
        found = node.policy.explain(target, tool=tool, user=user)
    out.document(found)
    out.say(f"{found['address']}, {found['tool']}: {found['decision']}")
    rows = ([rule["rule"], rule["decision"], "; ".join(rule["reasons"])] for rule in found["rules"])
    out.table(("RULE", "DECISION", "WHY"), rows, keys=1)
