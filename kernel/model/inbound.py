"""How a message came here, and what it asks of the answer: made of what somebody says, and as the record has it. Pure.

The names in it are those of people and programs outside: ids of chats and users that anybody may have chosen. They are
held to what can be a key, a file's name and a line on a terminal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from kernel.abi import NO_OPTIONS, NOBODY, Attachment, Identity, Inbound, MessageOptions
from kernel.errors import Invalid
from kernel.operations.messages import MAX_ATTACHMENTS
from kernel.shapes import ShapeError, read, told
from kernel.values import canonical, clean, plain, size_of_text

MAX_NAME_BYTES = 128
"""Of what names a chat, a user or a message."""
MAX_CHANNEL_CHARS = 32
MAX_INBOUND_BYTES = 262_144
"""Of all of it, as JSON: texts of attachments and the schema of an answer with it."""
_CHANNEL = re.compile(r"[a-z0-9][a-z0-9_-]*").fullmatch
_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}").fullmatch
_SHA256 = re.compile(r"[0-9a-f]{64}").fullmatch
_NO_ATTACHMENT = Attachment("", "", 0, "")
_NOTHING = Inbound()


def inbound_of(
    channel: str,
    chat: str,
    user: str,
    ident: str,
    options: Mapping[str, Any],
    attachments: Sequence[Mapping[str, Any]],
) -> Inbound | None:
    """What somebody says of a message; None for nothing. Raises Invalid that names every fault."""
    faults: list[str] = []
    made = Inbound(
        channel, chat, user, ident, _options(options, faults), tuple(_attachments(attachments, faults))
    )
    if made == _NOTHING and not faults:
        return None
    faults += [fault for fault in _faults(made) if fault]
    if faults:
        raise Invalid("; ".join(faults))
    size = size_of_text(inbound_text(made))
    if size > MAX_INBOUND_BYTES:
        raise Invalid(
            f"what comes with the message has {size} bytes, limit {MAX_INBOUND_BYTES}: shorten the texts of attachments"
        )
    return made


def session_key(inbound: Inbound) -> str:
    """The session of its chat."""
    return f"{inbound.channel}:{inbound.chat}"


def inbound_text(inbound: Inbound | None) -> str:
    """As a record has it: canonical JSON of what is said; empty for nothing."""
    if inbound is None:
        return ""
    said = _said(inbound)
    if inbound.options != NO_OPTIONS:
        said["options"] = _said(inbound.options)
    if inbound.who != NOBODY:
        said["who"] = _said(inbound.who)
    if inbound.attachments:
        said["attachments"] = [_said(each) for each in inbound.attachments]
    return canonical(said)


def read_inbound(text: str) -> Inbound | None:
    """What :func:`inbound_text` wrote. Raises Invalid."""
    if not text:
        return None
    try:
        said = json.loads(text)
        options = read(MessageOptions, {**told(NO_OPTIONS), **said.pop("options", {})})
        attachments = [
            read(Attachment, {**told(_NO_ATTACHMENT), **each}) for each in said.pop("attachments", [])
        ]
        who = read(Identity, {**told(NOBODY), **said.pop("who", {})})
        names = {item.name: said.pop(item.name, "") for item in fields(Inbound) if item.type == "str"}
        if said or not {*map(type, names.values())} <= {str}:
            raise Invalid("it has a field that nobody knows, or one that is no text")
        return Inbound(**names, options=options, attachments=tuple(attachments), who=who)
    except (ShapeError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Invalid(f"how a message came here is not readable: {error}") from error


def _said(value: Any) -> dict[str, Any]:
    """The plain fields that are not as they are without being said."""
    usual = told(_USUAL[type(value)])
    return {
        name: each
        for name, each in told(value).items()
        if each != usual[name] and name not in ("options", "attachments", "who")
    }


_USUAL: Mapping[type, Any] = {
    Inbound: _NOTHING,
    MessageOptions: NO_OPTIONS,
    Attachment: _NO_ATTACHMENT,
    Identity: NOBODY,
}


# -- what is wrong with it -------------------------------------------------------------------------------------------


def _faults(made: Inbound) -> Iterator[str]:
    if made.channel:
        if len(made.channel) > MAX_CHANNEL_CHARS or not _CHANNEL(made.channel):
            yield (
                f"channel {made.channel[:40]!r} is not allowed: at most {MAX_CHANNEL_CHARS} small letters, digits, '-' "
                "and '_', such as telegram"
            )
    elif named := [name for name in ("chat", "user", "id") if getattr(made, name)]:
        yield f"{' and '.join(named)} without a channel: name the channel that it is of"
    for name in ("chat", "user", "id"):
        yield name_fault(name, getattr(made, name))


def name_fault(what: str, name: str) -> str:
    """Why a chat, a user or a message cannot have that name; empty where it can, or has none."""
    if not name:
        return ""
    size = size_of_text(name)
    if size > MAX_NAME_BYTES:
        return f"{what} has {size} bytes, limit {MAX_NAME_BYTES}"
    if not name.isprintable() or clean(name) != name or " " in name or set(name) & {"/", "\\"}:
        return f"{what} {name[:40]!r} is not allowed: no spaces, no '/' and '\\\\', and nothing that cannot be printed"
    if name in (".", ".."):
        return f"{what} {name!r} is not allowed: it names a directory"
    return ""


_WORDS: Mapping[str, Callable[[Any], bool]] = {
    "provider": lambda value: _is_word(value, 256),
    "model": lambda value: _is_word(value, 256),
    "temperature": lambda value: _is_number(value) and 0 <= value <= 2,
    "top_p": lambda value: _is_number(value) and 0 < value <= 1,
    "top_k": lambda value: type(value) is int and 1 <= value <= 100_000,
    "max_tokens": lambda value: type(value) is int and 1 <= value <= 10_000_000,
    "output_schema": lambda value: type(value) is dict,
}
_MEANT: Mapping[str, str] = {
    "provider": "a name of at most 256 characters",
    "model": "a name of at most 256 characters",
    "temperature": "a number from 0 to 2",
    "top_p": "a number above 0, to 1",
    "top_k": "a whole number from 1 to 100000",
    "max_tokens": "a whole number from 1 to 10000000",
    "output_schema": "a JSON Schema, which is an object",
}


def _options(options: Mapping[str, Any], faults: list[str]) -> MessageOptions:
    good = {}
    for name, value in options.items():
        if name not in _WORDS:
            faults.append(f"options: no option {str(name)[:40]!r}; there are {', '.join(_WORDS)}")
        elif not _WORDS[name](value):
            faults.append(f"options: {name} must be {_MEANT[name]}, not {_brief(value)}")
        else:
            good[name] = value
    if "output_schema" in good:
        good["output_schema"] = plain(good["output_schema"], "options: output_schema", MAX_INBOUND_BYTES)
    return MessageOptions(**good)


def _attachments(attachments: Sequence[Mapping[str, Any]], faults: list[str]) -> Iterator[Attachment]:
    if len(attachments) > MAX_ATTACHMENTS:
        faults.append(f"{len(attachments)} attachments, at most {MAX_ATTACHMENTS}")
        return
    for number, each in enumerate(attachments, 1):
        try:
            made = read(Attachment, {"text": "", **each})
        except ShapeError as error:
            faults.append(f"attachment {number}: {error}")
            continue
        found = list(_attachment_faults(made))
        faults += [f"attachment {number}: {fault}" for fault in found]
        if not found:
            yield Attachment(made.name, made.type, made.size, made.sha256, clean(made.text))


def _attachment_faults(made: Attachment) -> Iterator[str]:
    printable = made.name.isprintable() and clean(made.name) == made.name
    if not 0 < size_of_text(made.name) <= 255 or not printable or set(made.name) & {"/", "\\"}:
        yield f"name {made.name[:40]!r} is no name of a file: 1 to 255 bytes, no '/' and '\\', all of it printable"
    elif made.name in (".", ".."):
        yield f"name {made.name!r} is that of a directory"
    if not _TYPE(made.type):
        yield f"type {made.type[:40]!r} is no media type in small letters, such as image/png"
    if not 0 <= made.size <= 2**53:
        yield f"size {_brief(made.size)} is no number of bytes"
    if not _SHA256(made.sha256):
        yield "sha256 must be 64 hex digits in small letters"


def _is_word(value: object, limit: int) -> bool:
    return type(value) is str and 0 < len(value) <= limit and value.isprintable() and clean(value) == value


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _brief(value: object) -> str:
    return (
        f"{value!r:.40}" if not isinstance(value, int) or value.bit_length() < 128 else "a very large number"
    )
