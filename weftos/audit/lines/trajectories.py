"""Trajectories with what was said in them: the node names the entries, the ledger has the words as far as they are not
erased.
"""

from __future__ import annotations

from collections.abc import Iterable

from kernel.operations.turns.trajectories import TrajectoryRow
from weftos.audit.auditor import Auditor
from weftos.json_object import Json

_SAYS = {"message.accepted": "text", "message.dead": "why", "turn.ended": "reply", "turn.rated": "why"}


def with_texts(auditor: Auditor, rows: Iterable[TrajectoryRow]) -> list[Json]:
    """Each with ``asked``, ``answered`` and ``rated_why``: None where it was erased, or where nobody has said it."""
    wanted = list(rows)
    seqs = {seq for row in wanted for seq in (row["request"], row["response"], row["rated"]) if seq >= 0}
    texts = {
        record.entry.seq: None if record.erased else str(record.body[_SAYS[record.entry.kind]])
        for record in auditor.entries(seqs)
        if record.entry.kind in _SAYS
    }
    return [
        {
            **row,
            "asked": texts.get(row["request"]),
            "answered": texts.get(row["response"]),
            "rated_why": texts.get(row["rated"]),
        }
        for row in wanted
    ]
