"""What came of the walks, by the books of the two servers and by the ledger."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from chain.entry.reader import EntryRecord
from chain.state.history import History
from tests.prove.effects import EffectServer
from tests.prove.house import House
from tests.prove.report import Findings
from tests.prove.stages.places import CALLS, QUESTIONS, VICTIMS, Case, reply_of, steps_of

CAPTION = """s: from the last kill until the turn was over, at the longest
again: questions put once more, since no answer was on record
effects: done outside; each turn has ten
doubts: calls that a person was asked about"""


@dataclass(slots=True)
class Walked:
    """One turn. ``missed``: it was over before it had come to a wire. What follows ``doubts`` is found out last."""

    case: Case
    message: str
    missed: bool = False
    took_s: float = 0.0
    doubts: int = 0
    well: bool = False
    again: int = 0
    effects: int = 0


@dataclass(slots=True)
class Told:
    """What the ledger says of one turn. ``answered_us``: by the ordinal of a question, in the order in which they were
    put, when its answer was recorded; None: never.
    """

    message: str
    endings: list[tuple[str, str]] = field(default_factory=list)
    answered_us: dict[str, int | None] = field(default_factory=dict)
    proposed: list[str] = field(default_factory=list)
    intended: set[str] = field(default_factory=set)
    outcomes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    resolved: Counter[str] = field(default_factory=Counter)

    def add(self, record: EntryRecord) -> None:
        body = record.body
        ordinal = str(body.get("ordinal", ""))
        match record.entry.kind:
            case "model.asked":
                self.answered_us.setdefault(ordinal, None)
            case "model.answered":
                self.answered_us[ordinal] = record.entry.time_us
            case "tool.proposed":
                self.proposed.append(json.loads(body["arguments"])["step"])
            case "tool.intent":
                self.intended.add(ordinal)
            case "tool.outcome":
                self.outcomes[ordinal].append(body["status"])
            case "tool.resolved":
                self.resolved[f"{body['resolution']} by {body['by']}"] += 1
            case "turn.ended":
                self.endings.append((body["status"], body["reply"]))


def judge(
    house: House, walked: Sequence[Walked], questions: Path, effects: EffectServer, findings: Findings
) -> None:
    """Compare the books. ``questions``: the model's."""
    told = _told(house.node)
    asked = _asked(questions)
    happened = Counter(effects.log.read_text().split())
    by_step = Counter(effect.partition(":")[0] for effect in happened.elements())
    wrong: dict[str, list[str]] = defaultdict(list)
    for walk in walked:
        turns = [turn for turn in told.values() if turn.message == walk.message]
        faults = faults_of(walk, turns, asked[walk.case.name], by_step)
        walk.well = not faults
        walk.effects = sum(by_step[step] for step in steps_of(walk.case.name))
        for what, said in faults:
            wrong[what].append(f"{walk.case.label}: {said}")
    steps = {step for walk in walked for step in steps_of(walk.case.name)}
    findings.figure("turns", f"{len(walked)}, {sum(len(walk.case.kills) for walk in walked)} kills")
    put = sum(len(times) for rounds in asked.values() for times in rounds.values())
    findings.figure("questions put", f"{put} for {len(walked) * QUESTIONS} steps")
    findings.figure("effects outside", f"{happened.total()} for {len(walked) * CALLS} steps")
    resolved = sum((turn.resolved for turn in told.values()), Counter[str]())
    findings.figure("doubts", ", ".join(f"{n} {what}" for what, n in resolved.items()) or "none")
    for what in CHECKS:
        findings.check(what, wrong[what])
    findings.check("0 effects doubled, by their ids", (e for e, n in happened.items() if n > 1))
    findings.check("no effect of a step that was not asked for", (s for s in by_step if s not in steps))


COME, ANSWERED, ONCE, RECORDED, WHOLE, OPEN = CHECKS = (
    "every turn came to where it was to be killed",
    "every message was answered once, and as without a kill",
    "each step has had its effect once",
    "no model was asked for what had been answered on record",
    "eight questions and ten calls of each turn are on record",
    "no call is left without an outcome",
)


def faults_of(
    walk: Walked, turns: Sequence[Told], asked: dict[int, list[int]], by_step: Counter[str]
) -> list[tuple[str, str]]:
    """What is wrong with one walk, by what was to hold. Counts what was asked again."""
    case, faults = walk.case.name, []
    if walk.missed:
        faults.append((COME, "it did not"))
    endings = [ending for turn in turns for ending in turn.endings]
    if endings != [("ok", reply_of(case))]:
        faults.append((ANSWERED, str(endings)))
    steps = steps_of(case)
    faults += [(ONCE, f"{step} {by_step[step]} times") for step in steps if by_step[step] != 1]
    for turn in turns:
        recorded = list(turn.answered_us.values())
        if len(recorded) != QUESTIONS or sorted(turn.proposed) != sorted(steps):
            faults.append((WHOLE, f"{len(recorded)} questions, calls {turn.proposed}"))
        for round_, at_us in enumerate(recorded):
            late = [time_us for time_us in asked[round_] if at_us is not None and time_us > at_us]
            faults += [
                (RECORDED, f"question {round_}, {time_us - at_us} us later") for time_us in late if at_us
            ]
        faults += [(OPEN, ordinal) for ordinal in turn.intended if ordinal not in turn.outcomes]
    walk.again = sum(len(times) - 1 for times in asked.values())
    return faults


def _told(data: Path) -> dict[str, Told]:
    """The turns of the ledger."""
    told: dict[str, Told] = {}
    for record in History(data).entries():
        ident = record.body.get("turn", "")
        if record.entry.kind == "turn.started":
            told.setdefault(ident, Told(record.body["message"]))
        elif ident in told:
            told[ident].add(record)
    return told


def _asked(questions: Path) -> dict[str, dict[int, list[int]]]:
    """By case and round: when each question came to the model."""
    asked: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for line in questions.read_text().splitlines():
        row = json.loads(line)
        asked[row["case"]][row["round"]].append(row["time_us"])
    return asked


def print_walks(console: Console, walked: Sequence[Walked]) -> None:
    """Where, and what was killed there: what came of it."""
    title = f"{len(walked)} turns of ten calls"
    table = Table(title=title, caption=CAPTION, caption_justify="left", box=box.SIMPLE, padding=(0, 1, 0, 0))
    for column in ("killed in", "what"):
        table.add_column(column, no_wrap=True)
    for column in ("runs", "recovered", "s", "again", "effects", "doubts"):
        table.add_column(column, justify="right", no_wrap=True)
    before = ""
    for (where, what), rows in _grouped(walked).items():
        table.add_row(
            where if where != before else "",
            what,
            str(len(rows)),
            str(sum(walk.well for walk in rows)),
            f"{max(walk.took_s for walk in rows):.2f}",
            str(sum(walk.again for walk in rows)),
            str(sum(walk.effects for walk in rows)),
            str(sum(walk.doubts for walk in rows)),
        )
        before = where
    console.print(table)


def _grouped(walked: Sequence[Walked]) -> dict[tuple[str, str], list[Walked]]:
    """By the row of the table; all turns with two kills have one."""
    rows: dict[tuple[str, str], list[Walked]] = defaultdict(list)
    for walk in walked:
        match walk.case.kills:
            case ():
                rows["nowhere", ""].append(walk)
            case ((place, victim),):
                rows[place.title, victim].append(walk)
            case _:
                rows["two in one turn", ""].append(walk)
    places = list(dict.fromkeys(where for where, _ in rows))
    order = ["", *VICTIMS]
    return dict(sorted(rows.items(), key=lambda row: (places.index(row[0][0]), order.index(row[0][1]))))
