"""What an agent is told of budgets, in words for its model. Pure."""

from __future__ import annotations

import json
from typing import Any


def budget_note(text: str) -> dict[str, Any]:
    """A message of kind ``budget`` as a record of the session: no model is asked about it."""
    said = json.loads(text)
    words = (
        f"[budget] {said['address']} has used {said['spent']} of its {said['granted']} "
        f"{said['resource'].replace('_', ' ')} ({_so_far(said)})."
    )
    return {"role": "user", "content": words}


def _so_far(said: dict[str, Any]) -> str:
    if said["percent"] == 100 and said["spent"] < said["granted"]:
        return "the rest is too little for a question"
    return f"{said['percent']} % or more"
