"""The node's durable state, and the one reducer that makes it.

Theory of operation. Everything here is a function of the journal: :meth:`State.apply_entry` and
:meth:`State.apply_change` are called with each record in order, when it is written (live) and when it is read back
(recovery), and by nobody else. They decide nothing and touch nothing outside; a record they do not know changes
nothing; what one must be like says :mod:`kernel.state.record_forms`, which is asked before a record is written. What is
*not* here (which cell runs a process, who waits for an answer) is lost with the node, and may be.

A **slot** is a place in the supervision tree, named by its address; an **incarnation** of it has a PID. A **mail** is
an accepted message that is neither answered nor dead; it stays in its mailbox until its turn has ended. A **turn** is
open from its first delivery to ``turn.ended``, over any number of incarnations; its **calls** hold what was recorded
of each syscall, by ordinal. An **open intent** outlives its turn, until its outcome is recorded.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field
from typing import Any

from kernel.bounds import MOST_SESSIONS, MOST_SESSIONS_BYTES
from kernel.model.address import ancestors
from kernel.model.makers import AGENT, OPERATOR, is_peer
from kernel.model.spec import ProcessSpec
from kernel.state.crossings import Crossings
from kernel.state.documents import Documents
from kernel.state.open_intents import OpenIntent, OpenIntents, call_id
from kernel.state.record_forms import ERASING, EXIT, INBOX, PIDS, Change, check_entry, read_change
from kernel.state.sessions import Sessions
from kernel.state.traces import Traces
from kernel.values import canonical, cut_bytes

REMEMBERED_PIDS = 100_000
DOWN = ("stopped", "parked")  # states of a slot that runs again only when somebody starts it
CONFIGURED = ("configuration", "peers")  # digests in node.booted
CRASH_REASONS = ("crash", "timeout")


@dataclass(slots=True)
class Slot:
    """A child slot: ``state`` as in ``states.SLOT_TABLE``, ``pid`` the present or last incarnation (0: none yet).

    ``last_exit`` says of the last incarnation that ended how it did; ``made_by`` who had the slot made.
    """

    address: str
    parent: str
    spec: ProcessSpec
    spawned_seq: int
    state: str = "running"
    why: str = ""
    pid: int = 0
    restarts: int = -1
    last_exit: str = ""
    made_by: str = OPERATOR


@dataclass(frozen=True, slots=True)
class Mail:
    """An accepted message. ``rights`` are the tools its sender could use, None for a person (all).

    One to another node has its origin as ``peer``; ``answers`` (and ``status``) when it is the answer to a message of
    that node. ``waiting``: processes of other nodes that wait for its answer, the asker last.
    """

    id: str
    seq: int
    sender: str
    to: str
    text: str
    session: str
    reply_to: str
    wants_reply: bool
    deadline_us: int
    trace: bytes
    rights: frozenset[str] | None
    time_us: int
    peer: str = ""
    answers: str = ""
    status: str = ""
    answer_by_us: int = 0
    waiting: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Of its text, which is what a mailbox is bounded by."""
        return len(self.text.encode())


@dataclass(slots=True)
class Call:
    """What is recorded of one syscall. ``outcome`` None: not known yet; ``doubt``: a person or a policy must say.
    ``intent_seq``: the intent of the attempt that may be under way, -1 when there is none. ``unsettled``: an earlier
    attempt than that may have been carried out. ``replaces``: which version of its file there was before it.
    ``effects``: what the tool declared when that intent was recorded; empty: not recorded.
    """

    ordinal: str
    call_hash: str
    op: str
    seq: int
    name: str = ""
    arguments: str = ""
    intent_seq: int = -1
    attempt: int = 0
    outcome: dict[str, Any] | None = None
    doubt: bool = False
    unsettled: bool = False
    replaces: str = ""
    effects: str = ""

    @property
    def bytes(self) -> int:
        """Of what was asked and answered."""
        kept = self.outcome or {}
        return len(self.arguments.encode()) + len(str(kept.get("answer", kept.get("result", ""))).encode())


@dataclass(slots=True)
class Turn:
    """The open handling of one message. ``crashes`` counts the incarnations that died of it.

    What the first delivery was told goes for every later one, whatever the configuration says by then: ``config`` (JSON
    of the node's part of the behaviour's configuration; empty: not recorded) and ``result_bytes`` (how much of a tool's
    result is handed over; 0: not recorded). ``diverged``: JSON of the two calls when the turn is parked, else empty.
    """

    id: str
    mail: Mail
    address: str
    started_seq: int
    attempt: int = 1
    crashes: int = 0
    calls: dict[str, Call] = field(default_factory=dict)
    last_answer_seq: int = -1
    config: str = ""
    result_bytes: int = 0
    diverged: str = ""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An accepted message that could not be delivered."""

    mail: Mail
    why: str
    seq: int
    time_us: int


@dataclass(slots=True)
class Tally:
    """Messages of this ledger: accepted = acknowledged + dead + dropped + in flight.

    A message to another node counts here too: accepted when it is sent, acknowledged when that node has taken it (and
    counts it as accepted in its own tally). So a message that crosses counts once on each side.
    """

    accepted: int = 0
    acknowledged: int = 0
    dead: int = 0
    dropped: int = 0


class State:
    """Everything that survives. Read freely; change only through the two ``apply`` methods."""

    def __init__(
        self,
        session_records: int,
        session_bytes: int,
        sessions: int = MOST_SESSIONS,
        sessions_bytes: int = MOST_SESSIONS_BYTES,
    ) -> None:
        self.slots: dict[str, Slot] = {}
        self._children: dict[str, dict[str, Slot]] = {}
        self._named: dict[str, dict[str, Slot]] = {}
        self._below: Counter[str] = Counter()
        self._of_peer: dict[str, str] = {}
        self._by_peer: Counter[str] = Counter()
        self.traces = Traces()
        self.mail: dict[str, OrderedDict[str, Mail]] = {}
        self._box_of: dict[str, str] = {}
        self.turns: dict[str, Turn] = {}
        self.dead: dict[str, DeadLetter] = {}
        self.sessions = Sessions((session_records, session_bytes), sessions, sessions_bytes)
        self.dead_bytes = 0  # of the texts of dead letters
        self.kept: dict[str, int] = {}  # bytes that the calls of each open turn hold
        self.kept_bytes = 0
        self.pids: OrderedDict[int, str] = OrderedDict()
        self.pids_reserved = 0
        self.boots = 0
        self.accepted: set[int] = set()  # entries that state may contradict: a person has taken that over
        self.configured: dict[str, str] = {}  # digests of what decides and is no state, at the newest boot
        self.tally = Tally()
        self.documents = Documents()
        self.crossings = Crossings()
        self.erasing: dict[str, bytes] = {}
        self.intents = OpenIntents()
        self._handlers = {
            "node.booted": self._booted,
            "state.accepted": self._state_accepted,
            "process.spawned": self._spawned,
            "process.started": self._started,
            "process.exited": self._exited,
            "process.slot": self._slot,
            "message.accepted": self._accepted,
            "message.sent": self._sent,
            "message.acknowledged": self._acknowledged,
            "message.replied": self._answered,
            "message.unanswered": self._answered,
            "message.dead": self._dead,
            "message.replayed": self._replayed,
            "message.dropped": self._dropped,
            "turn.started": self._turn_started,
            "turn.ended": self._turn_ended,
            "turn.diverged": self._turn_diverged,
            "turn.decided": self._turn_decided,
            "model.asked": self._model_asked,
            "model.answered": self._model_answered,
            "sys.value": self._value,
            "tool.proposed": self._proposed,
            "tool.intent": self._intent,
            "tool.outcome": self._outcome,
            "tool.resolved": self._resolved,
            "memory.written": self._memory_written,
            "memory.forgotten": self._memory_forgotten,
        }

    # -- the two doors -------------------------------------------------------------------------------------------

    def apply_entry(
        self, kind: str, body: dict[str, Any] | None, seq: int, time_us: int, trace: bytes
    ) -> None:
        """Apply one ledger entry. ``body`` None: erased; such an entry is of the past and changes nothing.

        Raises EntryError for a body that it cannot take; then nothing has changed.
        """
        if body is not None:
            check_entry(kind, body)
            self.apply_checked(kind, body, seq, time_us, trace)

    def apply_checked(self, kind: str, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        """Apply an entry that :func:`kernel.state.record_forms.check_entry` has found good."""
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(body, seq, time_us, trace)

    def apply_change(self, table: str, key: str, value: bytes | None) -> None:
        """Apply one state record. Raises EntryError for one that it cannot take; then nothing has changed."""
        change = read_change(table, key, value)
        if change is not None:
            self.apply_read(change)

    def apply_read(self, change: Change) -> None:
        """Apply a state record that was read by :func:`kernel.state.record_forms.read_change`."""
        table, key, value = change
        if table == PIDS:
            self.pids_reserved = key
        elif table == ERASING:
            if value is None:
                self.erasing.pop(key, None)
            else:
                self.erasing[key] = value
        elif table == EXIT:
            if key in self.slots:
                self.slots[key].last_exit = ""
        elif table == INBOX:
            self.crossings.decided(key[0], key[1], value)
        elif value is None:
            self.sessions.forget(key)
        else:
            records, size = value
            self.sessions.add(key, records, size, self._in_turn)

    def _in_turn(self, key: tuple[str, str]) -> bool:
        """Whether a turn of this session is open."""
        turn = self.turn_of(key[0])
        return turn is not None and turn.mail.session == key[1]

    # -- processes -----------------------------------------------------------------------------------------------

    def _booted(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        self.boots += 1
        self.configured = {name: str(body[name]) for name in CONFIGURED if name in body}

    def _state_accepted(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        self.accepted.update(body["contradicted"])

    def _spawned(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        address = body["address"]
        made_by = body.get("made_by", OPERATOR)
        self.place(Slot(address, body["parent"], ProcessSpec.from_json(body["spec"]), seq, made_by=made_by))
        if made_by == AGENT:
            self.traces.add(trace, processes=1)

    def place(self, slot: Slot) -> None:
        """Take a slot into the tree."""
        address = slot.address
        if address not in self.slots:
            self._below.update(ancestors(address))
        self._forget_peer(address)
        self.slots[address] = slot
        maker = self.maker(address)
        if is_peer(maker):
            self._of_peer[address] = maker
            self._by_peer[maker] += 1
        self._children.setdefault(slot.parent, {})[address] = slot
        self._named.setdefault(slot.spec.name, {})[address] = slot

    def _started(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        self.pids[body["pid"]] = body["address"]
        if len(self.pids) > REMEMBERED_PIDS:
            self.pids.popitem(last=False)
        slot = self.slots.get(body["address"])
        if slot is not None:
            slot.pid = body["pid"]
            slot.restarts += 1
            if slot.state not in DOWN:  # a stop that crossed the start holds
                slot.state, slot.why = "running", ""

    def _exited(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        slot = self.slots.get(body["address"])
        if slot is not None:
            slot.last_exit = ": ".join(filter(None, (f"PID {body['pid']}", body["reason"], body["detail"])))
        if body["reason"].split(":", 1)[0] in CRASH_REASONS:
            turn = self.turn_of(body["address"])
            if turn is not None:
                turn.crashes += 1

    def _slot(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        slot = self.slots.get(body["address"])
        if slot is None:
            return
        if body["state"] == "removed":
            self._remove(slot)
        else:
            slot.state, slot.why = body["state"], body["why"]

    def _remove(self, slot: Slot) -> None:
        """Nothing of it is left: another of its name does not inherit its conversations."""
        address = slot.address
        del self.slots[address]
        self._forget_peer(address)
        for table, key in ((self._children, slot.parent), (self._named, slot.spec.name)):
            del table[key][address]
            if not table[key]:
                del table[key]
        for above in ancestors(address):
            self._below[above] -= 1
            if not self._below[above]:
                del self._below[above]
        self.sessions.forget_all(address)

    def below(self, address: str) -> int:
        """How many slots there are below ``address``, however deep."""
        return self._below[address]

    def child_count(self, address: str) -> int:
        """How many slots there are directly below ``address``."""
        return len(self._children.get(address, ()))

    def _forget_peer(self, address: str) -> None:
        peer = self._of_peer.pop(address, None)
        if peer is not None:
            self._by_peer[peer] -= 1
            if not self._by_peer[peer]:
                del self._by_peer[peer]

    def maker(self, address: str) -> str:
        """To whom a process counts: the peer that made it or what it is below; an agent, when some worker is above it;
        else the operator.
        """
        line = [slot for at in (address, *ancestors(address)) if (slot := self.slots.get(at)) is not None]
        peer = next((slot.made_by for slot in line if is_peer(slot.made_by)), None)
        below_worker = any(slot.spec.type == "worker" for slot in line if slot.address != address)
        return peer or (AGENT if below_worker else OPERATOR)

    def count_of(self, peer: str) -> int:
        """How many slots count to a peer (``peer:ORIGIN``)."""
        return self._by_peer[peer]

    def children(self, address: str) -> list[Slot]:
        """Slots directly below ``address``, in the order they were spawned."""
        return list(self._children.get(address, {}).values())

    def down(self, address: str) -> Slot | None:
        """The nearest slot, at ``address`` or above it, that is down until somebody starts it."""
        for at in (address, *ancestors(address)):
            slot = self.slots.get(at)
            if slot is not None and slot.state in DOWN:
                return slot
        return None

    def named(self, name: str) -> list[str]:
        """Addresses of the slots of this name."""
        return list(self._named.get(name, {}))

    def beginning(self, name: str) -> list[str]:
        """Addresses of the slots whose names begin so."""
        return [address for own, slots in self._named.items() if own.startswith(name) for address in slots]

    # -- messages ------------------------------------------------------------------------------------------------

    def _accepted(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        self.hold(_mail(body, seq, time_us, trace))
        self._arose(body, trace)
        self.tally.accepted += 1

    def hold(self, mail: Mail) -> None:
        """Put a message into its mailbox."""
        self.mail.setdefault(mail.to, OrderedDict())[mail.id] = mail
        self._box_of[mail.id] = mail.to

    def _sent(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        self.crossings.sent(_mail(body, seq, time_us, trace))
        self._arose(body, trace)
        self.tally.accepted += 1

    def _arose(self, body: dict[str, Any], trace: bytes) -> None:
        """A message was written; when no person did, it came of another. An answer is the end of one that counts."""
        if body["rights"] is not None and not body.get("answers"):
            self.traces.add(trace, messages=1)

    def _acknowledged(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        if self.crossings.take(body["id"]) is not None:
            self.tally.acknowledged += 1

    def _answered(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        self.crossings.answered(body["id"])

    def _take(self, ident: str) -> Mail | None:
        address = self._box_of.pop(ident, None)
        if address is None:
            return self.crossings.take(ident)
        box = self.mail[address]
        mail = box.pop(ident)
        if not box:
            del self.mail[address]
        return mail

    def _dead(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        mail = self._take(body["id"])
        if mail is not None:
            self.hold_dead(DeadLetter(mail, body["why"], seq, time_us))
            self.crossings.answered(mail.id)
            self.tally.dead += 1
            self._close(turn_id(mail.id))

    def hold_dead(self, letter: DeadLetter) -> None:
        """Put a message among the dead letters."""
        self._take_dead(letter.mail.id)
        self.dead[letter.mail.id] = letter
        self.dead_bytes += letter.mail.size_bytes

    def _take_dead(self, ident: str) -> DeadLetter | None:
        letter = self.dead.pop(ident, None)
        if letter is not None:
            self.dead_bytes -= letter.mail.size_bytes
        return letter

    def _replayed(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        self._take_dead(body["id"])

    def _dropped(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        if self._take_dead(body["id"]) is not None:
            self.tally.dead -= 1
            self.tally.dropped += 1

    def find_mail(self, ident: str) -> Mail | None:
        """The accepted and unanswered message of this id, or the one on its way to another node."""
        address = self._box_of.get(ident)
        return self.crossings.find(ident) if address is None else self.mail[address][ident]

    def questions(self) -> dict[str, Mail]:
        """Unanswered messages that an ask of this node waits for, by the call that asked (``reply_to``): the newest,
        when the call before it in its place was forgotten.
        """
        here = (mail for box in self.mail.values() for mail in box.values())
        asked = sorted([*here, *self.crossings.questions.values()], key=lambda mail: mail.seq)
        return {mail.reply_to: mail for mail in asked if mail.reply_to}

    @property
    def in_flight(self) -> int:
        """Messages accepted and not yet acknowledged, dead or dropped."""
        return len(self._box_of) + len(self.crossings)

    # -- turns ---------------------------------------------------------------------------------------------------

    def turn_of(self, address: str) -> Turn | None:
        """The open turn of an address: that of its oldest message, when it has begun."""
        box = self.mail.get(address)
        if not box:
            return None
        return next((self.turns[turn_id(ident)] for ident in box if turn_id(ident) in self.turns), None)

    def _turn_started(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        turn = self.turns.get(body["turn"])
        if turn is not None:
            turn.attempt, turn.started_seq = body["attempt"], seq
            return
        mail = self.mail.get(body["address"], {}).get(body["message"])
        if mail is not None:
            turn = Turn(body["turn"], mail, body["address"], seq)
            turn.config, turn.result_bytes = body.get("config", ""), body.get("result_bytes", 0)
            self.open(turn)

    def open(self, turn: Turn) -> None:
        """Take an open turn in."""
        self.turns[turn.id] = turn
        self._count(turn)

    def _count(self, turn: Turn) -> None:
        """What its calls hold is something else now than was counted."""
        held = sum(call.bytes for call in turn.calls.values())
        self.kept_bytes += held - self.kept.get(turn.id, 0)
        self.kept[turn.id] = held

    def _keep(self, turn: str, more: int) -> None:
        """The calls of a turn hold so much more."""
        if turn in self.turns:
            self.kept[turn] += more
            self.kept_bytes += more

    def _close(self, ident: str) -> Turn | None:
        self.kept_bytes -= self.kept.pop(ident, 0)
        return self.turns.pop(ident, None)

    def _turn_ended(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        turn = self._close(body["turn"])
        for ordinal in () if turn is None else turn.calls:
            self.crossings.ended(call_id(body["turn"], ordinal))
        if turn is not None and body["status"] in ("ok", "error", "cancelled") and self._take(turn.mail.id):
            self.tally.acknowledged += 1

    def _turn_diverged(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        turn = self.turns.get(body["turn"])
        if turn is not None:
            where = canonical({"ordinal": body["ordinal"], "seq": seq, "time_us": time_us})
            turn.diverged = f'{where[:-1]},"recorded":{body["recorded"]},"asked":{body["asked"]}}}'

    def _turn_decided(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        turn = self.turns.get(body["turn"])
        if turn is None:
            return
        turn.diverged = ""
        if body["decision"] == "accept":
            first = rank(body["ordinal"])
            turn.calls = {key: call for key, call in turn.calls.items() if rank(key) < first}
            self._count(turn)

    def parked(self) -> list[Turn]:
        """Turns that wait for a person because they diverged."""
        return [turn for turn in self.turns.values() if turn.diverged]

    def _call(self, body: dict[str, Any]) -> Call | None:
        turn = self.turns.get(body["turn"])
        return None if turn is None else turn.calls.get(body["ordinal"])

    def _add_call(self, body: dict[str, Any], call: Call) -> None:
        turn = self.turns.get(body["turn"])
        if turn is not None:
            before = turn.calls.get(call.ordinal)
            turn.calls[call.ordinal] = call
            self._keep(turn.id, call.bytes - (before.bytes if before else 0))
            self.intents.settle(call_id(turn.id, call.ordinal))

    def _model_asked(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        call = Call(body["ordinal"], body["call_hash"], "model", seq, arguments=body.get("asked", ""))
        call.name = resolved_name(body.get("provider", ""), body.get("model", ""), body.get("tools", []))
        self._add_call(body, call)

    def _model_answered(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        call = self._call(body)
        if call is not None:
            before = call.bytes
            call.outcome = {"status": body["status"], "answer": body["answer"]}
            call.outcome["tokens"] = [body["input_tokens"], body["output_tokens"]]
            self._keep(body["turn"], call.bytes - before)
            self.turns[body["turn"]].last_answer_seq = seq

    def _value(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        outcome = {"value": body["value"]}
        self._add_call(body, Call(body["ordinal"], body["call_hash"], body["op"], seq, outcome=outcome))

    # -- tools ---------------------------------------------------------------------------------------------------

    def _proposed(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        name, arguments = body["tool"], body["arguments"]
        call = Call(body["ordinal"], body["call_hash"], "tool", seq, name=name, arguments=arguments)
        self._add_call(body, call)

    def _intent(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        call = self._call(body)
        if call is None or call.op != "tool" or call.outcome is not None:
            return
        turn = self.turns[body["turn"]]
        call.unsettled = call.unsettled or call.intent_seq >= 0
        call.intent_seq, call.attempt = seq, body["attempt"]
        call.doubt, call.replaces = False, body.get("replaces", "")
        call.effects = body.get("effects", "")
        self.intents.hold(OpenIntent(turn.id, turn.address, turn.mail.trace, call))

    def _intended(self, body: dict[str, Any]) -> Call | None:
        """The call of an entry that may come when its turn has ended."""
        intent = self.intents.get(call_id(body["turn"], body["ordinal"]))
        return self._call(body) if intent is None else intent.call

    def _outcome(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        """The first outcome of a call stands, and only the newest attempt can give it."""
        call = self._intended(body)
        if call is None or call.op != "tool" or call.outcome is not None or call.attempt != body["attempt"]:
            return
        if body["status"] == "in_doubt":
            call.doubt = call.intent_seq >= 0
            self.intents.look(call_id(body["turn"], body["ordinal"]))
            return
        call.doubt = False
        turn, before = self.turns.get(body["turn"]), call.bytes
        most = turn.result_bytes if turn is not None else 0  # no more is ever handed over; 0: not recorded
        result, cut = cut_bytes(body["result"], most) if most else (body["result"], False)
        call.outcome = {"status": body["status"], "result": result, "truncated": cut or body["truncated"]}
        self._keep(body["turn"], call.bytes - before)
        self.intents.settle(call_id(body["turn"], body["ordinal"]))
        self.crossings.ended(call_id(body["turn"], body["ordinal"]))

    def _resolved(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        call = self._intended(body)
        if call is None:
            return
        call.doubt = False
        self.intents.look(call_id(body["turn"], body["ordinal"]))
        if body["resolution"] == "retry":  # that attempt is settled; the next one has an intent of its own
            call.intent_seq, call.unsettled, call.replaces = -1, False, ""
            self.intents.settle(call_id(body["turn"], body["ordinal"]))

    def doubts(self) -> list[OpenIntent]:
        """Calls that wait for a person, oldest first."""
        return self.intents.doubts()

    # -- memory --------------------------------------------------------------------------------------------------

    def _memory_written(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        self.documents.written(body, seq)

    def _memory_forgotten(self, body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> None:
        self.documents.forgotten(body["id"])


def _mail(body: dict[str, Any], seq: int, time_us: int, trace: bytes) -> Mail:
    """The message in the body of message.accepted or message.sent."""
    rights = body["rights"]
    return Mail(
        id=body["id"],
        seq=seq,
        sender=body["sender"],
        to=body["to"],
        text=body["text"],
        session=body["session"],
        reply_to=body["reply_to"],
        wants_reply=body["wants_reply"],
        deadline_us=body["deadline_us"],
        trace=trace,
        rights=None if rights is None else frozenset(rights),
        time_us=time_us,
        peer=body.get("peer", ""),
        answers=body.get("answers", ""),
        status=body.get("status", ""),
        answer_by_us=body.get("answer_by_us", 0),
        waiting=tuple(body.get("waiting", ())),
    )


def rank(ordinal: str) -> tuple[int, int]:
    """Where a syscall stands among those of its turn."""
    round_, _, index = ordinal.partition(".")
    return (int(round_), int(index)) if round_.isdecimal() and index.isdecimal() else (-1, -1)


def resolved_name(provider: str, model: str, tools: list[str]) -> str:
    """Whom a question to a model went to, and which tools it offered, as one text."""
    return f"{provider}/{model} ({', '.join(tools)})" if tools else f"{provider}/{model}"


def turn_id(message_id: str) -> str:
    """The turn that handles a message: message ``m12`` is handled by turn ``t12``, however often it is delivered."""
    return "t" + message_id[1:]
