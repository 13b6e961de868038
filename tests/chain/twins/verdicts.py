"""What weftos' own verifier says of a published ledger or a bundle: yes or no, to be compared with other verifiers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from chain.errors import VerifierKeyError
from chain.verify.verify_bundle import verify_bundle
from chain.verify.verify_tiles import verify_tiles


def verify_says(ledger: Path, vkeys: Sequence[str], seen: Path | None = None) -> bool:
    """Whether ``weftos chain verify`` has no finding, and no other reason to refuse it."""
    verify = verify_tiles if ledger.is_dir() else verify_bundle
    notes = [seen.read_bytes()] if seen else []
    try:
        return not verify(ledger, vkeys, seen=notes).findings
    except (VerifierKeyError, OSError):  # its command answers with an error: a bad key, an unreadable file
        return False
