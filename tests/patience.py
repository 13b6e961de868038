"""How long the tests wait for what must come. One number: ``WEFTOS_TEST_PATIENCE`` multiplies every limit here.

The limits are there to end a hang, not to judge a speed: a test that passes waits for conditions alone, and would do so
with any of them.
"""

from __future__ import annotations

import os

PATIENCE = float(os.environ.get("WEFTOS_TEST_PATIENCE", "1"))
HANG_S = 120.0 * PATIENCE
"""For one thing that must happen: a reply, a process's end, a line."""
TEST_S = 5 * HANG_S
"""For a whole test."""
