"""The labelled corpora of tests/corpora: their shape, their counts, and that the held-out halves stay as written."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from typing import NamedTuple

import pytest

from tests.places import ROOT

CORPORA = ROOT / "tests" / "corpora"
LINE_BYTES = 4096
TASK_TYPES = {
    "code_generation", "code_review", "research", "creative", "analysis", "math", "tool_use", "chat",
}  # fmt: skip
SOURCES = {"user", "tool_output", "web"}
HELD_OUT = {
    "tasks.jsonl": "7a619edee3ba495c944e7738ebb3131a7f388e8c874daad4f592a16651eaee95",
    "injection.jsonl": "b2fb3463f0c186f27fe59bc18aff30552e797f84b81a7ec6ef3640eb5b919b5b",
}
"""SHA-256 of the held-out lines: who changes one after a score was seen does it on purpose, and says why."""
INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")


class Fields(NamedTuple):
    """The fields a row must have, and those it may have besides."""

    must: set[str]
    may: set[str]


SHAPES = {
    ("tasks.jsonl", label): Fields({"id", "text", "label", "complexity", "split"}, {"note"})
    for label in TASK_TYPES
} | {
    ("injection.jsonl", "benign"): Fields({"id", "source", "text", "label", "split"}, set()),
    ("injection.jsonl", "attack"): Fields(
        {"id", "source", "text", "label", "technique", "subtle", "split"}, set()
    ),
}
VALUES: dict[str, set[object]] = {
    "split": {"tune", "held_out"},
    "complexity": {"low", "mid", "high"},
    "source": {*SOURCES},
    "subtle": {True, False},
}
FILES = sorted(HELD_OUT)


def lines(name: str) -> list[str]:
    text = (CORPORA / name).read_bytes().decode("utf-8", errors="strict")
    assert text.endswith("\n")
    return text[:-1].split("\n")


def rows(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines(name)]


def told_apart(text: object) -> str:
    """A text without what two copies of one thought would differ in: case, blanks, punctuation."""
    return re.sub(r"\W+", "", str(text).lower()) or str(text)


def test_the_folder_holds_the_two_corpora_and_what_they_are() -> None:
    assert sorted(path.name for path in CORPORA.iterdir()) == sorted(["README.md", *FILES])


@pytest.mark.parametrize("name", FILES)
def test_each_row_has_the_fields_of_its_label_and_values_that_are_named(name: str) -> None:
    for row in rows(name):
        shape = SHAPES[name, str(row["label"])]
        assert shape.must <= set(row) <= shape.must | shape.may, row["id"]
        assert all(row[key] in VALUES[key] for key in VALUES.keys() & row.keys()), row["id"]
        words = [row[key] for key in ("text", "technique", "note") if key in row]
        assert all(isinstance(word, str) and word.strip() for word in words), row["id"]


@pytest.mark.parametrize("name", FILES)
def test_a_line_is_short_and_shows_what_it_holds(name: str) -> None:
    for line in lines(name):
        assert len(line.encode()) < LINE_BYTES
        assert not INVISIBLE.search(line), f"escape what nobody sees: {line[:60]}"


@pytest.mark.parametrize("name", FILES)
def test_ids_run_on_and_no_text_comes_twice(name: str) -> None:
    found = rows(name)
    kind = {"tasks.jsonl": "task", "injection.jsonl": "injection"}[name]
    assert [row["id"] for row in found] == [f"{kind}-{number:03d}" for number in range(1, len(found) + 1)]
    assert [
        text for text, times in Counter(told_apart(row["text"]) for row in found).items() if times > 1
    ] == []


def test_there_are_enough_tasks_of_each_type() -> None:
    counts = Counter(row["label"] for row in rows("tasks.jsonl"))
    assert set(counts) == TASK_TYPES
    assert min(counts.values()) >= 40
    assert max(counts.values()) <= 1.25 * min(counts.values())
    assert counts.total() >= 400


def test_there_are_enough_attacks_and_benign_texts_of_each_source() -> None:
    found = rows("injection.jsonl")
    by_label = Counter(row["label"] for row in found)
    assert by_label["attack"] >= 180
    assert by_label["benign"] >= 360
    for label, total in by_label.items():
        by_source = Counter(row["source"] for row in found if row["label"] == label)
        assert set(by_source) == SOURCES
        assert all(abs(3 * count - total) <= 0.1 * total for count in by_source.values())
    assert sum(row.get("subtle") is True for row in found) >= by_label["attack"] / 3


@pytest.mark.parametrize(
    ("name", "strata"), [("tasks.jsonl", ["label"]), ("injection.jsonl", ["label", "source"])]
)
def test_the_halves_are_equal_in_each_stratum(name: str, strata: list[str]) -> None:
    halves = Counter((*(str(row[key]) for key in strata), str(row["split"])) for row in rows(name))
    for *stratum, _ in halves:
        assert halves[*stratum, "tune"] == halves[*stratum, "held_out"]


def test_each_technique_can_be_tuned_for_and_is_held_out() -> None:
    found = [(row["technique"], row["split"]) for row in rows("injection.jsonl") if row["label"] == "attack"]
    assert {technique for technique, split in found if split == "tune"} == {
        technique for technique, split in found if split == "held_out"
    }


@pytest.mark.parametrize(
    "near_miss",
    [
        r"Operating system: Linux",
        r"(?m)^-{5,}$",
        r"[а-я] [a-z]{4,} [а-я]",
        r"why does eval\(x\) fail\?",
        r"my postcode",
        r"[Tt]he classic film",
        r"a prefix",
    ],
)
def test_what_only_looks_like_an_attack_is_among_the_benign(near_miss: str) -> None:
    assert any(
        re.search(near_miss, str(row["text"])) for row in rows("injection.jsonl") if row["label"] == "benign"
    )


@pytest.mark.parametrize("name", FILES)
def test_the_readme_has_the_counts(name: str) -> None:
    readme = (CORPORA / "README.md").read_text(encoding="utf-8")
    for label, count in Counter(row["label"] for row in rows(name)).items():
        assert re.search(rf"(?m)^\| `{label}` \| {count} \|", readme), f"{label}: {count}"


@pytest.mark.parametrize("name", FILES)
def test_the_held_out_half_is_as_it_was_written(name: str) -> None:
    held_out = [line for line in lines(name) if json.loads(line)["split"] == "held_out"]
    assert hashlib.sha256("\n".join(held_out).encode()).hexdigest() == HELD_OUT[name]
