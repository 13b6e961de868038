"""Snapshots as earlier versions wrote them, and the records that they were made of.

:data:`PARTS_3` is what the last version with one format for all parts wrote for :func:`story`, literally.
"""

from __future__ import annotations

from typing import Any

import msgpack

from kernel.state.state import State
from tests.kernel.twins.records import message, sent

TRACE = bytes(16)
SPEC_A = (
    '{"behaviour":"agent","config":{},"intensity":[5,60.0],"isolation":"shared",'
    '"name":"a","restart":"permanent","tools":["pay"],"type":"worker","workspace":""}'
)
SPEC_B = (
    '{"behaviour":"agent","config":{},"intensity":[5,60.0],"isolation":"shared",'
    '"name":"b","restart":"permanent","tools":["calculator","file_read","file_list"],"type":"worker","workspace":""}'
)


def call(turn: str, ordinal: str) -> dict[str, Any]:
    return {"turn": turn, "ordinal": ordinal, "tool": "pay"}


ENTRIES: list[tuple[str, dict[str, Any]]] = [
 ("node.booted", {"configuration": "c0", "peers": "p0"}),
 ("process.spawned", {"address": "/a", "parent": "/", "spec": SPEC_A, "made_by": "operator"}),
 ("process.spawned", {"address": "/a/b", "parent": "/a", "spec": SPEC_B, "made_by": "agent"}),
 ("process.started", {"address": "/a", "pid": 4096, "cell": ""}),
 ("message.accepted", message(4, "/a", rights=["pay"], waiting=["/x@o"])),
 ("message.accepted", message(5, "/a")),
 ("message.accepted", message(6, "/a/b")),
 ("turn.started", {"turn": "t4", "message": "m4", "address": "/a", "attempt": 1, "config": "{}",
                  "result_bytes": 100}),
 ("model.asked", {**call("t4", "0.0"), "call_hash": "h", "provider": "p", "model": "m", "tools": ["pay"],
                 "asked": "{}"}),
 ("model.answered", {**call("t4", "0.0"), "status": "ok", "answer": "{}", "input_tokens": 1, "output_tokens": 2}),
 ("sys.value", {**call("t4", "0.1"), "call_hash": "h", "op": "now", "value": 0.5}),
 ("tool.proposed", {**call("t4", "1.0"), "call_hash": "h", "arguments": '{"amount":1}'}),
 ("tool.intent", {**call("t4", "1.0"), "attempt": 1, "effects": "external", "replaces": ""}),
 ("tool.outcome", {**call("t4", "1.0"), "status": "in_doubt", "result": "r", "truncated": False, "attempt": 1}),
 ("tool.proposed", {**call("t4", "1.1"), "call_hash": "h", "arguments": '{"amount":2}'}),
 ("tool.intent", {**call("t4", "1.1"), "attempt": 1, "effects": "local", "replaces": "x"}),
 ("tool.proposed", {**call("t4", "1.2"), "call_hash": "h", "arguments": '{"amount":3}'}),
 ("tool.intent", {**call("t4", "1.2"), "attempt": 1, "effects": "none", "replaces": ""}),
 ("tool.outcome", {**call("t4", "1.2"), "status": "ok", "result": "done", "truncated": False, "attempt": 1}),
 ("tool.proposed", {**call("t4", "1.3"), "call_hash": "h", "arguments": '{"amount":4}'}),
 ("process.exited", {"address": "/a", "pid": 4096, "reason": "crash", "detail": "d"}),
 ("turn.started", {"turn": "t6", "message": "m6", "address": "/a/b", "attempt": 1, "config": "", "result_bytes": 0}),
 ("tool.proposed", {**call("t6", "0.0"), "call_hash": "h", "arguments": '{"amount":5}'}),
 ("tool.intent", {**call("t6", "0.0"), "attempt": 1, "effects": "external", "replaces": ""}),
 ("turn.ended", {"turn": "t6", "status": "ok"}),
 ("message.accepted", message(25, "/a/b")),
 ("turn.started", {"turn": "t25", "message": "m25", "address": "/a/b", "attempt": 1, "config": "", "result_bytes": 0}),
 ("sys.value", {**call("t25", "0.0"), "call_hash": "h", "op": "random", "value": 7}),
 ("turn.diverged", {"turn": "t25", "ordinal": "0.0", "recorded": "{}", "asked": '{"op":"now"}'}),
 ("message.accepted", message(29, "/a")),
 ("message.dead", {"id": "m29", "why": "w"}),
 ("message.sent", sent(31, "/b@o", wants_reply=True, answer_by_us=5)),
 ("message.sent", sent(32, "/b@o", wants_reply=True, reply_to="t4:1.1", rights=["pay"])),
 ("message.acknowledged", {"id": "m32"}),
 ("message.dropped", {"id": "m99"}),
 ("memory.written", {"id": "d35", "owner": "/a", "scope": "shared", "bytes": 7, "text_hash": "", "shown_hash": ""}),
 ("state.accepted", {"contradicted": [1, 35]}),
]  # fmt: skip
CHANGES: list[tuple[str, str, bytes]] = [
 ("session", "/a\nmain", msgpack.packb([{"role": "user"}])),
 ("pids", "8192", b""),
 ("inbox", "o\n3", msgpack.packb(["m1", "why"])),
 ("erasing", "7", msgpack.packb([[1, 2]])),
]  # fmt: skip


def story(state: State) -> State:
    """``state`` after all of these records."""
    for seq, (kind, body) in enumerate(ENTRIES):
        state.apply_entry(kind, body, seq, 1000 + seq, TRACE)
    for change in CHANGES:
        state.apply_change(*change)
    return state


PARTS_3: dict[str, Any] = {'format': 3,
 'slots': [['/a', '/',
            SPEC_A,
            1, 'running', '', 4096, 0, 'PID 4096: crash: d', 'operator'],
           ['/a/b', '/a',
            SPEC_B,
            2, 'running', '', 0, -1, '', 'agent']],
 'mail': [['m4', 4, 'operator', '/a', 't4', 'main', '', False, 0,
           TRACE, ['pay'], 1004, '', '', '', 0,
           ['/x@o']],
          ['m5', 5, 'operator', '/a', 't5', 'main', '', False, 0,
           TRACE, None, 1005, '', '', '', 0, []],
          ['m25', 25, 'operator', '/a/b', 't25', 'main', '', False, 0,
           TRACE, None, 1025, '', '', '', 0,
           []]],
 'turns': [['m4', 't4', '/a', 7, 1, 1,
            [['0.0', 'h', 'model', 8, 'p/m (pay)', '{}', -1, 0,
              {'status': 'ok', 'answer': '{}', 'tokens': [1, 2]}, False, False, '', ''],
             ['0.1', 'h', 'now', 10, '', '', -1, 0, {'value': 0.5}, False, False, '', ''],
             ['1.0', 'h', 'tool', 11, 'pay', '{"amount":1}', 12, 1, None, True, False, '', 'external'],
             ['1.1', 'h', 'tool', 14, 'pay', '{"amount":2}', 15, 1, None, False, False, 'x', 'local'],
             ['1.2', 'h', 'tool', 16, 'pay', '{"amount":3}', 17, 1,
              {'status': 'ok', 'result': 'done', 'truncated': False}, False, False, '', 'none'],
             ['1.3', 'h', 'tool', 19, 'pay', '{"amount":4}', -1, 0, None, False, False, '', '']],
            9, '{}', 100, ''],
           ['m25', 't25', '/a/b', 26, 1, 0,
            [['0.0', 'h', 'random', 27, '', '', -1, 0, {'value': 7}, False, False, '', '']], -1, '', 0,
            '{"ordinal":"0.0","seq":28,"time_us":1028,"recorded":{},"asked":{"op":"now"}}']],
 'dead': [[['m29', 29, 'operator', '/a', 't29', 'main', '', False, 0,
            TRACE, None, 1029, '', '', '', 0,
            []],
           'w', 30, 1030]],
 'sessions': [['/a', 'main', [[b'\x91\x81\xa4role\xa4user', 12]]]],
 'pids': [[4096, '/a']],
 'pids_reserved': 8192,
 'boots': 1,
 'tally': [7, 2, 1, 0],
 'documents': [['d35', '/a', 'shared', 7, 35, '', '']],
 'outbox': [['m31', 31, 'operator', '/b@o', 't31', 'main', '', True, 0,
             TRACE, None, 1031, 'o', '', '', 5,
             []]],
 'questions': [['m31', None],
               ['m32',
                ['m32', 32, 'operator', '/b@o', 't32', 'main', 't4:1.1', True, 0,
                 TRACE, ['pay'], 1032, 'o', '',
                 '', 0, []]]],
 'inbox': [['o', 3, 'm1', 'why']],
 'erasing': [['7', b'\x91\x92\x01\x02']],
 'intents': [['t6', '/a/b', TRACE,
              ['0.0', 'h', 'tool', 22, 'pay', '{"amount":5}', 23, 1, None, False, False, '', 'external']]],
 'accepted': [['1'], ['35']],
 'configured': [['configuration', 'c0'], ['peers', 'p0']],
 'traces': [[TRACE, 1, 2]]}  # fmt: skip


def former(number: int) -> bytes:
    """The snapshot of that format, 1 to 3, as far as it could say what :func:`story` came to."""
    parts = dict(PARTS_3)
    if number < 3:
        del parts["traces"]
        parts["slots"] = [row[:-1] for row in parts["slots"]]
        parts["documents"] = [row[:-1] for row in parts["documents"]]
    if number < 2:
        for later in ("intents", "configured", "accepted"):
            del parts[later]
        parts["documents"] = [row[:-1] for row in parts["documents"]]
        parts["turns"] = [[*row[:6], [call[:-3] for call in row[6]], row[7]] for row in parts["turns"]]
    return bytes(msgpack.packb({**parts, "format": number}))
