"""Code for a node's ``python_path``: a node refuses what others than its user could change, as a checkout may be."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path

from weftos.ownership import others_fault


def own_code(directory: Path) -> Path:
    """The directory, or a copy of it that is this user's alone, gone with this process."""
    if not others_fault(directory):
        return directory
    place = Path(tempfile.mkdtemp(prefix="weftos-code-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return Path(shutil.copytree(directory, place / directory.name))
