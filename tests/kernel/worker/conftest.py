"""A ledger in memory that hands out receipts of intents, and workers as real processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chain.entry.entry import ZERO_HASH, Entry, commit_body, encode_body, encode_entry
from chain.keys.keys import Keys
from chain.merkle.head import TreeHead
from chain.merkle.merkle import inclusion_path, leaf_hash, root
from chain.notes.note import join_note
from chain.proofs.receipt import Receipt
from kernel.toolbox.arguments import canonical_json, hash_text
from kernel.toolbox.protected import NOTHING_PROTECTED, ProtectedPaths
from kernel.toolbox.registry import ToolSource
from kernel.worker.workers import WorkerCall, WorkerLimits, Workers, worker_command
from tests.patience import HANG_S

BOOT = 0x1234_5678_9ABC_DEF0
SALT = b"s" * 32


class Mint:
    """The node's part: writes intents into a ledger of its own and makes the calls that they cover."""

    def __init__(self, seed: int = 1) -> None:
        self.keys = Keys(bytes([seed]) * 32, bytes([seed + 1]) * 32)
        self.boot = f"{BOOT:016x}"
        self._leaves: list[bytes] = []

    def rotate(self, seed: int = 90) -> None:
        """Other keys from now on, under the same name."""
        self.keys = Keys(bytes([seed]) * 32, bytes([seed + 1]) * 32, self.keys.pairs)

    def receipt(self, body: bytes, kind: str = "tool.intent") -> bytes:
        seq = len(self._leaves)
        commitment = commit_body(SALT, body)
        previous = self._leaves[-1] if self._leaves else ZERO_HASH
        entry = Entry(
            seq, 10**15 + seq, self.keys.origin, 7, seq, kind, "tool", b"", seq - 1, commitment, previous
        )
        leaf = encode_entry(entry)
        self._leaves.append(leaf_hash(leaf))
        text = TreeHead(self.keys.origin, seq + 1, root(self._leaves)).text()
        note = join_note(text, self.keys.ed25519_line(text))
        return Receipt(leaf, seq, seq + 1, tuple(inclusion_path(seq, self._leaves)), note).encode()

    def body(self, tool: str, arguments: str, /, **changes: Any) -> bytes:
        fields = {
            "turn": "t1",
            "ordinal": "0.0",
            "tool": tool,
            "arguments_hash": hash_text(arguments),
            "effects": "local",
            "boot": self.boot,
            "attempt": 1,
            "pid": 7,
            "replaces": "",
        }
        return encode_body({**fields, **changes})

    def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        workspace: str | Path = "",
        timeout_s: float = HANG_S,
        effects: bool = True,
        **changes: Any,
    ) -> WorkerCall:
        """A call with all that it needs to be run; ``changes`` to the body of its intent."""
        text = canonical_json(arguments)
        body = self.body(tool, text, **changes)
        return WorkerCall(tool, text, self.receipt(body), SALT, body, str(workspace), timeout_s, effects)


class Scene:
    """Real workers in a directory, and what was told of their processes."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.mint = Mint()
        self.told: list[tuple[str, int | None]] = []
        self.workspace = home / "workspace"
        self.modules = home / "modules"
        for directory in (self.workspace, self.modules):
            directory.mkdir()

    def module(self, name: str, text: str) -> tuple[str, ...]:
        """A third-party module; its python_path."""
        (self.modules / f"{name}.py").write_text(text)
        return (str(self.modules),)

    def run(
        self,
        scene: Callable[[Workers], Coroutine[Any, Any, None]],
        sources: list[ToolSource] | None = None,
        limits: WorkerLimits | None = None,
        protected: ProtectedPaths = NOTHING_PROTECTED,
    ) -> None:
        """Run ``scene`` with workers, and end them all."""
        limits = limits or WorkerLimits(start_timeout_s=HANG_S)
        command = partial(worker_command, cwd=self.home, logs=self.home, limits=limits)

        async def main() -> None:
            workers = Workers(
                BOOT,
                self.mint.keys.ed25519.text,
                command,
                sources or [],
                lambda name, os_pid: self.told.append((name, os_pid)),
                limits,
                protected,
            )
            try:
                await asyncio.wait_for(scene(workers), HANG_S)
            finally:
                await workers.close()

        asyncio.run(main())


@pytest.fixture
def mint() -> Mint:
    return Mint()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    alive = [os_pid for _, os_pid in scene.told if os_pid is not None and Path(f"/proc/{os_pid}").exists()]
    assert not alive, f"worker processes outlived their test: {alive}"


@pytest.fixture
def foreign_mint() -> Mint:
    """A ledger of somebody else."""
    return Mint(seed=9)
