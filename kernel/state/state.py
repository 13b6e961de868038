"""The node's durable state: its slices, and which of them hear what.

Theory of operation. Everything here is a function of the journal: :meth:`State.apply_entry` and
:meth:`State.apply_change` are called with each record in order, when it is written (live) and when it is read back
(recovery), and by nobody else. They decide nothing and touch nothing outside; a record they do not know changes
nothing; what one must be like says :mod:`kernel.state.record_forms`, which is asked before a record is written. What is
*not* here (which cell runs a process, who waits for an answer) is lost with the node, and may be.

A slice (:mod:`kernel.slice`) may read those that stand before it. One that reads what an entry takes away from
another stands before that other in the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel.bounds import MOST_SESSIONS, MOST_SESSIONS_BYTES
from kernel.slice import Handler, Slice, Told
from kernel.slices.accounts import Accounts
from kernel.slices.boots import Boots
from kernel.slices.calls import Calls, OpenIntent, OpenIntents
from kernel.slices.dead_letters import DeadLetters
from kernel.slices.documents import Documents
from kernel.slices.feed.trajectories import Trajectories
from kernel.slices.feed.turn_logs import TurnLogs
from kernel.slices.history.deeds import DeedsOfSessions
from kernel.slices.history.told_files import ToldFiles
from kernel.slices.in_transit import InTransit
from kernel.slices.mail.keyed import KeyedMessages
from kernel.slices.mail.preferences import Preferences
from kernel.slices.mail.subscriptions import Subscriptions
from kernel.slices.mailboxes import Mail, Mailboxes
from kernel.slices.monitors import Monitors
from kernel.slices.rates import Rates
from kernel.slices.sessions import Sessions
from kernel.slices.tally import Tally
from kernel.slices.traces import Traces
from kernel.slices.traps import Traps
from kernel.slices.tree.pids import PidTable
from kernel.slices.tree.slots import Slots
from kernel.slices.turns import Turn, Turns
from kernel.slices.uses.tool_uses import ToolUses
from kernel.state.record_forms import Change, check_entry, read_change

HEARS: Mapping[str, tuple[str, ...]] = {
    "node.booted": ("boots", "accounts", "turn_logs", "trajectories"),
    "state.accepted": ("boots",),
    "process.spawned": ("slots", "traces", "accounts", "turn_logs"),
    "process.changed": ("slots",),
    "process.started": ("pids", "slots"),
    "process.exited": ("monitors", "slots", "turns", "accounts"),
    "process.felled": ("slots",),
    "process.ending": ("slots",),
    "process.slot": (
        "monitors",
        "traps",
        "sessions",
        "deeds",
        "told_files",
        "subscriptions",
        "preferences",
        "uses",
        "trajectories",
        "slots",
        "accounts",
        "keyed",
    ),
    "message.accepted": ("mail", "traces", "tally", "accounts", "rates", "turn_logs"),
    "message.sent": ("crossings", "traces", "tally", "accounts"),
    "process.suspended": ("slots",),
    "process.resumed": ("slots",),
    "message.acknowledged": ("tally", "crossings"),
    "message.keyed": ("keyed",),
    "message.replied": ("crossings", "keyed"),
    "message.unanswered": ("crossings", "keyed"),
    "message.dead": (
        "turn_logs",
        "trajectories",
        "accounts",
        "tally",
        "dead",
        "calls",
        "turns",
        "crossings",
        "mail",
        "keyed",
    ),
    "message.replayed": ("dead",),
    "message.dropped": ("tally", "dead"),
    "topic.subscribed": ("subscriptions",),
    "topic.unsubscribed": ("subscriptions",),
    "message.cancelled": ("tally", "mail", "keyed"),
    "turn.started": ("turns", "calls", "accounts", "turn_logs"),
    "turn.ended": (
        "turn_logs",
        "trajectories",
        "accounts",
        "tally",
        "crossings",
        "deeds",
        "calls",
        "turns",
        "mail",
        "keyed",
    ),
    "turn.rated": ("trajectories",),
    "turn.diverged": ("turns", "turn_logs"),
    "turn.decided": ("monitors", "traps", "calls", "turns", "turn_logs"),
    "model.asked": ("calls", "turn_logs"),
    "model.answered": ("turns", "calls", "accounts", "turn_logs"),
    "model.quoted": ("calls",),
    "budget.reserved": ("accounts",),
    "budget.used": ("accounts",),
    "budget.held": ("accounts",),
    "budget.granted": ("accounts",),
    "budget.changed": ("accounts",),
    "budget.warned": ("accounts",),
    "sys.value": ("calls",),
    "sys.files": ("told_files", "calls"),
    "session.preferred": ("preferences", "rates"),
    "turn.steered": ("calls", "tally", "mail", "keyed"),
    "sys.compaction": ("calls", "turn_logs"),
    "monitor.set": ("calls", "monitors"),
    "monitor.removed": ("calls", "monitors"),
    "monitor.traps": ("calls", "traps"),
    "monitor.down": ("monitors",),
    "tool.proposed": ("calls", "turn_logs"),
    "tool.verdict": ("accounts", "uses", "turn_logs"),
    "tool.intent": ("calls", "deeds", "turn_logs"),
    "tool.outcome": ("crossings", "calls", "deeds", "turn_logs"),
    "tool.probed": ("calls",),
    "tool.resolved": ("calls", "deeds", "turn_logs"),
    "memory.written": ("documents",),
    "memory.forgotten": ("documents",),
}
"""By kind, the slices that hear it, in this order."""


class State:
    """Everything that survives. Read freely; change only through the ``apply`` methods. It has an attribute for each
    slice, however many there are.
    """

    def __init__(
        self,
        session_records: int,
        session_bytes: int,
        sessions: int = MOST_SESSIONS,
        sessions_bytes: int = MOST_SESSIONS_BYTES,
    ) -> None:
        self.boots = Boots()
        self.pids = PidTable()
        self.slots = Slots()
        self.traces = Traces()
        self.documents = Documents()
        self.mail = Mailboxes()
        self.keyed = KeyedMessages()
        self.subscriptions = Subscriptions(self.slots)
        self.preferences = Preferences(self.slots)
        self.turns = Turns(self.mail)
        self.told_files = ToldFiles(self.turns)
        self.calls = Calls(self.turns, self.told_files)
        self.turn_logs = TurnLogs(self.turns)
        self.trajectories = Trajectories(self.slots, self.turns, self.turn_logs)
        self.deeds = DeedsOfSessions(self.turns)
        self.monitors = Monitors(self.slots, self.turns)
        self.traps = Traps(self.slots, self.turns)
        self.uses = ToolUses(self.slots, self.turns)
        self.accounts = Accounts(self.turns)
        self.rates = Rates()
        self.in_transit = InTransit(self.mail, self.turns, self.calls)
        self.dead = DeadLetters(self.mail, self.in_transit)
        self.tally = Tally(self.mail, self.in_transit, self.dead)
        limits = (session_records, session_bytes), sessions, sessions_bytes
        self.sessions = Sessions(*limits, self.slots, self.turns.in_session)
        self.slices: Mapping[str, Slice] = {
            one.NAME: one for one in vars(self).values() if isinstance(one, Slice)
        }
        hears = {name: one.hears() for name, one in self.slices.items()}
        self._handlers: Mapping[str, tuple[Handler, ...]] = {
            kind: tuple(hears[name][kind] for name in names) for kind, names in HEARS.items()
        }
        self._keepers = {table: keep for one in self.slices.values() for table, keep in one.keeps().items()}

    # -- the two doors -------------------------------------------------------------------------------------------

    def apply_entry(
        self, kind: str, body: dict[str, Any] | None, seq: int, time_us: int, trace: bytes, pid: int = 0
    ) -> None:
        """Apply one ledger entry. ``body`` None: erased; such an entry is of the past and changes nothing.

        Raises EntryError for a body that it cannot take; then nothing has changed.
        """
        if body is not None:
            check_entry(kind, body)
            self.apply_checked(kind, body, seq, time_us, trace, pid)

    def apply_checked(
        self, kind: str, body: dict[str, Any], seq: int, time_us: int, trace: bytes, pid: int = 0
    ) -> None:
        """Apply an entry that :func:`kernel.state.record_forms.check_entry` has found good."""
        handlers = self._handlers.get(kind)
        if handlers is not None:
            told = Told(body, seq, time_us, trace, pid)
            for handler in handlers:
                handler(told)

    def apply_change(self, table: str, key: str, value: bytes | None) -> None:
        """Apply one state record. Raises EntryError for one that it cannot take; then nothing has changed."""
        change = read_change(table, key, value)
        if change is not None:
            self.apply_read(change)

    def apply_read(self, change: Change) -> None:
        """Apply a state record that was read by :func:`kernel.state.record_forms.read_change`."""
        self._keepers[change.table](change.key, change.value)

    # -- what is read often --------------------------------------------------------------------------------------

    @property
    def intents(self) -> OpenIntents:
        return self.calls.intents

    def doubts(self) -> list[OpenIntent]:
        """Calls that wait for a person, oldest first."""
        return self.calls.intents.doubts()

    @property
    def erasing(self) -> Mapping[str, bytes]:
        """By the seq of its entry, the ranges that an erasure has still to take out of files."""
        return self.boots.erasing

    @property
    def kept_bytes(self) -> int:
        """What the calls of all open turns hold."""
        return self.calls.kept_bytes

    @property
    def mail_bytes(self) -> int:
        """What all messages hold that are neither answered nor dead, here and on their way to other nodes."""
        return self.mail.bytes + self.in_transit.bytes

    @property
    def dead_bytes(self) -> int:
        """What dead letters hold."""
        return self.dead.bytes

    @property
    def in_flight(self) -> int:
        """Messages accepted and not yet acknowledged, dead or dropped."""
        return self.tally.in_flight

    def turn_of(self, address: str) -> Turn | None:
        """The open turn of an address."""
        return self.turns.at(address)

    def parked(self) -> list[Turn]:
        """Turns that wait for a person because they diverged."""
        return self.turns.parked()

    def find_mail(self, ident: str) -> Mail | None:
        """The accepted and unanswered message of this id, or the one on its way to another node."""
        return self.mail.find(ident) or self.in_transit.find(ident)

    def questions(self) -> dict[str, Mail]:
        """Unanswered messages that an ask of this node waits for, by the call that asked (``reply_to``): the newest,
        when the call before it in its place was forgotten.
        """
        here = (mail for box in self.mail.values() for mail in box.values())
        asked = sorted([*here, *self.in_transit.questions.values()], key=lambda mail: mail.seq)
        return {mail.reply_to: mail for mail in asked if mail.reply_to}
