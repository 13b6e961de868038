"""A ledger with one whole story in it, written by the real writer, for the tests of the auditor's commands.

A person writes to ada (pid 8). She asks a model, which wants a file; the call is judged, intended and done. A second
call is denied. She answers. Then she dies and comes back as pid 11, and somebody else (pid 9) does one thing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chain.disk import Disk
from chain.entry.draft import Draft
from chain.keys.keys import Keys
from chain.ledger.ledger import Ledger
from chain.state.snapshot import write_snapshot
from kernel.cell.conversation import digest_of, list_hash
from kernel.values import sha256_hex
from tests.chain.tiles.test_publisher import snapshot_of
from tests.weftos.cli.test_cli import HOSTILE
from weftos.lifecycle.initialise import initialise

START_US = 1_700_000_000_000_000  # 2023-11-14 22:13:20 UTC
STEP_US = 1_000_000
TRACE = bytes(range(16))

_CALL = {"turn": "t2", "tool": "file_read"}


def _clock() -> Iterator[int]:
    """A second for each look."""
    now = START_US
    while True:
        yield now
        now += STEP_US


def _started(pid: int, name: str) -> Draft:
    return Draft("process.started", {"address": f"/user/{name}", "pid": pid, "cell": "c1"}, pid, str(pid))


def _message(ident: str, sender: str, to: str, text: str, **head: Any) -> Draft:
    body = {
        "id": ident, "sender": sender, "to": to, "text": text, "session": "main", "reply_to": "", "wants_reply": True,
        "deadline_us": 0, "rights": None, "waiting": [],
    }  # fmt: skip
    return Draft("message.accepted", body, subject=ident, **head)


def _turn(kind: str, cause: int, pid: int = 8, subject: str = "t2", **body: Any) -> Draft:
    return Draft(kind, {"turn": "t2", **body}, pid, subject, TRACE, cause)


def _tool(kind: str, cause: int, ordinal: str, **body: Any) -> Draft:
    return Draft(kind, {**_CALL, "ordinal": ordinal, **body}, 8, "file_read", TRACE, cause)


QUESTION = '{"content":"read notes","role":"user"}'
MESSAGES_HASH = list_hash(digest_of(QUESTION))
ASKED = '{"model":"","provider":"","tools":[]}'

STORY = [
    _started(8, "ada"),  # 0
    Draft("operator.command", {"uid": 1000, "os_pid": 1, "operation": "send", "arguments": "{}"}, 0, "send", TRACE),
    _message("m2", "operator", "/user/ada", "read notes", trace=TRACE, cause=1),
    _turn("turn.started", 2, message="m2", address="/user/ada", session="main", attempt=1),  # 3
    _turn("model.asked", 3, ordinal="0.0", call_hash="c" * 64, provider="twin", model="twin-1", tools=[], asked=ASKED,
          request_hash=sha256_hex(f'{{"messages":"{MESSAGES_HASH}",{ASKED[1:]}'), messages_hash=MESSAGES_HASH,
          prefix_of=-1, prefix_count=0, pieces="[1]", new=f"[{QUESTION}]", truncated=False),
    _turn("model.answered", 4, ordinal="0.0", status="ok", input_tokens=120, output_tokens=30,
          answer='{"text":"I look","tool_calls":[{"id":"1","name":"file_read","arguments":"{}"}]}'),  # 5
    _tool("tool.proposed", 5, "1.0", call_hash="c" * 64, arguments='{"path":"notes"}', arguments_hash="a" * 64),
    _tool("tool.verdict", 6, "1.0", decision="allow", reasons=[]),
    _tool("tool.intent", 7, "1.0", arguments_hash="a" * 64, effects="local", boot="b", attempt=1, pid=8),  # 8
    _tool("tool.outcome", 8, "1.0", status="ok", result=HOSTILE + "\nforged line", result_hash="h", truncated=False,
          attempt=1),
    _tool("tool.proposed", 5, "1.1", call_hash="d" * 64, arguments='{"path":"/etc/shadow"}',  # 10
          arguments_hash="f" * 64),
    _tool("tool.verdict", 10, "1.1", decision="deny", reasons=["the path leaves the workspace"]),
    _tool("tool.outcome", 11, "1.1", status="denied", result="the path leaves the workspace", result_hash="h",
          truncated=False, attempt=0),
    _turn("turn.ended", 3, status="ok", reply="The notes say: buy MILK", reply_hash="e" * 64),  # 13
    Draft("process.exited", {"address": "/user/ada", "pid": 8, "reason": "crash", "detail": "", "turn": ""}, 8, "8"),
    _started(11, "ada"),  # 15
    _started(9, "bob"),
    Draft("message.refused", {"to": "/user/ada", "sender": "/user/bob", "why": "mailbox is full"}, 9),  # 17
]  # fmt: skip


async def _write(data: Path, drafts: list[Draft], dropped: int) -> Keys:
    clock = _clock()
    keys = initialise(data)
    ledger = Ledger.open(data, keys, now_us=lambda: next(clock))
    ledger.start(asyncio.get_running_loop())
    for number, draft in enumerate(drafts):
        if number == dropped and dropped:
            group = await ledger.upkeep.roll()
            await ledger.publish()
            digest = write_snapshot(data / "snapshot", Disk(), snapshot_of(data, group, b""), [])
            await ledger.upkeep.place_snapshot(group, digest)
            await ledger.upkeep.drop_before(group)
        ledger.commit([draft])
    await ledger.close()
    return keys


def write_story(data: Path, dropped: int = 0) -> Keys:
    """The ledger of :data:`STORY`, closed cleanly; its keys. The journal no longer holds the first ``dropped`` ones."""
    return asyncio.run(_write(data, STORY, dropped))


def write_many(data: Path, count: int) -> Keys:
    """A ledger of ``count`` refusals, a second apart."""
    body = {"to": "/user/a", "sender": "operator", "why": "w"}
    drafts = [Draft("message.refused", {**body, "why": f"w{number}"}, 7) for number in range(count)]
    return asyncio.run(_write(data, drafts, 0))
