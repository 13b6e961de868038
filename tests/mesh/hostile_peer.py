"""A hostile peer: dials a listening node over real ZeroMQ and tries everything it can think of.

    python -m tests.mesh.hostile_peer                            against a listener that it starts itself
    python -m tests.mesh.hostile_peer --address A --origin O [--friend KEYS] [--tokens FILE]
                                                                 against that node

``--friend`` is a directory of keys (with ``noise.key``) whose origin is in that node's allow list: with it come the
attempts of a peer gone bad, and the proof that an honest one is let in. ``--tokens`` is a JSON object of join tokens'
texts by state (open, expired, used, revoked); the open one is used up at the end.

Prints every attempt with what became of it. Exit 1 when one got in, or when an honest peer did not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from chain.keys.keys import create_keys, load_keys
from mesh.errors import MeshError
from mesh.identity.identity import Identity, NoiseKey
from mesh.identity.peers import Peer, PeerStore
from mesh.identity.tokens import JoinToken, TokenStore
from tests.mesh.twins.hostile_attempts import ATTEMPTS, MARK, Attempt, friend_gets_in, open_token_gets_in
from tests.mesh.twins.hostile_line import GotIn, KeptOut, Target
from tests.patience import HANG_S
from tests.places import ROOT
from weftos.safe_text import safe_markup

REFUSED, GOT_IN, WELCOME, KEPT_OUT, SKIPPED = "refused", "GOT IN", "welcome", "KEPT OUT", "not tried"
MOST_MIB = 400
"""More memory than this, and a flood has got in: a node that listens has about 40 MiB, a peer's share is 48."""
_COLOURS = {REFUSED: "green", WELCOME: "green", GOT_IN: "bold red", KEPT_OUT: "bold red", SKIPPED: "yellow"}


@dataclass(frozen=True)
class Row:
    group: str
    name: str
    verdict: str
    what: str
    took_s: float = 0.0


def attack(target: Target, attempts: Sequence[Attempt] = ATTEMPTS) -> Iterator[Row]:
    """Every attempt on ``target``, between two looks whether honest peers get in."""
    if target.friend is not None:
        yield _tried("honest", "a friend, before", friend_gets_in, target, WELCOME)
    for attempt in attempts:
        if attempt.needs and not (
            target.friend if attempt.needs == "friend" else attempt.needs in target.tokens
        ):
            yield Row(attempt.group, attempt.name, SKIPPED, f"needs {attempt.needs}")
        else:
            yield _tried(attempt.group, attempt.name, attempt.run, target, REFUSED)
    if target.friend is not None:
        yield _tried("honest", "a friend, after all this", friend_gets_in, target, WELCOME)
    if "open" in target.tokens:
        yield _tried("honest", "the holder of the open token", open_token_gets_in, target, WELCOME)


def _tried(group: str, name: str, run: Callable[[Target], str], target: Target, good: str) -> Row:
    began_s = time.monotonic()
    try:
        what, verdict = run(target), good
        if good == WELCOME and what != "welcomed":
            verdict = KEPT_OUT
    except GotIn as got_in:
        what, verdict = str(got_in), GOT_IN
    except (KeptOut, MeshError, OSError) as error:
        what, verdict = f"{type(error).__name__}: {error}", KEPT_OUT
    return Row(group, name, verdict, what, time.monotonic() - began_s)


@contextmanager
def own_listener(directory: Path, *options: str) -> Iterator[tuple[Target, Callable[[], dict[str, Any]]]]:
    """A listener in a process of its own (``options``: of ``guarded_node``), and what ends it and gives its account."""
    node, friend = directory / "node", directory / "friend"
    for path in (node, friend):
        path.mkdir()
        create_keys(path / "keys")
    keys, ally = load_keys(node / "keys"), _identity(friend / "keys")
    PeerStore(node / "mesh").add(Peer("friend", ally.origin))
    tokens = _tokens(TokenStore(node / "mesh", keys.origin), ally.origin)
    words = [sys.executable, "-m", "tests.mesh.twins.guarded_node", str(node), *options]
    with subprocess.Popen(
        words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            where = json.loads(process.stdout.readline())

            def account() -> dict[str, Any]:
                said, _ = process.communicate("", timeout=HANG_S)
                found: dict[str, Any] = json.loads(said)
                return found

            yield Target(where["address"], where["origin"], ally, tokens, patience_s=HANG_S), account
        finally:
            process.kill()


def _tokens(store: TokenStore, user: str) -> dict[str, JoinToken]:
    """One token of each state."""
    now_us = time.time_ns() // 1000
    tokens = {state: store.create(now_us, 3600) for state in ("open", "used", "revoked")}
    tokens["expired"] = store.create(now_us - 7_200_000_000, 3600)
    store.redeem(tokens["used"].claim(bytes(32), user), bytes(32), user, now_us)
    store.revoke(tokens["revoked"].id, now_us)
    return tokens


def _identity(keys: Path) -> Identity:
    return Identity(load_keys(keys), NoiseKey.create_or_load(keys), "friend", "0" * 16)


def verdict_of(account: dict[str, Any]) -> Row:
    """What the listener itself says got through, and what it cost it."""
    through = [text for text in account["delivered"] if MARK in text]
    what = (
        f"{len(through)} hostile messages delivered, {len(account['refused'])} refusals noted, "
        f"{account['most_mib']} MiB of memory at most (limit {MOST_MIB})"
    )
    bad = through or account["most_mib"] > MOST_MIB
    return Row("listener", "its own account", GOT_IN if bad else REFUSED, what)


def show(rows: list[Row], console: Console) -> bool:
    """Print the table; whether all is well."""
    table = Table(title="hostile peer")
    for column in ("", "attempt", "verdict", "what happened", "s"):
        table.add_column(column, overflow="fold")
    group = ""
    for row in rows:
        colour = _COLOURS[row.verdict]
        shown = row.group if row.group != group else ""
        verdict = f"[{colour}]{row.verdict}[/{colour}]"
        table.add_row(shown, row.name, verdict, safe_markup(row.what), f"{row.took_s:.1f}")
        group = row.group
    console.print(table)
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in _COLOURS}
    console.print(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    return not counts[GOT_IN] and not counts[KEPT_OUT]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--address", help="tcp://HOST:PORT of the node to attack")
    parser.add_argument("--origin", default="", help="its origin (weftos-...)")
    parser.add_argument("--friend", type=Path, help="keys directory of a node in its allow list")
    parser.add_argument("--tokens", type=Path, help="JSON object of join tokens by state")
    options = parser.parse_args()
    console = Console()
    if options.address:
        texts = json.loads(options.tokens.read_text()) if options.tokens else {}
        tokens = {state: JoinToken.parse(text) for state, text in texts.items()}
        friend = _identity(options.friend) if options.friend else None
        return (
            0 if show(list(attack(Target(options.address, options.origin, friend, tokens))), console) else 1
        )
    with tempfile.TemporaryDirectory() as directory, own_listener(Path(directory)) as (target, account):
        rows = list(attack(target))
        rows.append(verdict_of(account()))
    return 0 if show(rows, console) else 1


if __name__ == "__main__":
    sys.exit(main())
