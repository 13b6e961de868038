"""Kinds of the node itself, and what people order."""

from __future__ import annotations

from chain.entry.fields import DIGEST, JSON, TEXT, TEXTS, WHOLE, WHOLES
from chain.entry.kind import kind

NODE = (
    kind(
        "node.booted",
        "the node has recovered and starts its processes; then it listens",
        durable=True,
        boot=(TEXT, "boot id, 16 hexadecimal digits"),
        version=(TEXT, "version of weftos"),
        engine=(TEXT, "ray or local"),
        name=(TEXT, "petname of the node"),
        origin=(TEXT, "true name of the node"),
        ed25519=(TEXT, "verifier key"),
        ml_dsa_65=(TEXT, "verifier key"),
        recovered_groups=(WHOLE, "groups replayed from the journal"),
        torn_bytes=(WHOLE, "bytes of an incomplete last group that were cut off"),
        configuration=(DIGEST, "SHA-256 of the settings in force, as canonical JSON"),
        peers=(DIGEST, "SHA-256 of the peers' rights, as canonical JSON"),
        changed=(TEXT, "which of the two are not those of the boot before"),
    ),
    kind(
        "state.accepted",
        "a person has accepted state that the node's keys had not signed, or that entries contradict; from here on "
        "it is bound by the signatures again",
        durable=True,
        reason=(TEXT, "why, in that person's words"),
        uid=(WHOLE, "user id of that person"),
        what=(TEXTS, "what was found, each with its place, and how many more there are"),
        contradicted=(WHOLES, "entries that the state contradicts, by their numbers"),
    ),
    kind(
        "node.stopped",
        "the node stopped cleanly",
        durable=True,
        boot=(TEXT, "boot id, 16 hexadecimal digits"),
        reason=(TEXT, "why it stopped"),
    ),
    kind(
        "node.disk_full",
        "the disk is full: the node is read-only until there is room",
        durable=True,
        why=(TEXT, "what the disk said"),
    ),
    kind(
        "node.unrecorded",
        "something happened that no record could be made of; what came after it is recorded",
        kinds=(TEXT, "kinds of the records that were left out"),
        why=(TEXT, "what was wrong with them"),
    ),
    kind(
        "node.clock",
        "the machine's clock and the node's differ, by more or less than before; the node's never jumps",
        ahead_us=(WHOLE, "microseconds by which the machine's is ahead, below 0 when it is behind"),
    ),
    kind(
        "node.reconciled",
        "the process table, the cells and the operating system did not agree, in two looks; it is repaired now",
        what=(TEXT, "ghost, orphan, orphan cell, lost cell or orphan process"),
        of=(TEXT, "PID, name of the cell, or id of the operating system's process"),
        why=(TEXT, "what was found, in words"),
    ),
    kind("node.disk_free", "the disk has room again: the node goes on", durable=True),
    kind(
        "operator.command",
        "a person gave a command over the control socket",
        uid=(WHOLE, "user id of the peer"),
        os_pid=(WHOLE, "operating system process id of the peer"),
        operation=(TEXT, "name of the operation"),
        arguments=(JSON, "JSON, never a secret"),
    ),
)
