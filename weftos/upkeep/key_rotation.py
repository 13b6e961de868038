"""Changes the keys of a running node: on disk, in the ledger, for its workers and for its peers.

The order is the one of ``chain/keys/key_change.py``. Before the new keys sign anything the workers are told of them;
the old ones they know until they end, for calls that are on their way. Once the change is on the disk, peers are shown
the new keys, and the old seeds are destroyed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from chain.disk import Disk
from chain.errors import ChainError
from chain.in_thread import in_thread
from chain.journal.group import Group
from chain.keys.key_change import adopt_keys, prepare_keys
from chain.keys.keys import Keys
from chain.keys.rotation import rotation_body
from kernel.operations.keys import Rotated
from kernel.state.recorder import Recorder

RETRY_S = 5.0


class KeyRotation:
    """``announce(keys)`` tells the workers, ``rekey(keys)`` the mesh; ``note(event, **fields)`` the log."""

    def __init__(
        self,
        data: Path,
        recorder: Recorder,
        announce: Callable[[Keys], None],
        rekey: Callable[[Keys], None],
        note: Callable[..., None],
        retry_s: float = RETRY_S,
    ) -> None:
        self._data = data
        self._recorder = recorder
        self._announce = announce
        self._rekey = rekey
        self._note = note
        self._retry_s = retry_s
        self._disk = Disk()
        self._used = recorder.ledger.keys
        self._changing = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        recorder.ledger.on_group(self._group)

    async def rotate(self, reason: str) -> Rotated:
        """Change both keys: origin, number, ed25519, ml_dsa_65, seq of the entry. Raises ChainError, OSError.

        When the disk refuses the entry, the change may still happen later; then it is finished then.
        """
        ledger = self._recorder.ledger
        async with self._changing:
            await ledger.barrier()
            await self._finish()
            old = ledger.keys
            new = await in_thread(prepare_keys, self._data, old, self._disk)
            self._announce(new)
            number = len(old.pairs)
            body = await in_thread(rotation_body, old, new, number, reason)
            ticket = await self._recorder.rotate(new, body)
            await ticket.durable()
            try:
                await self._finish()
            except (ChainError, OSError, RuntimeError):  # the last: no thread
                self._finish_later(self._retry_s)
                raise
        return {
            "origin": new.origin,
            "number": number,
            "ed25519": new.ed25519.text,
            "ml_dsa_65": new.mldsa.text,
            "seq": ticket.entries[0].entry.seq,
        }

    async def _finish(self) -> None:
        """Bring everything to the keys that are in force."""
        keys = self._recorder.ledger.keys
        if keys is not self._used:
            self._used = keys
            self._rekey(keys)
            self._note("keys changed", number=len(keys.pairs) - 1, key_id=keys.ed25519.key_id.hex())
        await in_thread(adopt_keys, self._data, keys, self._disk)

    def _group(self, group: Group) -> None:
        """A change that its caller has given up may become durable when the disk takes it."""
        if self._recorder.ledger.keys is not self._used and not self._changing.locked():
            self._finish_later(0.0)

    def _finish_later(self, wait_s: float) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._finish_late(wait_s))

    async def _finish_late(self, wait_s: float) -> None:
        said = False
        while True:
            await asyncio.sleep(wait_s)
            wait_s = self._retry_s
            async with self._changing:
                try:
                    await self._finish()
                    return
                except (ChainError, OSError, RuntimeError) as error:
                    if not said:
                        self._note("the old keys are not removed yet; tried again", why=str(error))
                    said = True
