"""Where the files are that tests read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The repository."""
SHARED = ROOT.parent / "shared"
"""Vectors and corpora of others, beside the repository; tests that want them are skipped where it is absent."""
