"""What was said in a turn, for a trace that is to tell it, without what looks like a secret. Pure.

It is taken from the events of the turn, which are cut. A text that was cut loses what stands behind its last blank,
so that no beginning of a secret is left of which nobody knows any more what it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from cognition.history.secrets import redacted
from kernel.slices.feed.turn_event import TurnEvent

INSTEAD = "[secret]"
SHORTEST_SECRET = 6


class Scrubber:
    """``secrets``: values that the node knows, of keys and of variables of tools."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {secret for secret in secrets if len(secret) >= SHORTEST_SECRET}
        escaped = {
            json.dumps(secret, ensure_ascii=ascii_)[1:-1] for secret in known for ascii_ in (True, False)
        }
        self._known = sorted(known | escaped, key=len, reverse=True)

    def text(self, text: str, *, cut: bool = False) -> str:
        """``text`` without them. ``cut``: there was more of it."""
        if cut:
            text = text[: len(text) - len(text.rstrip().rpartition(" ")[2])] if " " in text.rstrip() else ""
        for secret in self._known:
            text = text.replace(secret, INSTEAD)
        return redacted(text)

    def arguments(self, text: str, *, cut: bool = False) -> str:
        """The same of a JSON object, in which what a name calls a secret is one."""
        try:
            value = json.loads(text)
        except ValueError:
            return self.text(text, cut=cut)
        return json.dumps(self._value("", value), ensure_ascii=False)

    def _value(self, name: str, value: Any) -> Any:
        match value:
            case dict():
                return {self.text(key): self._value(key, each) for key, each in value.items()}
            case list():
                return [self._value(name, each) for each in value]
            case str():
                shown = f'"{name}": "{value}"'
                return self.text(value) if redacted(shown) == shown else INSTEAD
        return value


def content_of(message: str, events: Sequence[TurnEvent], scrubber: Scrubber) -> dict[str, str]:
    """By the names of :data:`weftos.traces.spans.Content`."""
    content: dict[str, str] = {}
    if message:
        content["input"] = _messages("user", scrubber.text(message))
    for one in events:
        data = one.data
        cut = bool(data.get("truncated"))
        if one.name == "action_started" and "arguments" in data:
            content[f"arguments {one.step}"] = scrubber.arguments(data["arguments"], cut=cut)
        elif one.name == "action_completed":
            content[f"result {one.step}"] = scrubber.arguments(data["result"], cut=cut)
        elif one.name == "response_complete":
            content["output"] = _messages("assistant", scrubber.text(data["reply"], cut=cut))
    return content


def _messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}], ensure_ascii=False)
