"""Lost calls: whoever made one is gone with it, and nobody here knows what became of it.

Its tool's probe is asked where there is one; then the tool's policy on doubt decides, and a person where that says so.
What is decided is on the disk before anybody goes by it.
"""

from __future__ import annotations

from functools import partial

from kernel.slices.calls import OpenIntent
from kernel.slices.turns import Call
from kernel.state.recorder import Recorder
from kernel.syscall.probes import Probes, Said
from kernel.syscall.settlement import Settlement


class LostCalls:
    """Decides what is to become of each."""

    def __init__(self, recorder: Recorder, probes: Probes, settlement: Settlement) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._probes = probes
        self._settlement = settlement

    def has_probe(self, call: Call) -> bool:
        """Whether somebody can be asked what became of the call."""
        return self._probes.can_ask(call)

    async def decide(self, intent: OpenIntent, why: str, *, left: bool = False) -> bool:
        """Record what is to become of the call. ``why`` it is lost; ``left``: whoever made it could not be ended, and
        may act still. True when nothing forbids to make it again.
        """
        said = self._probes.of_left(intent) if left else await self._probes.ask(intent)
        await self._write(intent, said, why)
        return self._is_open(intent) and not intent.call.doubt

    async def _write(self, intent: OpenIntent, said: Said | None, why: str) -> None:
        """It depends on whether the turn is open; one that ends while this is being written leaves nobody who would ask
        for the call again, so it is decided anew.
        """
        while self._is_open(intent):
            turn_open = intent.turn in self._state.turns
            if said is not None:
                drafts = self._probes.drafts(intent, said, why, turn_open=turn_open)
            else:
                drafts = self._settlement.doubted(intent, why, turn_open=turn_open)
            stands = partial(self._stands, intent, turn_open)
            ticket = await self._recorder.committed(drafts, durable=True, wanted=stands) if drafts else None
            if ticket is not None:
                said = None  # it is on record
                await self._recorder.on_disk(ticket)
            if turn_open is (intent.turn in self._state.turns):
                return

    def _stands(self, intent: OpenIntent, turn_open: bool) -> bool:
        return self._is_open(intent) and turn_open is (intent.turn in self._state.turns)

    def _is_open(self, intent: OpenIntent) -> bool:
        """Whether nobody has said what became of the call."""
        return self._state.intents.get(intent.id) is intent
