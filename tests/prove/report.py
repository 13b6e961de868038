"""What the proofs print: checks with what was found against them, figures, tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from chain.verify.verify import verify
from tests.prove.house import House, ProofError
from tests.prove.victims import KINDS, TITLES

if TYPE_CHECKING:
    from tests.prove.kills import Campaign

SHOWN = 8


@dataclass(slots=True)
class Findings:
    """The checks that were made, and for each what spoke against it."""

    checks: list[tuple[str, list[str]]] = field(default_factory=list)
    figures: list[tuple[str, str]] = field(default_factory=list)

    def check(self, what: str, against: Iterable[str]) -> None:
        self.checks.append((what, list(against)))

    def figure(self, what: str, value: object) -> None:
        self.figures.append((what, str(value)))

    @property
    def bad(self) -> bool:
        return any(against for _, against in self.checks)

    def print(self, console: Console) -> None:
        for what, value in self.figures:
            console.print(f"  {what}: {value}", highlight=False, markup=False)
        for what, against in self.checks:
            style = "red" if against else "green"
            console.print(
                f"{'FAIL' if against else ' ok '} {what}", style=style, highlight=False, markup=False
            )
            for line in against[:SHOWN]:
                console.print(f"       {line[:400]}", highlight=False, markup=False)
            if len(against) > SHOWN:
                console.print(f"       and {len(against) - SHOWN} more")


def check_ledger(house: House, findings: Findings) -> None:
    """Verify the ledger of a stopped node, by the library and by the command line."""
    report = verify(house.node)
    findings.figure("ledger", f"{report.entries} entries, {report.boots} boots")
    findings.check("the ledger verifies (library)", [str(finding) for finding in report.findings])
    findings.check("the ledger ends with a clean stop", [] if report.closed else ["it does not"])
    findings.check("no intent is left open", [f"seq {seq}" for seq in report.open_calls])
    try:
        house.cli("chain", "verify", "--data", str(house.node))
        said: list[str] = []
    except ProofError as error:
        said = [str(error)]
    findings.check("the ledger verifies (weftos chain verify)", said)


COLUMNS = ("in_flight", "doubts", "resumed", "doubled", "missing")
CAPTION = """s: from the kill until every agent and helper runs again
open: calls with effects outside that were in flight at the kill
doubt: of these, not known to be done until the harness resolved them
turns: messages whose turn was resumed"""


def print_kills(console: Console, campaign: Campaign) -> None:
    """The table, a row per kind of kill, and the checks."""
    title = f"{len(campaign.incidents)} kills under load"
    table = Table(title=title, caption=CAPTION, caption_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0))
    table.add_column("killed", no_wrap=True)
    for column in ("kills", "min s", "med s", "max s", "open", "doubt", "turns", "doubled", "missing"):
        table.add_column(column, justify="right", no_wrap=True)
    for kind in KINDS:
        rows = [incident for incident in campaign.incidents if incident.victim.kind == kind]
        if rows:
            took = [incident.recovered_s for incident in rows]
            times = [f"{value:.2f}" for value in (min(took), median(took), max(took))]
            sums = [str(sum(getattr(incident, column) for incident in rows)) for column in COLUMNS]
            table.add_row(TITLES[kind], str(len(rows)), *times, *sums)
    console.print(table)
    campaign.findings.print(console)
