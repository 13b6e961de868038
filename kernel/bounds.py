"""Every limit of the kernel in one place: what somebody else can make grow is bounded here.

``Bounds()`` has the defaults; ``check(bounds) -> list[str]`` names every fault at once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

KIB = 1024
MIB = 1024 * KIB
MOST_SESSIONS = 10_000
MOST_SESSIONS_BYTES = 256 * MIB


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one node. Sizes in bytes, durations in seconds, all others counts."""

    # Processes and supervision
    processes: int = 20_000
    children: int = 10_000
    operator_reserve: int = 1_000  # of these two, for the operator alone; never more than half of either
    agent_children: int = 100  # that an agent may have
    agent_subtree: int = 1_000  # below the uppermost agent
    peer_processes: int = 1_000  # that count to one peer: what it made here, and all below
    agent_spawns_per_trace: int = 100  # by agents, because of one message from outside
    agent_sessions: int = 1_000  # of chats, that one agent keeps; the one that slept the longest goes
    running_sessions: int = 64  # of these; the one idle longest falls asleep
    session_idle_s: float = 900.0  # after which a session falls asleep
    processes_per_cell: int = 512
    warm_cells: int = 4  # spare at most, for processes that want cells of their own at once
    start_timeout_s: float = 10.0
    hang_s: float = 5.0  # that a process may hold its cell without awaiting anything
    cell_memory_mib: int = 2_048  # that a cell may have of its own; 0: any amount

    # Messages
    mailbox_messages: int = 1_024
    mailbox_bytes: int = 16 * MIB
    message_bytes: int = 256 * KIB
    mail_bytes: int = 512 * MIB  # of all mailboxes and outboxes; the last eighth is for people
    peer_mail_bytes: int = 64 * MIB  # of the messages of one peer that are in mailboxes
    messages_per_trace: int = 1_000  # that agents may send because of one message from outside
    dead_letters: int = 10_000
    dead_letters_alert: int = 100  # that wait for a person; with as many, status tells of it
    dead_letters_bytes: int = 64 * MIB
    ask_timeout_s: float = 30.0
    watchers: int = 256
    monitors: int = 20_000  # that processes have set, in all
    process_monitors: int = 1_000  # of one process, with the messages in its mailbox
    subscriptions: int = 20_000  # to topics, in all
    process_subscriptions: int = 100
    pattern_subscribers: int = 50  # of one pattern; nine patterns at most name one topic
    publication_receivers: int = 500  # all of them are one unit of records
    publication_bytes: int = 16 * MIB  # of all the messages that one publication becomes

    # Other nodes, each count for one peer
    carriage_s: float = 60.0
    outbox_messages: int = 10_000
    outbox_bytes: int = 64 * MIB
    peer_calls: int = 64
    peer_monitors: int = 1_000
    peer_sessions: int = 1_000
    peer_refusals: int = 1_000
    peer_refusals_per_s: float = 100.0

    # Turns
    turn_timeout_s: float = 3600.0  # of one delivery; while a person is waited for, it does not end
    turn_attempts: int = 5  # incarnations that crash in it
    turn_losses: int = 20  # those whose cell dies, in it, and nobody is to blame
    calls_per_round: int = 64
    worker_calls_per_turn: int = 5  # of one turn that are with workers at once; the others wait
    syscalls_per_turn: int = 1_000
    same_calls: int = 100  # of a tool, in a row in one turn, alike and with the same result; 0: any number
    failed_calls: int = 50  # of tools, or of models, in a row in one turn; 0: any number
    reply_bytes: int = 256 * KIB
    session_records: int = 200
    session_bytes: int = 1 * MIB
    sessions: int = MOST_SESSIONS  # of the node; the one that was added to longest ago goes
    sessions_bytes: int = MOST_SESSIONS_BYTES
    turn_bytes: int = 64 * MIB  # that the calls of one open turn hold
    turns_bytes: int = 512 * MIB  # that those of all open turns hold

    # Tools and models
    tool_arguments_bytes: int = 256 * KIB
    tool_result_bytes: int = 64 * KIB
    doubts: int = 1_000  # that wait for a person; while there are as many, nothing more with effects is done
    doubts_bytes: int = 64 * MIB
    probe_timeout_s: float = 10.0  # what a tool's probe may take once it has begun
    probe_wait_s: float = 60.0  # and with the wait for its worker
    tool_record_bytes: int = 1 * MIB - 16 * KIB  # body_bytes, less room for the other fields
    model_request_bytes: int = 8 * MIB
    model_messages: int = 1_024
    model_answer_bytes: int = 512 * KIB
    model_timeout_s: float = 300.0
    model_back_off_s: float = 600.0  # that a process may have a question put later
    output_schema_bytes: int = 64 * KIB  # of what an answer is to be

    asked_bytes: int = 64 * MIB  # of the calls of one turn that have no answer yet
    all_asked_bytes: int = 512 * MIB  # of those of all turns

    # Memory
    documents: int = 500_000
    documents_bytes: int = 4096 * MIB
    documents_per_owner: int = 50_000
    memory_query_bytes: int = 4 * KIB
    memory_results: int = 50
    memory_result_bytes: int = 48 * KIB
    memory_timeout_s: float = 10.0

    # Ledger
    body_bytes: int = 1 * MIB


OFF = ("same_calls", "failed_calls", "cell_memory_mib")
"""Those that 0 puts out of force."""

STATE_LIMITS = ("session_records", "session_bytes", "sessions", "sessions_bytes")
"""Those that a replay holds sessions to where an earlier version wrote them; since then what goes is recorded."""


def check(bounds: Bounds) -> list[str]:
    """Every fault of ``bounds`` in words; empty when there is none."""
    faults = [
        f"{field.name} is {getattr(bounds, field.name)}, must be above 0"
        for field in fields(bounds)
        if not (getattr(bounds, field.name) > 0 or (field.name in OFF and getattr(bounds, field.name) == 0))
    ]
    for part, whole in (
        ("message_bytes", "mailbox_bytes"),
        ("message_bytes", "body_bytes"),
        ("message_bytes", "outbox_bytes"),
        ("message_bytes", "dead_letters_bytes"),
        ("message_bytes", "peer_mail_bytes"),
        ("message_bytes", "publication_bytes"),
        ("peer_mail_bytes", "mail_bytes"),
        ("session_bytes", "sessions_bytes"),
        ("turn_bytes", "turns_bytes"),
        ("model_request_bytes", "asked_bytes"),
        ("asked_bytes", "all_asked_bytes"),
        ("reply_bytes", "body_bytes"),
        ("tool_arguments_bytes", "body_bytes"),
        ("tool_record_bytes", "body_bytes"),
        ("tool_arguments_bytes", "doubts_bytes"),
        ("model_answer_bytes", "body_bytes"),
        ("tool_result_bytes", "tool_record_bytes"),
    ):
        if getattr(bounds, part) > getattr(bounds, whole):
            faults.append(
                f"{part} is {getattr(bounds, part)}, must not be above {whole}, {getattr(bounds, whole)}"
            )
    return faults
