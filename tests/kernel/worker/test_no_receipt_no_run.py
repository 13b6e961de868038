"""No receipt, no run, for tools of third parties: a real worker that is handed anything but the right intent once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernel.helper.helper import Helper
from kernel.shapes import told
from kernel.toolbox.arguments import canonical_json
from kernel.toolbox.rules.file_rules import ALL_FILES
from kernel.worker.requests import Configure, ToolImport
from kernel.worker.workers import WorkerLimits, worker_command
from tests.kernel.worker.conftest import SALT
from tests.patience import HANG_S

TOOLS = ("touch", "touch_async", "other")
MODULE = '''
from pathlib import Path
from weftos import tool

@tool
def touch(path: str) -> str:
    """Make a file."""
    Path(path).touch()
    return "done"

@tool
async def touch_async(path: str) -> str:
    """Make a file, on the loop."""
    Path(path).touch()
    return "done"

@tool
def other(path: str) -> str:
    """Make another file."""
    Path(path + ".other").touch()
    return "done"
'''
Handed = Callable[[Any, Any, str, str], tuple[bytes, bytes]]


def _nothing(mint: Any, foreign: Any, tool: str, arguments: str) -> tuple[bytes, bytes]:
    return b"", mint.body(tool, arguments)


def _foreign(mint: Any, foreign: Any, tool: str, arguments: str) -> tuple[bytes, bytes]:
    body = foreign.body(tool, arguments)
    return foreign.receipt(body), body


def _foreign_in_our_name(mint: Any, foreign: Any, tool: str, arguments: str) -> tuple[bytes, bytes]:
    """Somebody else's key signs a ledger that says it is ours."""
    forger = type(foreign)(seed=9)
    forger.keys = type(forger.keys)(b"\x09" * 32, b"\x0a" * 32, mint.keys.pairs)
    assert forger.keys.origin == mint.keys.origin
    return _foreign(mint, forger, tool, arguments)


def _other_arguments(mint: Any, foreign: Any, tool: str, arguments: str) -> tuple[bytes, bytes]:
    body = mint.body(tool, canonical_json({"path": "/somewhere/else"}))
    return mint.receipt(body), body


def _other_tool(mint: Any, foreign: Any, tool: str, arguments: str) -> tuple[bytes, bytes]:
    body = mint.body("other", arguments)
    return mint.receipt(body), body


def _earlier_boot(mint: Any, foreign: Any, tool: str, arguments: str) -> tuple[bytes, bytes]:
    body = mint.body(tool, arguments, boot="00000000000000aa")
    return mint.receipt(body), body


def _proposal(mint: Any, foreign: Any, tool: str, arguments: str) -> tuple[bytes, bytes]:
    body = mint.body(tool, arguments)
    return mint.receipt(body, kind="tool.proposed"), body


HANDED = [
    _nothing, _foreign, _foreign_in_our_name, _other_arguments, _other_tool, _earlier_boot, _proposal,
]  # fmt: skip


@pytest.mark.parametrize("tool", TOOLS[:2])
def test_a_third_partys_tool_runs_with_its_intent_once_and_with_nothing_else(
    tmp_path: Path, mint: Any, foreign_mint: Any, tool: str
) -> None:
    (tmp_path / "touching.py").write_text(MODULE)
    effect = tmp_path / "effect"
    arguments = canonical_json({"path": str(effect)})

    async def main() -> None:
        died: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        command = worker_command("worker-touching", tmp_path, tmp_path, WorkerLimits())
        helper = Helper(command, int(mint.boot, 16), lambda op, args: None, died.set_result)
        await helper.start()

        async def run(receipt: bytes, body: bytes) -> dict[str, Any]:
            call = {"tool": tool, "arguments": arguments, "receipt": receipt, "salt": SALT, "body": body}
            answer = helper.request("run", {**call, "workspace": str(tmp_path), "files": told(ALL_FILES)})
            return await asyncio.wait_for(answer, HANG_S)

        try:
            sources = tuple(ToolImport(name, f"touching:{name}", (str(tmp_path),)) for name in TOOLS)
            setup = told(Configure((mint.keys.ed25519.text,), False, sources, ()))
            assert (await helper.request("configure", setup))["faults"] == {}
            for handed in HANDED:
                answer = await run(*handed(mint, foreign_mint, tool, arguments))
                assert answer["status"] == "refused", handed.__name__
                assert not list(tmp_path.glob("effect*")), handed.__name__
            body = mint.body(tool, arguments)
            receipt = mint.receipt(body)
            assert (await run(receipt, body))["status"] == "ok"
            assert effect.exists()
            effect.unlink()
            assert (await run(receipt, body))["status"] == "refused"
            assert not list(tmp_path.glob("effect*"))
        finally:
            await helper.stop()
            await asyncio.wait_for(died, HANG_S)

    asyncio.run(main())
