"""Kinds of keys and erasure."""

from __future__ import annotations

from chain.entry.fields import BYTES, RANGES, TEXT, WHOLE
from chain.entry.kind import kind

UPKEEP = (
    kind(
        "key.rotated",
        "other keys sign from this entry on; alone in its group, and its body is never erased",
        durable=True,
        ed25519=(TEXT, "the new verifier key"),
        ml_dsa_65=(TEXT, "the new verifier key"),
        number=(WHOLE, "1 for the first rotation"),
        reason=(TEXT, "why, as the operator said"),
        old_ed25519=(BYTES, "signature of the old Ed25519 key over the statement"),
        old_ml_dsa_65=(BYTES, "signature of the old ML-DSA-65 key over the statement"),
        new_ed25519=(BYTES, "signature of the new Ed25519 key over the statement"),
        new_ml_dsa_65=(BYTES, "signature of the new ML-DSA-65 key over the statement"),
    ),
    kind(
        "erase",
        "the bodies of some entries are gone for good; the entries stay, and the tree with them",
        durable=True,
        ranges=(RANGES, "list of [first, last] entries whose bodies are gone"),
        by=(TEXT, "who asked for it"),
        reason=(TEXT, "why"),
    ),
)
