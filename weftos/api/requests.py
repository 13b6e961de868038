"""Reads the request of an operation out of an HTTP request: from path, query or body, checked as its row says."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from email.message import Message
from functools import cached_property
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from starlette.requests import Request

from kernel.operations.operation import AnyRow

LAST_EVENT_ID = "last-event-id"
_SHOWN_FAULTS = 5
_SHOWN_CHARS = 80
_MOST_FIELDS = 100


class WrongRequest(Exception):
    """What a caller sent is not what the operation takes. The message names every fault, or the first few."""


class Reader:
    """Reads the requests of one operation. Raises WrongRequest. What is in a body and not known is refused.

    What checks the fields is made for the first request: a boot would wait for all of it, and no node is asked for
    every operation.
    """

    def __init__(self, row: AnyRow) -> None:
        names = [field.name for field in fields(row.request)]  # type: ignore[arg-type]  # every request is a dataclass
        self._row = row
        self._make = row.request
        self._by_body = row.method == "POST"
        self._known = [name for name in names if name not in row.in_path]

    @cached_property
    def _path(self) -> type[BaseModel]:
        return _model(self._row, self._row.in_path, "ignore")

    @cached_property
    def _rest(self) -> type[BaseModel]:
        return _model(self._row, self._known, "forbid" if self._by_body else "ignore")

    async def read(self, request: Request) -> Any:
        """The request, with every default filled in."""
        values, found = _checked(self._path, request.path_params)
        if self._known:
            given = await _body(request) if self._by_body else _asked_for(self._row, request)
            more, faults = _checked(self._rest, given)
            values, found = {**values, **more}, [*found, *faults]
        if found:
            raise WrongRequest(self._words(found))
        made = self._make(**values)
        if check := getattr(made, "check", None):
            self._refuse(check())
        return made

    def _refuse(self, faults: list[str]) -> None:
        if faults:
            raise WrongRequest("; ".join(faults))

    def _words(self, found: list[Any]) -> str:
        faults = [_fault(item, self._known) for item in found[:_SHOWN_FAULTS]]
        if len(found) > _SHOWN_FAULTS:
            faults.append(f"and {len(found) - _SHOWN_FAULTS} more")
        return "; ".join(faults)


def _model(row: AnyRow, names: Iterable[str], extra: str) -> type[BaseModel]:
    """What checks these fields of a row's request."""
    hints = get_type_hints(row.request, include_extras=True)
    defaults = {field.name: field.default for field in fields(row.request)}  # type: ignore[arg-type]  # see above
    wanted: dict[str, Any] = {
        name: (hints[name], ... if defaults[name] is MISSING else defaults[name]) for name in names
    }
    return create_model(row.name, __config__=ConfigDict(extra=extra), **wanted)  # type: ignore[typeddict-item]  # two of its words


def _checked(model: type[BaseModel], given: object) -> tuple[dict[str, Any], list[Any]]:
    """The fields of ``given``, or what is wrong with it."""
    if not model.model_fields:
        return {}, []
    try:
        read = model.model_validate(given, from_attributes=True)
    except ValidationError as error:
        return {}, list(error.errors())
    return {name: getattr(read, name) for name in model.model_fields}, []


def _asked_for(row: AnyRow, request: Request) -> dict[str, str]:
    """The query; who comes again for a stream says in a head what he has seen, as browsers do by themselves."""
    given = dict(request.query_params)
    last = request.headers.get(LAST_EVENT_ID, "")
    return {**given, "last_event_id": last} if row.event_id is not None and last else given


async def _body(request: Request) -> object:
    """What the body says. Raises WrongRequest for what is not JSON; a body of another type is not looked into."""
    body = await request.body()
    if not body:
        raise WrongRequest("the body: missing, and it is needed")
    if not _is_json(request.headers.get("content-type", "")):
        return body
    try:
        value = json.loads(body)
    except json.JSONDecodeError as error:
        raise WrongRequest(f"the body is not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise WrongRequest(f"the body cannot be read: {_unreadable(error)}") from error
    if isinstance(value, dict) and len(value) > _MOST_FIELDS:
        raise WrongRequest(f"the body has {len(value)} fields: no request has so many")
    return value


def _unreadable(error: Exception) -> str:
    match error:
        case UnicodeDecodeError():
            return f"it is not UTF-8 text (byte {error.start})"
        case RecursionError():
            return "it is nested too deeply"
    return "a number in it has too many digits"


def _is_json(content_type: str) -> bool:
    message = Message()
    message["content-type"] = content_type
    kind = message.get_content_subtype()
    return message.get_content_maintype() == "application" and (kind == "json" or kind.endswith("+json"))


def _fault(item: Mapping[str, Any], known: list[str]) -> str:
    """One validation error as a sentence: where, what was wrong with which value, what would be right."""
    where = ".".join(str(part) for part in item["loc"])[:_SHOWN_CHARS] or "the body"
    if item["type"] == "extra_forbidden":
        near = get_close_matches(where, known, n=1)
        return f"{where}: no such field" + (
            f", did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
        )
    if item["type"] == "missing":
        return f"{where}: missing, and it is needed"
    given = repr(item.get("input"))
    return f"{where}: {item['msg']}, not {given if len(given) <= 80 else given[:77] + '...'}"
