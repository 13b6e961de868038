"""Commands for proofs that travel: chain receipt, chain check, chain prove."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weftos.cli.chain.ledger import Seq, chain
from weftos.cli.chain.vkeys import given_keys
from weftos.cli.terminal.options import AsJson, Data
from weftos.cli.terminal.output import Output, moment
from weftos.errors import WeftosError
from weftos.json_object import Json
from weftos.named_file import read_named
from weftos.paths import data_directory

if TYPE_CHECKING:
    from chain.proofs.tlog_proof import Proven
    from weftos.audit.tree import LedgerTree

CONSISTENCY_FORMAT = 1

Force = Annotated[bool, typer.Option("--force", help="Replace a file of that name.")]


@chain.command("receipt")
def receipt(
    seq: Seq,
    file: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write it.")],
    with_body: Annotated[
        bool, typer.Option("--with-body", help="With what the entry says, not only that it is there.")
    ] = False,
    force: Force = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Write a file that proves one entry to whoever has the node's keys, offline (C2SP tlog-proof)."""
    from chain.merkle.tree import inclusion_path
    from chain.proofs.tlog_proof import TlogProof
    from weftos.audit.auditor import Auditor
    from weftos.audit.tree import LedgerTree
    from weftos.cli.terminal.new_file import new_file

    out = Output(as_json)
    with out.progress("reading the ledger") as progress:
        auditor = Auditor(data_directory(data), progress)
        record = auditor.entry(seq)
        if with_body and record.erased:
            raise WeftosError(f"the body of entry {seq} was erased: leave out --with-body", "not_found")
        tree = LedgerTree(auditor)
        signed = tree.head_over(seq)
        path = inclusion_path(tree.node, seq, signed.head.size)
    body = (record.salt, record.body_bytes) if with_body else (None, None)
    proof = TlogProof(record.leaf, seq, tuple(path), signed.note, *body)
    proof.check(tree.keys)
    encoded = proof.encode()
    with new_file(file, force=force) as target:
        target.write(encoded)
    out.document(
        {
            "file": str(file),
            "seq": seq,
            "size": signed.head.size,
            "origin": signed.head.origin,
            "bytes": len(encoded),
            "with_body": with_body,
        }
    )
    out.line(f"{file} proves entry {seq} in the ledger of {signed.head.size} of {signed.head.origin}")


@chain.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that chain receipt wrote.")],
    key: Annotated[
        list[str],
        typer.Option(
            "--key",
            metavar="VKEY",
            help="The node's verifier keys, both, from elsewhere; or a file of them. May be repeated.",
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Check a receipt file under keys that you hold, and show what it proves; exits 1 when it proves nothing.

    Needs neither the node nor its ledger. Both signatures must be there, by keys that were given.
    """
    from chain.errors import ChainError
    from chain.notes.note import VerifierKey
    from chain.proofs.tlog_proof import MAX_FILE_BYTES, TlogProof

    out = Output(as_json)
    keys = [VerifierKey.parse(text) for text in given_keys(key)]
    content = read_named(file, MAX_FILE_BYTES + 1)
    try:
        proven = TlogProof.decode(content).check(keys)
    except ChainError as error:
        out.document({"ok": False, "why": str(error)})
        out.line(f"NOT PROVEN: {error}")
        raise typer.Exit(1) from error
    _tell(out, proven)


def _tell(out: Output, proven: Proven) -> None:
    from weftos.audit.auditor import plain

    entry, head = proven.entry, proven.head
    found: Json = {
        "seq": entry.seq,
        "time_us": entry.time_us,
        "node": entry.node,
        "pid": entry.pid,
        "count": entry.count,
        "kind": entry.kind,
        "subject": entry.subject,
        "trace": entry.trace.hex(),
        "cause": entry.cause,
        "commitment": entry.commitment.hex(),
        "previous": entry.previous.hex(),
    }
    body = plain(proven.body)
    signed = {"origin": head.origin, "size": head.size, "root": head.root.hex()}
    out.document({"ok": True, **found, "body": body, "head": signed})
    found["time"] = moment(found.pop("time_us"))
    said = body.items() if isinstance(body, dict) else ()
    out.table(("FIELD", "VALUE"), [*found.items(), *((f"body.{name}", value) for name, value in said)])
    out.say(
        f"proven: entry {entry.seq} is in the ledger of {head.size} entries of {head.origin}, "
        "signed with both its keys"
    )
    if proven.body is None:
        out.say("its body is not in the file: what it says is not shown, only that it is there")


@chain.command("prove")
def prove(
    size1: Annotated[int, typer.Argument(metavar="A", min=0, help="Size of the older tree, in entries.")],
    size2: Annotated[int, typer.Argument(metavar="B", min=0, help="Size of the newer tree.")],
    file: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write it there, as JSON.")
    ] = None,
    force: Force = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Prove that the ledger of A entries is the beginning of that of B: nothing was changed in between."""
    from weftos.audit.auditor import Auditor
    from weftos.audit.tree import LedgerTree
    from weftos.cli.terminal.new_file import new_file

    out = Output(as_json)
    with out.progress("reading the ledger") as progress:
        auditor = Auditor(data_directory(data), progress)
        if not size1 <= size2 <= auditor.size:
            raise WeftosError(
                f"the ledger holds {auditor.size} entries: A must not be above B, nor B above that", "invalid"
            )
        found = consistency(LedgerTree(auditor), size1, size2)
    if file is not None:
        with new_file(file, force=force) as target:
            target.write(json.dumps(found, indent=2).encode() + b"\n")
    out.document(found)
    out.line(f"the first {size1} entries of {found['origin']} are the first {size1} of its {size2}")
    out.table(
        ("SIZE", "ROOT", "SIGNED"),
        [
            (size1, found["root1"], "both keys" if found["head1"] else "no head of this size is kept"),
            (size2, found["root2"], "both keys" if found["head2"] else "no head of this size is kept"),
        ],
    )
    out.table(("PROOF",), [[item] for item in found["proof"]])


def consistency(tree: LedgerTree, size1: int, size2: int) -> Json:
    """The proof as JSON, checked; with the full heads of both sizes where they are kept."""
    from chain.merkle.proof import verify_consistency
    from chain.merkle.tree import consistency_path

    heads = tree.heads_of({size1, size2})
    root1, root2 = tree.root(size1), tree.root(size2)
    proof = consistency_path(tree.node, size1, size2)
    verify_consistency(size1=size1, size2=size2, root1=root1, root2=root2, proof=proof)
    for size, root in ((size1, root1), (size2, root2)):
        if size in heads and heads[size].head.root != root:
            raise WeftosError(
                f"the head of {size} entries says root {heads[size].head.root.hex()}, the entries give {root.hex()}: "
                "see weftos chain verify"
            )
    notes = [heads[size].note.decode() if size in heads else None for size in (size1, size2)]
    return {
        "format": CONSISTENCY_FORMAT,
        "origin": tree.pairs[0].ed25519.name,
        "size1": size1,
        "root1": _text(root1),
        "size2": size2,
        "root2": _text(root2),
        "proof": [_text(item) for item in proof],
        "head1": notes[0],
        "head2": notes[1],
    }


def _text(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
