"""chain verify: is what is there what was written, all of it, and nothing else?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weftos.cli.ledger import chain
from weftos.cli.options import AsJson, Data
from weftos.cli.output import Output
from weftos.cli.vkeys import given_keys
from weftos.errors import WeftosError
from weftos.paths import data_directory

if TYPE_CHECKING:
    from chain.verify import Finding, Report

SHOWN = 200

Verify = Callable[[Callable[[int, int], None], list[bytes]], "Report"]


@chain.command("verify")
def verify(
    data: Data = None,
    tiles: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A published ledger alone: a copy of a node's ledger/.")
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A bundle, as chain export writes.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="VKEY",
            help="A verifier key you trust, from elsewhere, or a file of them; may be repeated.",
        ),
    ] = None,
    seen: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="NOTE", help="A head seen elsewhere, which the ledger must continue; may be repeated."
        ),
    ] = None,
    start: Annotated[
        int, typer.Option("--from", metavar="SEQ", min=0, help="Audit published entries from there on only.")
    ] = 0,
    deep: Annotated[
        bool, typer.Option("--deep", help="Check the signatures of every head in the journal.")
    ] = False,
    db: Annotated[
        bool, typer.Option("--db", help="Hold the archive's database against the ledger too.")
    ] = False,
    remember: Annotated[
        bool,
        typer.Option("--remember/--no-remember", help="Keep the newest head, to notice a rolled-back copy."),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Check every byte of the ledger's files; exits 1 when anything is wrong.

    Remembers the newest head of each ledger in your configuration directory: the next verification must continue it.
    """
    from weftos.known_heads import KnownHeads

    out = Output(as_json)
    if (tiles is not None) + (bundle is not None) + (data is not None) > 1 or (db and (tiles or bundle)):
        raise typer.BadParameter("give one of --data, --tiles and --bundle; --db goes with --data")
    known = KnownHeads()
    notes = [_note(path) for path in seen or []]
    with out.progress("verifying") as progress:
        report = _work(data, tiles, bundle, given_keys(key or []), start, deep)(progress, notes)
        before = known.note(report.origin) if remember else None
        if before is not None and not report.findings and before not in notes:
            report = _work(data, tiles, bundle, given_keys(key or []), start, deep)(
                progress, [*notes, before]
            )
        if db:
            report = _with_database(report, data_directory(data))
    newer = remember and not report.findings and known.remember(report.origin, report.note, report.vkeys)
    out.document({"ok": not report.findings, "remembered": newer, **_plain(asdict(report))})
    _tell(out, report, before, local=tiles is None and bundle is None)
    if report.findings:
        raise typer.Exit(1)


def _work(
    data: Path | None, tiles: Path | None, bundle: Path | None, keys: tuple[str, ...], start: int, deep: bool
) -> Verify:
    if bundle is not None:
        from chain.verify_bundle import verify_bundle

        file = _existing(bundle, "a bundle")
        return lambda progress, notes: verify_bundle(file, keys, progress, seen=notes)
    if tiles is not None:
        from chain.verify_tiles import verify_tiles

        folder = _existing(tiles, "a published ledger")
        return lambda progress, notes: verify_tiles(folder, keys, progress, seen=notes, start=start)
    from chain.verify import verify as verify_ledger

    place = data_directory(data)
    if not (place / "format").exists():
        raise WeftosError(f"{place} is not a data directory: give the node's with --data", "not_found")
    return lambda progress, notes: verify_ledger(place, keys, progress, seen=notes, start=start, deep=deep)


def _with_database(report: Report, data: Path) -> Report:
    """``report``, and what is wrong with the archive's database."""
    from dataclasses import replace

    from chain.archive_check import check_database
    from chain.errors import ChainError
    from chain.history import History
    from chain.keys import load_pairs

    path = data / "archive" / "audit.duckdb"
    if not path.exists():
        raise WeftosError(f"there is no {path}: the node makes it when it runs", "not_found")
    leaves = (record.leaf_hash for record in History(data).entries())
    try:
        found = check_database(path, load_pairs(data / "keys")[0], leaves)
    except ChainError as error:
        raise WeftosError(f"the database cannot be checked: {error}", "unavailable") from error
    return replace(report, findings=[*report.findings, *found])


def _existing(path: Path, what: str) -> Path:
    if not path.exists():
        raise WeftosError(f"there is no {path}: give {what}", "not_found")
    return path


def _note(path: Path) -> bytes:
    from chain.note import MAX_NOTE_BYTES

    data = _existing(path, "a signed note").read_bytes() if path.stat().st_size <= MAX_NOTE_BYTES else b""
    if not data:
        raise WeftosError(f"{path} is empty, or longer than a signed note can be", "invalid")
    return data


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _tell(out: Output, report: Report, known: bytes | None, *, local: bool) -> None:
    out.say(
        f"{report.entries} entries, {report.boots} boot{'s'[: report.boots != 1]}, root {report.root.hex()}"
    )
    out.say(
        f"{report.full_size} under both signatures (Ed25519 and ML-DSA-65), "
        f"{report.provisional} more under the first alone"
    )
    if report.rotations:
        out.say(f"keys changed {report.rotations} times, each signed by the old ones and the new ones")
    if report.erased:
        out.say(f"{report.erased} bodies were erased, as entries of the ledger say")
    if local:
        out.say(f"the node {'stopped cleanly' if report.closed else 'runs, or did not stop cleanly'}")
        out.say(
            "the node's own state (mail, sessions) lies beside the entries under checksums, not under signatures"
        )
    if report.torn_bytes:
        out.say(f"unacknowledged tail, {report.torn_bytes} bytes: the last write was cut off")
    if report.open_calls:
        out.say(f"calls without an outcome yet: {', '.join(str(seq) for seq in report.open_calls[:SHOWN])}")
    if report.pinned:
        out.say(f"signatures checked under the key you gave, of {report.origin}")
    else:
        out.say(
            f"no key was pinned: the key in the directory itself was used, fingerprint {report.origin}; "
            "compare it with one you have from elsewhere, or give --key"
        )
    if report.findings:
        out.say(f"NOT VERIFIED, findings: {len(report.findings)}")
        out.table(
            ("ENTRY", "FINDING", "WHERE", "EXPECTED", "FOUND"),
            (
                [_entry(item), item.kind, item.where, item.expected, item.found]
                for item in report.findings[:SHOWN]
            ),
        )
    else:
        out.say(_verdict(report, known))


def _verdict(report: Report, known: bytes | None) -> str:
    """What was shown, and what cannot be shown from the files alone."""
    if not report.entries:
        return "nothing to verify: the ledger is empty"
    last = report.entries - 1
    shown = f"verified: entries 0 to {last} are whole, in order and unchanged"
    if report.entries < report.size:
        shown = (
            f"verified: {report.entries} of {report.size} entries, each proved to be in the ledger, unchanged"
        )
    if not report.pinned and known is None:
        return f"{shown}, under a key that the directory brought along itself: whose it is, is not shown"
    if known is not None:
        return f"{shown}, and continue what you verified before"
    return (
        f"{shown}; whether more came after {last} only a head seen elsewhere can tell"
        if report.closed
        else shown
    )


def _entry(finding: Finding) -> int | None:
    return finding.seq if finding.seq >= 0 else None
