"""Kinds of other nodes."""

from __future__ import annotations

from chain.entry.fields import DIGEST, JSON, TEXT, TEXTS, TEXTS_OR_NIL, WHOLE
from chain.entry.kind import ORIGIN, kind

PEERS = (
    kind(
        "peer.added",
        "a node is in the allow list from now on",
        durable=True,
        origin=ORIGIN,
        name=(TEXT, "petname"),
        address=(TEXT, "where it is dialled, empty when it dials"),
        may=(TEXTS, "what it may: of send, ps, spawn and kill"),
        tools=(
            TEXTS_OR_NIL,
            "tools that are used for it here, by name; * is every tool, null those without effects",
        ),
        how=(TEXT, "operator, or the join token by its id"),
    ),
    kind(
        "peer.removed",
        "a node is in the allow list no longer",
        durable=True,
        origin=ORIGIN,
        name=(TEXT, "petname"),
    ),
    kind(
        "peer.up",
        "there is a link with a peer",
        origin=ORIGIN,
        name=(TEXT, "petname"),
        boot=(TEXT, "its boot id"),
    ),
    kind(
        "peer.down",
        "a peer is lost",
        origin=ORIGIN,
        name=(TEXT, "petname"),
        why=(TEXT, "what ended the link"),
    ),
    kind(
        "peer.refused",
        "a link or a word of another node was refused; written at most once a second",
        who=(TEXT, "origin when it was proved, else an address"),
        why=(TEXT, "which rule it broke"),
        more=(WHOLE, "how many refusals before this one were not written"),
    ),
    kind(
        "peer.head",
        "a newer tree head of a peer is kept; written at most once a minute for each",
        origin=ORIGIN,
        size=(WHOLE, "entries that it covers"),
        root=(DIGEST, "root hash"),
    ),
    kind(
        "peer.conflict",
        "a peer showed a head that contradicts the one kept: no further is taken until a person decides",
        durable=True,
        origin=ORIGIN,
        name=(TEXT, "petname"),
        why=(TEXT, "which rule it broke"),
        kept_size=(WHOLE, "entries that the head kept covers"),
        kept_root=(DIGEST, "its root hash"),
        shown_size=(WHOLE, "entries that the head shown covers"),
        shown_root=(DIGEST, "its root hash"),
        kept=(TEXT, "the signed note of the head kept"),
        shown=(TEXT, "the signed note of the head shown"),
    ),
    kind(
        "peer.decided",
        "a person decided which of two heads of a peer counts",
        durable=True,
        origin=ORIGIN,
        name=(TEXT, "petname"),
        counts=(TEXT, "kept or shown"),
        size=(WHOLE, "entries that the head covers which counts"),
        root=(DIGEST, "its root hash"),
        reason=(TEXT, "what the person gave as the reason"),
        by=(TEXT, "operator"),
    ),
    kind(
        "peer.command",
        "a peer asked for something that it is granted",
        principal=(TEXT, "peer: and its origin"),
        name=(TEXT, "petname"),
        operation=(TEXT, "spawn or kill"),
        arguments=(JSON, "JSON"),
    ),
)
