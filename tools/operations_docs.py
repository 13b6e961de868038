"""Writes docs/openapi.json and docs/operations.md from the table of operations: ``python -m tools.operations_docs``; a
test tells when they are stale.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args

from kernel.operations.operation import AnyRow, Noun
from kernel.operations.table import NOUNS
from weftos.api.openapi import document
from weftos.client.client import Client

DOCS = Path(__file__).parent.parent / "docs"

INTRODUCTION = """\
# Operations of the node

Made from the table of operations by `python -m tools.operations_docs`; do not edit by hand.

Each is a method of `weftos.Client`, and a request of the control API: HTTP on the Unix socket `control.sock` in the
node's runtime directory, for the node's user alone. [openapi.json](openapi.json), which a node serves at
`/openapi.json`, has every field of every answer. Every error is `{"error": {"code", "message"}}`, with `retry_after_s`
where it is known when the same may go well; the client raises it
as `WeftosError`. What streams is one JSON object a line. *Recorded as*: the `operation` of the `operator.command` that
the ledger has of it, written before it is done.
"""


def openapi() -> str:
    """The OpenAPI document."""
    return json.dumps(document(), indent=1) + "\n"


def page() -> str:
    """The page for people."""
    return INTRODUCTION + "".join(map(_section, NOUNS))


def _section(noun: type[Noun]) -> str:
    on_client = "node." if issubclass(Client, noun) else f"node.{noun.__name__.lower()}."
    rows = "".join(_row(row, on_client) for row in noun.rows())
    head = "| method | request | answer | recorded as | |\n|---|---|---|---|---|\n"
    return f"\n## {noun.__name__}\n\n{' '.join((noun.__doc__ or '').split())}\n\n{head}{rows}"


def _row(row: AnyRow, on_client: str) -> str:
    verb = row.name.partition(".")[2]
    method = f"`{on_client}{verb}({', '.join(_parameters(row))})`"
    path = f"`{row.method} /v1{row.at(lambda name: f'{{{name}}}')}`"
    answer = f"`{_name(row.answer)}`" + (", streamed" if row.streams else "")
    return f"| {method} | {path} | {answer} | {row.recorded} | {row.says} |\n"


def _parameters(row: AnyRow) -> list[str]:
    known: Any = fields(row.request)  # type: ignore[arg-type]  # every request is a dataclass
    return [field.name if field.default is MISSING else f"{field.name}={field.default!r}" for field in known]


def _name(kind: Any) -> str:
    inner = get_args(kind)
    return f"{_name(inner[0])}[]" if len(inner) == 1 else "object" if inner else kind.__name__


def main() -> None:
    """Write both."""
    (DOCS / "openapi.json").write_text(openapi())
    (DOCS / "operations.md").write_text(page())


if __name__ == "__main__":
    main()
