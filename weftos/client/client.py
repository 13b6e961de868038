"""The synchronous client of a running node, over its Unix socket. Used by the CLI and by programs.

    from weftos import Client

    with Client() as node:
        pid = node.spawn("ada")["pid"]
        print(node.send(pid, "what is 17*23", wait_s=30)["reply"])

Every method answers with the JSON objects that ``weftos.operations.control.Control`` documents, and raises
:class:`weftos.WeftosError` with the node's own words and code.
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, cast
from urllib.parse import quote

from weftos.client.http import httpx
from weftos.errors import Impostor, WeftosError
from weftos.operations.control import Decision, Isolation, Json, Resolution, Restart, SearchMode, Signal
from weftos.ownership import name_of
from weftos.paths import control_socket, data_directory, not_running

DEFAULT_TIMEOUT_S = 30.0
_CREDENTIALS = struct.Struct("3i")  # of SO_PEERCRED: process, user, group
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts no certificate: there is none on a Unix socket, and loading those of the world takes longer than to ask."""
_START_S = 75.0  # what the node gives a process to start, on a cell that may have to start first
_REMOVE_S = 120.0  # what the node may take to remove a tree of many thousands
_READ_S = 900.0  # what the node may take to read the whole ledger
_MARGIN_S = 10.0  # how much longer than the node's own wait the client waits for the answer


class Client:
    """One node. ``data`` is its data directory (None: as ``weftos`` chooses it). Not for use by several
    threads.

    ``timeout_s`` bounds every call that does not say how long it waits.
    """

    def __init__(
        self, data: str | os.PathLike[str] | None = None, *, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        self._data = data_directory(data)
        self._timeout_s = timeout_s
        self._http = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(control_socket(self._data)), verify=_NO_TLS),
            base_url="http://weftos/v1",
            timeout=timeout_s,
            trust_env=False,
            event_hooks={"request": [_ask_who_serves]},
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the node."""
        self._http.close()

    def status(self) -> Json:
        return self._object("GET", "/status")

    def spawn(
        self,
        name: str,
        *,
        behaviour: str = "agent",
        under: str = "/user",
        on: str = "",
        tools: Sequence[str] | None = None,
        restart: Restart = "permanent",
        isolation: Isolation | None = None,
        provider: str = "",
        model: str = "",
        system_prompt: str = "",
        workspace: str = "",
    ) -> Json:
        """Add a process below ``under``, and wait until it runs. ``on`` names a peer that grants spawn.

        ``tools`` None: calculator, file_read, file_list.
        """
        request = {
            "name": name,
            "behaviour": behaviour,
            "under": under,
            "on": on,
            "tools": None if tools is None else list(tools),
            "restart": restart,
            "isolation": isolation,
            "provider": provider,
            "model": model,
            "system_prompt": system_prompt,
            "workspace": workspace,
        }
        return self._object("POST", "/spawn", body=request, wait_s=_START_S)

    def spawn_supervisor(
        self,
        name: str,
        *,
        under: str = "/user",
        on: str = "",
        restart: Restart = "permanent",
        intensity: tuple[int, float] | None = None,
    ) -> Json:
        """Add a supervisor below ``under``; ``intensity`` is how many restarts it allows in how many
        seconds."""
        request = {
            "name": name,
            "under": under,
            "on": on,
            "restart": restart,
            "supervisor": True,
            "intensity": intensity and list(intensity),
        }
        return self._object("POST", "/spawn", body=request, wait_s=_START_S)

    def ps(self, *, all: bool = False) -> list[Json]:
        return self._rows("/processes", {"all": all})

    def inspect(self, target: str | int) -> Json:
        return self._object("GET", "/process", query={"target": str(target)})

    def send(self, target: str | int, text: str, *, session: str = "", wait_s: float | None = None) -> Json:
        """Send a message. With ``wait_s`` the answer holds the reply; ``timeout`` when there is none in
        time."""
        body = {"target": str(target), "text": text, "session": session, "wait_s": wait_s}
        return self._object("POST", "/send", body=body, wait_s=wait_s)

    def watch(self, target: str | int, text: str, *, session: str = "") -> Generator[Json, None, None]:
        """Send a message and yield what comes of it, token by token, until the reply."""
        return self._lines("POST", "/watch", body={"target": str(target), "text": text, "session": session})

    def cancel(self, target: str | int) -> Json:
        """End the current turn of a process; the process lives on."""
        return self._object("POST", "/cancel", body={"target": str(target)})

    def stop(self, target: str | int) -> Json:
        """Stop a child through its supervisor. It stays stopped until :meth:`start`."""
        return self._object("POST", "/stop", body={"target": str(target)})

    def start(self, address: str) -> Json:
        """Start a stopped or parked child."""
        return self._object("POST", "/start", body={"target": address}, wait_s=_START_S)

    def remove(self, target: str | int, *, recursive: bool = False) -> Json:
        """Remove a stopped or parked child for good; its name is free again. ``recursive``: with all below it."""
        body = {"target": str(target), "recursive": recursive}
        return self._object("POST", "/remove", body=body, wait_s=_REMOVE_S)

    def kill(self, target: str | int, *, signal: Signal = "term") -> Json:
        """Send an exit signal. What follows is up to the supervisor and the restart type."""
        return self._object("POST", "/kill", body={"target": str(target), "signal": signal})

    def deadletters(self) -> list[Json]:
        return self._rows("/deadletters")

    def deadletter(self, id: str) -> Json:
        return self._object("GET", f"/deadletters/{_segment(id)}")

    def erase(
        self,
        reason: str,
        *,
        seqs: Sequence[int] = (),
        pid: int | None = None,
        target: str | int = "",
        session: str = "",
    ) -> Json:
        """Erase what entries say: those of ``seqs``, all of ``pid``, or all of a ``session`` of ``target``.

        Returns when that is decided: ``seq`` of the entry that says so, ``entries``, ``ranges``, ``sessions``,
        ``documents``, ``kept``, ``left``. It is done when :meth:`erasures` does not name ``seq`` any more.
        """
        body = {"reason": reason, "seqs": list(seqs), "pid": pid, "target": str(target), "session": session}
        return self._object("POST", "/erasures", body=body, wait_s=_READ_S)

    def erasures(self) -> Json:
        """Erasures under way: ``erasing`` (their entries), ``step`` and ``fault`` of the work on them."""
        return self._object("GET", "/erasures")

    def replay(self, id: str) -> Json:
        """Send a dead letter again, as a new message."""
        return self._object("POST", f"/deadletters/{_segment(id)}/replay")

    def doubts(self) -> list[Json]:
        return self._rows("/doubts")

    def resolve(self, id: str, resolution: Resolution) -> Json:
        """Decide a call in doubt: ``retry`` it, or say that it was ``done``, or that it is ``lost``."""
        return self._object("POST", f"/doubts/{_segment(id)}/resolve", body={"resolution": resolution})

    def divergences(self) -> list[Json]:
        """Turns that diverged and wait for a person, each with both calls: ``recorded`` and ``asked``."""
        return self._rows("/divergences")

    def decide(self, turn: str, decision: Decision) -> Json:
        """Decide a parked turn: hand it out ``again``, ``accept`` the new call, or ``dead``: give its message up."""
        return self._object("POST", f"/divergences/{_segment(turn)}/decide", body={"decision": decision})

    def log(self, *, pid: int | None = None, kind: str | None = None, limit: int = 50) -> Json:
        """Ledger entries from the archive: ``rows`` and ``source``."""
        return self._object("GET", "/log", query={"pid": pid, "kind": kind, "limit": limit})

    def events(self, *, follow: bool = False) -> Generator[Json, None, None]:
        """Recent ledger entries; with ``follow`` each new one as it is written, until the iterator is
        closed."""
        return self._lines("GET", "/events", query={"follow": follow})

    def logs(self, target: str | int, *, limit: int = 200) -> list[Json]:
        return self._rows("/logs", {"target": str(target), "limit": limit})

    def memory_add(self, text: str, *, title: str = "", scope: str = "shared", owner: str = "") -> Json:
        """Remember a text. ``scope`` shared: for every process; own: for its ``owner`` (an address; empty: people
        alone) and the processes below it."""
        body = {"text": text, "title": title, "scope": scope, "owner": owner}
        return self._object("POST", "/memory", body=body)

    def memory_search(self, query: str, *, k: int = 5, mode: SearchMode = "hybrid") -> Json:
        """``results``, best first, and ``degraded``: why a part of the search is missing."""
        return self._object("POST", "/memory/search", body={"query": query, "k": k, "mode": mode})

    def memory_show(self, id: str) -> Json:
        return self._object("GET", f"/memory/{_segment(id)}")

    def memory_forget(self, id: str) -> Json:
        """Take a document out of memory, and out of the index."""
        return self._object("POST", f"/memory/{_segment(id)}/forget")

    def memory_stats(self) -> Json:
        return self._object("GET", "/memory")

    def memory_reindex(self) -> Json:
        """Have the index built anew, in the background."""
        return self._object("POST", "/memory/reindex")

    def node_id(self) -> Json:
        """``name``, ``origin`` and ``address`` of this node."""
        return self._object("GET", "/cluster/identity")

    def nodes(self) -> list[Json]:
        """This node and its peers, as it sees them."""
        return self._rows("/cluster/nodes")

    def cluster_ps(self) -> list[Json]:
        """Processes of all nodes, as each has last said; ``stale`` when the node is not up."""
        return self._rows("/cluster/processes")

    def monitor(self, target: str | int, *, wait_s: float) -> Json:
        """Wait until a process has ended, here or on another node: ``reason``."""
        body = {"target": str(target), "wait_s": wait_s}
        return self._object("POST", "/cluster/monitor", body=body, wait_s=wait_s)

    def peers(self) -> list[Json]:
        return self._rows("/cluster/peers")

    def peer_add(
        self,
        name: str,
        origin: str,
        *,
        address: str = "",
        may: Sequence[str] | None = None,
        tools: Sequence[str] | None = None,
    ) -> Json:
        """Allow a node. ``may`` None: send and ps. ``tools`` None: those without effects; ``*``: every tool."""
        body = {
            "name": name,
            "origin": origin,
            "address": address,
            "may": None if may is None else list(may),
            "tools": None if tools is None else list(tools),
        }
        return self._object("POST", "/cluster/peers", body=body)

    def peer_remove(self, name: str) -> Json:
        return self._object("POST", "/cluster/peers/remove", body={"name": name})

    def peer_heads(self) -> list[Json]:
        """The newest head kept of each peer; ``conflict``: the one that contradicts it."""
        return self._rows("/cluster/heads")

    def head_decide(self, name: str, counts: str, reason: str) -> Json:
        """Decide which of two heads of a peer counts: ``kept`` or ``shown``."""
        body = {"name": name, "counts": counts, "reason": reason}
        return self._object("POST", "/cluster/heads/decide", body=body)

    def tokens(self) -> list[Json]:
        return self._rows("/cluster/tokens")

    def token_create(self, *, lifetime_s: int = 86_400) -> Json:
        """A join token for one node; its ``token`` is shown this once."""
        return self._object("POST", "/cluster/tokens", body={"lifetime_s": lifetime_s})

    def token_revoke(self, id: str) -> Json:
        return self._object("POST", f"/cluster/tokens/{_segment(id)}/revoke")

    def rotate_keys(self, reason: str) -> Json:
        """Change both signing keys of the node: ``origin``, ``number``, ``ed25519``, ``ml_dsa_65``, ``seq``."""
        return self._object("POST", "/keys/rotate", body={"reason": reason})

    def sql(self, sql: str, *, limit: int = 100) -> Json:
        """Ask the archive, with one SELECT: ``columns`` (name and type of each), ``rows``, ``cut``, ``loaded``."""
        return self._object("POST", "/archive/query", body={"sql": sql, "limit": limit})

    def archive_status(self) -> Json:
        """How far the archive has come: ``entries`` of ``size``; ``fault`` when it does not go on."""
        return self._object("GET", "/archive")

    def archive_rebuild(self) -> Json:
        """Throw the archive's files away and have them built anew; :meth:`archive_status` says how far that is."""
        return self._object("POST", "/archive/rebuild")

    def config(self) -> Json:
        return self._object("GET", "/config")

    def shutdown(self) -> None:
        """Ask the node to stop. Returns when it has begun to."""
        self._object("POST", "/shutdown")

    def _object(
        self,
        method: str,
        path: str,
        *,
        query: Json | None = None,
        body: Json | None = None,
        wait_s: float | None = None,
    ) -> Json:
        return cast(Json, self._answer(method, path, query, body, wait_s))

    def _rows(self, path: str, query: Json | None = None) -> list[Json]:
        return cast(list[Json], self._answer("GET", path, query, None, None))

    def _answer(
        self, method: str, path: str, query: Json | None, body: Json | None, wait_s: float | None
    ) -> Any:
        timeout_s = self._timeout_s if wait_s is None else wait_s + _MARGIN_S
        with self._translated():
            answer = self._http.request(method, path, params=_present(query), json=body, timeout=timeout_s)
            _check(answer)
            return answer.json()

    def _lines(
        self, method: str, path: str, *, query: Json | None = None, body: Json | None = None
    ) -> Generator[Json, None, None]:
        timeout = httpx.Timeout(self._timeout_s, read=None)
        with (
            self._translated(),
            self._http.stream(method, path, params=_present(query), json=body, timeout=timeout) as answer,
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
            raise WeftosError("what was given is too long for a name: check it", "invalid") from error
        except UnicodeEncodeError as error:
            raise _no_text(error) from error
        except ValueError as error:
            raise WeftosError(f"the node's answer is not readable ({error})", "internal") from error


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
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        raise _no_text(error) from error


def _no_text(error: UnicodeEncodeError) -> WeftosError:
    given = repr(error.object[error.start : error.end])
    return WeftosError(f"{given} is no character: give text in UTF-8", "invalid")


def _present(query: Json | None) -> Json:
    return {name: value for name, value in (query or {}).items() if value is not None}


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
        case {"error": {"code": str(code), "message": str(message)}}:
            return WeftosError(message, code)
        case _:
            return WeftosError("the node refused without saying why", "internal")
