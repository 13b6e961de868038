"""The hostile peer against the node's real listener, over real ZeroMQ; and that it would notice an open door."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from tests.mesh.hostile_peer import GOT_IN, REFUSED, WELCOME, Row, attack, own_listener, show, verdict_of
from tests.mesh.twins.hostile_attempts import ATTEMPTS


@pytest.mark.slow
def test_every_attempt_is_refused_and_honest_peers_are_not(tmp_path: Path) -> None:
    with own_listener(tmp_path) as (target, account):
        rows = [*attack(target), verdict_of(account())]
    console = Console(width=140)
    assert show(rows, console)
    assert [row.verdict for row in rows].count(REFUSED) == len(ATTEMPTS) + 1
    assert [row.verdict for row in rows].count(WELCOME) == 3
    assert len(ATTEMPTS) >= 58


def test_a_listener_as_strict_as_a_real_node_is_not_misjudged(tmp_path: Path) -> None:
    attempts = [
        attempt
        for attempt in ATTEMPTS
        if "routing id" in attempt.name or "another connection" in attempt.name
    ]
    with own_listener(tmp_path, "--real") as (target, _):
        rows = list(attack(target, attempts))
    assert [row.verdict for row in rows] == [WELCOME, REFUSED, REFUSED, WELCOME, WELCOME], rows


def test_a_listener_that_lets_in_everybody_is_noticed(tmp_path: Path) -> None:
    with own_listener(tmp_path, "--open") as (target, account):
        one = ATTEMPTS[0]
        rows = [row for row in attack(target, (one,)) if row.name == one.name]
        rows.append(verdict_of(account()))
    assert [row.verdict for row in rows] == [GOT_IN, GOT_IN]
    assert rows[0].what == "welcomed" and "1 hostile messages delivered" in rows[1].what
    assert not show(rows, Console(width=140))


def test_an_honest_peer_kept_out_counts_as_failure_and_foreign_words_are_not_obeyed() -> None:
    console = Console(width=140, record=True)
    assert not show([Row("honest", "a friend", "KEPT OUT", "refused: \x1b[2J[red]")], console)
    assert "\\x1b[2J[red]" in console.export_text()
