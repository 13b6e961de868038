"""What is added to a log is read once, in order, whatever is rotated meanwhile."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weftos.log.log_files import RotatingFile, numbered, read_last
from weftos.log.tail import LogTail, LogTails


def line(number: int, **fields: object) -> bytes:
    return json.dumps({"number": number, **fields}).encode() + b"\n"


def numbers(tail: LogTail) -> list[int]:
    return [record["number"] for record in tail.read()]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 12), max_size=12))
def test_each_line_comes_once_and_in_order_however_often_the_log_is_rotated(
    tmp_path_factory: pytest.TempPathFactory, written: list[int]
) -> None:
    path = tmp_path_factory.mktemp("log") / "a.jsonl"
    log = RotatingFile(path, max_bytes=3 * len(line(100)), backups=40)
    log.write(line(-1))
    tail, said, read = LogTail(path, {}), 0, list[int]()
    for count in written:
        for _ in range(count):
            log.write(line(said))
            said += 1
        read += numbers(tail)
    assert read == list(range(said))
    tail.close()
    log.close()


def test_a_log_that_is_not_there_yet_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    tail = LogTail(path, {})
    assert tail.read() == []
    path.write_bytes(line(1))
    assert numbers(tail) == [1]
    tail.close()


def test_half_a_line_is_read_when_it_is_whole_and_what_is_no_record_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.touch()
    tail = LogTail(path, {"pid": 7})
    with path.open("ab", buffering=0) as file:
        file.write(line(1, pid=7) + line(2, pid=8) + b"nonsense\n" + line(3, pid=7)[:9])
        assert numbers(tail) == [1]
        file.write(line(3, pid=7)[9:])
        assert numbers(tail) == [3]
    tail.close()


def test_who_asks_too_seldom_goes_on_with_the_oldest_that_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(0))
    tail = LogTail(path, {})
    kept = path.open("rb")  # so that its place on the disk is not taken by the next one
    os.unlink(path)
    numbered(path, 1).write_bytes(line(5))
    path.write_bytes(line(6))
    assert numbers(tail) == [5, 6]
    tail.close()
    kept.close()


def test_in_the_middle_of_a_rotation_no_file_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(line(0))
    tail = LogTail(path, {})
    path.rename(numbered(path, 4))
    numbered(path, 3).write_bytes(line(1))
    numbered(path, 1).write_bytes(line(2))  # the second is the third already, the first not yet the second
    path.write_bytes(line(3))
    assert numbers(tail) == [1, 2, 3]
    assert [record["number"] for record in read_last(path, 3)] == [1, 2, 3]
    tail.close()


def test_several_logs_are_read_by_the_time_of_their_lines(tmp_path: Path) -> None:
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    tails = LogTails(paths, {})
    paths[0].write_bytes(line(1, time="1") + line(3, time="3"))
    paths[1].write_bytes(line(2, time="2"))
    assert [record["number"] for record in tails.read()] == [1, 2, 3]
    tails.close()
