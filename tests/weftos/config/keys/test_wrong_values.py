"""Each key of the whole file wrong in turn: one fault, which names the file, the line, the key and what is wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weftos.config.config import ConfigError, load

LINES = (Path(__file__).with_name("whole.toml")).read_text().splitlines()
_KEY = re.compile(r'^("[^"]+"|[\w-]+) = (.*)$')
KEYS = [number for number, line in enumerate(LINES) if _KEY.match(line)]


def parts(number: int) -> tuple[str, str, str]:
    """Table, key and value of a line."""
    table = next(line for line in reversed(LINES[:number]) if line.startswith("["))
    found = _KEY.match(LINES[number])
    assert found is not None
    return table.strip("[]"), found[1].strip('"'), found[2]


def faults(tmp_path: Path, number: int, line: str) -> tuple[str, ...]:
    file = tmp_path / "weftos.toml"
    file.write_text("\n".join([*LINES[:number], line, *LINES[number + 1 :]]))
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, file=file)
    return refused.value.faults


@pytest.mark.parametrize("number", KEYS, ids=lambda number: ".".join(parts(number)[:2]))
def test_a_value_of_the_wrong_type_is_one_fault_that_says_where_and_what(tmp_path: Path, number: int) -> None:
    table, key, value = parts(number)
    wrong = "7" if value.startswith(('"', "[")) else '"seven"'
    written = f'"{key}"' if "/" in key else key
    [fault] = faults(tmp_path, number, f"{written} = {wrong}")
    where, _, words = fault.partition(": ")
    assert where.startswith(str(tmp_path / "weftos.toml"))
    assert key in words and table.split(".")[0] in words
    assert re.search(r"must be|should be|Input|is 7|provider|PROVIDER", words), words
    in_list = table in ("routing.tiers", "models")
    assert in_list or where.endswith(f":{number + 1}"), fault


SLIPS = [number for number in KEYS if LINES[number - 1].startswith("[") and '"' not in LINES[number][:1]]
"""The first key of each table, but for tables whose keys are names of somebody's."""


@pytest.mark.parametrize("number", SLIPS, ids=lambda number: parts(number)[0])
def test_a_key_with_a_slip_is_named_with_what_is_known(tmp_path: Path, number: int) -> None:
    table, key, value = parts(number)
    told = faults(tmp_path, number, f"{key}x = {value}")
    words = r"unknown key|is unknown|only allow is a list|not permitted|Extra|must be free|peerx"
    fault = next(each for each in told if re.search(words, each))
    assert str(tmp_path / "weftos.toml") in fault and table.split(".")[0] in fault
