"""Messages of chats, each to the session of its chat: a process below the agent that they were sent to, which is made,
or woken, in the unit that accepts the message, and falls asleep when nothing was said to it for a while.

So no message is accepted for a session that is not there: a node that ends in between starts it at its next boot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from chain.ledger.ledger import Draft
from kernel.abi import Inbound
from kernel.bounds import Bounds
from kernel.clock import Clock, Timer
from kernel.errors import Busy, Conflict, Refused
from kernel.message.chat_commands import preferring
from kernel.message.chats import (
    IDLE,
    INTERRUPT,
    REJECT,
    Room,
    Seen,
    is_asleep,
    process_name,
    provider_of,
    room,
    session_spec,
    while_busy,
)
from kernel.message.message_signals import MessageArrived
from kernel.message.messaging import Accepted, Messaging, Outgoing
from kernel.model.address import child_of
from kernel.model.address import parent as parent_of
from kernel.model.inbound import session_key
from kernel.model.spec import ProcessSpec
from kernel.model.states import ProcessState
from kernel.process.ends import Ends
from kernel.process.live import LiveTable
from kernel.process.process_signals import SlotWoken, SlotWritten
from kernel.process.processes import Processes
from kernel.slices.mailboxes import MESSAGE, turn_id
from kernel.slices.tree.slots import Slot
from kernel.state.recorder import Recorder
from kernel.state.unit import Unit
from kernel.turn.cancels import Cancels

LOOKS = 4
"""So often a session is looked at in the time after which it falls asleep."""
LOOK_S = 60.0
MOST_INTERRUPTED = 200
ENDS_S = 10.0
"""What one that falls asleep may take for it while its next message waits at the door."""
FALLS_S = 0.001
NO_ROOM = "its agent has no room for more sessions, and it slept the longest"


class ChatSessions:
    """``look`` has those fall asleep that are idle, and is told when there may be one. ``config_of`` gives what a
    process of a spec is told.
    """

    def __init__(
        self,
        recorder: Recorder,
        messaging: Messaging,
        processes: Processes,
        live: LiveTable,
        bounds: Bounds,
        clock: Clock,
        config_of: Callable[[ProcessSpec], Mapping[str, Any]],
        cancels: Cancels,
        ends: Ends,
    ) -> None:
        self._recorder = recorder
        self._state = recorder.state
        self._messaging = messaging
        self._processes = processes
        self._live = live
        self._bounds = bounds
        self._clock = clock
        self._config_of = config_of
        self._cancels = cancels
        self._ends = ends
        self._timer: Timer | None = None

    # -- a message of a chat -------------------------------------------------------------------------------------

    def address_of(self, target: str, inbound: Inbound) -> str:
        """Where the session of a chat with ``target`` is, or would be. Raises NotFound, Refused."""
        address, key = self._messaging.resolve(target), session_key(inbound)
        slot = self._state.slots[address]
        if slot.spec.session == key:
            return address
        if slot.spec.session:
            raise Refused(f"{address} is the session of chat {slot.spec.session}: send to {slot.parent}")
        if slot.spec.type != "worker":
            raise Refused(f"{address} is a supervisor: it takes no messages")
        return child_of(address, process_name(key))

    async def prepare(self, target: str, inbound: Inbound) -> None:
        """Before a message of a chat is put: wait until its session, if that is about to fall asleep, has; and make
        room for it, if there is a way. Raises NotFound, Refused, Busy.
        """
        address, until_s = self.address_of(target, inbound), self._clock.now_s() + ENDS_S
        while self._processes.falls_asleep(address):
            if self._clock.now_s() > until_s:
                raise Busy(f"{address} is ending; try again when weftos ps shows it running")
            await asyncio.sleep(FALLS_S)
        slot = self._state.slots.get(address)
        if slot is None or is_asleep(slot):
            found = self._room(address, slot)
            if found.sleeps:
                self._processes.sleep(found.sleeps, IDLE)
            if found.goes:
                self._processes.let_go(found.goes, NO_ROOM)

    def put(self, unit: Unit, out: Outgoing, inbound: Inbound) -> Accepted:
        """Add a message to a unit, and before it what has its session run. Raises NotFound, Refused, Busy, Conflict,
        and what policy has against it.
        """
        address, key = self.address_of(out.target, inbound), session_key(inbound)
        slot = self._state.slots.get(address)
        if slot is None:
            self._make(unit, out, address, key)
            unit.say(SlotWritten(address))
        elif slot.spec.session != key:
            raise _taken(address, key)
        elif is_asleep(slot):
            self._wake(unit, slot)
            unit.say(SlotWoken(address))
        else:
            self._check_up(address)
            self._while_busy(unit, slot, inbound)
        accepted = self._messaging.put_at(unit, self._as_preferred(out, inbound, address), address)
        unit.say(MessageArrived(address))
        return accepted

    async def remove(self, slot: Slot) -> None:
        """End a session that nothing is asked of, and remove it with all that is of it. Raises Busy, Unavailable."""
        if self._live.at(slot.address) is not None:
            if not self._is_idle(slot):
                raise Busy(f"{slot.address} has something to do: weftos inspect {slot.address} says what")
            self._processes.sleep(slot.address, IDLE)
        while self._processes.supervisors.is_up(slot.address):
            await asyncio.sleep(FALLS_S)
        self._processes.let_go(slot.address, "its session was deleted")
        await self._processes.slots.gone([slot])

    def _as_preferred(self, out: Outgoing, inbound: Inbound, address: str) -> Outgoing:
        """The model that its chat prefers is part of what a message asks: a resumed turn has it as the first one."""
        one = self._state.preferences.get(address)
        if one is None:
            return out
        return replace(
            out, inbound=replace(inbound, options=preferring(inbound.options, one.provider, one.model))
        )

    def prefer(
        self, unit: Unit, out: Outgoing, inbound: Inbound, provider: str, model: str, rate: str = ""
    ) -> str:
        """Add to a unit what keeps the model that a chat prefers; the address of its session, which is made when there
        is none. ``rate``: whom it counts for. Raises as :meth:`put`.
        """
        address, key = self.address_of(out.target, inbound), session_key(inbound)
        slot = self._state.slots.get(address)
        if slot is None:
            self._make(unit, out, address, key)
            unit.say(SlotWritten(address))
        elif slot.spec.session != key:
            raise _taken(address, key)
        body = {"address": address, "provider": provider, "model": model, "by": inbound.user, "rate": rate}
        unit.add(Draft("session.preferred", body, 0, "", out.trace, out.cause))
        return address

    def provider_of(self, target: str, inbound: Inbound) -> str:
        """That of a model which a chat with ``target`` names alone. Raises NotFound, Refused."""
        spec = self._state.slots[self._messaging.resolve(target)].spec
        return provider_of(self._config_of(spec), inbound.channel)

    def _make(self, unit: Unit, out: Outgoing, address: str, key: str) -> None:
        agent = parent_of(address)
        self._check_up(agent)
        self._check_room(address, None)
        spec = session_spec(self._state.slots[agent].spec, key)
        unit.add(self._processes.admission.draft_session(spec, agent, out.trace, out.cause))

    def _wake(self, unit: Unit, slot: Slot) -> None:
        """It is as its agent is by now."""
        self._check_up(slot.parent)
        self._check_room(slot.address, slot)
        spec = session_spec(self._state.slots[slot.parent].spec, slot.spec.session)
        if spec != slot.spec:
            changed = [
                item.name
                for item in fields(spec)
                if getattr(spec, item.name) != getattr(slot.spec, item.name)
            ]
            body = {"address": slot.address, "spec": spec.to_json(), "fields": changed}
            unit.add(Draft("process.changed", body, 0, "", b"", slot.spawned_seq))
        unit.add(self._processes.wake(slot.address))

    def policy(self, slot: Slot, channel: str) -> str:
        """What a message of ``channel`` does while the session of ``slot`` answers an earlier one."""
        return while_busy(self._config_of(slot.spec), channel)

    def _while_busy(self, unit: Unit, slot: Slot, inbound: Inbound) -> None:
        """What becomes of those before it. Nobody interrupts what another user of the chat has asked. Raises Busy where
        it is to be refused, LedgerUnavailable.
        """
        earlier = [mail for mail in self._state.mail.get(slot.address, {}).values() if mail.kind == MESSAGE]
        if not earlier:
            return
        policy = self.policy(slot, inbound.channel)
        if policy == REJECT:
            raise Busy(
                f"{slot.address} is answering {earlier[0].id} still: say it again when that is answered"
            )
        if policy == INTERRUPT:
            for mail in earlier[:MOST_INTERRUPTED]:
                if mail.identity == inbound.who and turn_id(mail.id) not in self._ends:
                    self._cancels.add(unit, mail, f"a newer message of {slot.spec.session} interrupted it")

    def _check_up(self, address: str) -> None:
        down = self._state.slots.down(address)
        if down is not None:
            raise Refused(f"{down.address} is {down.state}; weftos start {down.address} brings it back")

    # -- room ----------------------------------------------------------------------------------------------------

    def _room(self, address: str, slot: Slot | None) -> Room:
        """For the session at ``address``, which has its ``slot`` or is to have one."""
        seen = map(self._seen, self._state.slots.sessions(parent_of(address)))
        return room(
            seen, self._bounds.running_sessions, None if slot is not None else self._bounds.agent_sessions
        )

    def _check_room(self, address: str, slot: Slot | None) -> None:
        found = self._room(address, slot)
        if found.why or found.sleeps:
            why = found.why or "one of its sessions has yet to fall asleep"
            raise Busy(f"{parent_of(address)}: {why}; try again when one of them has ended")

    def _seen(self, slot: Slot) -> Seen:
        if slot.state in ("stopped", "parked"):
            return Seen(slot.address, False, not is_asleep(slot), slot.last_exit.time_us)
        process = self._live.at(slot.address)
        since_s = 0.0 if process is None else process.since_s
        return Seen(slot.address, True, not self._is_idle(slot), since_s)

    def _is_idle(self, slot: Slot) -> bool:
        """Whether it runs, nothing is asked of it, and nothing is on its way to it."""
        process, address = self._live.at(slot.address), slot.address
        if process is None or process.state is not ProcessState.RUNNING or process.turn or process.draining:
            return False
        if slot.suspended or self._state.mail.get(address) or self._state.slots.child_count(address):
            return False
        return not self._state.monitors.count_of(address) and self._processes.may_sleep(address)

    # -- sleep ---------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """There may be sessions: look at them from time to time."""
        if self._timer is None and self._state.slots.agents_with_sessions():
            look_s = min(LOOK_S, self._bounds.session_idle_s / LOOKS)
            self._timer = self._clock.later(look_s, self._due)

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self._timer = None
        if not self._recorder.is_behind:
            before_s = self._clock.now_s() - self._bounds.session_idle_s
            for agent in self._state.slots.agents_with_sessions():
                for slot in self._state.slots.sessions(agent):
                    process = self._live.at(slot.address)
                    if process is not None and process.since_s <= before_s and self._is_idle(slot):
                        self._processes.sleep(slot.address, IDLE)
        self.look()


def _taken(address: str, key: str) -> Conflict:
    return Conflict(f"{address} is no session of chat {key}, and has its name: weftos rm {address} frees it")
