"""Names of JSON objects whose fields nobody has declared, or nobody needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
Fields = Mapping[str, Any]
"""One that is only read; every answer of a node is one."""
