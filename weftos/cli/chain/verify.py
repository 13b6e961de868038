"""chain verify: is what is there what was written, all of it, and nothing else?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weftos.cli.chain.coverage import coverage
from weftos.cli.chain.ledger import chain
from weftos.cli.chain.vkeys import given_keys
from weftos.cli.terminal.options import AsJson, Data
from weftos.cli.terminal.output import Output
from weftos.errors import WeftosError
from weftos.named_file import read_named
from weftos.paths import data_directory, existing_data

if TYPE_CHECKING:
    from chain.audit.findings import Finding
    from chain.verify.verify import Report

SHOWN = 200
MAX_NAME_BYTES = 256

_COPIED = (
    "What is missing may be cut off. Or this is a copy, made while the node wrote, whose checkpoint was copied later "
    "than other files of the ledger: copy anew, and keep the checkpoint from before (docs/data-directory.md, Backup)."
)

Progress = Callable[[int, int], None]
Verify = Callable[[Progress, tuple[str, ...], list[bytes]], "Report"]


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
    out = Output(as_json)
    if (tiles is not None) + (bundle is not None) + (data is not None) > 1:
        raise typer.BadParameter("give one of --data, --tiles and --bundle")
    if (db or deep) and (tiles or bundle):
        raise typer.BadParameter("--db and --deep go with --data")
    if start and bundle:
        raise typer.BadParameter("--from goes with --data and --tiles")
    keys = given_keys(key or [])
    notes = [_note(path) for path in seen or []]
    ledger = _ledger(data, tiles, bundle, start, deep)
    known = _Known(remember, ledger)
    with out.progress("verifying") as progress:
        report = ledger.verify(progress, keys or known.keys, [*notes, *known.notes])
        if tiles is None and bundle is None:
            report = _with_state(report, data_directory(data))
        if db:
            report = _with_database(report, data_directory(data))
    newer = not report.begins and known.keep(report)
    out.document({"ok": not report.findings, "remembered": newer, **_plain(asdict(report))})
    _tell(out, report, keys, known, local=tiles is None and bundle is None)
    if report.findings:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Ledger:
    """What is to be verified. ``origin``: whose it claims to be; ``partial_size``: of a partial bundle's head;
    ``published_size``: of the checkpoint of a published ledger alone.
    """

    verify: Verify
    origin: str = ""
    partial_size: int | None = None
    published_size: int | None = None


class _Known:
    """What was verified of this ledger before, and what that can say of it now.

    ``notes``: the head that it must continue; ``keys``: the first ones it had. ``behind``: how many entries a data
    directory held under both signatures, when a published ledger may hold fewer: it follows about a second later.
    """

    def __init__(self, wanted: bool, ledger: _Ledger) -> None:
        from weftos.audit.known_heads import KnownHeads, size_of

        self._heads = KnownHeads()
        self._wanted = wanted
        origin = ledger.origin
        note, self.behind = self._heads.demanded(origin, ledger.published_size) if wanted else (None, 0)
        vkeys = self._heads.vkeys(origin) if note else None
        self.keys = tuple((vkeys or b"").decode(errors="replace").split()[:2])
        comparable = note is not None and ledger.partial_size in (None, size_of(note))
        self.notes = [note] if note is not None and comparable else []

    def keep(self, report: Report) -> bool:
        """Remember the newest head of a ledger that is as it must be; whether it is a newer one."""
        if not self._wanted or report.findings or report.partial:
            return False
        return self._heads.remember(report.origin, report.note, report.vkeys, report.published_note)


def _ledger(data: Path | None, tiles: Path | None, bundle: Path | None, start: int, deep: bool) -> _Ledger:
    if bundle is not None:
        return _bundle(_existing(bundle, "a bundle"))
    if tiles is not None:
        from chain.verify.verify_tiles import verify_tiles

        folder = _existing(tiles, "a published ledger")

        def verify_folder(progress: Progress, keys: tuple[str, ...], notes: list[bytes]) -> Report:
            return verify_tiles(folder, keys, progress, seen=notes, start=start)

        size = _size_in(folder / "checkpoint")
        return _Ledger(verify_folder, _name_in(folder / "vkeys"), published_size=size)
    from chain.verify.verify import verify as verify_ledger

    place = existing_data(data_directory(data))

    def verify_data(progress: Progress, keys: tuple[str, ...], notes: list[bytes]) -> Report:
        return verify_ledger(place, keys, progress, seen=notes, start=start, deep=deep)

    return _Ledger(verify_data, _name_in(place / "keys" / "vkeys.txt"))


def _bundle(file: Path) -> _Ledger:
    from chain.errors import BundleError
    from chain.tiles.bundle import BundleReader
    from chain.verify.verify_bundle import verify_bundle

    def verify_file(progress: Progress, keys: tuple[str, ...], notes: list[bytes]) -> Report:
        return verify_bundle(file, keys, progress, seen=notes)

    try:
        reader = BundleReader(file)
    except BundleError:
        return _Ledger(verify_file)  # which says what is wrong with it
    reader.close()
    head = reader.head
    return _Ledger(verify_file, head.origin, None if head.whole else head.size)


def _name_in(vkeys: Path) -> str:
    """The name in the first line of a file of verifier keys, empty when it cannot be read."""
    try:
        return read_named(vkeys, MAX_NAME_BYTES).decode("ascii", "replace").partition("+")[0]
    except OSError:
        return ""


def _size_in(checkpoint: Path) -> int:
    """How many entries a checkpoint covers, -1 when it cannot be read."""
    from chain.notes.note import MAX_NOTE_BYTES
    from weftos.audit.known_heads import size_of

    try:
        return size_of(read_named(checkpoint, MAX_NOTE_BYTES))
    except OSError:
        return -1


def _with_state(report: Report, data: Path) -> Report:
    """``report``, and where the node's state says otherwise than the entries that made it."""
    from chain.audit.findings import Finding
    from weftos.node.state_check import compare_state

    if report.findings:
        return report
    found, uncompared = compare_state(data)
    said = [Finding(-1, "state", "the node's state", "what its entries say", what) for what in found]
    return replace(report, uncompared=uncompared, findings=[*report.findings, *said])


def _with_database(report: Report, data: Path) -> Report:
    """``report``, and what is wrong with the archive's database."""
    from chain.archive.check import check_database
    from chain.audit.findings import Finding
    from chain.errors import ChainError
    from chain.keys.keys import load_pairs
    from chain.state.history import History

    path = data / "archive" / "audit.duckdb"
    if not path.exists():
        raise WeftosError(f"there is no {path}: the node makes it when it runs", "not_found")
    if report.findings:
        unread = Finding(-1, "database", path.name, "a ledger to hold it against", "one with findings")
        return replace(report, findings=[*report.findings, unread])
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
    from chain.notes.note import MAX_NOTE_BYTES

    data = read_named(_existing(path, "a signed note"), MAX_NOTE_BYTES + 1)
    if not 0 < len(data) <= MAX_NOTE_BYTES:
        raise WeftosError(f"{path} is empty, or longer than a signed note can be", "invalid")
    return data


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _tell(out: Output, report: Report, keys: tuple[str, ...], known: _Known, *, local: bool) -> None:
    out.say(
        f"{report.entries} entries, {report.boots} boot{'s'[: report.boots != 1]}, root {report.root.hex()}"
    )
    out.say(
        f"{report.full_size} under both signatures (Ed25519 and ML-DSA-65), "
        f"{report.provisional} more under the first alone"
    )
    if report.rotations:
        out.say(f"changes of keys: {report.rotations}, each signed by the old ones and the new ones")
    if report.erased:
        out.say(f"erased bodies: {report.erased}, as entries of the ledger say")
    if local:
        out.say(f"the node {'stopped cleanly' if report.closed else 'runs, or did not stop cleanly'}")
    if report.torn_bytes:
        out.say(f"unacknowledged tail, {report.torn_bytes} bytes: the last write was cut off")
    if report.open_calls:
        out.say(f"calls without an outcome yet: {', '.join(str(seq) for seq in report.open_calls[:SHOWN])}")
    out.say(_under(report, keys))
    for seq in report.accepted:
        out.say(
            f"entry {seq}: a person took over state that the keys had not signed (weftos chain show {seq})"
        )
    for seq, what in report.configured:
        out.say(
            f"entry {seq}: at this boot there was another {what.replace(', ', ' and ')} than at the one before"
        )
    if report.uncompared:
        out.say(f"the node's state was not held against its entries: {report.uncompared}")
    rows = [[row.what, row.by or "-", row.why or "-"] for row in coverage(report, local=local)]
    out.table(("WHAT", "COVERED BY", "NOT COVERED, BECAUSE"), rows, keys=0)
    if report.findings:
        out.say(f"NOT VERIFIED, findings: {len(report.findings) + report.left_out}")
        out.table(
            ("ENTRY", "FINDING", "WHERE", "EXPECTED", "FOUND"),
            (
                [_entry(item), item.kind, item.where, item.expected, item.found]
                for item in report.findings[:SHOWN]
            ),
        )
        if any(item.kind == "truncated" or item.found.endswith("is missing") for item in report.findings):
            out.say(_COPIED)
    else:
        out.say(_verdict(report, known))


def _under(report: Report, keys: tuple[str, ...]) -> str:
    """Whose keys the signatures were checked under."""
    if not report.pinned:
        return (
            f"no key was pinned: the key in the directory itself was used, fingerprint {report.origin}; "
            "compare it with one you have from elsewhere, or give --key"
        )
    if not keys:
        return f"signatures checked under the keys of what you verified before of {report.origin}"
    if len(keys) == 1:
        return (
            f"signatures checked under the key you gave, of {report.origin}; the other one is the ledger's own: "
            "give both, so that a forger would have to break both"
        )
    return f"signatures checked under the key you gave, of {report.origin}"


def _verdict(report: Report, known: _Known) -> str:
    """What was shown, and what cannot be shown from the files alone."""
    if report.partial:
        shown = (
            f"verified: {report.entries} of {report.size} entries, each proved to be in the ledger, unchanged"
        )
    elif not report.entries:
        return "nothing to verify: the ledger is empty"
    else:
        shown = f"verified: entries {report.begins} to {report.entries - 1} are whole, in order and unchanged"
    if report.begins:
        shown += (
            "; those before were not read (their hashes lead to the same root), nor changes of keys followed"
        )
    if not report.pinned:
        return f"{shown}, under a key that the directory brought along itself: whose it is, is not shown"
    if known.behind > report.entries:
        return (
            f"{shown}, and continue what you saw published before; the data directory held {known.behind} by then, "
            "and a node publishes them about a second after it has signed them"
        )
    if known.notes:
        return f"{shown}, and continue what you verified before"
    if report.closed:
        last = report.entries - 1
        return f"{shown}; whether more came after {last} only a head seen elsewhere can tell"
    return shown


def _entry(finding: Finding) -> int | None:
    return finding.seq if finding.seq >= 0 else None
