"""Writes docs/cli.md from the command line itself: ``python -m tools.cli_docs``; a test tells when it is stale."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from weftos.cli.app import app

TARGET = Path(__file__).parent.parent / "docs" / "cli.md"

INTRODUCTION = """\
# Command line

Made from the program by `python -m tools.cli_docs`; do not edit by hand.

Every command takes `--json`, which prints one JSON document on stdout (with `-f`, and for `chat`, one a
line), and all but `config validate` take `--data DIR`, the node's data directory (else `WEFTOS_DATA`, else
`$XDG_DATA_HOME/weftos`, else `~/.local/share/weftos`). Errors go to stderr. Exit status: 0 success, 1 a
negative answer (no such PID, refused, name taken, verification failed), 2 wrong use. Where a command takes a
PID it takes an address or a name too. Of several processes of a name a child of `/user` is meant, then one
that no agent is above; `inspect` and `logs`, which only look, also take the beginning of a name.

Text that is not weftos's own (a model's, a tool's) is shown with its control, bidirectional and invisible characters
as escapes (`\\x1b`); a terminal has nothing to obey in it.

A table in a pipe or file has a line for each row, however long (if `COLUMNS` is exported, it is as wide as that says).
On a terminal the columns that identify a row keep their width, the others are wrapped, and where that does not fit each
field has a line of its own. What is longer than the screen goes through `$PAGER`, else `less` (an empty `PAGER`: none).
"""


def document() -> str:
    """The whole page."""
    return INTRODUCTION + "".join(_sections(get_command(app), "weftos"))


def _sections(command: Any, path: str) -> Iterator[str]:
    commands = getattr(command, "commands", None)
    if commands is None:
        yield _section(command, path)
        return
    if path != "weftos":
        yield f"\n## {path}\n\n{inspect.cleandoc(command.help or '')}\n"
    for name, inner in commands.items():
        yield from _sections(inner, f"{path} {name}")


def _section(command: Any, path: str) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [
        p for p in command.params if p.param_type_name == "option" and p.name not in ("data", "as_json")
    ]
    usage = " ".join([path, *(_argument(p) for p in arguments), *(["[OPTIONS]"] if options else [])])
    rows = [(f"`{_argument(p)}`", p.help) for p in arguments]
    rows += [(f"`{', '.join(p.opts)}{_value(p)}`", _told(p)) for p in options]
    table = "".join(f"| {_cell(left)} | {_cell(right)} |\n" for left, right in rows)
    level = "##" if path.count(" ") == 1 else "###"
    text = f"\n{level} {path}\n\n    {usage}\n\n{inspect.cleandoc(command.help or '')}\n"
    return text + (f"\n| | |\n|---|---|\n{table}" if rows else "")


def _argument(parameter: Any) -> str:
    name = str(parameter.metavar or parameter.name.upper())
    return name if parameter.required else f"[{name}]"


def _value(parameter: Any) -> str:
    if parameter.is_flag:
        return ""
    choices = parameter.type_descriptor.choices
    return " " + (
        "|".join(str(choice) for choice in choices) if choices else str(parameter.metavar or "VALUE")
    )


def _told(parameter: Any) -> str:
    default = parameter.default
    shown = (
        f" Default: {default}."
        if isinstance(default, str | int | float) and default and default is not True
        else ""
    )
    return (parameter.help or "") + shown


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    TARGET.write_text(document())
