"""Calls: a node that is to be linked is called, and called again with back-off while there is no link to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from mesh.links.link import Link
from mesh.links.transport import Dial
from mesh.membership.membership import Backoff


@dataclass(eq=False, slots=True)
class _Target:
    """A node that this one calls. ``link``: the call under way, or what came of it."""

    dial: Dial
    failures: int = 0
    link: Link | None = None
    timer: asyncio.TimerHandle | None = None


class Calls:
    """One target a node. ``call(dial)`` calls it: the link it makes, or None when there is none to be made.

    ``is_up(origin)``: whether there is a link with that node. ``jitter`` draws from [0, 1).
    """

    def __init__(
        self,
        call: Callable[[Dial], Link | None],
        is_up: Callable[[str], bool],
        backoff: Backoff,
        jitter: Callable[[], float],
    ) -> None:
        self._call_now = call
        self._is_up = is_up
        self._backoff = backoff
        self._jitter = jitter
        self._targets: dict[str, _Target] = {}

    def begin(self, dial: Dial) -> Link | None:
        """Call from now on, as ``dial`` says. The call that was under way to that node, which is to be ended."""
        old = self.end(dial.origin)
        self._targets[dial.origin] = target = _Target(dial)
        target.timer = asyncio.get_running_loop().call_later(0.0, self._call, target)
        return old

    def end(self, origin: str) -> Link | None:
        """Stop calling; a link that is up stays. The call that was under way."""
        target = self._targets.pop(origin, None)
        if target is None:
            return None
        if target.timer is not None:
            target.timer.cancel()
        return target.link if target.link is not None and not target.link.open else None

    def close(self) -> None:
        """Call nobody any more."""
        for origin in list(self._targets):
            self.end(origin)

    def opened(self, origin: str) -> None:
        """There is a link with that node: the next back-off begins anew."""
        if (target := self._targets.get(origin)) is not None:
            target.failures = 0

    def over(self, link: Link) -> None:
        """A link or a call has ended: its node is called again when there is no other."""
        target = self._targets.get(link.dial.origin if link.dial is not None else link.origin)
        if target is None:
            return
        if target.link is link:
            target.link = None
        if target.link is None and not self._is_up(target.dial.origin):
            self._later(target)

    def _call(self, target: _Target) -> None:
        """Call a node, unless there is a link to it. A call that raises has failed as any other."""
        target.timer = None
        if target.link is not None or self._is_up(target.dial.origin):
            return
        link = None
        try:
            target.link = link = self._call_now(target.dial)
        finally:
            if link is None:
                self._later(target)
        if link is not None:
            link.push(link.session.start())

    def _later(self, target: _Target) -> None:
        if self._targets.get(target.dial.origin) is not target or target.timer is not None:
            return
        delay_s = self._backoff.delay_s(target.failures, self._jitter())
        target.failures += 1
        target.timer = asyncio.get_running_loop().call_later(delay_s, self._call, target)
