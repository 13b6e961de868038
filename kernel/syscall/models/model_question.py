"""A question to a model as a cell asked it, and what the node makes of it. Pure.

The call's hash covers what the cell asked and nothing else: not which tools there are in this boot, not who answers by
default, and not in terms of what the cell told it. So a turn that is resumed under another configuration asks the same.
What the question was resolved to is recorded beside it.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Container, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernel.cell.conversation import Pieces, count_of, new_places, parts
from kernel.cell.link.frames import VALUE_BYTES
from kernel.cell.protocol import ModelQuestion, Terms, said_options
from kernel.errors import Invalid
from kernel.slices.calls import resolved_name
from kernel.slices.sessions import Session
from kernel.slices.turns import Call
from kernel.syscall.models.conversations import NO_MESSAGES, Messages, ReadMessages
from kernel.syscall.models.loading import LOADING
from kernel.turn.divergence import shown_question
from kernel.values import call_hash, canonical, clean, cut_bytes, sha256_hex

PROVIDER_CHARS = 64
MODEL_CHARS = 128
NAMED_CHARS = 256
"""A shorter result is said again: where it stands takes as much to say."""
MOST_COMPARED = 256
"""So many results at most are compared for one question: somebody may have made them alike."""
Said = Mapping[int, dict[str, Any]]
"""Messages by their place."""


@dataclass(frozen=True, slots=True)
class Question:
    """``messages``: what is known of all of them; ``said`` those that are here, by their place, ``texts`` the canonical
    JSON of those that the cell said with it. That of the others is made where it is needed, and not kept: a few bytes
    name a record many times, in many questions at once. ``rest``: the canonical JSON of all else that was asked.
    ``bytes``: size of the whole as UTF-8. ``told``: the question in few words. ``fault``: why nobody can be asked this,
    empty when nothing is wrong.
    """

    asked: ModelQuestion
    call_hash: str
    request_hash: str
    rest: str = ""
    messages: Messages = NO_MESSAGES
    said: Said = field(default_factory=dict)
    texts: Mapping[int, str] = field(default_factory=dict)
    bytes: int = 0
    told: str = ""
    fault: str = ""

    @property
    def whole(self) -> bool:
        """Whether all of its messages are here."""
        return len(self.said) == len(self.messages)

    @property
    def former_call_hash(self) -> str:
        """Of one that is whole. See :func:`former_call_hash`."""
        digests = map(self.messages.digest, range(len(self.messages)))
        texts = {self.messages.digest(place): self.text(place) for place in self.once}
        return former_call_hash((texts[digest] for digest in digests), self.rest)

    @property
    def once(self) -> Said:
        """Those that are here, each once, at the first of its places."""
        first: dict[bytes, int] = {}
        for place in self.said:
            first.setdefault(self.messages.digest(place), place)
        return {place: self.said[place] for place in first.values()}

    @property
    def cost_bytes(self) -> int:
        """What it costs whoever works on it, in whatever terms it was told."""
        return self.bytes + VALUE_BYTES * len(self.messages)

    def new_text(self, places: Iterable[int], without: Container[int], most_bytes: int) -> tuple[str, bool]:
        """The JSON of some that are here, those of ``without`` with no content, cut to ``most_bytes``, and whether it
        was. No more of it is made than that takes.
        """
        texts, size = [], 0
        for place in places:
            text = canonical({**self.said[place], "content": ""}) if place in without else self.text(place)
            texts.append(text)
            size += len(text) if place in without else self.messages.sizes[place]
            if size > most_bytes:
                break
        return cut_bytes("[" + ",".join(texts) + "]", most_bytes)

    def results(self, places: Sequence[int], calls: Iterable[Call]) -> dict[int, tuple[int, int]]:
        """Which of some that are here bring the result of one of ``calls`` to the model: by place, the entry that has
        it, and how many characters of it. The newest first, for they come in the order of the calls; not all are
        compared when there are many, and what is not found is merely said again.
        """
        ended = [
            (call.outcome_seq, call.outcome["result"])
            for call in calls
            if call.outcome is not None and call.outcome_seq >= 0
        ]
        found: dict[int, tuple[int, int]] = {}
        left = MOST_COMPARED
        for place in reversed(places):
            content = _long_result(self.said[place])
            for at in range(len(ended) - 1, -1, -1) if content else ():
                left -= 1
                if left < 0:
                    return found
                seq, result = ended[at]
                if result.startswith(content):
                    found[place] = seq, len(content)
                    del ended[at:]
                    break
        return found

    def text(self, place: int) -> str:
        """The canonical JSON of a message that is here."""
        return self.texts.get(place) or canonical(self.said[place])


def _long_result(message: Mapping[str, Any]) -> str:
    """What a tool gave, as a message says it; empty for all others, and when it is short."""
    content = message.get("content")
    long = message.get("role") == "tool" and type(content) is str and len(content) >= NAMED_CHARS
    return str(content) if long else ""


Reading = Generator[None, None, "Question | None"]


@dataclass(frozen=True, slots=True)
class Resolved:
    """Who is asked, and which tools are offered."""

    provider: str
    model: str
    tools: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return resolved_name(self.provider, self.model, self.tools)

    @property
    def alone(self) -> Resolved:
        """The same without tools."""
        return Resolved(self.provider, self.model)


@dataclass(frozen=True, slots=True)
class Base:
    """What a question may be told in terms of: ``last``, the newest of its session, or the records of the ``session``,
    which its turn was handed.
    """

    last: Messages = NO_MESSAGES
    session: Session | None = None

    def find(self, count: int, named: str) -> Generator[None, None, tuple[Messages | None, list[Any]]]:
        """What is known of a beginning, and its messages where they are here. None: it is not known."""
        known = self.last.beginning(count, named)
        if known is not None or self.session is None or self.session.records != count:
            return known, []
        digests, sizes = [], array("I")
        for turn in self.session.turns():
            if turn.sizes is None:
                read = ReadMessages()
                yield from read.read(turn.records)
                turn.digests, turn.sizes = read.known.digests, read.known.sizes
            digests.append(turn.digests)
            sizes += turn.sizes
        known = Messages(b"".join(digests), sizes).beginning(count, named)
        return known, [] if known is None else self.session.history()


def read_question(asked: ModelQuestion, base: Base, most_messages: int, most_bytes: int) -> Reading:
    """The question, slice by slice. Everything in ``asked`` is hostile. None: it is told in terms of what is not known
    here. Of one over ``most_bytes`` nothing is here but what was said with it. Raises :class:`Invalid`.
    """
    _check_count(len(asked.messages), most_messages)
    who = {"provider": asked.provider, "model": asked.model, "tools": asked.tools}
    rest = canonical({**who, **said_options(asked.options)})
    read_texts: list[str] = []
    read, said, terms = ReadMessages(read_texts.append), list(asked.messages), asked.terms
    if terms is None:
        yield from read.read(said)
        return _question(asked, rest, read.known, dict(enumerate(said)), dict(enumerate(read_texts)))
    known, records = yield from base.find(terms.count, terms.hash)
    if known is None:
        return None
    pieces = _checked_pieces(terms, len(said), most_messages)
    yield from read.read(said)
    messages, places = known.put_together(pieces, read.known), list(new_places(pieces))
    here, texts = dict(zip(places, said, strict=True)), dict(zip(places, read_texts, strict=True))
    if records and request_bytes(messages, rest) <= most_bytes:
        here = dict(enumerate(message for part in parts(pieces, records, said) for message in part))
    return _question(asked, rest, messages, here, texts)


def _question(
    asked: ModelQuestion,
    rest: str,
    messages: Messages,
    said: Said,
    texts: Mapping[int, str],
) -> Question:
    text, told = request_text(messages, rest), shown_question(asked, len(messages), texts)
    size = request_bytes(messages, rest)
    return Question(
        asked, call_hash("model", text), sha256_hex(text), rest, messages, said, texts, size, told
    )


def _checked_pieces(terms: Terms, said: int, most_messages: int) -> Pieces:
    try:
        _check_count(count_of(terms.pieces, terms.count, said), most_messages)
    except ValueError as error:
        raise Invalid(f"the request is not put together: {error}") from error
    return terms.pieces


def _check_count(messages: int, most_messages: int) -> None:
    if messages > most_messages:
        raise Invalid(f"model request of {messages} messages, limit {most_messages}")


def refused_question(why: str) -> Question:
    """One that cannot be put. Whoever asks it again is refused again, in the same words."""
    hashed = call_hash("model", "", why)
    return Question(ModelQuestion(()), hashed, hashed, fault=why)


def resolve(
    question: Question, rights: Container[str], tools: Container[str], who: tuple[str, str]
) -> Resolved:
    """``who``: provider and model, the defaults in place of empty ones. What is not held is not offered, but for what
    nobody runs.
    """
    asked = dict.fromkeys(question.asked.tools)
    offered = [name for name in asked if (name in rights and name in tools) or name == LOADING.name]
    return Resolved(who[0], who[1], offered)


def asked_names(question: Question) -> tuple[str, str]:
    """Provider and model as they were asked for, bounded."""
    asked = question.asked
    return clean(asked.provider)[:PROVIDER_CHARS], clean(asked.model)[:MODEL_CHARS]


def request_text(messages: Messages, rest: str) -> str:
    """The canonical text of a request, in which a hash stands for its messages. ``rest``: that of all but them."""
    return f'{{"messages":"{messages.hash}",{rest[1:]}'


def request_bytes(messages: Messages, rest: str) -> int:
    """Bytes of the canonical text of a whole request."""
    between = max(0, len(messages) - 1)
    return len('{"messages":[') + sum(messages.sizes) + between + len("],") + len(rest.encode()) - 1


def former_call_hash(texts: Iterable[str], rest: str) -> str:
    """The hash by which builds before conversations by reference knew the call: that of the text of all messages, which
    is nowhere put together.
    """
    hashed = hashlib.sha256(b'model\0{"messages":[')
    for place, text in enumerate(texts):
        hashed.update(b"," if place else b"")
        hashed.update(text.encode())
    hashed.update(("]," + rest[1:]).encode())
    return hashed.hexdigest()
