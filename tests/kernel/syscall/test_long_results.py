"""A real worker returns more than a body may hold: recorded up to the limit, with the hash of all of it."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path

import pytest

from chain.entry.entry import MAX_BODY_BYTES
from chain.verify.verify import verify
from kernel.toolbox.registry import ToolSource
from kernel.worker.workers import WorkerLimits, Workers, worker_command
from tests.kernel.syscall.test_tool_calls import turn_of_ada
from tests.kernel.turn.test_turns import on_twin
from tests.kernel.twins.kernel_twin import Twin

BOOT = 7  # the twin's
MODULE = '''
from weftos import tool

@tool
def pay(count: int) -> str:
    """Return so many two-byte characters behind one of a single byte."""
    return "x" + "é" * count
'''


@pytest.mark.parametrize(
    ("count", "cut"),
    [(3 * 2**19, True), (MAX_BODY_BYTES // 2, True), (MAX_BODY_BYTES // 2 - 16 * 1024, False)],
)
def test_a_result_of_any_length_is_recorded_and_never_refused(tmp_path: Path, count: int, cut: bool) -> None:
    """Three megabytes; one byte too many for a body; the longest that has room in one."""
    home = tmp_path / "workers"
    node = tmp_path / "node"
    home.mkdir()
    node.mkdir()
    (home / "long_tools.py").write_text(MODULE)
    whole = ("x" + "é" * count).encode()

    async def body(twin: Twin) -> None:
        workers = Workers(
            BOOT,
            twin.ledger.keys.ed25519.text,
            partial(worker_command, cwd=home, logs=home, limits=WorkerLimits()),
            [ToolSource("pay", "long_tools:pay", (str(home),))],
        )
        twin.workers.run = workers.run  # type: ignore[method-assign]
        try:
            at = await turn_of_ada(twin)
            outcome = await twin.call_tool(at, "pay", {"count": count})
        finally:
            await workers.close()
        assert (outcome["status"], outcome["truncated"]) == ("ok", True)
        [record] = await twin.entries("tool.outcome")
        recorded = record.body
        assert (recorded["status"], recorded["truncated"]) == ("ok", cut)
        assert recorded["result_hash"] == hashlib.sha256(whole).hexdigest()
        kept = recorded["result"].encode()
        assert whole.startswith(kept)
        assert record.body_bytes is not None
        assert (kept == whole) is not cut
        if cut:
            assert MAX_BODY_BYTES - 20 * 1024 < len(record.body_bytes) <= MAX_BODY_BYTES

    on_twin(node, body)
    assert verify(node).findings == []
