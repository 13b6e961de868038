"""What must hold of a node: at any moment, when it is quiet, and of all that it has ever written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from chain.entry.entry import encode_body
from chain.entry.record import EntryRecord
from kernel.model.address import ROOT
from kernel.model.address import parent as parent_of
from kernel.model.states import ProcessState
from kernel.peer.outboxes import MAYBE, own_id
from kernel.process.slots.specs import child_spec, flags_of
from kernel.slices.calls import call_id
from kernel.slices.mailboxes import ASKED_LATER_US, MESSAGE, turn_id
from kernel.slices.tree.slots import DOWN
from kernel.state.state import State
from kernel.state.state_snapshot import encode_state, restore_state
from kernel.supervision.supervisor import Phase
from tests.kernel.twins.books import faults
from tests.simulation.ledger import SimulatedLedger
from tests.simulation.node import Node
from tests.simulation.setting import OWN, make_state
from tests.simulation.world import World, plan_of
from weftos.audit.questions import Questions, Unreadable

EFFECTFUL = {tool.name for tool in OWN if tool.effects != "none"} | {"file_write"}
OVERDUE_US = 100_000  # what a node takes to make a dead letter of each, where it makes one at a time
NOTHING_DONE = ("killed", "denied")
HUNG = "the turn did not end within"  # nothing here takes that long


def of_the_state(state: State) -> list[str]:
    """What holds of the state between any two commits: a crash could leave it so."""
    tally = state.tally
    broken = []
    if tally.accepted != tally.acknowledged + tally.dead + tally.dropped + state.in_flight:
        broken.append(f"messages do not balance: {tally}, {state.in_flight} in flight")
    broken += [f"a budget does not add up: {fault}" for fault in faults(state.accounts.book)]
    for account in state.accounts.book.accounts.values():
        if account.address not in state.slots:
            broken.append(f"{account.address} has an account, and is no more")
        for counted in ("tool_calls", "messages"):
            line = account.lines.get(counted)
            sent_again = counted == "messages" and any(letter.replays for letter in state.dead.values())
            if line is not None and line.left < 0 and not sent_again:  # a person's word stands above a budget
                broken.append(f"{account.address} has used more {counted} than it was granted: {line}")
    for address in state.mail:
        if address not in state.slots:
            broken.append(f"mail of {address}, which is no more")
    for address, slot in state.slots.items():
        if parent_of(address) != ROOT and parent_of(address) not in state.slots:
            broken.append(f"{address} is left of {slot.parent}, which is no more")
    return broken


def at_any_moment(node: Node) -> list[str]:
    """Cheap enough to be asked after each step."""
    state, broken = node.state, of_the_state(node.state)
    addresses = Counter(process.address for process in node.kernel.live.all())
    broken += [f"{address} has {count} processes" for address, count in addresses.items() if count > 1]
    for process in node.kernel.live.all():
        if process.address != ROOT and process.address not in state.slots:
            broken.append(f"PID {process.pid} runs at {process.address}, which has no slot")
    return broken + _waits_for_nobody(node) + _overdue(node)


def _overdue(node: Node) -> list[str]:
    """Messages whose time is over, whose turn has not begun, and that wait all the same; looked for once the disk has
    all.
    """
    if node.ledger.refusal is not None or node.ledger.unwritten or node.kernel.recorder.waiting:
        return []
    latest_us = node.ledger.now_us() - ASKED_LATER_US - OVERDUE_US
    return [
        f"{mail.id} waits at {mail.to}, and its time was over at {mail.deadline_us}"
        for box in node.state.mail.values()
        for mail in box.values()
        if 0 < mail.deadline_us < latest_us and turn_id(mail.id) not in node.state.turns
    ]


def _waits_for_nobody(node: Node) -> list[str]:
    """Processes that wait for a person, who has nothing to decide; looked for once the disk has all."""
    if node.ledger.unwritten or node.kernel.recorder.waiting:
        return []
    waits = [one for one in node.kernel.live.all() if one.state is ProcessState.SUSPENDED]
    return [
        f"PID {process.pid} waits for a person, and nothing of {turn.id} is in doubt"
        for process in waits
        if (turn := node.state.turns.get(process.turn)) is not None
        and not any(call.doubt for call in turn.calls.values())
    ]


def stays_stopped(node: Node, stopped: Mapping[str, int]) -> list[str]:
    """What a person has stopped, and was told so, is down until it is started by hand. ``stopped``: by the address,
    which entry made it.
    """
    slots = node.state.slots
    return [
        f"{address} was stopped by a person, and is {slot.state}"
        for address, seq in stopped.items()
        if (slot := slots.get(address)) is not None and slot.spawned_seq == seq and slot.state not in DOWN
    ]


def replay_is_live(node: Node) -> list[str]:
    """What a replay would come to is what the node has."""
    if encode_state(node.replayed()) == encode_state(node.state):
        return []
    return ["a replay comes to another state than the node has"]


def snapshot_is_whole(node: Node) -> list[str]:
    """What is restored from a snapshot of the state would be written as the same snapshot."""
    kept, restored = encode_state(node.state), make_state()
    restore_state(restored, kept)
    return [] if encode_state(restored) == kept else ["a snapshot comes to another state than the node has"]


def unrest(node: Node) -> list[str]:
    """What is not quiet yet."""
    state, kernel = node.state, node.kernel
    restless = [f"{kernel.recorder.waiting} wait for the disk"] if kernel.recorder.waiting else []
    restless += [f"{mail.id} waits at {mail.to}" for box in state.mail.values() for mail in box.values()]
    restless += [f"{intent.id} has no outcome" for intent in state.intents]
    restless += [f"{turn} is open" for turn in state.turns]
    restless += [f"the end of monitor {ref} is not told" for ref in _untold(node)]
    restless += [f"{ident} is in an outbox" for box in state.in_transit.outbox.values() for ident in box]
    restless += [
        f"question {mail.id} has no answer" for mail in state.in_transit.questions.values() if mail.reply_to
    ]
    if kernel.processes.effects.unfinished:
        restless.append("effects of supervisors wait")
    restless += [
        f"a restart of several below {address} is under way"
        for address, supervisor in kernel.processes.supervisors.items()
        if supervisor.group is not None
    ]
    restless += [what for address in state.slots for what in _unsteady(node, address)]
    return restless


def _untold(node: Node) -> list[str]:
    """Monitors of what is not there."""
    monitors, live = node.state.monitors, node.kernel.live
    return [ref for ref, one in monitors.items() if not one.peer and live.get(one.pid) is None]


def _unsteady(node: Node, address: str) -> list[str]:
    """Slot, process, and what its supervisor takes for it, agree."""
    slot, process = node.state.slots[address], node.kernel.live.at(address)
    supervisor = node.kernel.processes.supervisors.get(parent_of(address))
    name = address.rpartition("/")[2]
    child = supervisor.table.get(name) if supervisor is not None else None
    if node.state.slots.down(address) is not None:
        return [] if process is None else [f"PID {process.pid} runs at {address}, which is down"]
    if slot.state in DOWN:
        return []
    if process is None:
        return [f"nothing runs at {address}, which is {slot.state}"]
    found = []
    if process.state is not ProcessState.RUNNING or process.draining:
        found.append(f"PID {process.pid} at {address} is {process.state}")
    if child is None:
        found.append(f"PID {process.pid} runs at {address}, and its supervisor knows nothing of it")
    elif child.phase is not Phase.UP or child.pid != process.pid:
        found.append(
            f"PID {process.pid} runs at {address}, its supervisor has {child.phase}, PID {child.pid}"
        )
    if slot.pid != process.pid:
        found.append(f"PID {process.pid} runs at {address}, the record has {slot.pid}")
    return found


def of_the_tree(node: Node) -> list[str]:
    """Every supervisor has the flags, and its children in the order and with the specs, that the slots have; once all
    is quiet.
    """
    broken = []
    slots = node.state.slots
    for address, supervisor in node.kernel.processes.supervisors.items():
        if address == ROOT:
            continue
        meant = [child_spec(slot.spec) for slot in slots.children(address)]
        have = [child.spec for child in supervisor.children]
        if have != meant:
            broken.append(f"the supervisor at {address} has {have}, the slots {meant}")
        if supervisor.flags != flags_of(slots[address]):
            broken.append(
                f"the supervisor at {address} has {supervisor.flags}, the slot {slots[address].spec}"
            )
    return broken + [
        f"{address} has children, and nobody supervises them"
        for address in slots
        if slots.children(address) and address not in node.kernel.processes.supervisors
    ]


def of_who_runs(node: Node, running: Mapping[str, int]) -> list[str]:
    """Whoever runs by the entries does so, and nobody else; once all is quiet."""
    live = {process.address: process.pid for process in node.kernel.live.all() if process.address != ROOT}
    return [] if live == running else [f"by the entries {dict(running)} run, and {live} do"]


class Record:
    """All that a ledger holds, by what is asked of it."""

    def __init__(self, ledger: SimulatedLedger) -> None:
        self.accepted: dict[str, dict[str, Any]] = {}
        self.sent: dict[str, dict[str, Any]] = {}  # to the other node
        self.acknowledged: set[str] = set()  # by it
        self.replies: dict[str, list[tuple[str, str]]] = {}  # of it
        self.unanswered: list[str] = []
        self.given_up: dict[str, str] = {}  # those of them, and why
        self.replays: set[str] = set()  # messages that dead letters were sent again as
        self.ended: dict[str, list[dict[str, Any]]] = {}
        self.dead: dict[str, str] = {}
        self.cancelled: dict[str, str] = {}
        self.outcomes: dict[str, list[dict[str, Any]]] = {}
        self.intents: dict[str, list[dict[str, Any]]] = {}
        self.taken_back: dict[str, int] = {}  # the newest intents that are settled without an outcome
        self.unmade: list[int] = []  # intents of which the node says that they were not carried out
        self.again: list[str] = []  # turns that were begun after their end
        self.monitors: dict[str, dict[str, Any]] = {}
        self.taken: list[str] = []  # references of monitors that were taken back
        self.downs: dict[str, list[dict[str, Any]]] = {}
        self.exits: dict[int, str] = {}
        self.joined: dict[str, list[dict[str, Any]]] = {}  # of links, each call that gave them
        self.unproved: list[str] = []  # requests to models that cannot be put together as they were hashed
        questions = Questions()
        for entry, body in ledger.kept.entries:
            match entry.kind:
                case "message.accepted":
                    self.accepted[body["id"]] = body
                case "message.sent":
                    self.sent[body["id"]] = body
                case "message.acknowledged":
                    self.acknowledged.add(body["id"])
                case "message.replied":
                    self.replies.setdefault(body["id"], []).append((body["status"], body["reply"]))
                case "message.unanswered":
                    self.unanswered.append(body["id"])
                    self.given_up[body["id"]] = body["why"]
                case "model.asked" if not body["truncated"]:
                    try:
                        questions.read(EntryRecord(entry, b"", b"", b"", encode_body(body), 0, "", 0))
                    except Unreadable as error:
                        self.unproved.append(str(error))
                case "monitor.set" if body["ref"]:
                    self.monitors.setdefault(body["ref"], body)
                    self.joined.setdefault(body["ref"], []).append(body)
                case "monitor.removed" if body["found"]:
                    self.taken.append(body["ref"])
                case "monitor.down":
                    self.downs.setdefault(body["ref"], []).append(body)
                case "process.exited":
                    self.exits[body["pid"]] = body["reason"]
                case "message.replayed":
                    self.replays.add(body["as"])
                case "message.dead":
                    self.dead[body["id"]] = body["why"]
                case "turn.started" if body["turn"] in self.ended:
                    self.again.append(body["turn"])
                case "message.cancelled":
                    self.cancelled[body["id"]] = body["why"]
                case "turn.ended":
                    self.ended.setdefault(body["turn"], []).append(body)
                case "tool.intent":
                    call = call_id(body["turn"], body["ordinal"])
                    self.intents.setdefault(call, []).append({**body, "seq": entry.seq})
                    self.taken_back.pop(call, None)
                case "tool.resolved" if body["resolution"] == "retry":
                    call = call_id(body["turn"], body["ordinal"])
                    self.taken_back[call] = self.intents[call][-1]["seq"]
                    if body["by"].startswith("node: it had not begun"):
                        self.unmade.append(self.taken_back[call])
                case "tool.outcome":
                    self.outcomes.setdefault(call_id(body["turn"], body["ordinal"]), []).append(body)

    @property
    def settled(self) -> set[str]:
        """The calls that have an outcome."""
        return {
            call
            for call, bodies in self.outcomes.items()
            if any(body["status"] != "in_doubt" for body in bodies)
        }

    def end_of(self, message: str) -> tuple[str, str] | None:
        """What may be told of a message."""
        if message in self.dead:
            return "dead", self.dead[message]
        if message in self.replies:
            return self.replies[message][0]
        if message in self.given_up:
            return "error", self.given_up[message]
        if message in self.cancelled:
            return "cancelled", self.cancelled[message]
        if message in self.acknowledged:
            return "acknowledged", ""
        ends = self.ended.get(turn_id(message))
        return (ends[0]["status"], ends[0]["reply"]) if ends else None


def of_the_record(node: Node, world: World) -> list[str]:
    """Of all that is on the disk, held against what the world saw; at the quiet end."""
    record = Record(node.ledger)
    broken = list(record.unproved)
    broken += [f"{turn} was begun again after its end" for turn in record.again]
    broken += [f"{turn} has {len(ends)} ends" for turn, ends in record.ended.items() if len(ends) > 1]
    broken += [
        f"{turn} hung: {ends[0]['reply']}" for turn, ends in record.ended.items() if HUNG in ends[0]["reply"]
    ]
    for sent in world.sent.values():
        held = record.accepted.get(sent.id) or record.sent.get(sent.id) or {}
        if sent.acknowledged and held.get("text") != sent.text:
            broken.append(f"{sent.id} was acknowledged, and the disk has {held}")
        if sent.acknowledged and record.end_of(sent.id) is None:
            broken.append(f"{sent.id} was acknowledged, and has no end")
    for call, intents in record.intents.items():
        ends = [body for body in record.outcomes.get(call, []) if body["status"] != "in_doubt"]
        if not ends and call in record.taken_back:
            continue
        if not ends:
            broken.append(f"{call} ({intents[0]['tool']}) has no outcome")
        elif intents[0]["tool"] in EFFECTFUL:
            broken += _true(call, ends[0], world)
    made = {one.intent for attempts in world.attempts.values() for one in attempts}
    broken += [
        f"intent {seq} was carried out, and the node says it was not" for seq in record.unmade if seq in made
    ]
    broken += _of_monitors(record)
    return broken + [
        f"{call} was made without an intent" for call in world.attempts if call not in record.intents
    ]


def _of_monitors(record: Record) -> list[str]:
    """Each was told once at most, by a message that was accepted, with the reason that is recorded, and none that was
    taken back.
    """
    broken = [f"{ref} was told {len(ends)} times" for ref, ends in record.downs.items() if len(ends) > 1]
    broken += [f"{ref} was taken back, and told" for ref in record.taken if ref in record.downs]
    for ref, [end, *_] in record.downs.items():
        monitor, accepted = record.monitors.get(ref), record.accepted.get(end["message"], {})
        if monitor is not None and monitor["link"]:
            broken += _of_link(record, end, record.joined[ref], accepted)
        elif monitor is None or accepted.get("kind") != "down" or accepted["to"] != end["watcher"]:
            broken.append(f"{ref} was told by {accepted}, and was set by {monitor}")
        elif monitor["pid"] and end["reason"] != record.exits.get(monitor["pid"], "noconnection"):
            broken.append(f"{ref} says {end['reason']} of {monitor['pid']}, the record {record.exits}")
    return broken


def _of_link(
    record: Record, end: dict[str, Any], calls: list[dict[str, Any]], accepted: dict[str, Any]
) -> list[str]:
    """It ended with one of the two, for the reason that is recorded of that one or because its node was lost; and the
    other is one that it binds.
    """
    broken, ref = [], end["ref"]
    if end["message"] and (accepted.get("kind") != "exit" or accepted["to"] != end["watcher"]):
        broken.append(f"{ref} was told by {accepted}, and is for {end['watcher']}")
    pids = {call["pid"] for call in calls} | {call["watcher_pid"] for call in calls}
    reasons = {record.exits.get(pid, "noconnection") for pid in pids - {0}}
    if not calls[0]["peer"] and calls[0]["pid"] and end["reason"] not in reasons:
        broken.append(f"{ref} says {end['reason']}, the record of {sorted(pids)} {sorted(reasons)}")
    bound = calls[0]["watcher_pid"] or any(call["turn"] != calls[0]["turn"] for call in calls)
    if end["watcher"] == calls[0]["address"] and not calls[0]["peer"] and not bound:
        broken.append(f"{ref} is for {end['watcher']}, which is not bound")
    return broken


def of_what_came(sender: Node, receiver: Node) -> list[str]:
    """Of all that went from one node to the other, as the disks of both have it: nothing is there more often than it
    went out and may have been delivered. A dead letter that a person replays goes out as a message of its own.
    """
    out, there = Record(sender.ledger), Record(receiver.ledger)
    maybe = [body for ident, body in out.sent.items() if MAYBE in out.dead.get(ident, MAYBE)]
    gone = Counter(body["text"] for body in maybe if not body["answers"])
    origin = f"@{sender.kernel.remote.mesh.origin}"
    came = Counter(
        body["text"]
        for ident, body in there.accepted.items()
        if body["sender"].endswith(origin) and body["kind"] == MESSAGE and ident not in there.replays
    )
    broken = [
        f"{plan_of(text)['name']} was accepted {count} times, and {gone[text]} of it can have come"
        for text, count in came.items()
        if count > gone[text]
    ]
    answered = Counter(own_id(body["answers"]) for body in maybe if body["answers"])
    for ident, replies in there.replies.items():
        ends = len(replies) + there.unanswered.count(ident) + (ident in there.dead)
        if ends > 1 or not answered[ident]:
            broken.append(f"{ident} has {ends} ends, and {answered[ident]} answers can have come")
    return broken


def _true(call: str, outcome: dict[str, Any], world: World) -> list[str]:
    """What the outcome of a call with effects says is what was done."""
    attempts = world.attempts.get(call, [])
    done, status = sum(one.effects for one in attempts), outcome["status"]
    by_person = outcome["result"].endswith("a person confirmed it")
    told = f"{call} is {status} ({outcome['result'][:80]}), and was done {done} times"
    if status == "ok" and not done and not by_person and outcome["result"] != "it is there":
        return [told]
    nothing = status in NOTHING_DONE or "not be started" in outcome["result"]
    by_probe = any(one.tool == "book" for one in attempts) and "probe said" in outcome["result"]
    if (nothing or by_probe) and done and call not in world.words:
        return [told]
    if done > 1 and not any(one.end == "lost" for one in attempts) and call not in world.words:
        return [told]
    return []
