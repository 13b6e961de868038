"""One operation of a node: a row that says everything the doors need, and is the client's method besides.

A noun is a class whose body is its rows::

    class Processes(Noun):
        kill = Operation("POST", "/kill", Kill, Signalled, "Send an exit signal.", recorded="kill")

``Processes.kill`` is the row. Of an object, ``processes.kill("ada", signal="term")`` makes the request and asks the
object's :class:`Asker`; its parameters are those of the request type, its answer is of the answer type, and mypy holds
whoever calls it to both. ``Processes.kill.by(handler)`` joins a row to what answers it, and holds that to them too.

Requests are frozen dataclasses; what bounds a field stands in its annotation (:class:`Limit`). Answers are what JSON
can carry, described by ``TypedDict``: a client gets the very object that the handler made.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypedDict,
    TypeVar,
    get_args,
    get_type_hints,
    overload,
)

P = ParamSpec("P")
Request = TypeVar("Request")
Answer = TypeVar("Answer")
Context = TypeVar("Context")

Method = Literal["GET", "POST"]
MAX_ROWS = 10_000
MAX_PID = 2**63 - 1
MAX_WAIT_S = 86_400
START_S = 75.0
"""What the node gives a process to start, on a cell that may have to start first."""
_IN_PATH = re.compile(r"\{(\w+)(?::path)?\}")


class Operator(TypedDict):
    """Who is at the other end of the control socket, as the operating system vouches for it (SO_PEERCRED)."""

    uid: int
    os_pid: int


@dataclass(frozen=True, slots=True)
class Limit:
    """What bounds a value: the least and the most of its length (characters, items) or of the number itself.
    ``strict``: it is of its type as it stands, no text or truth that could be read as a number.
    """

    min_length: int | None = None
    max_length: int | None = None
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    strict: bool = False

    def given(self) -> dict[str, float]:
        """The bounds that are set, by name."""
        every = ((item.name, getattr(self, item.name)) for item in fields(self) if item.name != "strict")
        return {name: value for name, value in every if value is not None}

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], Any]) -> Any:
        """For whoever checks requests with pydantic, which this module does not import."""
        schema = {**handler(source), **self.given()}
        if self.strict:
            schema["strict"] = True
        return {**schema, "fail_fast": True} if schema["type"] in ("list", "tuple") else schema


@dataclass(frozen=True, slots=True)
class OnWire:
    """``type`` is what a field is in JSON, where Python's callers may give more (a PID as a number)."""

    type: Any

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """As of :class:`Limit`."""
        return handler.generate_schema(self.type)


Name = Annotated[str, Limit(min_length=1, max_length=1100)]
MAX_WHY_CHARS = 500
Why = Annotated[str, Limit(max_length=MAX_WHY_CHARS)]
"""What a person gives as the reason, for the record."""
Target = Annotated[str | int, OnWire(Name)]
"""What a person types: a PID, an address (``/user/boss``), or a name, of which a child of ``/user`` comes first; for
``inspect`` and ``logs`` also the beginning of a name; for ``send``, ``watch`` and ``kill`` also with ``@NODE``."""


@dataclass(frozen=True, slots=True)
class OfTarget:
    """A request about one process."""

    target: Target

    @property
    def named(self) -> str:
        """The target as text."""
        return str(self.target)


def on_wire(request: Any) -> dict[str, Any]:
    """The fields of a request as JSON has them."""
    kind: Any = type(request)
    texts = _texts(kind)
    values = {item.name: getattr(request, item.name) for item in fields(request)}
    return {name: str(value) if name in texts else _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    """Requests that are part of another one are maps too."""
    if is_dataclass(value):
        return on_wire(value)
    if isinstance(value, (list, tuple)) and any(map(is_dataclass, value)):
        return [on_wire(each) for each in value]
    return value


@cache
def _texts(request: Any) -> frozenset[str]:
    """The fields that are text in JSON, whatever Python's callers give."""
    hints = get_type_hints(request, include_extras=True)
    marks = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return frozenset(
        name
        for name, found in marks.items()
        if any(
            isinstance(mark, OnWire) and (mark.type is str or str in get_args(mark.type)) for mark in found
        )
    )


@dataclass(frozen=True, slots=True)
class Nothing:
    """The request of an operation that has to be told nothing."""


@dataclass(frozen=True, slots=True)
class Page:
    """Many rows are asked for a page at a time: the first ``limit``, then those ``after`` the number that the last row
    of that page has in the listing's order, until one is shorter than ``limit``.
    """

    _: KW_ONLY
    after: Annotated[int, Limit(ge=-1, le=2**63 - 1)] = -1
    limit: Annotated[int, Limit(ge=1, le=MAX_ROWS)] | None = None


class Asker(Protocol):
    """Brings a request to a node, and its answer back."""

    def ask(self, row: Row[..., Any, Answer], request: object) -> Answer: ...

    def stream(self, row: Row[..., Any, Answer], request: object) -> Generator[Answer, None, None]: ...


class Noun:
    """Operations that belong together, asked through ``asker``."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def _ask(self, row: Row[..., Any, Answer], request: object) -> Answer:
        return self._asker.ask(row, request)

    def _stream(self, row: Row[..., Any, Answer], request: object) -> Generator[Answer, None, None]:
        return self._asker.stream(row, request)

    @classmethod
    def rows(cls) -> tuple[AnyRow, ...]:
        """Its own rows, in the order in which they stand."""
        return tuple(row for row in vars(cls).values() if isinstance(row, Row))


class Row(Generic[P, Request, Answer]):
    """``path`` is below ``/v1``; a name in braces is the field of the request that stands there. Fields of a GET
    are its query, those of a POST its JSON body.

    ``recorded`` is the word under which the ledger has who asked for it, empty for what only looks. ``takes_s`` is how
    long the node may take for it where that is longer than usual; a request with ``wait_s`` says itself how long.
    ``after``: of a listing that is asked for in pages, what the next request says where a page ends with that row.
    ``event_id``: of a stream that a reader may come again for, the id of an object; the request has ``last_event_id``.
    """

    streams = False

    def __init__(
        self,
        method: Method,
        path: str,
        request: Callable[P, Request],
        answer: type[Answer],
        says: str,
        *,
        recorded: str = "",
        takes_s: float | None = None,
        after: Callable[[Any], str | int] | None = None,
        event_id: Callable[[Any], str] | None = None,
    ) -> None:
        self.method = method
        self.path = path
        self.request = request
        self.answer = answer
        self.says = self.__doc__ = says
        self.recorded = recorded
        self.takes_s = takes_s
        self.after = after
        self.event_id = event_id
        self.name = ""

    def __set_name__(self, owner: type[Noun], name: str) -> None:
        self.name = f"{owner.__name__.lower()}.{name}"

    def __repr__(self) -> str:
        return f"<{self.name}: {self.method} /v1{self.path}>"

    @property
    def in_path(self) -> tuple[str, ...]:
        """The fields that stand in the path."""
        return tuple(_IN_PATH.findall(self.path))

    def at(self, segment: Callable[[str], str]) -> str:
        """The path, each field in it as ``segment(field)`` gives it."""
        return _IN_PATH.sub(lambda found: segment(found[1]), self.path)


class Operation(Row[P, Request, Answer]):
    """A row that is answered once."""

    @overload
    def __get__(self, noun: None, owner: type[Noun]) -> Operation[P, Request, Answer]: ...
    @overload
    def __get__(self, noun: Noun, owner: type[Noun]) -> Callable[P, Answer]: ...
    def __get__(
        self, noun: Noun | None, owner: type[Noun]
    ) -> Operation[P, Request, Answer] | Callable[P, Answer]:
        if noun is None:
            return self

        def ask(*args: P.args, **kwargs: P.kwargs) -> Answer:
            return noun._ask(self, self.request(*args, **kwargs))

        return ask

    def by(self, handler: Callable[[Context, Request], Awaitable[Answer]]) -> Handler:
        """The row, and what answers it."""
        return self, handler


class Stream(Row[P, Request, Answer]):
    """A row that is answered by objects as they come."""

    streams = True

    @overload
    def __get__(self, noun: None, owner: type[Noun]) -> Stream[P, Request, Answer]: ...
    @overload
    def __get__(self, noun: Noun, owner: type[Noun]) -> Callable[P, Generator[Answer, None, None]]: ...
    def __get__(
        self, noun: Noun | None, owner: type[Noun]
    ) -> Stream[P, Request, Answer] | Callable[P, Generator[Answer, None, None]]:
        if noun is None:
            return self

        def stream(*args: P.args, **kwargs: P.kwargs) -> Generator[Answer, None, None]:
            return noun._stream(self, self.request(*args, **kwargs))

        return stream

    def by(self, handler: Callable[[Context, Request], AsyncIterator[Answer]]) -> Handler:
        """The row, and what answers it."""
        return self, handler


AnyRow = Row[..., Any, Any]
Handler = tuple[AnyRow, Callable[[Any, Any], Any]]


def handlers_of(parts: Iterable[tuple[Handler, ...]], table: tuple[AnyRow, ...]) -> dict[AnyRow, Any]:
    """What answers each row of ``table``. Raises LookupError for a row without a handler, or with two."""
    found: dict[AnyRow, Any] = {}
    for row, handler in (each for part in parts for each in part):
        if row in found or row not in table:
            raise LookupError(f"{row} is answered twice, or stands in no table")
        found[row] = handler
    if missing := [row for row in table if row not in found]:
        raise LookupError(f"nobody answers {missing}")
    return found
