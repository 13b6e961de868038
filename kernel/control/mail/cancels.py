"""The end of what a process handles, at the word of a person or of another node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel.control.asked import Asked, Record
from kernel.errors import KernelError
from kernel.kernel import Kernel
from kernel.operations.operation import Handler
from kernel.operations.processes import Cancel, Cancelled, Processes
from kernel.state.recorder import ledger_errors
from kernel.turn.cancels import cancelled_by
from kernel.values import clean
from mesh.identity.peers import Peer


class CancelControl:
    """Each on the record, and done when the disk has it."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (Processes.cancel.by(self.cancel),)

    async def cancel(self, asked: Asked, request: Cancel) -> Cancelled:
        """Raises NotFound, Refused, Unavailable, and what another node answers."""
        target = request.named
        if "@" in target:
            target, peer = self._kernel.remote.split(target)
            if peer is not None:
                return await self._elsewhere(asked, target, peer, request)
        return await self.end(target, request.message, asked.by, request.why, asked.record)

    async def end(self, target: str, message: str, by: str, why: str, record: Record) -> Cancelled:
        """End the message of that id at ``target``, empty: what is handled there now or next; ``by`` asks for it."""
        address = self._kernel.messaging.resolve(target)
        mail = self._kernel.cancels.find(address, message)
        record(target=target, address=address, message=mail.id, why=why)
        with ledger_errors():
            cut = self._kernel.cancels.cancel(mail, cancelled_by(by, why))
            await self._kernel.recorder.barrier()
        return {"address": address, "turn": cut.turn, "message": mail.id, "others": cut.others}

    async def _elsewhere(self, asked: Asked, target: str, peer: Peer, request: Cancel) -> Cancelled:
        told = {"target": target, "message": request.message, "why": request.why}
        asked.record(on=peer.origin, **told)
        done = await self._kernel.remote.calls.call(peer, "cancel", told)
        return _checked(done, peer)


def _checked(done: Mapping[str, Any], peer: Peer) -> Cancelled:
    """A peer's answer."""
    match done:
        case {"address": str(address), "turn": str(turn), "message": str(message), "others": int(others)}:
            at = f"{clean(address)[:1_200]}@{peer.name}"
            ids = clean(turn)[:64], clean(message)[:64]
            return {"address": at, "turn": ids[0], "message": ids[1], "others": others, "node": peer.name}
    raise KernelError(f"{peer.name} answers with something else than what has ended")
