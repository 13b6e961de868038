"""Compactions as syscalls: on record with what they are of, and their facts in ``MEMORY.md`` before that is said.

When the node dies between the two the resumed turn has them written again, which adds nothing.
"""

from __future__ import annotations

import asyncio

from chain.errors import LedgerUnavailable
from chain.ledger.ledger import Draft
from kernel.abi import Compaction, Flushed
from kernel.process.live import LiveProcess
from kernel.shapes import told as told_as_map
from kernel.slices.turns import Call, Turn
from kernel.state.recorder import Recorder
from kernel.syscall.prompts.memory_file import checked_facts, write_facts
from kernel.toolbox.protected import ProtectedPaths
from kernel.turn.divergence import shown
from kernel.turn.turns import Turns
from kernel.values import call_hash, canonical, clean

OP = "compaction"
WHY_CHARS = 300
ID_CHARS = 64
MOST = 2**53


class Compactions:
    """Takes the syscall; answers through :meth:`Turns.answer`. Files are written beside the loop."""

    def __init__(self, recorder: Recorder, turns: Turns, protected: ProtectedPaths) -> None:
        self._recorder = recorder
        self._turns = turns
        self._protected = protected
        self._writing: set[asyncio.Task[None]] = set()

    def asked(self, process: LiveProcess, turn: Turn, ordinal: str, asked: Compaction) -> None:
        """A cell tells of one. Everything in ``asked`` is hostile. Raises LedgerUnavailable, Invalid."""
        hashed = call_hash(OP, canonical(told_as_map(asked)))
        recorded = turn.calls.get(ordinal)
        if recorded is not None and recorded.call_hash != hashed:
            self._turns.diverge(process, turn, recorded, shown(OP, asked.state, ""))
        elif recorded is not None:
            self._answer(turn, recorded)
        elif asked.state != "done" or not asked.facts:
            self._record(process, turn, ordinal, asked, Flushed(0, asked.why))
        else:
            task = asyncio.get_running_loop().create_task(self._flush(process, turn, ordinal, asked))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)

    async def _flush(self, process: LiveProcess, turn: Turn, ordinal: str, asked: Compaction) -> None:
        slot = self._recorder.state.slots.get(turn.address)
        workspace = "" if slot is None else slot.spec.workspace
        try:
            flushed = await asyncio.to_thread(
                write_facts, workspace, checked_facts(asked.facts), self._protected
            )
        except Exception as error:  # the boundary: whoever asked is answered, whatever a disk does
            flushed = Flushed(0, f"MEMORY.md was not written: {type(error).__name__}")
        while self._turns.asks(process, turn, ordinal):
            try:
                self._record(process, turn, ordinal, asked, flushed)
                return
            except LedgerUnavailable:
                await self._recorder.writable()

    def _record(
        self, process: LiveProcess, turn: Turn, ordinal: str, asked: Compaction, flushed: Flushed
    ) -> None:
        body = {
            "turn": turn.id,
            "ordinal": ordinal,
            "call_hash": call_hash(OP, canonical(told_as_map(asked))),
            "state": asked.state,
            **{name: clean(getattr(asked, name))[:ID_CHARS] for name in ("sha256", "first", "last")},
            **{name: max(0, min(getattr(asked, name), MOST)) for name in ("records", "before", "after")},
            "facts": canonical(checked_facts(asked.facts)),
            "written": flushed.written,
            "why": clean(flushed.why)[:WHY_CHARS],
        }
        draft = Draft("sys.compaction", body, process.pid, turn.id, turn.mail.trace, turn.started_seq)
        self._recorder.commit([draft])
        self._answer(turn, turn.calls[ordinal])

    def _answer(self, turn: Turn, call: Call) -> None:
        assert call.outcome is not None
        self._turns.answer(turn, call.ordinal, Flushed(call.outcome["written"], call.outcome["why"]))

    async def close(self) -> None:
        for task in list(self._writing):
            task.cancel()
        await asyncio.gather(*self._writing, return_exceptions=True)
