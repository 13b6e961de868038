"""Saves a vector index over and over, saying on stdout when each save begins: for a test that kills it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from chain.vectors.vectors import VectorIndex

DIMENSIONS = 16


def main() -> None:
    index = VectorIndex(Path(sys.argv[1]), "test", DIMENSIONS)
    index.open()
    print(f"opened {len(index)} {index.rebuilt or ''}", flush=True)
    for number in range(len(index), 100_000, 50):
        documents = range(number, number + 50)
        rows = np.random.default_rng(number).standard_normal((50, DIMENSIONS)).astype(np.float32)
        index.put(documents, [document.to_bytes(32, "big") for document in documents], rows)
        print(f"saving {len(index)}", flush=True)
        index.save()


if __name__ == "__main__":
    main()
