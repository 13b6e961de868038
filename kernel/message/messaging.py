"""Messages: acceptance, refusal, death and replay.

What is refused here is an error to the sender and leaves no dead letter. What is accepted is durable before the
sender hears that it was, and from then on ends in exactly one way: acknowledged, dead-lettered, dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from chain.entry.draft import StateChange
from chain.errors import LedgerUnavailable
from chain.ledger.ledger import PREVIOUS, Draft, Ticket
from kernel.abi import NOBODY, Inbound
from kernel.bounds import Bounds
from kernel.errors import MailboxFull, NotFound, Refused
from kernel.message.message_signals import MessageDied, Overflowed, TurnOver
from kernel.model.address import AddressTarget, NameTarget, PidTarget, ancestors, parse_target
from kernel.model.inbound import inbound_text
from kernel.policy.asker import Asker, channel_of
from kernel.policy.pipeline import Policy
from kernel.policy.proposal import SendMessage
from kernel.policy.terms import Terms
from kernel.process.ends import Ends
from kernel.process.live import LiveTable
from kernel.signals import Signals
from kernel.slices.mailboxes import BUDGET, MESSAGE, Mail, size_of, turn_id
from kernel.slices.tally import BY_BOUND, BY_POLICY
from kernel.state.recorder import Recorder
from kernel.state.state import State
from kernel.state.unit import Unit
from kernel.values import size_of_text

OPERATOR = "operator"
DEAD_LETTER = "dead_letter"
"""Of the words for what becomes of a message without room."""
DEAD_LETTERS_AT_ONCE = (
    100  # between two rounds of the event loop: mailboxes that are full end without holding it up
)


@dataclass(slots=True, unsafe_hash=True)
class Outgoing:
    """A message before acceptance. Treat as frozen, as :class:`kernel.slices.mailboxes.Mail`.

    ``rights`` None: the sender is a person. ``cause`` is a sequence number. ``answers``, ``status``,
    ``waiting``, ``kind``, ``topic`` and ``inbound`` as in :class:`kernel.slices.mailboxes.Mail`. ``asker``: who has it
    sent; without one, its sender.
    """

    sender: str
    target: str
    text: str
    session: str
    trace: bytes
    cause: int
    rights: frozenset[str] | None = None
    wants_reply: bool = False
    reply_to: str = ""
    deadline_us: int = 0
    pid: int = 0
    answers: str = ""
    status: str = ""
    waiting: tuple[str, ...] = ()
    asker: Asker | None = None
    kind: str = MESSAGE
    topic: str = ""
    inbound: Inbound | None = field(default=None, hash=False)

    @property
    def text_bytes(self) -> int:
        """Of its text, as UTF-8."""
        return size_of_text(self.text)

    @property
    def size_bytes(self) -> int:
        """As of :class:`kernel.slices.mailboxes.Mail`."""
        return size_of(self)

    def asked_by(self) -> Asker:
        """Who asks that it be taken."""
        if self.asker is not None:
            return self.asker
        who = NOBODY if self.inbound is None else self.inbound.who
        return Asker(self.sender, channel_of(self.sender), trace=self.trace, rights=self.rights, identity=who)


@dataclass(frozen=True, slots=True)
class Accepted:
    """A message in a unit: the entry that accepts it, and the address, with the node when it is another one."""

    seq: int
    address: str

    @property
    def id(self) -> str:
        return f"m{self.seq}"


class Messaging:
    """Takes messages for the processes of this node; other targets are :class:`kernel.peer.router.Router`'s.

    ``settle(message id)`` gives the records that close the open intents of the turn that handles it.
    """

    def __init__(
        self,
        recorder: Recorder,
        live: LiveTable,
        bounds: Bounds,
        policy: Policy,
        signals: Signals,
        ends: Ends,
        settle: Callable[[str], Sequence[Draft]],
        terms: Terms,
    ) -> None:
        self._recorder = recorder
        self._state: State = recorder.state
        self._live = live
        self._bounds = bounds
        self._policy = policy
        self._signals = signals
        self._ends = ends
        self._settle = settle
        self._terms = terms
        self._emptying: dict[str, str] = {}  # why, of mailboxes whose messages are being made dead letters
        self._resumes = False

    # -- names ---------------------------------------------------------------------------------------------------

    def resolve(self, target: str, beginning: bool = False) -> str:
        """The address a target means: a PID, an address or a unique name; with ``beginning``, which is for looking
        alone, also the beginning of one. Raises NotFound, Refused.

        A name means first a child of ``/user``, then what no agent is above, then what is below agents: no agent can
        have a child that takes what was meant for another. It is the address of a slot: neither the root supervisor
        nor a helper below ``/kernel`` can be meant.
        """
        match parse_target(target):
            case PidTarget(pid):
                return self._resolve_pid(pid)
            case AddressTarget(address):
                if address not in self._state.slots:
                    raise NotFound(f"no process at {address}; weftos ps lists them")
                return address
            case NameTarget(name):
                return self._resolve_name(name, beginning)

    def _resolve_name(self, name: str, beginning: bool) -> str:
        found = self._nearest(self._state.slots.named(name))
        if not found and beginning:
            found = self._nearest(self._state.slots.beginning(name))
        if not found:
            raise NotFound(f"no process named {name}; weftos ps lists them")
        if len(found) > 1:
            raise Refused(
                f"{name} is not unique ({', '.join(sorted(found)[:4])}); use the address or the PID"
            )
        return found[0]

    def _nearest(self, found: list[str]) -> list[str]:
        """Of these, the children of /user; else those that are below supervisors alone; else all."""
        own = [address for address in found if address.count("/") == 2]
        return own or [address for address in found if not self._is_below_an_agent(address)] or found

    def _is_below_an_agent(self, address: str) -> bool:
        above = (self._state.slots.get(at) for at in ancestors(address))
        return any(slot is not None and slot.spec.type == "worker" for slot in above)

    def _resolve_pid(self, pid: int) -> str:
        process = self._live.get(pid)
        if process is not None and process.address in self._state.slots:  # the root supervisor has no slot
            return process.address
        address = self._state.pids.get(pid)
        slot = self._state.slots.get(address) if address is not None else None
        if slot is None:
            raise NotFound(f"no process {pid} below /user; weftos ps lists them")
        if slot.pid == pid:
            return slot.address
        raise NotFound(f"process {pid} is gone; its successor at {slot.address} is {slot.pid}")

    # -- acceptance ----------------------------------------------------------------------------------------------

    def put(self, unit: Unit, out: Outgoing) -> Accepted:
        """Check one message and add its entry to a unit. Raises NotFound, Refused, and what policy has against it."""
        address = self.resolve(out.target)
        slot = self._state.slots[address]
        if slot.spec.type != "worker":
            raise Refused(f"{address} is a supervisor: it takes no messages")
        down = self._state.slots.down(address)
        if down is not None:
            raise Refused(f"{down.address} is {down.state}; weftos start {down.address} brings it back")
        return self.put_at(unit, out, address)

    def put_at(self, unit: Unit, out: Outgoing, address: str) -> Accepted:
        """The same for a process that is there and up, or is made, or started, in the same unit."""
        why = self._no_room(out, address)
        accepted = self.accept(
            unit, out, address, self._terms.rates.counts_for(out.asked_by(), self._state.rates)
        )
        if why:
            unit.say(Overflowed(accepted.id, f"{why}; its spec says {DEAD_LETTER}"))
        return accepted

    def _no_room(self, out: Outgoing, address: str) -> str:
        """Why there is no room for a message in a mailbox whose owner wants it accepted all the same, empty where there
        is. Raises what policy has against it else, or besides.
        """
        now_us = self._recorder.ledger.now_us()
        asker, send = out.asked_by(), SendMessage(address, out.text_bytes, out.size_bytes, at_us=now_us)
        verdict, slot = self._policy.judge(asker, send), self._state.slots.get(address)
        mailbox = None if slot is None else slot.spec.mailbox
        if verdict.decision == "allow":
            return ""
        why = "; ".join(verdict.reasons)
        if mailbox is None or mailbox.overflow != DEAD_LETTER or not self._lacks_room_alone(asker, send):
            raise verdict.raised()
        return why

    def _lacks_room_alone(self, asker: Asker, send: SendMessage) -> bool:
        """Whether all that speaks against it is that a mailbox is full."""
        _, said = self._policy.explain(asker, send)
        return all(verdict.error is MailboxFull for _, verdict in said if verdict.decision != "allow")

    def overflowed(self, said: Overflowed) -> None:
        """Make a dead letter of what was accepted without room for it."""

        def die() -> None:
            self.dead_letter(said.id, said.why, reason="overflow")

        self._recorder.until_writable(("overflow", said.id), die)

    def accept(self, unit: Unit, out: Outgoing, address: str, rate: str = "") -> Accepted:
        """Add the entry of a message for ``address`` to a unit, whatever it is. ``rate``: whom it counts for."""
        accepted = Accepted(unit.next_seq, address)
        body = {
            "id": accepted.id,
            "sender": out.sender,
            "to": address,
            "text": out.text,
            "session": out.session,
            "reply_to": out.reply_to,
            "wants_reply": out.wants_reply,
            "deadline_us": out.deadline_us,
            "rights": None if out.rights is None else sorted(out.rights),
            "waiting": list(out.waiting),
            "kind": out.kind,
            "topic": out.topic,
            "inbound": inbound_text(out.inbound),
            "rate": rate,
        }
        unit.add(
            Draft(
                "message.accepted", body, pid=out.pid, subject=accepted.id, trace=out.trace, cause=out.cause
            )
        )
        return accepted

    # -- death and replay ----------------------------------------------------------------------------------------

    def dead_letter(
        self, ident: str, why: str, extra: tuple[Draft | StateChange, ...] = (), reason: str = "other"
    ) -> Ticket | None:
        """Turn an accepted message into a dead letter, after the records in ``extra``; None when there is none.
        ``reason``: why in one word, of those of ``message.dead``.

        Without ``extra``, the open intents of its turn get their outcomes first. A notice of the node's own is dropped
        in the same unit: it says what is on record, nobody waits for it, and no work is lost with it.
        """
        mail = self._state.find_mail(ident)
        if mail is None:
            return None
        body = {"id": ident, "to": mail.to, "why": why, "reason": reason}
        draft = Draft("message.dead", body, subject=ident, trace=mail.trace, cause=mail.seq)
        dropped = [_dropped_notice(mail)] if mail.kind == BUDGET else []
        ticket = self._recorder.commit([*(extra or self._settle(ident)), draft, *dropped])
        self._signals.tell(TurnOver(turn_id(ident)), MessageDied(mail, why, ticket))
        self.trim()
        return ticket

    def trim(self) -> None:
        """Drop the oldest dead letters, so that the rest is within its limits."""
        drops = self._drops(self._state.dead.newest)
        if drops:
            self._recorder.must(drops)

    def _drops(self, newest: str) -> list[Draft]:
        """What drops the oldest dead letters, so that the rest is within its limits; never the newest."""
        state, bounds = self._state, self._bounds
        count, held = len(state.dead) - bounds.dead_letters, state.dead_bytes - bounds.dead_letters_bytes
        drops: list[Draft] = []
        for letter in state.dead.values():
            if (count <= 0 and held <= 0) or letter.mail.id == newest:
                break
            limit = f"{bounds.dead_letters} dead letters" if count > 0 else (
                f"{bounds.dead_letters_bytes} bytes of dead letters"
            )  # fmt: skip
            body = {"id": letter.mail.id, "why": f"more than {limit}", "by": BY_BOUND}
            drops.append(Draft("message.dropped", body, 0, letter.mail.id, letter.mail.trace, letter.seq))
            count, held = count - 1, held - letter.mail.size_bytes
        return drops

    def dead_letter_all(self, address: str, why: str) -> None:
        """Make dead letters of all mail of an address that is down: a few at a time, and later while the ledger takes
        nothing. What runs there again meanwhile gets the rest, and a message whose turn has ended is
        answered by that end.
        """
        if self._state.mail.get(address):
            self._emptying[address] = why
            if not self._resumes:
                self._dead_letter_some()

    def _dead_letter_some(self) -> None:
        self._resumes, waits = True, False
        try:
            for _ in range(DEAD_LETTERS_AT_ONCE):
                if not self._emptying:
                    break
                self._dead_letter_one(*next(iter(self._emptying.items())))
        except LedgerUnavailable:
            waits = True
            self._recorder.when_writable("dead letters", self._dead_letter_some)
        finally:
            self._resumes = bool(self._emptying) and not waits
            if self._resumes:
                asyncio.get_running_loop().call_soon(self._dead_letter_some)

    def _dead_letter_one(self, address: str, why: str) -> None:
        """Make a dead letter of the next message for ``address``, which is done with when there is none, or no letter
        can be made of it.
        """
        box: Mapping[str, Mail] = self._state.mail.get(address, {})
        ident = next((one for one in box if turn_id(one) not in self._ends), None)
        if ident is None or self._live.at(address) is not None:
            del self._emptying[address]
            return
        try:
            self.dead_letter(ident, why, reason="down")
        except LedgerUnavailable:
            raise
        except Exception:
            del self._emptying[address]
            raise


def _dropped_notice(mail: Mail) -> Draft:
    body = {"id": mail.id, "why": "a notice of a budget that nobody handles", "by": BY_POLICY}
    return Draft("message.dropped", body, 0, mail.id, mail.trace, PREVIOUS)
