"""Files that go with a message: what of them a node is told."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

OPTION = "'--attach'"
MAX_BYTES = 64 * 2**20
MAX_TEXT_BYTES = 65_536


def attached(paths: Sequence[str] | None) -> tuple[dict[str, Any], ...]:
    """Name, type, size and hash of each file, and its text where it is a short one. Raises BadParameter."""
    return tuple(_attached(Path(path)) for path in paths or ())


def _attached(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be read: {error.strerror}", param_hint=OPTION) from error
    if len(content) > MAX_BYTES:
        raise typer.BadParameter(f"{path} has more than {MAX_BYTES} bytes", param_hint=OPTION)
    kind = mimetypes.guess_type(path.name)[0]
    text = _text(content)
    return {
        "name": path.name,
        "type": kind or ("text/plain" if text else "application/octet-stream"),
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "text": text,
    }


def _text(content: bytes) -> str:
    """Empty for what is too long, or no text."""
    if len(content) > MAX_TEXT_BYTES or b"\0" in content:
        return ""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return ""
