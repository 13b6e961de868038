"""What weftos' own verifier says of a published ledger or a bundle: yes or no, to be compared with other verifiers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest


def verify_says(ledger: Path, vkeys: Sequence[str], seen: Path | None = None) -> bool:
    """Whether ``weftos chain verify`` has no finding."""
    pytest.importorskip("chain.verify_tiles")
    raise NotImplementedError
