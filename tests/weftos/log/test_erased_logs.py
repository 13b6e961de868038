"""Which log files an erasure names."""

from __future__ import annotations

import json
from pathlib import Path

from weftos.log.erased_logs import logged


def test_lines_of_the_processes_concerned_are_counted_and_printed_files_named(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    assert logged(logs, {5}) == []
    logs.mkdir()
    lines = [
        {"event": "agent", "pid": 5, "text": "it said so"},
        {"event": "process did not start", "pid": 5, "why": "no"},
        {"event": "process crashed", "pid": 5},
        {"event": "agent", "pid": 6, "text": "another"},
        {"event": "recovered"},
        [5],
    ]
    text = "\n".join(map(json.dumps, lines)) + "\nno json\n"
    (logs / "node.jsonl").write_text(text)
    (logs / "node.jsonl.1").write_text(json.dumps(lines[0]))
    (logs / "node.jsonl.2").write_text(json.dumps(lines[3]))
    (logs / "worker-x.log").write_text("printed")
    (logs / "cells.log").write_text("")
    assert logged(logs, {5}) == [("logs/node.jsonl", 2), ("logs/node.jsonl.1", 1), ("logs/worker-x.log", -1)]
    assert logged(logs, ()) == [("logs/worker-x.log", -1)]
