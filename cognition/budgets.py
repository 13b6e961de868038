"""What an agent is told of budgets, in words for its model. Pure."""

from __future__ import annotations

import json
from typing import Any

_SAID = {
    "money": "units of money",
    "cpu_ms": "ms of processor time",
    "memory_bytes": "bytes of memory",
}


def budget_note(text: str) -> dict[str, Any]:
    """A message of kind ``budget`` as a record of the session: no model is asked about it."""
    said = json.loads(text)
    what, spent, granted = said["resource"], str(said["spent"]), str(said["granted"])
    if what == "money":
        spent, granted = _in_units(said["spent"]), _in_units(said["granted"])
    what = _SAID.get(what, what.replace("_", " "))
    words = f"[budget] {said['address']} has used {spent} of its {granted} {what} ({_so_far(said)})."
    return {"role": "user", "content": words}


def _so_far(said: dict[str, Any]) -> str:
    if said["percent"] == 100 and said["spent"] < said["granted"]:
        return "the rest is too little for a question"
    return f"{said['percent']} % or more"


def _in_units(millionths: int) -> str:
    whole, part = divmod(millionths, 10**6)
    return f"{whole}.{part:06}".rstrip("0").rstrip(".")
