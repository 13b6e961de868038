"""What people may ask of conversations: to give a process one to remember that it has not had."""

from __future__ import annotations

from typing import Any

from chain.ledger.ledger import StateChange
from kernel.control.asked import Asked
from kernel.control.mail.messages import session_of
from kernel.errors import Conflict, Invalid
from kernel.kernel import Kernel
from kernel.operations.operation import Handler
from kernel.operations.turns.transcripts import TakenOver, TakeOver, Transcripts
from kernel.state.record_forms import SESSION, remembered
from kernel.state.recorder import ledger_errors
from kernel.values import canonical, clean, sha256_hex


class TranscriptControl:
    """Conversations from elsewhere. Their text is state, as all that is remembered; the ledger has its hash."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (Transcripts.take_over.by(self.take_over),)

    async def take_over(self, asked: Asked, request: TakeOver) -> TakenOver:
        """Raises NotFound, Conflict, Invalid, Unavailable."""
        kernel, bounds = self._kernel, self._kernel.env.bounds
        address = kernel.messaging.resolve(str(request.target))
        slot = kernel.state.slots[address]
        session = slot.spec.session or session_of(request.session)
        exchanges = [[clean(said) for said in each] for each in request.exchanges]
        digest = sha256_hex(canonical(exchanges))
        asked.record(target=str(request.target), session=session, exchanges=len(exchanges), digest=digest)
        key = (address, session)
        if key in kernel.state.sessions or kernel.state.turns.in_session(key):
            raise Conflict(
                f"{address} has a session {session!r:.80} of its own: give another name for this one, or erase that"
            )
        values, size = list[bytes](), 0
        for message, reply in reversed(exchanges):
            value = remembered(_records(message, reply), 0)
            size += len(value)
            if 2 * (len(values) + 1) > bounds.session_records or size > bounds.session_bytes:
                break
            values.append(value)
        if not values:
            raise Invalid(
                f"the newest exchange alone is longer than a session may be, {bounds.session_bytes} bytes"
            )
        kept = exchanges[len(exchanges) - len(values) :]
        name = "\n".join(key)
        with ledger_errors():
            ticket = kernel.recorder.commit(
                [
                    StateChange(SESSION, name, remembered(_records(*each), number))
                    for number, each in enumerate(kept, 1)
                ]
            )
            await ticket.durable()
        kernel.turns.histories.evict()
        return {
            "address": address,
            "session": session,
            "exchanges": len(kept),
            "left_out": len(exchanges) - len(kept),
        }


def _records(message: str, reply: str) -> list[dict[str, Any]]:
    """As an agent remembers an exchange."""
    return [{"role": "user", "content": message}, {"role": "assistant", "content": reply}]
