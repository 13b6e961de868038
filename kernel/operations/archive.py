"""Operations on the archive."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, TypedDict

from kernel.operations.operation import MAX_ROWS, Limit, Nothing, Noun, Operation


@dataclass(frozen=True, slots=True)
class Query:
    """One SELECT, and how many rows at most."""

    sql: Annotated[str, Limit(min_length=1, max_length=2**16)]
    _: KW_ONLY
    limit: Annotated[int, Limit(ge=1, le=MAX_ROWS)] = 100


class Found(TypedDict):
    """``columns`` [[name, type]], ``rows``, ``cut``: why there are more, else empty; ``loaded``: of how many."""

    columns: list[list[str]]
    rows: list[list[Any]]
    cut: str
    loaded: int


class ArchiveState(TypedDict):
    """``entries`` that it holds of ``size``; why it was ``rebuilt`` and the ``fault`` that holds it up, or None."""

    entries: int
    size: int
    rebuilt: str | None
    fault: str | None


class Archive(Noun):
    """The ledger in SQL."""

    status = Operation("GET", "/archive", Nothing, ArchiveState, "How far the archive has come.")
    sql = Operation("POST", "/archive/query", Query, Found, "Ask the archive, with one SELECT.")
    rebuild = Operation(
        "POST",
        "/archive/rebuild",
        Nothing,
        ArchiveState,
        "Throw the archive's files away and have them built anew; its status says how far that is.",
        recorded="archive_rebuild",
    )
