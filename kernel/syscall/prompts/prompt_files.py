"""The files of its workspace that a process is given for its prompt: recorded, so that a resumed turn has the same."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict

from chain.errors import LedgerUnavailable
from chain.ledger.ledger import Draft
from kernel.abi import PromptFile
from kernel.cell.protocol import PromptFiles
from kernel.process.live import LiveProcess
from kernel.slices.turns import Call, Turn
from kernel.state.recorder import Recorder
from kernel.syscall.prompts.workspace_files import Looked, look, read_files
from kernel.toolbox.protected import ProtectedPaths
from kernel.turn.divergence import shown
from kernel.turn.turns import Turns
from kernel.values import call_hash, canonical, clean, sha256_hex

OP = "prompt_files"
REMEMBERED = 256


class PromptFileCalls:
    """Takes the syscall; answers through :meth:`Turns.answer`. What was read of a workspace is remembered as long as
    nothing in it has changed. It is read beside the loop.
    """

    def __init__(self, recorder: Recorder, turns: Turns, protected: ProtectedPaths) -> None:
        self._recorder = recorder
        self._turns = turns
        self._protected = protected
        self._read: OrderedDict[str, tuple[Looked, tuple[PromptFile, ...]]] = OrderedDict()
        self._reading: set[asyncio.Task[None]] = set()

    def asked(self, process: LiveProcess, turn: Turn, ordinal: str) -> None:
        """A cell asks for them. Raises LedgerUnavailable."""
        recorded = turn.calls.get(ordinal)
        if recorded is not None and recorded.call_hash != call_hash(OP):
            self._turns.diverge(process, turn, recorded, shown(OP, "", ""))
        elif recorded is not None:
            self._answer(turn, recorded)
        else:
            self._look(process, turn, ordinal)

    def _look(self, process: LiveProcess, turn: Turn, ordinal: str) -> None:
        slot = self._recorder.state.slots.get(turn.address)
        workspace = "" if slot is None else slot.spec.workspace
        looked = look(workspace)
        known = self._read.get(workspace)
        if not looked or (known is not None and known[0] == looked):
            self._give(process, turn, ordinal, known[1] if looked and known is not None else ())
            return
        reading = self._read_and_give(process, turn, ordinal, workspace, looked)
        task = asyncio.get_running_loop().create_task(reading)
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read_and_give(
        self, process: LiveProcess, turn: Turn, ordinal: str, workspace: str, looked: Looked
    ) -> None:
        try:
            files = await asyncio.to_thread(read_files, workspace, looked, self._protected)
        except Exception as error:  # the boundary: whoever asked is answered, whatever a disk does
            files = tuple(PromptFile(each[0], "", f"not shown: {type(error).__name__}") for each in looked)
        self._read[workspace] = looked, files
        self._read.move_to_end(workspace)
        while len(self._read) > REMEMBERED:
            self._read.popitem(last=False)
        while self._turns.asks(process, turn, ordinal):
            try:
                self._give(process, turn, ordinal, files)
                return
            except LedgerUnavailable:
                await self._recorder.writable()

    def _give(self, process: LiveProcess, turn: Turn, ordinal: str, files: tuple[PromptFile, ...]) -> None:
        known = self._recorder.state.told_files.known((turn.address, turn.mail.session))
        texts = {sha256_hex(text): text for text in (clean(each.text) for each in files)}
        body = {
            "turn": turn.id,
            "ordinal": ordinal,
            "call_hash": call_hash(OP),
            "files": canonical([[each.name, sha256_hex(clean(each.text)), each.note] for each in files]),
            "new": canonical({digest: text for digest, text in texts.items() if digest not in known}),
        }
        draft = Draft("sys.files", body, process.pid, turn.id, turn.mail.trace, turn.started_seq)
        self._recorder.commit([draft])
        self._answer(turn, turn.calls[ordinal])

    def _answer(self, turn: Turn, call: Call) -> None:
        assert call.outcome is not None
        given = tuple(PromptFile(*each) for each in json.loads(call.outcome["result"]))
        self._turns.answer(turn, call.ordinal, PromptFiles(given))

    async def close(self) -> None:
        for task in list(self._reading):
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)
