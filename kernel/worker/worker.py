"""A worker process: ``python -P -m kernel.worker.worker --link-fd N --boot B``. Runs tools; nothing without a
receipt, but a look at which version of a file there is: it gives a digest, or leaves an empty witness of an absence;
and the probe that a tool declares, which says what became of an effect and changes nothing.

One worker runs the built-in tools, one each the tools of a third-party package. The node says which with the
first request, ``configure``; then ``run`` requests come, many at once. Synchronous tools run in threads,
asynchronous ones on the loop. Nothing a tool raises or
returns ends the worker; what a tool does to its own process is between it and the other tools of its package.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import inspect
import json
import os
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any, Literal, NoReturn

from chain.entry.entry import decode_body
from chain.notes.note import VerifierKey
from kernel.abi import EffectId, Probed
from kernel.helper.helper import die_with_parent, serve_link
from kernel.shapes import read, told
from kernel.toolbox.arguments import canonical_json
from kernel.toolbox.declaration import declaration_to_data
from kernel.toolbox.files import (
    UNKNOWN,
    FileChanged,
    FileError,
    file_version,
    list_directory,
    probe_write,
    read_file,
    write_file,
)
from kernel.toolbox.protected import NOTHING_PROTECTED, ProtectedPaths
from kernel.worker.intent import IntentGate, IntentRefused
from kernel.worker.loader import LoadedTool, LoadError, load_tool, one_line
from kernel.worker.requests import Accept, Answered, Configure, Configured, Probe, Run
from kernel.worker.threads import Threads

MAX_RESULT_BYTES = 2**20

Status = Literal["ok", "error", "refused", "changed"]


def answer_of(status: Status, text: str, landed: bool | None = None) -> Answered:
    """What goes back: at most ``MAX_RESULT_BYTES`` of ``text``, and size and SHA-256 of all of it."""
    data = text.encode("utf-8", "backslashreplace")
    kept = data if len(data) <= MAX_RESULT_BYTES else data[:MAX_RESULT_BYTES]
    truncated = len(data) > MAX_RESULT_BYTES
    text = kept.decode("utf-8", "ignore")
    return Answered(status, text, truncated, sha256(data).hexdigest(), len(data), landed)


def render(value: Any) -> str:
    """What a tool returned, as text: text itself, nothing for None, otherwise canonical JSON. Raises TypeError."""
    if value is None:
        return ""
    if isinstance(value, str):
        return str(value)
    try:
        return canonical_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        kind = type(value).__name__
        raise TypeError(f"the tool returned a {kind} that is not text or JSON: {one_line(error)}") from None


def rendered(value: Any) -> Answered:
    """The answer of a tool that returned ``value``."""
    return answer_of("ok", render(value))


def probed(value: Any) -> Answered:
    """The answer of a probe that returned ``value``. Raises TypeError for what is none."""
    match value:
        case Probed("landed", result):
            return answer_of("ok", render(result), True)
        case Probed("not_landed"):
            return answer_of("ok", "", False)
        case Probed("unknown", _, str(why)):
            return answer_of("ok", why)
    wanted = "a Probed that says landed, not_landed or unknown"
    raise TypeError(f"the probe returned a {type(value).__name__}, which is not {wanted}")


def call_guarded(
    function: Callable[..., Any],
    arguments: dict[str, Any],
    answer: Callable[[Any], Answered] = rendered,
) -> Answered:
    """Call, and turn whatever comes of it into an answer."""
    try:
        return answer(function(**arguments))
    except FileError as error:
        return answer_of("error", str(error))
    except FileChanged as error:
        return answer_of("changed", str(error))
    except BaseException as error:  # a tool's SystemExit or KeyboardInterrupt is its answer, not our end
        return answer_of("error", one_line(error))


async def await_guarded(
    function: Callable[..., Any],
    arguments: dict[str, Any],
    answer: Callable[[Any], Answered] = rendered,
) -> Answered:
    """The same for an asynchronous tool."""
    try:
        return answer(await function(**arguments))
    except BaseException as error:  # as above; nobody cancels this task but the end of the process
        return answer_of("error", one_line(error))


def terms_of(intent: dict[str, Any]) -> dict[str, str]:
    """Of a write, by its proven intent: it replaces anything the first time, then only what was there before that."""
    return {"replaces" if intent["attempt"] > 1 else "looked": str(intent.get("replaces", UNKNOWN))}


class Worker:
    """The requests of one worker process."""

    def __init__(self, boot: int, threads: int) -> None:
        self._boot = boot
        self._pool: Threads[Answered] = Threads(threads, "tool")
        self._gate: IntentGate | None = None
        self._third_party: dict[str, LoadedTool] = {}
        self._faults: dict[str, str] = {}
        self._builtin = False
        self._protected = NOTHING_PROTECTED

    async def handle(self, op: str, args: dict[str, Any]) -> Any:
        """One request."""
        if op == "run" and self._gate is not None:
            return told(await self._run(self._gate, read(Run, args)))
        if op == "look" and self._builtin:
            return told(await self._look(read(Run, args)))
        if op == "probe" and self._gate is not None:
            return told(await self._probe(read(Probe, args)))
        if op == "accept" and self._gate is not None:
            self._gate.accept(VerifierKey.parse(read(Accept, args).key))
            return None
        if op == "configure" and self._gate is None:
            return told(self._configure(read(Configure, args)))
        raise ValueError(f"request {op!r} is not expected now")

    def _configure(self, asked: Configure) -> Configured:
        self._builtin = asked.builtin
        self._protected = ProtectedPaths(asked.protected, asked.own_groups)
        for tool in asked.tools:
            try:
                self._third_party[tool.name] = load_tool(tool.name, tool.import_string, tool.python_path)
            except LoadError as error:
                self._faults[tool.name] = str(error)
        first, *later = map(VerifierKey.parse, asked.keys)
        self._gate = IntentGate(first, self._boot)
        for key in later:
            self._gate.accept(key)
        declarations = (declaration_to_data(loaded.declaration) for loaded in self._third_party.values())
        return Configured(tuple(declarations), self._faults)

    async def _look(self, call: Run) -> Answered:
        path = json.loads(call.arguments)["path"]
        look = partial(file_version, call.workspace, path, protected=self._protected, rules=call.files)
        return await self._in_thread(partial(call_guarded, look, {}))

    async def _run(self, gate: IntentGate, call: Run) -> Answered:
        tool = call.tool
        try:
            gate.admit(tool, call.arguments, call.receipt, call.salt, call.body)
        except IntentRefused as error:
            return answer_of("refused", str(error))
        arguments = json.loads(call.arguments)
        loaded = self._third_party.get(tool)
        if loaded is not None and loaded.declaration.effect_parameter:
            effect_id = EffectId(decode_body(call.body)["effect_id"])
            arguments[loaded.declaration.effect_parameter] = effect_id
        if loaded is not None and loaded.is_async:
            return await await_guarded(loaded.function, arguments)
        if loaded is not None:
            function: Callable[..., Any] = loaded.function
        elif self._builtin and tool in _FILE_TOOLS:
            function = partial(_FILE_TOOLS[tool], call.workspace, protected=self._protected, rules=call.files)
            if tool == "file_write":
                function = partial(function, **terms_of(decode_body(call.body)))
        else:
            return answer_of("error", self._faults.get(tool, f"this worker has no tool {tool!r}"))
        return await self._in_thread(partial(call_guarded, function, arguments))

    async def _probe(self, asked: Probe) -> Answered:
        loaded = self._third_party.get(asked.tool)
        if loaded is not None and loaded.probe is not None:
            probe = partial(loaded.probe, EffectId(asked.effect_id))
            if inspect.iscoroutinefunction(loaded.probe):
                return await await_guarded(probe, {}, probed)
        elif self._builtin and asked.tool == "file_write":
            write = json.loads(asked.arguments)
            probe = partial(probe_write, asked.workspace, write["path"], write["content"], asked.replaces)
            probe = partial(probe, protected=self._protected)
        else:
            return answer_of("error", self._faults.get(asked.tool, f"{asked.tool!r} has no probe here"))
        return await self._in_thread(partial(call_guarded, probe, {}, probed))

    async def _in_thread(self, call: Callable[[], Answered]) -> Answered:
        try:
            answer = self._pool.run(call)
        except RuntimeError as error:  # that it was not begun is a fact, and no doubt
            return answer_of("error", f"it was not begun: {one_line(error)}")
        return await answer


_FILE_TOOLS: dict[str, Callable[..., str]] = {
    "file_read": read_file,
    "file_list": list_directory,
    "file_write": write_file,
}


async def _serve(fd: int, boot: int, threads: int) -> NoReturn:
    await serve_link(fd, boot, Worker(boot, threads).handle)
    os._exit(0)  # a thread in which a tool hangs would keep an ordinary exit waiting for ever


def main() -> None:
    """Entry point."""
    die_with_parent()
    with contextlib.suppress(PermissionError):
        os.setpgid(0, 0)  # so that what a tool starts can be ended with it
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--link-fd", type=int, required=True)
    parser.add_argument("--boot", type=int, required=True)
    options = parser.parse_args()
    asyncio.run(_serve(options.link_fd, options.boot, options.threads))


if __name__ == "__main__":
    main()
