"""One step of a request to the offline planner: a line of text in, a tool call out. Fixed patterns, no
guessing.

Pure. Patterns with a regular expression are applied to short texts only; the long ones (a text to write or to
send) are cut at words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cognition.recall.context import hits_of

HELP = (
    "I am the offline planner of weftos, not a language model. I understand a few fixed requests: "
    "what is 17*23 | read FILE | read FILE and tell me how many lines (or words, characters) | list files | "
    "list DIR | write TEXT to FILE | tell NAME to TEXT | send TEXT to NAME | ask NAME TEXT | spawn NAME | "
    "remember TEXT | recall TEXT | what do you remember about TEXT | "
    'use TOOL with {"json": "arguments"} | several of these joined by "then", where "it" or "the result" is '
    "what the step before gave."
)
_SHORT = 1_000

_IT = frozenset({"it", "that", "the result"})
_THE_RESULT = re.compile(r"\bthe result\b", re.IGNORECASE)
_ANY_IT = re.compile(r"\b(?:the result|it|that)\b", re.IGNORECASE)
_SPOKEN = (("divided by", "/"), ("plus", "+"), ("minus", "-"), ("times", "*"), ("^", "**"))
_FUNCTIONS = frozenset({"abs", "min", "max", "round", "sqrt", "floor", "ceil", "pi", "e"})
_EXPRESSION = re.compile(r"[0-9a-z+\-*/%(). ,]+")
_READ = re.compile(
    r'read (?:the file )?("[^"]+"|\S+?)'
    r"(?:,? and (?:tell me |say )?how many (lines|words|characters)\b[a-z ]*)?[.?!]?",
    re.IGNORECASE,
)
_LIST = re.compile(r'list(?: the)?(?: files)?(?: in)?(?: ("[^"]+"|\S+?))?[.?!]?', re.IGNORECASE)
_FILE_PART = re.compile(r"\n\[bytes 0 to (\d+) of \d+; go on with offset \d+\]\Z")
_ABOUT = re.compile(r"what do you remember about (.+?)[?.! ]*", re.IGNORECASE | re.DOTALL)
_SPAWN = re.compile(r"spawn (\S+?)(?: with tools? ([\w.,\- ]+?))?[.!]?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Result:
    """One tool result of this turn, as the messages show it."""

    text: str
    status: str = "ok"
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """What earlier steps left behind: ``result`` is what "it" means, ``file`` what "read it" means."""

    result: str | None = None
    file: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """The next tool call.

    ``arguments`` is JSON text; ``report`` makes its result a sentence and what to remember.
    """

    tool: str
    arguments: str
    report: Callable[[Result, Memory], tuple[str, Memory]]


@dataclass(frozen=True, slots=True)
class Say:
    """Words, and no call."""

    text: str


def read_step(step: str, memory: Memory) -> Call | Say | None:
    """One step as an action, None when it fits no pattern."""
    word, _, rest = step.partition(" ")
    rest = rest.strip()
    match word.lower().rstrip("!.?:"):
        case "hello" | "hi" | "help":
            return Say(HELP)
        case "what" | "what's" | "calculate" | "compute":
            return _recollection(step) or _calculation(step, memory)
        case "remember":
            return _remembering(rest, memory)
        case "recall":
            return _recalling(rest.rstrip("?.!"))
        case "read":
            return _reading(step, memory)
        case "list":
            return _listing(step)
        case "write":
            return _writing(rest, memory)
        case "tell":
            return _telling(rest, memory)
        case "send":
            return _sending(rest, memory)
        case "ask":
            return _asking(rest, memory)
        case "spawn":
            return _spawning(step)
        case "use":
            return _using(rest, memory)
    return None


def _calculation(step: str, memory: Memory) -> Call | None:
    if len(step) > _SHORT:
        return None
    text = step.lower().rstrip("?!. ").replace("what's", "what is", 1)
    for opening in ("what is ", "calculate ", "compute "):
        if text.startswith(opening):
            text = text.removeprefix(opening)
            break
    else:
        return None
    if memory.result is not None and len(memory.result) <= _SHORT:
        value = memory.result.strip()
        text = _ANY_IT.sub(lambda _: f"({value})", text) if re.fullmatch(r"-?[0-9.]+", value) else text
    for spoken, sign in _SPOKEN:
        text = text.replace(spoken, sign)
    words = set(re.findall(r"[a-z]+", text))
    if not (_EXPRESSION.fullmatch(text) and words <= _FUNCTIONS and re.search(r"[0-9]", text)):
        return None
    expression = text.strip()
    return _call(
        "calculator",
        {"expression": expression},
        lambda result, memory: (f"{expression} = {result.text}", Memory(result.text, memory.file)),
    )


def _reading(step: str, memory: Memory) -> Call | None:
    found = _READ.fullmatch(step) if len(step) <= _SHORT else None
    if found is None:
        return None
    path, unit = _unquoted(found.group(1)), (found.group(2) or "").lower()
    if path.lower() == "it" and memory.file is not None:
        path = memory.file

    def report(result: Result, memory: Memory) -> tuple[str, Memory]:
        result = file_part(result)
        if not unit:
            tail = "\n(The file is longer; this is its beginning.)" if result.truncated else ""
            return result.text + tail, Memory(result.text, path)
        count = count_units(result.text, unit)
        if result.truncated:
            sentence = f"{path} has at least {count} {unit}: it is longer than what I was shown."
        else:
            sentence = f"{path} has {count} {unit if count != 1 else unit[:-1]}."
        return sentence, Memory(str(count), path)

    return _call("file_read", {"path": path}, report)


def file_part(result: Result) -> Result:
    """A result of ``file_read`` without the line at its end that says how the file goes on."""
    note = _FILE_PART.search(result.text[-200:])
    if note is None:
        return result
    text = result.text[: len(result.text) - len(note.group())]
    if len(text.encode("utf-8", "replace")) != int(note.group(1)):
        return result
    return Result(text, result.status, truncated=True)


def count_units(text: str, unit: str) -> int:
    """Lines (a last one without newline counts), words (between white space) or characters."""
    if unit == "lines":
        return text.count("\n") + (not text.endswith("\n") and text != "")
    return len(text.split()) if unit == "words" else len(text)


def _listing(step: str) -> Call | None:
    found = _LIST.fullmatch(step) if len(step) <= _SHORT else None
    if found is None:
        return None
    path = _unquoted(found.group(1) or "")
    return _call(
        "file_list",
        {"path": path} if path else {},
        lambda result, memory: (result.text or "There are no files.", Memory(result.text, memory.file)),
    )


def _writing(rest: str, memory: Memory) -> Call | None:
    text, _, path = rest.rpartition(" to ")
    path = _unquoted(path.strip().rstrip("!?").removesuffix("."))
    if not text or not path:
        return None
    content = _meant(text, memory)
    return _call(
        "file_write",
        {"path": path, "content": content},
        lambda _, memory: (f"Wrote {len(content)} characters to {path}.", Memory(content, path)),
    )


def _telling(rest: str, memory: Memory) -> Call | None:
    name, _, text = rest.partition(" ")
    text = text.strip()
    for filler in ("to ", "that "):
        if text.lower().startswith(filler):
            text = text[len(filler) :].strip()
            break
    return _message(name, text, memory)


def _sending(rest: str, memory: Memory) -> Call | None:
    text, _, name = rest.rpartition(" to ")
    return _message(name.strip(), text.strip(), memory)


def _message(name: str, text: str, memory: Memory) -> Call | None:
    name = _name(name)
    if not name or not text or name.lower() == "me":
        return None
    return _call(
        "send_message",
        {"to": name, "text": _meant(text, memory)},
        lambda _, memory: (f"Sent to {name}.", memory),
    )


def _asking(rest: str, memory: Memory) -> Call | None:
    name, _, text = rest.partition(" ")
    name, text = _name(name), text.strip()
    if text.lower().startswith("to "):
        text = text[3:].strip()
    if not name or not text:
        return None
    return _call(
        "ask",
        {"to": name, "text": _meant(text, memory)},
        lambda result, memory: (f"{name} answered: {result.text}", Memory(result.text, memory.file)),
    )


def _spawning(step: str) -> Call | None:
    found = _SPAWN.fullmatch(step) if len(step) <= _SHORT else None
    if found is None:
        return None
    name = _unquoted(found.group(1))
    arguments: dict[str, Any] = {"name": name}
    if found.group(2):
        arguments["tools"] = [tool for tool in re.split(r"[, ]+", found.group(2)) if tool and tool != "and"]
    return _call(
        "spawn_agent",
        arguments,
        lambda result, memory: (f"{name}: {result.text}", Memory(name, memory.file)),
    )


def _remembering(rest: str, memory: Memory) -> Call | None:
    text = rest[5:].strip() if rest[:5].lower() == "that " else rest
    if not text:
        return None
    return _call(
        "memory_write",
        {"text": _meant(text, memory)},
        lambda result, memory: (f"{result.text[:1].upper()}{result.text[1:]}.", memory),
    )


def _recollection(step: str) -> Call | None:
    found = _ABOUT.fullmatch(step) if len(step) <= _SHORT else None
    return None if found is None else _recalling(found.group(1))


def _recalling(query: str) -> Call | None:
    query = _unquoted(query.strip())
    if not query or len(query) > _SHORT:
        return None

    def report(result: Result, memory: Memory) -> tuple[str, Memory]:
        texts = [hit["text"].strip() for hit in hits_of(result.text)]
        if not texts:
            return f"I remember nothing about {query}.", Memory("", memory.file)
        return "\n".join((f"About {query} I remember:", *texts)), Memory(texts[0], memory.file)

    return _call("memory_search", {"query": query}, report)


def _using(rest: str, memory: Memory) -> Call | None:
    tool, _, text = rest.partition(" ")
    text = text.strip()
    if not tool or (text and text[:4].lower() != "with"):
        return None
    text = text[4:].strip() or "{}"
    try:
        given = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        given = None  # broken: the node says how
    if isinstance(given, dict):
        text = json.dumps(
            {key: _meant(value, memory) if isinstance(value, str) else value for key, value in given.items()},
            ensure_ascii=False,
        )
    return Call(
        tool, text, lambda result, memory: (f"{tool} gave: {result.text}", Memory(result.text, memory.file))
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object, unless a key stands in it twice."""
    given = dict(pairs)
    if len(given) != len(pairs):
        raise ValueError("a key twice")
    return given


def _call(
    tool: str, arguments: dict[str, Any], report: Callable[[Result, Memory], tuple[str, Memory]]
) -> Call:
    return Call(tool, json.dumps(arguments, ensure_ascii=False), report)


def _meant(text: str, memory: Memory) -> str:
    """The text with "it" (as the whole of it) and "the result" replaced, once there is a result."""
    text = text.strip()
    if memory.result is None:
        return _unquoted(text)
    result = memory.result
    if text.lower() in _IT:
        return result
    if _unquoted(text) != text:
        return _unquoted(text)
    return _THE_RESULT.sub(lambda _: result, text)


def _unquoted(text: str) -> str:
    quoted = len(text) >= 2 and text[0] == text[-1] == '"'
    return text[1:-1] if quoted else text


def _name(text: str) -> str:
    return _unquoted(text.rstrip(":,!?").removesuffix("."))
