"""weftos chain rotate: other keys for the node, which keeps its name and its ledger."""

from __future__ import annotations

from typing import Annotated

import typer

from weftos.cli.chain.ledger import chain
from weftos.cli.terminal.options import AsJson, Data, client
from weftos.cli.terminal.output import Output


@chain.command("rotate")
def rotate(
    reason: Annotated[str, typer.Option(metavar="R", help="Why: one line, kept in the ledger for good.")],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Change both signing keys of the running node. Its true name stays; the old secret keys are destroyed.

    Who keeps the node's verifier keys elsewhere needs nothing new: the ledger leads from them to these.
    """
    out = Output(as_json)
    with client(data) as node:
        answer = node.keys.rotate(reason)
    out.document(answer)
    out.say(f"change {answer['number']} of the keys of {answer['origin']}, entry {answer['seq']}")
    out.line(answer["ed25519"])
    out.line(answer["ml_dsa_65"])
