"""The way to a running node over its Unix socket: requests of the table out, answers and errors back."""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from kernel.operations.operation import Answer, Row, on_wire
from weftos.client.http import httpx
from weftos.errors import Impostor, WeftosError
from weftos.json_object import Json
from weftos.ownership import name_of
from weftos.paths import control_socket, not_running

MAX_SEGMENT_CHARS = 16_384  # of a path, escaped: more than any name that there is
_CREDENTIALS = struct.Struct("3i")  # of SO_PEERCRED: process, user, group
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no certificate: there is none on a Unix socket, and loading those of the world takes longer than to ask."""
_MARGIN_S = 10.0  # how much longer than the node's own wait the client waits for the answer


class Connection:
    """One node, on the data directory ``data``. ``timeout_s`` bounds every operation that does not say itself how long
    it takes. Raises WeftosError with the node's own words and code."""

    def __init__(self, data: Path, timeout_s: float) -> None:
        self._data = data
        self._timeout_s = timeout_s
        self._http = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(control_socket(data)), verify=_NO_TLS),
            base_url="http://weftos/v1",
            timeout=timeout_s,
            trust_env=False,
            event_hooks={"request": [_ask_who_serves]},
        )

    def close(self) -> None:
        """Close the connections to the node."""
        self._http.close()

    def ask(self, row: Row[..., Any, Answer], request: object) -> Answer:
        """The answer to ``request``."""
        wait_s = getattr(request, "wait_s", None) or row.takes_s
        timeout_s = self._timeout_s if wait_s is None else wait_s + _MARGIN_S
        with self._translated():
            answer = self._http.request(row.method, **_said(row, request), timeout=timeout_s)
            _check(answer)
            return cast(Answer, answer.json())

    def stream(self, row: Row[..., Any, Answer], request: object) -> Generator[Answer, None, None]:
        """Objects as they come, until the iterator is closed."""
        timeout = httpx.Timeout(self._timeout_s, read=None)
        with (
            self._translated(),
            self._http.stream(row.method, **_said(row, request), timeout=timeout) as answer,
        ):
            if answer.is_error:
                answer.read()
            _check(answer)
            for line in answer.iter_lines():
                item = json.loads(line)
                if "error" in item and "event" not in item:
                    raise _error_in(item)
                yield item

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise not_running(self._data) from error
        except httpx.TimeoutException as error:
            raise WeftosError(
                f"the node on {self._data} did not answer in time: look at weftos status and its logs",
                "timeout",
            ) from error
        except httpx.TransportError as error:
            raise WeftosError(
                f"the connection to the node on {self._data} broke ({error}); whether it acted is not known: "
                "look at weftos events",
                "unavailable",
            ) from error
        except httpx.InvalidURL as error:
            raise _too_long() from error
        except UnicodeEncodeError as error:
            raise _no_text(error) from error
        except ValueError as error:
            raise WeftosError(f"the node's answer is not readable ({error})", "internal") from error


def _said(row: Row[..., Any, Any], request: object) -> Json:
    """Where and how ``request`` is sent: fields in the path, the others in query or body."""
    said = on_wire(request)
    url = row.at(lambda name: _segment(said.pop(name)))
    if row.method == "GET":
        return {"url": url, "params": {name: value for name, value in said.items() if value is not None}}
    return {"url": url, "json": said or None}


def _ask_who_serves(request: httpx.Request) -> None:
    request.extensions["trace"] = _check_server


def _check_server(event: str, info: Json) -> None:
    """Before anything is said on a new connection: the process that listens must be this user's (SO_PEERCRED).

    Whatever the directories' owners and modes are, nobody else's process is told anything.
    """
    if event != "connection.connect_unix_socket.complete":
        return
    stream = info["return_value"]
    server: socket.socket = stream.get_extra_info("socket")
    _, uid, _ = _CREDENTIALS.unpack(
        server.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    if uid != os.geteuid():
        stream.close()
        raise Impostor(
            f"what listens at the node's socket belongs to {name_of(uid)}, you are {name_of(os.geteuid())}: it need "
            "not be the node, and is told nothing; ask as the node's owner"
        )


def _segment(text: str) -> str:
    """``text`` as a part of a path. Raises WeftosError for one that a server would hang up on."""
    try:
        segment = quote(text, safe="")
    except UnicodeEncodeError as error:
        raise _no_text(error) from error
    if len(segment) > MAX_SEGMENT_CHARS:
        raise _too_long()
    return segment


def _too_long() -> WeftosError:
    return WeftosError("what was given is too long for a name: check it", "invalid")


def _no_text(error: UnicodeEncodeError) -> WeftosError:
    given = repr(error.object[error.start : error.end])
    return WeftosError(f"{given} is no character: give text in UTF-8", "invalid")


def _check(answer: httpx.Response) -> None:
    if not answer.is_error:
        return
    try:
        raise _error_in(answer.json())
    except ValueError:
        raise WeftosError(
            f"the node answered {answer.status_code} {answer.reason_phrase}", "unavailable"
        ) from None


def _error_in(document: Any) -> WeftosError:
    match document:
        case {"error": {"code": str(code), "message": str(message), **rest}}:
            after_s = rest.get("retry_after_s", 0)
            known = after_s if isinstance(after_s, int | float) else 0
            return WeftosError(message, code, str(rest.get("word", "")), known)
        case _:
            return WeftosError("the node refused without saying why", "internal")
