"""Kinds of processes and their slots."""

from __future__ import annotations

from chain.entry.fields import BOOL, JSON, TEXT, TEXTS, WHOLE
from chain.entry.kind import ADDRESS, kind

PROCESSES = (
    kind(
        "process.spawned",
        "a child slot was created; lazy only where an application made it, whose apply waits for all of them",
        durable=True,
        address=ADDRESS,
        parent=(TEXT, "address of its supervisor"),
        spec=(JSON, "JSON of the spawn request"),
        made_by=(TEXT, "operator, agent, peer:ORIGIN or app:NAME; not in older entries"),
    ),
    kind(
        "process.changed",
        "what a child slot is kept as was changed while it is there; no process was touched",
        durable=True,
        address=ADDRESS,
        spec=(JSON, "JSON of the whole specification, as it is from now on"),
        fields=(TEXTS, "names of the fields of it that are others now"),
    ),
    kind(
        "process.started",
        "an incarnation runs, and with it its slot, unless that is stopped or parked",
        address=ADDRESS,
        pid=(WHOLE, "its PID"),
        cell=(TEXT, "name of its cell, empty without one"),
    ),
    kind(
        "process.exited",
        "an incarnation ended",
        address=ADDRESS,
        pid=(WHOLE, "its PID"),
        reason=(TEXT, "exit reason"),
        detail=(TEXT, "one bounded line"),
        turn=(
            TEXT,
            "the turn that it was in, of cell_lost only with nobody known to blame; else empty; not in older entries",
        ),
    ),
    kind(
        "process.felled",
        "a process took down the cell that it shared with others",
        address=ADDRESS,
        pid=(WHOLE, "its PID"),
        cell=(TEXT, "name of the cell"),
        reason=(TEXT, "exit reason: crash, or timeout when it held the cell"),
        times=(WHOLE, "how many cells it has taken down by now"),
        isolated=(BOOL, "whether it is in no cell with any that is not, from its next start on"),
    ),
    kind(
        "process.ending",
        "the end of a supervisor, which has begun and takes its time, will leave its slot stopped: a node that is "
        "killed in between begins with it so",
        address=ADDRESS,
        stops=(BOOL, "whether it will; false: it was said, and it will not after all"),
    ),
    kind(
        "process.slot",
        "a child slot changed its state",
        address=ADDRESS,
        state=(
            TEXT,
            "running (started by hand; in older entries after each start), restarting, parked, stopped or removed",
        ),
        why=(TEXT, "what changed it"),
    ),
    kind(
        "process.suspended",
        "a person has a process begin no turn from now on, also in incarnations to come: its messages wait",
        durable=True,
        address=ADDRESS,
        by=(TEXT, "who"),
    ),
    kind(
        "process.resumed",
        "a person has a suspended process go on",
        durable=True,
        address=ADDRESS,
        by=(TEXT, "who"),
    ),
)
