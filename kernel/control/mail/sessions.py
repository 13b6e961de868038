"""What people may ask of conversations: which there are, what is kept of one, and that it is forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chain.entry.draft import StateChange
from kernel.control.asked import Asked
from kernel.errors import Busy, NotFound
from kernel.kernel import Kernel
from kernel.message.chat_commands import shown_model
from kernel.message.chats import is_asleep
from kernel.operations.operation import Handler, OfTarget
from kernel.operations.turns.sessions import (
    OfSession,
    SessionDeleted,
    SessionRow,
    Sessions,
    SessionShown,
    SessionState,
    ShowSession,
    SummaryUndone,
)
from kernel.slices.mailboxes import Mail
from kernel.slices.tree.slots import Slot
from kernel.state.record_forms import DEEDS, FILES, SESSION, TRAJECTORY
from kernel.state.recorder import ledger_errors


class SessionControl:
    """Sessions of the processes of this node."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._state = kernel.state

    def handlers(self) -> tuple[Handler, ...]:
        """What this answers."""
        return (
            Sessions.list.by(self.list),
            Sessions.show.by(self.show),
            Sessions.delete.by(self.delete),
            Sessions.undo.by(self.undo),
        )

    async def list(self, asked: Asked, request: OfTarget) -> list[SessionRow]:
        address = self._kernel.messaging.resolve(request.named)
        of_chats = [self._row(slot, slot.spec.session) for slot in self._state.slots.sessions(address)]
        slot = self._state.slots[address]
        return of_chats + [self._row(slot, name) for name in self._state.sessions.of(address)]

    async def show(self, asked: Asked, request: ShowSession) -> SessionShown:
        slot = self._slot(request)
        kept = self._state.sessions.get((slot.address, request.session))
        records = [] if kept is None or not request.limit else kept.history()[-request.limit :]
        return {**self._row(slot, request.session), "shown": records}

    async def delete(self, asked: Asked, request: OfSession) -> SessionDeleted:
        """Raises NotFound, Busy."""
        slot = self._slot(request)
        address, key = slot.address, (slot.address, request.session)
        if any(mail.session == request.session for mail in self._mail(address)):
            raise Busy(
                f"session {request.session} of {address} is being answered: weftos cancel {address} ends that"
            )
        own = slot.spec.session == request.session
        if own and self._state.slots.child_count(address):
            raise Busy(f"{address} has processes below it: weftos rm takes them away")
        asked.record(target=request.named, address=address, session=request.session)
        kept = self._state.sessions.get(key)
        told: SessionDeleted = {
            "session": request.session,
            "address": address,
            "records": 0 if kept is None else kept.records,
            "removed": own,
        }
        name = "\n".join(key)
        with ledger_errors():
            gone = [StateChange(table, name, None) for table in (SESSION, DEEDS, FILES)]
            gone += [StateChange(TRAJECTORY, turn, None) for turn in self._state.trajectories.in_session(key)]
            self._kernel.recorder.commit(gone)
            if own:
                await self._kernel.chats.remove(slot)
            await self._kernel.recorder.barrier()
        return told

    async def undo(self, asked: Asked, request: OfSession) -> SummaryUndone:
        """Raises NotFound, Busy."""
        slot = self._slot(request)
        key = (slot.address, request.session)
        if self._state.turns.in_session(key):
            raise Busy(
                f"session {request.session} of {slot.address} is being answered: wait for the end of that"
            )
        kept = self._state.sessions.get(key)
        found = None if kept is None else _newest_summary(kept.history())
        if found is None:
            raise NotFound(f"session {request.session} of {slot.address} has no summary that could be undone")
        sha256, records = found
        asked.record(target=request.named, address=slot.address, session=request.session, sha256=sha256)
        told = {"role": "assistant", "content": "", "internal": True, "undone": sha256}
        with ledger_errors():
            self._kernel.recorder.commit([self._kernel.turns.histories.added(key, [told])])
            await self._kernel.recorder.barrier()
        return {"session": request.session, "address": slot.address, "sha256": sha256, "records": records}

    def _mail(self, address: str) -> Iterable[Mail]:
        box: Mapping[str, Mail] = self._state.mail.get(address, {})
        return box.values()

    def _slot(self, request: OfSession) -> Slot:
        """Of the process that has the session. Raises NotFound."""
        address, name = self._kernel.messaging.resolve(request.named), request.session
        for slot in self._state.slots.sessions(address):
            if slot.spec.session == name:
                return slot
        slot = self._state.slots[address]
        if name not in self._state.sessions.of(address) and slot.spec.session != name:
            raise NotFound(f"{address} has no session {name[:80]!r}; weftos sessions list {address} has them")
        return slot

    def _row(self, slot: Slot, session: str) -> SessionRow:
        kept = self._state.sessions.get((slot.address, session))
        turn = self._state.turn_of(slot.address)
        one = self._state.preferences.get(slot.address) if slot.spec.session == session else None
        waiting = [mail for mail in self._mail(slot.address) if mail.session == session]
        ident = turn.id if turn is not None and turn.mail.session == session else ""
        return {
            "session": session,
            "address": slot.address,
            "chat": slot.spec.session == session,
            "state": self._state_of(slot, ident),
            "turn": ident,
            "waiting": len(waiting) - bool(ident),
            "records": 0 if kept is None else kept.records,
            "bytes": 0 if kept is None else kept.bytes,
            "model": "" if one is None else shown_model(one.provider, one.model),
        }

    def _state_of(self, slot: Slot, turn: str) -> SessionState:
        if is_asleep(slot):
            return "asleep"
        if slot.state in ("stopped", "parked"):
            return "parked" if slot.state == "parked" else "stopped"
        if self._kernel.live.at(slot.address) is None:
            return "starting"
        return "busy" if turn else "running"


def _newest_summary(history: Sequence[Mapping[str, Any]]) -> tuple[str, int] | None:
    """Of the newest summary that is not undone the SHA-256 of what it is of, and how many records those were."""
    undone = {record.get("undone") for record in history}
    for record in reversed(history):
        told = record.get("summary")
        if record.get("internal") is not True or not isinstance(told, Mapping):
            continue
        sha256, records = told.get("sha256"), told.get("records")
        if isinstance(sha256, str) and type(records) is int and sha256 not in undone:
            return sha256, records
    return None
