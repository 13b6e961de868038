"""The tools a node knows: the built-in ones, and those named in the configuration."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

from kernel.abi import ToolDeclaration
from kernel.errors import Invalid
from kernel.operations.messages import MAX_EXPIRES_S, MAX_KEY_CHARS, MAX_TOPIC_CHARS, Overflow
from kernel.operations.operation import MAX_WHY_CHARS
from kernel.operations.processes import MAX_ID_CHARS
from kernel.toolbox.arguments import Validator, canonical_json
from kernel.toolbox.calculator import MAX_EXPRESSION_CHARS
from kernel.toolbox.declaration import check_declaration
from kernel.toolbox.files import MAX_READ_BYTES
from kernel.toolbox.memory import memory_declarations
from kernel.toolbox.parameters import a_text, an_integer, an_object
from kernel.toolbox.spawning import spawn_declaration

BUILTIN_PACKAGE = "builtin"


class RegistryError(Invalid):
    """Tools that cannot be registered. The message names every fault."""


@dataclass(frozen=True, slots=True)
class ToolSource:
    """Where a third-party tool comes from: one ``[tools.NAME]`` of the configuration."""

    name: str
    import_string: str
    python_path: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """Names the worker process: tools of one top-level module under one python_path share it."""
        top = self.import_string.partition(":")[0].partition(".")[0]
        plain = "".join(
            character if character.isascii() and character.isalnum() else "_" for character in top
        )
        origin = hashlib.sha256("\0".join((top, *self.python_path)).encode("utf-8", "replace")).hexdigest()
        return f"{plain[:40]}-{origin[:6]}"


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A registered tool. ``package`` is its worker process, None for one that runs in the node itself or is answered by
    the archive."""

    declaration: ToolDeclaration
    validator: Validator
    package: str | None
    import_string: str = ""
    python_path: tuple[str, ...] = ()


class Registry(Mapping[str, ToolEntry]):
    """Tools by name. Immutable. Names rise. ``effects`` holds what each has, as it declares."""

    def __init__(self, declarations: Iterable[ToolDeclaration], sources: Iterable[ToolSource] = ()) -> None:
        """``sources`` holds the source of each declaration whose sandbox is ``thirdparty``. Raises RegistryError."""
        by_name = {source.name: source for source in sources}
        entries: dict[str, ToolEntry] = {}
        faults: list[str] = []
        for declaration in declarations:
            name = declaration.name
            source = by_name.get(name)
            found = check_declaration(declaration)
            if name in entries:
                found.append("the name is taken by another tool; choose another one")
            if declaration.sandbox == "thirdparty" and source is None:
                found.append("it is third-party and has no source to import it from")
            faults += [f"tool {name[:64]}: {fault}" for fault in found]
            if not found:
                entries[name] = _entry(declaration, source)
        if faults:
            raise RegistryError("; ".join(faults))
        self._entries = dict(sorted(entries.items()))
        self.effects: Mapping[str, str] = {
            name: entry.declaration.effects for name, entry in self._entries.items()
        }

        self._tokens = {name: _tokens(entry.declaration) for name, entry in self._entries.items()}

    def sizes(self, tools: Iterable[str]) -> list[int]:
        """The tokens of the declarations of some tools; 0 of those that are not known."""
        return [self._tokens.get(name, 0) for name in tools]

    def __getitem__(self, name: str) -> ToolEntry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _tokens(declaration: ToolDeclaration) -> int:
    """What its declaration takes of a model's window: a token for four bytes."""
    parameters = canonical_json(declaration.parameters)
    text = f"{declaration.name}{declaration.description}{parameters}"
    return len(text.encode("utf-8", "replace")) // 4 + 8


def _entry(declaration: ToolDeclaration, source: ToolSource | None) -> ToolEntry:
    validator = Validator(declaration.parameters)
    if declaration.sandbox == "thirdparty" and source is not None:
        return ToolEntry(declaration, validator, source.package, source.import_string, source.python_path)
    return ToolEntry(declaration, validator, BUILTIN_PACKAGE if declaration.sandbox == "builtin" else None)


def builtin_declarations() -> list[ToolDeclaration]:
    """The built-in tools. None of them opens a connection: what goes to other nodes, or to a model, the node sends."""
    return [replace(each, network=()) for each in (*_worker_tools(), *_node_tools(), *memory_declarations())]


def _worker_tools() -> list[ToolDeclaration]:
    path = a_text("Path below the workspace, such as notes.txt or reports/may.txt.", 1, 4096)
    return [
        ToolDeclaration(
            name="file_read",
            description=(
                "Read a UTF-8 text file of the workspace. A long file is read in pieces: a last line in brackets "
                "says at which offset to go on."
            ),
            parameters=an_object(
                {
                    "path": path,
                    "offset": an_integer("Byte to begin at, 0 by default.", 0, 2**62),
                    "limit": an_integer("Bytes to read at most.", 4, MAX_READ_BYTES),
                },
                ["path"],
            ),
            effects="none",
            on_doubt="retry",
            sandbox="builtin",
            timeout_s=30.0,
        ),
        ToolDeclaration(
            name="file_list",
            description="List a directory of the workspace: one entry a line, directories end in /.",
            parameters=an_object(
                {"path": a_text("Directory below the workspace; the workspace itself by default.", 0, 4096)}
            ),
            effects="none",
            on_doubt="retry",
            sandbox="builtin",
            timeout_s=30.0,
        ),
        ToolDeclaration(
            name="file_write",
            description="Create or replace a text file of the workspace. Missing directories are made.",
            parameters=an_object({"path": path, "content": {"type": "string"}}, ["path", "content"]),
            effects="local",
            on_doubt="retry",
            sandbox="builtin",
            timeout_s=30.0,
            probe=True,
        ),
    ]


def _node_tools() -> list[ToolDeclaration]:
    to = a_text("Name, address or PID of the receiver; with @NODE behind it on another node.", 1, 1024)
    text = a_text("What to say.", 1, 256 * 2**10)
    return [
        ToolDeclaration(
            name="calculator",
            description="Evaluate an arithmetic expression, such as (2+3)*4**2 or sqrt(2). Powers are written **.",
            parameters=an_object(
                {"expression": a_text("The expression.", 1, MAX_EXPRESSION_CHARS)}, ["expression"]
            ),
            effects="none",
            on_doubt="retry",
            sandbox="node",
        ),
        ToolDeclaration(
            name="send_message",
            description="Send a message to another process. Does not wait for an answer.",
            parameters=an_object(
                {
                    "to": to,
                    "text": text,
                    "key": a_text(
                        "The same message with the same key within a day is sent once.", 1, MAX_KEY_CHARS
                    ),
                    "expires_s": {
                        "type": "number",
                        "minimum": 1,
                        "maximum": MAX_EXPIRES_S,
                        "description": "Not handled when its turn has not begun by then; never by default.",
                    },
                },
                ["to", "text"],
            ),
            effects="local",
            sandbox="node",
        ),
        ToolDeclaration(
            name="ask",
            description="Ask another process and wait for its reply.",
            parameters=an_object(
                {
                    "to": to,
                    "text": text,
                    "timeout_s": {
                        "type": "number",
                        "minimum": 1,
                        "maximum": 600,
                        "description": "30 by default.",
                    },
                },
                ["to", "text"],
            ),
            effects="local",
            sandbox="node",
            timeout_s=600.0,
        ),
        *_topic_tools(text),
        ToolDeclaration(
            name="cancel_turn",
            description=(
                "End what a process below this one is doing, or a message that this one has sent it, with all that "
                "this has led to. The process lives on, with what it has recorded so far."
            ),
            parameters=an_object(
                {
                    "process": a_text("Name, address or PID of the process.", 1, 1100),
                    "message": a_text(
                        "Id of the message, such as m12; what it is doing now by default.", 1, MAX_ID_CHARS
                    ),
                    "why": a_text("Why, for whoever reads the record.", 0, MAX_WHY_CHARS),
                },
                ["process"],
            ),
            effects="local",
            sandbox="node",
        ),
        spawn_declaration(),
    ]


def _topic_tools(text: dict[str, Any]) -> list[ToolDeclaration]:
    topic = a_text("Words with dots between them, such as orders.new.", 1, MAX_TOPIC_CHARS)
    pattern = a_text("A topic, orders.* for all below it, or * for every topic.", 1, MAX_TOPIC_CHARS)
    overflow = {
        "enum": list(get_args(Overflow)),
        "description": "When the mailbox is full; drop_oldest for topics below telemetry alone.",
    }
    described = (
        ("publish", "Say something to all who have subscribed to a topic.", {"topic": topic, "text": text}),
        ("broadcast", "Say something to all processes below this one.", {"text": text}),
        ("subscribe", "Be sent what is published to topics.", {"pattern": pattern, "overflow": overflow}),
        ("unsubscribe", "Take a subscription back.", {"pattern": pattern}),
    )
    return [
        ToolDeclaration(
            name=name,
            description=description,
            parameters=an_object(parameters, [each for each in parameters if each != "overflow"]),
            effects="local",
            sandbox="node",
        )
        for name, description, parameters in described
    ]
