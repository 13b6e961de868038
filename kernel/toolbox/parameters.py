"""The parts of the JSON Schemas that built-in tools declare their parameters by."""

from __future__ import annotations

from typing import Any


def an_object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    """A map with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": required or [],
        "additionalProperties": False,
    }


def a_text(description: str, shortest: int, longest: int) -> dict[str, Any]:
    """A text of so many characters."""
    return {"type": "string", "description": description, "minLength": shortest, "maxLength": longest}


def an_integer(description: str, smallest: int, largest: int) -> dict[str, Any]:
    """A whole number between these, both included."""
    return {"type": "integer", "description": description, "minimum": smallest, "maximum": largest}
