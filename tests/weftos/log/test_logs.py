from __future__ import annotations

import contextlib
import errno
import json
import logging
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weftos.log.logs
from tests.patience import HANG_S
from weftos.log.log_files import RotatingFile, read_last
from weftos.log.logs import MAX_TEXT_CHARACTERS, JsonLog, LoggingBridge


@contextlib.contextmanager
def opened(path: Path, **options: Any) -> Iterator[JsonLog]:
    log = JsonLog(path, **{"max_bytes": 2**20, "backups": 2, **options})
    try:
        yield log
    finally:
        log.close()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "node.jsonl"


def test_a_line_has_utc_time_level_event_and_fields(path: Path) -> None:
    with opened(path) as log:
        log.log("info", "booted", engine="ray", pids=[1, 2])
    (line,) = lines(path)
    assert line["time"].endswith("Z")
    assert list(line) == ["time", "level", "event", "engine", "pids"]
    assert (line["level"], line["event"], line["engine"], line["pids"]) == ("info", "booted", "ray", [1, 2])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_lines_below_the_level_are_not_written(path: Path) -> None:
    with opened(path, level="warning") as log:
        log.log("info", "quiet")
        log.log("error", "loud")
    assert [line["event"] for line in lines(path)] == ["loud"]


def test_a_field_does_not_overwrite_time_level_or_event_of_a_later_line(path: Path) -> None:
    with opened(path) as log:
        log.log("info", "one", detail={"x": 1})
        log.log("error", "two")
    assert [(line["level"], line["event"]) for line in lines(path)] == [("info", "one"), ("error", "two")]


def test_secrets_do_not_get_in(path: Path) -> None:
    with opened(path, secrets=("hunter2hunter2",)) as log:
        log.log("info", "asked with hunter2hunter2", headers={"Authorization": "xyz"}, api_key="k", Token="t")
        log.log("info", "failed", error="401 for Bearer abcdefghijkl and sk-proj-1234567890")
        try:
            raise ValueError("hunter2hunter2")
        except ValueError:
            log.log("error", "raised", exc_info=sys.exc_info())
    text = path.read_text()
    for secret in ("hunter2", "xyz", '"k"', '"t"', "abcdefghijkl", "1234567890"):
        assert secret not in text
    assert "ValueError: [redacted]" in text


def test_counts_of_tokens_and_names_of_variables_are_no_secrets(path: Path) -> None:
    with opened(path) as log:
        log.log("info", "answered", input_tokens=7, api_key_env="MY_KEY")
    (line,) = lines(path)
    assert (line["input_tokens"], line["api_key_env"]) == (7, "MY_KEY")


def test_foreign_text_is_bounded_and_shown_not_obeyed(path: Path) -> None:
    with opened(path) as log:
        log.log("info", "said", text="\x1b[2Jhi\u202e", long="x" * (MAX_TEXT_CHARACTERS + 5), raw=b"123")
        log.log("info", "odd", nan=float("nan"), thing=object, deep=[[[[[[1]]]]]])
    said, odd = lines(path)
    assert said["text"] == "\\x1b[2Jhi\\u202e"
    assert said["long"].endswith("x [5 characters more]")
    assert said["raw"] == "[3 bytes]"
    assert (odd["nan"], odd["thing"], odd["deep"]) == ("nan", "<class 'object'>", [[["[[[1]]]"]]])


def test_rotation_keeps_each_file_below_the_limit_and_so_many_files(path: Path) -> None:
    with opened(path, max_bytes=1000, backups=2) as log:
        for number in range(100):
            log.log("info", "n", number=number)
    names = sorted(file.name for file in path.parent.iterdir())
    assert names == ["node.jsonl", "node.jsonl.1", "node.jsonl.2"]
    assert all(file.stat().st_size <= 1000 for file in path.parent.iterdir())
    kept = [
        line["number"]
        for line in lines(path.with_name("node.jsonl.2")) + lines(path.with_name("node.jsonl.1"))
    ]
    kept += [line["number"] for line in lines(path)]
    assert kept == list(range(kept[0], 100))


def test_a_log_goes_on_in_the_file_that_is_there(path: Path) -> None:
    for event in ("first", "second"):
        with opened(path) as log:
            log.log("info", event)
    assert [line["event"] for line in lines(path)] == ["first", "second"]


def test_a_log_whose_first_line_cannot_be_made_text_goes_on_with_the_next(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What makes it is imported by the log's thread: there may be no descriptor for that."""
    real = weftos.log.logs._renderer

    def refuse() -> None:
        monkeypatch.setattr(weftos.log.logs, "_renderer", real)
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(weftos.log.logs, "_renderer", refuse)
    with opened(path) as log:
        log.log("info", "lost")
        log.log("info", "kept")
    assert [(line["event"], line.get("lines")) for line in lines(path)] == [
        ("log lines lost", 1),
        ("kept", None),
    ]


def test_lines_that_could_not_be_written_are_counted_in_the_next_that_can(
    path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path.mkdir()
    with opened(path) as log:
        for number in range(3):
            log.log("info", "lost", number=number)
        log.flush()
        path.rmdir()
        log.log("info", "kept")
    assert [(line["event"], line.get("lines")) for line in lines(path)] == [
        ("log lines lost", 3),
        ("kept", None),
    ]
    assert capfd.readouterr().err.count("log line lost: ") == 1


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / "log").symlink_to(victim)
    with pytest.raises(OSError):
        RotatingFile(tmp_path / "log", 1000, 1).write(b"x\n")
    assert not victim.exists()


def test_logging_of_the_standard_library_arrives_with_name_level_and_traceback(path: Path) -> None:
    source = logging.getLogger("test.bridge")
    source.propagate = False
    with opened(path) as log:
        source.addHandler(LoggingBridge(log))
        try:
            raise KeyError("k")
        except KeyError:
            source.exception("it %s", "broke")
        source.critical("worse")
        source.warning("%d", "no number")
    broke, worse, odd = lines(path)
    assert (broke["level"], broke["event"], broke["logger"]) == ("error", "it broke", "test.bridge")
    assert broke["exception"].endswith("KeyError: 'k'")
    assert (worse["level"], "exception" in worse) == ("error", False)
    assert odd["event"].startswith("'%d' (TypeError")


def test_read_last_gives_the_newest_matching_lines_across_files(path: Path) -> None:
    with opened(path, max_bytes=1000, backups=3) as log:
        for number in range(30):
            log.log("info", "n", number=number, pid=number % 2)
    with path.open("a") as file:
        file.write("not json\n[1]\n")
    assert [line["number"] for line in read_last(path, 12, {"pid": 1})] == list(range(7, 30, 2))
    assert read_last(path.with_name("none.jsonl"), 5) == []


def test_importing_and_opening_a_log_does_not_wait_for_structlog(path: Path) -> None:
    code = "import sys, weftos.log.logs; print('structlog' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANG_S
    )
    assert done.stdout.strip() == "False"
