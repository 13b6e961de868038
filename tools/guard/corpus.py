"""What the guard's model is fitted to: the half ``tune`` of tests/corpora/injection.jsonl, the texts beside this file
that were written for it, the same wrapped and disguised, and texts made of parts.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cognition.guard.injection import Source
from tools.guard.slots import made
from tools.guard.wraps import disguised, wrapped

ROOT = Path(__file__).parent.parent.parent
CORPUS = ROOT / "tests" / "corpora" / "injection.jsonl"
HERE = Path(__file__).parent
TEXTS = HERE / "texts"
GUARD = ROOT / "cognition" / "guard"
SEEN_BY = ("features", "fold", "lexicon", "reading", "views")
"""The modules of cognition/guard that say what is seen of a text."""
SEED = 20261126
SOURCES = {"user": Source.USER, "tool": Source.TOOL_OUTPUT, "web": Source.WEB}


@dataclass(frozen=True, slots=True)
class Row:
    """``weight``: how much it counts in the fit. ``origin``: rows of one origin are one thought, and are never on both
    sides of a cross-validation. ``tuning``: it is of the corpus that the aim is about.
    """

    attack: bool
    source: Source
    text: str
    weight: float
    origin: str
    tuning: bool = False


def tuning_rows() -> list[Row]:
    """The half of the corpus that may be looked at."""
    lines = map(json.loads, CORPUS.read_text(encoding="utf-8").splitlines())
    return [
        Row(
            line["label"] == "attack",
            Source[line["source"].upper()],
            line["text"],
            2.0,
            line["id"],
            tuning=True,
        )
        for line in lines
        if line["split"] == "tune"
    ]


def written() -> dict[tuple[str, str], list[str]]:
    """The texts by label and source. Those that are pieces of our own docs and code stand apart, in benign_long.txt."""
    return {
        (label, source): _lines(f"{label}_{source}") for label in ("attack", "benign") for source in SOURCES
    }


def _lines(name: str) -> list[str]:
    """The texts of a file, one a line; ``\\n`` in it is a line break."""
    lines = (TEXTS / f"{name}.txt").read_text(encoding="utf-8").split("\n")
    return [line.replace("\\n", "\n") for line in lines if line]


def training_rows() -> list[Row]:
    """All of it, the same each time."""
    rng = random.Random(SEED)
    texts = written()
    rows = tuning_rows()
    for (label, source), lines in texts.items():
        for text in lines:
            rows += _variants(label == "attack", source, text, texts["benign", source], rng)
    for number, text in enumerate(_lines("benign_long")):
        rows.append(Row(False, (Source.USER, Source.TOOL_OUTPUT, Source.WEB)[number % 3], text, 0.5, text))
    for label in ("attack", "benign"):
        for source, text in made(label, rng, each=6):
            rows.append(Row(label == "attack", SOURCES[source], text, 0.3, text))
    return rows


def _variants(attack: bool, source: str, text: str, around: list[str], rng: random.Random) -> Iterator[Row]:
    speaker = SOURCES[source]
    yield Row(attack, speaker, text, 1.0, text)
    yield Row(attack, speaker, wrapped(text, source, around, rng), 0.6, text)
    if rng.random() < (0.3 if attack else 0.07):
        yield Row(attack, speaker, disguised(text, rng), 0.5, text)


def digest() -> str:
    """Of everything that the model comes from."""
    of = hashlib.sha256()
    for path in sorted(
        [*HERE.rglob("*.txt"), *HERE.glob("*.py"), *(GUARD / f"{name}.py" for name in SEEN_BY)]
    ):
        of.update(path.read_bytes())
    for row in tuning_rows():
        of.update(f"{row.attack} {row.source} {row.text}".encode())
    return of.hexdigest()[:32]
