"""A memory of many documents, filled past the ledger, for the measurements of recall."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path

from chain.archive.archive import Archive
from chain.entry.reader import StateRecord
from chain.vectors.document import OWN, SHARED, TABLE, Document, encode_document
from tests.prove.recall_set import DOCUMENTS, make_set
from weftos.archive.embedder import Embedder
from weftos.archive.memory_index import MemoryIndex

BATCH = 2_000
WORDS = 20_000
OWNERS = {"/user/one": 0.01, "/user/ten": 0.1, "/user/half": 0.5}


@dataclass(slots=True)
class Corpus:
    """Documents in an archive. ``texts`` by number."""

    directory: Path
    archive: Archive
    texts: list[str]

    def index(self) -> MemoryIndex:
        """The memory over it, opened but not yet built."""
        index = MemoryIndex(self.archive, self.directory / "vectors", Embedder())
        self.archive.documents.restart()
        index.open()
        return index

    def build(self) -> tuple[MemoryIndex, float]:
        """The memory over it, and how many seconds it took to have everything indexed."""
        index = self.index()
        started = time.perf_counter()
        while index.step():
            pass
        return index, time.perf_counter() - started


def make_corpus(directory: Path, count: int) -> Corpus:
    """``count`` notes of about 35 words, some of them rare; a part belongs to each of ``OWNERS``."""
    notes, _ = make_set()
    rng = random.Random(count)
    archive = Archive(directory / "audit.duckdb", directory)
    archive.open()
    texts = []
    for start in range(0, count, BATCH):
        records = []
        for number in range(start, min(start + BATCH, count)):
            rare = " ".join(_word(rng) for _ in range(4))
            texts.append(f"{notes[rng.randrange(DOCUMENTS)].text} {rare}.")
            owner, scope = _whose(rng)
            document = Document(f"d{number}", owner, scope, "", texts[-1], number, 1_700_000_000_000_000)
            records.append(StateRecord(TABLE, document.id, encode_document(document)))
        archive.documents.store(records)
    return Corpus(directory, archive, texts)


def _whose(rng: random.Random) -> tuple[str, str]:
    chance = rng.random()
    for owner, share in OWNERS.items():
        if chance < share:
            return owner, OWN
        chance -= share
    return "operator", OWN if chance < 0.38 else SHARED


def _word(rng: random.Random) -> str:
    """One of ``WORDS`` words, the first ones more often."""
    number = int(WORDS * rng.random() ** 3)
    syllables = ("ka", "lo", "mi", "ne", "ru", "ta", "vo", "su", "pe", "di")
    return "".join(syllables[int(digit)] for digit in f"{number:04d}"[::-1])
