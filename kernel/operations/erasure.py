"""Operations on erasure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, TypedDict

from kernel.operations.operation import MAX_PID, Limit, Nothing, Noun, OnWire, Operation

MOST_SEQS = 10_000
READ_S = 900.0
"""What the node may take to read the whole ledger."""


@dataclass(frozen=True, slots=True)
class Erase:
    """What is to go, in one way: the entries of ``seqs``, all of ``pid``, or all of a ``session`` of ``target``;
    and the ``reason``, which the ledger keeps."""

    reason: Annotated[str, Limit(min_length=1, max_length=2000)]
    _: KW_ONLY
    seqs: Annotated[Sequence[int], OnWire(Annotated[list[int], Limit(max_length=MOST_SEQS)])] = ()
    pid: Annotated[int, Limit(ge=0, le=MAX_PID)] | None = None
    target: Annotated[str | int, OnWire(Annotated[str, Limit(max_length=1100)])] = ""
    session: Annotated[str, Limit(max_length=1100)] = ""


class Erased(TypedDict):
    """``seq`` of the (first) erase entry, how many ``entries``, their ``ranges`` [[first, last]], ``sessions``
    [[address, session]] and ``documents`` that went with them; ``kept``: how many by kind; ``left`` [[seq, kind]],
    the first of ``left_count``: entries of the same turns, and what else repeats them; ``logs`` [[file, lines of the
    processes concerned, -1 for unknown]]."""

    seq: int
    entries: int
    ranges: list[list[int]]
    sessions: list[list[str]]
    documents: list[str]
    kept: dict[str, int]
    left: list[list[int | str]]
    left_count: int
    logs: list[list[int | str]]


class Erasing(TypedDict):
    """``seq`` of each erase entry whose work is not done; the ``step`` it is at, and the ``fault`` that holds it up."""

    erasing: list[int]
    step: str
    fault: str


class Erasure(Noun):
    """Erasing what entries say."""

    status = Operation(
        "GET", "/erasures", Nothing, Erasing, "Erasures under way, and what holds them up, if anything does."
    )
    erase = Operation(
        "POST",
        "/erasures",
        Erase,
        Erased,
        "Erase what entries say. Answered when that is decided; done when `erasing` does not name `seq` any more.",
        recorded="erase",
        takes_s=READ_S,
    )
